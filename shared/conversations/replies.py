"""Replies: the agent's reply to a message, and all its changes but an opt-out, in one transaction (promises 8).

`run_turn` gets the reply, and commits it with the changes of the tools, the response of the request, and the end of the
conversation's lock. The steps are in `_reply_and_save`.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from functools import partial

from shared.agent import (
    AgentFailed,
    AgentUnavailable,
    Reply,
    Utterance,
    agent_for,
    count_turn,
    opt_out_messages,
    plain_text,
    simulated_messages,
)
from shared.agent.actions import HandoffReason, handoff
from shared.agent.turn import TurnInput, TurnResult, read_proposal
from shared.agent.wording import CANNOT_HELP, escape
from shared.agent_settings import resource as agent_settings
from shared.appointments.resource import APPOINTMENTS, AppointmentRecord, AppointmentStatus
from shared.aws.services import Unavailable
from shared.calls import commands as call_commands
from shared.calls import opt_outs
from shared.calls.commands import CallCreate
from shared.calls.sessions import Session
from shared.conversations import commands as conversation_commands
from shared.conversations import turns
from shared.conversations.resource import (
    CONVERSATIONS,
    MESSAGES,
    AnsweredMessage,
    AssistantMessage,
    Conversation,
    ConversationRecord,
    ConversationStatus,
    Message,
    ReplyStatus,
    Role,
    UserMessage,
    agent_holds,
    handoff_after,
    message_history,
)
from shared.conversations.turns import WINDOW_S, ClaimedTurn
from shared.core import clock, ids
from shared.core.errors import ApiError
from shared.core.log import logger
from shared.customers.resource import CUSTOMERS, CustomerRecord
from shared.projects import usage
from shared.resources import fields, list_pages
from shared.resources.documents import revise
from shared.resources.queries import Query
from shared.store import table, transactions
from shared.store.keys import Scope
from shared.store.transactions import Change
from shared.tasks import tasks

HISTORY = 40
"""The number of latest messages that the agent gets."""
AGENT_TRIES = 3
"""The most requests to an agent that fails, for each commit."""
TRY_LEAST_S = 1
"""Seconds that the turn must have left for another request to an agent that has failed."""
COMMIT_TRIES = 3
"""The most commits of a turn whose rows are modified concurrently. The agent is asked again for each."""
MAX_APPOINTMENTS = 50
"""The number of appointments that the agent gets at most: the customer's next ones."""
RETRYABLE = (AgentUnavailable, Unavailable, table.ConditionFailed, table.Contended)
"""The failures after which a turn is retried soon, by a worker."""
INTRODUCTION = "I am the automated AI assistant of "
APOLOGY = "Sorry, something went wrong on my side. I have asked someone from our team to get back to you."
HOLDING_AGAIN = "I have passed on this message, too."
HOLDING = "Someone from our team has taken over this conversation and will reply here. I have passed on your message."
BY_STAFF = "(Someone from our team wrote:) {}"


@dataclass(frozen=True)
class TurnReply(Reply):
    """The reply of a turn, from the agent or the service itself."""

    failed: bool = False
    """Whether the reply is an apology."""
    holding: bool = False
    """Whether it only says that a person will reply."""
    introduces: bool = False
    """Whether it begins with who replies."""


def run_turn(turn: ClaimedTurn, conversation: ConversationRecord | None = None) -> str:
    """Get the agent's reply to the message of a turn and commit it. Returns the body of the request's response.

    `conversation` saves a read if the caller knows its current row. If there is no reply, the turn is released, for
    another worker or request to claim. Raises one of `RETRYABLE`: AgentUnavailable if the agent is throttled or has no
    reply in the turn's time, ConditionFailed or Contended if the rows of the turn are modified concurrently too often.
    """
    latest = partial(CONVERSATIONS.find, turn.scope, turn.conversation_id)
    attempt = partial(_reply_and_save, turn)
    try:
        first = latest() if conversation is None else conversation
        return transactions.retry_with_latest(first, latest, attempt, COMMIT_TRIES, turn.seconds)
    except (AgentUnavailable, Unavailable):
        # The worker is not to blame: the turn is retried until it is too old, not only until three workers are lost.
        tasks.release(turn.claim)
        raise
    except Exception:
        tasks.release(turn.claim, failed=True)
        raise


