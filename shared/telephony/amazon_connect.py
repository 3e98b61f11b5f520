"""Live calls by phone: Amazon Connect places, describes and ends them.

This module relies on what AWS documents (API reference; "Data model for contact records" and "Contact events" of the
administrator guide):

- A `ClientToken` is valid for 7 days: until the contact ends, the same start returns the same contact. An earlier
  revision of the reference said that after a contact has ended the same start creates a new one. So a start is repeated
  within seconds only, never after the first call may have rung out.
- The `ConnectedToSystemTimestamp` of an outbound contact is when the other side answered. Unknown times are absent, or
  1 January 1970.
- `DisconnectReason` is null for contacts that end for reasons outside of the list.
- Contact events are delivered at best effort, repeatedly and in any order. They only say when to call `describe`.
- A start that exceeds a quota is refused with status 429: "ThrottlingException" for the requests in a second,
  "LimitExceededException" for the calls under way. "OutboundContactNotPermittedException" and
  "DestinationNotAllowedException" concern the number, and are final.
- Answering machine detection works for outbound campaigns only; its status is read if there is one.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as AwsConnectionError

from shared.aws import services
from shared.aws.error_codes import is_throttled
from shared.core import clock, settings
from shared.core.call_statuses import (
    BLOCKED,
    NOT_ALLOWED,
    PROVIDER_ERROR,
    PROVIDER_TIMEOUT,
    VOICEMAIL,
    AnsweredBy,
    EndedReason,
    Ending,
    SessionCallStatus,
)
from shared.core.log import logger
from shared.telephony import Busy, CallRefused, ContactOwner, ContactState, NoCapacity, NotConfigured

REASON_DELAY_MS = 30 * clock.SECOND
"""How long a contact that has ended counts as under way while its reason is missing."""
DETAIL_TYPES = ("Amazon Connect Contact Event", "Contact Event")
"""The detail-types of contact events; the first is the documented one."""
BEGINNINGS = ("INITIATED", "CONNECTED_TO_SYSTEM")
"""The types of the events of a call that rings or was answered."""

CUSTOMER_HANGUP = Ending(SessionCallStatus.COMPLETED, EndedReason.CUSTOMER_HANGUP)
AGENT_HANGUP = Ending(SessionCallStatus.COMPLETED, EndedReason.AGENT_HANGUP)
NO_ANSWER = Ending(SessionCallStatus.NO_ANSWER, EndedReason.NO_ANSWER)
LINE_BUSY = Ending(SessionCallStatus.NO_ANSWER, EndedReason.BUSY)
DECLINED = Ending(SessionCallStatus.NO_ANSWER, EndedReason.DECLINED)
FAX = Ending(SessionCallStatus.NO_ANSWER, EndedReason.NO_ANSWER, "machine")
INVALID_NUMBER = Ending(SessionCallStatus.INVALID_NUMBER, EndedReason.INVALID_NUMBER)


@dataclass(frozen=True)
class Disconnect:
    """What a `DisconnectReason` means for a call that was answered, and for one that was not."""

    answered: Ending
    unanswered: Ending


@dataclass(frozen=True)
class Detection:
    """What an `AnsweringMachineDetectionStatus` means: who answered, and the ending, if it decides that."""

    answered_by: AnsweredBy | None = None
    ending: Ending | None = None


def _always(ending: Ending) -> Disconnect:
    return Disconnect(answered=ending, unanswered=ending)


OTHER = Disconnect(answered=AGENT_HANGUP, unanswered=NO_ANSWER)
"""The meaning of a reason outside of the list, such as a contact stopped by API: the customer did not hang up."""

DISCONNECTS: Mapping[str, Disconnect] = {
    # Voice.
    "CUSTOMER_DISCONNECT": Disconnect(answered=CUSTOMER_HANGUP, unanswered=DECLINED),
    "AGENT_DISCONNECT": Disconnect(answered=AGENT_HANGUP, unanswered=NO_ANSWER),
    "THIRD_PARTY_DISCONNECT": Disconnect(answered=CUSTOMER_HANGUP, unanswered=DECLINED),
    "TELECOM_BUSY": _always(LINE_BUSY),
    "TELECOM_NUMBER_INVALID": _always(INVALID_NUMBER),
    "TELECOM_POTENTIAL_BLOCKING": _always(BLOCKED),
    "TELECOM_UNANSWERED": _always(NO_ANSWER),
    "TELECOM_TIMEOUT": _always(NO_ANSWER),
    # Also the reason after 60 seconds of ringing.
    "TELECOM_ORIGINATOR_CANCEL": _always(NO_ANSWER),
    "TELECOM_PROBLEM": _always(PROVIDER_ERROR),
    "CUSTOMER_NEVER_ARRIVED": _always(NO_ANSWER),
    "CONTACT_FLOW_DISCONNECT": Disconnect(answered=AGENT_HANGUP, unanswered=PROVIDER_ERROR),
    "BARGED": Disconnect(answered=AGENT_HANGUP, unanswered=NO_ANSWER),
    "OTHER": OTHER,
    # Outbound campaigns. The second spelling of a discarded preview is the one AWS documents.
    "OUTBOUND_DESTINATION_ENDPOINT_ERROR": _always(NOT_ALLOWED),
    "OUTBOUND_RESOURCE_ERROR": _always(PROVIDER_ERROR),
    "OUTBOUND_ATTEMPT_FAILED": _always(PROVIDER_ERROR),
    "OUTBOUND_PREVIEW_DISCARDED": _always(PROVIDER_ERROR),
    "OUTBUND_PREVIEW_DISCARDED": _always(PROVIDER_ERROR),
    # No capacity until the attempt expired.
    "EXPIRED": _always(PROVIDER_TIMEOUT),
    # Chats, tasks and emails: never the reason of a call, but in the same list.
    "AGENT_NETWORK_DISCONNECT": _always(PROVIDER_ERROR),
    "CUSTOMER_CONNECTION_NOT_ESTABLISHED": _always(NO_ANSWER),
    "API": OTHER,
    "IDLE_DISCONNECT": OTHER,
    "SYSTEM_ERROR": _always(PROVIDER_ERROR),
    "AGENT_COMPLETED": OTHER,
    "TRANSFERRED": OTHER,
    "DISCARDED": _always(PROVIDER_ERROR),
}

DETECTIONS: Mapping[str, Detection] = {
    "HUMAN_ANSWERED": Detection(answered_by="human"),
    "VOICEMAIL_BEEP": Detection(ending=VOICEMAIL),
    "VOICEMAIL_NO_BEEP": Detection(ending=VOICEMAIL),
    "FAX_MACHINE_DETECTED": Detection(ending=FAX),
    "SIT_TONE_BUSY": Detection(ending=LINE_BUSY),
    "SIT_TONE_INVALID_NUMBER": Detection(ending=INVALID_NUMBER),
    # Any announcement of the network, such as full circuits: this does not show that the number is invalid.
    "SIT_TONE_DETECTED": Detection(ending=PROVIDER_ERROR),
    "AMD_UNANSWERED": Detection(ending=NO_ANSWER),
    # The other statuses do not show who answered.
    "AMD_UNRESOLVED": Detection(),
    "AMD_UNRESOLVED_SILENCE": Detection(),
    "AMD_NOT_APPLICABLE": Detection(),
    "AMD_ERROR": Detection(),
    "ANSWERED": Detection(),
    "UNDETECTED": Detection(),
    "ERROR": Detection(),
}

REFUSALS: Mapping[str, Ending] = {
    "DestinationNotAllowedException": NOT_ALLOWED,
    "OutboundContactNotPermittedException": BLOCKED,
}
"""The endings of calls that Amazon Connect refuses, by error code."""

CHECKS: Mapping[str, str] = {
    "ResourceNotFoundException": "connect.instance_id, contact_flow_id and queue_id of the stage in cdk.json, and "
    "that the flow is published",
    "AccessDeniedException": "that the function's role may do connect:StartOutboundVoiceContact on the instance",
    "InvalidParameterException": "connect.contact_flow_id, queue_id and source_phone_number of the stage in cdk.json",
    "InvalidRequestException": "connect.source_phone_number of the stage in cdk.json, and that the queue has an "
    "outbound caller ID",
}
"""What an operator checks after a start was refused, by error code."""

TRANSIENT = frozenset({"InternalServiceException"})
"""Errors that are transient whatever their HTTP status; all errors of status 5xx are transient, too."""


@dataclass(frozen=True)
class ContactEvent:
    """An event of a contact, with its instants in milliseconds as far as they are known.

    `by_api` if it is a call that a request started, as this service's calls are.
    """

    contact_id: str
    event_type: str
    by_api: bool
    initiated_at: clock.Instant | None
    answered_at: clock.Instant | None
    ended_at: clock.Instant | None


@dataclass(frozen=True)
class Connect:
    """One instance of Amazon Connect, the flow that its calls run, and the queue or the number that they come from."""

    client: Any
    instance_id: str
    contact_flow_id: str
    queue_id: str | None = None
    source_phone_number: str | None = None

    @classmethod
    def from_environment(cls) -> Connect:
        """The stage's instance (`connect` in cdk.json). Raises NotConfigured."""
        instance_id, contact_flow_id = settings.connect_instance_id(), settings.connect_contact_flow_id()
        queue_id, number = settings.connect_queue_id(), settings.connect_source_phone_number()
        caller = "CONNECT_QUEUE_ID (connect.queue_id) or CONNECT_SOURCE_PHONE_NUMBER (connect.source_phone_number)"
        found = {
            "CONNECT_INSTANCE_ID (connect.instance_id)": instance_id,
            "CONNECT_CONTACT_FLOW_ID (connect.contact_flow_id)": contact_flow_id,
            caller: queue_id or number,
        }
        missing = [name for name, value in found.items() if not value]
        if missing:
            raise NotConfigured(f"missing in the stage's settings in cdk.json: {', '.join(missing)}")
        return cls(_client(), instance_id, contact_flow_id, queue_id, number)

    def start(self, to: str, session_id: str, project_id: int, livemode: bool, opening: str) -> str:
        """Place the call and return its contact's id; the same id if repeated soon. Raises CallRefused, Busy."""
        caller = {"QueueId": self.queue_id, "SourcePhoneNumber": self.source_phone_number}
        try:
            response = _call(
                self.client.start_outbound_voice_contact,
                InstanceId=self.instance_id,
                ContactFlowId=self.contact_flow_id,
                DestinationPhoneNumber=to,
                ClientToken=session_id,
                Attributes={
                    "session_id": session_id,
                    "project_id": str(project_id),
                    "livemode": "true" if livemode else "false",
                    # The contact flow says it, as `$.Attributes.opening`.
                    "opening": opening,
                },
                **{name: value for name, value in caller.items() if value},
            )
        except ClientError as error:
            raise CallRefused(_refusal(error)) from None
        return str(response["ContactId"])

    def describe(self, contact_id: str) -> ContactState | None:
        """Return the state of a contact; None if Amazon Connect does not know it. Raises Busy."""
        contact = self._contact(contact_id)
        return None if contact is None else state_of(contact)

    def stop(self, contact_id: str) -> None:
        """End a contact. One that has ended, or does not exist, is left alone. Raises Busy."""
        try:
            _call(self.client.stop_contact, InstanceId=self.instance_id, ContactId=contact_id)
        except ClientError as error:
            if _code(error) in ("ContactNotFoundException", "ResourceNotFoundException"):
                return
            contact = self._contact(contact_id)
            if contact is not None and _instant(contact.get("DisconnectTimestamp")) is None:
                raise _busy("StopContact", error) from None

    def owner(self, contact_id: str) -> ContactOwner | None:
        """Return whose call a contact is, by its attributes; None if this service set none. Raises Busy."""
        try:
            response = _call(
                self.client.get_contact_attributes, InstanceId=self.instance_id, InitialContactId=contact_id
            )
        except ClientError as error:
            if _code(error) == "ResourceNotFoundException":
                return None
            raise _busy("GetContactAttributes", error) from None
        return _owner(response.get("Attributes") or {})

    def _contact(self, contact_id: str) -> Mapping[str, Any] | None:
        try:
            response = _call(self.client.describe_contact, InstanceId=self.instance_id, ContactId=contact_id)
        except ClientError as error:
            if _code(error) == "ResourceNotFoundException":
                return None
            raise _busy("DescribeContact", error) from None
        contact: Mapping[str, Any] = response["Contact"]
        return contact


