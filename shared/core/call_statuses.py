"""The statuses of calls and of what belongs to them, why calls end, and what comes of them (promises 7 and 11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class SessionCallStatus(StrEnum):
    """The status of a call (promises 7)."""

    QUEUED = "queued"
    """The call waits for its time, for consent, or for capacity."""
    DIALING = "dialing"
    """The phone rings, or the customer and the agent talk."""
    COMPLETED = "completed"
    """Somebody answered, and the call has ended. `outcome` says what came of it."""
    NO_ANSWER = "no_answer"
    """Nobody answered: the phone rang, the line was busy, a machine answered, or the call was declined."""
    FAILED = "failed"
    """There was no call, or the carrier lost it. `ended_reason` says why."""
    INVALID_NUMBER = "invalid_number"
    """The number does not exist."""
    CALL_LATER = "call_later"
    """The customer asked to be called at another time. The service does not call again by itself."""


ENDED = frozenset(SessionCallStatus) - {SessionCallStatus.QUEUED, SessionCallStatus.DIALING}
"""The statuses of a call that has ended. They are final."""


class EndedReason(StrEnum):
    """Why a call ended (promises 7)."""

    CUSTOMER_HANGUP = "customer_hangup"
    """The customer ended the call."""
    AGENT_HANGUP = "agent_hangup"
    """The agent ended the call."""
    NO_ANSWER = "no_answer"
    """Nobody answered."""
    BUSY = "busy"
    """The line was busy."""
    VOICEMAIL = "voicemail"
    """A machine answered. The agent leaves no message."""
    DECLINED = "declined"
    """The call was declined."""
    INVALID_NUMBER = "invalid_number"
    """The number does not exist."""
    BLOCKED = "blocked"
    """The carrier does not allow this number, or the project may make no further calls today."""
    DESTINATION_NOT_ALLOWED = "destination_not_allowed"
    """The carrier or the project's settings do not allow this number."""
    PROVIDER_ERROR = "provider_error"
    """The carrier did not place the call, or lost it."""
    PROVIDER_TIMEOUT = "provider_timeout"
    """The carrier did not report the end of the call, or could not start it in time."""
    MAX_DURATION = "max_duration"
    """The call was ended at its longest duration."""
    CALLBACK_REQUESTED = "callback_requested"
    """The customer asked to be called later."""
    CONSENT_DECLINED = "consent_declined"
    """The customer declined the request for consent."""
    CONSENT_EXPIRED = "consent_expired"
    """The customer did not answer the request for consent."""
    CONSENT_REVOKED = "consent_revoked"
    """The consent was revoked."""
    CUSTOMER_DELETED = "customer_deleted"
    """The customer was deleted before the call was dialed."""
    APPOINTMENT_CANCELLED = "appointment_cancelled"
    """The appointment was cancelled or deleted before the call was dialed."""
    PHONE_CHANGED = "phone_changed"
    """The customer got another number, for which there is no consent."""
    CANCELED = "canceled"
    """The call was canceled by a request while it waited."""
    OPTED_OUT = "opted_out"
    """The customer is not to be called."""


class CallOutcome(StrEnum):
    """What came of a call (promises 11). Of several that apply to a completed call, the first one counts."""

    CONFIRMED = "confirmed"
    """The agent confirmed the appointment, or it was confirmed before."""
    RESCHEDULED = "rescheduled"
    """The agent moved the appointment."""
    CANCELLED = "cancelled"
    """The agent cancelled the appointment."""
    OPTED_OUT = "opted_out"
    """The person does not want to be called again."""
    WRONG_PERSON = "wrong_person"
    """Somebody else answered."""
    HANDED_OFF = "handed_off"
    """A person of the business is to call back."""
    NO_CHANGE = "no_change"
    """Nothing was changed."""
    CALLBACK = "callback"
    """The customer asked to be called later."""
    UNREACHED = "unreached"
    """Nobody was reached."""
    NOT_PLACED = "not_placed"
    """There was no call, or the carrier lost it."""


