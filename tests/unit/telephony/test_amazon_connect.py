from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError
from botocore.stub import Stubber

from shared.core import clock
from shared.core.call_statuses import AnsweredBy, EndedReason, Ending, SessionCallStatus
from shared.core.log import logger
from shared.telephony import Busy, CallRefused, ContactOwner, ContactState, NoCapacity, NotConfigured
from shared.telephony.amazon_connect import (
    DETECTIONS,
    DISCONNECTS,
    REASON_DELAY_MS,
    Connect,
    ending,
    state_of,
)

OPENING = "Hello, this is the assistant of the Blue Clinic."
PHONE = "+4915112345678"
SESSION = "sess_01jd3v7k2m9q8r5t6w0x1y2z3a"
CONTACT = "11111111-1111-1111-1111-111111111111"
INSTANCE, FLOW, QUEUE = "12345678-1234-1234-1234-123456789012", "846ec553-a005-41c0-8341-000000000000", "queue-1"
NOW = clock.Instant(1_790_000_000_000)
ANSWERED, ENDED = NOW - 3 * clock.MINUTE, NOW - 2 * clock.MINUTE
UNSET = datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)

CUSTOMER_HANGUP, AGENT_HANGUP = ("completed", "customer_hangup"), ("completed", "agent_hangup")
NO_ANSWER, DECLINED, LINE_BUSY = ("no_answer", "no_answer"), ("no_answer", "declined"), ("no_answer", "busy")
INVALID, BLOCKED = ("invalid_number", "invalid_number"), ("failed", "blocked")
NOT_ALLOWED, PROVIDER_ERROR = ("failed", "destination_not_allowed"), ("failed", "provider_error")
PROVIDER_TIMEOUT = ("failed", "provider_timeout")

