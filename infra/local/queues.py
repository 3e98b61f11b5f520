"""What Lambda's event source mappings do for queues: receive, call, delete what succeeded.

A message of a standard queue may carry a group. At most `PER_GROUP` messages of one group are in work at a
time, so that an endpoint that hangs does not take all workers; the others wait here, kept invisible to the
queue, without counting as received again.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.local import lambdas
from infra.local.console import warn
from infra.local.lambdas import Lambdas
from infra.local.proxy import Event
from infra.local.resources import QueueAddress
from infra.topology import Function, Queue, QueueSource

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

WORKERS = 10
PER_GROUP = 4
MAX_WAITING = 1000
_LONG_POLL = 20
_PAUSE_AFTER_ERROR = 1.0

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Batch:
    """Messages for one call. `invisible_until` is when the queue hands them out again, by the monotonic clock."""

    messages: Sequence[MessageTypeDef]
    invisible_until: float

    @property
    def groups(self) -> set[str]:
        """The message groups in it."""
        return {message.get("Attributes", {}).get("MessageGroupId", "") for message in self.messages} - {""}


@dataclass
class Line:
    """Batches in the order they came, of which those may start that their groups and the workers have room for."""

    workers: int
    per_group: int
    waiting: list[Batch] = field(default_factory=list)
    _working: int = 0
    _groups: Counter[str] = field(default_factory=Counter)

    @property
    def idle(self) -> int:
        """Workers without work."""
        return self.workers - self._working

    def next(self) -> Batch | None:
        """Take the first batch that may start."""
        if self.idle <= 0:
            return None
        for batch in self.waiting:
            if all(self._groups[group] < self.per_group for group in batch.groups):
                self.waiting.remove(batch)
                self._working += 1
                self._groups.update(batch.groups)
                return batch
        return None

    def done(self, batch: Batch) -> None:
        """A batch's call has ended."""
        self._working -= 1
        self._groups.subtract(batch.groups)
        self._groups += Counter()


class Poller:
    """Feeds the messages of one queue to a function until `stop` is set."""

    def __init__(
        self,
        function: Function,
        source: QueueSource,
        queue: Queue,
        address: QueueAddress,
        sqs: SQSClient,
        functions: Lambdas,
        stop: threading.Event,
    ) -> None:
        self._function, self._source, self._queue, self._address = function, source, queue, address
        self._sqs, self._functions, self._stop = sqs, functions, stop
        # In a FIFO queue SQS itself lets one receive of a group be in work at a time.
        self._line = Line(min(source.concurrency, WORKERS), per_group=PER_GROUP)
        self._changed = threading.Condition()
        self._threads = lambdas.threads(f"{queue.name}-", self._line.workers)
        self._thread = threading.Thread(target=self._run, name=f"{queue.name}-poller", daemon=True)

    def start(self) -> None:
        """Begin in a thread of its own."""
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._step()
            except (BotoCoreError, ClientError):
                if not self._stop.is_set():
                    log.exception("receiving from %s failed", self._queue.name)
                    self._stop.wait(_PAUSE_AFTER_ERROR)

    def _step(self) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._line.idle > 0 and len(self._line.waiting) < MAX_WAITING, timeout=_LONG_POLL
            )
            room = self._line.idle if len(self._line.waiting) < MAX_WAITING else 0
        self._keep_invisible()
        if room <= 0:
            return
        batches = self._receive(room)
        with self._changed:
            self._line.waiting.extend(batches)
        self._begin()

    def _receive(self, room: int) -> list[Batch]:
        size = self._source.batch_size
        # One receive of a FIFO queue is one call, for the group stays locked until all of it is deleted.
        count = size if self._queue.fifo or size > 1 else min(10, room)
        asked = time.monotonic()
        answer = self._sqs.receive_message(
            QueueUrl=self._address.url,
            MaxNumberOfMessages=min(10, count),
            WaitTimeSeconds=_LONG_POLL,
            VisibilityTimeout=self._queue.visibility,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        messages = answer.get("Messages", [])
        return [
            Batch(messages[start : start + size], asked + self._queue.visibility)
            for start in range(0, len(messages), size)
        ]

    def _begin(self) -> None:
        while True:
            with self._changed:
                batch = self._line.next()
            if batch is None:
                return
            # The interpreter takes no more work while it shuts down.
            with contextlib.suppress(RuntimeError):
                self._threads.submit(self._work, batch)

    def _work(self, batch: Batch) -> None:
        try:
            failed = self._call(batch)
            for message in batch.messages:
                if message["MessageId"] not in failed:
                    self._sqs.delete_message(QueueUrl=self._address.url, ReceiptHandle=message["ReceiptHandle"])
        except (BotoCoreError, ClientError):
            # The queue hands them out again; functions take a message twice.
            if not self._stop.is_set():
                log.exception("deleting from %s failed", self._queue.name)
        finally:
            with self._changed:
                self._line.done(batch)
                self._changed.notify_all()
            self._begin()

    def _call(self, batch: Batch) -> set[str]:
        event = {"Records": [sqs_record(message, self._address.arn) for message in batch.messages]}
        try:
            failed = failed_items(self._functions.call(self._function, event))
        except Exception:
            failed = {message["MessageId"] for message in batch.messages}
        if failed and not self._stop.is_set():
            warn(f"{self._function.name} failed on a message of {self._queue.name}: see service.log")
        return failed

    def _keep_invisible(self) -> None:
        now = time.monotonic()
        with self._changed:
            late = [batch for batch in self._line.waiting if batch.invisible_until - now < self._queue.visibility / 2]
        for batch in late:
            for message in batch.messages:
                self._sqs.change_message_visibility(
                    QueueUrl=self._address.url,
                    ReceiptHandle=message["ReceiptHandle"],
                    VisibilityTimeout=self._queue.visibility,
                )
            batch.invisible_until = now + self._queue.visibility


def sqs_record(message: MessageTypeDef, arn: str) -> Event:
    """A message as Lambda's event has it."""
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message.get("Attributes", {})),
        "messageAttributes": {
            name: {
                "stringValue": value.get("StringValue"),
                "stringListValues": [],
                "binaryListValues": [],
                "dataType": value["DataType"],
            }
            for name, value in message.get("MessageAttributes", {}).items()
        },
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": arn.split(":")[3],
    }


def failed_items(result: Any) -> set[str]:
    """The identifiers in a partial batch response; no response means that all went well."""
    failures = result.get("batchItemFailures") if isinstance(result, dict) else None
    return {failure["itemIdentifier"] for failure in failures or []}
