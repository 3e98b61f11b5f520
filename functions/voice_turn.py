"""Lex -> one turn of a live call: the agent replies to the customer's utterance."""

from __future__ import annotations

from typing import Any

from shared.calls.live import voice
from shared.core import clock, trace
from shared.core.log import logger
from shared.store.keys import Scope
from shared.telephony import lex

COMMIT_S = 3
"""Seconds of the function's time that are reserved for the commit."""


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The code hook of the Lex bot in the contact flow. Raises ValueError for any other event."""
    lex_input = lex.read(event)
    scope = Scope(lex_input.project_id, lex_input.livemode)
    seconds = context.get_remaining_time_in_millis() / clock.SECOND - COMMIT_S
    with trace.naming():
        response = voice.respond(scope, lex_input.session_id, lex_input.text, seconds)
        logger().info("voice turn", extra={"session_id": lex_input.session_id, "ends_call": response.ends_call})
    return lex.respond(lex_input, response.text, close=response.ends_call)