# Every value of the contact record's data model, by channel, as documented in 2026: (answered, unanswered).
VOICE = {
    "CUSTOMER_DISCONNECT": (CUSTOMER_HANGUP, DECLINED),
    "AGENT_DISCONNECT": (AGENT_HANGUP, NO_ANSWER),
    "THIRD_PARTY_DISCONNECT": (CUSTOMER_HANGUP, DECLINED),
    "TELECOM_BUSY": (LINE_BUSY, LINE_BUSY),
    "TELECOM_NUMBER_INVALID": (INVALID, INVALID),
    "TELECOM_POTENTIAL_BLOCKING": (BLOCKED, BLOCKED),
    "TELECOM_UNANSWERED": (NO_ANSWER, NO_ANSWER),
    "TELECOM_TIMEOUT": (NO_ANSWER, NO_ANSWER),
    "TELECOM_ORIGINATOR_CANCEL": (NO_ANSWER, NO_ANSWER),
    "TELECOM_PROBLEM": (PROVIDER_ERROR, PROVIDER_ERROR),
    "CUSTOMER_NEVER_ARRIVED": (NO_ANSWER, NO_ANSWER),
    "CONTACT_FLOW_DISCONNECT": (AGENT_HANGUP, PROVIDER_ERROR),
    "BARGED": (AGENT_HANGUP, NO_ANSWER),
    "OTHER": (AGENT_HANGUP, NO_ANSWER),
}
CAMPAIGN = {
    "OUTBOUND_DESTINATION_ENDPOINT_ERROR": (NOT_ALLOWED, NOT_ALLOWED),
    "OUTBOUND_RESOURCE_ERROR": (PROVIDER_ERROR, PROVIDER_ERROR),
    "OUTBOUND_ATTEMPT_FAILED": (PROVIDER_ERROR, PROVIDER_ERROR),
    "OUTBUND_PREVIEW_DISCARDED": (PROVIDER_ERROR, PROVIDER_ERROR),
    "OUTBOUND_PREVIEW_DISCARDED": (PROVIDER_ERROR, PROVIDER_ERROR),
    "EXPIRED": (PROVIDER_TIMEOUT, PROVIDER_TIMEOUT),
}
OTHER_CHANNELS = {
    "AGENT_NETWORK_DISCONNECT": (PROVIDER_ERROR, PROVIDER_ERROR),
    "CUSTOMER_CONNECTION_NOT_ESTABLISHED": (NO_ANSWER, NO_ANSWER),
    "API": (AGENT_HANGUP, NO_ANSWER),
    "IDLE_DISCONNECT": (AGENT_HANGUP, NO_ANSWER),
    "SYSTEM_ERROR": (PROVIDER_ERROR, PROVIDER_ERROR),
    "AGENT_COMPLETED": (AGENT_HANGUP, NO_ANSWER),
    "TRANSFERRED": (AGENT_HANGUP, NO_ANSWER),
    "DISCARDED": (PROVIDER_ERROR, PROVIDER_ERROR),
}
REASONS = VOICE | CAMPAIGN | OTHER_CHANNELS
MACHINE: AnsweredBy = "machine"
# What a status makes of a call that was answered and ended by CUSTOMER_DISCONNECT.
STATUSES: Mapping[str, tuple[str, str, AnsweredBy | None]] = {
    "HUMAN_ANSWERED": (*CUSTOMER_HANGUP, "human"),
    "VOICEMAIL_BEEP": ("no_answer", "voicemail", MACHINE),
    "VOICEMAIL_NO_BEEP": ("no_answer", "voicemail", MACHINE),
    "FAX_MACHINE_DETECTED": (*NO_ANSWER, MACHINE),
    "SIT_TONE_BUSY": (*LINE_BUSY, None),
    "SIT_TONE_INVALID_NUMBER": (*INVALID, None),
    "SIT_TONE_DETECTED": (*PROVIDER_ERROR, None),
    "AMD_UNANSWERED": (*NO_ANSWER, None),
    "AMD_UNRESOLVED": (*CUSTOMER_HANGUP, None),
    "AMD_UNRESOLVED_SILENCE": (*CUSTOMER_HANGUP, None),
    "AMD_NOT_APPLICABLE": (*CUSTOMER_HANGUP, None),
    "AMD_ERROR": (*CUSTOMER_HANGUP, None),
    "ANSWERED": (*CUSTOMER_HANGUP, None),
    "UNDETECTED": (*CUSTOMER_HANGUP, None),
    "ERROR": (*CUSTOMER_HANGUP, None),
}


def ending_of(status: str, reason: str, answered_by: AnsweredBy | None = None) -> Ending:
    return Ending(SessionCallStatus(status), EndedReason(reason), answered_by)


@pytest.fixture(autouse=True)
def frozen() -> Iterator[None]:
    clock.use(lambda: NOW / clock.SECOND, time.sleep)
    yield
    clock.use(time.time, time.sleep)


@pytest.fixture(scope="module")
def client() -> Any:
    return boto3.client(
        "connect",
        region_name="eu-central-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=Config(retries={"mode": "standard", "total_max_attempts": 1}),
    )


@pytest.fixture
def stubber(client: Any) -> Iterator[Stubber]:
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def connect(client: Any, stubber: Stubber) -> Connect:
    return Connect(client, INSTANCE, FLOW, queue_id=QUEUE)


@pytest.fixture
def log_records() -> Iterator[list[logging.LogRecord]]:
    records = list[logging.LogRecord]()

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    keeper, watched = Keeper(), logging.getLogger(logger().name)
    level = watched.level
    watched.addHandler(keeper)
    # Tests that ran in this process before may have silenced the log.
    watched.setLevel(logging.INFO)
    yield records
    watched.setLevel(level)
    watched.removeHandler(keeper)


