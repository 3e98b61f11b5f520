"""A turn: the agent's answer to one message, and all that it changes, in one transaction (contract 8)."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared import appointments, customers
from shared.agent import Reply, plain_text
from shared.agent.tools import Proposal, Tools
from shared.calls import placing, sessions
from shared.conversations import conversations
from shared.conversations.conversations import COMPLETE, FAILED, LISTED, MESSAGES
from shared.core import clock, ids, table
from shared.core.keys import Scope, due
from shared.projects import usage
from shared.resources import fields, lists, records
from shared.resources.records import Document, Found

LEASE = 50 * clock.SECOND
APOLOGY_LEASE = 5 * clock.SECOND
"""An apology takes one commit; a worker that dies over it is soon followed by another."""
WORKERS = 3
"""How many workers may die over a turn before it is given up."""
APPOINTMENTS = 50
AGENT_FAILED = "agent_failed"
"""The reason of the handoff that a turn ends with if the agent failed, not because somebody wished for a person."""
APOLOGY = "Sorry, something went wrong on my side. I have asked a person of our team to get back to you."
HOLDING = "A person of our team has your conversation and will answer you here. I have passed your message on."
FAREWELL_BY_DELETED = "I cannot help with this one myself. I have asked a person of our team to get back to you."


@dataclass(frozen=True)
class Turn:
    """A message that this worker, and for the time of its lease no other, answers."""

    scope: Scope
    row: table.Row
    token: str

    @property
    def conversation_id(self) -> str:
        """The conversation that it belongs to."""
        return str(self.row["conversation_id"])

    @property
    def message(self) -> Document:
        """The user's message."""
        found: Document = json.loads(self.row["doc"])
        return found

    @property
    def hopeless(self) -> bool:
        """Whether the turn's time is over, or worker after worker died over it."""
        age = clock.now() - int(self.row["asked_at"])
        return age >= conversations.GIVE_UP or int(self.row.get("tries", 0)) > WORKERS

    @property
    def seconds(self) -> float:
        """What is left of the lease for the agent."""
        return max(1.0, (int(self.row["lease_until"]) - clock.now()) / clock.SECOND - 5)


def claim(scope: Scope, conversation_id: str, message_id: str) -> Turn | None:
    """Take the turn, if it is due and nobody else has it."""
    pk, now, token = conversations.messages_pk(scope, conversation_id), clock.now(), uuid.uuid4().hex
    row = table.get(pk, message_id)
    if row is None or row.get("next_attempt", now + 1) > now or row.get("lease_until", 0) > now:
        return None
    # No lease lasts beyond the moment at which the turn has to be given up.
    give_up = row["asked_at"] + conversations.GIVE_UP
    until = now + APOLOGY_LEASE if now >= give_up else min(now + LEASE, give_up)
    seen = row.get("lease")
    update = table.Update(
        pk,
        message_id,
        set={"lease": token, "lease_until": until, "due": due(until), "tries": row.get("tries", 0) + 1},
        condition="attribute_exists(next_attempt) AND " + ("lease = :seen" if seen else "attribute_not_exists(lease)"),
        values={":seen": seen} if seen else {},
    )
    try:
        return Turn(scope, table.update(update), token)
    except table.Refused as refused:
        old = refused.old
        return Turn(scope, old, token) if old and old.get("lease") == token else None


def coming_appointments(scope: Scope, customer_id: str) -> list[Found]:
    """The customer's appointments that have not passed, soonest first."""
    query = lists.Query(
        limit=APPOINTMENTS,
        starting_after=None,
        wanted={"customer_id": (customer_id,)},
        least_time=clock.iso(clock.now()),
    )
    rows = lists.page(scope, appointments.LISTED, query).rows
    found = [records.of_row(row) for row in reversed(rows)]
    return [item for item in found if item.doc["status"] != appointments.CANCELLED]


def customer(scope: Scope, customer_id: str) -> table.Row | None:
    """The conversation's customer, None if there is nobody to be helped any more."""
    return table.get(scope.pk(customers.LISTED.kind), customer_id)


def proposal(conversation: Found) -> Proposal | None:
    """What the agent proposed in the turn before."""
    kept = conversation.row.get("proposal")
    return None if kept is None else Proposal(**json.loads(kept))


