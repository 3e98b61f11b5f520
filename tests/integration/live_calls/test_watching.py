"""Live calls under way: what is asked of the carrier, and the events that it sends (promises 7)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from shared.calls.live.steps import FILES_GIVEN_UP_AFTER_MS, LONGEST_MS, LOST_AFTER_MS, POLL_MS
from shared.core import clock
from shared.core.call_statuses import EndedReason, Ending, SessionCallStatus
from shared.tasks import tasks
from shared.telephony import Busy, ContactState, NotConfigured, amazon_connect
from tests.support.clocks import Clock
from tests.support.concurrency import run_at_once
from tests.support.live_calls import (
    HUNG_UP,
    Line,
    answer_live_call,
    assert_over,
    calls_under_way,
    contact_event,
    dial_live_call,
    events_of,
    files,
    forward_and_work,
    month_usage,
    object_event,
    outcome,
    place_live_call,
    recording_of,
    tell,
    work,
)
from tests.support.resources import woken
from tests.support.stage import Stage
from tests.support.wire import Fault, conflicting, refuse_connection, wire

# Watching a call


def test_a_call_that_no_event_comes_of_is_watched(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = dial_live_call(stage)
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    assert call.doc["answered_at"] is None
    line.state = ContactState(clock.now(), None, None)
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    assert call.doc["answered_at"] == clock.iso(line.state.answered_at or clock.EPOCH)
    line.state = ContactState(line.state.answered_at, clock.now(), HUNG_UP)
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    assert outcome(call)[:2] == ("completed", "customer_hangup")


def test_sweep_has_a_call_watched_whose_wake_ups_were_all_lost(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    with wire(Fault(0, refuse_connection, service="sqs")):
        call = dial_live_call(stage)
    line.state = ContactState(None, clock.now(), Ending(SessionCallStatus.NO_ANSWER, EndedReason.BUSY))
    stage.messages("dials")
    stopped_clock.forward(POLL_MS / clock.SECOND + tasks.SWEEP_GRACE_S + 1)
    stage.invoke("sweep", {})
    [record] = woken(stage, call.scope, "dials")
    stage.invoke("dial", {"Records": [record]})
    assert outcome(call)[:2] == ("no_answer", "busy")


@pytest.mark.parametrize("was_answered", [False, True])
def test_a_contact_that_the_carrier_has_lost_fails_the_call_in_the_end(
    stage: Stage, stopped_clock: Clock, line: Line, was_answered: bool
) -> None:
    call = answer_live_call(stage, line) if was_answered else dial_live_call(stage)
    line.state = None
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    assert call.doc["call_status"] == "dialing"
    forward_and_work(stage, stopped_clock, call, LOST_AFTER_MS)
    assert outcome(call) == ("failed", "provider_timeout", None)
    forward_and_work(stage, stopped_clock, call, FILES_GIVEN_UP_AFTER_MS)
    assert files(call) == (("failed", "failed") if was_answered else ("none", "none"))
    assert_over(call)


@pytest.mark.parametrize("was_answered", [False, True])
def test_a_call_that_takes_too_long_is_ended(
    stage: Stage, stopped_clock: Clock, line: Line, was_answered: bool
) -> None:
    call = answer_live_call(stage, line) if was_answered else dial_live_call(stage)
    forward_and_work(stage, stopped_clock, call, LONGEST_MS - POLL_MS)
    assert line.stopped == []
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    assert line.stopped == [line.contacts[call.id]]
    assert outcome(call)[:2] == (("completed", "max_duration") if was_answered else ("failed", "provider_timeout"))
    assert call.doc["duration_seconds"] == (LONGEST_MS // clock.SECOND if was_answered else None)
    # What the carrier says of it later changes nothing.
    line.state = ContactState(None, clock.now(), HUNG_UP)
    tell(stage, contact_event(line.contacts[call.id], "DISCONNECTED"))
    forward_and_work(stage, stopped_clock, call, FILES_GIVEN_UP_AFTER_MS)
    assert call.doc["ended_reason"] in ("max_duration", "provider_timeout")
    assert_over(call)


def test_a_carrier_too_busy_to_tell_is_asked_again(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = dial_live_call(stage)
    line.state = Busy("ThrottlingException")
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    assert call.doc["call_status"] == "dialing"
    line.state = ContactState(None, clock.now(), Ending(SessionCallStatus.NO_ANSWER, EndedReason.DECLINED))
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    assert outcome(call)[:2] == ("no_answer", "declined")


@pytest.mark.parametrize("trouble", [Busy("ThrottlingException"), NotConfigured("missing: CONNECT_INSTANCE_ID")])
def test_a_call_that_the_carrier_tells_nothing_of_any_more_ends_all_the_same(
    stage: Stage, stopped_clock: Clock, line: Line, trouble: Exception
) -> None:
    call = answer_live_call(stage, line)
    line.state = trouble
    forward_and_work(stage, stopped_clock, call, LONGEST_MS + LOST_AFTER_MS)
    assert outcome(call)[:2] == ("failed", "provider_timeout")
    forward_and_work(stage, stopped_clock, call, FILES_GIVEN_UP_AFTER_MS)
    assert_over(call)


# Events


@pytest.mark.parametrize("kind", amazon_connect.DETAIL_TYPES)
def test_events_are_wake_ups_however_often_and_in_whatever_order_they_come(
    stage: Stage, stopped_clock: Clock, line: Line, kind: str
) -> None:
    call = dial_live_call(stage)
    contact = line.contacts[call.id]
    unset = {"connectedToSystemTimestamp": "1970-01-01T00:00:00.001Z", "disconnectTimestamp": "1970-01-01T00:00:00Z"}
    spelled = {"ContactId": contact, "EventType": "DISCONNECTED"}
    line.state = ContactState(clock.now(), None, None)
    for each in (
        contact_event(contact, "DISCONNECTED", kind),
        contact_event(contact, "CONNECTED_TO_SYSTEM", kind, **unset),
        contact_event(contact, "INITIATED", kind, **unset),
        contact_event(contact, "CONNECTED_TO_SYSTEM", kind),
        {"source": "aws.connect", "detail-type": kind, "detail": spelled},
    ):
        stage.messages("dials")
        tell(stage, each)
        [record] = woken(stage, call.scope, "dials")
        stage.invoke("dial", {"Records": [record]})
        assert call.doc["call_status"] == "dialing"
        stopped_clock.forward(1)
    line.state = ContactState(line.state.answered_at, clock.now(), HUNG_UP)
    for happened in ("DISCONNECTED", "DISCONNECTED", "INITIATED"):
        tell(stage, contact_event(contact, happened, kind))
        work(stage, call)
    assert outcome(call)[:2] == ("completed", "customer_hangup")
    assert events_of(stage, call.id) == ["session.created", "session.dialing", "session.completed"]
    forward_and_work(stage, stopped_clock, call, FILES_GIVEN_UP_AFTER_MS)
    tell(stage, contact_event(contact, "DISCONNECTED", kind))
    work(stage, call)
    assert_over(call)
    assert files(call) == ("failed", "failed")


def test_an_event_that_meets_a_transaction_on_its_call_is_not_lost(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = dial_live_call(stage)
    with wire(Fault(1, conflicting(-1), tries=2)) as wired:
        tell(stage, contact_event(line.contacts[call.id]))
    assert wired.disturbed == 2
    assert call.row["due_at"] <= clock.now()


def test_a_call_that_ends_while_many_look_ends_once(stage: Stage, line: Line) -> None:
    call = dial_live_call(stage)
    contact = line.contacts[call.id]
    line.state = ContactState(clock.now() - 5000, clock.now(), HUNG_UP)
    events = [contact_event(contact, "DISCONNECTED"), object_event(recording_of(contact))]
    tells = [lambda event=event: tell(stage, event) for event in events * 2]
    run_at_once([*tells, *[lambda: work(stage, call)] * 4])
    work(stage, call)
    assert outcome(call)[:2] == ("completed", "customer_hangup")
    assert calls_under_way(call) == 0
    assert month_usage(call)["calls"] == 1
    assert files(call) == ("processing", "available")
    stored = ["session.created", "session.dialing", "session.completed", "session.recording_ready"]
    assert events_of(stage, call.id) == stored


NOBODY = str(uuid.uuid4())


@pytest.mark.parametrize(
    "event",
    [
        contact_event(NOBODY),
        contact_event("nothing that a contact is called"),
        contact_event(NOBODY, kind="Another Event"),
        {"source": "aws.connect", "detail-type": amazon_connect.DETAIL_TYPES[0], "detail": {}},
        object_event("recordings/7/test/sess_1.wav"),
        object_event(recording_of(NOBODY)),
        object_event(f"Analysis/Voice/2026/11/21/{NOBODY}_analysis_2026-11-21T09:51:16Z.json"),
    ],
)
def test_an_event_of_nothing_of_ours_wakes_nobody(stage: Stage, event: dict[str, Any]) -> None:
    with wire() as wired:
        tell(stage, event)
    assert set(wired.operations()) <= {"GetItem"}


def test_an_event_that_comes_before_its_contact_is_written_down_is_made_good_for_by_the_watch(
    stage: Stage, stopped_clock: Clock, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, start = place_live_call(stage), line.start

    def start_and_end(*arguments: Any) -> str:
        contact = start(*arguments)
        tell(stage, contact_event(contact), contact_event(contact, "DISCONNECTED"))
        line.state = ContactState(None, clock.now(), Ending(SessionCallStatus.NO_ANSWER, EndedReason.BUSY))
        return contact

    monkeypatch.setattr(line, "start", start_and_end)
    work(stage, call)
    assert call.doc["call_status"] == "dialing"
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    assert outcome(call)[:2] == ("no_answer", "busy")
    assert len(line.started) == 1
