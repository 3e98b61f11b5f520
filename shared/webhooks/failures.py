"""Failed deliveries that nobody has retried, and those that wait for a later attempt: after a failed one, or put off.

They are of one endpoint or several. Test events are not among them. Each has an entry in a sparse index. A manual retry
of the event to the endpoint removes the entry of a failed delivery; the delivery of the retry gets its own if it fails.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from shared.core import clock, ids
from shared.store import table
from shared.store.keys import Scope
from shared.webhooks.deliveries import commands as delivery_commands
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.deliveries.resource import DELIVERIES, Delivery, DeliveryRow, DeliveryStatus, Phase, phase
from shared.webhooks.endpoints.resource import EndpointSnapshot

_KEYS = 1_000
"""The entries that one request counts."""


@dataclass(frozen=True)
class DeliveryPage:
    """Deliveries, newest first. `cursor` is the `starting_after` of the next page; None on the last page."""

    deliveries: list[Delivery]
    cursor: str | None


def page(
    scope: Scope,
    endpoint_ids: Sequence[str],
    limit: int,
    since: clock.Instant = clock.EPOCH,
    starting_after: str | None = None,
    *,
    retrying: bool = False,
) -> DeliveryPage:
    """The failed deliveries to these endpoints of events and replays since an instant, newest first.

    With `retrying`, those that wait for a later attempt. A `starting_after` that is not the id of a
    delivery counts as absent. A page may be short, but has a cursor then.
    """
    least = ids.first_of(DELIVERIES.prefix, since)
    well_formed = starting_after is not None and ids.is_id(DELIVERIES.prefix, starting_after)
    most = ids.before(DELIVERIES.prefix, starting_after) if starting_after and well_formed else None
    entries: list[table.Row] = []
    for endpoint_id in endpoint_ids:
        entries += entries_of(_partition(scope, endpoint_id, retrying), limit + 1, least, most)
    entries.sort(key=lambda entry: str(entry["sk"]), reverse=True)
    page_entries = entries[:limit]
    docs = [deliveries.view(row) for row in delivery_commands.cancel_closed(scope, read(page_entries))]
    status = DeliveryStatus.ATTEMPTING if retrying else DeliveryStatus.FAILED
    return DeliveryPage(
        [doc for doc in docs if doc["status"] == status], page_entries[-1]["sk"] if len(entries) > limit else None
    )


def entries_of(
    partition: str, limit: int, least: str, most: str | None = None, *, forward: bool = False, index: str = "f1"
) -> list[table.Row]:
    """Index entries of a partition between two ids, both inclusive; newest first by default."""
    pages = table.query(partition, index=index, at_least=least, at_most=most, limit=limit, forward=forward)
    return list(itertools.islice(itertools.chain.from_iterable(pages), limit))


def read(entries: Sequence[table.Row]) -> list[DeliveryRow]:
    """The rows of index entries, in their order, without those that were retried or have expired meanwhile."""
    return [row for row in cast("list[DeliveryRow]", table.rows_of(entries)) if deliveries.is_listed(row)]


def count(scope: Scope, endpoint_id: str, most: int, since: clock.Instant = clock.EPOCH) -> int:
    """The number of failed deliveries to an endpoint since an instant, counted up to `most`."""
    partition, least = deliveries.failed_partition(scope, endpoint_id), ids.first_of(DELIVERIES.prefix, since)
    total = 0
    for entries in table.query(partition, index="f1", at_least=least, limit=min(most, _KEYS)):
        total += len(entries)
        if total >= most:
            return most
    return total


def count_retrying(scope: Scope, endpoint: EndpointSnapshot, most: int) -> int:
    """The number of deliveries to an endpoint that wait for a later attempt, counted up to `most`.

    Those that were canceled by disabling the endpoint may still have entries, and do not count.
    """
    partition = deliveries.retrying_partition(scope, endpoint.doc["id"])
    rows = read(entries_of(partition, most, ids.first_of(DELIVERIES.prefix, clock.EPOCH)))
    return sum(phase(row, endpoint) is not Phase.CLOSED for row in rows)


def _partition(scope: Scope, endpoint_id: str, retrying: bool) -> str:
    return (deliveries.retrying_partition if retrying else deliveries.failed_partition)(scope, endpoint_id)
