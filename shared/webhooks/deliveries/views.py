"""Deliveries as clients see them."""

from __future__ import annotations

import json
import uuid

from shared.core import clock
from shared.resources import fields
from shared.store import commit, table
from shared.store.keys import Scope
from shared.tasks import tasks
from shared.webhooks.deliveries import resource
from shared.webhooks.deliveries.resource import Delivery
from shared.webhooks.deliveries.rules import Phase, phase
from shared.webhooks.endpoints import resource as endpoints
from shared.webhooks.endpoints.resource import Snapshot

OVERDUE_MS = 2 * clock.SECOND
"""How long after its time (milliseconds) an attempt is usually made at the latest: a state machine waits up to a second
longer."""


def views(scope: Scope, rows: list[table.Row]) -> list[Delivery]:
    """The deliveries as clients see them. First cancels, in the table, those that wait for a closed endpoint."""
    endpoint_ids = [row["endpoint"] for row in rows if "due_at" in row]
    known = endpoints.read(scope, endpoint_ids) if endpoint_ids else {}
    return [view(row, known.get(row["endpoint"])) for row in rows]


def view(row: table.Row, endpoint: Snapshot | None) -> Delivery:
    """The delivery as clients see it. Raises ConditionFailed or Contended if the row is modified concurrently.

    A delivery is canceled in the table before clients see it as canceled. Otherwise a worker could claim it afterwards,
    and its status would go back to `attempting`.
    """
    if phase(row, endpoint) is not Phase.CLOSED:
        return _as_planned(row)

    def cancel_unless_claimed(latest: table.Row) -> Delivery:
        if phase(latest, endpoint) is not Phase.CLOSED:
            return _as_planned(latest)
        doc = resource.close(latest, endpoint)
        changes = {**tasks.NO_WORK, "doc": fields.to_json(doc), "f1": None}
        table.write([tasks.if_waiting(latest, changes)], uuid.uuid4().hex)
        return doc

    return commit.retry_with_latest([row], lambda: table.get(row["pk"], row["sk"]) or row, cancel_unless_claimed)


def _as_planned(row: table.Row) -> Delivery:
    """The delivery with the time of its next attempt as planned now.

    An attempt that is under way or overdue has the present time.
    """
    doc: Delivery = json.loads(row["doc"])
    if "due_at" not in row:
        return doc
    now = clock.now()
    planned_at = row["due_at"] if "lease" in row else resource.planned_at(row)
    return {**doc, "next_attempt_at": clock.iso(now if planned_at < now - OVERDUE_MS else planned_at)}
