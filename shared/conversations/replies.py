"""Answering: one turn of the agent, from the claim to the commit (promises 8)."""

from __future__ import annotations

import dataclasses
from functools import partial

from shared.agent import AgentFailed, AgentUnavailable, Reply, Utterance, adapters, opt_out
from shared.agent.tools import HandoffReason, Tools
from shared.agent.wording import escaped
from shared.agent_settings import commands as agent_settings
from shared.aws.services import Unavailable
from shared.calls import commands as calls
from shared.calls import opting_out
from shared.conversations import turns
from shared.conversations.resource import CONVERSATIONS, ConversationRecord, Message, Role, is_held, transcript
from shared.conversations.turns import AgentReply, Turn
from shared.core.errors import ApiError
from shared.core.log import logger
from shared.customers.resource import CUSTOMERS
from shared.store import commit, table
from shared.store.keys import Scope
from shared.tasks import tasks

HISTORY = 40
"""The number of latest messages that the agent gets."""
ATTEMPTS = 3
"""The most requests to an agent that fails, and the most commits of a turn whose rows are modified concurrently."""
RETRYABLE = (AgentUnavailable, Unavailable, table.ConditionFailed, table.Contended)
"""The failures after which a turn is retried soon, by a worker."""
SIMULATED_ERROR = "[[sim:error]]"
FORCED = "[[sim:"
"""How a message begins whose reply is forced (promises 10)."""
INTRODUCTION = "I am the automated AI assistant of "
APOLOGY = "Sorry, something went wrong on my side. I have asked someone from our team to get back to you."
HOLDING_AGAIN = "I have passed on this message, too."
HOLDING = "Someone from our team has taken over this conversation and will reply here. I have passed on your message."
BY_STAFF = "(Someone from our team wrote:) {}"
CUSTOMER_DELETED = "I cannot help with this one myself. I have asked someone from our team to get back to you."


def reply_to(turn: Turn, conversation: ConversationRecord | None = None) -> str:
    """Get the agent's reply to the message of a turn and commit it. Returns the body of the request's response.

    `conversation` saves a read if the caller knows its current row. If there is no reply, the turn is released, for
    another worker or request to claim. Raises one of `RETRYABLE`: AgentUnavailable if the agent is throttled or has no
    reply in the turn's time, ConditionFailed or Contended if the rows of the turn are modified concurrently too often.
    """
    may_call = True

    def attempt(current: ConversationRecord) -> str:
        nonlocal may_call
        result = _introduced_reply(turn, current, may_call)
        try:
            body = _keep_wish_and_save(turn, current, result)
        except ApiError as error:
            logger().info("call refused", extra={"message_id": turn.id, "code": error.code})
            may_call = False
            result = _introduced_reply(turn, current, may_call)
            body = _keep_wish_and_save(turn, current, result)
        logger().info("turn", extra={"message_id": turn.id, "failed": result.failed})
        return body

    try:
        known = [] if conversation is None else [conversation]
        latest = partial(CONVERSATIONS.find, turn.scope, turn.conversation_id)
        return commit.retry_with_latest(known, latest, attempt, ATTEMPTS)
    except (AgentUnavailable, Unavailable):
        # The worker is not to blame: the turn is retried until it is too old, not only until three workers are lost.
        tasks.release(turn.claim)
        raise
    except Exception:
        tasks.release(turn.claim, failed=True)
        raise


def _keep_wish_and_save(turn: Turn, conversation: ConversationRecord, agent: AgentReply) -> str:
    """Commit the reply. A wish not to be contacted is kept before it, and holds whatever becomes of the turn."""
    if agent.tools.opts_out and agent.tools.customer_id is not None:
        opting_out.keep(turn.scope, agent.tools.customer_id)
    return turns.save_reply(turn, conversation, agent)