def expected_call(**changes: Any) -> dict[str, Any]:
    call = {
        "InstanceId": INSTANCE,
        "ContactFlowId": FLOW,
        "DestinationPhoneNumber": PHONE,
        "ClientToken": SESSION,
        "Attributes": {"session_id": SESSION, "project_id": "7", "livemode": "true", "opening": OPENING},
        "QueueId": QUEUE,
    }
    return {name: value for name, value in (call | changes).items() if value is not None}


def moment(instant: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant)


def contact(**changes: Any) -> dict[str, Any]:
    """A contact as DescribeContact tells of it: answered, and ended by the customer."""
    described = {
        "Arn": f"arn:aws:connect:eu-central-1:111122223333:instance/{INSTANCE}/contact/{CONTACT}",
        "Id": CONTACT,
        "InitiationMethod": "API",
        "Channel": "VOICE",
        "InitiationTimestamp": moment(ANSWERED - 9_000),
        "ConnectedToSystemTimestamp": moment(ANSWERED),
        "DisconnectTimestamp": moment(ENDED),
        "LastUpdateTimestamp": moment(ENDED),
        "DisconnectReason": "CUSTOMER_DISCONNECT",
        "Attributes": {"session_id": SESSION},
    }
    return {name: value for name, value in (described | changes).items() if value is not None}


def describe(stubber: Stubber, **changes: Any) -> None:
    answer = {"Contact": contact(**changes)}
    stubber.add_response("describe_contact", answer, {"InstanceId": INSTANCE, "ContactId": CONTACT})


# Starting


def test_a_start_names_the_session_in_token_and_attributes(connect: Connect, stubber: Stubber) -> None:
    stubber.add_response("start_outbound_voice_contact", {"ContactId": CONTACT}, expected_call())
    assert connect.start(PHONE, SESSION, 7, True, OPENING) == CONTACT


def test_a_start_repeated_is_the_same_request(connect: Connect, stubber: Stubber) -> None:
    for _ in range(2):
        stubber.add_response("start_outbound_voice_contact", {"ContactId": CONTACT}, expected_call())
    assert connect.start(PHONE, SESSION, 7, True, OPENING) == connect.start(PHONE, SESSION, 7, True, OPENING)


def test_a_stage_may_call_from_a_number_instead_of_a_queue(connect: Connect, stubber: Stubber) -> None:
    attributes = {"session_id": SESSION, "project_id": "7", "livemode": "false", "opening": OPENING}
    sent = expected_call(QueueId=None, SourcePhoneNumber="+498912345", Attributes=attributes)
    stubber.add_response("start_outbound_voice_contact", {"ContactId": CONTACT}, sent)
    by_number = replace(connect, queue_id=None, source_phone_number="+498912345")
    assert by_number.start(PHONE, SESSION, 7, False, OPENING) == CONTACT


def refusal_of(connect: Connect, stubber: Stubber, code: str, status: int, message: str = "") -> Ending:
    stubber.add_client_error("start_outbound_voice_contact", code, message, status)
    with pytest.raises(CallRefused) as caught:
        connect.start(PHONE, SESSION, 7, True, OPENING)
    return caught.value.ending


@pytest.mark.parametrize(
    ("code", "status", "message", "outcome"),
    [
        ("DestinationNotAllowedException", 403, "", NOT_ALLOWED),
        ("OutboundContactNotPermittedException", 403, "", BLOCKED),
        ("InvalidParameterException", 400, f"DestinationPhoneNumber {PHONE} is not valid", INVALID),
        ("InvalidRequestException", 400, "The destination number is invalid", INVALID),
        ("InvalidRequestException", 400, "Invalid phone number", INVALID),
        ("InvalidParameterException", 400, "SourcePhoneNumber is not valid", PROVIDER_ERROR),
        ("InvalidRequestException", 400, "Source phone number is not claimed", PROVIDER_ERROR),
        ("InvalidParameterException", 400, "ContactFlowId is not valid", PROVIDER_ERROR),
        ("InvalidRequestException", 400, "", PROVIDER_ERROR),
        ("ResourceNotFoundException", 404, "", PROVIDER_ERROR),
        ("AccessDeniedException", 403, "", PROVIDER_ERROR),
        ("UnrecognizedClientException", 403, "", PROVIDER_ERROR),
    ],
)
def test_a_start_that_can_never_succeed_is_refused(
    connect: Connect, stubber: Stubber, code: str, status: int, message: str, outcome: tuple[str, str]
) -> None:
    assert refusal_of(connect, stubber, code, status, message) == ending_of(*outcome)


