"""SQS's rules, with a clock that the tests move."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from infra.local.sqs import Draft, Engine, Queue, SqsError

START = 1_790_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(clock: Clock) -> Engine:
    return Engine(clock)


def standard(engine: Engine, **attributes: str) -> Queue:
    return engine.create("queue", attributes)


def fifo(engine: Engine, **attributes: str) -> Queue:
    return engine.create("queue.fifo", {"FifoQueue": "true", **attributes})


def put(queue: Queue, *bodies: str, group: str | None = None) -> None:
    for body in bodies:
        queue.send(Draft(body, group=group, deduplication_id=body if queue.fifo else None))


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


def take(queue: Queue, most: int = 1) -> list[str]:
    return bodies(queue.receive(most))


def error_code_of(act: Callable[[], object]) -> str:
    with pytest.raises(SqsError) as raised:
        act()
    return raised.value.code


# Visibility


def test_a_received_message_is_invisible_for_the_queues_time_out(engine: Engine, clock: Clock) -> None:
    queue = standard(engine, VisibilityTimeout="240")
    put(queue, "a")
    assert take(queue) == ["a"]
    clock.forward(239.9)
    assert take(queue) == []
    clock.forward(0.1)
    assert take(queue) == ["a"]


def test_a_receive_may_name_another_time_out(engine: Engine, clock: Clock) -> None:
    queue = standard(engine)
    put(queue, "a")
    queue.receive(visibility=5)
    clock.forward(5)
    assert take(queue) == ["a"]


def test_the_receive_count_and_the_times_are_told(engine: Engine, clock: Clock) -> None:
    queue = standard(engine)
    put(queue, "a")
    clock.forward(1)
    [first] = queue.receive()
    clock.forward(30)
    [second] = queue.receive()
    assert first["ReceiptHandle"] != second["ReceiptHandle"]
    sent, received = str(int(START * 1000)), str(int(START * 1000) + 1000)
    assert first["Attributes"].items() >= {
        "ApproximateReceiveCount": "1",
        "SentTimestamp": sent,
        "ApproximateFirstReceiveTimestamp": received,
    }.items()  # fmt: skip
    assert second["Attributes"] == first["Attributes"] | {"ApproximateReceiveCount": "2"}


def test_changed_visibility_counts_from_the_change(engine: Engine, clock: Clock) -> None:
    queue = standard(engine, VisibilityTimeout="240")
    put(queue, "a")
    [message] = queue.receive()
    clock.forward(100)
    queue.change_visibility(message["ReceiptHandle"], 200)
    clock.forward(199)
    assert take(queue) == []
    clock.forward(1)
    [message] = queue.receive()
    queue.change_visibility(message["ReceiptHandle"], 0)
    assert take(queue) == ["a"]


def test_visibility_of_a_message_that_is_not_in_flight_cannot_be_changed(engine: Engine, clock: Clock) -> None:
    queue = standard(engine)
    put(queue, "a")
    [message] = queue.receive()
    receipt = message["ReceiptHandle"]
    assert error_code_of(lambda: queue.change_visibility(receipt, 43_201)) == "InvalidParameterValue"
    clock.forward(30)
    assert error_code_of(lambda: queue.change_visibility(receipt, 10)) == "MessageNotInflight"
    assert error_code_of(lambda: queue.change_visibility("nonsense", 10)) == "ReceiptHandleIsInvalid"


def test_a_deleted_message_does_not_come_back(engine: Engine, clock: Clock) -> None:
    queue = standard(engine)
    put(queue, "a")
    [message] = queue.receive()
    queue.delete(message["ReceiptHandle"])
    queue.delete(message["ReceiptHandle"])
    clock.forward(1000)
    assert take(queue) == []


def test_the_handle_of_an_earlier_receive_deletes_nothing(engine: Engine, clock: Clock) -> None:
    queue = standard(engine)
    put(queue, "a")
    [first] = queue.receive()
    clock.forward(30)
    queue.receive()
    queue.delete(first["ReceiptHandle"])
    clock.forward(30)
    assert take(queue) == ["a"]


def test_a_standard_queue_takes_a_late_deletion_and_a_fifo_queue_does_not(engine: Engine, clock: Clock) -> None:
    late, strict = standard(engine), fifo(engine)
    put(late, "a")
    put(strict, "a", group="g")
    [first], [second] = late.receive(), strict.receive()
    clock.forward(30)
    late.delete(first["ReceiptHandle"])
    assert take(late) == []
    assert error_code_of(lambda: strict.delete(second["ReceiptHandle"])) == "InvalidParameterValue"
    assert take(strict) == ["a"]


# Delays


def test_a_delayed_message_comes_when_its_delay_is_over(engine: Engine, clock: Clock) -> None:
    queue = standard(engine)
    queue.send(Draft("late", delay=900))
    queue.send(Draft("soon", delay=2))
    put(queue, "now")
    assert take(queue, 10) == ["now"]
    clock.forward(2)
    assert take(queue, 10) == ["soon"]
    clock.forward(897.9)
    assert "late" not in take(queue, 10)
    clock.forward(0.1)
    assert "late" in take(queue, 10)


@pytest.mark.parametrize("delay", [901, -1])
def test_a_delay_has_limits(engine: Engine, delay: int) -> None:
    assert error_code_of(lambda: standard(engine).send(Draft("a", delay=delay))) == "InvalidParameterValue"


def test_the_delay_of_a_queue_is_for_messages_without_one(engine: Engine, clock: Clock) -> None:
    queue = standard(engine, DelaySeconds="10")
    put(queue, "later")
    queue.send(Draft("now", delay=0))
    assert take(queue, 10) == ["now"]
    clock.forward(10)
    assert take(queue, 10) == ["later"]


def test_a_fifo_queue_refuses_a_delay_of_its_messages(engine: Engine) -> None:
    queue = fifo(engine)
    assert (
        error_code_of(lambda: queue.send(Draft("a", delay=1, group="g", deduplication_id="1")))
        == "InvalidParameterValue"
    )
    queue.send(Draft("a", delay=0, group="g", deduplication_id="1"))
    assert take(queue) == ["a"]


# Order


def test_one_batch_of_a_group_is_in_flight_at_a_time(engine: Engine) -> None:
    queue = fifo(engine)
    put(queue, "1", "2", "3", group="g")
    put(queue, "other", group="h")
    first = queue.receive(2)
    assert bodies(first) == ["1", "2"]
    assert take(queue, 10) == ["other"]
    queue.delete(first[0]["ReceiptHandle"])
    assert take(queue, 10) == []
    queue.delete(first[1]["ReceiptHandle"])
    assert take(queue, 10) == ["3"]


def test_a_batch_may_hold_several_groups(engine: Engine) -> None:
    queue = fifo(engine)
    put(queue, "1", group="g")
    put(queue, "2", group="h")
    put(queue, "3", group="g")
    assert take(queue, 10) == ["1", "3", "2"]


def test_what_was_not_deleted_holds_up_its_group_and_comes_first_again(engine: Engine, clock: Clock) -> None:
    queue = fifo(engine, VisibilityTimeout="60")
    put(queue, "1", "2", "3", group="g")
    batch = queue.receive(2)
    queue.delete(batch[1]["ReceiptHandle"])
    clock.forward(59)
    assert take(queue, 10) == []
    clock.forward(1)
    assert take(queue, 10) == ["1", "3"]


def test_sequence_numbers_rise(engine: Engine) -> None:
    queue = fifo(engine)
    put(queue, "1", "2", group="g")
    numbers = [int(message["Attributes"]["SequenceNumber"]) for message in queue.receive(2)]
    assert numbers == sorted(set(numbers))
    assert all(len(str(number)) == 20 for number in numbers)


def test_a_fifo_message_needs_a_group_and_something_to_tell_it_from_others(engine: Engine) -> None:
    queue = fifo(engine)
    assert error_code_of(lambda: queue.send(Draft("a", deduplication_id="1"))) == "MissingParameter"
    assert error_code_of(lambda: queue.send(Draft("a", group="g"))) == "InvalidParameterValue"


def test_a_standard_queue_refuses_deduplication(engine: Engine) -> None:
    assert error_code_of(lambda: standard(engine).send(Draft("a", deduplication_id="1"))) == "InvalidParameterValue"


# Fairness


def test_a_group_that_has_little_in_flight_comes_first(engine: Engine) -> None:
    queue = standard(engine)
    put(queue, *(f"noisy {n}" for n in range(5)), group="noisy")
    put(queue, "quiet", group="quiet")
    assert [*take(queue), *take(queue), *take(queue)] == ["noisy 0", "quiet", "noisy 1"]


def test_a_noisy_group_gets_what_nobody_else_wants(engine: Engine) -> None:
    queue = standard(engine)
    put(queue, *"abcd", group="noisy")
    assert take(queue, 10) == [*"abcd"]


def test_messages_without_a_group_come_as_they_were_sent(engine: Engine) -> None:
    queue = standard(engine)
    put(queue, *"abcd")
    assert [take(queue) for _ in range(4)] == [["a"], ["b"], ["c"], ["d"]]


# Deduplication


def test_a_message_is_taken_once_in_five_minutes(engine: Engine, clock: Clock) -> None:
    queue = fifo(engine)
    first = queue.send(Draft("a", group="g", deduplication_id="1"))
    [received] = queue.receive()
    queue.delete(received["ReceiptHandle"])
    clock.forward(299)
    again = queue.send(Draft("b", group="g", deduplication_id="1"))
    assert (again.id, again.sequence_number) == (first.id, first.sequence_number)
    assert take(queue) == []
    clock.forward(1)
    assert queue.send(Draft("c", group="g", deduplication_id="1")).id != first.id
    assert take(queue) == ["c"]


@pytest.mark.parametrize(("scope", "taken"), [("queue", ["a"]), ("messageGroup", ["a", "b"])])
def test_deduplication_may_be_each_groups_own(engine: Engine, scope: str, taken: list[str]) -> None:
    queue = fifo(engine, DeduplicationScope=scope)
    queue.send(Draft("a", group="g", deduplication_id="1"))
    queue.send(Draft("b", group="h", deduplication_id="1"))
    assert take(queue, 10) == taken


def test_the_content_may_tell_messages_apart(engine: Engine) -> None:
    queue = fifo(engine, ContentBasedDeduplication="true")
    for body in "aab":
        queue.send(Draft(body, group="g"))
    assert take(queue, 10) == ["a", "b"]


# Dead letters


@pytest.mark.parametrize("ordered", [True, False])
def test_a_message_that_was_received_too_often_goes_to_the_dead_letter_queue(
    engine: Engine, clock: Clock, ordered: bool
) -> None:
    end, settings = (".fifo", {"FifoQueue": "true"}) if ordered else ("", {})
    dead = engine.create(f"dead{end}", settings)
    redrive = json.dumps({"deadLetterTargetArn": dead.arn, "maxReceiveCount": 2})
    queue = engine.create(f"queue{end}", settings | {"RedrivePolicy": redrive, "VisibilityTimeout": "60"})
    put(queue, "bad", "good", group="g")
    for _ in range(2):
        [message, *others] = queue.receive(10)
        assert message["Body"] == "bad"
        for other in others:
            queue.delete(other["ReceiptHandle"])
        clock.forward(60)
    assert take(queue, 10) == []
    [moved] = dead.receive(10)
    assert (moved["MessageId"], moved["Body"]) == (message["MessageId"], "bad")
    assert moved["Attributes"]["DeadLetterQueueSourceArn"] == queue.arn
    assert engine.queue(queue.name).attributes(["ApproximateNumberOfMessages"]) == {"ApproximateNumberOfMessages": "0"}


def test_a_dead_letter_queue_is_of_the_same_type_and_there(engine: Engine) -> None:
    dead = fifo(engine)
    for arn in (dead.arn, "arn:aws:sqs:us-east-1:123456789012:missing"):
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
        assert error_code_of(partial(standard, engine, RedrivePolicy=policy)) == "InvalidParameterValue"


# Waiting


def test_a_waiting_receiver_gets_a_message_at_once() -> None:
    engine = Engine()
    queue = standard(engine)
    taken: list[str] = []
    receiver = threading.Thread(target=lambda: taken.extend(bodies(queue.receive(wait=20))))
    receiver.start()
    put(queue, "a")
    receiver.join(5)
    assert taken == ["a"]


@pytest.mark.parametrize("wait", [20, math.inf])
def test_a_waiting_receiver_gets_nothing_when_the_queues_close(wait: float) -> None:
    engine = Engine()
    queue = standard(engine)
    receiver = threading.Thread(target=lambda: queue.receive(wait=wait))
    receiver.start()
    engine.close()
    receiver.join(5)
    assert not receiver.is_alive()


def test_the_deletion_of_a_batch_wakes_who_waits_for_its_group() -> None:
    queue = fifo(Engine())
    put(queue, "1", "2", group="g")
    [first] = queue.receive()
    taken: list[str] = []
    receiver = threading.Thread(target=lambda: taken.extend(bodies(queue.receive(wait=20))))
    receiver.start()
    queue.delete(first["ReceiptHandle"])
    receiver.join(5)
    assert taken == ["2"]


def test_a_waiting_receiver_gets_a_message_when_its_delay_is_over() -> None:
    queue = standard(Engine())
    queue.send(Draft("a", delay=1))
    assert bodies(queue.receive(wait=5)) == ["a"]


# Queues


def test_a_queue_counts_its_messages(engine: Engine) -> None:
    queue = standard(engine)
    put(queue, *"abc")
    queue.send(Draft("d", delay=5))
    queue.receive()
    names = [f"ApproximateNumberOfMessages{which}" for which in ("", "NotVisible", "Delayed")]
    assert queue.attributes(names) == dict(zip(names, "211", strict=True))


def test_a_purged_queue_is_empty_and_not_purged_again_within_a_minute(engine: Engine, clock: Clock) -> None:
    queue = fifo(engine)
    put(queue, "1", "2", group="g")
    queue.receive()
    queue.purge()
    put(queue, "3", group="g")
    assert take(queue, 10) == ["3"]
    assert error_code_of(queue.purge) == "PurgeQueueInProgress"
    clock.forward(60)
    queue.purge()


@pytest.mark.parametrize(
    ("name", "attributes", "code"),
    [
        ("no spaces", {}, "InvalidParameterValue"),
        ("x" * 81, {}, "InvalidParameterValue"),
        ("queue.fifo", {}, "InvalidParameterValue"),
        ("queue", {"FifoQueue": "true"}, "InvalidParameterValue"),
        ("queue", {"DelaySeconds": "901"}, "InvalidAttributeValue"),
        ("queue", {"VisibilityTimeout": "x"}, "InvalidAttributeValue"),
        ("queue", {"DeduplicationScope": "queue"}, "InvalidAttributeName"),
        ("queue", {"Colour": "red"}, "InvalidAttributeName"),
        ("queue", {"RedrivePolicy": "[]"}, "InvalidParameterValue"),
    ],
)
def test_a_queue_that_sqs_would_not_make_is_refused(
    engine: Engine, name: str, attributes: dict[str, str], code: str
) -> None:
    assert error_code_of(lambda: engine.create(name, attributes)) == code


def test_a_queue_is_made_once(engine: Engine) -> None:
    queue = standard(engine, VisibilityTimeout="60")
    assert standard(engine, VisibilityTimeout="60") is queue
    assert error_code_of(lambda: standard(engine, VisibilityTimeout="61")) == "QueueNameExists"


@pytest.mark.parametrize(
    ("draft", "code"),
    [
        (Draft(""), "MissingParameter"),
        (Draft("x" * 1_048_577), "InvalidParameterValue"),
        (Draft("\0"), "InvalidMessageContents"),
        (Draft("a", group="no spaces"), "InvalidParameterValue"),
        (Draft("a", attributes={"a": {"DataType": "Colour", "StringValue": "red"}}), "InvalidParameterValue"),
        (Draft("a", attributes={str(n): {"DataType": "Number", "StringValue": "1"} for n in range(11)}),
         "InvalidParameterValue"),
    ],
)  # fmt: skip
def test_a_message_that_sqs_does_not_take_is_refused(engine: Engine, draft: Draft, code: str) -> None:
    assert error_code_of(lambda: standard(engine).send(draft)) == code
