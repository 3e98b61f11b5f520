"""The clock: the only source of wall-clock time."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, NewType, overload

from shared.core import settings

if TYPE_CHECKING:
    # For mypy only: at runtime an instant is an int, without the cost of a class.
    class Instant(int):
        """A point in time: milliseconds since the Unix epoch, UTC.

        A duration is an int, and its name says the unit: `_ms`, `_s`. An instant with a duration added is an instant,
        the difference of two is a duration.
        """

        def __add__(self, duration_ms: int, /) -> Instant: ...
        @overload
        def __sub__(self, earlier: Instant, /) -> int: ...  # type: ignore[overload-overlap]
        @overload
        def __sub__(self, duration_ms: int, /) -> Instant: ...
        def __sub__(self, other: int, /) -> int: ...
else:
    Instant = int
UnixSeconds = NewType("UnixSeconds", int)
"""A point in time in seconds, where others ask for it: signatures, events, the time to live of a row."""

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

EPOCH = Instant(0)
"""1970, before everything that the service stores."""
LAST = Instant(253_402_300_799_999)
"""The last instant that a date-time can represent: the end of the year 9999."""

_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
# RFC 3339 with a UTC offset; seconds are optional.
_INPUT = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]([01]\d|2[0-3]):?[0-5]\d)",
    re.ASCII,
)
_source: Callable[[], float] = time.time
_sleep: Callable[[float], None] = time.sleep


def use(source: Callable[[], float], sleep: Callable[[float], None]) -> None:
    """Replace the clock: `source` returns Unix seconds, `sleep` waits for a number of seconds."""
    global _source, _sleep
    _source, _sleep = source, sleep


def now() -> Instant:
    """The current instant."""
    return Instant(_source() * SECOND)


def sleep(seconds: float) -> None:
    """Wait for `seconds` on this clock."""
    _sleep(seconds)


def scaled_ms(seconds: float) -> int:
    """`seconds` in milliseconds, divided by the local runner's speed (1 when deployed; promises 10)."""
    return int(seconds * SECOND / settings.speed())


def iso(instant: Instant) -> str:
    """The instant as `YYYY-MM-DDTHH:MM:SS.mmmZ` (promises 1)."""
    return (_ORIGIN + timedelta(milliseconds=instant)).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def local(instant: Instant, zone: tzinfo) -> str:
    """The instant as `YYYY-MM-DD HH:MM` in a time zone; in UTC if the zone cannot represent it."""
    moment = _ORIGIN + timedelta(milliseconds=instant)
    # The first and last day of the calendar have no local time in some zones.
    with contextlib.suppress(OverflowError):
        moment = moment.astimezone(zone)
    return f"{moment:%Y-%m-%d %H:%M}"


def parse(text: str) -> Instant:
    """The instant of an RFC 3339 date-time with a UTC offset, truncated to milliseconds. Raises ValueError."""
    if not _INPUT.fullmatch(text):
        raise ValueError("not an RFC 3339 date-time with a UTC offset")
    try:
        moment = datetime.fromisoformat(text.upper()).astimezone(UTC)
    except OverflowError as error:
        raise ValueError("outside the years 1 to 9999") from error
    return of_datetime(moment)


def of_datetime(moment: datetime) -> Instant:
    """The instant of a datetime that has a time zone, truncated to milliseconds."""
    return Instant((moment - _ORIGIN) // timedelta(milliseconds=1))


def to_unix(instant: Instant) -> UnixSeconds:
    """The whole seconds of the instant."""
    return UnixSeconds(instant // SECOND)


def of_unix(seconds: UnixSeconds) -> Instant:
    """The instant at which the second begins."""
    return Instant(seconds * SECOND)
