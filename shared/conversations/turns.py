"""Turns: the agent's answer to one message, and all that it changes, in one transaction (contract 8).

The message's row owes the answer (`shared/work/owed.py`). Whoever claims it lets the agent answer
(`shared/conversations/answering.py`) and commits the reply, what the tools did, the frozen response and the end of
the conversation's lock together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from shared import appointments, customers
from shared.agent import Reply, plain_text
from shared.agent.tools import Proposal, Tools
from shared.appointments import APPOINTMENTS, AppointmentRecord
from shared.calls import placing, sessions
from shared.conversations import conversations
from shared.conversations.conversations import (
    COMPLETE,
    CONVERSATIONS,
    FAILED,
    MESSAGES,
    AnsweredMessage,
    Conversation,
    ConversationRecord,
    Message,
)
from shared.core import clock, ids, table
from shared.core.keys import Scope
from shared.customers import CUSTOMERS
from shared.projects import usage
from shared.resources import documents, fields
from shared.resources.lists import Query
from shared.work import owed

LEASE = 50 * clock.SECOND
APOLOGY_LEASE = 5 * clock.SECOND
"""An apology takes one commit; a worker that dies over it is soon followed by another."""
WORKERS = 3
"""How many workers may die over a turn before it is given up."""
TIME_KEPT = 5
"""Seconds of the lease that are kept for the commit."""
APPOINTMENTS_SHOWN = 50
"""The most appointments that the agent is shown."""
AGENT_FAILED = "agent_failed"
"""The reason of the handoff that a turn ends with if the agent failed, not because somebody asked for a person."""


@dataclass(frozen=True)
class Turn:
    """A message that this worker, and until its lease expires no other, answers."""

    scope: Scope
    work: owed.Claim

    @property
    def id(self) -> str:
        """The message's id."""
        return str(self.work.row["sk"])

    @property
    def conversation_id(self) -> str:
        """The conversation that it belongs to."""
        return str(self.work.row["conversation_id"])

    @property
    def message(self) -> Message:
        """The user's message."""
        message: Message = json.loads(self.work.row["doc"])
        return message

    @property
    def asked_at(self) -> int:
        """When the message was sent (milliseconds)."""
        return int(self.work.row["asked_at"])

    @property
    def hopeless(self) -> bool:
        """Whether the turn's time has passed, or worker after worker died over it: it ends by an apology."""
        return clock.now() >= self.asked_at + conversations.GIVE_UP or self.work.lost_workers >= WORKERS

    @property
    def seconds(self) -> float:
        """Seconds of the lease that are left for the agent."""
        return max(1.0, self.work.seconds_left - TIME_KEPT)


def claim(scope: Scope, conversation_id: str, message_id: str) -> Turn | None:
    """Claim the turn, if it is due and no other worker has it."""
    now = clock.now()
    # A message's id holds the time at which it was sent. No lease lasts beyond the moment at which the turn has to
    # be given up.
    give_up = ids.instant(MESSAGES.prefix, message_id) + conversations.GIVE_UP
    until = now + APOLOGY_LEASE if now >= give_up else min(now + LEASE, give_up)
    work = owed.claim(conversations.messages_pk(scope, conversation_id), message_id, until)
    return Turn(scope, work) if isinstance(work, owed.Claim) else None


def coming_appointments(scope: Scope, customer_id: str) -> list[AppointmentRecord]:
    """The customer's appointments that have not passed, soonest first."""
    query = Query(
        limit=APPOINTMENTS_SHOWN,
        starting_after=None,
        filters={"customer_id": (customer_id,)},
        min_time=clock.iso(clock.now()),
    )
    rows = APPOINTMENTS.page(scope, query).rows
    coming = [APPOINTMENTS.record(row) for row in reversed(rows)]
    return [record for record in coming if record.doc["status"] != appointments.CANCELLED]


def customer(scope: Scope, customer_id: str) -> table.Row | None:
    """The row of the conversation's customer, None if the customer is deleted."""
    return table.get(scope.pk(CUSTOMERS.kind), customer_id)


def proposal(conversation: ConversationRecord) -> Proposal | None:
    """What the agent proposed in the turn before."""
    kept = conversation.row.get("proposal")
    return None if kept is None else Proposal(**json.loads(kept))


