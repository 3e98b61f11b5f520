"""Live calls from the request to the end: one start for a call, and carriers that do not place it (promises 7)."""

from __future__ import annotations

import logging
from contextlib import suppress

import pytest

from shared.calls import project_limits
from shared.calls.consent import consent_requests
from shared.calls.live.steps import BUSY_MS, FILES_GIVEN_UP_AFTER_MS, POLL_MS, START_AGAIN_MS, START_WITHIN_MS
from shared.core import clock
from shared.core.call_statuses import (
    BLOCKED,
    NOT_ALLOWED,
    PROVIDER_ERROR,
    ConsentStatus,
    EndedReason,
    Ending,
    SessionCallStatus,
)
from shared.telephony import Busy, CallRefused, ContactState, NoCapacity, adapters, amazon_connect
from tests.support.clocks import Clock
from tests.support.concurrency import run_at_once
from tests.support.live_calls import (
    HUNG_UP,
    NAME,
    PHONE,
    TITLE,
    Line,
    LiveCall,
    analysis_of,
    assert_over,
    calls_under_way,
    contact_event,
    dial_live_call,
    events_of,
    files,
    forward_and_work,
    lose_worker_at_start,
    object_event,
    outcome,
    place_live_call,
    recording_of,
    tell,
    text_of,
    work,
)
from tests.support.resources import get_resource, woken
from tests.support.simulated_calls import limit_calls
from tests.support.stage import Stage
from tests.support.wire import Killed, wire

# From the request to the end