@pytest.mark.parametrize(
    ("code", "check"),
    [
        ("ResourceNotFoundException", "contact_flow_id"),
        ("AccessDeniedException", "connect:StartOutboundVoiceContact"),
        ("InvalidParameterException", "contact_flow_id"),
        ("InvalidRequestException", "source_phone_number"),
        ("UnrecognizedClientException", "API reference"),
    ],
)
def test_a_refusal_that_an_operator_can_mend_says_in_the_log_what_to_check(
    connect: Connect, stubber: Stubber, log_records: list[logging.LogRecord], code: str, check: str
) -> None:
    refusal_of(connect, stubber, code, 403)
    [record] = log_records
    assert check in record.__dict__["check"]
    assert record.__dict__["error"] == code


@pytest.mark.parametrize("code", ["InvalidParameterException", "ThrottlingException"])
def test_the_number_that_an_error_quotes_goes_nowhere(
    connect: Connect, stubber: Stubber, log_records: list[logging.LogRecord], code: str
) -> None:
    stubber.add_client_error("start_outbound_voice_contact", code, f"ContactFlowId and {PHONE} do not fit", 400)
    with pytest.raises((CallRefused, Busy)) as caught:
        connect.start(PHONE, SESSION, 7, True, OPENING)
    assert PHONE not in "".join(traceback.format_exception(caught.value))
    assert not any(PHONE in str(record.__dict__) for record in log_records)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("LimitExceededException", 429),
        ("ThrottlingException", 400),
        ("TooManyRequestsException", 429),
        ("InternalServiceException", 500),
        ("ServiceUnavailable", 503),
    ],
)
@pytest.mark.parametrize("operation", ["start", "describe", "stop"])
def test_trouble_that_passes_is_busy(
    connect: Connect, stubber: Stubber, operation: str, code: str, status: int
) -> None:
    names = {"start": "start_outbound_voice_contact", "describe": "describe_contact", "stop": "stop_contact"}
    stubber.add_client_error(names[operation], code, "", status)
    arguments: tuple[Any, ...] = (PHONE, SESSION, 7, True, OPENING) if operation == "start" else (CONTACT,)
    with pytest.raises(Busy, match=code):
        getattr(connect, operation)(*arguments)


@pytest.mark.parametrize(
    ("code", "status", "placed_none"),
    [
        ("LimitExceededException", 429, True),
        ("ThrottlingException", 429, True),
        ("ThrottlingException", 400, True),
        ("AnotherException", 429, True),
        ("InternalServiceException", 500, False),
        ("ServiceUnavailable", 503, False),
    ],
)
def test_only_an_exceeded_quota_tells_that_no_call_was_owner(
    connect: Connect, stubber: Stubber, code: str, status: int, placed_none: bool
) -> None:
    stubber.add_client_error("start_outbound_voice_contact", code, "", status)
    with pytest.raises(Busy) as caught:
        connect.start(PHONE, SESSION, 7, True, OPENING)
    assert isinstance(caught.value, NoCapacity) is placed_none


