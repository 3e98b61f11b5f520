"""Live calls: placed once, followed to their end, and what is kept of them (contract 7)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from shared.calls import consents, settlements
from shared.calls import limits as call_limits
from shared.calls.live import BUSY, FILES_WITHIN, LONGEST, LOST_AFTER, POLL, START_AGAIN, START_WITHIN
from shared.core import aws, clock
from shared.telephony import Busy, CallRefused, ContactState, Ending, NotConfigured, adapters, amazon_connect
from shared.telephony.amazon_connect import REASON_DELAY, Connect
from shared.work import owed
from tests.support import privileges
from tests.support.clocks import Clock
from tests.support.live_calls import (
    HUNG_UP,
    NAME,
    PHONE,
    TITLE,
    Line,
    LiveCall,
    after,
    analysis_of,
    answered,
    assert_over,
    contact_event,
    dialed,
    dies,
    events_of,
    files,
    kept_log,
    object_event,
    outcome,
    placed,
    tell,
    under_way,
    used,
    work,
)
from tests.support.racing import at_once
from tests.support.resources import hinted, seen
from tests.support.stage import Stage
from tests.support.wire import Fault, Killed, conflicting, refused, wire

SECRETS = (PHONE, PHONE[1:], NAME, TITLE, "on my way")


@pytest.fixture(autouse=True)
def logged(stage: Stage) -> Iterator[list[str]]:
    with kept_log(SECRETS) as lines:
        yield lines


@pytest.fixture(autouse=True)
def live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMULATE_LIVE", "0")


@pytest.fixture
def line() -> Iterator[Line]:
    carrier = Line()
    adapters.use(carrier=carrier)
    yield carrier
    adapters.use()


def ended(stage: Stage, line: Line, time: Clock, ending: Ending = HUNG_UP) -> LiveCall:
    """A live call that was answered, and is over."""
    call = answered(stage, line)
    time.forward(20)
    line.state = ContactState(clock.now() - 20_000, clock.now(), ending)
    after(stage, time, call, POLL)
    return call


def recording_of(contact_id: str) -> str:
    return f"connect/CallRecordings/ivr/2026/11/21/{contact_id}_20261121T09:47_UTC.wav"


# From the request to the end


def test_a_call_is_dialed_answered_and_completed_with_an_event_for_each(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = placed(stage)
    assert call.doc["call_status"] == "queued"
    work(stage, call)
    [(to, session_id, project_id, livemode, opening)] = line.started
    assert (to, session_id, project_id, livemode) == (PHONE, call.id, call.scope.project_id, True)
    assert NAME in opening
    assert TITLE in opening
    assert under_way(call) == 1
    contact = line.contacts[call.id]
    stopped_clock.forward(5)
    at = clock.now()
    line.state = ContactState(at, None, None)
    stage.messages("dials")
    tell(stage, contact_event(contact))
    assert len(hinted(stage, call.scope, "dials")) == 1
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
    said = seen(stage, f"/v1/sessions/{call.id}/transcript")["data"]
    assert [(one["role"], one["content"]) for one in said] == [("agent", "Hello there"), ("customer", "I am on my way")]
    recording = seen(stage, f"/v1/sessions/{call.id}/recording")
    assert recording["duration_seconds"] == 42
    assert contact in recording["url"]


@pytest.mark.parametrize(
    ("ending", "was_answered"),
    [
        (HUNG_UP, True),
        (Ending("completed", "agent_hangup", "human"), True),
        (Ending("no_answer", "no_answer"), False),
        (Ending("no_answer", "busy"), False),
        (Ending("no_answer", "declined"), False),
        (Ending("no_answer", "voicemail", "machine"), True),
        (Ending("invalid_number", "invalid_number"), False),
        (Ending("failed", "blocked"), False),
        (Ending("failed", "provider_error"), True),
        (Ending("failed", "provider_error"), False),
    ],
    ids=str,
)
def test_each_ending_is_counted_and_gives_back_what_the_call_took(
    stage: Stage, stopped_clock: Clock, line: Line, ending: Ending, was_answered: bool
) -> None:
    call = dialed(stage)
    begun = clock.now() + 1000 if was_answered else None
    line.state = ContactState(begun, clock.now() + 9000, ending)
    after(stage, stopped_clock, call, POLL)
    assert outcome(call) == (ending.call_status, ending.ended_reason, ending.answered_by)
    assert call.doc["duration_seconds"] == (8 if was_answered else None)
    assert files(call) == (("processing", "processing") if was_answered else ("none", "none"))
    after(stage, stopped_clock, call, FILES_WITHIN)
    assert files(call) == (("failed", "failed") if was_answered else ("none", "none"))
    assert_over(call)
    assert events_of(stage, call.id) == ["session.created", "session.dialing", f"session.{ending.call_status}"]
    answer = stage.call("POST", f"/v1/customers/{call.customer}/call", {})
    assert answer.status == 201, answer.body


# One start for a call


def test_hints_that_come_twice_start_one_call(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = placed(stage)
    for _ in range(3):
        work(stage, call)
    assert len(line.started) == 1
    assert under_way(call) == 1


def test_of_eight_workers_at_once_one_starts_the_call(stage: Stage, line: Line) -> None:
    call = placed(stage)
    at_once([lambda: work(stage, call)] * 8)
    assert len(line.started) == 1
    assert under_way(call) == 1
    assert call.row["contact_id"] == line.contacts[call.id]
    assert events_of(stage, call.id) == ["session.created", "session.dialing"]


def test_eight_workers_who_follow_a_dead_one_start_the_call_once_more_under_its_token(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = placed(stage)
    dies(stage, call, line)
    stopped_clock.forward(START_AGAIN / clock.SECOND)
    at_once([lambda: work(stage, call)] * 8)
    assert [session_id for _, session_id, *_ in line.started] == [call.id] * 2
    assert call.row["contact_id"] == line.contacts[call.id]
    assert under_way(call) == 1


def test_a_call_whose_worker_died_is_woken_in_time_to_be_started_again_under_the_same_token(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = placed(stage)
    # Neither the queue's visibility nor sweep is quick enough.
    [wakes] = dies(stage, call, line)
    assert wakes * clock.SECOND == START_AGAIN < START_WITHIN
    after(stage, stopped_clock, call, wakes * clock.SECOND)
    assert [session_id for _, session_id, *_ in line.started] == [call.id] * 2
    assert call.row["contact_id"] == line.contacts[call.id]
    tell(stage, contact_event(line.contacts[call.id]))
    line.state = ContactState(clock.now(), clock.now(), HUNG_UP)
    work(stage, call)
    assert outcome(call)[:2] == ("completed", "customer_hangup")


def test_a_start_that_a_worker_died_over_is_given_up_once_the_call_may_have_rung_out(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = placed(stage)
    dies(stage, call, line)
    after(stage, stopped_clock, call, START_WITHIN)
    assert len(line.started) == 1
    assert outcome(call) == ("failed", "provider_timeout", None)
    after(stage, stopped_clock, call, 0)
    assert_over(call)
    assert files(call) == ("none", "none")


@pytest.mark.parametrize("death", [(position, after) for position in range(7) for after in (False, True)])
def test_a_call_whose_worker_dies_anywhere_is_started_under_one_token_and_ends(
    stage: Stage, stopped_clock: Clock, line: Line, death: tuple[int, bool]
) -> None:
    call = placed(stage)
    position, after_call = death
    killed = {"kill_after" if after_call else "kill_before": position}
    with wire(None, **killed), suppress(Killed):
        work(stage, call)
    after(stage, stopped_clock, call, START_AGAIN)
    assert {session_id for _, session_id, *_ in line.started} == {call.id}
    line.state = ContactState(None, clock.now(), Ending("no_answer", "no_answer"))
    after(stage, stopped_clock, call, POLL)
    assert outcome(call)[:2] == ("no_answer", "no_answer")
    assert_over(call)
    assert events_of(stage, call.id) == ["session.created", "session.dialing", "session.no_answer"]


# A carrier that does not place the call


def test_a_busy_carrier_is_asked_again_under_the_same_token(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = placed(stage)
    line.trouble += [Busy("ThrottlingException"), Busy("ThrottlingException")]
    for expected in (1, 2, 3):
        after(stage, stopped_clock, call, BUSY)
        assert len(line.started) == expected
    assert {session_id for _, session_id, *_ in line.started} == {call.id}
    assert call.row["contact_id"] == line.contacts[call.id]


def test_a_carrier_that_stays_busy_is_given_up(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = placed(stage)
    line.trouble += [Busy("ThrottlingException") for _ in range(100)]
    for _ in range(START_WITHIN // BUSY + 2):
        after(stage, stopped_clock, call, BUSY)
    assert len(line.started) <= START_WITHIN // BUSY + 1
    assert outcome(call) == ("failed", "provider_timeout", None)
    assert_over(call)


@pytest.mark.parametrize(
    "ending",
    [
        amazon_connect.NOT_ALLOWED,
        amazon_connect.BLOCKED,
        amazon_connect.INVALID_NUMBER,
        amazon_connect.PROVIDER_ERROR,
    ],
    ids=str,
)
def test_a_refused_call_is_over(stage: Stage, stopped_clock: Clock, line: Line, ending: Ending) -> None:
    call = placed(stage)
    line.trouble.append(CallRefused(ending))
    work(stage, call)
    assert outcome(call) == (ending.call_status, ending.ended_reason, None)
    after(stage, stopped_clock, call, POLL)
    assert len(line.started) == 1
    assert_over(call)
    assert files(call) == ("none", "none")
    assert events_of(stage, call.id) == ["session.created", "session.dialing", f"session.{ending.call_status}"]


def test_a_stage_without_its_settings_fails_calls_and_names_what_is_missing(
    stage: Stage, stopped_clock: Clock, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    monkeypatch.delenv("CONNECT_INSTANCE_ID", raising=False)
    adapters.use()
    call = placed(stage)
    work(stage, call)
    assert outcome(call) == ("failed", "provider_error", None)
    assert "CONNECT_INSTANCE_ID" in call.doc["summary"]
    assert [line for line in logged if "CONNECT_INSTANCE_ID" in line and "ERROR" in line]
    after(stage, stopped_clock, call, 0)
    assert_over(call)


def test_a_number_beyond_the_limits_is_not_called(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = placed(stage)
    call_limits.set_limits(call.scope.project_id, call_limits.Limits(prefixes=("+1",)))
    work(stage, call)
    assert line.started == []
    assert outcome(call) == ("failed", "destination_not_allowed", None)
    assert_over(call, calls=0)


# Watching a call


def test_a_call_that_no_event_comes_of_is_watched(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = dialed(stage)
    after(stage, stopped_clock, call, POLL)
    assert call.doc["answered_at"] is None
    line.state = ContactState(clock.now(), None, None)
    after(stage, stopped_clock, call, POLL)
    assert call.doc["answered_at"] == clock.iso(line.state.answered_at or 0)
    line.state = ContactState(line.state.answered_at, clock.now(), HUNG_UP)
    after(stage, stopped_clock, call, POLL)
    assert outcome(call)[:2] == ("completed", "customer_hangup")


def test_sweep_has_a_call_watched_whose_hints_were_all_lost(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    with wire(Fault(0, refused, service="sqs")):
        call = dialed(stage)
    line.state = ContactState(None, clock.now(), Ending("no_answer", "busy"))
    stage.messages("dials")
    stopped_clock.forward(POLL / clock.SECOND + owed.GRACE + 1)
    stage.invoke("sweep", {})
    [record] = hinted(stage, call.scope, "dials")
    stage.invoke("dial", {"Records": [record]})
    assert outcome(call)[:2] == ("no_answer", "busy")


@pytest.mark.parametrize("was_answered", [False, True])
def test_a_contact_that_the_carrier_has_lost_fails_the_call_in_the_end(
    stage: Stage, stopped_clock: Clock, line: Line, was_answered: bool
) -> None:
    call = answered(stage, line) if was_answered else dialed(stage)
    line.state = None
    after(stage, stopped_clock, call, POLL)
    assert call.doc["call_status"] == "dialing"
    after(stage, stopped_clock, call, LOST_AFTER)
    assert outcome(call) == ("failed", "provider_timeout", None)
    after(stage, stopped_clock, call, FILES_WITHIN)
    assert files(call) == (("failed", "failed") if was_answered else ("none", "none"))
    assert_over(call)


@pytest.mark.parametrize("was_answered", [False, True])
def test_a_call_that_takes_too_long_is_ended(
    stage: Stage, stopped_clock: Clock, line: Line, was_answered: bool
) -> None:
    call = answered(stage, line) if was_answered else dialed(stage)
    after(stage, stopped_clock, call, LONGEST - POLL)
    assert line.stopped == []
    after(stage, stopped_clock, call, POLL)
    assert line.stopped == [line.contacts[call.id]]
    assert outcome(call)[:2] == (("completed", "max_duration") if was_answered else ("failed", "provider_timeout"))
    assert call.doc["duration_seconds"] == (LONGEST // clock.SECOND if was_answered else None)
    # What the carrier says of it later changes nothing.
    line.state = ContactState(None, clock.now(), HUNG_UP)
    tell(stage, contact_event(line.contacts[call.id], "DISCONNECTED"))
    after(stage, stopped_clock, call, FILES_WITHIN)
    assert call.doc["ended_reason"] in ("max_duration", "provider_timeout")
    assert_over(call)


def test_a_carrier_too_busy_to_tell_is_asked_again(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = dialed(stage)
    line.state = Busy("ThrottlingException")
    after(stage, stopped_clock, call, POLL)
    assert call.doc["call_status"] == "dialing"
    line.state = ContactState(None, clock.now(), Ending("no_answer", "declined"))
    after(stage, stopped_clock, call, POLL)
    assert outcome(call)[:2] == ("no_answer", "declined")


@pytest.mark.parametrize("trouble", [Busy("ThrottlingException"), NotConfigured("missing: CONNECT_INSTANCE_ID")])
def test_a_call_that_the_carrier_tells_nothing_of_any_more_ends_all_the_same(
    stage: Stage, stopped_clock: Clock, line: Line, trouble: Exception
) -> None:
    call = answered(stage, line)
    line.state = trouble
    after(stage, stopped_clock, call, LONGEST + LOST_AFTER)
    assert outcome(call)[:2] == ("failed", "provider_timeout")
    after(stage, stopped_clock, call, FILES_WITHIN)
    assert_over(call)


# Events


@pytest.mark.parametrize("kind", amazon_connect.EVENTS)
def test_events_are_hints_however_often_and_in_whatever_order_they_come(
    stage: Stage, stopped_clock: Clock, line: Line, kind: str
) -> None:
    call = dialed(stage)
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
        [record] = hinted(stage, call.scope, "dials")
        stage.invoke("dial", {"Records": [record]})
        assert call.doc["call_status"] == "dialing"
        stopped_clock.forward(1)
    line.state = ContactState(line.state.answered_at, clock.now(), HUNG_UP)
    for happened in ("DISCONNECTED", "DISCONNECTED", "INITIATED"):
        tell(stage, contact_event(contact, happened, kind))
        work(stage, call)
    assert outcome(call)[:2] == ("completed", "customer_hangup")
    assert events_of(stage, call.id) == ["session.created", "session.dialing", "session.completed"]
    after(stage, stopped_clock, call, FILES_WITHIN)
    tell(stage, contact_event(contact, "DISCONNECTED", kind))
    work(stage, call)
    assert_over(call)
    assert files(call) == ("failed", "failed")


def test_an_event_that_meets_a_transaction_on_its_call_is_not_lost(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = dialed(stage)
    with wire(Fault(1, conflicting(-1), tries=2)) as wired:
        tell(stage, contact_event(line.contacts[call.id]))
    assert wired.disturbed == 2
    assert call.row["due_at"] <= clock.now()


def test_a_call_that_ends_while_many_look_ends_once(stage: Stage, line: Line) -> None:
    call = dialed(stage)
    contact = line.contacts[call.id]
    line.state = ContactState(clock.now() - 5000, clock.now(), HUNG_UP)
    events = [contact_event(contact, "DISCONNECTED"), object_event(recording_of(contact))]
    tells = [lambda event=event: tell(stage, event) for event in events * 2]
    at_once([*tells, *[lambda: work(stage, call)] * 4])
    work(stage, call)
    assert outcome(call)[:2] == ("completed", "customer_hangup")
    assert under_way(call) == 0
    assert used(call)["calls"] == 1
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
        {"source": "aws.connect", "detail-type": amazon_connect.EVENTS[0], "detail": {}},
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
    call, start = placed(stage), line.start

    def quick(*arguments: Any) -> str:
        contact = start(*arguments)
        tell(stage, contact_event(contact), contact_event(contact, "DISCONNECTED"))
        line.state = ContactState(None, clock.now(), Ending("no_answer", "busy"))
        return contact

    monkeypatch.setattr(line, "start", quick)
    work(stage, call)
    assert call.doc["call_status"] == "dialing"
    after(stage, stopped_clock, call, POLL)
    assert outcome(call)[:2] == ("no_answer", "busy")
    assert len(line.started) == 1


# Transcript and recording


def test_files_that_come_before_the_calls_end_are_there_at_its_end(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = answered(stage, line)
    contact = line.contacts[call.id]
    for _ in range(2):
        tell(stage, object_event(recording_of(contact)), object_event(analysis_of(contact)))
        work(stage, call)
        assert call.doc["call_status"] == "dialing"
    line.state = ContactState(clock.now(), clock.now(), HUNG_UP)
    after(stage, stopped_clock, call, POLL)
    assert files(call) == ("available", "available")
    assert_over(call)


@pytest.mark.parametrize("first", ["recording", "transcript"])
def test_files_that_come_after_the_calls_end_are_waited_for(
    stage: Stage, stopped_clock: Clock, line: Line, first: str
) -> None:
    call = ended(stage, line, stopped_clock)
    contact = line.contacts[call.id]
    assert files(call) == ("processing", "processing")
    come = [object_event(recording_of(contact)), object_event(analysis_of(contact))]
    for event in come if first == "recording" else reversed(come):
        stopped_clock.forward(60)
        for _ in range(2):
            stage.messages("dials")
            tell(stage, event)
            [record] = hinted(stage, call.scope, "dials")
            stage.invoke("dial", {"Records": [record]})
        assert call.doc[f"{first}_status"] == "available"
    assert files(call) == ("available", "available")
    ready = [f"session.{name}_ready" for name in (first, "recording" if first == "transcript" else "transcript")]
    assert events_of(stage, call.id) == ["session.created", "session.dialing", "session.completed", *ready]
    assert_over(call)
    after(stage, stopped_clock, call, FILES_WITHIN)
    assert files(call) == ("available", "available")


def test_a_file_that_never_comes_is_given_up_and_one_that_comes_later_changes_nothing(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = ended(stage, line, stopped_clock)
    tell(stage, object_event(recording_of(line.contacts[call.id])))
    work(stage, call)
    assert files(call) == ("processing", "available")
    # The call ended POLL ago.
    after(stage, stopped_clock, call, FILES_WITHIN - POLL - 2000)
    assert files(call) == ("processing", "available")
    after(stage, stopped_clock, call, 2000)
    assert files(call) == ("failed", "available")
    assert_over(call)
    tell(stage, object_event(analysis_of(line.contacts[call.id])))
    work(stage, call)
    assert files(call) == ("failed", "available")
    assert_over(call)
    assert "session.transcript_ready" not in events_of(stage, call.id)


def test_an_analysis_that_failed_is_no_transcript(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = ended(stage, line, stopped_clock)
    tell(stage, object_event(analysis_of(line.contacts[call.id], {"JobStatus": "FAILED"})))
    work(stage, call)
    assert call.doc["transcript_status"] == "processing"
    after(stage, stopped_clock, call, FILES_WITHIN)
    assert call.doc["transcript_status"] == "failed"


@contextmanager
def after_the_first_write(work: Callable[[], Any]) -> Iterator[None]:
    """The work is done once, as soon as one row was written."""
    left, events = [work], aws.dynamodb().meta.events

    def called(**others: Any) -> None:
        if left:
            with privileges.running(None):
                left.pop()()

    names = [f"after-call.dynamodb.{name}" for name in ("PutItem", "UpdateItem")]
    for name in names:
        events.register(name, called)
    try:
        yield
    finally:
        for name in names:
            events.unregister(name, called)
    assert not left, "nothing was written"


@pytest.mark.parametrize("part", ["recording", "transcript"])
def test_a_worker_that_looks_while_a_file_is_noted_does_not_put_it_off(
    stage: Stage, stopped_clock: Clock, line: Line, part: str
) -> None:
    call = ended(stage, line, stopped_clock)
    contact = line.contacts[call.id]
    key = recording_of(contact) if part == "recording" else analysis_of(contact)
    with after_the_first_write(lambda: work(stage, call)):
        tell(stage, object_event(key))
    work(stage, call)
    assert call.doc[f"{part}_status"] == "available"


# WhatsApp


def test_a_live_call_on_whatsapp_fails_and_says_what_is_missing_and_nobody_is_phoned(
    stage: Stage, stopped_clock: Clock, line: Line, logged: list[str]
) -> None:
    call = placed(stage, channel="whatsapp")
    granted(stage, call)
    after(stage, stopped_clock, call, 0)
    assert line.started == []
    assert outcome(call) == ("failed", "provider_error", None)
    assert "media bridge" in call.doc["summary"]
    assert [one for one in logged if "media bridge" in one and "ERROR" in one]
    assert_over(call, calls=0)
    assert files(call) == ("none", "none")
    assert events_of(stage, call.id) == ["session.created", "session.failed"]


def granted(stage: Stage, call: LiveCall) -> None:
    """The customer agrees to be called on WhatsApp."""
    assert call.doc["consent"]["status"] == "pending"
    work(stage, call)
    assert call.doc["call_status"] == "queued"
    settlements.answer(call.scope, PHONE, consents.GRANTED, clock.now(), None)
    assert call.doc["consent"]["status"] == "granted"


# Through the adapter of Amazon Connect


@pytest.fixture
def connect() -> Iterator[Stubber]:
    client: Any = boto3.client("connect", region_name="eu-central-1")
    adapters.use(carrier=Connect(client, "instance", "flow", queue_id="queue"))
    with Stubber(client) as stubber:
        yield stubber
    adapters.use()


def contact_of(contact_id: str, **given: Any) -> dict[str, Any]:
    return {"Contact": {"Id": contact_id, "Channel": "VOICE", **given}}


def at(instant: int) -> datetime:
    return datetime.fromtimestamp(instant / clock.SECOND, UTC)


def start_answers(stubber: Stubber, call: LiveCall, contact: str) -> None:
    attributes = {"session_id": call.id, "project_id": str(call.scope.project_id), "livemode": "true", "opening": ANY}
    asked: dict[str, Any] = {"InstanceId": "instance", "ContactFlowId": "flow", "QueueId": "queue"}
    asked["DestinationPhoneNumber"] = PHONE
    asked |= {"ClientToken": call.id, "Attributes": attributes}
    stubber.add_response("start_outbound_voice_contact", {"ContactId": contact}, asked)


def test_a_contact_that_has_ended_without_a_reason_is_looked_at_again(
    stage: Stage, stopped_clock: Clock, connect: Stubber
) -> None:
    call, contact = placed(stage), str(uuid.uuid4())
    start_answers(connect, call, contact)
    work(stage, call)
    stopped_clock.forward(10)
    times = {"ConnectedToSystemTimestamp": at(clock.now() - 9000), "DisconnectTimestamp": at(clock.now())}
    for _ in range(2):
        connect.add_response("describe_contact", contact_of(contact, **times))
    tell(stage, contact_event(contact, "DISCONNECTED"))
    work(stage, call)
    assert call.doc["call_status"] == "dialing"
    assert call.doc["answered_at"] == clock.iso(clock.now() - 9000)
    wait = call.row["due_at"] - clock.now()
    assert wait <= REASON_DELAY
    after(stage, stopped_clock, call, wait)
    assert outcome(call)[:2] == ("completed", "agent_hangup")
    assert call.doc["duration_seconds"] == 9
    connect.assert_no_pending_responses()


def test_a_reason_that_comes_late_is_what_the_call_ends_with(
    stage: Stage, stopped_clock: Clock, connect: Stubber
) -> None:
    call, contact = placed(stage), str(uuid.uuid4())
    start_answers(connect, call, contact)
    work(stage, call)
    times = {"ConnectedToSystemTimestamp": at(0), "DisconnectTimestamp": at(clock.now())}
    connect.add_response("describe_contact", contact_of(contact, **times))
    connect.add_response("describe_contact", contact_of(contact, **times, DisconnectReason="TELECOM_BUSY"))
    tell(stage, contact_event(contact, "DISCONNECTED"))
    work(stage, call)
    assert call.doc["call_status"] == "dialing"
    tell(stage, contact_event(contact, "DISCONNECTED"))
    work(stage, call)
    assert outcome(call)[:2] == ("no_answer", "busy")
    assert_over(call)


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("DestinationNotAllowedException", ("failed", "destination_not_allowed")),
        ("OutboundContactNotPermittedException", ("failed", "blocked")),
        ("ResourceNotFoundException", ("failed", "provider_error")),
    ],
)
def test_a_start_that_amazon_connect_refuses_ends_the_call(
    stage: Stage, stopped_clock: Clock, connect: Stubber, code: str, ending: tuple[str, str]
) -> None:
    call = placed(stage)
    connect.add_client_error("start_outbound_voice_contact", code, f"not to {PHONE}", 403)
    work(stage, call)
    assert outcome(call)[:2] == ending
    after(stage, stopped_clock, call, POLL)
    assert_over(call)


def test_a_throttled_start_is_made_again(stage: Stage, stopped_clock: Clock, connect: Stubber) -> None:
    call, contact = placed(stage), str(uuid.uuid4())
    connect.add_client_error("start_outbound_voice_contact", "ThrottlingException", f"slow down, {PHONE}", 429)
    work(stage, call)
    start_answers(connect, call, contact)
    after(stage, stopped_clock, call, BUSY)
    assert call.row["contact_id"] == contact


def test_a_call_that_takes_too_long_is_stopped_at_amazon_connect(
    stage: Stage, stopped_clock: Clock, connect: Stubber
) -> None:
    call, contact = placed(stage), str(uuid.uuid4())
    start_answers(connect, call, contact)
    work(stage, call)
    connected = {"ConnectedToSystemTimestamp": at(clock.now())}
    connect.add_response("describe_contact", contact_of(contact, **connected))
    connect.add_response("stop_contact", {}, {"InstanceId": "instance", "ContactId": contact})
    after(stage, stopped_clock, call, LONGEST)
    assert outcome(call)[:2] == ("completed", "max_duration")
    connect.assert_no_pending_responses()
