"""Turns: the agent's reply to one message, and all its changes but an opt-out, in one transaction (promises 8).

The message's row is a task until the reply (`shared/tasks/tasks.py`). Whoever claims the row gets the reply from the
agent (`shared/conversations/replies.py`): the request itself, within its window, or the `turn` worker. One transaction
commits the reply, the changes of the tools, the response of the request, and the end of the conversation's lock.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass

from shared.agent import Reply, measures, plain_text
from shared.agent.tools import Proposal, Tools
from shared.appointments.resource import APPOINTMENTS, AppointmentRecord, AppointmentStatus
from shared.calls import commands as calls
from shared.calls.commands import CallCreate
from shared.conversations import commands, slots
from shared.conversations import resource as conversations
from shared.conversations.resource import (
    CONVERSATIONS,
    MESSAGES,
    AnsweredMessage,
    Conversation,
    ConversationRecord,
    ConversationStatus,
    Message,
    ReplyStatus,
    Role,
)
from shared.core import clock, ids
from shared.customers import resource as customers
from shared.projects import usage
from shared.resources import documents, fields, pages
from shared.resources.queries import Query
from shared.store import table
from shared.store.commit import Change
from shared.store.keys import Scope, scope_of
from shared.tasks import tasks

LEASE_MS = 50 * clock.SECOND
"""The longest lease of a worker (milliseconds)."""
COMMIT_SECONDS = 5
"""Seconds of a worker's lease that are reserved for the commit."""
AFTER_WINDOW_S = 5
"""Seconds from the end of a request's window to the end of its lease."""
RESPONSE_SECONDS = 2
"""Seconds of a request's window that are reserved for the commit and the response. The agent is cut off then."""
LEAST_SECONDS = 3
"""Seconds that the agent must have for a request to begin a turn."""
APOLOGY_LEASE_MS = 5 * clock.SECOND
"""The lease of an apology (milliseconds). It is short, because an apology only needs one commit."""
MAX_APPOINTMENTS = 50
"""The number of appointments that the agent gets at most: the customer's next ones."""


@dataclass(frozen=True)
class Turn:
    """A message to which only this worker or request may reply until its lease expires."""

    claim: tasks.Claim
    reserved_s: int = COMMIT_SECONDS
    """Seconds of the lease that the agent may not use."""

    @property
    def scope(self) -> Scope:
        """The project and mode of the conversation."""
        return scope_of(self.claim.row["pk"])

    @property
    def id(self) -> str:
        """The message's id."""
        return str(self.claim.row["sk"])

    @property
    def conversation_id(self) -> str:
        """The id of the message's conversation."""
        return str(self.claim.row["conversation_id"])

    @property
    def message(self) -> Message:
        """The user's message."""
        message: Message = json.loads(self.claim.row["doc"])
        return message

    @property
    def asked_at_ms(self) -> int:
        """When the message was sent (milliseconds)."""
        return int(self.claim.row["asked_at"])

    @property
    def is_too_old(self) -> bool:
        """Whether the turn must end with an apology because of its age."""
        return clock.now() >= self.asked_at_ms + conversations.GIVE_UP_MS

    @property
    def must_apologize(self) -> bool:
        """Whether the turn must end with an apology: it is too old, or too many workers were lost."""
        return self.is_too_old or self.claim.lost_workers >= tasks.MAX_LOST_WORKERS

    @property
    def seconds(self) -> float:
        """Seconds that the agent has left."""
        return self.claim.seconds_left - self.reserved_s


def begin(message: table.Row, seconds_left: float) -> Turn | None:
    """The turn of a new message, claimed by the request that stores it. The caller inserts `claim.row`.

    None if the `seconds_left` of the request are too few, or the reply is due later.
    """
    if not fits(seconds_left) or message["due_at"] > clock.now():
        return None
    return _in_window(tasks.new_claim(message, _lease_end(message["sk"], seconds_left + AFTER_WINDOW_S)))