OUTCOMES: Mapping[SessionCallStatus, tuple[CallOutcome, ...]] = {
    SessionCallStatus.COMPLETED: (
        CallOutcome.CONFIRMED,
        CallOutcome.RESCHEDULED,
        CallOutcome.CANCELLED,
        CallOutcome.OPTED_OUT,
        CallOutcome.WRONG_PERSON,
        CallOutcome.HANDED_OFF,
        CallOutcome.NO_CHANGE,
    ),
    SessionCallStatus.NO_ANSWER: (CallOutcome.UNREACHED,),
    SessionCallStatus.FAILED: (CallOutcome.NOT_PLACED,),
    SessionCallStatus.INVALID_NUMBER: (CallOutcome.UNREACHED,),
    SessionCallStatus.CALL_LATER: (CallOutcome.CALLBACK,),
}
"""The outcomes of calls that have ended, by status."""
CHANGES_OF_APPOINTMENT = (CallOutcome.CONFIRMED, CallOutcome.RESCHEDULED, CallOutcome.CANCELLED)


class Channel(StrEnum):
    """How a customer is called."""

    PHONE = "phone"
    """A phone call."""
    WHATSAPP = "whatsapp"
    """A call on WhatsApp, which needs consent."""


class FileStatus(StrEnum):
    """Whether a call has a transcript or a recording."""

    NONE = "none"
    """There is none, and a request for it is answered with 404."""
    PROCESSING = "processing"
    """It is being made."""
    AVAILABLE = "available"
    """It can be retrieved."""
    FAILED = "failed"
    """It could not be made."""


class ConsentStatus(StrEnum):
    """The customer's answer to a request for consent."""

    PENDING = "pending"
    """The customer has not answered yet."""
    GRANTED = "granted"
    """The customer agreed."""
    DECLINED = "declined"
    """The customer declined."""
    EXPIRED = "expired"
    """The customer did not answer in time."""


AnsweredBy = Literal["human", "machine"]
"""Who answered a call (promises 7)."""


@dataclass(frozen=True)
class Ending:
    """How a call ended, in the session's words (promises 7)."""

    call_status: SessionCallStatus
    ended_reason: EndedReason
    answered_by: AnsweredBy | None = None


VOICEMAIL = Ending(SessionCallStatus.NO_ANSWER, EndedReason.VOICEMAIL, "machine")
BLOCKED = Ending(SessionCallStatus.FAILED, EndedReason.BLOCKED)
NOT_ALLOWED = Ending(SessionCallStatus.FAILED, EndedReason.DESTINATION_NOT_ALLOWED)
PROVIDER_ERROR = Ending(SessionCallStatus.FAILED, EndedReason.PROVIDER_ERROR)
PROVIDER_TIMEOUT = Ending(SessionCallStatus.FAILED, EndedReason.PROVIDER_TIMEOUT)
CONSENT_DECLINED = Ending(SessionCallStatus.FAILED, EndedReason.CONSENT_DECLINED)
CONSENT_EXPIRED = Ending(SessionCallStatus.FAILED, EndedReason.CONSENT_EXPIRED)
CONSENT_REVOKED = Ending(SessionCallStatus.FAILED, EndedReason.CONSENT_REVOKED)
CUSTOMER_DELETED = Ending(SessionCallStatus.FAILED, EndedReason.CUSTOMER_DELETED)
APPOINTMENT_CANCELLED = Ending(SessionCallStatus.FAILED, EndedReason.APPOINTMENT_CANCELLED)
PHONE_CHANGED = Ending(SessionCallStatus.FAILED, EndedReason.PHONE_CHANGED)
CANCELED = Ending(SessionCallStatus.FAILED, EndedReason.CANCELED)
OPTED_OUT = Ending(SessionCallStatus.FAILED, EndedReason.OPTED_OUT)
