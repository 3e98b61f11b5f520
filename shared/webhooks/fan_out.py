"""Fan-out: a committed change becomes an event, with a delivery for each endpoint that receives it.

Processing a change twice has no further effect.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from cachetools import cached

from shared.core import clock, threads, trace
from shared.core.log import logger
from shared.customers import resource as customers
from shared.store import table
from shared.tasks import wake_ups
from shared.tasks.wake_ups import WakeUp
from shared.webhooks import call_metrics, events, queues
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.endpoints import resource as endpoints
from shared.webhooks.endpoints.resource import Snapshot
from shared.webhooks.events import NewEvent

_DELIVERIES_AT_ONCE = 4
"""The deliveries of one event that are written concurrently. Events of a batch are processed concurrently, too."""


class FanOut:
    """The fan-out of one batch of changes, which several threads may process."""

    def __init__(self) -> None:
        # Read once for the batch: every endpoint that was created before a change in this batch already exists.
        self._endpoints_of = cached({}, condition=threading.Condition())(endpoints.of_project)
        self._is_erased = cached({}, condition=threading.Condition())(customers.is_erased)

    def write(self, old: table.Row | None, new: table.Row | None) -> Sequence[tuple[str, WakeUp]]:
        """Write the event of a change and its deliveries, if it has an event.

        Returns the wake-ups, each with the queue to which `send` sends it.
        """
        event = events.derive(old, new)
        if event is None or new is None:
            return ()
        if event.customer_id is not None and self._is_erased(event.scope, event.customer_id):
            return ()
        trace.follow(new)
        trace.name(event_id=event.id)
        matching = [endpoint for endpoint in self._endpoints_of(event.scope) if _receives(endpoint, event)]
        rows = [deliveries.new_row(event, endpoint) for endpoint in matching]
        # Not a transaction, because that would double the write units. If this function fails after some of the writes,
        # it runs again and makes the others. Wake-ups are sent again, because they may be lost.
        if _put_once(event.row(), event.id):
            extra = {"type": event.type, "object_id": event.object_id, "deliveries": len(rows)}
            logger().info("event", extra=extra)
            call_metrics.count_event(event.type, new)
        threads.run_all(lambda row: _put_once(row, event.id), rows, _DELIVERIES_AT_ONCE)
        destinations = [queues.first(endpoint, event.object_id) for endpoint in matching]
        return [
            (destination.queue, deliveries.wake_up(row, destination=destination))
            for endpoint, row, destination in zip(matching, rows, destinations, strict=True)
            if endpoint.doc["enabled"]
        ]


def send(queued: Sequence[tuple[str, WakeUp]]) -> None:
    """Send the wake-ups of a batch: together, so that those for each endpoint have the order of the batch."""
    for queue in (queues.FIRST, queues.SLOW, queues.HANGING):
        wake_ups.send(queue, [wake_up for name, wake_up in queued if name == queue])


def _receives(endpoint: Snapshot, event: NewEvent) -> bool:
    """Whether the endpoint existed before the change and wants events of this type."""
    existed = clock.parse(endpoint.doc["created_at"]) <= event.instant
    return existed and events.matches(endpoint.doc["event_filters"], event.type)


def _put_once(row: Mapping[str, object], request: str) -> bool:
    """Write the row unless it exists. Returns whether it was written."""
    try:
        table.write([table.Put(dict(row))], request)
    except table.ConditionFailed:
        return False
    return True
