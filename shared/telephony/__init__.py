"""Telephony: calls, and requests for consent.

amazon_connect     live calls by phone
contact_lens       recordings and transcripts of live calls
lex                what customers say in live calls, and what the agent answers
whatsapp           consent to live calls, asked on WhatsApp; no adapter carries the sound of calls on WhatsApp
test_numbers       test mode's phone numbers, which reach nobody: each stands for the outcome of a call
adapters           which carrier and messenger the stage uses
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class SessionCallStatus(StrEnum):
    """The status of a call (promises 7)."""

    QUEUED = "queued"
    DIALING = "dialing"
    COMPLETED = "completed"
    NO_ANSWER = "no_answer"
    FAILED = "failed"
    INVALID_NUMBER = "invalid_number"
    CALL_LATER = "call_later"


ENDED = frozenset(SessionCallStatus) - {SessionCallStatus.QUEUED, SessionCallStatus.DIALING}
"""The statuses of a call that has ended. They are final."""


class EndedReason(StrEnum):
    """Why a call ended (promises 7)."""

    CUSTOMER_HANGUP = "customer_hangup"
    AGENT_HANGUP = "agent_hangup"
    NO_ANSWER = "no_answer"
    BUSY = "busy"
    VOICEMAIL = "voicemail"
    DECLINED = "declined"
    INVALID_NUMBER = "invalid_number"
    BLOCKED = "blocked"
    DESTINATION_NOT_ALLOWED = "destination_not_allowed"
    PROVIDER_ERROR = "provider_error"
    PROVIDER_TIMEOUT = "provider_timeout"
    MAX_DURATION = "max_duration"
    CALLBACK_REQUESTED = "callback_requested"
    CONSENT_DECLINED = "consent_declined"
    CONSENT_EXPIRED = "consent_expired"
    CONSENT_REVOKED = "consent_revoked"
    CUSTOMER_DELETED = "customer_deleted"
    APPOINTMENT_CANCELLED = "appointment_cancelled"
    PHONE_CHANGED = "phone_changed"
    CANCELED = "canceled"
    OPTED_OUT = "opted_out"


class CallOutcome(StrEnum):
    """What came of a call (promises 11). Of several that apply to a completed call, the first one counts."""

    CONFIRMED = "confirmed"
    RESCHEDULED = "rescheduled"
    CANCELLED = "cancelled"
    OPTED_OUT = "opted_out"
    WRONG_PERSON = "wrong_person"
    HANDED_OFF = "handed_off"
    NO_CHANGE = "no_change"
    CALLBACK = "callback"
    UNREACHED = "unreached"
    NOT_PLACED = "not_placed"


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


@dataclass(frozen=True)
class Ending:
    """How a call ended, in the session's words (promises 7)."""

    call_status: SessionCallStatus
    ended_reason: EndedReason
    answered_by: str | None = None


@dataclass(frozen=True)
class ContactState:
    """The state of a call by its carrier. Instants are milliseconds; `ending` is None until the call has ended."""

    answered_at: int | None
    ended_at: int | None
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
