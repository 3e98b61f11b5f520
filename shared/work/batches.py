"""Batches of queue messages and stream records. What failed is reported to Lambda, which sends it again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

from shared.core import threads, trace
from shared.core.log import logger

RECORDS_AT_ONCE = 10
"""The stream records of a batch that are processed concurrently."""

T = TypeVar("T")
Record = Mapping[str, Any]
"""A stream record, as Lambda passes it on."""


def each_message(event: dict[str, Any], context: Any, work: Callable[[Any], None]) -> Any:
    """Run `work` on each SQS message (an SQSRecord). The response names the messages that SQS delivers again."""
    return _each(BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False), event, context, work)


@dataclass
class Processed(Generic[T]):
    """What became of a batch of stream records: the results by position, and the positions that failed."""

    records: list[Record]
    results: dict[int, T] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)

    @property
    def in_order(self) -> list[T]:
        """The results in the order of the batch."""
        return [self.results[position] for position in sorted(self.results)]

    @property
    def response(self) -> Any:
        """The response to Lambda, which names the earliest record that failed.

        Lambda passes on again that record and all later ones (Lambda developer guide, "Configuring partial batch
        response with DynamoDB and Lambda").
        """
        first = [self.records[min(self.failed)]] if self.failed else []
        return {"batchItemFailures": [{"itemIdentifier": one["dynamodb"]["SequenceNumber"]} for one in first]}


def each_record(event: Mapping[str, Any], work: Callable[[Record], T]) -> Processed[T]:
    """Run `work` on stream records: on those of one resource in order, on those of different resources concurrently.

    After a failure, later records of the same resource are left to the retry, so that they stay in order. All others
    are processed, so that a record that always fails delays no other resource. `work` may see a record again.
    """
    found: Processed[T] = Processed(list(event["Records"]))
    resources = defaultdict(list)
    for position, record in enumerate(found.records):
        # The sort key is the resource's id, also of the row that a deleted resource has.
        resources[str(record["dynamodb"]["Keys"].get("sk"))].append(position)

    def work_in_order(positions: list[int]) -> None:
        for position in positions:
            record = found.records[position]
            with trace.naming(stream_event_id=record["eventID"]):
                try:
                    found.results[position] = work(record)
                except Exception:
                    logger().exception("item failed")
                    found.failed.append(position)
                    return

    threads.run_all(work_in_order, list(resources.values()), RECORDS_AT_ONCE)
    return found


def _each(processor: BatchProcessor, event: dict[str, Any], context: Any, work: Callable[[Any], None]) -> Any:
    def work_and_log(record: Any) -> None:
        with trace.naming(sqs_message_id=record.message_id):
            try:
                work(record)
            except Exception:
                # The processor does not log the exception.
                logger().exception("item failed")
                raise

    return process_partial_response(event, work_and_log, processor, context)