def claim(pk: str, sk: str) -> Turn | None:
    """Claim the turn for a worker, if it is due and nobody else has claimed it. None otherwise."""
    work = tasks.claim_soon(pk, sk, lambda: _lease_end(sk, LEASE_MS / clock.SECOND))
    return None if work is None else Turn(work)


def claim_in_window(message: table.Row, seconds_left: float) -> Turn | None:
    """Claim the turn for a request with `seconds_left`, if the turn is free and fits into that time."""
    if not fits(seconds_left) or not tasks.is_free(message):
        return None
    work = tasks.claim_soon(
        message["pk"], message["sk"], lambda: _lease_end(message["sk"], seconds_left + AFTER_WINDOW_S)
    )
    return None if work is None else _in_window(work)


def fits(seconds_left: float) -> bool:
    """Whether a request with `seconds_left` may begin a turn."""
    return seconds_left >= LEAST_SECONDS + RESPONSE_SECONDS


def _in_window(work: tasks.Claim) -> Turn:
    return Turn(work, reserved_s=AFTER_WINDOW_S + RESPONSE_SECONDS)


def _lease_end(sk: str, seconds: float) -> int:
    """The instant at which a lease of `seconds` from now ends; earlier if the turn must end with an apology by then."""
    now = clock.now()
    # The id of a message holds the time at which it was sent.
    give_up = ids.instant(MESSAGES.prefix, sk) + conversations.GIVE_UP_MS
    return now + APOLOGY_LEASE_MS if now >= give_up else min(now + int(seconds * clock.SECOND), give_up)


def upcoming_appointments(scope: Scope, customer_id: str) -> list[AppointmentRecord]:
    """The customer's next appointments that are not cancelled, soonest first, at most `MAX_APPOINTMENTS`."""
    query = Query(
        limit=MAX_APPOINTMENTS,
        starting_after=None,
        filters={"customer_id": (customer_id,)},
        min_time=clock.iso(clock.now()),
    )
    future = pages.earliest_first(scope, APPOINTMENTS, query)
    upcoming = (record for record in future if record.doc["status"] != AppointmentStatus.CANCELLED)
    return list(itertools.islice(upcoming, MAX_APPOINTMENTS))


def proposal(conversation: ConversationRecord) -> Proposal | None:
    """The agent's proposal from the previous turn; None if there is none."""
    text = conversation.row.get("proposal")
    return None if text is None else Proposal(**json.loads(text))


@dataclass(frozen=True)
class AgentReply:
    """The agent's reply, and the tools with their changes."""

    reply: Reply
    tools: Tools
    failed: bool = False
    """Whether the reply is an apology."""
    holding: bool = False
    """Whether it only says that a person will reply."""
    introduces: bool = False
    """Whether it begins with who replies."""
    business: str | None = None
    """What the agent calls the business, if that was read."""


def save_reply(turn: Turn, conversation: ConversationRecord, agent: AgentReply) -> str:
    """Commit the reply and its changes. Returns the body of the request's response.

    If the conversation has ended since the message, the reply is written without the changes of the tools. Raises
    ConditionFailed or Contended if a row was modified concurrently, ApiError if the requested call cannot be placed.
    """
    scope, reply, tools = turn.scope, agent.reply, agent.tools
    if conversation.doc["status"] == ConversationStatus.ENDED:
        kept = [action for action in tools.actions if action["type"] == "customer_opted_out"]
        tools = Tools(appointments=(), message=tools.message, actions=kept)
    now = max(clock.now(), turn.asked_at_ms + 1)
    actions, placed = list(tools.actions), None
    if tools.wants_call:
        assert conversation.doc["customer_id"] is not None
        placed = calls.place(scope, conversation.doc["customer_id"], CallCreate(channel="phone"))
        actions.append({"type": "call_requested", "session_id": placed.session["id"]})
    reply_message: Message = {
        "id": ids.new(MESSAGES.prefix, now),
        "object": "message",
        "role": Role.ASSISTANT,
        "content": reply.content,
        "created_at": clock.iso(now),
        "actions": actions,
        "holding": agent.holding,
    }
    change = _after(turn, conversation, reply_message, tools, introduces=agent.introduces)
    message: Message = {**turn.message, "reply_status": ReplyStatus.FAILED if agent.failed else ReplyStatus.COMPLETE}
    response = response_body(message, reply_message, change.doc, markdown=turn.claim.row["markdown"])
    writes = [
        table.Put(_message_row(turn, reply_message)),
        *change.writes,
        *_change_writes(scope, conversation.doc, tools),
        *(placed.writes if placed is not None else []),
        *([table.Put(_usage(turn, reply, now))] if scope.livemode else []),
        *slots.free(turn.claim.row),
        _completion(turn, message, response),
    ]
    tasks.save_step(turn.claim, writes)
    measures.count_turn(scope, actions)
    if placed is not None:
        calls.send_wake_ups(scope, placed)
    return response


