"""Conversations and their messages (specification, "Conversation", "Message"; contract 8).

A message and the turn that answers it are one row: a user's message that still owes its reply has a due
time, like a delivery, and a worker claims it with a lease. The conversation's row holds the lock (`turn`, the
message that is being answered), what the agent has proposed, and whether a person has taken over.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import PydanticCustomError

from shared import customers
from shared.core import clock, ids, mode, table
from shared.core.errors import ApiError, not_found_in_body
from shared.core.keys import Scope, due, due_shard
from shared.resources import fields, lists, records
from shared.resources.lists import Listed
from shared.resources.records import Document, Found
from shared.work import hints

WINDOW = 20
"""Seconds, from a request's start, that it waits for a reply; never scaled."""
GIVE_UP = 108 * clock.SECOND
"""The age at which a turn is ended by an apology, so that it holds its conversation for 120 s at the most."""
BUSY_RETRY = 2
ACTIVE, ENDED = STATUSES = ("active", "ended")
PENDING, COMPLETE, FAILED = "pending", "complete", "failed"
SIMULATED_TIMEOUT = "[[sim:timeout]]"
_SIMULATED_WINDOW = 2
_SIMULATED_REPLY = 7 * clock.SECOND


def _status(text: str) -> tuple[str, str]:
    if text not in STATUSES:
        raise PydanticCustomError("parameter_invalid", "status must be active or ended")
    return "status", text


LISTED = Listed(
    kind="conversation",
    prefix="conv_",
    slots=("external_id", "customer_id", "status"),
    pairs=(("external_id", "customer_id"), ("external_id", "status"), ("customer_id", "status")),
    filters={
        "external_id": lambda text: ("external_id", text),
        "customer_id": lambda text: ("customer_id", text),
        "status": _status,
    },
)
MESSAGES = Listed(kind="message", prefix="msg_", created=None, ordered=True)


def new(scope: Scope, external_id: str | None, customer_id: str | None, metadata: Mapping[str, Any] | None) -> Document:
    """An active conversation without messages."""
    return records.new(
        LISTED,
        scope,
        status=ACTIVE,
        external_id=external_id,
        customer_id=customer_id,
        metadata=dict(metadata or {}),
        last_message_at=None,
        ended_at=None,
    )


def messages_pk(scope: Scope, conversation_id: str) -> str:
    """The partition of a conversation's messages."""
    return scope.pk(LISTED.kind, conversation_id)


def thread_key(scope: Scope, external_id: str) -> tuple[str, str]:
    """The row that makes an external id unique among active conversations."""
    return scope.pk("thread", hashlib.sha256(external_id.encode()).hexdigest()), "thread"


def of_thread(scope: Scope, external_id: str) -> Found | None:
    """The active conversation of the caller's thread, if there is one."""
    thread = table.get(*thread_key(scope, external_id))
    return None if thread is None else records.find(LISTED, scope, thread["conversation_id"])


def insertion(
    scope: Scope,
    conversation: Document,
    internal: Mapping[str, table.Value] | None = None,
    refusal: table.Refusal = table.decide_again,
) -> list[table.Operation]:
    """The writes that create a conversation; `refusal` where its thread has an active one."""
    writes: list[table.Operation] = [records.insertion(LISTED, scope, conversation, **(internal or {}))]
    if conversation["external_id"] is not None:
        pk, sk = thread_key(scope, conversation["external_id"])
        row = {"pk": pk, "sk": sk, "kind": "thread", "conversation_id": conversation["id"]}
        writes.append(table.Put(row, refusal=refusal))
    return writes


def customer_of(scope: Scope, given: Mapping[str, Any] | None) -> tuple[str | None, list[table.Operation]]:
    """Whom a request's `customer` means, and the writes that make or hold them. Raises ApiError.

    Matched by id, else external_id, else phone among the live ones, the newest first; else created.
    """
    if given is None:
        return None, []
    if "id" in given:
        return given["id"], [customers.must_be_live(scope, given["id"], "customer[id]")]
    for field in ("external_id", "phone"):
        if given.get(field) is not None:
            query = lists.Query(limit=1, starting_after=None, wanted={field: (given[field],)})
            for row in lists.page(scope, customers.LISTED, query).rows:
                return row["sk"], [table.Check(row["pk"], row["sk"])]
    customer = customers.new(scope, given)
    return customer["id"], [records.insertion(customers.LISTED, scope, customer)]


