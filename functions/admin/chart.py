"""The chart of a day's attempts to an endpoint, as sizes of its bars. It needs no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.core import clock
from shared.webhooks.statistics import Hour

HEIGHT = 100
"""Of the highest bar, in units of the drawing. An hour has a width of 20."""


@dataclass(frozen=True)
class Bar:
    """An hour: when it begins, its numbers, and the heights of its bars."""

    at: str
    accepted: int
    failed: int
    median_ms: int | None
    accepted_height: int
    failed_height: int
    median_height: int


@dataclass(frozen=True)
class Chart:
    """The bars of a day, and what the highest ones stand for."""

    bars: list[Bar]
    most: int
    slowest_ms: int


def of(hours: Sequence[Hour]) -> Chart:
    """The chart of these hours."""
    most = max((one.count for one in hours), default=0)
    slowest_ms = max((one.median_ms for one in hours if one.count), default=0)
    return Chart([_bar(one, most, slowest_ms) for one in hours], most, slowest_ms)


def _bar(hour: Hour, most: int, slowest_ms: int) -> Bar:
    median_ms = hour.median_ms if hour.count else None
    return Bar(
        clock.iso(hour.since),
        hour.accepted,
        hour.failed,
        median_ms,
        _height(hour.accepted, most),
        _height(hour.failed, most),
        _height(median_ms or 0, slowest_ms),
    )


def _height(value: int, most: int) -> int:
    """The height of a bar, at least 1 unless the value is 0."""
    return max(1, value * HEIGHT // most) if value and most else 0