def test_the_clients_own_settings_send_each_request_once(settings: pytest.MonkeyPatch) -> None:
    # A repeated request that is throttled would hide that the first one placed the call.
    settings.setenv("AWS_ACCESS_KEY_ID", "none")
    settings.setenv("AWS_SECRET_ACCESS_KEY", "none")
    connect, requests = Connect.from_environment(), list[Any]()

    def fail(request: Any, **_: Any) -> None:
        requests.append(request)
        raise ReadTimeoutError(endpoint_url="https://connect.example")

    events = connect.client.meta.events
    events.register("before-send.connect", fail)
    try:
        with pytest.raises(Busy):
            connect.start(PHONE, SESSION, 7, True, OPENING)
    finally:
        events.unregister("before-send.connect", fail)
    assert len(requests) == 1


@pytest.mark.parametrize("error", [ReadTimeoutError, ConnectTimeoutError, EndpointConnectionError])
def test_silence_is_busy(error: Any) -> None:
    class Silent:
        def start_outbound_voice_contact(self, **_: Any) -> None:
            raise error(endpoint_url="https://connect.example")

    with pytest.raises(Busy, match=error.__name__):
        Connect(Silent(), INSTANCE, FLOW, QUEUE).start(PHONE, SESSION, 7, True, OPENING)


# Describing and stopping


def test_a_description_says_when_a_call_was_answered_and_how_it_ended(connect: Connect, stubber: Stubber) -> None:
    describe(stubber)
    assert connect.describe(CONTACT) == ContactState(ANSWERED, ENDED, ending_of(*CUSTOMER_HANGUP))


def test_a_contact_that_connect_does_not_know_is_none(connect: Connect, stubber: Stubber) -> None:
    stubber.add_client_error("describe_contact", "ResourceNotFoundException", "", 404)
    assert connect.describe(CONTACT) is None


def test_a_description_that_is_not_allowed_is_not_an_unknown_contact(connect: Connect, stubber: Stubber) -> None:
    stubber.add_client_error("describe_contact", "AccessDeniedException", "", 403)
    with pytest.raises(Busy):
        connect.describe(CONTACT)


@pytest.mark.parametrize("unset", [None, UNSET])
def test_a_call_that_rings_has_neither_answer_nor_end(unset: datetime | None) -> None:
    ringing = contact(ConnectedToSystemTimestamp=unset, DisconnectTimestamp=unset, DisconnectReason=None)
    assert state_of(ringing) == ContactState(None, None, None)


def test_a_call_under_way_is_answered_and_has_no_end() -> None:
    assert state_of(contact(DisconnectTimestamp=None, DisconnectReason=None)) == ContactState(ANSWERED, None, None)


def test_an_unanswered_call_ends_by_the_reason_for_it() -> None:
    unanswered = contact(ConnectedToSystemTimestamp=UNSET, DisconnectReason="TELECOM_BUSY")
    assert state_of(unanswered) == ContactState(None, ENDED, ending_of(*LINE_BUSY))


def test_an_end_without_a_reason_counts_only_after_a_while() -> None:
    def state_after(passed: int) -> ContactState:
        ended_at = moment(NOW - passed)
        return state_of(contact(ConnectedToSystemTimestamp=None, DisconnectTimestamp=ended_at, DisconnectReason=None))

    assert state_after(REASON_DELAY_MS - 1) == ContactState(None, None, None)
    assert state_after(REASON_DELAY_MS) == ContactState(None, NOW - REASON_DELAY_MS, ending_of(*NO_ANSWER))


def test_an_end_that_a_detection_explains_counts_at_once() -> None:
    just_now = contact(
        DisconnectTimestamp=moment(NOW), DisconnectReason=None, AnsweringMachineDetectionStatus="VOICEMAIL_BEEP"
    )
    assert state_of(just_now) == ContactState(ANSWERED, NOW, ending_of("no_answer", "voicemail", "machine"))


def test_a_tone_of_the_network_is_no_answer_though_connected_to_the_system() -> None:
    busy = contact(AnsweringMachineDetectionStatus="SIT_TONE_BUSY", DisconnectReason="OTHER")
    assert state_of(busy) == ContactState(None, ENDED, ending_of(*LINE_BUSY))