def commit(turn: Turn, conversation: ConversationRecord, reply: Reply, tools: Tools, *, failed: bool = False) -> None:
    """Write the reply and all that belongs to it.

    Of a conversation that has ended meanwhile the reply is kept and what the tools did is dropped. Raises
    ConditionFailed or Contended if something has changed meanwhile: it must be read again. Raises ApiError if the
    call that the tools asked for cannot be placed.
    """
    if conversation.doc["status"] == conversations.ENDED:
        tools = Tools(appointments=(), message=tools.message)
    scope, now = turn.scope, max(clock.now(), turn.asked_at + 1)
    actions, placed = list(tools.actions), None
    if tools.wants_call:
        assert conversation.doc["customer_id"] is not None
        placed = placing.place(scope, conversation.doc["customer_id"], placing.Order(channel=sessions.PHONE))
        actions.append({"type": "call_requested", "session_id": placed.session["id"]})
    answer: Message = {
        "id": ids.new(MESSAGES.prefix, now),
        "object": MESSAGES.kind,
        "role": "assistant",
        "content": reply.content,
        "created_at": clock.iso(now),
        "actions": actions,
    }
    after = _after(conversation.doc, answer)
    message: Message = {**turn.message, "reply_status": FAILED if failed else COMPLETE}
    response = frozen(message, answer, after, markdown=turn.work.row["markdown"])
    writes = [
        table.Put(_message_row(turn, answer)),
        CONVERSATIONS.update(scope, conversation, after, _unlocked(turn, conversation, tools)),
        *(conversations.ending(scope, after) if _ends(answer) else []),
        *_change_writes(scope, conversation.doc, tools),
        *(placed.writes if placed is not None else []),
        *([table.Put(_usage(turn, reply, now))] if scope.livemode else []),
        _answered(turn, message, response),
    ]
    table.write(writes, turn.work.token)
    if placed is not None:
        placing.send_hints(scope, placed)


def give_back(turn: Turn) -> None:
    """Give the turn, which this worker failed at, to another."""
    owed.release(turn.work, failed=True)


def frozen(message: Message, answer: Message, conversation: Conversation, *, markdown: bool) -> str:
    """The body of the 201: the user's message with the reply and the conversation."""
    reply: Message = answer if markdown else {**answer, "content": plain_text.plain(answer["content"])}
    body: AnsweredMessage = {**message, "reply": reply, "conversation": conversation}
    return fields.to_json(body)


def _ends(answer: Message) -> bool:
    return any(action["type"] == "conversation_ended" for action in answer.get("actions", ()))


def _after(conversation: Conversation, answer: Message) -> Conversation:
    """The conversation after the reply."""
    after = documents.touched(conversation, {"last_message_at": answer["created_at"]})
    return (conversations.ended(after) or after) if _ends(answer) else after


def _change_writes(scope: Scope, conversation: Conversation, tools: Tools) -> list[table.Operation]:
    """The write of the appointment that the tools changed, on condition that the customer is not deleted."""
    if tools.change is None:
        return []
    assert conversation["customer_id"] is not None
    customer_exists = customers.must_exist(scope, conversation["customer_id"], "customer")
    return [APPOINTMENTS.update(scope, *tools.change), customer_exists]


def _message_row(turn: Turn, answer: Message) -> table.Row:
    row = {"pk": turn.work.row["pk"], "sk": answer["id"], "kind": MESSAGES.kind, "doc": fields.to_json(answer)}
    return row | {"conversation_id": turn.conversation_id}


def _unlocked(turn: Turn, conversation: ConversationRecord, tools: Tools) -> Mapping[str, table.Value | None]:
    """The conversation's attributes after the turn."""
    asked_for = any(action["type"] == "handoff" and action["reason"] != AGENT_FAILED for action in tools.actions)
    handed_off = bool(conversation.row.get("handed_off")) or asked_for
    kept = fields.to_json(vars(tools.proposed)) if tools.proposed else None
    unlocked: dict[str, table.Value | None] = {"proposal": kept, "handed_off": handed_off or None}
    # The lock may be another turn's by now, if this one was given up.
    if conversation.row.get("turn") == turn.id:
        unlocked["turn"] = None
    return unlocked


def _answered(turn: Turn, message: Message, response: str) -> table.Update:
    """The write that ends the turn, with the response that requests are answered with."""
    row, attributes = turn.work.row, {"doc": fields.to_json(message), "answer": response}
    return owed.held(turn.work, table.Update(row["pk"], row["sk"], set={**owed.NOTHING, **attributes}))


def _usage(turn: Turn, reply: Reply, now: int) -> table.Row:
    used = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
    return usage.row(turn.scope, turn.id, now, messages=1, model=reply.usage.model, **used)
