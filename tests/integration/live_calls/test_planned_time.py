"""The time that a queued live call shows, while the carrier has no capacity for it."""

from __future__ import annotations

from shared.calls.sessions import SESSIONS
from shared.core import clock
from tests.integration.live_calls.test_capacity_of_calls import Exchange, exchange, run, several_calls
from tests.support.clocks import Clock
from tests.support.stage import Stage

__all__ = ["exchange"]


def test_a_call_that_waits_for_capacity_shows_when_it_is_tried(
    stage: Stage, stopped_clock: Clock, exchange: Exchange
) -> None:
    calls = several_calls(stage, stopped_clock, 12)
    run(stage, stopped_clock, exchange, calls, clock.now() + 8_000)
    sessions = [SESSIONS.find(call.scope, call.id) for call in calls]
    waiting = [one for one in sessions if one.doc["call_status"] == "queued"]
    assert waiting
    for one in waiting:
        assert one.doc["dial_at"] is not None
        assert clock.parse(one.doc["dial_at"]) >= clock.now() - clock.SECOND
