"""What can be done with a conversation: create, write in, take, release, resume, end (promises 8, 11).

A command returns the conversation or message afterwards and the writes of one transaction, which the caller commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from shared.conversations import participants, turns
from shared.conversations.resource import (
    CONVERSATIONS,
    MESSAGES,
    Conversation,
    ConversationCreate,
    ConversationRecord,
    ConversationStatus,
    Message,
    MessageCreate,
    MessageRow,
    PostedMessage,
    ReplyStatus,
    Role,
    ThreadMessageCreate,
    UserMessageCreate,
    messages_pk,
    of_thread,
    thread_key,
)
from shared.conversations.turns import ClaimedTurn
from shared.core import clock, ids
from shared.core.errors import ApiError, Code
from shared.resources import fields
from shared.resources.collections import Writes
from shared.resources.documents import revise
from shared.store import table
from shared.store.keys import Scope
from shared.store.transactions import Change
from shared.tasks import tasks

BUSY_RETRY_S = 2
"""The `Retry-After` of `conversation_busy` (seconds)."""


def create(scope: Scope, body: ConversationCreate) -> Change[Conversation]:
    """Create a conversation, and its customer if none matches.

    Raises an error of the customer. The writes raise `conversation_exists`, `customer_deleted` or `resource_not_found`.
    """
    participants.check(body.customer)
    customer_id, writes = participants.resolve(scope, body.customer)
    conversation = _new(scope, body.external_id, customer_id, body.metadata)
    thread_taken = table.Refusal(lambda _: ApiError(Code.CONVERSATION_EXISTS, param="external_id"))
    return Change(conversation, [*writes, *_insert_writes(scope, conversation, thread_taken=thread_taken)])


def _new(
    scope: Scope, external_id: str | None, customer_id: str | None, metadata: Mapping[str, Any] | None
) -> Conversation:
    """A new conversation without messages, which is not stored."""
    return {
        **CONVERSATIONS.common_fields(scope),
        "object": "conversation",
        "status": ConversationStatus.ACTIVE,
        "external_id": external_id,
        "customer_id": customer_id,
        "metadata": dict(metadata or {}),
        "last_message_at": None,
        "ended_at": None,
        "waiting": False,
        "handoff": None,
    }


def _insert_writes(
    scope: Scope,
    conversation: Conversation,
    internal: Mapping[str, table.Value] | None = None,
    thread_taken: table.Refusal | None = None,
) -> Writes[table.Put]:
    """The writes that create a conversation.

    `thread_taken` is the refusal if its `external_id` already has an active conversation.
    """
    writes = CONVERSATIONS.insert_writes(scope, conversation, internal)
    if conversation["external_id"] is None:
        return writes
    pk, sk = thread_key(scope, conversation["external_id"])
    row = {"pk": pk, "sk": sk, "kind": "thread", "conversation_id": conversation["id"]}
    return *writes, table.Put(row, refusal=thread_taken)


def end(
    scope: Scope,
    record: ConversationRecord,
    reply_at: str | None = None,
    internal: table.Attributes | None = None,
) -> Change[Conversation]:
    """End a conversation as it was read, which frees its `external_id`. Nothing changes if it has already ended.

    The agent's last reply ends it with the time of the reply, and with changes to its internal attributes.
    """
    if record.doc["status"] == ConversationStatus.ENDED:
        return Change(record.doc)
    ended: Conversation = {
        **record.doc,
        "last_message_at": reply_at or record.doc["last_message_at"],
        "status": ConversationStatus.ENDED,
        "ended_at": clock.iso(clock.now()),
        "waiting": False,
        "handoff": None,
    }
    conversation = revise(record.doc, ended)
    conversation = {**conversation, "ended_at": conversation["updated_at"]}
    writes = CONVERSATIONS.replace_writes(scope, record, conversation, internal)
    return Change(conversation, [*writes, *free_thread_writes(scope, conversation)])


def free_thread_writes(scope: Scope, conversation: Conversation) -> list[table.Write]:
    """The write that frees the `external_id` of a conversation; `[]` if it has none."""
    if conversation["external_id"] is None:
        return []
    pk, sk = thread_key(scope, conversation["external_id"])
    return [table.Delete(pk, sk, table.ABSENT | table.equals("conversation_id", conversation["id"]))]


def resume(scope: Scope, id: str) -> Change[Conversation]:
    """Give a conversation back to the agent, which replies to the next message. Nothing changes if nobody waits.

    Raises `resource_not_found` or `conversation_ended`.
    """
    record = _find_active(scope, id)
    if not record.doc["waiting"] and "handed_off" not in record.row:
        return Change(record.doc)
    resumed: Conversation = {**record.doc, "waiting": False, "handoff": None}
    conversation = revise(record.doc, resumed)
    return Change(
        conversation, CONVERSATIONS.replace_writes(scope, record, conversation, {"held": None, "handed_off": None})
    )


def taken_by(record: ConversationRecord) -> str | None:
    """Who has taken a conversation that waits for a person; None if nobody has."""
    handoff = record.doc["handoff"]
    return record.row.get("taken_by") if handoff and record.row.get("taken_at") == handoff["at"] else None


def take(scope: Scope, id: str, who: str) -> Change[Conversation]:
    """Record which person of the business takes a conversation that waits. Nothing changes if nobody waits.

    Raises `resource_not_found`, or `conflict` if somebody else has taken it. It has no event.
    """
    record = CONVERSATIONS.find(scope, id)
    owner, handoff = taken_by(record), record.doc["handoff"]
    if handoff is None or owner == who:
        return Change(record.doc)
    if owner is not None:
        raise ApiError(Code.CONFLICT, f"{owner} has taken this conversation. It can be released first.")
    taken = {"taken_by": who, "taken_at": handoff["at"]}
    return Change(record.doc, CONVERSATIONS.replace_writes(scope, record, record.doc, taken))


def release(scope: Scope, id: str) -> Change[Conversation]:
    """Let others take the conversation, whoever has taken it. Raises `resource_not_found`."""
    record = CONVERSATIONS.find(scope, id)
    if taken_by(record) is None:
        return Change(record.doc)
    nobody = {"taken_by": None, "taken_at": None}
    return Change(record.doc, CONVERSATIONS.replace_writes(scope, record, record.doc, nobody))


def add_staff_message(scope: Scope, id: str, content: str) -> Change[PostedMessage]:
    """Add the message of a person of the business. The agent does not reply, and who waits goes on waiting.

    Raises `resource_not_found` or `conversation_ended`. The writes do not lock the conversation, which may be changed
    meanwhile, but not end.
    """
    conversation = _find_active(scope, id).doc
    message = _message(conversation, Role.STAFF, content)
    row: table.Row = {
        "pk": messages_pk(scope, id),
        "sk": message["id"],
        # Its stream record is found by this kind, and the erasure of the customer removes its event.
        "kind": "staff_message",
        "v": 1,
        "doc": fields.to_json(message),
        "conversation_id": id,
        "customer_id": conversation["customer_id"],
    }
    index, active = CONVERSATIONS.with_value(scope, "status", ConversationStatus.ACTIVE)
    # The version stays: what has read the conversation before may still replace it.
    is_active = table.equals(index, active)
    latest = table.Update(scope.pk(CONVERSATIONS.kind), id, set={"latest_message": message["id"]}, condition=is_active)
    return Change({**message, "reply": None, "conversation": conversation}, [table.Put(row), latest])


@dataclass(frozen=True)
class SentMessage:
    """A user's message that was stored."""

    row: MessageRow
    turn: ClaimedTurn | None
    """Its turn, if the request that stores it has claimed it."""
    conversation: ConversationRecord
    """The conversation after the message."""


