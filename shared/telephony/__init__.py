"""Telephony: those who place calls and ask for consent, behind one port.

simulated          test mode and local runs: outcomes by number, no network
amazon_connect     live calls by phone
whatsapp           live consent on WhatsApp; its calls' media leg is not ours
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Ending:
    """How a call ended, in the words of the session (contract 7)."""

    call_status: str
    ended_reason: str
    answered_by: str | None = None


@dataclass(frozen=True)
class ContactState:
    """What a carrier says of a call right now; instants in milliseconds, `ending` once it has ended."""

    answered_at: int | None
    ended_at: int | None
    ending: Ending | None


class CallRefused(Exception):
    """The carrier will never place this call."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.ended_reason)
        self.ending = ending


class Busy(Exception):
    """The carrier is out of capacity or did not answer: the same request may be tried again."""


class NotConfigured(Exception):
    """A setting of the stage is missing; the text names it."""


class Carrier(Protocol):
    """Something that places live calls."""

    def start(self, to: str, session_id: str, project_id: int, livemode: bool, opening: str) -> str:
        """Place the call, once for each session if this is asked again within seconds; the carrier's id of it.

        `opening` is what the agent says first.

        Raises CallRefused, Busy.
        """

    def describe(self, contact_id: str) -> ContactState | None:
        """What has become of a call; None where the carrier knows no such call. Raises Busy."""

    def stop(self, contact_id: str) -> None:
        """End a call; one that has ended is left alone. Raises Busy."""
