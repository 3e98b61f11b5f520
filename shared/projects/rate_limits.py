"""Rate limits: 100 requests a second and 5000 a minute for each API key (promise 1.5).

The row of a key holds `m`, a minute of the UTC clock, and `w`, the counts of that minute: `n` of the whole minute, `s0`
to `s59` of its seconds. One conditional update counts a request and enforces the limits. A row may count the next
minute, because the clocks of hosts differ a little; its counts continue. A row that counts a later minute was written
by a host whose clock was wrong; its counts restart. The headers with what is left: `common_headers` in
`shared/api/responses.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.core import clock, limits
from shared.store import table

PER_SECOND, PER_MINUTE = limits.REQUESTS_PER_SECOND, limits.REQUESTS_PER_MINUTE


@dataclass(frozen=True)
class Remaining:
    """What remains of a key's windows: requests, and whole seconds until the minute ends."""

    in_second: int
    in_minute: int
    minute_resets_in_s: int


@dataclass(frozen=True)
class ExhaustedWindow:
    """The window `name` (`second` or `minute`), whose limit is reached until the instant `until`."""

    name: str
    until: clock.Instant


@dataclass(frozen=True)
class Moment:
    """The minute and second in which a request at the instant `now` is counted.

    `starts` if the row counts another minute, so that its counts restart.
    """

    now: clock.Instant
    minute: int
    starts: bool

    @property
    def counted_at(self) -> clock.Instant:
        """`now`, or the start of the minute if it is the next one."""
        return max(self.now, clock.Instant(self.minute * clock.MINUTE))

    @property
    def second(self) -> str:
        """The name of the second's count."""
        return f"s{clock.to_unix(self.counted_at) % 60}"


def latest_minute(now: clock.Instant) -> int:
    """The latest minute that a row may count at this instant."""
    return now // clock.MINUTE + 1


def moment(now: clock.Instant, counted: int | None) -> Moment:
    """When a request at the instant `now` is counted in a row that counts the minute `counted`, if it counts any."""
    minute = now // clock.MINUTE
    if counted is not None and minute <= counted <= latest_minute(now):
        return Moment(now, counted, starts=False)
    return Moment(now, minute, starts=True)


def count_write(pk: str, sk: str, moment: Moment) -> table.Update:
    """The update that counts a request. Its condition is that the moment is true of the row and a request remains."""
    return _first_write(pk, sk, moment) if moment.starts else _next_write(pk, sk, moment)


def remaining(row: Mapping[str, Any], moment: Moment) -> Remaining:
    """What remains of the windows of a moment, from the counts in a row."""
    counts = row.get("w", {}) if row.get("m") == moment.minute else {}
    return Remaining(
        in_second=PER_SECOND - counts.get(moment.second, 0),
        in_minute=PER_MINUTE - counts.get("n", 0),
        minute_resets_in_s=whole_seconds((moment.minute + 1) * clock.MINUTE - moment.now),
    )


def exhausted_window(remaining: Remaining, moment: Moment) -> ExhaustedWindow | None:
    """The window whose limit is reached; None if neither is."""
    if remaining.in_minute <= 0:
        return ExhaustedWindow("minute", clock.Instant((moment.minute + 1) * clock.MINUTE))
    if remaining.in_second <= 0:
        return ExhaustedWindow("second", moment.counted_at - moment.counted_at % clock.SECOND + clock.SECOND)
    return None


def whole_seconds(milliseconds: int) -> int:
    """Milliseconds as whole seconds, rounded up, at least 1."""
    return max(1, -(-milliseconds // clock.SECOND))


def _first_write(pk: str, sk: str, moment: Moment) -> table.Update:
    is_another = table.below("m", moment.minute) | table.above("m", latest_minute(moment.now))
    return table.Update(
        pk,
        sk,
        set={"m": moment.minute, "w": {"n": 1, moment.second: 1}},
        condition=_is_valid(moment) & (table.equals("m", None) | is_another),
    )


def _next_write(pk: str, sk: str, moment: Moment) -> table.Update:
    used = f"w.{moment.second}"
    in_minute = table.equals("m", moment.minute) & table.below("w.n", PER_MINUTE)
    in_second = table.equals(used, None) | table.below(used, PER_SECOND)
    return table.Update(pk, sk, add={"w.n": 1, used: 1}, condition=_is_valid(moment) & in_minute & in_second)


def _is_valid(moment: Moment) -> table.Condition:
    """The condition of every count of a request: the key exists, and is neither revoked nor expired."""
    unexpired = table.equals("valid_until", None) | table.above("valid_until", moment.now)
    return table.PRESENT & table.equals("revoked_at", None) & unexpired
