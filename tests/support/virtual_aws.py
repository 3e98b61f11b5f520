"""DynamoDB and SQS answered from memory, below our AWS clients, each call taking the time that a test states.

Each concurrent task (`shared/core/threads.py`) has its own time, which begins when the task does and which only its own
calls move. That is exact for tasks that do not wait for one another. What a call costs in CPU time is not part of it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from infra import topology
from shared.aws import client as aws_client
from shared.aws import services
from shared.aws.connections import HttpResponse
from shared.core import clock
from tests.support.wire import answer

START = 1_800_000_000.0
"""When the time begins, in Unix seconds."""


class Throttled(Exception):
    """AWS throttles this call and its repetitions."""


class RowExists(Exception):
    """A row is not written, because there is this item."""

    def __init__(self, item: Any) -> None:
        super().__init__()
        self.item = item


Answers = Callable[[str, Any], Mapping[str, Any]]
"""From an operation and its parameters to what AWS answers. Raises Throttled or RowExists."""


class TaskTime:
    """The time of the task that asks: `elapsed` seconds after `START`. A thread of a pool may run several tasks."""

    def __init__(self) -> None:
        self._elapsed: ContextVar[float] = ContextVar("elapsed", default=0.0)

    @property
    def elapsed(self) -> float:
        return self._elapsed.get()

    def now(self) -> float:
        return START + self.elapsed

    def forward(self, seconds: float) -> None:
        self._elapsed.set(self.elapsed + seconds)


@dataclass
class VirtualAws(aws_client.Hook):
    """`calls` counts the calls of all tasks by operation; `ended` is how long the longest task took."""

    answers: Answers
    latency: float
    time: TaskTime = field(default_factory=TaskTime)
    calls: Counter[str] = field(default_factory=Counter)
    ended: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def attempt(self, call: aws_client.AwsCall, proceed: Callable[[], HttpResponse]) -> HttpResponse:
        """Answer from memory."""
        self.time.forward(self.latency)
        with self._lock:
            self.calls[call.operation] += 1
            self.ended = max(self.ended, self.time.elapsed)
        try:
            return answer(200, self.answers(call.operation, call.parameters))
        except Throttled:
            return answer(400, {"__type": "x#ThrottlingException", "message": "Rate exceeded"})
        except RowExists as failed:
            return answer(400, {"__type": "x#ConditionalCheckFailedException", "Item": failed.item})

    def pause(self, call: aws_client.AwsCall, proceed: Callable[[], None]) -> None:
        """Do not wait: the pauses are random."""


class Invocation:
    """The context of a function that has `seconds` from the start of the time."""

    def __init__(self, aws: VirtualAws, seconds: float) -> None:
        self._aws, self._seconds = aws, seconds

    def get_remaining_time_in_millis(self) -> int:
        return int((self._seconds - self._aws.time.elapsed) * 1000)


@contextmanager
def virtual_aws(answers: Answers, latency: float) -> Iterator[VirtualAws]:
    """The functions' AWS, with the topology's queues and the local number of shards, from here on."""
    made = VirtualAws(answers, latency)
    environment = {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
        "LOG_LEVEL": "CRITICAL",
    }
    deployment = topology.Deployment(
        table="table",
        queues={
            queue.name: f"https://sqs.us-east-1.amazonaws.com/1/{queue.name}{'.fifo' if queue.fifo else ''}"
            for queue in topology.QUEUES
        },
        machines={machine.name: machine.name for machine in topology.STATE_MACHINES},
        signing_key="key",
        recordings="recordings",
        failed_batches="failed",
        erasures="erasures",
    )
    for function in topology.FUNCTIONS:
        environment |= function.environment(deployment)
    clients = (services.dynamodb, services.sqs)
    with mock.patch.dict(os.environ, environment):
        for client in clients:
            client.cache_clear()
        clock.use(made.time.now, made.time.forward)
        try:
            with aws_client.hooked(made):
                yield made
        finally:
            clock.use(time.time, time.sleep)
            for client in clients:
                client.cache_clear()
