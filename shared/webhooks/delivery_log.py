"""All deliveries to an endpoint, newest first, by status, event type and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from shared.core import clock, ids
from shared.store import table
from shared.store.keys import Scope
from shared.webhooks import events
from shared.webhooks.deliveries import commands as delivery_commands
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.deliveries.resource import DELIVERIES, Delivery, DeliveryRow
from shared.webhooks.failures import DeliveryPage, entries_of

_MOST_READ = 100
"""The deliveries that are read for one page with a filter by status or type: one batch."""


@dataclass(frozen=True)
class DeliveryFilter:
    """The deliveries with a status, and of an event type or a wildcard, between two instants.

    The time is that of the event, or of the manual retry. `until` is exclusive.
    """

    status: str = ""
    type: str = ""
    since: clock.Instant = clock.EPOCH
    until: clock.Instant = clock.LAST + 1

    def passes(self, one: Delivery) -> bool:
        """Whether the delivery has the status and the type."""
        return self.status in ("", one["status"]) and (not self.type or events.matches([self.type], one["event_type"]))


def page(
    scope: Scope, endpoint_id: str, limit: int, wanted: DeliveryFilter, starting_after: str | None = None
) -> DeliveryPage:
    """The deliveries to an endpoint that a filter lets through.

    A `starting_after` that is not the id of a delivery counts as absent. A page may be short, because few of the
    deliveries that were read pass the filter; it has a cursor then.
    """
    partition, prefix = deliveries.endpoint_partition(scope, endpoint_id), DELIVERIES.prefix
    least, most = ids.first_of(prefix, wanted.since), ids.before(prefix, ids.first_of(prefix, wanted.until))
    if starting_after and ids.is_id(prefix, starting_after):
        most = min(most, ids.before(prefix, starting_after))
    most_read = _MOST_READ if wanted.status or wanted.type else limit
    entries = entries_of(partition, most_read + 1, least, most, index="f2")
    rows = cast("list[DeliveryRow]", table.rows_of(entries[:most_read]))
    passing = list(filter(wanted.passes, map(deliveries.view, delivery_commands.cancel_closed(scope, rows))))
    if len(passing) > limit:
        return DeliveryPage(passing[:limit], passing[limit - 1]["id"])
    return DeliveryPage(passing, entries[most_read - 1]["sk"] if len(entries) > most_read else None)
