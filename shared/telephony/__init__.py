"""Telephony: calls, and requests for consent.

amazon_connect     live calls by phone
contact_lens       recordings and transcripts of live calls
lex                what customers say in live calls, and what the agent answers
whatsapp           consent to live calls, asked on WhatsApp; no adapter carries the sound of calls on WhatsApp
adapters           which carrier and messenger the stage uses

This module says what a carrier and a messenger do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from shared.core import clock
from shared.core.call_statuses import Ending


@dataclass(frozen=True)
class ContactState:
    """The state of a call by its carrier. `ending` is None until the call has ended."""

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

    def is_permitted(self, to: str) -> bool:
        """Return whether the phone may be called now. Raises Busy, whatsapp.CannotAsk."""

    def ask(self, to: str, business: str, reference: str) -> str:
        """Ask a phone for consent to calls of a business, and return the message's id. Raises Busy, whatsapp.CannotAsk.

        `reference` returns with the report of a request that is not delivered.
        """
