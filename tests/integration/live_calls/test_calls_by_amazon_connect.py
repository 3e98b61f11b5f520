"""Live calls through the adapter of Amazon Connect."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from shared.calls.capacity import BACK_OFF_MS
from shared.calls.live.steps import LONGEST_MS, POLL_MS, START_WITHIN_MS
from shared.core import clock
from shared.telephony import adapters
from shared.telephony.amazon_connect import REASON_DELAY_MS, Connect
from tests.support.clocks import Clock
from tests.support.live_calls import (
    PHONE,
    LiveCall,
    assert_over,
    contact_event,
    forward_and_work,
    outcome,
    place_live_call,
    tell,
    work,
)
from tests.support.stage import Stage


@pytest.fixture
def connect() -> Iterator[Stubber]:
    client: Any = boto3.client("connect", region_name="eu-central-1")
    adapters.use(carrier=Connect(client, "instance", "flow", queue_id="queue"))
    with Stubber(client) as stubber:
        yield stubber
    adapters.use()


def contact_of(contact_id: str, **given: Any) -> dict[str, Any]:
    return {"Contact": {"Id": contact_id, "Channel": "VOICE", **given}}


def to_datetime(instant: int) -> datetime:
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
    call, contact = place_live_call(stage), str(uuid.uuid4())
    start_answers(connect, call, contact)
    work(stage, call)
    stopped_clock.forward(10)
    times = {
        "ConnectedToSystemTimestamp": to_datetime(clock.now() - 9000),
        "DisconnectTimestamp": to_datetime(clock.now()),
    }
    for _ in range(2):
        connect.add_response("describe_contact", contact_of(contact, **times))
    tell(stage, contact_event(contact, "DISCONNECTED"))
    work(stage, call)
    assert call.doc["call_status"] == "dialing"
    assert call.doc["answered_at"] == clock.iso(clock.now() - 9000)
    wait = call.row["due_at"] - clock.now()
    assert wait <= REASON_DELAY_MS
    forward_and_work(stage, stopped_clock, call, wait)
    assert outcome(call)[:2] == ("completed", "agent_hangup")
    assert call.doc["duration_seconds"] == 9
    connect.assert_no_pending_responses()


def test_a_reason_that_comes_late_is_what_the_call_ends_with(
    stage: Stage, stopped_clock: Clock, connect: Stubber
) -> None:
    call, contact = place_live_call(stage), str(uuid.uuid4())
    start_answers(connect, call, contact)
    work(stage, call)
    times = {"ConnectedToSystemTimestamp": to_datetime(0), "DisconnectTimestamp": to_datetime(clock.now())}
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
    call = place_live_call(stage)
    connect.add_client_error("start_outbound_voice_contact", code, f"not to {PHONE}", 403)
    work(stage, call)
    assert outcome(call)[:2] == ending
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    assert_over(call, calls=0)


def test_a_throttled_start_is_made_again(stage: Stage, stopped_clock: Clock, connect: Stubber) -> None:
    call, contact = place_live_call(stage), str(uuid.uuid4())
    connect.add_client_error("start_outbound_voice_contact", "ThrottlingException", f"slow down, {PHONE}", 429)
    work(stage, call)
    start_answers(connect, call, contact)
    forward_and_work(stage, stopped_clock, call, BACK_OFF_MS)
    assert call.row["contact_id"] == contact


def test_a_call_that_takes_too_long_is_stopped_at_amazon_connect(
    stage: Stage, stopped_clock: Clock, connect: Stubber
) -> None:
    call, contact = place_live_call(stage), str(uuid.uuid4())
    start_answers(connect, call, contact)
    work(stage, call)
    connected = {"ConnectedToSystemTimestamp": to_datetime(clock.now())}
    connect.add_response("describe_contact", contact_of(contact, **connected))
    connect.add_response("stop_contact", {}, {"InstanceId": "instance", "ContactId": contact})
    forward_and_work(stage, stopped_clock, call, LONGEST_MS)
    assert outcome(call)[:2] == ("completed", "max_duration")
    connect.assert_no_pending_responses()


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_contact_of_a_call_that_was_given_up_is_stopped_at_amazon_connect(
    stage: Stage, stopped_clock: Clock, connect: Stubber, has_ended: bool
) -> None:
    call, contact = place_live_call(stage), str(uuid.uuid4())
    connect.add_client_error("start_outbound_voice_contact", "InternalServiceException", "", 500)
    work(stage, call)
    forward_and_work(stage, stopped_clock, call, START_WITHIN_MS)
    assert outcome(call)[:2] == ("failed", "provider_timeout")
    attributes = {"session_id": call.id, "project_id": str(call.scope.project_id), "livemode": "true"}
    asked = {"InstanceId": "instance", "InitialContactId": contact}
    connect.add_response("get_contact_attributes", {"Attributes": attributes}, asked)
    if has_ended:
        # Amazon Connect refuses to stop a contact that has ended, so the contact is looked up.
        connect.add_client_error("stop_contact", "InvalidRequestException", "", 400)
        connect.add_response("describe_contact", contact_of(contact, DisconnectTimestamp=to_datetime(clock.now())))
    else:
        connect.add_response("stop_contact", {}, {"InstanceId": "instance", "ContactId": contact})
    tell(stage, contact_event(contact, initiationMethod="API"))
    connect.assert_no_pending_responses()


def test_contacts_of_other_applications_are_left_alone(stage: Stage, connect: Stubber) -> None:
    answers: tuple[dict[str, Any], ...] = ({"Attributes": {}}, {"Attributes": {"session_id": "theirs"}})
    for answer in answers:
        connect.add_response("get_contact_attributes", answer)
        tell(stage, contact_event(str(uuid.uuid4()), "INITIATED", initiationMethod="API"))
    connect.add_client_error("get_contact_attributes", "TooManyRequestsException", "", 429)
    tell(stage, contact_event(str(uuid.uuid4()), "INITIATED", initiationMethod="API"))
    connect.assert_no_pending_responses()
