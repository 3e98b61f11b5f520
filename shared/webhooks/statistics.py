"""The latest deliveries to an endpoint: how many attempts it accepted, how long they took, and those of each hour."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from shared.core import clock, ids
from shared.store import table
from shared.store.keys import Scope
from shared.webhooks import failures
from shared.webhooks.deliveries.resource import DELIVERIES, Attempt, Delivery, endpoint_partition

DELIVERIES_READ = 100
"""The deliveries that are read: those of a day, of most endpoints."""
HOURS = 24


@dataclass(frozen=True)
class Attempts:
    """Some attempts."""

    attempts: Sequence[Attempt]

    @property
    def count(self) -> int:
        """Their number."""
        return len(self.attempts)

    @property
    def accepted(self) -> int:
        """The number of those that the endpoint accepted."""
        return sum(one["error_code"] is None for one in self.attempts)

    @property
    def failed(self) -> int:
        """The number of those that failed."""
        return self.count - self.accepted

    @property
    def median_ms(self) -> int:
        """Their median duration."""
        return int(statistics.median(one["duration_ms"] for one in self.attempts))

    @property
    def longest_ms(self) -> int:
        """The duration of the longest one."""
        return max(one["duration_ms"] for one in self.attempts)


@dataclass(frozen=True)
class Hour(Attempts):
    """The attempts of an hour that begins at the instant `since`."""

    since: clock.Instant


@dataclass(frozen=True)
class Latest:
    """The latest deliveries to an endpoint, newest first. There are older ones if it `is_partial`."""

    deliveries: list[Delivery]
    is_partial: bool

    @property
    def all(self) -> Attempts:
        """The attempts of these deliveries."""
        return Attempts([attempt for one in self.deliveries for attempt in one["attempts"]])

    @property
    def hours(self) -> list[Hour]:
        """The attempts of each of the last 24 hours, the oldest first."""
        since = clock.now() - HOURS * clock.HOUR
        found: list[list[Attempt]] = [[] for _ in range(HOURS)]
        for attempt in self.all.attempts:
            hour = (clock.parse(attempt["at"]) - since) // clock.HOUR
            if hour >= 0:
                found[min(hour, HOURS - 1)].append(attempt)
        return [Hour(attempts, since + hour * clock.HOUR) for hour, attempts in enumerate(found)]

    @property
    def partial_since(self) -> str | None:
        """The time since which `hours` are complete; None if all are."""
        if not self.is_partial or clock.parse(self.deliveries[-1]["created_at"]) < clock.now() - HOURS * clock.HOUR:
            return None
        return self.deliveries[-1]["created_at"]


def latest(scope: Scope, endpoint_id: str) -> Latest:
    """The latest deliveries to an endpoint: automatic ones, manual retries and test events."""
    least = ids.first_of(DELIVERIES.prefix, clock.EPOCH)
    entries = failures.entries_of(endpoint_partition(scope, endpoint_id), DELIVERIES_READ, least, index="f2")
    docs: list[Delivery] = [json.loads(row["doc"]) for row in table.rows_of(entries)]
    return Latest(docs, is_partial=len(entries) == DELIVERIES_READ)
