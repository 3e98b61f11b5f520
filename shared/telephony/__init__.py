"""Telephony: calls, and requests for consent.

amazon_connect     live calls by phone
contact_lens       recordings and transcripts of live calls
lex                what customers say in live calls, and what the agent answers
whatsapp           consent to live calls, asked on WhatsApp; no adapter carries the sound of calls on WhatsApp
test_numbers       test mode's phone numbers, which reach nobody: each stands for the outcome of a call
adapters           which carrier and messenger the stage uses

This module has the values that a session states, and what a carrier and a messenger do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from shared.core import clock


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
    """There was no call. `ended_reason` says why."""
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
    """The carrier did not place the call."""
    PROVIDER_TIMEOUT = "provider_timeout"
    """The carrier did not report the end of the call."""
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
    """There was no call."""


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


@dataclass(frozen=True)
class ContactState:
    """The state of a call by its carrier. Instants are milliseconds; `ending` is None until the call has ended."""

    answered_at: clock.Instant | None
    ended_at: clock.Instant | None
    ending: Ending | None


class CallRefused(Exception):
    """The carrier will never place this call."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.ended_reason)
        self.ending = ending


class Busy(Exception):
    """The provider has no capacity or did not respond: the same request may succeed later."""


class NoCapacity(Busy):
    """The provider refused the request because a quota is used up; it did nothing."""


class NotConfigured(Exception):
    """A setting of the stage is missing; the text names it."""


@dataclass(frozen=True)
class ContactOwner:
    """Whose call a contact is."""

    project_id: int
    livemode: bool
    session_id: str


class Carrier(Protocol):
    """Something that places live calls."""

    def start(self, to: str, session_id: str, project_id: int, livemode: bool, opening: str) -> str:
        """Place the call, and return the carrier's id of it.

        `opening` is what the agent says first. A request that is repeated for the same session within seconds places
        no second call. Raises CallRefused, Busy, and NoCapacity if this request placed none.
        """

    def describe(self, contact_id: str) -> ContactState | None:
        """Return the state of a call; None if the carrier does not know the call. Raises Busy."""

    def stop(self, contact_id: str) -> None:
        """End a call. A call that has ended is left alone. Raises Busy."""

    def owner(self, contact_id: str) -> ContactOwner | None:
        """Return whose call a contact is; None if this service did not place it. Raises Busy."""


class Messenger(Protocol):
    """Something that asks live customers for consent to calls."""

    def permitted(self, to: str) -> bool:
        """Return whether the phone may be called now. Raises Busy, whatsapp.CannotAsk."""

    def ask(self, to: str, business: str, reference: str) -> str:
        """Ask a phone for consent to calls of a business, and return the message's id. Raises Busy, whatsapp.CannotAsk.

        `reference` returns with the report of a request that is not delivered.
        """