def commit(turn: Turn, conversation: Found, reply: Reply, tools: Tools, *, failed: bool = False) -> bool:
    """Write the reply and all that belongs to it; False where something changed meanwhile and must be read anew.

    Of a conversation that was ended meanwhile the reply is kept and what the tools did is dropped. Raises ApiError
    where the call that the tools asked for cannot be placed.
    """
    if conversation.doc["status"] == conversations.ENDED:
        tools = Tools(found=(), message=tools.message)
    scope, now = turn.scope, max(clock.now(), int(turn.row["asked_at"]) + 1)
    actions, placed = list(tools.actions), None
    if tools.wants_call:
        placed = placing.place(scope, conversation.doc["customer_id"], placing.Order(channel=sessions.PHONE))
        actions.append({"type": "call_requested", "session_id": placed.session["id"]})
    answer = {
        "id": ids.new(MESSAGES.prefix, now),
        "object": MESSAGES.kind,
        "role": "assistant",
        "content": reply.content,
        "created_at": clock.iso(now),
        "actions": actions,
    }
    after = records.touched(conversation.doc, {"last_message_at": answer["created_at"]})
    ends = any(action["type"] == "conversation_ended" for action in tools.actions)
    if ends:
        after = conversations.ended(after)
    message = turn.message | {"reply_status": FAILED if failed else COMPLETE}
    writes: list[table.Operation] = [
        table.Put(_message_row(turn, answer)),
        records.change(LISTED, scope, conversation, after, internal=_unlocked(turn, conversation, tools)),
        *(conversations.ending(scope, after) if ends else []),
    ]
    if tools.change is not None:
        writes.append(records.change(appointments.LISTED, scope, *tools.change))
        # For a customer who was deleted meanwhile the agent does nothing any more.
        writes.append(customers.must_be_live(scope, conversation.doc["customer_id"], "customer"))
    if placed is not None:
        writes += placed.writes
    if scope.livemode:
        writes.append(table.Put(_usage(turn, reply, now)))
    writes.append(_answered(turn, message, frozen(message, answer, after, markdown=turn.row["markdown"])))
    try:
        table.write(writes, turn.token)
    except (table.Refused, table.Contended):
        return False
    if placed is not None:
        placing.tell(scope, placed)
    return True


def release(turn: Turn) -> None:
    """Give the turn back for another worker."""
    update = table.Update(
        turn.row["pk"],
        turn.row["sk"],
        set={"lease": None, "lease_until": None},
        condition="lease = :token",
        values={":token": turn.token},
    )
    with contextlib.suppress(table.Refused):
        table.update(update)


def frozen(message: Document, answer: Document, conversation: Document, *, markdown: bool) -> str:
    """The body of the 201: the user's message with the reply and the conversation."""
    shown = answer if markdown else answer | {"content": plain_text.plain(answer["content"])}
    return fields.compact(message | {"reply": shown, "conversation": conversation})


def _message_row(turn: Turn, answer: Document) -> table.Row:
    row = {"pk": turn.row["pk"], "sk": answer["id"], "kind": MESSAGES.kind, "doc": fields.compact(answer)}
    return row | {"conversation_id": turn.conversation_id}


def _unlocked(turn: Turn, conversation: Found, tools: Tools) -> Mapping[str, table.Value | None]:
    wished = any(action["type"] == "handoff" and action["reason"] != AGENT_FAILED for action in tools.actions)
    handed_off = bool(conversation.row.get("handed_off")) or wished
    kept = tools.proposed and fields.compact(vars(tools.proposed))
    unlocked: dict[str, table.Value | None] = {"proposal": kept or None, "handed_off": handed_off or None}
    # The lock may be another turn's by now, if this one was given up.
    if conversation.row.get("turn") == turn.row["sk"]:
        unlocked["turn"] = None
    return unlocked


def _answered(turn: Turn, message: Document, response: str) -> table.Update:
    owed: Sequence[str] = ("next_attempt", "due", "due_shard", "lease", "lease_until", "hints")
    return table.Update(
        turn.row["pk"],
        turn.row["sk"],
        set={"doc": fields.compact(message), "answer": response, **dict.fromkeys(owed)},
        condition="lease = :token",
        values={":token": turn.token},
    )


def _usage(turn: Turn, reply: Reply, now: int) -> table.Row:
    used = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
    return usage.row(turn.scope, turn.row["sk"], now, messages=1, model=reply.usage.model, **used)