def add_user_message(
    scope: Scope, id: str, body: MessageCreate, seconds_left: Callable[[], float]
) -> Change[SentMessage]:
    """Add a user's message, which locks the conversation. The request claims its turn if `seconds_left` are enough.

    Raises `resource_not_found`, `conversation_ended`, `conversation_busy`, `rate_limit_exceeded` or an error of the
    customer.
    """
    participants.check(body.customer)
    return _add_message(scope, _find_active(scope, id), body, seconds_left)


def add_user_message_to_thread(
    scope: Scope, body: ThreadMessageCreate, seconds_left: Callable[[], float]
) -> Change[SentMessage]:
    """As `add_user_message`, to the active conversation of a thread. If there is none, the message begins one."""
    participants.check(body.customer)
    record = of_thread(scope, body.external_conversation_id)
    if record is not None:
        return _add_message(scope, record, body, seconds_left)
    customer_id, writes = participants.resolve(scope, body.customer)
    conversation = _new(scope, body.external_conversation_id, customer_id, body.metadata)
    message = _new_message(scope, conversation, body)
    inserts = _insert_writes(scope, _after(conversation, message), _internal(message))
    return _with_turn(scope, message, CONVERSATIONS.record(inserts[0].row), [*writes, *inserts], seconds_left)


def _add_message(
    scope: Scope, record: ConversationRecord, body: UserMessageCreate, seconds_left: Callable[[], float]
) -> Change[SentMessage]:
    if "turn" in record.row:
        raise ApiError(Code.CONVERSATION_BUSY, headers={"Retry-After": str(BUSY_RETRY_S)})
    message = _new_message(scope, record.doc, body)
    writes = CONVERSATIONS.replace_writes(scope, record, _after(record.doc, message), _internal(message))
    return _with_turn(scope, message, CONVERSATIONS.after_replace(record, writes[0]), writes, seconds_left)


