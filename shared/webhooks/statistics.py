"""The outcomes of the latest attempts to an endpoint: how many it accepted, and how long they took."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass

from shared.store import table
from shared.store.keys import Scope
from shared.webhooks.deliveries.resource import Delivery, automatic_key
from shared.webhooks.events import EVENTS

EVENTS_READ = 100
"""The latest events of the project whose deliveries to the endpoint are read: as many as one call reads."""


@dataclass(frozen=True)
class Latest:
    """The deliveries of the latest events to an endpoint, newest first. Durations are in milliseconds."""

    deliveries: list[Delivery]

    @property
    def count(self) -> int:
        """The number of attempts."""
        return len(self._durations)

    @property
    def accepted(self) -> int:
        """The number of attempts that the endpoint accepted."""
        return sum(attempt["error_code"] is None for one in self.deliveries for attempt in one["attempts"])

    @property
    def median(self) -> int:
        """The median duration of the attempts."""
        return int(statistics.median(self._durations))

    @property
    def longest(self) -> int:
        """The duration of the longest attempt."""
        return max(self._durations)

    @property
    def _durations(self) -> list[int]:
        return [attempt["duration_ms"] for one in self.deliveries for attempt in one["attempts"]]


def latest(scope: Scope, endpoint_id: str) -> Latest:
    """The automatic deliveries to an endpoint among those of the latest events. Makes two reads."""
    events = next(table.query(scope.pk(EVENTS.kind), limit=EVENTS_READ), [])
    keys = [automatic_key(scope, event["sk"], endpoint_id) for event in events]
    rows = table.get_many(keys)
    return Latest([json.loads(rows[key]["doc"]) for key in keys if key in rows])
