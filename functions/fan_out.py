"""Table stream -> events -> deliveries -> queues; opt-outs -> ledger. Processing a batch twice has no further effect.

Lambda retries a change for hours if AWS is in trouble. A change that fails for itself is put aside at once, in the
bucket of failed batches: `infra.manage redrive-stream` sends it again.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Sequence
from typing import Any

from cachetools import cached

from shared.aws import objects
from shared.calls import measures
from shared.core import clock, metrics, threads, trace
from shared.core.log import logger
from shared.customers import opt_outs
from shared.customers import resource as customers
from shared.erasure import ledger
from shared.store import table
from shared.store.keys import scope_of
from shared.tasks import batches, wake_ups
from shared.tasks.wake_ups import WakeUp
from shared.webhooks import events, queues
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.endpoints import resource as endpoints

_DELIVERIES_AT_ONCE = 4
"""The deliveries of one event that are written concurrently. Events of a batch are processed concurrently, too."""


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of stream records. The response names the record from which Lambda must retry."""
    # Read once for the batch: every endpoint that was created before a change in this batch already exists.
    endpoints_of = cached({}, condition=threading.Condition())(endpoints.of_project)
    is_erased = cached({}, condition=threading.Condition())(customers.is_erased)

    def fan_out(record: batches.Record) -> Sequence[tuple[str, WakeUp]]:
        """Write the event and its deliveries. Returns the wake-ups, each with the queue to which it is sent."""
        images = record["dynamodb"]
        old, new = (table.decode(images[name]) if name in images else None for name in ("OldImage", "NewImage"))
        row = new or old
        if row is not None and row["kind"] == opt_outs.KIND:
            change_of_phone = ledger.OptOut(scope_of(row["pk"]), opt_outs.phone_hash(row), opted_out=new is not None)
            ledger.enter(change_of_phone, images)
            return ()
        change = events.derive(old, new)
        if change is None or new is None:
            return ()
        if change.customer_id is not None and is_erased(change.scope, change.customer_id):
            return ()
        trace.follow(new)
        trace.name(event_id=change.id)
        matching = [
            endpoint
            for endpoint in endpoints_of(change.scope)
            if clock.parse(endpoint.doc["created_at"]) <= change.instant
            and events.matches(endpoint.doc["event_filters"], change.type)
        ]
        rows = [deliveries.new_row(change, endpoint) for endpoint in matching]
        # Not a transaction, because that would double the write units. If this function fails after some of the writes,
        # it runs again and makes the others. Wake-ups are sent again, because they may be lost.
        if _put_once(change.row(), change.id):
            logger().info("event", extra={"type": change.type, "object_id": new["sk"], "deliveries": len(rows)})
            measures.count_event(change.type, new)
        threads.run_all(lambda row: _put_once(row, change.id), rows, _DELIVERIES_AT_ONCE)
        destinations = [queues.first(endpoint, change.object_id) for endpoint in matching]
        return [
            (destination.queue, deliveries.wake_up(row, destination=destination))
            for endpoint, row, destination in zip(matching, rows, destinations, strict=True)
            if endpoint.doc["enabled"]
        ]

    # A change that is redriven is in the bucket already.
    processed = batches.each_record(event, fan_out, None if event.get("redriven") else _put_aside)
    # Sent at the end, so that the wake-ups for each endpoint have the order of the batch.
    found = list(itertools.chain.from_iterable(processed.in_order))
    for queue in (queues.FIRST, queues.SLOW, queues.HANGING):
        wake_ups.send(queue, [wake_up for name, wake_up in found if name == queue])
    return processed.response


def _put_aside(record: batches.Record) -> None:
    """Store a change in the bucket of failed batches, as Lambda's on-failure destination does. Raises Unavailable."""
    batch = {"payload": json.dumps({"Records": [record]})}
    objects.write(os.environ["FAILED_BATCHES_BUCKET"], f"put_aside/{record['eventID']}.json", json.dumps(batch))
    metrics.count(metrics.PUT_ASIDE)


def _put_once(row: table.Row, request: str) -> bool:
    """Write the row unless it exists. Returns whether it was written."""
    try:
        table.write([table.Put(row)], request)
    except table.ConditionFailed:
        return False
    return True