def _introduced_reply(turn: Turn, conversation: ConversationRecord, may_call: bool) -> AgentReply:
    """The agent's reply and changes, for the current rows. The first one that is not forced says who replies."""
    result = _choose_reply(turn, conversation, may_call)
    is_forced = turn.scope.is_simulated and turn.message["content"].startswith(FORCED)
    if is_forced or conversation.row.get("introduced"):
        return result
    business = result.business or agent_settings.read(turn.scope).business
    content = f"{INTRODUCTION}{escaped(business)}.\n\n{result.reply.content}"
    return dataclasses.replace(result, reply=dataclasses.replace(result.reply, content=content), introduces=True)


def _choose_reply(turn: Turn, conversation: ConversationRecord, may_call: bool) -> AgentReply:
    customer_id = conversation.doc["customer_id"]
    tools = Tools(appointments=(), message=turn.message["content"], customer_id=customer_id)
    tools.proposal = turns.proposal(conversation)
    # A wish not to be contacted again holds whatever else is the case; whom nobody knows, waits for a person already.
    wish = None if customer_id is None and is_held(conversation) else opt_out.reply(tools)
    if wish is not None and (customer_id is None or not tools.opts_out or _exists(turn.scope, customer_id)):
        return AgentReply(Reply(wish), tools)
    if wish is not None:
        tools.hand_off(HandoffReason.CUSTOMER_DELETED)
        return AgentReply(Reply(f"{wish} {CUSTOMER_DELETED}"), tools)
    if is_held(conversation):
        return AgentReply(Reply(HOLDING_AGAIN if conversation.row.get("held") else HOLDING), tools, holding=True)
    if turn.must_apologize:
        return _apology(tools)
    customer_key = (turn.scope.pk(CUSTOMERS.kind), customer_id or "")
    keys = agent_settings.keys(turn.scope)
    rows = table.get_many(keys if customer_id is None else [*keys, customer_key])
    stored = agent_settings.of_rows(turn.scope, rows)
    tools.settings = stored.known
    if customer_id is not None:
        customer = rows.get(customer_key)
        if customer is None:
            tools.hand_off(HandoffReason.CUSTOMER_DELETED)
            return AgentReply(Reply(CUSTOMER_DELETED), tools, business=stored.business)
        tools.can_call = may_call and calls.can_be_called(customer)
        tools.appointments = turns.upcoming_appointments(turn.scope, customer_id)
    return dataclasses.replace(_ask_agent(turn, tools), business=stored.business)


def _exists(scope: Scope, customer_id: str) -> bool:
    return table.get(scope.pk(CUSTOMERS.kind), customer_id) is not None


def _ask_agent(turn: Turn, tools: Tools) -> AgentReply:
    if turn.scope.is_simulated and tools.message == SIMULATED_ERROR:
        return _apology(tools)
    history = [
        _utterance(message)
        for message in transcript(turn.scope, turn.conversation_id, HISTORY)
        if message["id"] < turn.id
    ]
    # Not from the transcript, from which an erasure may have removed it.
    history.append(Utterance("user", tools.message))
    for _ in range(ATTEMPTS):
        attempt_tools = dataclasses.replace(tools, actions=[])
        try:
            reply = adapters.agent_for(turn.scope).reply(history, attempt_tools, turn.seconds)
        except AgentFailed as error:
            logger().warning("agent failed", extra={"message_id": turn.id, "error": str(error)})
            failure = error
            if turn.seconds <= 1:
                break
        else:
            return AgentReply(reply, attempt_tools)
    if isinstance(failure, AgentUnavailable):
        raise failure
    return _apology(tools)


def _utterance(message: Message) -> Utterance:
    """A message as the agent reads it. What a person of the business wrote is on the business's side."""
    if message["role"] == Role.STAFF:
        return Utterance("assistant", BY_STAFF.format(message["content"]))
    if message["role"] == Role.USER:
        return Utterance("user", message["content"])
    content = message["content"]
    # The agent finds its own words as it wrote them.
    return Utterance("assistant", content.partition("\n\n")[2] if content.startswith(INTRODUCTION) else content)


def _apology(tools: Tools) -> AgentReply:
    tools.hand_off(HandoffReason.AGENT_FAILED)
    return AgentReply(Reply(APOLOGY), tools, failed=True)
