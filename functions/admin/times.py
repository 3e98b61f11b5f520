"""Times as the pages show and read them: local in the project's time zone, never in the browser's."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shared.core import clock

FIRST = clock.parse("0001-01-01T00:00:00Z")
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def zone_of(name: str | None, default: tzinfo) -> tzinfo:
    """The time zone of this name; `default` without a name, and for a name that validation refuses."""
    try:
        return ZoneInfo(name) if name else default
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return default


def shown(iso: str, zone: tzinfo, to: str = "minutes") -> str:
    """A time of the API in a zone: `Tue 6 May 2031, 10:30`."""
    at = local(clock.parse(iso), zone)
    return f"{day(at)}, {at.isoformat(timespec=to)[11:]}"


def day(at: date) -> str:
    """A day: `Tue 6 May 2031`."""
    return f"{_DAYS[at.weekday()]} {at.day} {_MONTHS[at.month - 1]} {at.year}"


def parse_day(text: str) -> date:
    """The day `2027-03-04`. Raises ValueError."""
    if not _DAY.fullmatch(text):
        raise ValueError(text)
    return date.fromisoformat(text)


def elsewhere(appointment: Mapping[str, Any], zone: tzinfo) -> str | None:
    """The time of an appointment in its own time zone, if that differs from its time in `zone`."""
    own = zone_of(appointment["timezone"], zone)
    at = clock.parse(appointment["appointment_at"])
    there, here = local(at, own), local(at, zone)
    if there == here:
        return None
    text = f"{there:%H:%M}" if there.date() == here.date() else shown(appointment["appointment_at"], own)
    return f"{text} in {appointment['timezone']}"


def local(instant: clock.Instant, zone: tzinfo) -> datetime:
    """An instant as a local time. On the first and last day of the calendar, some zones have none, and it is in UTC."""
    moment = _EPOCH + timedelta(milliseconds=min(instant, clock.LAST))
    with contextlib.suppress(OverflowError):
        moment = moment.astimezone(zone)
    return moment.replace(tzinfo=None)


def instant(text: str, zone: tzinfo) -> clock.Instant:
    """The instant of a local time `2027-03-04T15:00`, or of the beginning of a day. Raises ValueError."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is not None:
        raise ValueError("a local time has no UTC offset")
    return _instant(at, zone)


def start_of_day(day: date, zone: tzinfo) -> clock.Instant:
    """The first instant of a day."""
    return _instant(datetime.combine(day, time.min), zone)


def end_of_day(day: date, zone: tzinfo) -> clock.Instant:
    """The first instant after a day."""
    return clock.LAST + 1 if day == date.max else start_of_day(day + timedelta(days=1), zone)


def _instant(at: datetime, zone: tzinfo) -> clock.Instant:
    # A local time that a change of clocks skips is taken with the offset before the change.
    offset = at.replace(tzinfo=zone).utcoffset() or timedelta()
    return max(
        FIRST, min(clock.of_datetime(at.replace(tzinfo=UTC)) - offset // timedelta(milliseconds=1), clock.LAST + 1)
    )