ATTRIBUTES = {"session_id": SESSION, "project_id": "7", "livemode": "true", "opening": OPENING}


def test_a_contact_tells_whose_call_it_is(connect: Connect, stubber: Stubber) -> None:
    request = {"InstanceId": INSTANCE, "InitialContactId": CONTACT}
    stubber.add_response("get_contact_attributes", {"Attributes": ATTRIBUTES}, request)
    assert connect.owner(CONTACT) == ContactOwner(7, True, SESSION)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"Attributes": {}},
        {"Attributes": ATTRIBUTES | {"session_id": ""}},
        {"Attributes": ATTRIBUTES | {"project_id": "seven"}},
        {"Attributes": ATTRIBUTES | {"livemode": "yes"}},
    ],
)
def test_a_contact_without_our_attributes_is_nobodys(
    connect: Connect, stubber: Stubber, attributes: dict[str, Any]
) -> None:
    stubber.add_response("get_contact_attributes", attributes)
    assert connect.owner(CONTACT) is None


def test_a_contact_that_does_not_exist_is_nobodys(connect: Connect, stubber: Stubber) -> None:
    stubber.add_client_error("get_contact_attributes", "ResourceNotFoundException", "", 404)
    assert connect.owner(CONTACT) is None


def test_a_stop_names_the_contact(connect: Connect, stubber: Stubber) -> None:
    stubber.add_response("stop_contact", {}, {"InstanceId": INSTANCE, "ContactId": CONTACT})
    connect.stop(CONTACT)


@pytest.mark.parametrize("code", ["ContactNotFoundException", "ResourceNotFoundException"])
def test_a_stop_of_a_contact_that_is_gone_is_done(connect: Connect, stubber: Stubber, code: str) -> None:
    stubber.add_client_error("stop_contact", code, "", 410)
    connect.stop(CONTACT)


def test_a_stop_that_is_refused_because_the_call_has_ended_is_done(connect: Connect, stubber: Stubber) -> None:
    stubber.add_client_error("stop_contact", "InvalidRequestException", "", 400)
    describe(stubber, DisconnectTimestamp=moment(NOW), DisconnectReason=None)
    connect.stop(CONTACT)


def test_a_stop_of_a_contact_that_never_was_is_done(connect: Connect, stubber: Stubber) -> None:
    stubber.add_client_error("stop_contact", "InvalidRequestException", "", 400)
    stubber.add_client_error("describe_contact", "ResourceNotFoundException", "", 404)
    connect.stop(CONTACT)


def test_a_stop_that_is_refused_while_the_call_lasts_is_not_done(connect: Connect, stubber: Stubber) -> None:
    stubber.add_client_error("stop_contact", "InvalidRequestException", "", 400)
    describe(stubber, DisconnectTimestamp=None, DisconnectReason=None)
    with pytest.raises(Busy):
        connect.stop(CONTACT)


# The tables


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_says_how_an_answered_call_and_an_unanswered_one_ended(reason: str) -> None:
    answered, unanswered = REASONS[reason]
    assert ending(reason, None, answered=True) == ending_of(*answered)
    assert ending(reason, None, answered=False) == ending_of(*unanswered)


@pytest.mark.parametrize("status", STATUSES)
def test_a_detection_says_who_answered_and_may_decide_the_ending(status: str) -> None:
    assert ending("CUSTOMER_DISCONNECT", status, answered=True) == ending_of(*STATUSES[status])


def test_nobody_answered_a_call_that_was_not_answered() -> None:
    assert ending("TELECOM_TIMEOUT", "HUMAN_ANSWERED", answered=False) == ending_of(*NO_ANSWER)


def test_a_reason_that_is_new_counts_as_other_and_is_logged(log_records: list[logging.LogRecord]) -> None:
    assert ending("TELECOM_SOMETHING_NEW", None, answered=False) == ending_of(*NO_ANSWER)
    assert ending("TELECOM_SOMETHING_NEW", None, answered=True) == ending_of(*AGENT_HANGUP)
    assert {record.__dict__["reason"] for record in log_records} == {"TELECOM_SOMETHING_NEW"}