def _reply_and_save(turn: ClaimedTurn, conversation: ConversationRecord) -> str:
    """Reply as the rows are now, and commit the reply. Returns the body of the request's response.

    If the call that the agent requests is refused, it replies again, and may not request one. Raises AgentUnavailable;
    ConditionFailed or Contended if a row was modified since it was read.
    """
    reply = _turn_reply(turn, conversation, may_call=True)
    call: Change[Session | None] = Change(None)
    try:
        call = _requested_call(turn, conversation, reply)
    except ApiError as refused:
        logger().info("call refused", extra={"message_id": turn.id, "code": refused.code})
        reply = _turn_reply(turn, conversation, may_call=False)
    customer_id = conversation.doc["customer_id"]
    if customer_id is not None and reply.result.has("customer_opted_out"):
        # Committed before the reply, to hold whatever becomes of the turn.
        opt_outs.opt_out_now(turn.scope, customer_id)
    body = _save_reply(turn, conversation, reply, call)
    logger().info("turn", extra={"message_id": turn.id, "failed": reply.failed})
    return body


def _turn_reply(turn: ClaimedTurn, conversation: ConversationRecord, *, may_call: bool) -> TurnReply:
    """The reply of the service itself or else of the agent, which may request a call if `may_call`.

    The conversation's first reply that is not forced says who replies. Raises AgentUnavailable.
    """
    customer_id = conversation.doc["customer_id"]
    stored, customer = _read(turn.scope, customer_id)
    is_deleted = customer_id is not None and customer is None
    turn_input = TurnInput(
        (),
        turn.message["content"],
        settings=stored.for_agent,
        proposal=read_proposal(conversation.row.get("proposal")),
        customer_id=customer_id,
        can_call=may_call and customer is not None and call_commands.can_be_called(customer),
    )
    # An opt-out holds whatever else is the case. Of an unknown customer, it only hands over, which it may have been.
    to_opt_out = None if customer_id is None and agent_holds(conversation) else opt_out_messages.reply(turn_input)
    if to_opt_out is not None:
        reply = TurnReply(to_opt_out.content, to_opt_out.result)
        if is_deleted and reply.result.has("customer_opted_out"):
            reply = _of_deleted_customer(reply)
    elif agent_holds(conversation):
        reply = TurnReply(HOLDING_AGAIN if conversation.row.get("held") else HOLDING, holding=True)
    elif turn.must_apologize:
        reply = _apology()
    elif is_deleted:
        reply = _of_deleted_customer()
    else:
        reply = _agent_reply(turn, turn_input)
    if conversation.row.get("introduced") or simulated_messages.forces_reply(turn.scope, turn_input.message):
        return reply
    return dataclasses.replace(reply, content=_introduction(stored.business) + reply.content, introduces=True)


def _agent_reply(turn: ClaimedTurn, turn_input: TurnInput) -> TurnReply:
    """The agent's reply and changes; an apology if it fails. Raises AgentUnavailable."""
    if simulated_messages.is_error(turn.scope, turn_input.message):
        return _apology()
    if turn_input.customer_id is not None:
        appointments = upcoming_appointments(turn.scope, turn_input.customer_id)
        turn_input = dataclasses.replace(turn_input, appointments=appointments)
    history = _history(turn)
    for _ in range(AGENT_TRIES):
        try:
            reply = agent_for(turn.scope).reply(history, turn_input, turn.seconds)
            return TurnReply(reply.content, reply.result, reply.usage)
        except AgentFailed as error:
            logger().warning("agent failed", extra={"message_id": turn.id, "error": str(error)})
            failure = error
            if turn.seconds <= TRY_LEAST_S:
                break
    if isinstance(failure, AgentUnavailable):
        raise failure
    return _apology()