def check_customer(given: Mapping[str, Any] | None) -> None:
    """Raises ApiError for a `customer` that names nobody, or names somebody twice."""
    if given is None:
        return
    if "id" in given:
        if len(given) > 1:
            raise ApiError("parameters_exclusive", "customer[id] goes alone.", param="customer")
        if not ids.is_id(customers.LISTED.prefix, given["id"]):
            raise not_found_in_body("customer", given["id"], "customer[id]")
    elif all(given.get(name) is None for name in ("external_id", "phone", "email")):
        message = "customer needs one of id, external_id, phone and email."
        raise ApiError("parameter_missing", message, param="customer")


def ended(conversation: Document) -> Document:
    """The conversation, ended; the very same object where it already is."""
    if conversation["status"] == ENDED:
        return conversation
    changed = records.touched(conversation, {"status": ENDED, "ended_at": clock.iso(clock.now())})
    return changed | {"ended_at": changed["updated_at"]}


def ending(scope: Scope, conversation: Document) -> list[table.Operation]:
    """The writes beside the conversation's own that free its thread."""
    if conversation["external_id"] is None:
        return []
    pk, sk = thread_key(scope, conversation["external_id"])
    mine = {":mine": conversation["id"]}
    return [table.Delete(pk, sk, condition="attribute_not_exists(pk) OR conversation_id = :mine", values=mine)]


def must_take_message(found: Found) -> None:
    """Raises `conversation_ended`, or `conversation_busy` while a turn holds the lock."""
    if found.doc["status"] == ENDED:
        raise ApiError("conversation_ended")
    if "turn" in found.row:
        raise ApiError("conversation_busy", headers={"Retry-After": str(BUSY_RETRY)})


def asked(scope: Scope, conversation: Document, content: str, markdown: bool) -> table.Row:
    """The row of a user's message, which owes its reply from now on."""
    now, last = clock.now(), conversation["last_message_at"]
    # Whatever this host's clock says, the message stands after the reply before it.
    asked_at = now if last is None else max(now, clock.parse(last) + 1)
    doc = {
        "id": ids.new(MESSAGES.prefix, asked_at),
        "object": MESSAGES.kind,
        "role": "user",
        "content": content,
        "created_at": clock.iso(asked_at),
        "reply_status": PENDING,
    }
    at = now + (_SIMULATED_REPLY if _is_simulated_timeout(scope, content) else 0)
    return {
        "pk": messages_pk(scope, conversation["id"]),
        "sk": doc["id"],
        "kind": MESSAGES.kind,
        "doc": fields.compact(doc),
        "conversation_id": conversation["id"],
        "markdown": markdown,
        "asked_at": asked_at,
        "next_attempt": at,
        "due": due(at + 30 * clock.SECOND),
        "due_shard": due_shard(doc["id"]),
    }


def window(scope: Scope, content: str) -> int:
    """Seconds, from the request's start, that the request which stores this message waits for the reply.

    A retry with the same Idempotency-Key waits `WINDOW`, whatever the message (contract 10).
    """
    return _SIMULATED_WINDOW if _is_simulated_timeout(scope, content) else WINDOW


def _is_simulated_timeout(scope: Scope, content: str) -> bool:
    return content == SIMULATED_TIMEOUT and mode.simulated(scope)


def locked(conversation: Document, message: table.Row) -> tuple[Document, dict[str, table.Value]]:
    """The conversation with a new message, and its lock."""
    at = clock.iso(message["asked_at"])
    return records.touched(conversation, {"last_message_at": at}), {"turn": message["sk"]}


def hints_of(scope: Scope, message: table.Row) -> list[hints.Hint]:
    """What tells the worker of a turn: now, and once more when it would have to be given up."""
    told = {
        "project_id": scope.project_id,
        "livemode": scope.livemode,
        "conversation_id": message["conversation_id"],
        "message_id": message["sk"],
    }
    group = scope.pk("turns")
    wait = max(0, message["next_attempt"] - clock.now())
    first = hints.Hint(told, group, delay=-(-wait // clock.SECOND))
    return [first, hints.Hint(told, group, delay=GIVE_UP // clock.SECOND + 1)]


def transcript(scope: Scope, conversation_id: str, most: int) -> Sequence[Document]:
    """The last messages of a conversation, oldest first, `most` at the most."""
    page = next(table.query(messages_pk(scope, conversation_id), limit=most), [])
    return [json.loads(row["doc"]) for row in reversed(page)]


def thread_taken(old: table.Row | None) -> ApiError:
    """The refusal of a second active conversation on a thread."""
    return ApiError("conversation_exists", param="external_id")
