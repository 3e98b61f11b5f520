"""Workers of deliveries, fan-out and sweep that die or are in trouble with AWS (promises 9)."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from functions import deliver
from shared.aws.services import Unavailable
from shared.core import clock
from shared.store import keys, table
from shared.store.keys import Scope
from tests.support.clocks import Clock
from tests.support.deliveries import fan_out_customers
from tests.support.faults import (
    CONFLICTS,
    FEWER_TROUBLES,
    LASTING_TROUBLE,
    PASSING_TROUBLE,
    PHONE,
    TROUBLES,
    URL,
    Death,
    deaths_around,
    first_and_last_of_each,
)
from tests.support.receivers import Receiver, answer
from tests.support.resources import create_and_get_path, list_resources, woken
from tests.support.stage import Stage, sqs_record
from tests.support.wire import ALWAYS, Fault, Killed, refuse_connection, throttle, wire


def deaths_among_threads(operations: Sequence[str]) -> Iterator[Death]:
    """As `deaths`, for a worker whose threads make these calls in any order: it dies before each call, after the last.

    A call of one thread ends while those of others are under way, so the end of each is no point of its own.
    """
    for position in range(len(operations)):
        yield position, None
    yield None, len(operations) - 1


def wake_up(stage: Stage, message: Any) -> Any:
    """A wake-up as it comes from the queue of retries."""
    return sqs_record(message["body"], stage.queues["retries"].arn)


def only_delivery(stage: Stage) -> Any:
    """The one delivery of the project's one event."""
    [event] = list_resources(stage, "/v1/events")
    [delivery] = list_resources(stage, f"/v1/events/{event['id']}/deliveries")
    return delivery


def first_wake_up(stage: Stage, receiver: Receiver) -> Any:
    """In a new project: an endpoint, an event, and the wake-up at its delivery."""
    stage.project()
    stage.empty_queues()
    create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
    create_and_get_path(stage, "customers", phone=PHONE)
    return next_wake_up(stage)


def next_wake_up(stage: Stage) -> Any:
    """Fan out; the one wake-up that this gives, sent now by the service's clock."""
    stage.fan_out()
    [message] = stage.messages("deliveries")
    message["attributes"]["SentTimestamp"] = str(clock.now())
    return message


def own_wake_ups(stage: Stage) -> list[Any]:
    """What the queue of retries gives of this project; what others delayed comes out whenever its time is over."""
    return woken(stage, Scope(stage.call("GET", "/v1/ping").json["project_id"], False), "retries")


def swept(stage: Stage) -> int:
    """Run `sweep`, and give out its wake-ups; how many they were."""
    stage.messages("retries")
    stage.invoke("sweep", {})
    found = own_wake_ups(stage)
    for message in found:
        stage.invoke("deliver", {"Records": [wake_up(stage, message)]})
    return len(found)


def operations_of_deliver(stage: Stage, status: int) -> list[str]:
    with Receiver(answer(status)) as receiver:
        message = first_wake_up(stage, receiver)
        with wire() as line:
            stage.invoke("deliver", {"Records": [message]})
        return line.operations()


