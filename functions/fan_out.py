"""Table stream -> events -> deliveries -> queues. Processing a batch twice has no further effect."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord

from shared.core import clock, table
from shared.webhooks import deliveries, endpoints, events, lanes
from shared.work import batches, hints
from shared.work.hints import Hint


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of stream records in order. The response names the record from which Lambda must retry."""
    # Read once for the batch: every endpoint that was created before a change in this batch already exists.
    endpoints_of = functools.cache(endpoints.of_project)
    found: dict[str, list[Hint]] = {lanes.FIRST: [], lanes.SLOW: []}

    def fan_out(record: DynamoDBRecord) -> None:
        images = record.raw_event["dynamodb"]
        old, new = (images.get(name) for name in ("OldImage", "NewImage"))
        change = events.derive(old and table.decode(old), new and table.decode(new))
        if change is None:
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
                group = lanes.group(endpoint, change.object_id)
                found[lanes.first(endpoint)].append(deliveries.hint(row, group=group))

    response = batches.each_record(event, context, fan_out)
    for queue, waiting in found.items():
        hints.send(queue, waiting)
    return response
