"""Lex -> one turn of a live call: the agent answers what the customer said."""

from __future__ import annotations

import functools
from typing import Any

from shared.agent import Agent
from shared.calls import voice
from shared.core import clock, mode
from shared.core.keys import Scope
from shared.core.log import logger
from shared.telephony import lex

LEFT = 3
"""Seconds of the function's time that are kept for the commit."""


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The code hook of the bot that the contact flow talks with. Raises ValueError for an event that is not Lex's."""
    heard = lex.read(event)
    scope = Scope(heard.project_id, heard.livemode)
    seconds = context.get_remaining_time_in_millis() / clock.SECOND - LEFT
    agent = _scripted() if mode.simulated(scope) else _bedrock()
    spoken = voice.turn(scope, heard.session_id, heard.text, agent, seconds)
    logger().info("voice turn", extra={"session_id": heard.session_id, "ends": spoken.ends})
    return lex.answer(heard, spoken.text, close=spoken.ends)


@functools.cache
def _scripted() -> Agent:
    from shared.agent.scripted import Scripted

    return Scripted()


@functools.cache
def _bedrock() -> Agent:
    from shared.agent.bedrock import Bedrock

    return Bedrock.from_environment()
