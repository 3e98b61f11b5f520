"""Rate limits: 100 requests a second and 5000 a minute for each API key (specification, "Limits").

The key's row holds `m`, a minute of the UTC clock, and `w`, the counts of that minute: `n` of all of it, `s0` to `s59`
of its seconds. One conditional update counts a request and tells whether the limits allow it. A row that counts the
next minute was written by a host whose clock is a little ahead, and is counted on; one that counts a later minute
was written by a clock that ran ahead, and is started anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.core import clock, table

PER_SECOND = 100
PER_MINUTE = 5000
CONDITION = "attribute_exists(pk) AND attribute_not_exists(revoked_at)"
"""Of every update that counts a request: the key exists and is valid."""


@dataclass(frozen=True)
class Remaining:
    """What is left of a key's windows: whole requests, and whole seconds until the minute ends."""

    in_second: int
    in_minute: int
    minute_resets_in: int


@dataclass(frozen=True)
class Window:
    """The window `name` (`second` or `minute`) is used up until the instant `until`."""

    name: str
    until: int


@dataclass(frozen=True)
class Moment:
    """The minute and second that a request is counted in, at the instant `now`."""

    now: int
    minute: int

    @property
    def counted_at(self) -> int:
        """The present instant, or the start of a minute that is still to come."""
        return max(self.now, self.minute * clock.MINUTE)

    @property
    def second(self) -> str:
        """The name of the count of the second."""
        return f"s{self.counted_at // clock.SECOND % 60}"


def latest_minute(now: int) -> int:
    """The last minute that a row may count at this instant."""
    return now // clock.MINUTE + 1


def is_current(row: Mapping[str, object], now: int) -> bool:
    """Whether the row counts the present minute, or the next one."""
    minute = row.get("m")
    return isinstance(minute, int) and now // clock.MINUTE <= minute <= latest_minute(now)


def start_minute(pk: str, sk: str, moment: Moment) -> table.Update:
    """The update that counts the first request of a minute."""
    return table.Update(
        pk,
        sk,
        set={"m": moment.minute, "w": {"n": 1, moment.second: 1}},
        condition=f"{CONDITION} AND (attribute_not_exists(m) OR m < :s_m OR m > :latest)",
        values={":latest": latest_minute(moment.now)},
    )


def count(pk: str, sk: str, moment: Moment) -> table.Update:
    """The update that counts one more request, if the minute is the row's and neither window is used up."""
    second = moment.second
    return table.Update(
        pk,
        sk,
        expressions=("w.n = w.n + :one", f"w.{second} = if_not_exists(w.{second}, :zero) + :one"),
        condition=f"{CONDITION} AND m = :m AND w.n < :per_minute"
        f" AND (attribute_not_exists(w.{second}) OR w.{second} < :per_second)",
        values={":m": moment.minute, ":one": 1, ":zero": 0, ":per_minute": PER_MINUTE, ":per_second": PER_SECOND},
    )


def remaining(row: table.Row, moment: Moment) -> Remaining:
    """What a row leaves of the windows of a moment."""
    counts = row.get("w", {}) if row.get("m") == moment.minute else {}
    return Remaining(
        in_second=PER_SECOND - counts.get(moment.second, 0),
        in_minute=PER_MINUTE - counts.get("n", 0),
        minute_resets_in=whole_seconds((moment.minute + 1) * clock.MINUTE - moment.now),
    )


def exhausted(left: Remaining, moment: Moment) -> Window | None:
    """The window that is used up, None if there is room in both."""
    if left.in_minute <= 0:
        return Window("minute", (moment.minute + 1) * clock.MINUTE)
    if left.in_second <= 0:
        return Window("second", (moment.counted_at // clock.SECOND + 1) * clock.SECOND)
    return None


def whole_seconds(milliseconds: int) -> int:
    """Milliseconds as whole seconds, rounded up, at least 1."""
    return max(1, -(-milliseconds // clock.SECOND))
