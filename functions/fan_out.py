"""Table stream -> events -> deliveries -> queues. Running a batch twice changes nothing."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord

from shared.core import clock, table
from shared.webhooks import deliveries, endpoints, events
from shared.work import batches, hints
from shared.work.hints import Hint


def handler(event: dict[str, Any], context: Any) -> Any:
    """A batch of stream records, in order; returns the ones to be given again."""
    # Read once for the batch: whatever endpoint was created before a change of this batch is there by now.
    endpoints_of = functools.cache(endpoints.of_project)
    first: list[Hint] = []
    slow: list[Hint] = []

    def fan_out(record: DynamoDBRecord) -> None:
        images = record.raw_event["dynamodb"]
        old, new = (images.get(name) for name in ("OldImage", "NewImage"))
        happened = events.derive(old and table.decoded(old), new and table.decoded(new))
        if happened is None:
            return
        reached = [
            endpoint
            for endpoint in endpoints_of(happened.scope)
            if clock.parse(endpoint.doc["created_at"]) <= happened.instant
            and events.matches(endpoint.doc["event_filters"], happened.type)
        ]
        rows = [deliveries.row(happened, endpoint) for endpoint in reached]
        # Refused where this batch came before; its hints may have been lost all the same.
        with contextlib.suppress(table.Refused):
            table.write([table.Put(happened.row()), *map(table.Put, rows)], happened.id)
        for endpoint, row in zip(reached, rows, strict=True):
            if endpoint.doc["enabled"]:
                lane = slow if endpoint.slow_until > clock.now() else first
                lane.append(deliveries.hint(happened.scope, happened.id, row["sk"], endpoint.doc["id"]))

    answer = batches.each_record(event, context, fan_out)
    hints.send("deliveries", first)
    hints.send("slow_deliveries", slow)
    return answer