def state_of(contact: Mapping[str, Any]) -> ContactState:
    """The state of a call, from the `Contact` of `DescribeContact`."""
    connected_at = _instant(contact.get("ConnectedToSystemTimestamp"))
    ended_at = _instant(contact.get("DisconnectTimestamp"))
    reason, status = contact.get("DisconnectReason"), contact.get("AnsweringMachineDetectionStatus")
    detected = _detection(status).ending
    # A network tone counts as connected to the system, too.
    answered_at = connected_at if detected is None or detected.answered_by else None
    if ended_at is None or (not reason and detected is None and clock.now() - ended_at < REASON_DELAY_MS):
        return ContactState(answered_at, None, None)
    return ContactState(answered_at, ended_at, ending(reason, status, answered=answered_at is not None))


def ending(reason: str | None, status: str | None, *, answered: bool) -> Ending:
    """How a contact ended, from its `DisconnectReason` and `AnsweringMachineDetectionStatus`."""
    detection = _detection(status)
    if detection.ending is not None:
        return detection.ending
    if reason and reason not in DISCONNECTS:
        logger().warning("unknown disconnect reason", extra={"reason": reason})
    disconnect = DISCONNECTS.get(reason or "", OTHER)
    return (
        dataclasses.replace(disconnect.answered, answered_by=detection.answered_by)
        if answered
        else disconnect.unanswered
    )