def finish_after_death(stage: Stage, time: Clock, message: Any, by_sweep: bool) -> None:
    """What comes after a worker died: the queue gives the message out again, or only `sweep` knows of the delivery."""
    for _ in range(2):
        time.forward(deliver.LEASE_MS / 1000 + 1)
        if by_sweep:
            swept(stage)
        else:
            stage.invoke("deliver", {"Records": [wake_up(stage, message)]})


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
@pytest.mark.parametrize("by_sweep", [False, True], ids=["message_again", "sweep"])
def test_a_delivery_whose_worker_dies_at_any_point_is_made_and_repeated_at_most_once(
    stage: Stage, stopped_clock: Clock, by_sweep: bool
) -> None:
    for death in deaths_around(operations_of_deliver(stage, 200)):
        with Receiver(answer(200)) as receiver:
            message = first_wake_up(stage, receiver)
            with wire(None, *death), pytest.raises(Killed):
                stage.invoke("deliver", {"Records": [message]})
            finish_after_death(stage, stopped_clock, message, by_sweep)
            delivery = only_delivery(stage)
            assert (delivery["status"], delivery["attempt_count"]) == ("succeeded", 1), (death, delivery)
            assert len(delivery["attempts"]) == 1
            assert 1 <= len(receiver.requests) <= 2, death
            assert len({request.body for request in receiver.requests}) == 1


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
@pytest.mark.parametrize("by_sweep", [False, True], ids=["message_again", "sweep"])
def test_a_delivery_whose_worker_dies_over_a_failed_attempt_goes_on_with_its_ladder(
    stage: Stage, stopped_clock: Clock, by_sweep: bool
) -> None:
    for death in deaths_around(operations_of_deliver(stage, 500)):
        with Receiver(answer(500)) as receiver:
            message = first_wake_up(stage, receiver)
            with wire(None, *death), pytest.raises(Killed):
                stage.invoke("deliver", {"Records": [message]})
            for _ in range(2):
                finish_after_death(stage, stopped_clock, message, by_sweep)
            delivery = only_delivery(stage)
            assert delivery["status"] == "attempting"
            assert delivery["attempt_count"] >= 2, (death, delivery)
            assert [attempt["number"] for attempt in delivery["attempts"]] == [*range(1, delivery["attempt_count"] + 1)]
            assert len(receiver.requests) <= delivery["attempt_count"] + 1, death


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
@pytest.mark.parametrize("by_sweep", [False, True], ids=["message_again", "sweep"])
def test_a_410_disables_its_endpoint_at_whatever_point_the_worker_dies(
    stage: Stage, stopped_clock: Clock, by_sweep: bool
) -> None:
    problems = []
    for death in deaths_around(operations_of_deliver(stage, 410)):
        with Receiver(answer(410)) as receiver:
            message = first_wake_up(stage, receiver)
            with wire(None, *death), pytest.raises(Killed):
                stage.invoke("deliver", {"Records": [message]})
            finish_after_death(stage, stopped_clock, message, by_sweep)
            [endpoint] = list_resources(stage, "/v1/webhook_endpoints")
            seen = (only_delivery(stage)["status"], endpoint["enabled"], endpoint["disabled_reason"])
            if seen[0] not in ("failed", "canceled") or seen[1:] != (False, "gone"):
                problems.append((death, seen))
    assert problems == []


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
def test_a_success_stops_the_five_days_of_failing_at_whatever_point_the_worker_dies(
    stage: Stage, stopped_clock: Clock
) -> None:
    def failing_then_taking(receiver: Receiver) -> Any:
        """A wake-up at an attempt that will succeed, of an endpoint that failed before."""
        stage.invoke("deliver", {"Records": [first_wake_up(stage, receiver)]})
        stage.messages("retries")
        statuses[0] = 200
        create_and_get_path(stage, "customers", phone=PHONE)
        return next_wake_up(stage)

    statuses = [500]
    with Receiver(lambda exchange: answer(statuses[0])(exchange)) as receiver:
        message = failing_then_taking(receiver)
        with wire() as line:
            stage.invoke("deliver", {"Records": [message]})
    problems = []
    for death in deaths_around(line.operations()):
        statuses[0] = 500
        with Receiver(lambda exchange: answer(statuses[0])(exchange)) as receiver:
            message = failing_then_taking(receiver)
            with wire(None, *death), pytest.raises(Killed):
                stage.invoke("deliver", {"Records": [message]})
            stopped_clock.forward(61)
            stage.invoke("deliver", {"Records": [wake_up(stage, message)]})
            # Six days later one more fails: it is the first in a row.
            statuses[0] = 500
            stopped_clock.forward(6 * 24 * 3600)
            create_and_get_path(stage, "customers", phone=PHONE)
            stage.fan_out()
            for later in stage.messages("deliveries") + stage.messages("slow_deliveries"):
                stage.invoke("deliver", {"Records": [wake_up(stage, later)]})
            [endpoint] = list_resources(stage, "/v1/webhook_endpoints")
            if not endpoint["enabled"]:
                problems.append((death, endpoint["disabled_reason"]))
    assert problems == []


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
@pytest.mark.parametrize("status", [200, 500])
def test_a_delivery_whose_worker_is_in_trouble_with_any_call_is_made_and_repeated_at_most_once(
    stage: Stage, stopped_clock: Clock, status: int
) -> None:
    with Receiver(answer(status)) as receiver:
        message = first_wake_up(stage, receiver)
        with wire() as line:
            stage.invoke("deliver", {"Records": [message]})
    troubles = [*PASSING_TROUBLE, *LASTING_TROUBLE, *CONFLICTS]
    if status == 500:
        troubles = [each for kind in ("passing", "lasting", "conflict") for each in FEWER_TROUBLES[kind]]
    troubles = [each for each in troubles if not each.writes_only or each.tries in (1, ALWAYS)]
    for trouble, (position, call) in itertools.product(troubles, enumerate(line.calls)):
        if not trouble.concerns(call.operation):
            continue
        with Receiver(answer(status)) as receiver:
            message = first_wake_up(stage, receiver)
            # What the function raises brings the message back.
            with wire(Fault(position, trouble.disturbance, trouble.tries)):
                stage.invoke("deliver", {"Records": [message]})
            finish_after_death(stage, stopped_clock, message, by_sweep=False)
            delivery, name = only_delivery(stage), (trouble.name, position, call.operation)
            assert delivery["status"] == ("succeeded" if status == 200 else "attempting"), name
            assert [each["number"] for each in delivery["attempts"]] == [*range(1, delivery["attempt_count"] + 1)]
            assert 1 <= delivery["attempt_count"] <= len(receiver.requests) <= delivery["attempt_count"] + 1, name


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
def test_three_workers_lost_over_one_attempt_fail_the_delivery(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(200)) as receiver:
        message = first_wake_up(stage, receiver)
        for _ in range(3):
            with wire(kill_after=1), pytest.raises(Killed):
                stage.invoke("deliver", {"Records": [wake_up(stage, message)]})
            # The lease holds.
            stage.invoke("deliver", {"Records": [wake_up(stage, message)]})
            assert only_delivery(stage)["status"] == "attempting"
            stopped_clock.forward(61)
        stage.invoke("deliver", {"Records": [wake_up(stage, message)]})
        delivery = only_delivery(stage)
        assert (delivery["status"], delivery["error_code"]) == ("failed", "worker_lost")
        assert delivery["next_attempt_at"] is None
        assert delivery["completed_at"] is not None
        assert receiver.requests == []
        # By hand it can be sent again.
        path = f"/v1/events/{delivery['event_id']}/deliveries/{delivery['id']}/retry"
        assert stage.call("POST", path).status == 202
        stage.deliver("retries")
        assert len(receiver.requests) == 1


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
def test_workers_lost_over_different_attempts_do_not_add_up(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(500)) as receiver:
        message = first_wake_up(stage, receiver)
        for number in range(1, 5):
            with wire(kill_after=1), pytest.raises(Killed):
                stage.invoke("deliver", {"Records": [wake_up(stage, message)]})
            stopped_clock.forward(61)
            stage.invoke("deliver", {"Records": [wake_up(stage, message)]})
            delivery = only_delivery(stage)
            assert (delivery["status"], delivery["attempt_count"]) == ("attempting", number)
            stopped_clock.forward(3 * 3600)
        assert len(receiver.requests) == 4