def test_the_tables_hold_every_documented_value_and_no_other() -> None:
    assert set(DISCONNECTS) == set(REASONS)
    assert set(DETECTIONS) == set(STATUSES)


def test_the_tables_hold_every_value_that_the_service_model_enumerates(client: Any) -> None:
    model = client.meta.service_model
    statuses = model.shape_for("AnsweringMachineDetectionStatus").enum
    assert len(statuses) >= 14
    assert set(statuses) <= set(DETECTIONS)
    members = model.shape_for("Contact").members
    assert members["AnsweringMachineDetectionStatus"].enum == statuses
    # Not enumerated today: a change that does it must be looked at.
    for shape in (members["DisconnectReason"], model.shape_for("DisconnectReasonCode")):
        assert set(shape.enum) <= set(DISCONNECTS)


def test_every_ending_is_one_of_those_promised() -> None:
    known = {
        "completed": {"customer_hangup", "agent_hangup"},
        "no_answer": {"no_answer", "busy", "voicemail", "declined"},
        "invalid_number": {"invalid_number"},
        "failed": {"blocked", "destination_not_allowed", "provider_error", "provider_timeout"},
    }
    endings = [end for one in DISCONNECTS.values() for end in (one.answered, one.unanswered)]
    endings += [one.ending for one in DETECTIONS.values() if one.ending]
    assert all(one.ended_reason in known[one.call_status] for one in endings)
    assert {one.answered_by for one in DETECTIONS.values()} <= {None, "human", "machine"}


# Settings

SETTINGS = {
    "CONNECT_INSTANCE_ID": INSTANCE,
    "CONNECT_CONTACT_FLOW_ID": FLOW,
    "CONNECT_QUEUE_ID": QUEUE,
    "CONNECT_SOURCE_PHONE_NUMBER": "+498912345",
}


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_the_stage_names_instance_flow_and_what_to_call_from(settings: pytest.MonkeyPatch) -> None:
    whole = Connect.from_environment()
    assert (whole.instance_id, whole.contact_flow_id) == (INSTANCE, FLOW)
    assert (whole.queue_id, whole.source_phone_number) == (QUEUE, "+498912345")
    assert whole.client.meta.service_model.service_name == "connect"


@pytest.mark.parametrize("left_out", ["CONNECT_QUEUE_ID", "CONNECT_SOURCE_PHONE_NUMBER"])
def test_a_queue_or_a_number_is_enough(settings: pytest.MonkeyPatch, left_out: str) -> None:
    settings.setenv(left_out, "")
    connect = Connect.from_environment()
    assert (connect.queue_id, connect.source_phone_number).count(None) == 1


@pytest.mark.parametrize(
    ("left_out", "named"),
    [
        (["CONNECT_INSTANCE_ID"], ["CONNECT_INSTANCE_ID", "connect.instance_id", "cdk.json"]),
        (["CONNECT_CONTACT_FLOW_ID"], ["CONNECT_CONTACT_FLOW_ID", "connect.contact_flow_id", "cdk.json"]),
        (["CONNECT_QUEUE_ID", "CONNECT_SOURCE_PHONE_NUMBER"], ["connect.queue_id", "connect.source_phone_number"]),
        (list(SETTINGS), list(SETTINGS)),
    ],
)
def test_what_is_missing_is_named_and_nothing_else(
    settings: pytest.MonkeyPatch, left_out: list[str], named: list[str]
) -> None:
    for name in left_out:
        settings.delenv(name)
    with pytest.raises(NotConfigured) as caught:
        Connect.from_environment()
    text = str(caught.value)
    assert all(name in text for name in named)
    assert not any(name in text for name in SETTINGS if name not in left_out)
