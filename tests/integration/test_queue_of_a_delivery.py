"""Which queue and message group a delivery uses, and a batch of several deliveries (`shared/webhooks/queues.py`)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from shared.core import clock
from shared.store.keys import Scope
from shared.webhooks import health, queues
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.endpoints.resource import HANGING_FROM
from tests.support.clocks import Clock
from tests.support.deliveries import PHONE, lose_worker, mark, new_event, only_delivery_at, wake_up
from tests.support.receivers import Exchange, Receiver, answer
from tests.support.resources import create_and_get_path, list_resources
from tests.support.stage import Stage, queue_name
from tests.support.wire import Fault, Wire, throttle, wire


def sent_wake_ups(line: Wire) -> list[tuple[str, str]]:
    """Queue and message group of each wake-up."""
    return [
        (queue_name(call.parameters["QueueUrl"]), entry["MessageGroupId"])
        for call in line.of("SendMessageBatch")
        for entry in call.parameters["Entries"]
    ]


def wake_ups_of_an_event(stage: Stage) -> list[tuple[str, str]]:
    with wire() as line:
        new_event(stage)
    return sent_wake_ups(line)


def id_of(endpoint: str) -> str:
    return endpoint.rpartition("/")[2]


def test_an_endpoint_that_is_behind_gets_more_message_groups_and_is_not_slow(
    stage: Stage, stopped_clock: Clock
) -> None:
    with Receiver(answer(200)) as busy, Receiver(answer(200)) as quiet:
        endpoints = [create_and_get_path(stage, "webhook_endpoints", url=receiver.url) for receiver in (busy, quiet)]
        path = new_event(stage)
        stage.messages("deliveries")
        for delivery in list_resources(stage, path):
            late = 11 if delivery["url"] == busy.url else 0
            wake_up(stage, delivery, "deliveries", clock.now() / 1000 - late)
        found: dict[str, set[str]] = {endpoint: set() for endpoint in endpoints}
        for _ in range(6):
            for queue, group in wake_ups_of_an_event(stage):
                assert queue == "deliveries"
                found[next(endpoint for endpoint in endpoints if group.startswith(id_of(endpoint)))].add(group)
        assert len(found[endpoints[0]]) > 1
        assert found[endpoints[1]] == {id_of(endpoints[1])}
        stopped_clock.forward(health.BUSY_FOR_MS / 1000)
        assert {group for _, group in wake_ups_of_an_event(stage)} == {id_of(endpoint) for endpoint in endpoints}


def test_a_slow_endpoint_has_only_the_slow_queue_until_it_responds_quickly(
    stage: Stage, stopped_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "SLOW_ATTEMPT_MS", 1000)

    def slow(exchange: Exchange) -> None:
        time.sleep(health.SLOW_ATTEMPT_MS / 1000 + 0.1)
        answer(500)(exchange)

    with Receiver(slow, answer(200)) as receiver, Receiver(answer(200)) as quick:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url, event_filters=["customer.*"])
        path = new_event(stage)
        waiting = only_delivery_at(stage, new_event(stage))
        stage.messages("deliveries")
        # The attempts before it were slow, too.
        mark(stage, endpoint, slow_attempts=health.SLOW_ATTEMPTS - 1)
        wake_up(stage, only_delivery_at(stage, path), "deliveries")
        create_and_get_path(stage, "webhook_endpoints", url=quick.url)
        # What waits in another queue moves, first attempts and later ones.
        moved = [("slow_deliveries", id_of(endpoint))]
        with wire() as line:
            wake_up(stage, waiting, "deliveries")
        assert sent_wake_ups(line) == moved
        stopped_clock.forward(5)
        with wire() as line:
            wake_up(stage, only_delivery_at(stage, path), "retries")
        assert sent_wake_ups(line) == moved
        assert len(receiver.requests) == 1
        # New events go there at once, and those of others do not.
        assert {queue for queue, group in wake_ups_of_an_event(stage) if group == id_of(endpoint)} == {
            "slow_deliveries"
        }
        assert {queue for queue, group in wake_ups_of_an_event(stage) if group != id_of(endpoint)} == {"deliveries"}
        # A quick attempt within the minute changes nothing, and a later one does.
        assert stage.deliver("slow_deliveries") == 4
        assert len(receiver.requests) == 1 + 4
        assert ("slow_deliveries", id_of(endpoint)) in wake_ups_of_an_event(stage)
        stopped_clock.forward(health.SLOW_FOR_MS / 1000 + 1)
        stage.deliver("slow_deliveries")
        assert {queue for queue, _ in wake_ups_of_an_event(stage)} == {"deliveries"}


def deduplication_ids(line: Wire) -> list[str]:
    """What makes wake-ups duplicates of each other, for the wake-ups to `hanging_deliveries`."""
    return [
        entry["MessageDeduplicationId"]
        for call in line.of("SendMessageBatch")
        if queue_name(call.parameters["QueueUrl"]) == queues.HANGING
        for entry in call.parameters["Entries"]
    ]


def test_a_hanging_endpoint_gets_one_attempt_by_itself_and_at_once_those_that_a_person_asks_for(
    stage: Stage, stopped_clock: Clock
) -> None:
    with Receiver(answer(200)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        mark(stage, endpoint, timeouts=HANGING_FROM, slow_until=clock.now() + health.SLOW_FOR_MS)
        with wire() as line:
            paths = [new_event(stage) for _ in range(3)]
        assert sent_wake_ups(line) == [(queues.HANGING, id_of(endpoint))] * 3
        assert len({*deduplication_ids(line)}) == 1, "SQS keeps one of these wake-ups"
        assert not stage.messages("deliveries")
        # What comes from elsewhere moves there, and is put off.
        with wire() as line:
            wake_up(stage, only_delivery_at(stage, paths[1]), "retries")
            assert stage.call("POST", f"{endpoint}/test").status == 202
            assert stage.deliver("retries") == 1
        assert [queue for queue, _ in sent_wake_ups(line)] == [queues.HANGING, "retries", queues.MANUAL]
        assert {group for _, group in sent_wake_ups(line)} == {id_of(endpoint)}
        assert not receiver.requests
        # One wake-up for all events is left, and the one of the test, which does not wait for it.
        assert stage.deliver(queues.MANUAL) == 1
        assert len(receiver.requests) == 1
        mark(stage, endpoint, timeouts=HANGING_FROM)
        assert stage.deliver(queues.HANGING) == 1
        assert len(receiver.requests) == 2
        assert [queue for queue, _ in wake_ups_of_an_event(stage)] == ["slow_deliveries"]
        stopped_clock.forward(health.SLOW_FOR_MS / 1000 + 1)
        stage.deliver("slow_deliveries")
        assert [queue for queue, _ in wake_ups_of_an_event(stage)] == ["deliveries"]


def next_attempt(stage: Stage, deliveries: str) -> int:
    """When the next attempt of an event's only delivery is planned."""
    return clock.parse(only_delivery_at(stage, deliveries)["next_attempt_at"])


