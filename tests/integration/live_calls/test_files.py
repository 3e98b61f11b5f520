"""Transcript and recording of a live call, whenever they come (promises 7)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from shared.aws import client as aws_client
from shared.aws import services
from shared.calls.live.steps import FILES_GIVEN_UP_AFTER_MS, POLL_MS
from shared.core import clock
from shared.core.call_statuses import Ending
from shared.telephony import ContactState
from tests.support import privileges
from tests.support.clocks import Clock
from tests.support.live_calls import (
    ANALYSIS,
    HUNG_UP,
    Line,
    LiveCall,
    analysis_of,
    answer_live_call,
    assert_over,
    events_of,
    files,
    forward_and_work,
    object_event,
    recording_of,
    tell,
    work,
)
from tests.support.resources import get_resource, woken
from tests.support.stage import Stage, sqs_record


def ended_call(stage: Stage, line: Line, time: Clock, ending: Ending = HUNG_UP) -> LiveCall:
    """A live call that was answered, and is over."""
    call = answer_live_call(stage, line)
    time.forward(20)
    line.state = ContactState(clock.now() - 20_000, clock.now(), ending)
    forward_and_work(stage, time, call, POLL_MS)
    return call


# Transcript and recording


def test_files_that_come_before_the_calls_end_are_there_at_its_end(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = answer_live_call(stage, line)
    contact = line.contacts[call.id]
    for _ in range(2):
        tell(stage, object_event(recording_of(contact)), object_event(analysis_of(contact)))
        work(stage, call)
        assert call.doc["call_status"] == "dialing"
    line.state = ContactState(clock.now(), clock.now(), HUNG_UP)
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    assert files(call) == ("available", "available")
    assert_over(call)


@pytest.mark.parametrize("first", ["recording", "transcript"])
def test_files_that_come_after_the_calls_end_are_waited_for(
    stage: Stage, stopped_clock: Clock, line: Line, first: str
) -> None:
    call = ended_call(stage, line, stopped_clock)
    contact = line.contacts[call.id]
    assert files(call) == ("processing", "processing")
    come = [object_event(recording_of(contact)), object_event(analysis_of(contact))]
    for event in come if first == "recording" else reversed(come):
        stopped_clock.forward(60)
        for _ in range(2):
            stage.messages("dials")
            tell(stage, event)
            [record] = woken(stage, call.scope, "dials")
            stage.invoke("dial", {"Records": [record]})
        assert call.doc[f"{first}_status"] == "available"
    assert files(call) == ("available", "available")
    ready = [f"session.{name}_ready" for name in (first, "recording" if first == "transcript" else "transcript")]
    assert events_of(stage, call.id) == ["session.created", "session.dialing", "session.completed", *ready]
    assert_over(call)
    forward_and_work(stage, stopped_clock, call, FILES_GIVEN_UP_AFTER_MS)
    assert files(call) == ("available", "available")


def test_a_file_that_never_comes_is_given_up_and_one_that_comes_later_changes_nothing(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = ended_call(stage, line, stopped_clock)
    tell(stage, object_event(recording_of(line.contacts[call.id])))
    work(stage, call)
    assert files(call) == ("processing", "available")
    # The call ended POLL_MS ago.
    forward_and_work(stage, stopped_clock, call, FILES_GIVEN_UP_AFTER_MS - POLL_MS - 2000)
    assert files(call) == ("processing", "available")
    forward_and_work(stage, stopped_clock, call, 2000)
    assert files(call) == ("failed", "available")
    assert_over(call)
    tell(stage, object_event(analysis_of(line.contacts[call.id])))
    work(stage, call)
    assert files(call) == ("failed", "available")
    assert_over(call)
    assert "session.transcript_ready" not in events_of(stage, call.id)


def test_an_analysis_that_failed_is_no_transcript(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = ended_call(stage, line, stopped_clock)
    tell(stage, object_event(analysis_of(line.contacts[call.id], {"JobStatus": "FAILED"})))
    work(stage, call)
    assert call.doc["transcript_status"] == "processing"
    forward_and_work(stage, stopped_clock, call, FILES_GIVEN_UP_AFTER_MS)
    assert call.doc["transcript_status"] == "failed"


@contextmanager
def after_the_first_write(work: Callable[[], Any]) -> Iterator[None]:
    """The work is done once, as soon as one row was written."""
    left = [work]

    class After(aws_client.Hook):
        def call(self, call: aws_client.AwsCall, proceed: Callable[[aws_client.AwsCall], Any]) -> Any:
            response = proceed(call)
            if left and call.operation in ("PutItem", "UpdateItem"):
                with privileges.running(None):
                    left.pop()()
            return response

    with aws_client.hooked(After()):
        yield
    assert not left, "nothing was written"


@pytest.mark.parametrize("part", ["recording", "transcript"])
def test_a_worker_that_looks_while_a_file_is_noted_does_not_put_it_off(
    stage: Stage, stopped_clock: Clock, line: Line, part: str
) -> None:
    call = ended_call(stage, line, stopped_clock)
    contact = line.contacts[call.id]
    key = recording_of(contact) if part == "recording" else analysis_of(contact)
    with after_the_first_write(lambda: work(stage, call)):
        tell(stage, object_event(key))
    work(stage, call)
    assert call.doc[f"{part}_status"] == "available"


# Redacted copies


def store_object(key: str) -> str:
    """The key of an object that is in the bucket."""
    services.s3().put_object(Bucket=os.environ["RECORDINGS_BUCKET"], Key=key, Body=b"RIFF")
    return key


def in_bucket(key: str) -> bool:
    found = services.s3().list_objects_v2(Bucket=os.environ["RECORDINGS_BUCKET"], Prefix=key)
    return bool(found["KeyCount"])


@contextmanager
def no_deletion() -> Iterator[None]:
    """The bucket does not answer requests for a deletion."""

    def fail(**others: Any) -> None:
        raise EndpointConnectionError(endpoint_url="bucket")

    events = services.s3().meta.events
    events.register("before-call.s3.DeleteObject", fail)
    try:
        yield
    finally:
        events.unregister("before-call.s3.DeleteObject", fail)


@pytest.mark.parametrize("first", ["raw", "redacted"])
def test_of_a_recording_and_its_redacted_copy_the_copy_is_kept(
    stage: Stage, stopped_clock: Clock, line: Line, first: str
) -> None:
    call = ended_call(stage, line, stopped_clock)
    contact = line.contacts[call.id]
    raw, redacted = store_object(recording_of(contact)), store_object(recording_of(contact, redacted=True))
    events = [object_event(raw), object_event(redacted)]
    # EventBridge may deliver each event again.
    for event in [*(events if first == "raw" else reversed(events)), *events]:
        tell(stage, event)
        work(stage, call)
    assert "Redacted" in get_resource(stage, f"/v1/sessions/{call.id}/recording")["url"]
    assert in_bucket(redacted)
    assert not in_bucket(raw)
    assert files(call)[1] == "available"
    assert events_of(stage, call.id).count("session.recording_ready") == 1


def test_a_recording_without_a_redacted_copy_stays(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = ended_call(stage, line, stopped_clock)
    raw = store_object(recording_of(line.contacts[call.id]))
    for _ in range(2):
        tell(stage, object_event(raw))
        work(stage, call)
    assert in_bucket(raw)
    assert files(call)[1] == "available"


def test_a_raw_recording_whose_deletion_failed_is_deleted_at_the_next_try(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = ended_call(stage, line, stopped_clock)
    contact = line.contacts[call.id]
    raw, redacted = store_object(recording_of(contact)), store_object(recording_of(contact, redacted=True))
    tell(stage, object_event(raw))
    event = sqs_record(json.dumps(object_event(redacted)), stage.queues["call_events"].arn)
    with no_deletion():
        failed = stage.invoke("call_events", {"Records": [event]})["batchItemFailures"]
    assert failed == [{"itemIdentifier": event["messageId"]}]
    assert in_bucket(raw)
    assert stage.invoke("call_events", {"Records": [event]}) == {"batchItemFailures": []}
    assert not in_bucket(raw)


@pytest.mark.parametrize("first", ["raw", "redacted"])
def test_of_an_analysis_and_its_redacted_copy_the_copy_is_the_transcript(
    stage: Stage, stopped_clock: Clock, line: Line, first: str
) -> None:
    call = ended_call(stage, line, stopped_clock)
    contact = line.contacts[call.id]
    hidden = json.loads(json.dumps(ANALYSIS).replace("I am on my way", "I am [PII]"))
    events = [object_event(analysis_of(contact)), object_event(analysis_of(contact, hidden, redacted=True))]
    for event in [*(events if first == "raw" else reversed(events)), *events]:
        tell(stage, event)
        work(stage, call)
    contents = [line["content"] for line in get_resource(stage, f"/v1/sessions/{call.id}/transcript")["data"]]
    assert contents == ["Hello there", "I am [PII]"]
    assert events_of(stage, call.id).count("session.transcript_ready") == 1