def test_a_call_is_dialed_answered_and_completed_with_an_event_for_each(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = place_live_call(stage)
    assert call.doc["call_status"] == "queued"
    work(stage, call)
    [(to, session_id, project_id, livemode, opening)] = line.started
    assert (to, session_id, project_id, livemode) == (PHONE, call.id, call.scope.project_id, True)
    assert NAME in opening
    assert TITLE not in opening
    assert calls_under_way(call) == 1
    contact = line.contacts[call.id]
    stopped_clock.forward(5)
    at = clock.now()
    line.state = ContactState(at, None, None)
    stage.messages("dials")
    tell(stage, contact_event(contact))
    assert len(woken(stage, call.scope, "dials")) == 1
    work(stage, call)
    assert (call.doc["answered_at"], call.doc["call_status"]) == (clock.iso(at), "dialing")
    stopped_clock.forward(42)
    line.state = ContactState(at, clock.now() - 500, HUNG_UP)
    tell(stage, contact_event(contact, "DISCONNECTED"), object_event(recording_of(contact)))
    tell(stage, object_event(analysis_of(contact)))
    work(stage, call)
    assert outcome(call) == ("completed", "customer_hangup", None)
    assert call.doc["duration_seconds"] == 42
    assert call.doc["ended_at"] == clock.iso(clock.now() - 500)
    assert files(call) == ("available", "available")
    assert_over(call)
    assert events_of(stage, call.id) == [
        "session.created",
        "session.dialing",
        "session.completed",
        "session.transcript_ready",
        "session.recording_ready",
    ]
    said = get_resource(stage, f"/v1/sessions/{call.id}/transcript")["data"]
    assert [(one["role"], one["content"]) for one in said] == [("agent", "Hello there"), ("customer", "I am on my way")]
    recording = get_resource(stage, f"/v1/sessions/{call.id}/recording")
    assert recording["duration_seconds"] == 42
    assert contact in recording["url"]


@pytest.mark.parametrize(
    ("ending", "was_answered"),
    [
        (HUNG_UP, True),
        (Ending(SessionCallStatus.COMPLETED, EndedReason.AGENT_HANGUP, "human"), True),
        (Ending(SessionCallStatus.NO_ANSWER, EndedReason.NO_ANSWER), False),
        (Ending(SessionCallStatus.NO_ANSWER, EndedReason.BUSY), False),
        (Ending(SessionCallStatus.NO_ANSWER, EndedReason.DECLINED), False),
        (Ending(SessionCallStatus.NO_ANSWER, EndedReason.VOICEMAIL, "machine"), True),
        (Ending(SessionCallStatus.INVALID_NUMBER, EndedReason.INVALID_NUMBER), False),
        (Ending(SessionCallStatus.FAILED, EndedReason.BLOCKED), False),
        (Ending(SessionCallStatus.FAILED, EndedReason.PROVIDER_ERROR), True),
        (Ending(SessionCallStatus.FAILED, EndedReason.PROVIDER_ERROR), False),
    ],
    ids=str,
)
def test_each_ending_is_counted_and_gives_back_what_the_call_took(
    stage: Stage, stopped_clock: Clock, line: Line, ending: Ending, was_answered: bool
) -> None:
    call = dial_live_call(stage)
    begun = clock.now() + 1000 if was_answered else None
    line.state = ContactState(begun, clock.now() + 9000, ending)
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    assert outcome(call) == (ending.call_status, ending.ended_reason, ending.answered_by)
    assert call.doc["duration_seconds"] == (8 if was_answered else None)
    assert files(call) == (("processing", "processing") if was_answered else ("none", "none"))
    forward_and_work(stage, stopped_clock, call, FILES_GIVEN_UP_AFTER_MS)
    assert files(call) == (("failed", "failed") if was_answered else ("none", "none"))
    assert_over(call)
    assert events_of(stage, call.id) == ["session.created", "session.dialing", f"session.{ending.call_status}"]
    answer = stage.call("POST", f"/v1/customers/{call.customer}/call", {})
    assert answer.status == 201, answer.body


# One start for a call


def test_wake_ups_that_come_twice_start_one_call(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = place_live_call(stage)
    for _ in range(3):
        work(stage, call)
    assert len(line.started) == 1
    assert calls_under_way(call) == 1


def test_of_eight_workers_at_once_one_starts_the_call(stage: Stage, line: Line) -> None:
    call = place_live_call(stage)
    run_at_once([lambda: work(stage, call)] * 8)
    assert len(line.started) == 1
    assert calls_under_way(call) == 1
    assert call.row["contact_id"] == line.contacts[call.id]
    assert events_of(stage, call.id) == ["session.created", "session.dialing"]


def test_eight_workers_who_follow_a_dead_one_start_the_call_once_more_under_its_token(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = place_live_call(stage)
    lose_worker_at_start(stage, call, line)
    stopped_clock.forward(START_AGAIN_MS / clock.SECOND)
    run_at_once([lambda: work(stage, call)] * 8)
    assert [session_id for _, session_id, *_ in line.started] == [call.id] * 2
    assert call.row["contact_id"] == line.contacts[call.id]
    assert calls_under_way(call) == 1


def test_a_call_whose_worker_died_is_woken_in_time_to_be_started_again_under_the_same_token(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = place_live_call(stage)
    # Neither the queue's visibility nor sweep is quick enough.
    [wakes] = lose_worker_at_start(stage, call, line)
    assert wakes * clock.SECOND == START_AGAIN_MS < START_WITHIN_MS
    forward_and_work(stage, stopped_clock, call, wakes * clock.SECOND)
    assert [session_id for _, session_id, *_ in line.started] == [call.id] * 2
    assert call.row["contact_id"] == line.contacts[call.id]
    tell(stage, contact_event(line.contacts[call.id]))
    line.state = ContactState(clock.now(), clock.now(), HUNG_UP)
    work(stage, call)
    assert outcome(call)[:2] == ("completed", "customer_hangup")


def test_a_start_that_a_worker_died_over_is_given_up_once_the_call_may_have_rung_out(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = place_live_call(stage)
    lose_worker_at_start(stage, call, line)
    forward_and_work(stage, stopped_clock, call, START_WITHIN_MS)
    assert len(line.started) == 1
    assert outcome(call) == ("failed", "provider_timeout", None)
    forward_and_work(stage, stopped_clock, call, 0)
    assert_over(call, calls=0)
    assert files(call) == ("none", "none")
    assert events_of(stage, call.id) == ["session.created", "session.failed"]


@pytest.mark.parametrize("death", [(position, after) for position in range(10) for after in (False, True)])
def test_a_call_whose_worker_dies_anywhere_is_started_under_one_token_and_ends(
    stage: Stage, stopped_clock: Clock, line: Line, death: tuple[int, bool]
) -> None:
    call = place_live_call(stage)
    position, after_call = death
    killed = {"kill_after" if after_call else "kill_before": position}
    with wire(None, **killed), suppress(Killed):
        work(stage, call)
    forward_and_work(stage, stopped_clock, call, START_AGAIN_MS)
    assert {session_id for _, session_id, *_ in line.started} == {call.id}
    line.state = ContactState(None, clock.now(), Ending(SessionCallStatus.NO_ANSWER, EndedReason.NO_ANSWER))
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    assert outcome(call)[:2] == ("no_answer", "no_answer")
    assert_over(call)
    assert events_of(stage, call.id) == ["session.created", "session.dialing", "session.no_answer"]


# A carrier that does not place the call


def test_a_carrier_that_may_have_placed_the_call_is_asked_again_under_the_same_token(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = place_live_call(stage)
    line.trouble += [Busy("ReadTimeoutError"), NoCapacity("ThrottlingException")]
    for expected in (1, 2, 3):
        forward_and_work(stage, stopped_clock, call, BUSY_MS)
        assert len(line.started) == expected
    assert {session_id for _, session_id, *_ in line.started} == {call.id}
    assert call.row["contact_id"] == line.contacts[call.id]


def test_a_carrier_that_stays_busy_is_given_up(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = place_live_call(stage)
    line.trouble += [Busy("ReadTimeoutError") for _ in range(100)]
    for _ in range(START_WITHIN_MS // BUSY_MS + 2):
        forward_and_work(stage, stopped_clock, call, BUSY_MS)
    assert len(line.started) <= START_WITHIN_MS // BUSY_MS + 1
    assert outcome(call) == ("failed", "provider_timeout", None)
    assert_over(call, calls=0)


@pytest.mark.parametrize(
    "ending",
    [
        NOT_ALLOWED,
        BLOCKED,
        amazon_connect.INVALID_NUMBER,
        PROVIDER_ERROR,
    ],
    ids=str,
)
def test_a_refused_call_is_over(stage: Stage, stopped_clock: Clock, line: Line, ending: Ending) -> None:
    call = place_live_call(stage)
    line.trouble.append(CallRefused(ending))
    work(stage, call)
    assert outcome(call) == (ending.call_status, ending.ended_reason, None)
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    assert len(line.started) == 1
    assert_over(call, calls=0)
    assert call.doc["dialed_at"] is None
    assert files(call) == ("none", "none")
    assert events_of(stage, call.id) == ["session.created", f"session.{ending.call_status}"]


def test_a_stage_without_its_settings_fails_calls_and_names_what_is_missing(
    stage: Stage, stopped_clock: Clock, monkeypatch: pytest.MonkeyPatch, logged: list[logging.LogRecord]
) -> None:
    monkeypatch.delenv("CONNECT_INSTANCE_ID", raising=False)
    adapters.use()
    call = place_live_call(stage)
    work(stage, call)
    assert outcome(call) == ("failed", "provider_error", None)
    assert "CONNECT_INSTANCE_ID" in call.doc["summary"]
    assert [text for text in map(text_of, logged) if "CONNECT_INSTANCE_ID" in text and "ERROR" in text]
    forward_and_work(stage, stopped_clock, call, 0)
    assert_over(call, calls=0)


def test_a_number_beyond_the_limits_is_not_called(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = place_live_call(stage)
    limit_calls(call.scope.project_id, project_limits.Limits(prefixes=("+1",)))
    work(stage, call)
    assert line.started == []
    assert outcome(call) == ("failed", "destination_not_allowed", None)
    assert_over(call, calls=0)


# WhatsApp


def test_a_live_call_on_whatsapp_fails_and_says_what_is_missing_and_nobody_is_phoned(
    stage: Stage, stopped_clock: Clock, line: Line, logged: list[logging.LogRecord]
) -> None:
    call = place_live_call(stage, channel="whatsapp")
    grant_consent(stage, call)
    forward_and_work(stage, stopped_clock, call, 0)
    assert line.started == []
    assert outcome(call) == ("failed", "provider_error", None)
    assert "media bridge" in call.doc["summary"]
    assert [text for text in map(text_of, logged) if "media bridge" in text and "ERROR" in text]
    assert_over(call, calls=0)
    assert files(call) == ("none", "none")
    assert events_of(stage, call.id) == ["session.created", "session.failed"]


def test_where_the_stage_says_so_a_yes_on_whatsapp_is_followed_by_a_call_by_phone(
    stage: Stage, stopped_clock: Clock, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHATSAPP_DIAL", "phone")
    call = place_live_call(stage, channel="whatsapp")
    assert line.started == []
    grant_consent(stage, call)
    forward_and_work(stage, stopped_clock, call, 0)
    assert [to for to, *_ in line.started] == [PHONE]
    assert (call.doc["channel"], call.doc["call_status"]) == ("whatsapp", "dialing")
    stopped_clock.forward(5)
    line.state = ContactState(clock.now() - 1000, clock.now(), HUNG_UP)
    tell(stage, contact_event(line.contacts[call.id], "DISCONNECTED"))
    work(stage, call)
    assert outcome(call) == ("completed", "customer_hangup", None)
    assert call.doc["consent"]["status"] == "granted"


def grant_consent(stage: Stage, call: LiveCall) -> None:
    """The customer agrees to be called on WhatsApp."""
    assert call.doc["consent"]["status"] == "pending"
    work(stage, call)
    assert call.doc["call_status"] == "queued"
    consent_requests.answer(call.scope, PHONE, ConsentStatus.GRANTED, clock.now(), None)
    assert call.doc["consent"]["status"] == "granted"
