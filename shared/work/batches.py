"""Batches of queue messages and stream records: each item by itself, the failed ones reported back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

from shared.core.log import logger


def each_message(event: dict[str, Any], context: Any, work: Callable[[Any], None]) -> Any:
    """Do `work` on every SQS message (an SQSRecord); answers which ones are to be given again."""
    return _each(BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False), event, context, work)


def each_record(event: dict[str, Any], context: Any, work: Callable[[Any], None]) -> Any:
    """Do `work` on every stream record (a DynamoDBRecord), in order; answers which ones are to be given again."""
    processor = BatchProcessor(event_type=EventType.DynamoDBStreams, raise_on_entire_batch_failure=False)
    return _each(processor, event, context, work)


def _each(processor: BatchProcessor, event: dict[str, Any], context: Any, work: Callable[[Any], None]) -> Any:
    def logged(record: Any) -> None:
        try:
            work(record)
        except Exception:
            # The processor keeps what went wrong to itself.
            logger().exception("item failed")
            raise

    return process_partial_response(event, logged, processor, context)
