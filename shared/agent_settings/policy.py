"""Which new times of an appointment the agent may agree to (promises 11). Instants are in milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from zoneinfo import ZoneInfo

from shared.agent_settings import hours
from shared.agent_settings.hours import Hours
from shared.core import clock

DURATION_MS = 30 * clock.MINUTE
"""The duration of an appointment whose `duration_minutes` is null."""
QUARTER_MS = 15 * clock.MINUTE
OFFERED_MS = 14 * clock.DAY
"""How far after the wished time an offered time is at most."""


class ChangePolicy(StrEnum):
    """Which new times the agent may agree to by itself (promises 11)."""

    AUTO = "auto"
    """Any time."""
    WITHIN_HOURS = "within_hours"
    """Times at which the whole appointment is within the opening hours."""
    ASK_STAFF = "ask_staff"
    """None: a person decides."""


class Problem(StrEnum):
    """Why a new time is not possible."""

    TOO_SOON = "too_soon"
    OUTSIDE_HOURS = "outside_hours"


@dataclass(frozen=True)
class TimePolicy:
    """The rules for new times: not before `earliest`, and within the hours, whole, if there are any."""

    zone: ZoneInfo
    earliest: clock.Instant
    hours: Sequence[Hours]

    def problem(self, start: clock.Instant, duration_ms: int) -> Problem | None:
        """Why an appointment cannot begin at `start`; None if it can."""
        if start < self.earliest:
            return Problem.TOO_SOON
        if not hours.contain(self.hours, self.zone, start, start + duration_ms):
            return Problem.OUTSIDE_HOURS
        return None

    def next_possible(self, wished: clock.Instant, duration_ms: int) -> clock.Instant | None:
        """The first local quarter of an hour after `wished` at which it can begin; None if there is none in 14 days."""
        earliest = max(wished + 1, self.earliest)
        latest = wished + OFFERED_MS
        for first, until in hours.spans(self.hours, self.zone, earliest, latest + duration_ms):
            start = _quarter(max(first, earliest), self.zone)
            if start + duration_ms <= until and start <= latest:
                return start
        return None


def _quarter(instant: clock.Instant, zone: ZoneInfo) -> clock.Instant:
    """The first full quarter of an hour in local time, at or after the instant."""
    return instant + -(instant + hours.utc_offset_ms(instant, zone)) % QUARTER_MS