def swept(stage: Stage, stopped_clock: Clock, delivery_id: str) -> int:
    """When the next wake-up of `sweep` for this delivery arrives."""
    for _ in range(60):
        with wire() as line:
            stage.invoke("sweep", {})
        for call in line.of("SendMessageBatch"):
            for entry in call.parameters["Entries"]:
                if json.loads(entry["MessageBody"])["sk"] == delivery_id:
                    return clock.now() + int(entry.get("DelaySeconds", 0)) * clock.SECOND
        stopped_clock.forward(60)
    raise AssertionError("no wake-up within an hour")


def test_a_delivery_that_is_put_off_shows_when_it_is_attempted(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(200)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        mark(stage, endpoint, timeouts=HANGING_FROM)
        # The wake-up of the first is the one of its interval, and that of the second is dropped.
        _, path = new_event(stage), new_event(stage)
        planned = next_attempt(stage, path)
        for _ in range(3):
            assert clock.now() + clock.MINUTE < planned
            arrives = swept(stage, stopped_clock, only_delivery_at(stage, path)["id"])
            assert abs(arrives - planned) <= 500
            assert next_attempt(stage, path) == planned
            stopped_clock.now = arrives / 1000
            wake_up(stage, only_delivery_at(stage, path), "retries")
            assert not receiver.requests
            planned = next_attempt(stage, path)
        mark(stage, endpoint, timeouts=0)
        arrives = swept(stage, stopped_clock, only_delivery_at(stage, path)["id"])
        stopped_clock.now = arrives / 1000
        wake_up(stage, only_delivery_at(stage, path), "retries")
        assert abs(clock.parse(only_delivery_at(stage, path)["attempts"][0]["at"]) - planned) <= 500


def test_no_delivery_in_progress_shows_a_next_attempt_in_the_past(stage: Stage, stopped_clock: Clock) -> None:
    endpoint = create_and_get_path(stage, "webhook_endpoints", url="http://127.0.0.1:9/")
    # One is attempted, two wait for it in their message group, and the last one finds out whether the endpoint hangs.
    paths = [new_event(stage) for _ in range(3)]
    lose_worker(stage, only_delivery_at(stage, paths[0]))
    mark(stage, endpoint, timeouts=HANGING_FROM)
    paths.append(new_event(stage))
    lose_worker(stage, only_delivery_at(stage, paths[-1]))
    for seconds in (1, 13, 60):
        stopped_clock.forward(seconds)
        assert all(0 <= clock.now() - next_attempt(stage, path) <= 1_000 for path in paths)


def test_a_new_url_is_neither_slow_nor_hanging_nor_busy(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(200)) as former, Receiver(answer(200)) as present:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=former.url)
        mark(stage, endpoint, slow_attempts=3, slow_until=clock.now() + 60_000, busy_until=clock.now() + 60_000)
        assert wake_ups_of_an_event(stage)[0][0] == "slow_deliveries"
        mark(stage, endpoint, timeouts=HANGING_FROM)
        assert wake_ups_of_an_event(stage)[0][0] == "hanging_deliveries"
        stage.call("PATCH", endpoint, {"url": present.url})
        assert wake_ups_of_an_event(stage) == [("deliveries", id_of(endpoint))]