def _of_deleted_customer(to_opt_out: Reply | None = None) -> TurnReply:
    """The reply to a deleted customer, after that to an opt-out if there is one."""
    handed_over = handoff(HandoffReason.CUSTOMER_DELETED)
    if to_opt_out is None:
        return TurnReply(CANNOT_HELP, TurnResult([handed_over]))
    return TurnReply(f"{to_opt_out.content} {CANNOT_HELP}", TurnResult([*to_opt_out.result.actions, handed_over]))


def _apology() -> TurnReply:
    return TurnReply(APOLOGY, TurnResult([handoff(HandoffReason.AGENT_FAILED)]), failed=True)


def _read(scope: Scope, customer_id: str | None) -> tuple[agent_settings.StoredSettings, CustomerRecord | None]:
    """The agent's settings, and the customer; None if it is deleted or the conversation has none. In one read."""
    keys = [(scope.pk(CUSTOMERS.kind), customer_id)] if customer_id is not None else []
    rows = table.get_many([*keys, *agent_settings.keys(scope)])
    customer = next((CUSTOMERS.record(rows[key]) for key in keys if key in rows), None)
    return agent_settings.of_rows(scope, rows), customer


def upcoming_appointments(scope: Scope, customer_id: str) -> list[AppointmentRecord]:
    """The customer's next appointments that are not cancelled, soonest first, at most `MAX_APPOINTMENTS`."""
    query = Query(
        limit=MAX_APPOINTMENTS,
        starting_after=None,
        filters={"customer_id": (customer_id,)},
        min_time=clock.iso(clock.now()),
    )
    future = list_pages.earliest_first(scope, APPOINTMENTS, query)
    upcoming = (record for record in future if record.doc["status"] != AppointmentStatus.CANCELLED)
    return list(itertools.islice(upcoming, MAX_APPOINTMENTS))


def _history(turn: ClaimedTurn) -> list[Utterance]:
    """The latest messages, up to that of the turn, as the agent reads them."""
    latest = message_history(turn.scope, turn.conversation_id, HISTORY)
    earlier = [_utterance(message) for message in latest if message["id"] < turn.id]
    # Not from the transcript, from which an erasure may have removed it.
    return [*earlier, Utterance("user", turn.message["content"])]


def _utterance(message: Message) -> Utterance:
    """A message as the agent reads it. What a person of the business wrote is on the business's side."""
    if message["role"] == Role.STAFF:
        return Utterance("assistant", BY_STAFF.format(message["content"]))
    if message["role"] == Role.USER:
        return Utterance("user", message["content"])
    content = message["content"]
    # The agent finds its own words as it wrote them.
    return Utterance("assistant", content.partition("\n\n")[2] if content.startswith(INTRODUCTION) else content)


def _introduction(business: str) -> str:
    return f"{INTRODUCTION}{escape(business)}.\n\n"


def preview(scope: Scope, stored: agent_settings.StoredSettings, message: str) -> str:
    """The reply of test mode, with these settings, to the first message of an unknown customer."""
    turn_input = TurnInput((), message, settings=stored.for_agent)
    agent = agent_for(dataclasses.replace(scope, livemode=False))
    reply = opt_out_messages.reply(turn_input) or agent.reply([Utterance("user", message)], turn_input, WINDOW_S)
    return _introduction(stored.business) + reply.content


def _requested_call(turn: ClaimedTurn, conversation: ConversationRecord, reply: Reply) -> Change[Session | None]:
    """The call that the agent requests, if it does. Raises ApiError if the customer cannot be called."""
    if not reply.result.wants_call or _is_ended(conversation):
        return Change(None)
    assert conversation.doc["customer_id"] is not None
    return call_commands.request_call(turn.scope, conversation.doc["customer_id"], CallCreate(channel="phone"))


def _is_ended(conversation: ConversationRecord) -> bool:
    return conversation.doc["status"] == ConversationStatus.ENDED


