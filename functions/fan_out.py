"""Table stream -> events -> deliveries -> queues; opt-outs -> ledger. A batch that is processed again only wakes again.

A committed change becomes an event, with a delivery for each endpoint that receives it. Lambda retries a change for
hours if AWS is in trouble. A change that fails for itself is put aside at once, in the bucket of failed batches:
`infra.manage redrive-stream` sends it again.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from cachetools import cached

from shared.aws import objects
from shared.core import clock, metrics, settings, threads, trace
from shared.core.call_statuses import ENDED, EndedReason
from shared.core.log import logger
from shared.customers import opted_out_phones
from shared.customers import resource as customers
from shared.erasure import ledger
from shared.store import table
from shared.store.keys import scope_of
from shared.tasks import batches, wake_ups
from shared.tasks.wake_ups import WakeUp
from shared.webhooks import events, queues
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.endpoints import resource as endpoints
from shared.webhooks.endpoints.resource import EndpointSnapshot
from shared.webhooks.events import NewEvent

_DELIVERIES_AT_ONCE = 4
"""The deliveries of one event that are written concurrently. Events of a batch are processed concurrently, too."""
_CALL_ENDS = frozenset(f"session.{status}" for status in ENDED)
"""The types of the events of a call's end. Every call has one such event, whatever ended it (promises 7)."""
_FAILURES = frozenset({EndedReason.PROVIDER_ERROR, EndedReason.PROVIDER_TIMEOUT})
"""The reasons of a call's end that the carrier or this service causes."""


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of stream records. The response names the record from which Lambda must retry."""
    # A change that is redriven is in the bucket already.
    processed = batches.each_record(event, _Batch().process, None if event.get("redriven") else _put_aside)
    # Together, so that the wake-ups for each endpoint have the order of the batch.
    wake_ups.send(list(itertools.chain.from_iterable(processed.in_order)))
    return processed.response


class _Batch:
    """A batch of changes, which several threads process."""

    def __init__(self) -> None:
        # Read once for the batch: every endpoint that was created before a change in this batch already exists.
        self._endpoints_of = cached({}, condition=threading.Condition())(endpoints.of_project)
        self._is_erased = cached({}, condition=threading.Condition())(customers.is_erased)

    def process(self, record: batches.StreamRecord) -> Sequence[WakeUp]:
        """Write what follows from a change. Returns the wake-ups to send."""
        images = record["dynamodb"]
        old, new = (table.decode(images[name]) if name in images else None for name in ("OldImage", "NewImage"))
        row = new or old
        if row is None or row["kind"] != opted_out_phones.KIND:
            return self._write_event(old, new)
        ledger.enter(
            ledger.OptOut(scope_of(row["pk"]), opted_out_phones.phone_hash(row), opted_out=new is not None), images
        )
        return ()

    def _write_event(self, old: table.Row | None, new: table.Row | None) -> Sequence[WakeUp]:
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
        if _put_once(event.row()):
            extra = {"type": event.type, "object_id": event.object_id, "deliveries": len(rows)}
            logger().info("event", extra=extra)
            if event.type in _CALL_ENDS:
                _measure_call(json.loads(new["doc"]))
        threads.run_all(_put_once, rows, _DELIVERIES_AT_ONCE)
        return [
            deliveries.wake_up(row, to=queues.first(endpoint, event.object_id))
            for endpoint, row in zip(matching, rows, strict=True)
            if endpoint.doc["enabled"]
        ]


def _receives(endpoint: EndpointSnapshot, event: NewEvent) -> bool:
    """Whether the endpoint existed before the change and wants events of this type."""
    existed = clock.parse(endpoint.doc["created_at"]) <= event.instant
    return existed and events.matches(endpoint.doc["event_filters"], event.type)


def _put_once(row: Mapping[str, object]) -> bool:
    """Write the row unless it exists. Returns whether this call wrote it, also if a response was lost."""
    try:
        table.write([table.Put(dict(row))])
    except table.ConditionFailed:
        return False
    return True


def _measure_call(session: Mapping[str, Any]) -> None:
    """Record whether a live call that has ended failed. Test keys choose the outcome of a call themselves."""
    if session["livemode"]:
        metrics.rate(metrics.FAILED_CALLS, session["ended_reason"] in _FAILURES, service=metrics.CALLS)


def _put_aside(record: batches.StreamRecord) -> None:
    """Store a change in the bucket of failed batches, as Lambda's on-failure destination does. Raises Unavailable."""
    batch = {"payload": json.dumps({"Records": [record]})}
    objects.write(settings.failed_batches_bucket(), f"put_aside/{record['eventID']}.json", json.dumps(batch))
    metrics.count(metrics.PUT_ASIDE)
