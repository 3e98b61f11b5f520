"""DynamoDB and SQS answered from memory, below our AWS clients, each call taking the time that a test states.

Each concurrent task (`shared/core/threads.py`) has its own time, which begins when the task does and which only its own
calls move. That is exact for tasks that do not wait for one another. What a call costs in CPU time is not part of it.
"""

from __future__ import annotations

import io
import json
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

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders

from infra import topology
from shared.core import aws, clock

START = 1_800_000_000.0
"""When the time begins, in Unix seconds."""


class Throttled(Exception):
    """AWS throttles this call and its repetitions."""


Answers = Callable[[str, Any], Mapping[str, Any]]
"""From an operation and its parameters to what AWS answers. Raises Throttled."""


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
class VirtualAws:
    """`calls` counts the calls of all tasks by operation; `ended` is how long the longest task took."""

    answers: Answers
    latency: float
    time: TaskTime = field(default_factory=TaskTime)
    calls: Counter[str] = field(default_factory=Counter)
    ended: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def _call(self, request: AWSPreparedRequest, event_name: str, **others: Any) -> AWSResponse:
        operation = event_name.rpartition(".")[2]
        self.time.forward(self.latency)
        with self._lock:
            self.calls[operation] += 1
            self.ended = max(self.ended, self.time.elapsed)
        sent: Any = request.body
        try:
            return _response(request, 200, self.answers(operation, json.loads(sent)))
        except Throttled:
            return _response(request, 400, {"__type": "x#ThrottlingException", "message": "Rate exceeded"})


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
        "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
        "LOG_LEVEL": "CRITICAL",
    }
    for function in topology.FUNCTIONS:
        queues = {
            queue.name: f"https://sqs.us-east-1.amazonaws.com/1/{queue.name}{'.fifo' if queue.fifo else ''}"
            for queue in topology.QUEUES
        }
        machines = {machine.name: machine.name for machine in topology.STATE_MACHINES}
        environment |= function.environment(
            table="table", queues=queues, machines=machines, signing_key="key", recordings="recordings"
        )
    clients = (aws.dynamodb, aws.sqs)
    with mock.patch.dict(os.environ, environment):
        for client in clients:
            client.cache_clear()
            meta: Any = client().meta
            service = meta.service_model.service_id.hyphenize()
            meta.events.register_first(f"before-send.{service}", made._call)
            meta.events.register_first(f"needs-retry.{service}", _again)
        clock.use(made.time.now, made.time.forward)
        try:
            yield made
        finally:
            clock.use(time.time, time.sleep)
            for client in clients:
                client.cache_clear()


def _again(response: Any, attempts: int, **others: Any) -> float | None:
    """A failed call is repeated without botocore's own pauses, which are real time."""
    return 0 if response and "Error" in response[1] and attempts < 4 else None


def _response(request: AWSPreparedRequest, status: int, body: Mapping[str, Any]) -> AWSResponse:
    headers = HTTPHeaders.from_dict({"Content-Type": "application/x-amz-json-1.0"})
    return AWSResponse(request.url, status, headers, _Raw(json.dumps(body).encode()))


class _Raw(io.BytesIO):
    def stream(self, **options: Any) -> Iterator[bytes]:
        yield self.read()
