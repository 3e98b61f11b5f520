"""The whole of promise 0.6, on a runner of its own that takes 41 hours for 15 seconds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.support.client import Client, wait_for
from tests.support.client_actions import create_customer, delivery_has_ended, delivery_to, delivery_when, event_about
from tests.support.runner import local_runner, memory_folder
from tests.support.signed_receiver import Hook, Receiver, service_signature_is_valid

SPEED = 10_000
WAITS = (5, 30, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 24 * 3600)
"""Seconds before attempts 2 to 9."""

pytestmark = pytest.mark.runner("41 hours are too long at any other speed")


@pytest.fixture(scope="module")
def fast_client() -> Iterator[Client]:
    with memory_folder() as folder, local_runner(folder, SPEED) as service:
        yield service.client(service.projects[0].test_key)


@pytest.fixture(scope="module")
def failed_delivery(fast_client: Client, receiver: Receiver) -> dict[str, Any]:
    """A delivery to an endpoint that always fails: its end, and what was seen of it on the way."""
    hook = receiver.hook(500)
    endpoint = fast_client.post("/v1/webhook_endpoints", {"url": hook.url}).ok(201)
    event = event_about(fast_client, create_customer(fast_client)["id"], "customer.created")
    delivery = delivery_to(fast_client, event["id"], endpoint["id"])
    path = f"/v1/events/{event['id']}/deliveries/{delivery['id']}"
    seen: dict[int, Any] = {}

    def has_ended() -> bool:
        found = fast_client.get(path).ok()
        seen.setdefault(found["attempt_count"], found)
        return delivery_has_ended(found)

    wait_for(has_ended, timeout=90)
    return {"hook": hook, "endpoint": endpoint, "seen": seen, "end": fast_client.get(path).ok()}


def seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def test_after_nine_failed_attempts_the_delivery_has_failed(failed_delivery: dict[str, Any]) -> None:
    end = failed_delivery["end"]
    assert (end["status"], end["attempt_count"], end["max_attempts"]) == ("failed", 9, 9)
    assert [attempt["number"] for attempt in end["attempts"]] == list(range(1, 10))
    assert (end["response_status_code"], end["error_code"]) == (500, "http_error")
    assert end["next_attempt_at"] is None
    # At once, not a wait after the ninth attempt.
    assert 0 <= seconds(end["completed_at"]) - seconds(end["attempts"][-1]["at"]) < 2


def test_each_attempt_waits_its_turn(failed_delivery: dict[str, Any]) -> None:
    attempts = failed_delivery["end"]["attempts"]
    for wait, earlier, later in zip(WAITS, attempts[:-1], attempts[1:], strict=True):
        gap = seconds(later["at"]) - seconds(earlier["at"])
        assert wait / SPEED - 0.01 <= gap <= wait / SPEED + 3, f"{gap} s before attempt {later['number']}"


def test_the_next_attempt_is_announced_by_the_schedule(failed_delivery: dict[str, Any]) -> None:
    waiting = {count: found for count, found in failed_delivery["seen"].items() if found["next_attempt_at"] and count}
    assert {6, 7, 8} <= set(waiting)
    for count, found in waiting.items():
        gap = seconds(found["next_attempt_at"]) - seconds(found["attempts"][-1]["at"])
        assert WAITS[count - 1] / SPEED - 0.01 <= gap <= WAITS[count - 1] / SPEED + 0.7, f"after attempt {count}"


def test_every_attempt_sent_the_same_bytes(failed_delivery: dict[str, Any]) -> None:
    received = failed_delivery["hook"].received
    assert len(received) == 9
    assert len({one.body for one in received}) == 1
    assert all(service_signature_is_valid(one, failed_delivery["endpoint"]["secret"]) for one in received)


def test_a_failed_delivery_leaves_its_endpoint_enabled_and_can_be_retried_by_hand(
    fast_client: Client, failed_delivery: dict[str, Any]
) -> None:
    assert fast_client.get(f"/v1/webhook_endpoints/{failed_delivery['endpoint']['id']}").ok()["enabled"] is True
    hook: Hook = failed_delivery["hook"]
    hook.answer(200)
    path = f"/v1/events/{failed_delivery['end']['event_id']}/deliveries"
    queued = fast_client.post(f"{path}/{failed_delivery['end']['id']}/retry").ok(202)
    done = delivery_when(fast_client, queued, delivery_has_ended)
    assert (done["status"], done["attempt_count"]) == ("succeeded", 1)
    assert fast_client.get(f"{path}/{failed_delivery['end']['id']}").ok() == failed_delivery["end"]
