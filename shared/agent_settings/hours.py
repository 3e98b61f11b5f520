"""Weekly hours in local time: opening hours and calling hours (promises 11).

Instants are in milliseconds. A span holds the instants from its first up to, not including, its second. No entries
mean any time. A local time that a change of clocks skips is the first instant after the gap; one that comes twice is
the first of the two. Spans that touch or overlap are one, across midnight too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, TypedDict
from zoneinfo import ZoneInfo

from shared.core import clock
from shared.resources.schema import Keywords, one_of

_LAST = clock.LAST - 3 * clock.DAY
"""Later instants are taken for this one: the calendar would end before the local times around them."""

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SEARCHED_MS = 15 * clock.DAY
"""How far ahead the next span is looked for. Hours repeat every week, and a change of clocks can skip an entry once."""

_From = TypedDict("_From", {"from": Annotated[str, Keywords(description="The local time `HH:MM` of the beginning.")]})
"""A class cannot have an attribute `from`."""


class Hours(_From):
    """The same hours on some days of every week, in local time. `from` is before `to`."""

    days: list[Annotated[str, one_of(DAYS, "Day")]]
    """The days of the week."""
    to: str
    """The local time `HH:MM` of the end, which is not included. `24:00` is the end of the day."""


Span = tuple[clock.Instant, clock.Instant]


def spans(hours: Sequence[Hours], zone: ZoneInfo, start: clock.Instant, end: clock.Instant) -> list[Span]:
    """The spans of every day that has an instant between `start` and `end`, in order. Neighbours are merged."""
    if not hours:
        return [(start - clock.DAY, end + clock.DAY)]
    day, last = _local(start, zone).date() - timedelta(days=1), _local(end, zone).date() + timedelta(days=1)
    every_span = []
    while day <= last:
        today = [entry for entry in hours if DAYS[day.weekday()] in entry["days"]]
        every_span += [(_instant(day, entry["from"], zone), _instant(day, entry["to"], zone)) for entry in today]
        day += timedelta(days=1)
    merged: list[Span] = []
    for first, until in sorted(every_span):
        if merged and first <= merged[-1][1]:
            first, until = merged[-1][0], max(until, merged.pop()[1])
        if first < until:
            merged.append((first, until))
    return merged


def contain(hours: Sequence[Hours], zone: ZoneInfo, start: clock.Instant, end: clock.Instant) -> bool:
    """Whether one span contains all instants from `start` up to `end`."""
    return any(first <= start and end <= until for first, until in spans(hours, zone, start, end))


def next_open(hours: Sequence[Hours], zone: ZoneInfo, instant: clock.Instant) -> clock.Instant:
    """The first instant within the hours, at or after `instant`."""
    ahead = spans(hours, zone, instant, instant + _SEARCHED_MS)
    return next(max(first, instant) for first, until in ahead if until > instant)


def utc_offset_ms(instant: clock.Instant, zone: ZoneInfo) -> int:
    """The offset of local time from UTC (milliseconds)."""
    return (_local(instant, zone).utcoffset() or timedelta()) // timedelta(milliseconds=1)


def _local(instant: clock.Instant, zone: ZoneInfo) -> datetime:
    return (_EPOCH + timedelta(milliseconds=min(instant, _LAST))).astimezone(zone)


def _instant(day: date, time: str, zone: ZoneInfo) -> clock.Instant:
    """The instant of a local time, which may be 24:00."""
    hour, minute = map(int, time.split(":"))
    wall = datetime.combine(day, datetime.min.time()) + timedelta(hours=hour, minutes=minute)
    # For a time in a gap, the two folds have the offsets before and after it: the gap is between these instants.
    # Outside of gaps, the first fold is the instant, and the second is the same or later.
    late, early = (clock.of_datetime(wall.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    return late if early >= late else _change(early, late, zone)


def _change(before: clock.Instant, after: clock.Instant, zone: ZoneInfo) -> clock.Instant:
    """The first instant after the change of clocks that is between these two, to the second."""
    low, high = clock.to_unix(before), clock.to_unix(after)
    while high - low > 1:
        middle = clock.UnixSeconds((low + high) // 2)
        is_after = utc_offset_ms(clock.of_unix(middle), zone) == utc_offset_ms(after, zone)
        low, high = (low, middle) if is_after else (middle, high)
    return clock.of_unix(high)
