"""Promises 9: retries by hand."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from tests.support.client import Client, assert_error
from tests.support.client_actions import Subscribe, deliveries_of, delivery_has_ended, delivery_when, notify, waiting
from tests.support.signed_receiver import Receiver, service_signature_is_valid


def test_a_retry_by_hand_is_a_new_delivery_of_the_same_event(
    client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    hook = receiver.hook(404, 200)
    endpoint = subscribe(client, hook, "customer.created")
    failed = delivery_when(client, notify(client, endpoint), delivery_has_ended)
    assert failed["status"] == "failed"
    queued = client.post(f"/v1/events/{failed['event_id']}/deliveries/{failed['id']}/retry").ok(202)
    expected = {
        "event_id": failed["event_id"],
        "webhook_endpoint_id": endpoint["id"],
        "trigger": "manual",
        "retry_of": failed["id"],
        "status": "attempting",
        "attempt_count": 0,
        "max_attempts": 9,
        "attempts": [],
    }
    assert queued | expected == queued
    assert queued["id"] != failed["id"]
    since = time.monotonic()
    first, second = hook.wait(2)
    assert time.monotonic() - since < 3
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert service_signature_is_valid(second, endpoint["secret"])
    done = delivery_when(client, queued, delivery_has_ended)
    assert (done["status"], done["attempt_count"]) == ("succeeded", 1)
    # The row it was made from stays what it was.
    assert client.get(f"/v1/events/{failed['event_id']}/deliveries/{failed['id']}").ok() == failed
    assert {one["id"] for one in deliveries_of(client, failed["event_id"])} == {failed["id"], queued["id"]}


def test_a_success_can_be_sent_again_and_so_can_a_retry(
    client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    hook = receiver.hook()
    delivery = delivery_when(client, notify(client, subscribe(client, hook, "customer.created")), delivery_has_ended)
    for count in (2, 3):
        retry = f"/v1/events/{delivery['event_id']}/deliveries/{delivery['id']}/retry"
        queued = client.post(retry).ok(202)
        assert queued["retry_of"] == delivery["id"]
        delivery = delivery_when(client, queued, delivery_has_ended)
        assert delivery["status"] == "succeeded"
        assert len(hook.received) == count


def test_a_retry_by_hand_has_a_full_new_ladder(client: Client, subscribe: Subscribe, receiver: Receiver) -> None:
    hook = receiver.hook(404, 500, 500, 200)
    endpoint = subscribe(client, hook, "customer.created")
    failed = delivery_when(client, notify(client, endpoint), delivery_has_ended)
    queued = client.post(f"/v1/events/{failed['event_id']}/deliveries/{failed['id']}/retry").ok(202)
    done = delivery_when(client, queued, delivery_has_ended)
    assert done["status"] == "succeeded"
    assert [attempt["number"] for attempt in done["attempts"]] == [1, 2, 3]


def test_while_a_delivery_is_attempting_no_other_is_queued(
    client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    endpoint = subscribe(client, receiver.hook(500), "customer.created")
    delivery = waiting(client, endpoint)
    path = f"/v1/events/{delivery['event_id']}/deliveries"
    response = client.post(f"{path}/{delivery['id']}/retry")
    error = assert_error(response, 409, "delivery_in_progress")
    assert error["type"] == "conflict_error"
    assert len(deliveries_of(client, delivery["event_id"])) == 1


def test_while_a_retry_by_hand_is_attempting_no_other_is_queued(
    client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    endpoint = subscribe(client, receiver.hook(404, 500), "customer.created")
    failed = delivery_when(client, notify(client, endpoint), delivery_has_ended)
    retry = f"/v1/events/{failed['event_id']}/deliveries/{failed['id']}/retry"
    client.post(retry).ok(202)
    assert_error(client.post(retry), 409, "delivery_in_progress")


def test_of_several_retries_at_once_one_is_queued(client: Client, subscribe: Subscribe, receiver: Receiver) -> None:
    endpoint = subscribe(client, receiver.hook(404, 500), "customer.created")
    failed = delivery_when(client, notify(client, endpoint), delivery_has_ended)
    retry = f"/v1/events/{failed['event_id']}/deliveries/{failed['id']}/retry"
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda _: client.post(retry), range(5)))
    assert sorted(answer.status for answer in answers) == [202, 409, 409, 409, 409]
    assert len(deliveries_of(client, failed["event_id"])) == 2


def test_a_retry_is_refused_once_the_endpoint_is_deleted(
    client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    endpoint = subscribe(client, receiver.hook(404), "customer.created")
    failed = delivery_when(client, notify(client, endpoint), delivery_has_ended)
    client.delete(f"/v1/webhook_endpoints/{endpoint['id']}").ok()
    retry = f"/v1/events/{failed['event_id']}/deliveries/{failed['id']}/retry"
    assert_error(client.post(retry), 404, "resource_not_found")


def test_a_retry_is_refused_while_the_endpoint_is_disabled(
    client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    endpoint = subscribe(client, receiver.hook(404), "customer.created")
    failed = delivery_when(client, notify(client, endpoint), delivery_has_ended)
    client.patch(f"/v1/webhook_endpoints/{endpoint['id']}", {"enabled": False}).ok()
    retry = f"/v1/events/{failed['event_id']}/deliveries/{failed['id']}/retry"
    assert_error(client.post(retry), 409, "webhook_endpoint_disabled")


def test_a_retry_is_idempotent(client: Client, subscribe: Subscribe, receiver: Receiver) -> None:
    hook = receiver.hook(404, 200)
    failed = delivery_when(client, notify(client, subscribe(client, hook, "customer.created")), delivery_has_ended)
    retry = f"/v1/events/{failed['event_id']}/deliveries/{failed['id']}/retry"
    first = client.post(retry, idempotency_key=failed["id"])
    delivery_when(client, first.ok(202), delivery_has_ended)
    second = client.post(retry, idempotency_key=failed["id"])
    assert (second.status, second.body, second.replayed) == (202, first.body, True)
    assert len(deliveries_of(client, failed["event_id"])) == 2