def batch_of_three(stage: Stage, receiver: Receiver) -> list[Any]:
    """In a new project with three endpoints, the stream records of three new customers."""
    stage.project()
    stage.empty_queues()
    for _ in range(3):
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
    for _ in range(3):
        create_and_get_path(stage, "customers", phone=PHONE)
    return stage.stream_records()


def assert_all_fanned_out(stage: Stage) -> None:
    """Exactly one event for each customer, a delivery to each endpoint, and a wake-up at each delivery."""
    events = list_resources(stage, "/v1/events")
    subjects = Counter(event["data"]["object"]["id"] for event in events)
    assert subjects == {customer["id"]: 1 for customer in list_resources(stage, "/v1/customers")}
    endpoints = {endpoint["id"]: 1 for endpoint in list_resources(stage, "/v1/webhook_endpoints")}
    found = [delivery for event in events for delivery in list_resources(stage, f"/v1/events/{event['id']}/deliveries")]
    for event in events:
        reached = Counter(each["webhook_endpoint_id"] for each in found if each["event_id"] == event["id"])
        assert reached == endpoints
    woken = {json.loads(message["body"])["sk"] for message in stage.messages("deliveries")}
    assert woken == {each["id"] for each in found}


def test_a_batch_whose_fan_out_dies_at_any_point_makes_each_event_and_delivery_once(
    stage: Stage, stopped_clock: Clock
) -> None:
    with Receiver(answer(200)) as receiver:
        batch = batch_of_three(stage, receiver)
        with wire() as line:
            stage.fan_out(batch)
        assert_all_fanned_out(stage)
        for death in deaths_among_threads(line.operations()):
            batch = batch_of_three(stage, receiver)
            with wire(None, *death), pytest.raises(Killed):
                stage.fan_out(batch)
            stage.fan_out(batch)
            assert_all_fanned_out(stage)


