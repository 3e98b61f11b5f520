"""Batches of queue messages and stream records. Items are independent; the failed ones are reported to Lambda."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

from shared.core import trace
from shared.core.log import logger


def each_message(event: dict[str, Any], context: Any, work: Callable[[Any], None]) -> Any:
    """Run `work` on each SQS message (an SQSRecord). The response names the messages that SQS delivers again."""
    return _each(BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False), event, context, work)


def each_record(event: dict[str, Any], context: Any, work: Callable[[Any], None]) -> Any:
    """Run `work` on each stream record (a DynamoDBRecord), in order. The response names the record to resume from."""
    processor = BatchProcessor(event_type=EventType.DynamoDBStreams, raise_on_entire_batch_failure=False)
    return _each(processor, event, context, work)


def _each(processor: BatchProcessor, event: dict[str, Any], context: Any, work: Callable[[Any], None]) -> Any:
    def work_and_log(record: Any) -> None:
        with trace.naming(**_ids(record)):
            try:
                work(record)
            except Exception:
                # The processor does not log the exception.
                logger().exception("item failed")
                raise

    return process_partial_response(event, work_and_log, processor, context)


def _ids(record: Any) -> dict[str, str]:
    """The ids of a record that lines name until they name the request that caused it."""
    raw = record.raw_event
    return {"sqs_message_id": raw["messageId"]} if "messageId" in raw else {"stream_event_id": raw["eventID"]}
