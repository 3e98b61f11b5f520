"""What `Tools` sees to by itself, whatever an agent does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from shared.agent.actions import HandoffReason
from shared.agent.tools import ToolResult, Tools
from shared.agent.turn import AppointmentProposal, CallContext, CallLater, Proposal, TurnInput
from shared.appointments import commands as appointment_commands
from shared.appointments.resource import AppointmentPatch, AppointmentRecord
from shared.core import clock
from tests.support import rows
from tests.support.models import NEW_TIME, NOW, OTHER_TIME, TIME, appointment_record

pytestmark = pytest.mark.usefixtures("stopped_clock")


def tools_for(*found: AppointmentRecord, message: str = "Yes", proposal: Proposal | None = None) -> Tools:
    return Tools(TurnInput(appointments=found, message=message, proposal=proposal, can_call=True))


@pytest.mark.parametrize("then", ["confirm", "commit", "propose", "call"])
def test_nothing_is_done_after_a_handoff(then: str) -> None:
    mine = appointment_record()
    tools = tools_for(mine, proposal=AppointmentProposal("cancel", mine.doc["id"], mine.doc["appointment_at"]))
    tools.hand_off(HandoffReason.COMPLAINT)
    result = {
        "confirm": lambda: tools.confirm(mine.doc["id"]),
        "commit": tools.accept_proposal,
        "propose": lambda: tools.propose_cancellation(mine.doc["id"]),
        "call": tools.request_call,
    }[then]()
    assert not result.ok
    assert (tools.result.staged, tools.result.proposed, tools.result.wants_call) == (None, None, False)


@pytest.mark.parametrize("then", ["confirm", "commit", "call"])
def test_a_turn_that_proposes_changes_nothing(then: str) -> None:
    mine, second = appointment_record(), appointment_record()
    tools = tools_for(mine, second, proposal=AppointmentProposal("cancel", mine.doc["id"], mine.doc["appointment_at"]))
    assert tools.propose_cancellation(second.doc["id"]).ok
    result = {
        "confirm": lambda: tools.confirm(mine.doc["id"]),
        "commit": tools.accept_proposal,
        "call": tools.request_call,
    }[then]()
    assert not result.ok
    assert (tools.result.staged, tools.result.wants_call) == (None, False)


def test_a_turn_proposes_one_thing() -> None:
    mine, second = appointment_record(), appointment_record()
    tools = tools_for(mine, second)
    assert tools.propose_cancellation(mine.doc["id"]).ok
    assert not tools.propose_cancellation(second.doc["id"]).ok
    assert isinstance(tools.result.proposed, AppointmentProposal)
    assert tools.result.proposed.appointment_id == mine.doc["id"]


def test_a_time_that_has_passed_since_it_was_proposed_is_not_committed() -> None:
    mine = appointment_record()
    proposing = tools_for(mine, message="Move it")
    assert proposing.propose_reschedule(mine.doc["id"], clock.iso(clock.now() + clock.MINUTE)).ok
    clock.use(lambda: NOW + 120, lambda seconds: None)
    tools = tools_for(mine, proposal=proposing.result.proposed)
    assert not tools.accept_proposal().ok
    assert tools.result.staged is None


def test_an_appointment_that_was_moved_since_the_proposal_is_not_the_one_agreed_to() -> None:
    mine = appointment_record()
    proposing = tools_for(mine, message="Cancel it")
    assert proposing.propose_cancellation(mine.doc["id"]).ok
    moved = rows.record(appointment_commands.apply(mine.doc, AppointmentPatch(appointment_at=OTHER_TIME)), 2)
    tools = tools_for(moved, proposal=proposing.result.proposed)
    assert not tools.accept_proposal().ok
    assert tools.result.staged is None


def test_an_appointment_at_the_end_of_the_calendar_can_be_listed() -> None:
    last = appointment_record(appointment_at="9999-12-31T23:59:59.000Z", timezone="Pacific/Kiritimati")
    assert len(tools_for(last).list_appointments()) == 1


# In a call


def tools_in_call(*found: AppointmentRecord, **given: Any) -> Tools:
    usual: dict[str, Any] = {"message": "Yes", "call": CallContext()}
    return Tools(TurnInput(appointments=found, **usual | given))


def iso_from_now(milliseconds: int) -> str:
    return clock.iso(clock.now() + milliseconds)


def test_a_call_is_ended_to_be_made_again_at_a_coming_time() -> None:
    tools = tools_in_call()
    assert tools.call_later("2026-09-22T10:00:00.5+02:00").ok
    assert tools.result.call_later == CallLater(clock.parse("2026-09-22T08:00:00.500Z"))
    assert (tools.result.actions, tools.result.staged, tools.result.proposed) == ([], None, None)


@pytest.mark.parametrize(
    "when",
    [
        "tomorrow",
        "",
        "2026-09-22T10:00:00",
        "2026-09-21T14:13:20Z",
        "2026-09-21T14:13:19Z",
        "2027-09-22T14:13:21Z",
        "9999-12-31T23:59:59-12:00",
    ],
)
def test_a_time_to_call_again_must_be_exact_coming_and_within_a_year(when: str) -> None:
    tools = tools_in_call()
    assert not tools.call_later(when).ok
    assert tools.result.call_later is None


def test_a_call_is_made_again_once() -> None:
    tools = tools_in_call()
    assert tools.call_later(iso_from_now(clock.HOUR)).ok
    assert not tools.call_later(iso_from_now(clock.DAY)).ok
    assert tools.result.call_later == CallLater(clock.now() + clock.HOUR)


def test_outside_of_a_call_and_after_a_change_no_call_is_made_again() -> None:
    for other in ({"call": None}, {"call": CallContext(changed_before=True)}):
        tools = tools_in_call(**other)
        assert not tools.call_later(iso_from_now(clock.HOUR)).ok
        assert tools.result.call_later is None


@pytest.mark.parametrize("first", ["confirm", "commit", "propose", "hand_off"])
def test_after_anything_was_done_in_the_turn_no_call_is_made_again(first: str) -> None:
    mine = appointment_record()
    tools = tools_in_call(mine, proposal=AppointmentProposal("cancel", mine.doc["id"], mine.doc["appointment_at"]))
    does: Mapping[str, Callable[[], ToolResult]] = {
        "confirm": lambda: tools.confirm(mine.doc["id"]),
        "commit": tools.accept_proposal,
        "propose": lambda: tools.propose_cancellation(mine.doc["id"]),
        "hand_off": lambda: tools.hand_off(HandoffReason.COMPLAINT),
    }
    assert does[first]().ok
    assert not tools.call_later(iso_from_now(clock.HOUR)).ok
    assert tools.result.call_later is None


@pytest.mark.parametrize("then", ["confirm", "commit", "propose", "move", "request"])
def test_who_wants_to_be_called_again_has_nothing_else_done(then: str) -> None:
    mine = appointment_record()
    tools = tools_in_call(mine, proposal=AppointmentProposal("cancel", mine.doc["id"], mine.doc["appointment_at"]))
    assert tools.call_later(iso_from_now(clock.HOUR)).ok
    result = {
        "confirm": lambda: tools.confirm(mine.doc["id"]),
        "commit": tools.accept_proposal,
        "propose": lambda: tools.propose_cancellation(mine.doc["id"]),
        "move": lambda: tools.propose_reschedule(mine.doc["id"], NEW_TIME),
        "request": tools.request_call,
    }[then]()
    assert not result.ok
    assert (tools.result.staged, tools.result.proposed, tools.result.wants_call) == (None, None, False)


def test_in_a_call_no_other_call_is_requested() -> None:
    tools = tools_in_call()
    assert not tools.request_call().ok
    assert not tools.result.wants_call


# How far an appointment can be moved


@pytest.mark.parametrize(
    ("present", "new", "ok"),
    [
        (TIME, "2029-10-01T00:00:00Z", True),
        (TIME, "9999-12-31T23:59:59Z", True),
        (TIME, "2026-09-21T14:13:20Z", False),
        ("2090-06-01T10:00:00.000Z", "2090-06-02T10:00:00Z", True),
        ("2090-06-01T10:00:00.000Z", "2093-07-01T10:00:00Z", True),
        ("2090-06-01T10:00:00.000Z", "2027-06-01T10:00:00Z", True),
        ("2090-06-01T10:00:00.000Z", "2026-09-21T14:13:20Z", False),
    ],
)
def test_any_new_time_that_has_not_passed_can_be_proposed(present: str, new: str, ok: bool) -> None:
    mine = appointment_record(appointment_at=present)
    assert tools_for(mine).propose_reschedule(mine.doc["id"], new).ok is ok


# "Confirm", said to a proposal


@pytest.mark.parametrize("message", ["confirm", "Confirm.", "I confirm", "confirmed", "confirm it", "yes, confirm"])
@pytest.mark.parametrize("tool", ["commit", "confirm"])
def test_confirm_after_a_proposed_cancellation_is_asked_back(message: str, tool: str) -> None:
    mine = appointment_record()
    proposal = AppointmentProposal("cancel", mine.doc["id"], mine.doc["appointment_at"])
    tools = Tools(TurnInput(appointments=[mine], message=message, proposal=proposal))
    result = tools.accept_proposal() if tool == "commit" else tools.confirm(mine.doc["id"])
    assert not result.ok
    assert (tools.result.actions, tools.result.staged) == ([], None)
    # Asked once more, a yes agrees.
    assert tools.result.proposed == proposal
    after = Tools(TurnInput(appointments=[mine], message="yes", proposal=tools.result.proposed))
    assert after.accept_proposal().ok
    assert [action["type"] for action in after.result.actions] == ["appointment_cancelled"]


def test_an_appointment_that_changed_is_not_proposed_again() -> None:
    mine = appointment_record()
    tools = Tools(
        TurnInput(
            appointments=[mine],
            message="confirm",
            proposal=AppointmentProposal("cancel", mine.doc["id"], "2026-09-24T08:00:00.000Z"),
        )
    )
    assert not tools.accept_proposal().ok
    assert (tools.result.actions, tools.result.proposed) == ([], None)


def test_the_appointment_named_in_full_is_confirmed_and_the_proposal_dropped() -> None:
    mine = appointment_record()
    proposal = AppointmentProposal("cancel", mine.doc["id"], mine.doc["appointment_at"])
    tools = Tools(TurnInput(appointments=[mine], message="No, confirm my appointment", proposal=proposal))
    assert tools.confirm(mine.doc["id"]).ok
    assert tools.result.proposed is None