def _save_reply(
    turn: ClaimedTurn, conversation: ConversationRecord, reply: TurnReply, call: Change[Session | None]
) -> str:
    """Commit the reply, its changes and the call. Returns the body of the request's response.

    If the conversation has ended since the message, the reply is written without the changes of the tools. Raises
    ConditionFailed or Contended if a row was modified concurrently.
    """
    scope, row, result = turn.scope, turn.claim.row, reply.result
    if _is_ended(conversation):
        result = TurnResult([action for action in result.actions if action["type"] == "customer_opted_out"])
    actions = list(result.actions)
    if call.doc is not None:
        actions.append({"type": "call_requested", "session_id": call.doc["id"]})
    now = max(clock.now(), turn.sent_at + 1)
    assistant_message: AssistantMessage = {
        "id": ids.new(MESSAGES.prefix, now),
        "object": "message",
        "role": Role.ASSISTANT,
        "content": reply.content,
        "created_at": clock.iso(now),
        "actions": actions,
        "holding": reply.holding,
    }
    new_row = {"pk": row["pk"], "sk": assistant_message["id"], "kind": MESSAGES.kind}
    new_row |= {"doc": fields.to_json(assistant_message), "conversation_id": turn.conversation_id}
    user_message: UserMessage = {
        **turn.message,
        "reply_status": ReplyStatus.FAILED if reply.failed else ReplyStatus.COMPLETE,
    }
    change = _conversation_after(turn, conversation, reply, result, assistant_message["created_at"])
    response_body = _response_body(user_message, assistant_message, change.doc, markdown=row["markdown"])
    # Without a due time, the message's row is no task any more: that ends the turn.
    answered = {**tasks.NO_WORK, "doc": fields.to_json(user_message), "response_body": response_body}
    writes = [
        table.Put(new_row),
        *change.writes,
        *(result.staged.writes(scope) if result.staged is not None else []),
        *call.writes,
        *([table.Put(_usage(turn, reply, now))] if scope.livemode else []),
        *turns.free_slot_writes(row),
        table.Update(row["pk"], row["sk"], set=answered),
    ]
    tasks.save_step(turn.claim, writes)
    count_turn(scope, actions)
    for each in (change, call):
        each.after_commit()
    return response_body


def _conversation_after(
    turn: ClaimedTurn, conversation: ConversationRecord, reply: TurnReply, result: TurnResult, at: str
) -> Change[Conversation]:
    """The conversation after the reply of the time `at`, which may end it. Its lock ends with the turn."""
    reasons = [action["reason"] for action in result.actions if action["type"] == "handoff"]
    handoff_now = handoff_after(conversation.doc, reasons, at)
    held = handoff_now is not None and (reply.holding or conversation.row.get("held"))
    internal: dict[str, table.Value | None] = {
        "proposal": result.proposed.to_json() if result.proposed else None,
        "introduced": reply.introduces or conversation.row.get("introduced"),
        "held": held or None,
    }
    # Another turn may hold the lock if this turn ended with an apology before.
    if conversation.row.get("turn") == turn.id:
        internal["turn"] = None
    if result.has("conversation_ended"):
        return conversation_commands.end(turn.scope, conversation, at, internal)
    after: Conversation = {**conversation.doc, "last_message_at": at}
    if not _is_ended(conversation):
        after = {**after, "waiting": handoff_now is not None, "handoff": handoff_now}
    doc = revise(conversation.doc, after)
    return Change(doc, CONVERSATIONS.replace_writes(turn.scope, conversation, doc, internal))


def _response_body(
    user_message: UserMessage, assistant_message: AssistantMessage, conversation: Conversation, *, markdown: bool
) -> str:
    """The body of the 201: the user's message with the reply and the conversation."""
    content = assistant_message["content"]
    reply: AssistantMessage = {**assistant_message, "content": content if markdown else plain_text.plain(content)}
    body: AnsweredMessage = {**user_message, "reply": reply, "conversation": conversation}
    return fields.to_json(body)


def _usage(turn: ClaimedTurn, reply: Reply, now: clock.Instant) -> table.Row:
    tokens = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
    return usage.row(turn.scope, turn.id, now, messages=1, model=reply.usage.model, **tokens)