def _with_turn(
    scope: Scope,
    message: MessageRow,
    conversation: ConversationRecord,
    writes: Sequence[table.Write],
    seconds_left: Callable[[], float],
) -> Change[SentMessage]:
    """The message with its slot and its turn, besides the `writes` of its conversation."""
    row, slot = turns.acquire_slot(scope, message)
    turn = turns.begin(row, seconds_left())
    row = row if turn is None else turn.claim.row
    return Change(SentMessage(row, turn, conversation), [*writes, table.Put(dict(row)), *slot])


def _after(conversation: Conversation, message: MessageRow) -> Conversation:
    after: Conversation = {**conversation, "last_message_at": clock.iso(message["asked_at"])}
    return revise(conversation, after)


def _internal(message: MessageRow) -> dict[str, table.Value]:
    """The attributes of the conversation while the reply to this message is pending."""
    return {"turn": message["sk"], "latest_message": message["sk"]}


def _new_message(scope: Scope, conversation: Conversation, body: UserMessageCreate) -> MessageRow:
    """The row of a new user's message, whose reply is due."""
    message = _message(conversation, Role.USER, body.content)
    row: MessageRow = {
        "pk": messages_pk(scope, conversation["id"]),
        "sk": message["id"],
        "kind": MESSAGES.kind,
        "doc": fields.to_json({**message, "reply_status": ReplyStatus.PENDING}),
        "conversation_id": conversation["id"],
        "markdown": body.markdown,
        "asked_at": clock.parse(message["created_at"]),
    }
    due = tasks.due_attributes(message["id"], clock.now() + turns.reply_delay_ms(scope, body.content))
    return cast("MessageRow", {**row, **due})


def _message(conversation: Conversation, role: Role, content: str) -> Message:
    """A new message. It is ordered after the previous reply, even if this host's clock is behind."""
    now, last = clock.now(), conversation["last_message_at"]
    at = now if last is None else max(now, clock.parse(last) + 1)
    return {
        "id": ids.new(MESSAGES.prefix, at),
        "object": "message",
        "role": role,
        "content": content,
        "created_at": clock.iso(at),
    }


def _find_active(scope: Scope, id: str) -> ConversationRecord:
    record = CONVERSATIONS.find(scope, id)
    if record.doc["status"] == ConversationStatus.ENDED:
        raise ApiError(Code.CONVERSATION_ENDED)
    return record
