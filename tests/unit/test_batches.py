from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from infra.local import sqs_endpoint
from infra.local.queues import sqs_record
from infra.local.sqs import Draft, Engine, Queue
from shared.aws import services
from shared.tasks import batches


class Time:
    """The clock of the queues."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def moment() -> Time:
    return Time()


@pytest.fixture
def engine(moment: Time) -> Engine:
    return Engine(moment)


@pytest.fixture
def queue(engine: Engine) -> Queue:
    return engine.create("turns", {"VisibilityTimeout": "240"})


@pytest.fixture
def fifo(engine: Engine) -> Queue:
    return engine.create("deliveries.fifo", {"FifoQueue": "true", "VisibilityTimeout": "240"})


@pytest.fixture(autouse=True)
def _service(engine: Engine, queue: Queue, fifo: Queue, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("QUEUE_TURNS", queue.url)
    monkeypatch.setenv("QUEUE_DELIVERIES", fifo.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", sqs_endpoint.serve(engine))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "local")
    services.sqs.cache_clear()
    yield
    services.sqs().close()
    services.sqs.cache_clear()


def put(queue: Queue, *bodies: str, group: str | None = None) -> None:
    for body in bodies:
        queue.send(Draft(body, group=group, deduplication_id=body if queue.fifo else None))


def received_event(queue: Queue) -> dict[str, Any]:
    """Lambda's event with all messages that the queue gives out."""
    return {"Records": [sqs_record(message, queue.arn) for message in queue.receive(10)]}


def bodies(event: dict[str, Any]) -> list[str]:
    return [each["body"] for each in event["Records"]]


def failing(*bodies: str) -> Callable[[Any], None]:
    def work(item: Any) -> None:
        if item.body in bodies:
            raise ValueError(item.body)

    return work


def failed_bodies(event: dict[str, Any], work: Callable[[Any], None]) -> list[str]:
    """The bodies of the messages that the function reports as failed."""
    ids = [failure["itemIdentifier"] for failure in batches.each_message(event, work)["batchItemFailures"]]
    return [each["body"] for each in event["Records"] if each["messageId"] in ids]


def test_what_failed_is_named_and_nothing_else(queue: Queue) -> None:
    put(queue, "a", "b", "c")
    assert failed_bodies(received_event(queue), failing("b")) == ["b"]
    put(queue, "d")
    assert failed_bodies(received_event(queue), failing()) == []


@pytest.mark.parametrize("others", [[], ["b", "c"]], ids=["alone", "in_a_batch"])
def test_a_message_that_failed_comes_again_after_seconds_and_each_time_later(
    queue: Queue, moment: Time, others: list[str]
) -> None:
    put(queue, "a", *others)
    event = received_event(queue)
    waits = []
    for _ in range(8):
        assert failed_bodies(event, failing("a")) == ["a"]
        # Lambda deletes what succeeded.
        for each in event["Records"][1:]:
            queue.delete(each["receiptHandle"])
        before = moment.now
        while not (event := received_event(queue))["Records"]:
            moment.now += 1
        assert bodies(event) == ["a"]
        waits.append(round(moment.now - before))
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]


def test_a_failed_message_holds_its_fifo_group_for_seconds_only(fifo: Queue, moment: Time) -> None:
    put(fifo, "a", "b", group="whk_1")
    [first] = fifo.receive(1)
    assert failed_bodies({"Records": [sqs_record(first, fifo.arn)]}, failing("a")) == ["a"]
    assert bodies(received_event(fifo)) == []
    moment.now += 2
    assert bodies(received_event(fifo)) == ["a", "b"]


def test_the_messages_of_a_batch_are_worked_on_concurrently(queue: Queue) -> None:
    put(queue, *"abcdefghij")
    together = threading.Barrier(10, timeout=5)

    def work(item: Any) -> None:
        together.wait()

    assert failed_bodies(received_event(queue), work) == []


def test_a_fifo_group_is_worked_on_in_order_and_others_meanwhile(fifo: Queue) -> None:
    put(fifo, "a1", "a2", "a3", group="a")
    put(fifo, "b1", group="b")
    order: list[str] = []
    b_done = threading.Event()

    def work(item: Any) -> None:
        if item.body == "a1":
            assert b_done.wait(5), "another group waits"
        order.append(item.body)
        if item.body == "b1":
            b_done.set()

    assert failed_bodies(received_event(fifo), work) == []
    assert order == ["b1", "a1", "a2", "a3"]


def test_a_message_waits_for_the_one_before_it_until_it_is_late(fifo: Queue) -> None:
    put(fifo, "a1", "a2", "a3", group="a")
    done = threading.Event()
    order: list[str] = []

    def work(item: Any) -> None:
        if item.body == "a1":
            assert done.wait(5), "the others wait for an attempt that hangs"
        order.append(item.body)
        if len(order) == 2:
            done.set()

    assert failed_bodies(received_event(fifo), work) == []
    assert order[-1] == "a1"


def test_a_message_that_takes_long_does_not_hold_the_groups_of_its_batch(fifo: Queue) -> None:
    """Lambda deletes the messages of a batch when the function returns, and SQS locks their groups until then."""
    put(fifo, "hanging", group="whk_hanging")
    put(fifo, "quick", group="whk_quick")
    put(fifo, "failing", group="whk_failing")
    event = received_event(fifo)
    put(fifo, "next", group="whk_quick")
    put(fifo, "waiting", group="whk_hanging")
    came: list[list[str]] = []

    def work(item: Any) -> None:
        if item.body == "failing":
            raise ValueError
        if item.body == "hanging":
            deadline = time.monotonic() + 5
            while not (found := bodies(received_event(fifo))) and time.monotonic() < deadline:
                time.sleep(0.01)
            came.append(found)

    assert failed_bodies(event, work) == ["failing"]
    assert came == [["next"]]


def test_a_queue_that_refuses_to_change_a_message_changes_no_outcome(queue: Queue) -> None:
    put(queue, "a", "b")
    event = received_event(queue)
    for each in event["Records"]:
        each["receiptHandle"] = "unknown"
    assert failed_bodies(event, failing("b")) == ["b"]