def response_body(message: Message, reply: Message, conversation: Conversation, *, markdown: bool) -> str:
    """The body of the 201: the user's message with the reply and the conversation."""
    rendered: Message = reply if markdown else {**reply, "content": plain_text.plain(reply["content"])}
    body: AnsweredMessage = {**message, "reply": rendered, "conversation": conversation}
    return fields.to_json(body)


def _after(
    turn: Turn, conversation: ConversationRecord, reply: Message, tools: Tools, *, introduces: bool
) -> Change[Conversation]:
    """The conversation after the reply, which may end it."""
    at, before = reply["created_at"], conversation.doc
    reasons = [action["reason"] for action in tools.actions if action["type"] == "handoff"]
    handoff = conversations.after_reply(before, reasons, at)
    unlocked = _unlocked(turn, conversation, tools)
    unlocked["introduced"] = introduces or conversation.row.get("introduced")
    unlocked["held"] = (reply["holding"] or conversation.row.get("held") or None) if handoff is not None else None
    if any(action["type"] == "conversation_ended" for action in reply["actions"]):
        return commands.end(turn.scope, conversation, at, unlocked)
    changes: dict[str, object] = {"last_message_at": at}
    if before["status"] == ConversationStatus.ACTIVE:
        changes |= {"waiting": handoff is not None, "handoff": handoff}
    after = documents.touched(before, changes)
    return Change(after, [CONVERSATIONS.update(turn.scope, conversation, after, unlocked)])


def _change_writes(scope: Scope, conversation: Conversation, tools: Tools) -> list[table.Write]:
    """The write of the appointment that the tools changed, and the check that the customer is not deleted."""
    if tools.change is None:
        return []
    assert conversation["customer_id"] is not None
    customer_exists = customers.must_exist(scope, conversation["customer_id"], "customer")
    return [APPOINTMENTS.update(scope, *tools.change), customer_exists]


def _message_row(turn: Turn, reply: Message) -> table.Row:
    row = {"pk": turn.claim.row["pk"], "sk": reply["id"], "kind": MESSAGES.kind, "doc": fields.to_json(reply)}
    return row | {"conversation_id": turn.conversation_id}


def _unlocked(turn: Turn, conversation: ConversationRecord, tools: Tools) -> dict[str, table.Value | None]:
    """The conversation's attributes after the turn."""
    unlocked: dict[str, table.Value | None] = {}
    unlocked["proposal"] = fields.to_json(vars(tools.proposed)) if tools.proposed else None
    # Another turn may hold the lock if this turn ended with an apology before.
    if conversation.row.get("turn") == turn.id:
        unlocked["turn"] = None
    return unlocked


def _completion(turn: Turn, message: Message, response: str) -> table.Update:
    """The write that ends the turn. It stores the body of the response."""
    row, attributes = turn.claim.row, {"doc": fields.to_json(message), "response_body": response}
    return table.Update(row["pk"], row["sk"], set={**tasks.NO_WORK, **attributes})


def _usage(turn: Turn, reply: Reply, now: int) -> table.Row:
    tokens = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
    return usage.row(turn.scope, turn.id, now, messages=1, model=reply.usage.model, **tokens)
