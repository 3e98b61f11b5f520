"""The erasure of a person who was called through a carrier: contact, recordings, analyses, usage."""

from __future__ import annotations

import os

import pytest

from shared.aws import services
from shared.calls.live.steps import LONGEST_MS, POLL_MS
from shared.core import clock
from shared.erasure import erasing
from shared.telephony import ContactState
from tests.support.clocks import Clock
from tests.support.erasures import Person, erase, none_stored, objects, remaining_data, rows
from tests.support.live_calls import (
    HUNG_UP,
    PHONE,
    Line,
    LiveCall,
    analysis_of,
    answer_live_call,
    forward_and_work,
    month_usage,
    object_event,
    recording_of,
    tell,
    work,
)
from tests.support.resources import get_resource
from tests.support.stage import Stage

pytestmark = pytest.mark.usefixtures("empty_storage")

DAY = clock.parse("2026-11-21T09:47:00Z") / clock.SECOND
"""The day in the keys of the files."""


def person(stage: Stage, call: LiveCall) -> Person:
    name = get_resource(stage, f"/v1/customers/{call.customer}")["name"]
    return Person(call.scope, name, PHONE, call.customer, [call.appointment], [call.id])


def hung_up(stage: Stage, time: Clock, line: Line, call: LiveCall) -> None:
    time.forward(20)
    line.state = ContactState(clock.now() - 20_000, clock.now(), HUNG_UP)
    forward_and_work(stage, time, call, POLL_MS)
    assert call.doc["call_status"] == "completed"


def put(key: str) -> str:
    """An object in the bucket of recordings."""
    services.s3().put_object(Bucket=os.environ["RECORDINGS_BUCKET"], Key=key, Body=b"RIFF")
    return key


def test_all_files_of_a_call_are_erased_and_those_of_other_calls_are_not(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    stopped_clock.now = DAY
    call = answer_live_call(stage, line, name="Ada Erased")
    contact = line.contacts[call.id]
    recording = put(recording_of(contact))
    tell(stage, object_event(recording), object_event(analysis_of(contact)))
    redacted = f"Analysis/Voice/ivr/Redacted/2026/11/21/{contact}_call_recording_redacted_2026-11-21T09:51:16Z.wav"
    put(redacted)
    other = put(recording_of("0" * 8 + contact[8:]))
    hung_up(stage, stopped_clock, line, call)
    for _ in range(3):
        work(stage, call)
    counted = month_usage(call)
    assert counted["calls"] == 1

    # Until an hour has passed, more files may come.
    with pytest.raises(erasing.NotYet, match="may still store files") as wait:
        list(erasing.erase(call.scope, call.customer, none_stored))
    assert wait.value.until == clock.parse(call.doc["ended_at"]) + clock.HOUR
    whom = person(stage, call)
    erase(stopped_clock, whom)

    assert list(remaining_data(whom)) == []
    assert [key for key in objects() if contact in key] == []
    assert other in objects()
    assert month_usage(call) == counted
    # An event of the contact that comes later is about nothing.
    known = {*rows()}
    tell(stage, object_event(analysis_of(contact)))
    assert {*rows()} == known


def test_a_call_under_way_ends_before_anything_of_it_is_erased(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    stopped_clock.now = DAY
    call = answer_live_call(stage, line, name="Ada Hung-Up")
    with pytest.raises(erasing.NotYet, match=f"the call {call.id} is under way"):
        list(erasing.erase(call.scope, call.customer, none_stored))
    assert call.doc["call_status"] == "dialing"
    stopped_clock.forward(LONGEST_MS / clock.SECOND)
    work(stage, call)
    assert call.doc["call_status"] == "completed"
    whom = person(stage, call)
    erase(stopped_clock, whom)
    assert list(remaining_data(whom)) == []
    assert month_usage(call)["calls"] == 1
