"""When calls are made: `not_before`, calling hours, and what is judged again when a call is dialed (promises 11)."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from shared.core import clock
from shared.store import table
from tests.support.clocks import Clock
from tests.support.consents import remind
from tests.support.faults import deaths
from tests.support.resources import create_resource, get_resource, woken
from tests.support.simulated_calls import (
    ACCEPTS,
    CONFIRMS,
    NOBODY,
    WAKE_UPS_LOST,
    Callee,
    callee,
    dial,
    events_of,
    forward_to_next_step,
    incomplete,
    lock_and_count_errors,
    place,
    place_call,
    session_of,
    sweep,
    wake_up,
    work,
)
from tests.support.stage import Answer, Stage
from tests.support.wire import Killed, wire

NIGHT = "2029-03-05T02:00:00Z"
"""A Monday; calling hours begin at nine."""
NINE, LATER = "2029-03-05T09:00:00.000Z", "2029-03-05T13:00:00.000Z"
EVERY_DAY = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


@pytest.fixture
def night(stopped_clock: Clock) -> Clock:
    stopped_clock.now = clock.parse(NIGHT) / clock.SECOND
    return stopped_clock


def set_hours(stage: Stage, begin: str = "09:00", end: str = "17:00", timezone: str = "UTC") -> None:
    hours = [{"days": EVERY_DAY, "from": begin, "to": end}]
    answer = stage.call("PATCH", "/v1/agent_settings", {"calling_hours": hours, "timezone": timezone})
    assert answer.status == 200


def callee_in_hours(stage: Stage, phone: str = CONFIRMS) -> Callee:
    """A customer of a project that calls from nine to five."""
    whom = callee(stage, phone)
    set_hours(stage)
    return whom


def plan_of(stage: Stage, id: str) -> tuple[str, str | None]:
    session = session_of(stage, id)
    return session["call_status"], session["dial_at"]


def end_of(stage: Stage, id: str) -> tuple[str, str]:
    session = session_of(stage, id)
    assert session["dial_at"] is None
    return session["call_status"], session["ended_reason"]


def cancel(stage: Stage, id: str, **options: Any) -> Answer:
    return stage.call("POST", f"/v1/sessions/{id}/cancel", **options)


@pytest.mark.parametrize(
    ("not_before", "dial_at"),
    [
        (None, NINE),
        ("2029-03-05T07:00:00Z", NINE),
        ("2029-03-05T13:00:00+02:00", "2029-03-05T11:00:00.000Z"),
        ("2029-03-05T17:00:00Z", "2029-03-06T09:00:00.000Z"),
        ("2020-01-01T00:00:00Z", NINE),
    ],
)
def test_a_call_is_dialed_at_the_first_moment_of_the_hours_that_the_request_allows(
    stage: Stage, night: Clock, not_before: str | None, dial_at: str
) -> None:
    whom = callee_in_hours(stage)
    call = place(stage, whom, **({} if not_before is None else {"not_before": not_before})).json
    shown = None if not_before is None else clock.iso(clock.parse(not_before))
    assert (call["status"], call["dial_at"], call["not_before"]) == ("queued", dial_at, shown)
    session = session_of(stage, call["session_id"])
    assert (session["call_status"], session["dial_at"], session["not_before"]) == ("queued", dial_at, shown)
    night.now = clock.parse(dial_at) / clock.SECOND - 1
    work(stage, "dial", wake_up(stage, whom.scope, call["session_id"]))
    assert plan_of(stage, call["session_id"]) == ("queued", dial_at)
    dial(stage, night, whom.scope, call["session_id"])
    assert list(incomplete(stage, whom)) == []
    dialed_at = clock.parse(session_of(stage, call["session_id"])["dialed_at"])
    assert 0 <= dialed_at - clock.parse(dial_at) <= 2 * clock.SECOND


def test_without_hours_a_call_is_dialed_at_once_or_when_the_request_says(stage: Stage, night: Clock) -> None:
    whom = callee(stage)
    assert place(stage, whom).json["dial_at"] == clock.iso(clock.now())
    later = callee(stage, scope=whom.scope)
    assert place(stage, later, not_before=LATER).json["dial_at"] == LATER


@pytest.mark.parametrize(("days", "status"), [(366, 201), (367, 400)])
def test_a_call_can_be_requested_a_year_ahead(stage: Stage, night: Clock, days: int, status: int) -> None:
    whom = callee(stage)
    answer = place(stage, whom, not_before=clock.iso(clock.now() + days * clock.DAY))
    assert answer.status == status
    if status == 400:
        assert (answer.code, answer.json["error"]["param"]) == ("parameter_invalid", "not_before")


def test_lost_wake_ups_only_delay_a_call_that_waits_for_the_morning(stage: Stage, night: Clock) -> None:
    whom = callee_in_hours(stage)
    with wire(WAKE_UPS_LOST):
        id = place_call(stage, whom)
    night.now = clock.parse(NINE) / clock.SECOND - 600
    stage.invoke("sweep", {})
    assert woken(stage, whom.scope, "dials") == [], "it is not overdue, and not due soon"
    night.now = clock.parse(NINE) / clock.SECOND
    sweep(stage, night, whom.scope)
    assert list(incomplete(stage, whom)) == []
    assert clock.parse(session_of(stage, id)["dialed_at"]) >= clock.parse(NINE)


@pytest.mark.parametrize(("speed", "interval_s"), [("1", 60), ("60", 1)])
def test_sweep_wakes_a_waiting_call_shortly_before_its_time(
    stage: Stage, night: Clock, monkeypatch: pytest.MonkeyPatch, speed: str, interval_s: int
) -> None:
    monkeypatch.setenv("SPEED", speed)
    whom = callee_in_hours(stage)
    id = place_call(stage, whom)
    delays = []
    for intervals in (2, 1):
        night.now = clock.parse(NINE) / clock.SECOND - intervals * interval_s
        with wire() as line:
            stage.invoke("sweep", {})
        sent = [call.parameters["Entries"] for call in line.calls if call.operation == "SendMessageBatch"]
        delays.append([entry["DelaySeconds"] for entries in sent for entry in entries if id in entry["MessageBody"]])
    assert delays in ([[], [interval_s]], [[], [interval_s + 1]])


def test_hours_that_move_while_a_call_waits_are_respected(stage: Stage, night: Clock) -> None:
    whom = callee_in_hours(stage)
    id = place_call(stage, whom)
    set_hours(stage, begin="13:00")
    assert forward_to_next_step(night, whom.scope, id)
    work(stage, "dial", wake_up(stage, whom.scope, id))
    assert plan_of(stage, id) == ("queued", LATER)
    stage.fan_out()
    assert events_of(stage, id) == ["session.created"]
    dial(stage, night, whom.scope, id)
    assert list(incomplete(stage, whom)) == []
    assert clock.parse(session_of(stage, id)["dialed_at"]) >= clock.parse(LATER)


def test_a_deleted_time_zone_offset_is_that_of_the_settings(stage: Stage, night: Clock) -> None:
    whom = callee(stage)
    set_hours(stage, timezone="America/New_York")
    assert place(stage, whom).json["dial_at"] == "2029-03-05T14:00:00.000Z"


def test_consent_is_asked_at_once_and_the_call_waits_for_the_hours(stage: Stage, night: Clock) -> None:
    whom = callee_in_hours(stage, ACCEPTS)
    call = place(stage, whom)
    assert (call.status, call.json["status"], call.json["dial_at"]) == (202, "consent_pending", None)
    id = call.json["session_id"]
    assert plan_of(stage, id) == ("queued", None)
    for _ in range(2):
        remind(stage, whom.scope, ACCEPTS)
        night.forward(61)
    remind(stage, whom.scope, ACCEPTS)
    assert session_of(stage, id)["consent"]["status"] == "granted"
    assert plan_of(stage, id) == ("queued", NINE)
    dial(stage, night, whom.scope, id)
    assert session_of(stage, id)["call_status"] == "completed"
    assert list(lock_and_count_errors(whom.scope)) == []


# What may have changed while it waited


@pytest.mark.parametrize("change", ["cancel", "delete"])
def test_a_call_about_an_appointment_that_was_cancelled_is_not_dialed(stage: Stage, night: Clock, change: str) -> None:
    whom = callee_in_hours(stage)
    id = place_call(stage, whom)
    path = f"/v1/appointments/{whom.appointment}"
    answer = stage.call("DELETE", path) if change == "delete" else stage.call("PATCH", path, {"status": "cancelled"})
    assert answer.status == 200
    assert plan_of(stage, id) == ("queued", NINE)
    dial(stage, night, whom.scope, id)
    assert end_of(stage, id) == ("failed", "appointment_cancelled")
    assert list(lock_and_count_errors(whom.scope)) == []


def test_a_call_goes_to_the_number_that_the_customer_has_when_it_is_dialed(stage: Stage, night: Clock) -> None:
    whom = callee_in_hours(stage)
    id = place_call(stage, whom)
    assert stage.call("PATCH", whom.path, {"phone": NOBODY}).status == 200
    assert session_of(stage, id)["to"] == CONFIRMS
    dial(stage, night, whom.scope, id)
    assert session_of(stage, id)["to"] == NOBODY
    assert end_of(stage, id) == ("no_answer", "no_answer")


def test_on_whatsapp_a_changed_number_has_no_consent(stage: Stage, night: Clock) -> None:
    whom = callee_in_hours(stage)
    id = place_call(stage, whom, channel="whatsapp")
    assert plan_of(stage, id) == ("queued", NINE)
    assert stage.call("PATCH", whom.path, {"phone": NOBODY}).status == 200
    dial(stage, night, whom.scope, id)
    assert end_of(stage, id) == ("failed", "phone_changed")


def test_a_waiting_call_counts_and_the_next_request_names_it(stage: Stage, night: Clock) -> None:
    whom = callee_in_hours(stage)
    id = place_call(stage, whom)
    refused = place(stage, whom)
    assert (refused.status, refused.code) == (409, "call_in_progress")
    assert id in refused.json["error"]["message"]


# Canceling


@pytest.mark.parametrize("phone", [CONFIRMS, ACCEPTS], ids=["queued", "consent pending"])
def test_a_call_that_waits_is_canceled_once(stage: Stage, night: Clock, phone: str) -> None:
    whom = callee_in_hours(stage, phone)
    id = place_call(stage, whom)
    canceled = cancel(stage, id)
    assert canceled.status == 200
    assert canceled.json == session_of(stage, id)
    assert end_of(stage, id) == ("failed", "canceled")
    assert cancel(stage, id).json == canceled.json
    stage.fan_out()
    assert events_of(stage, id) == ["session.created", "session.failed"]
    sweep(stage, night, whom.scope)
    assert session_of(stage, id) == canceled.json
    assert list(lock_and_count_errors(whom.scope)) == []
    assert place(stage, whom).status in (201, 202), "the customer can be called again"


def test_what_is_dialed_or_ended_cannot_be_canceled(stage: Stage, night: Clock) -> None:
    whom = callee(stage)
    id = place_call(stage, whom)
    forward_to_next_step(night, whom.scope, id)
    work(stage, "dial", wake_up(stage, whom.scope, id))
    assert plan_of(stage, id) == ("dialing", None)
    for _ in range(2):
        refused = cancel(stage, id)
        assert (refused.status, refused.code) == (409, "session_not_cancelable")
        dial(stage, night, whom.scope, id)
    assert cancel(stage, "sess_" + "0" * 26).status == 404


def test_another_project_cannot_cancel(stage: Stage, night: Clock) -> None:
    whom = callee_in_hours(stage)
    id = place_call(stage, whom)
    own = stage._key
    other = stage.project().test_key
    stage._key = own
    assert cancel(stage, id, key=other).status == 404
    assert plan_of(stage, id) == ("queued", NINE)


def test_a_worker_that_dies_at_any_point_puts_a_call_off_once(stage: Stage, night: Clock) -> None:
    """It was planned before the hours were set, and its worker finds that they are closed."""

    def waiting() -> tuple[Callee, str]:
        night.now = clock.parse(NIGHT) / clock.SECOND
        whom = callee(stage)
        id = place_call(stage, whom)
        set_hours(stage)
        forward_to_next_step(night, whom.scope, id)
        return whom, id

    whom, id = waiting()
    with wire() as line:
        work(stage, "dial", wake_up(stage, whom.scope, id))
    problems = []
    for death in deaths(line.operations()):
        whom, id = waiting()
        with wire(None, *death), suppress(Killed):
            work(stage, "dial", wake_up(stage, whom.scope, id))
        dial(stage, night, whom.scope, id)
        problems += [f"{death}: {each}" for each in incomplete(stage, whom)]
        if clock.parse(session_of(stage, id)["dialed_at"]) < clock.parse(NINE):
            problems.append(f"{death}: dialed too early")
    assert not problems, "\n".join(problems)


def test_a_session_of_an_earlier_release_shows_the_new_fields(stage: Stage, night: Clock) -> None:
    whom = callee(stage)
    id = place_call(stage, whom)
    row = table.get(whom.scope.pk("session"), id)
    assert row is not None
    old = {name: value for name, value in json.loads(row["doc"]).items() if name not in ("not_before", "dial_at")}
    table.write([table.Put(row | {"doc": json.dumps(old)}, table.ALWAYS)])
    assert plan_of(stage, id) == ("queued", None)
    [listed] = get_resource(stage, "/v1/sessions")["data"]
    assert (listed["not_before"], listed["dial_at"]) == (None, None)
    dial(stage, night, whom.scope, id)
    assert list(incomplete(stage, whom)) == []
    assert create_resource(stage, "/v1/customers", phone=CONFIRMS)
