"""Answering: the agent takes a turn, from the claim to the commit (contract 8)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from shared.agent import AgentFailed, Reply, Utterance, adapters
from shared.agent.tools import Tools
from shared.calls import placing
from shared.conversations import conversations, turns
from shared.conversations.conversations import CONVERSATIONS, ConversationRecord
from shared.conversations.turns import Turn
from shared.core import mode
from shared.core.errors import ApiError
from shared.core.keys import Scope
from shared.core.log import logger
from shared.work import owed

HISTORY = 40
"""Messages that the agent is shown."""
TRIES = 3
"""How often an agent that fails is asked, and how often it answers anew because a commit lost a race."""
SIMULATED_ERROR = "[[sim:error]]"
APOLOGY = "Sorry, something went wrong on my side. I have asked a person of our team to get back to you."
HOLDING = "A person of our team has your conversation and will answer you here. I have passed your message on."
CUSTOMER_DELETED = "I cannot help with this one myself. I have asked a person of our team to get back to you."


@dataclass(frozen=True)
class Answer:
    """The agent's reply, and the tools with what they did. `failed`: the reply is an apology."""

    reply: Reply
    tools: Tools
    failed: bool = False


def take_turn(scope: Scope, conversation_id: str, message_id: str) -> None:
    """Answer a message, if it is owed an answer and no other worker has it.

    Raises ConditionFailed or Contended if the turn's rows keep changing; the turn is then free for another worker.
    """
    turn = turns.claim(scope, conversation_id, message_id)
    if turn is None:
        return
    may_call = True

    def attempt() -> None:
        nonlocal may_call
        conversation = CONVERSATIONS.find(scope, turn.conversation_id)
        answer = _answer(turn, conversation, may_call)
        try:
            turns.commit(turn, conversation, answer.reply, answer.tools, failed=answer.failed)
        except ApiError as error:
            logger().info("call refused", extra={"message_id": turn.id, "code": error.code})
            may_call = False
            answer = _answer(turn, conversation, may_call)
            turns.commit(turn, conversation, answer.reply, answer.tools, failed=answer.failed)
        logger().info("turn", extra={"message_id": turn.id, "failed": answer.failed})

    try:
        owed.retry_on_conflict(attempt, tries=TRIES)
    except Exception:
        turns.give_back(turn)
        raise


def _answer(turn: Turn, conversation: ConversationRecord, may_call: bool) -> Answer:
    """What the agent answers, on the rows as they are now."""
    tools = Tools(appointments=(), message=turn.message["content"])
    if turn.hopeless:
        return _apology(tools)
    if conversation.row.get("handed_off"):
        return Answer(Reply(HOLDING), tools)
    customer_id = conversation.doc["customer_id"]
    if customer_id is not None:
        customer = turns.customer(turn.scope, customer_id)
        if customer is None:
            tools.hand_off("customer_deleted")
            return Answer(Reply(CUSTOMER_DELETED), tools)
        tools.can_call = may_call and placing.can_be_called(customer)
        tools.appointments = turns.coming_appointments(turn.scope, customer_id)
    tools.proposal = turns.proposal(conversation)
    return _ask_agent(turn, tools)


def _ask_agent(turn: Turn, tools: Tools) -> Answer:
    if mode.is_simulated(turn.scope) and tools.message == SIMULATED_ERROR:
        return _apology(tools)
    history = [
        Utterance("user" if message["role"] == "user" else "assistant", message["content"])
        for message in conversations.transcript(turn.scope, turn.conversation_id, HISTORY)
        if message["id"] <= turn.id
    ]
    for _ in range(TRIES):
        fresh = dataclasses.replace(tools, actions=[])
        try:
            reply = adapters.agent_for(turn.scope).reply(history, fresh, turn.seconds)
        except AgentFailed as error:
            logger().warning("agent failed", extra={"message_id": turn.id, "error": str(error)})
            if turn.seconds <= 1:
                break
        else:
            return Answer(reply, fresh)
    return _apology(tools)


def _apology(tools: Tools) -> Answer:
    tools.hand_off(turns.AGENT_FAILED)
    return Answer(Reply(APOLOGY), tools, failed=True)
