"""Queue -> one turn: the agent answers a message, and the reply and all that it changes are committed together."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from shared.agent import Agent, AgentFailed, Reply, Said
from shared.agent.tools import Tools
from shared.calls import placing
from shared.conversations import conversations, turns
from shared.conversations.turns import Turn
from shared.core import mode
from shared.core.errors import ApiError
from shared.core.keys import Scope
from shared.core.log import logger
from shared.resources import records
from shared.resources.records import Found
from shared.work import batches

HISTORY = 40
"""Messages that the agent is shown."""
TRIES = 3
"""How often an agent is asked that fails, and how often a commit is decided again."""
SIMULATED_ERROR = "[[sim:error]]"


def handler(event: dict[str, Any], context: Any) -> Any:
    """A batch of hints; each is independent of the others."""
    return batches.each_message(event, context, take_turn)


def take_turn(record: SQSRecord) -> None:
    """Answer the message that a hint names, if it is still owed an answer."""
    told = json.loads(record.body)
    scope = Scope(told["project_id"], told["livemode"])
    turn = turns.claim(scope, told["conversation_id"], told["message_id"])
    if turn is None:
        return
    may_call = True
    for _ in range(TRIES):
        conversation = records.find(conversations.LISTED, scope, turn.conversation_id)
        reply, tools, failed = _answer(turn, conversation, may_call)
        try:
            done = turns.commit(turn, conversation, reply, tools, failed=failed)
        except ApiError as error:
            logger().info("call refused", extra={"message_id": turn.row["sk"], "code": error.code})
            may_call = False
            continue
        if done:
            logger().info("turn", extra={"message_id": turn.row["sk"], "failed": failed})
            return
    turns.release(turn)
    raise RuntimeError("the turn's rows were being changed by others all the while")


def _answer(turn: Turn, conversation: Found, may_call: bool) -> tuple[Reply, Tools, bool]:
    """The reply, what the tools did, and whether it is an apology."""
    content = turn.message["content"]
    tools = Tools(found=(), message=content)
    if turn.hopeless:
        return _apology(tools)
    if conversation.row.get("handed_off"):
        return Reply(turns.HOLDING), tools, False
    customer_id = conversation.doc["customer_id"]
    if customer_id is not None:
        customer = turns.customer(turn.scope, customer_id)
        if customer is None:
            tools.hand_off("customer_deleted")
            return Reply(turns.FAREWELL_BY_DELETED), tools, False
        tools.can_call = may_call and placing.customer_can_be_called(customer)
        tools.found = turns.coming_appointments(turn.scope, customer_id)
    tools.proposal = turns.proposal(conversation)
    return _asked(turn, tools)


def _asked(turn: Turn, tools: Tools) -> tuple[Reply, Tools, bool]:
    simulated = mode.simulated(turn.scope)
    if simulated and tools.message == SIMULATED_ERROR:
        return _apology(tools)
    said = [
        Said(message["role"], message["content"])
        for message in conversations.transcript(turn.scope, turn.conversation_id, HISTORY)
        if message["id"] <= turn.row["sk"]
    ]
    for _ in range(TRIES):
        fresh = dataclasses.replace(tools, actions=[])
        try:
            agent = _scripted() if simulated else _bedrock()
            return agent.reply(said, fresh, turn.seconds), fresh, False
        except AgentFailed as error:
            logger().warning("agent failed", extra={"message_id": turn.row["sk"], "why": str(error)})
            if turn.seconds <= 1:
                break
    return _apology(tools)


def _apology(tools: Tools) -> tuple[Reply, Tools, bool]:
    tools.hand_off(turns.AGENT_FAILED)
    return Reply(turns.APOLOGY), tools, True


@functools.cache
def _scripted() -> Agent:
    from shared.agent.scripted import Scripted

    return Scripted()


@functools.cache
def _bedrock() -> Agent:
    from shared.agent.bedrock import Bedrock

    return Bedrock.from_environment()
