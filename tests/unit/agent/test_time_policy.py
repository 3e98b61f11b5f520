"""New times of appointments under the settings of the business, which `Tools` enforces whatever an agent does."""

from __future__ import annotations

from typing import Any, cast

import pytest

from shared.agent.tools import Tools
from shared.agent.turn import AppointmentProposal, TurnInput
from shared.agent_settings.policy import ChangePolicy, Problem
from shared.agent_settings.resource import DEFAULTS, Settings
from shared.core import clock
from tests.support.models import NEW_TIME, NOW, appointment_record

pytestmark = pytest.mark.usefixtures("stopped_clock")

WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday"]
OFFICE = [{"days": WEEKDAYS, "from": "09:00", "to": "17:00"}]


def settings_with(**changes: Any) -> Settings:
    return cast("Settings", DEFAULTS | {"timezone": "Europe/Berlin"} | changes)


def settings_within_hours(**changes: Any) -> Settings:
    return settings_with(change_policy=ChangePolicy.WITHIN_HOURS, opening_hours=OFFICE, **changes)


def propose(at: str, settings: Settings, **appointment: Any) -> Tools:
    mine = appointment_record(**appointment)
    tools = Tools(TurnInput([mine], "Please move it", settings))
    tools.propose_reschedule(mine.doc["id"], at)
    return tools


def agree(tools: Tools, settings: Settings) -> Tools:
    """The next turn, in which the customer agrees and the agent commits."""
    then = Tools(TurnInput(tools.turn_input.appointments, "Yes", settings, tools.result.proposed))
    then.accept_proposal()
    return then


def proposed_time(tools: Tools) -> str | None:
    assert isinstance(tools.result.proposed, AppointmentProposal)
    return tools.result.proposed.at


def new_time(tools: Tools) -> str | None:
    return None if tools.result.staged is None else tools.result.staged.doc["appointment_at"]


def test_without_settings_any_future_time_is_proposed() -> None:
    tools = propose("2026-10-04T03:00:00Z", settings_with())
    assert (proposed_time(tools), tools.result.problem) == ("2026-10-04T03:00:00.000Z", None)


@pytest.mark.parametrize(
    ("wished", "minutes", "offered"),
    [
        ("2026-10-01T08:00:00Z", 30, None),  # Thursday, 10:00 in Berlin
        ("2026-10-01T14:30:00Z", 30, None),  # until 17:00
        ("2026-10-01T14:31:00Z", 30, "2026-10-02T07:00:00.000Z"),
        ("2026-10-01T14:30:00Z", None, None),  # half an hour by default
        ("2026-10-01T14:00:00Z", 61, "2026-10-02T07:00:00.000Z"),
        ("2026-10-04T01:00:00Z", 30, "2026-10-05T07:00:00.000Z"),  # Sunday, 3 a.m.
        ("2026-10-23T16:00:00Z", 30, "2026-10-26T08:00:00.000Z"),  # the clocks change on the Sunday in between
        ("2026-10-01T06:00:00Z", 30, "2026-10-01T07:00:00.000Z"),
    ],
)
def test_within_hours_the_whole_appointment_is_within_them_or_the_next_time_is_offered(
    wished: str, minutes: int | None, offered: str | None
) -> None:
    tools = propose(wished, settings_within_hours(), duration_minutes=minutes)
    assert proposed_time(tools) == (offered or clock.iso(clock.parse(wished)))
    assert tools.result.problem == (Problem.OUTSIDE_HOURS if offered else None)
    assert tools.result.staged is None
    assert new_time(agree(tools, settings_within_hours())) == proposed_time(tools)


def test_a_time_needs_its_notice_and_the_offer_stands_when_it_has_become_too_short() -> None:
    settings = settings_with(minimum_notice_minutes=120)
    wished = clock.iso(clock.now() + 119 * clock.MINUTE)
    tools = propose(wished, settings)
    assert tools.result.problem is Problem.TOO_SOON
    offered = proposed_time(tools)
    assert offered is not None
    assert 0 <= clock.parse(offered) - (clock.now() + 120 * clock.MINUTE) < 15 * clock.MINUTE
    clock.use(lambda: NOW + 3600, lambda seconds: None)
    assert new_time(agree(tools, settings)) == offered


def test_a_person_decides_about_new_times_if_the_business_wants_that() -> None:
    tools = propose(NEW_TIME, settings_with(change_policy=ChangePolicy.ASK_STAFF))
    assert tools.result.actions == [{"type": "handoff", "reason": "change_requested"}]
    assert (tools.result.proposed, tools.result.staged) == (None, None)


def test_without_a_possible_time_in_two_weeks_a_person_decides() -> None:
    tools = propose(NEW_TIME, settings_within_hours(), duration_minutes=481)
    assert tools.result.actions == [{"type": "handoff", "reason": "change_requested"}]
    assert tools.result.proposed is None


def test_settings_that_change_between_offer_and_agreement_are_respected() -> None:
    tools = propose("2026-10-04T01:00:00Z", settings_with())
    assert tools.result.proposed is not None
    assert new_time(agree(tools, settings_within_hours())) is None
    then = agree(tools, settings_with(change_policy=ChangePolicy.ASK_STAFF))
    assert new_time(then) is None
    assert then.result.actions == [{"type": "handoff", "reason": "change_requested"}]


@pytest.mark.parametrize("policy", [*ChangePolicy])
def test_the_agent_may_confirm_and_cancel_under_every_policy(policy: ChangePolicy) -> None:
    settings = settings_with(change_policy=policy, opening_hours=OFFICE, minimum_notice_minutes=43_200)
    mine = appointment_record()
    assert Tools(TurnInput([mine], "I'll be there", settings)).confirm(mine.doc["id"]).ok
    assert Tools(TurnInput([mine], "Cancel it", settings)).propose_cancellation(mine.doc["id"]).ok
    proposal = AppointmentProposal("cancel", mine.doc["id"], mine.doc["appointment_at"])
    tools = Tools(TurnInput([mine], "Yes", settings, proposal))
    assert tools.accept_proposal().ok


def test_an_appointment_without_a_zone_is_shown_in_that_of_the_settings() -> None:
    mine = appointment_record(timezone=None)
    [view] = Tools(TurnInput([mine], "", settings_with())).list_appointments()
    assert view.timezone == "Europe/Berlin"