@pytest.mark.parametrize("kind", ["passing", "lasting", "conflict"])
def test_a_batch_whose_fan_out_is_in_trouble_makes_each_event_and_delivery_once(
    stage: Stage, stopped_clock: Clock, kind: str
) -> None:
    with Receiver(answer(200)) as receiver:
        batch = batch_of_three(stage, receiver)
        with wire() as line:
            stage.fan_out(batch)
        ends = first_and_last_of_each(line.operations())
        for trouble, position in itertools.product(TROUBLES[kind], ends):
            call = line.calls[position]
            if not trouble.concerns(call.operation):
                continue
            batch = batch_of_three(stage, receiver)
            with wire(Fault(position, trouble.disturbance, trouble.tries)):
                answered = stage.invoke("fan_out", {"Records": batch})
            failed = {failure["itemIdentifier"] for failure in answered["batchItemFailures"]}
            if call.service == "dynamodb" and trouble.code is not None:
                assert failed, (trouble.name, position)
            # Lambda gives it the rest from the first that failed on.
            numbers = [record["dynamodb"]["SequenceNumber"] for record in batch]
            if failed:
                stage.fan_out(batch[min(map(numbers.index, failed)) :])
            if call.service == "dynamodb":
                assert_all_fanned_out(stage)


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
def test_sweep_finds_what_was_due_when_every_wake_up_was_lost(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(500), answer(200)) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        create_and_get_path(stage, "customers", phone=PHONE)
        no_queue = Fault(0, refuse_connection, service="sqs")
        with wire(no_queue):
            stage.fan_out()
        assert stage.messages("deliveries") == []
        assert swept(stage) == 0
        stopped_clock.forward(61)
        with wire(no_queue):
            assert swept(stage) == 0
        stopped_clock.forward(61)
        with wire() as line:
            assert swept(stage) == 1
        assert only_delivery(stage)["attempt_count"] == 1
        assert line.of("SendMessageBatch")
        # The next attempt's wake-up is lost, too.
        stage.messages("retries")
        stopped_clock.forward(5 + 61)
        assert swept(stage) == 1
        assert only_delivery(stage)["status"] == "succeeded"
        stopped_clock.forward(7200)
        assert swept(stage) == 0
        assert len(receiver.requests) == 2


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
def test_a_long_waits_timer_that_is_lost_is_made_good_by_sweep(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(*[answer(500)] * 4, answer(200)) as receiver:
        message = first_wake_up(stage, receiver)
        for _ in range(4):
            with wire(Fault(0, refuse_connection, service="stepfunctions")):
                stage.invoke("deliver", {"Records": [wake_up(stage, message)]})
            stage.messages("retries")
            stopped_clock.forward(301)
        stopped_clock.forward(1800 - 301 + 61)
        assert swept(stage) == 1
        assert only_delivery(stage)["status"] == "succeeded"


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
def test_sweep_wake_ups_at_a_row_less_often_the_longer_it_waits(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver() as receiver:
        first_wake_up(stage, receiver)
        minutes = []
        for minute in range(1, 190):
            stopped_clock.forward(60)
            stage.invoke("sweep", {})
            if own_wake_ups(stage):
                minutes.append(minute)
    waits = [later - earlier for earlier, later in itertools.pairwise(minutes)]
    assert minutes[0] <= 2
    assert waits[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert set(waits[6:]) == {60}


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
def test_what_sweep_found_when_it_died_is_found_again(stage: Stage, stopped_clock: Clock) -> None:
    def due() -> set[str]:
        stage.project()
        fan_out_customers(stage, URL, 3)
        stopped_clock.forward(61)
        stage.messages("retries")
        return {json.loads(message["body"])["sk"] for message in stage.messages("deliveries")}

    def wake_ups() -> set[str]:
        return {json.loads(message["body"])["sk"] for message in own_wake_ups(stage)}

    rows = due()
    with wire() as line:
        stage.invoke("sweep", {})
    assert wake_ups() == rows
    for death in deaths_among_threads(line.operations()):
        rows = due()
        with wire(None, *death), suppress(Killed):
            stage.invoke("sweep", {})
        seen = wake_ups()
        # A row is postponed only after its wake-up, so no row has to wait for another minute.
        stage.invoke("sweep", {})
        assert rows <= seen | wake_ups(), death
        for shard in keys.due_shards():
            for page in list(table.query(shard, index="due", limit=1000)):
                for row in page:
                    table.write_and_get(table.Update(row["pk"], row["sk"], set={"due": None, "due_shard": None}))


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
def test_a_row_that_sweep_cannot_read_does_not_keep_it_from_the_others(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(200)) as receiver:
        fan_out_customers(stage, receiver.url, 4)
        stage.messages("deliveries")
        stopped_clock.forward(61)
        with wire(Fault(0, throttle, 4)), suppress(Unavailable):
            stage.invoke("sweep", {})
        for _ in range(3):
            stopped_clock.forward(61)
            swept(stage)
        assert len(receiver.requests) == 4
