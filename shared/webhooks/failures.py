"""Failed deliveries that nobody has retried, of one endpoint or several. Test events are not among them.

Each has an entry in a sparse index. A retry of the event to the endpoint removes the entry; if the retry fails, its own
delivery has one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from shared.core import ids
from shared.store import table
from shared.store.keys import Scope
from shared.webhooks import deliveries
from shared.webhooks.deliveries import DELIVERIES, Delivery

_KEYS = 1_000
"""The entries that one request counts."""


@dataclass(frozen=True)
class Page:
    """Deliveries, newest first. `cursor` is the `starting_after` of the next page; None on the last page."""

    deliveries: list[Delivery]
    cursor: str | None


def page(
    scope: Scope, endpoint_ids: Sequence[str], limit: int, since: int = 0, starting_after: str | None = None
) -> Page:
    """The failed deliveries to these endpoints of events and replays since an instant (milliseconds), newest first.

    A `starting_after` that is not the id of a delivery counts as absent. A page may be short, but has a cursor then.
    """
    least = ids.first_of(DELIVERIES.prefix, since)
    well_formed = starting_after is not None and ids.is_id(DELIVERIES.prefix, starting_after)
    most = ids.before(DELIVERIES.prefix, starting_after) if starting_after and well_formed else None
    entries: list[table.Row] = []
    for endpoint_id in endpoint_ids:
        entries += entries_of(scope, endpoint_id, limit + 1, least, most)
    entries.sort(key=lambda entry: str(entry["sk"]), reverse=True)
    found = entries[:limit]
    rows = read(found)
    return Page([json.loads(row["doc"]) for row in rows], found[-1]["sk"] if len(entries) > limit else None)


def entries_of(
    scope: Scope, endpoint_id: str, limit: int, least: str, most: str | None = None, *, forward: bool = False
) -> list[table.Row]:
    """Index entries of an endpoint's failed deliveries between two ids, both inclusive; newest first by default."""
    partition = deliveries.failed_partition(scope, endpoint_id)
    pages = table.query(partition, index="f1", at_least=least, at_most=most, limit=limit, forward=forward)
    found: list[table.Row] = []
    for entries in pages:
        found += entries
        if len(found) >= limit:
            break
    return found[:limit]


def read(entries: Sequence[table.Row]) -> list[table.Row]:
    """The rows of index entries, in their order, without those that were retried or have expired meanwhile."""
    return [row for row in table.rows_of(entries) if "f1" in row]


def count(scope: Scope, endpoint_id: str, most: int, since: int = 0) -> int:
    """The number of failed deliveries to an endpoint since an instant, counted up to `most`."""
    least = ids.first_of(DELIVERIES.prefix, since)
    partition = deliveries.failed_partition(scope, endpoint_id)
    found = 0
    for entries in table.query(partition, index="f1", at_least=least, limit=min(most, _KEYS)):
        found += len(entries)
        if found >= most:
            return most
    return found