def contact_event(event: Any) -> ContactEvent | None:
    """The contact event in an EventBridge event; None for other events and malformed ones.

    AWS's samples spell the names in `detail` both `contactId` and `ContactId`.
    """
    if (
        not isinstance(event, dict)
        or event.get("source") != "aws.connect"
        or event.get("detail-type") not in DETAIL_TYPES
    ):
        return None
    if not isinstance(event.get("detail"), dict):
        return None
    detail = {str(name)[:1].lower() + str(name)[1:]: value for name, value in event["detail"].items()}
    contact_id, event_type = detail.get("contactId"), detail.get("eventType")
    if not (isinstance(contact_id, str) and contact_id and isinstance(event_type, str) and event_type):
        return None
    return ContactEvent(
        contact_id=contact_id,
        event_type=event_type,
        by_api=detail.get("initiationMethod") == "API" and str(detail.get("channel")).upper() == "VOICE",
        initiated_at=_instant(detail.get("initiationTimestamp")),
        answered_at=_instant(detail.get("connectedToSystemTimestamp")),
        ended_at=_instant(detail.get("disconnectTimestamp")),
    )


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LIVEMODES = {"true": True, "false": False}
_PROJECT_ID = re.compile(r"[0-9]{1,18}")
_OF_THE_NUMBER = re.compile(r"destination|phone ?number", re.IGNORECASE)


