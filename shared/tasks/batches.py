"""Batches of queue messages and stream records. What failed is reported to Lambda, which sends it again."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from shared.aws import services
from shared.aws.error_codes import ErrorCode
from shared.core import clock, settings, threads, trace
from shared.core.log import logger
from shared.store import table

RECORDS_AT_ONCE = 10
"""The stream records of a batch that are processed concurrently."""
IN_ORDER_FOR_MS = clock.SECOND
"""How long after it was sent a message waits for the previous messages of its FIFO group."""
LONGEST_BACKOFF_S = 60
"""The longest time, in seconds, until a failed message is received again."""
DELETE_EVERY_S = 1.0
"""Seconds after which a batch that still runs deletes its finished messages, and then again and again."""

_threads = ThreadPoolExecutor(1_000, "message")
"""One for each message that is processed at the same time. They are kept, because a new thread for each message takes
as much CPU time as a call of AWS."""

T = TypeVar("T")
StreamRecord = Mapping[str, Any]
"""A stream record, as Lambda passes it on."""


@dataclass(frozen=True)
class QueueMessage:
    """A queue message, as Lambda passes it on. `queue` is the queue's name in `infra/topology.py`, if it has one.

    `sent_at` is in milliseconds, and `receives` says how often the message was received, this time included. Only a
    message of a FIFO queue has a `fifo_group`.
    """

    id: str
    body: str
    queue: str | None
    receipt: str
    sent_at: clock.Instant
    receives: int
    fifo_group: str | None

    @classmethod
    def of(cls, record: Mapping[str, Any], queue: str | None) -> QueueMessage:
        """The message of a record of Lambda's event."""
        attributes = record["attributes"]
        return cls(
            id=record["messageId"],
            body=record["body"],
            queue=queue,
            receipt=record["receiptHandle"],
            sent_at=clock.Instant(attributes["SentTimestamp"]),
            receives=int(attributes["ApproximateReceiveCount"]),
            fifo_group=attributes.get("MessageGroupId") if record["eventSourceARN"].endswith(".fifo") else None,
        )

    @property
    def task(self) -> tuple[str, str]:
        """The key of the task that a wake-up names."""
        wake_up = json.loads(self.body)
        return wake_up["pk"], wake_up["sk"]


Work = Callable[[QueueMessage], None]


def each_message(event: Mapping[str, Any], work: Work) -> dict[str, Any]:
    """Run `work` on each SQS message, concurrently. The response names the messages that SQS delivers again.

    The messages of a FIFO group run one after another, but none waits longer than until `IN_ORDER_FOR_MS` after it was
    sent. A failed message is delivered again after 2, 4, 8 … seconds instead of the visibility timeout of its queue.
    """
    # All messages of a batch are from one queue.
    queue = settings.queue_of(event["Records"][0]["eventSourceARN"])
    messages = [QueueMessage.of(record, queue) for record in event["Records"]]
    if len(messages) > 1:
        failed = _run_concurrently(work, messages)
    else:
        failed = [message for message in messages if not _process(work, message)]
        _deliver_soon(failed)
    return {"batchItemFailures": [{"itemIdentifier": message.id} for message in failed]}


@dataclass
class Processed(Generic[T]):
    """What became of a batch of stream records: the results by position, and the positions that failed."""

    records: list[StreamRecord]
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


def each_record(
    event: Mapping[str, Any], work: Callable[[StreamRecord], T], put_aside: Callable[[StreamRecord], None] | None = None
) -> Processed[T]:
    """Run `work` on stream records: on those of one resource in order, on those of different resources concurrently.

    A failure that may pass is left to Lambda's retry, with later records of the same resource, so that they stay in
    order; records of other resources are processed. A record that fails for itself is put aside, because Lambda would
    retry it for hours, and would hold back later records of its shard. `work` may see a record again.
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
                except Exception as error:  # noqa: BLE001  # Lambda retries it
                    logger().exception("message or record failed")
                    if put_aside is None or _may_pass(error) or not _succeeds(put_aside, record):
                        found.failed.append(position)
                        return

    threads.run_all(work_in_order, list(resources.values()), RECORDS_AT_ONCE)
    return found


def in_order_for_s(sent_at: clock.Instant) -> float:
    """Seconds for which a message waits for the previous one of its FIFO group. `sent_at` is in milliseconds."""
    return max(0, sent_at + IN_ORDER_FOR_MS - clock.now()) / clock.SECOND


def _run_concurrently(work: Work, messages: Sequence[QueueMessage]) -> list[QueueMessage]:
    """Run `work` on each message in a thread. Returns the messages on which it failed."""
    failed: list[QueueMessage] = []
    running: dict[Future[bool], QueueMessage] = {}
    latest: dict[str, Future[bool]] = {}
    for message in messages:
        group = message.fifo_group
        # A thread has its own context, with the log fields of this one.
        run = copy_context().run
        future = _threads.submit(run, _process, work, message, latest.get(group) if group else None)
        running[future] = message
        if group:
            latest[group] = future
    while running:
        ended, _ = wait(running, DELETE_EVERY_S)
        results = [(running.pop(future), future.result()) for future in ended]
        failures = [message for message, succeeded in results if not succeeded]
        _deliver_soon(failures)
        failed += failures
        if running:
            _release_groups([message for message, succeeded in results if succeeded])
    return failed


def _process(work: Work, message: QueueMessage, previous: Future[bool] | None = None) -> bool:
    """Run `work` on the message, after the previous message of its group. Whether it succeeded."""
    if previous is not None:
        wait([previous], in_order_for_s(message.sent_at))
    with trace.naming(sqs_message_id=message.id):
        return _succeeds(work, message)


def _succeeds(work: Callable[[Any], None], item: QueueMessage | StreamRecord) -> bool:
    try:
        work(item)
    except Exception:  # noqa: BLE001  # Lambda retries it
        logger().exception("message or record failed")
        return False
    return True


def _may_pass(error: Exception) -> bool:
    """Whether the cause of a failure is AWS, not the record: AWS does not respond, throttles, or lacks a permission."""
    if isinstance(error, services.AwsError):
        return error.code != ErrorCode.VALIDATION
    return isinstance(error, services.Unavailable | table.Contended)


def _deliver_soon(messages: Sequence[QueueMessage]) -> None:
    """Make failed messages visible again soon. In a FIFO queue, they hold back their group until then. Best effort."""
    entries = [
        {
            "Id": str(number),
            "ReceiptHandle": message.receipt,
            "VisibilityTimeout": min(2**message.receives, LONGEST_BACKOFF_S),
        }
        for number, message in enumerate(messages)
    ]
    if entries:
        _call_sqs("ChangeMessageVisibilityBatch", messages[0], entries)


def _release_groups(messages: Sequence[QueueMessage]) -> None:
    """Delete processed messages of a FIFO queue before the end of the batch. Best effort.

    Lambda deletes them only when the whole batch ends, and until then SQS holds back the next messages of their groups.
    """
    entries = [
        {"Id": str(number), "ReceiptHandle": message.receipt}
        for number, message in enumerate(messages)
        if message.fifo_group
    ]
    if entries:
        _call_sqs("DeleteMessageBatch", messages[0], entries)


def _call_sqs(operation: str, message: QueueMessage, entries: Sequence[Mapping[str, Any]]) -> None:
    """Call a batch operation of SQS on the queue of the message. A failure is logged."""
    problem = "unknown queue"
    if message.queue is not None:
        problem = services.call_sqs_batch(operation, settings.queue_url(message.queue), entries)
    if problem:
        extra = {"queue": message.queue, "error": problem}
        logger().warning("could not delete or re-time messages", extra=extra)
