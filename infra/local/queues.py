"""Lambda's event source mappings for queues: receives messages, calls the function, deletes the successful ones.

A message is received only when a worker is free. If the function fails on it, the message stays invisible until its
visibility timeout expires or the time that the function has set, and is then received again.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Sequence
from typing import Any

from infra.local import lambdas, names
from infra.local.console import warn
from infra.local.lambdas import Lambdas
from infra.local.proxy import Event
from infra.local.sqs import Queue, Received, SqsError
from infra.topology import Function, QueueSource

log = logging.getLogger(__name__)


class Poller:
    """Calls a function with the messages of one queue until `stop` is set and the queues' engine is closed."""

    def __init__(
        self, function: Function, source: QueueSource, queue: Queue, functions: Lambdas, stop: threading.Event
    ) -> None:
        self._function, self._source, self._queue = function, source, queue
        self._functions, self._stop = functions, stop
        self._free = threading.Semaphore(source.concurrency)
        self._threads = lambdas.threads(f"{source.queue}-", source.concurrency)
        self._thread = threading.Thread(target=self._run, name=f"{source.queue}-poller", daemon=True)

    def start(self) -> None:
        """Start in a new thread."""
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._free.acquire()
            messages = self._queue.receive(self._source.batch_size, wait=math.inf)
            # While the interpreter shuts down, threads accept no more work.
            with contextlib.suppress(RuntimeError):
                self._threads.submit(self._work, messages)

    def _work(self, messages: Sequence[Received]) -> None:
        try:
            failed = self._call(messages) if messages else set()
            for message in messages:
                if message["MessageId"] not in failed:
                    self._delete(message)
        finally:
            self._free.release()

    def _delete(self, message: Received) -> None:
        try:
            self._queue.delete(message["ReceiptHandle"])
        except SqsError:
            # Processing took longer than the visibility timeout. The message comes again, which functions allow for.
            log.exception("deleting from %s failed", self._source.queue)

    def _call(self, messages: Sequence[Received]) -> set[str]:
        """Call the function. Returns the ids of the messages on which it failed."""
        event = {"Records": [sqs_record(message, self._queue.arn) for message in messages]}
        ids = {message["MessageId"] for message in messages}
        try:
            failed = failed_items(self._functions.call(self._function, event))
        except Exception:  # noqa: BLE001  # `Lambdas.call` has logged it
            failed = ids
        if failed and not self._stop.is_set():
            warn(f"{self._function.name} failed on a message of {self._source.queue}: see service.log")
        # If the response names unknown messages, Lambda treats all messages as failed.
        return failed if failed <= ids else ids


def sqs_record(message: Received, arn: str) -> Event:
    """A message in the format of Lambda's events."""
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message.get("Attributes", {})),
        "messageAttributes": {name: _attribute(value) for name, value in message.get("MessageAttributes", {}).items()},
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": names.REGION,
    }


def failed_items(result: Any) -> set[str]:
    """The identifiers in a partial batch response. No response means that all items succeeded."""
    failures = result.get("batchItemFailures") if isinstance(result, dict) else None
    return {failure["itemIdentifier"] for failure in failures or []}


def _attribute(value: Received) -> Event:
    kind = "binaryValue" if "BinaryValue" in value else "stringValue"
    content = value[kind[0].upper() + kind[1:]]
    return {kind: content, "stringListValues": [], "binaryListValues": [], "dataType": value["DataType"]}
