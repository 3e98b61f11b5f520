"""The pollers on queues in memory, with functions that the tests give answers for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from infra.local.lambdas import Lambdas
from infra.local.queues import Poller, failed_items, sqs_record
from infra.local.sqs import Draft, Engine, Queue
from infra.topology import Function, QueueSource
from tests.support.clocks import Clock

PATIENCE = 10
FUNCTION = Function("worker")

kept: list[Poller] = []
"""The event loops of their threads live as long as this process."""


def message(group: str | None = None, **more: Any) -> Any:
    attributes = {"SentTimestamp": "1", "ApproximateReceiveCount": "1"} | ({"MessageGroupId": group} if group else {})
    return {
        "MessageId": "m",
        "ReceiptHandle": "r",
        "Body": "{}",
        "MD5OfBody": "5",
        "Attributes": attributes,
    } | more


class Calls:
    """A function that notes the bodies that it gets; `answer` gives its response, or waits, or fails."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.answer: Callable[[Any], Any] = lambda event: None
        self._changed = threading.Condition()

    def call(self, function: Function, event: Any) -> Any:
        with self._changed:
            self.events.append(event)
            answer = self.answer
            self._changed.notify_all()
        return answer(event)

    def bodies(self, count: int) -> list[list[str]]:
        """The bodies of each call, once there are so many calls."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.events) >= count, PATIENCE), self.events
            return [[record["body"] for record in event["Records"]] for event in self.events]


@pytest.fixture
def clock() -> Clock:
    return Clock(1_790_000_000)


@pytest.fixture
def engine(clock: Clock) -> Iterator[Engine]:
    made = Engine(lambda: clock.now)
    yield made
    made.close()


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def hold() -> Iterator[threading.Event]:
    """What calls wait for that shall take long."""
    event = threading.Event()
    yield event
    event.set()


def poll(queue: Queue, calls: Calls, stop: threading.Event, **source: int) -> None:
    poller = Poller(FUNCTION, QueueSource("queue", **source), queue, cast(Lambdas, calls), stop)
    kept.append(poller)
    poller.start()


def put(queue: Queue, *bodies: str, group: str | None = None) -> None:
    for body in bodies:
        queue.send(Draft(body, group=group, deduplication_id=body if queue.fifo else None))


def is_emptied(queue: Queue) -> bool:
    """Whether all messages are deleted, soon."""
    names = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
    waiting = threading.Event()
    for _ in range(PATIENCE * 100):
        if {*queue.attributes(names).values()} == {"0"}:
            return True
        waiting.wait(0.01)
    return False


def test_what_a_function_takes_is_deleted(engine: Engine, calls: Calls, stop: threading.Event) -> None:
    queue = engine.create("queue", {})
    poll(queue, calls, stop)
    put(queue, "a", "b")
    assert sorted(calls.bodies(2)) == [["a"], ["b"]]
    assert is_emptied(queue)
    [record] = calls.events[0]["Records"]
    assert record["eventSourceARN"] == queue.arn
    assert {*record["attributes"]} >= {"ApproximateReceiveCount", "SentTimestamp", "SenderId"}


def test_no_more_calls_at_once_than_the_source_allows(
    engine: Engine, calls: Calls, stop: threading.Event, hold: threading.Event
) -> None:
    queue = engine.create("queue", {})
    calls.answer = lambda event: hold.wait(PATIENCE) and None
    put(queue, *"abc")
    poll(queue, calls, stop, concurrency=2)
    assert len(calls.bodies(2)) == 2
    # What has no worker was not received, and counts as waiting.
    assert queue.attributes(["ApproximateNumberOfMessages"]) == {"ApproximateNumberOfMessages": "1"}
    hold.set()
    assert sorted(calls.bodies(3)) == [["a"], ["b"], ["c"]]


def test_a_group_that_hangs_leaves_the_next_worker_to_others(
    engine: Engine, calls: Calls, stop: threading.Event, hold: threading.Event
) -> None:
    queue = engine.create("queue", {})
    calls.answer = lambda event: hold.wait(PATIENCE) and None
    put(queue, *(f"hanging {n}" for n in range(5)), group="hanging")
    put(queue, "other", group="other")
    poll(queue, calls, stop, concurrency=2)
    assert ["other"] in calls.bodies(2)


def test_batches_are_as_large_as_the_source_allows(engine: Engine, calls: Calls, stop: threading.Event) -> None:
    queue = engine.create("queue.fifo", {"FifoQueue": "true"})
    put(queue, *"abcde", group="g")
    poll(queue, calls, stop, batch_size=2)
    assert calls.bodies(3) == [["a", "b"], ["c", "d"], ["e"]]


def test_a_group_of_a_fifo_queue_is_worked_on_one_call_at_a_time(
    engine: Engine, calls: Calls, stop: threading.Event, hold: threading.Event
) -> None:
    queue = engine.create("queue.fifo", {"FifoQueue": "true"})
    calls.answer = lambda event: hold.wait(PATIENCE) and None
    put(queue, "1", "2", group="g")
    put(queue, "other", group="h")
    poll(queue, calls, stop)
    assert sorted(calls.bodies(2)) == [["1"], ["other"]]
    hold.set()
    assert calls.bodies(3)[2] == ["2"]


@pytest.mark.parametrize("raises", [True, False])
def test_what_a_function_fails_on_stays_invisible_for_the_time_out(
    engine: Engine, calls: Calls, stop: threading.Event, clock: Clock, raises: bool
) -> None:
    def fail(event: Any) -> Any:
        if raises:
            raise ValueError
        ids = [record["messageId"] for record in event["Records"] if record["body"] == "bad"]
        return {"batchItemFailures": [{"itemIdentifier": id} for id in ids]}

    queue = engine.create("queue", {"VisibilityTimeout": "240"})
    calls.answer = fail
    put(queue, "bad")
    poll(queue, calls, stop, batch_size=10)
    assert calls.bodies(1) == [["bad"]]
    clock.now += 239
    calls.answer = lambda event: None
    put(queue, "good")
    assert calls.bodies(2) == [["bad"], ["good"]]
    clock.now += 1
    put(queue, "wake")
    assert calls.bodies(3)[2:] == [["bad", "wake"]]
    assert is_emptied(queue)
    counts = [record["attributes"]["ApproximateReceiveCount"] for record in calls.events[2]["Records"]]
    assert counts == ["2", "1"]


def test_a_response_that_names_a_message_of_no_batch_is_a_failure_of_all(
    engine: Engine, calls: Calls, stop: threading.Event, clock: Clock
) -> None:
    queue = engine.create("queue", {"VisibilityTimeout": "60"})
    calls.answer = lambda event: {"batchItemFailures": [{"itemIdentifier": "another"}]}
    put(queue, "a")
    poll(queue, calls, stop, concurrency=1)
    calls.bodies(1)
    # A failure after the test would be printed between the results.
    calls.answer = lambda event: None
    clock.now += 60
    put(queue, "b")
    assert calls.bodies(2)[1] == ["a"]


def test_a_message_becomes_a_record_of_lambdas_form() -> None:
    sent = message("g", MessageAttributes={"a": {"StringValue": "1", "DataType": "Number"}})
    assert sqs_record(sent, "arn:aws:sqs:us-east-1:123456789012:retries") == {
        "messageId": "m",
        "receiptHandle": "r",
        "body": "{}",
        "attributes": {"SentTimestamp": "1", "ApproximateReceiveCount": "1", "MessageGroupId": "g"},
        "messageAttributes": {
            "a": {"stringValue": "1", "stringListValues": [], "binaryListValues": [], "dataType": "Number"}
        },
        "md5OfBody": "5",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:retries",
        "awsRegion": "us-east-1",
    }


def test_a_binary_attribute_becomes_one_of_lambdas_form() -> None:
    sent = message(MessageAttributes={"a": {"BinaryValue": "/w==", "DataType": "Binary"}})
    made = sqs_record(sent, "arn:aws:sqs:us-east-1:123456789012:retries")["messageAttributes"]
    assert made == {"a": {"binaryValue": "/w==", "stringListValues": [], "binaryListValues": [], "dataType": "Binary"}}


def test_no_list_of_failures_means_that_all_went_well() -> None:
    assert failed_items(None) == set()
    assert failed_items({"batchItemFailures": []}) == set()
    assert failed_items({"batchItemFailures": [{"itemIdentifier": "m"}]}) == {"m"}