def _owner(attributes: Mapping[str, str]) -> ContactOwner | None:
    """Whose call a contact with these attributes is, as `start` sets them."""
    session_id, project_id = attributes.get("session_id", ""), attributes.get("project_id", "")
    livemode = _LIVEMODES.get(attributes.get("livemode", ""))
    if not session_id or livemode is None or not _PROJECT_ID.fullmatch(project_id):
        return None
    return ContactOwner(int(project_id), livemode, session_id)


def _detection(status: str | None) -> Detection:
    return DETECTIONS.get(status or "", Detection())


def _call(method: Callable[..., Any], **parameters: Any) -> Any:
    """The response of a method of the client. Raises Busy (NoCapacity for a quota), ClientError."""
    # The texts of errors may quote the number, so they are not kept as causes.
    try:
        return method(**parameters)
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        # A quota of active calls, or of requests per second.
        if is_throttled(_code(error), status):
            raise NoCapacity(_code(error)) from None
        if _code(error) in TRANSIENT or status >= 500:
            raise Busy(_code(error)) from None
        raise
    except (AwsConnectionError, HTTPClientError) as error:
        raise Busy(type(error).__name__) from None


def _busy(operation: str, error: ClientError) -> Busy:
    """The error for a request that may succeed once an operator has corrected the settings; the call goes on."""
    check = CHECKS.get(_code(error), f"the error code in the API reference of {operation}")
    logger().error("refused by Amazon Connect", extra={"error": _code(error), "check": check})
    return Busy(_code(error))


def _refusal(error: ClientError) -> Ending:
    code = _code(error)
    if code in REFUSALS:
        return REFUSALS[code]
    if code in ("InvalidParameterException", "InvalidRequestException") and _concerns_number(error):
        return INVALID_NUMBER
    check = CHECKS.get(code, "the error code in the API reference of StartOutboundVoiceContact")
    logger().error("call refused by Amazon Connect", extra={"error": code, "check": check})
    return PROVIDER_ERROR


def _concerns_number(error: ClientError) -> bool:
    # AWS documents the names of the parameters, not the texts. Every other phone number is a source.
    message = error.response["Error"].get("Message", "")
    return _OF_THE_NUMBER.search(message) is not None and "source" not in message.lower()


def _code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])


def _instant(value: object) -> clock.Instant | None:
    """The instant of a datetime or an RFC 3339 text; None if it is malformed or unset, which includes 1970."""
    if isinstance(value, str):
        try:
            instant = clock.parse(value)
        except ValueError:
            return None
    elif isinstance(value, datetime):
        instant = clock.of_datetime(value)
    else:
        return None
    return instant if instant >= clock.DAY else None


@functools.cache
def _client() -> Any:
    import boto3
    from botocore.config import Config

    # The client does not retry: after an attempt that placed the call, a throttled one would look like no call.
    config = Config(
        connect_timeout=2,
        read_timeout=6,
        retries={"mode": "standard", "total_max_attempts": 1},
    )
    return services.closing_idle(boto3.client("connect", config=config))
