"""Promises 9: deliveries to endpoints that are disabled or deleted."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.support.client import Client, assert_error, wait_for
from tests.support.client_actions import (
    Subscribe,
    deliveries_of,
    delivery_has_ended,
    delivery_when,
    notify,
    seconds,
    waiting,
)
from tests.support.receivers import Exchange, answer
from tests.support.runner import Service
from tests.support.signed_receiver import Receiver


@pytest.mark.parametrize("how", ["disable", "delete"])
def test_waiting_deliveries_are_canceled_at_once(
    client: Client, subscribe: Subscribe, receiver: Receiver, how: str
) -> None:
    endpoint = subscribe(client, receiver.hook(500), "customer.created")
    delivery = waiting(client, endpoint)
    assert delivery["status"] == "attempting"
    path = f"/v1/webhook_endpoints/{endpoint['id']}"
    if how == "disable":
        client.patch(path, {"enabled": False}).ok()
    else:
        client.delete(path).ok()
    (listed,) = deliveries_of(client, delivery["event_id"])
    found = client.get(f"/v1/events/{delivery['event_id']}/deliveries/{delivery['id']}").ok()
    for shown in (listed, found):
        assert shown["status"] == "canceled"
        assert shown["next_attempt_at"] is None
        assert shown["completed_at"] is not None


def test_a_canceled_delivery_is_never_sent_even_if_the_endpoint_is_enabled_again(
    service: Service, client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    assert service.speed
    hook = receiver.hook(500)
    endpoint = subscribe(client, hook, "customer.created")
    delivery = waiting(client, endpoint)
    path = f"/v1/webhook_endpoints/{endpoint['id']}"
    client.patch(path, {"enabled": False}).ok()
    client.patch(path, {"enabled": True}).ok()
    due = seconds(delivery["next_attempt_at"])
    wait_for(lambda: time.time() > due + 1.5, timeout=30)
    found = client.get(f"/v1/events/{delivery['event_id']}/deliveries/{delivery['id']}").ok()
    assert (found["status"], found["attempt_count"]) == ("canceled", 3)
    assert len(hook.received) == 3


@pytest.mark.parametrize(
    ("how", "status", "end", "refusals"),
    [
        ("disable", 200, "succeeded", ("delivery_in_progress", "webhook_endpoint_disabled")),
        ("delete", 500, "canceled", ("resource_not_found", "resource_not_found")),
        ("disable_and_enable", 404, "canceled", ("delivery_in_progress", None)),
    ],
)
def test_what_is_being_sent_stays_attempting_until_its_attempt_has_ended(
    client: Client, subscribe: Subscribe, receiver: Receiver, how: str, status: int, end: str, refusals: Any
) -> None:
    answered = threading.Event()

    def answer_late(exchange: Exchange) -> None:
        answered.wait(60)
        answer(status)(exchange)

    hook = receiver.hook(answer_late, 200)
    endpoint = subscribe(client, hook, "customer.created")
    delivery = notify(client, endpoint)
    hook.wait()
    path = f"/v1/webhook_endpoints/{endpoint['id']}"
    if how == "delete":
        client.delete(path).ok()
    else:
        client.patch(path, {"enabled": False}).ok()
    if how == "disable_and_enable":
        client.patch(path, {"enabled": True}).ok()
    retry = f"/v1/events/{delivery['event_id']}/deliveries/{delivery['id']}/retry"
    assert deliveries_of(client, delivery["event_id"]) == [delivery]
    assert_error(client.post(retry), 404 if how == "delete" else 409, refusals[0])
    assert delivery_when(client, delivery, lambda found: not delivery_has_ended(found)) == delivery
    answered.set()
    done = delivery_when(client, delivery, delivery_has_ended)
    assert (done["status"], done["response_status_code"], done["attempt_count"]) == (end, status, 1)
    assert done["next_attempt_at"] is None
    assert done["completed_at"] >= done["last_attempt_at"]
    if refusals[1]:
        assert_error(client.post(retry), 404 if how == "delete" else 409, refusals[1])
    else:
        delivery_when(client, client.post(retry).ok(202), delivery_has_ended)
    assert delivery_when(client, delivery, delivery_has_ended) == done
    assert len(hook.received) == (1 if refusals[1] else 2)


def test_a_disabled_endpoint_is_sent_nothing_and_can_be_caught_up_by_hand(
    client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    hook = receiver.hook()
    endpoint = subscribe(client, hook, "customer.created")
    path = f"/v1/webhook_endpoints/{endpoint['id']}"
    client.patch(path, {"enabled": False}).ok()
    canceled = notify(client, endpoint)
    assert (canceled["status"], canceled["error_code"]) == ("canceled", "endpoint_disabled")
    assert canceled["attempt_count"] == 0
    assert canceled["attempts"] == []
    assert canceled["next_attempt_at"] is None
    retry = f"/v1/events/{canceled['event_id']}/deliveries/{canceled['id']}/retry"
    assert_error(client.post(retry), 409, "webhook_endpoint_disabled")
    client.patch(path, {"enabled": True}).ok()
    queued = client.post(retry).ok(202)
    assert (queued["trigger"], queued["retry_of"]) == ("manual", canceled["id"])
    assert delivery_when(client, queued, delivery_has_ended)["status"] == "succeeded"
    (received,) = hook.received
    assert received.event["id"] == canceled["event_id"]
