"""Table stream -> events -> deliveries -> queues. Processing a batch twice has no further effect."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord

from shared import customers
from shared.core import clock, table
from shared.webhooks import deliveries, endpoints, events
from shared.work import batches, hints
from shared.work.hints import Hint


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of stream records in order. The response names the record from which Lambda must retry."""
    # Read once for the batch: every endpoint that was created before a change in this batch already exists.
    endpoints_of = functools.cache(endpoints.of_project)
    is_erased = functools.cache(customers.is_erased)
    first: list[Hint] = []
    slow: list[Hint] = []

    def fan_out(record: DynamoDBRecord) -> None:
        images = record.raw_event["dynamodb"]
        old, new = (images.get(name) for name in ("OldImage", "NewImage"))
        change = events.derive(old and table.decode(old), new and table.decode(new))
        if change is None or is_erased(change.scope, change.customer_id):
            return
        receivers = [
            endpoint
            for endpoint in endpoints_of(change.scope)
            if clock.parse(endpoint.doc["created_at"]) <= change.instant
            and events.matches(endpoint.doc["event_filters"], change.type)
        ]
        rows = [deliveries.new_row(change, endpoint) for endpoint in receivers]
        # The condition fails if the record was processed before. Its hints are sent again, because they may be lost.
        with contextlib.suppress(table.ConditionFailed):
            table.write([table.Put(change.row()), *map(table.Put, rows)], change.id)
        for endpoint, row in zip(receivers, rows, strict=True):
            if endpoint.doc["enabled"]:
                lane = slow if endpoint.slow_until > clock.now() else first
                lane.append(deliveries.hint(row))

    response = batches.each_record(event, context, fan_out)
    hints.send("deliveries", first)
    hints.send("slow_deliveries", slow)
    return response
