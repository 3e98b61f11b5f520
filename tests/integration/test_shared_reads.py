"""Attempts of one batch share the requests that read their events and endpoints."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from shared.aws import client as aws_client
from shared.aws.services import Unavailable
from shared.store import table
from shared.store.keys import Scope
from tests.support import rows
from tests.support.clocks import Clock
from tests.support.deliveries import fan_out_customers
from tests.support.receivers import Receiver, answer
from tests.support.resources import list_resources
from tests.support.stage import Stage, sqs_record
from tests.support.wire import ALWAYS, Fault, throttle, wire

Key = tuple[str, str]


class Gate(aws_client.Hook):
    """Holds up the first read until it is opened, and counts the reads."""

    def __init__(self) -> None:
        self.begun, self.opened = threading.Event(), threading.Event()
        self.requested: list[int] = []

    def call(self, call: aws_client.AwsCall, proceed: Callable[[aws_client.AwsCall], Any]) -> Any:
        """Make the call, the first one when the gate is open."""
        assert call.operation == "BatchGetItem"
        (request,) = call.parameters["RequestItems"].values()
        self.requested.append(len(request["Keys"]))
        self.begun.set()
        assert self.opened.wait(10)
        return proceed(call)


def store_customers(stage: Stage, count: int) -> list[Key]:
    scope = Scope(stage.project().id, False)
    written = [rows.customer(scope) for _ in range(count)]
    rows.write(written)
    return [(row["pk"], row["sk"]) for row in written]


def begin(pool: ThreadPoolExecutor, reads: table.SharedReads, keys: Iterable[Key]) -> Future[table.Rows]:
    return pool.submit(contextvars.copy_context().run, reads.get_many, keys)


def test_reads_that_are_asked_for_during_another_share_the_next_request(stage: Stage) -> None:
    first, common, absent, *others = store_customers(stage, 12)
    absent = (absent[0], absent[1] + "0")
    reads, gate, joined = table.SharedReads(seconds=30), Gate(), threading.Semaphore(0)

    def joining(*keys: Key) -> Iterator[Key]:
        yield from keys
        joined.release()

    with aws_client.hooked(gate), ThreadPoolExecutor(12) as pool:
        alone = begin(pool, reads, [first])
        assert gate.begun.wait(10)
        together = [begin(pool, reads, joining(common, absent, key)) for key in others]
        for _ in together:
            assert joined.acquire(timeout=10)
        gate.opened.set()
        assert set(alone.result()) == {first}
        for key, read in zip(others, together, strict=True):
            assert {key: row["sk"] for key, row in read.result().items()} == {common: common[1], key: key[1]}
    assert gate.requested == [1, len(others) + 2]


def test_a_read_does_not_wait_long_for_a_slow_one(stage: Stage) -> None:
    first, second = store_customers(stage, 2)
    reads, gate = table.SharedReads(), Gate()
    with aws_client.hooked(gate), ThreadPoolExecutor(2) as pool:
        begin(pool, reads, [first])
        assert gate.begun.wait(10)
        gate.begun.clear()
        other = begin(pool, reads, [second])
        assert gate.begun.wait(10), "it waits for the slow read"
        gate.opened.set()
        assert set(other.result()) == {second}


class SlowRead(aws_client.Hook):
    """Counts the reads. The first one takes long enough for other attempts to ask for theirs."""

    def __init__(self) -> None:
        self.reads = 0

    def call(self, call: aws_client.AwsCall, proceed: Callable[[aws_client.AwsCall], Any]) -> Any:
        """Make the call."""
        if call.operation == "BatchGetItem":
            self.reads += 1
            if self.reads == 1:
                time.sleep(0.5)
        return proceed(call)


def test_the_attempts_of_a_batch_share_their_reads(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(200)) as receiver:
        fan_out_customers(stage, receiver.url, 10)
        queue = stage.queues["retries"].arn
        batch = [sqs_record(message["body"], queue) for message in stage.messages("deliveries")]
        slow = SlowRead()
        with aws_client.hooked(slow):
            stage.invoke("deliver", {"Records": batch})
        events = list_resources(stage, "/v1/events")
        found = [each for event in events for each in list_resources(stage, f"/v1/events/{event['id']}/deliveries")]
        assert [each["status"] for each in found] == ["succeeded"] * 10
    assert slow.reads < 10


def test_a_read_that_fails_fails_for_all_that_share_it_and_for_no_later_one(stage: Stage) -> None:
    keys = store_customers(stage, 8)
    reads = table.SharedReads()
    with wire(Fault(0, throttle, ALWAYS)), ThreadPoolExecutor(12) as pool:
        for read in [begin(pool, reads, [key]) for key in keys]:
            with pytest.raises(Unavailable):
                read.result(timeout=60)
    assert set(reads.get_many(keys)) == set(keys)