def test_the_other_deliveries_of_a_batch_are_recorded_while_one_hangs(stage: Stage, stopped_clock: Clock) -> None:
    statuses: list[str] = []
    scope = Scope(stage.call("GET", "/v1/ping").json["project_id"], False)

    def hanging(exchange: Exchange) -> None:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            docs = [json.loads(row["doc"]) for row in deliveries.of_event(scope, event_id)]
            statuses[:] = [doc["status"] for doc in docs if doc["url"] != hanging_one.url]
            if "attempting" not in statuses:
                break
            time.sleep(0.05)
        answer(200)(exchange)

    with Receiver(hanging) as hanging_one, Receiver(answer(200)) as quick, Receiver(answer(400)) as refusing:
        for receiver in (hanging_one, *[quick] * 6, *[refusing] * 3):
            create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        event_id = path.split("/")[-2]
        batch = stage.messages("deliveries")
        assert len(batch) == 10
        assert stage.invoke("deliver", {"Records": batch}) == {"batchItemFailures": []}
        assert sorted(statuses) == ["failed"] * 3 + ["succeeded"] * 6
        assert {each["status"] for each in list_resources(stage, path)} == {"failed", "succeeded"}
        assert {each["attempt_count"] for each in list_resources(stage, path)} == {1}


@pytest.mark.parametrize(("receives", "seconds"), [(1, 2), (2, 4), (9, 60)])
def test_a_message_that_failed_is_visible_again_after_seconds(
    stage: Stage, stopped_clock: Clock, receives: int, seconds: int
) -> None:
    with Receiver(answer(200)) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        create_and_get_path(stage, "customers", phone=PHONE)
        stage.fan_out()
        [message] = stage.messages("deliveries")
        message["attributes"]["ApproximateReceiveCount"] = str(receives)
        with wire(Fault(0, throttle, service="dynamodb")) as line:
            found: Any = stage.invoke("deliver", {"Records": [message]})
    assert found == {"batchItemFailures": [{"itemIdentifier": message["messageId"]}]}
    [call] = line.of("ChangeMessageVisibilityBatch")
    assert queue_name(call.parameters["QueueUrl"]) == "deliveries"
    [entry] = call.parameters["Entries"]
    assert (entry["ReceiptHandle"], entry["VisibilityTimeout"]) == (message["receiptHandle"], seconds)
