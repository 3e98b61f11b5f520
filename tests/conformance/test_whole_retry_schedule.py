"""The whole of promise 0.6, on a runner of its own that takes 41 hours for 15 seconds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.support.client import Client, eventually
from tests.support.given import create_customer, delivery_to, delivery_when, ended, event_about
from tests.support.runner import local_runner, quick_folder
from tests.support.signed_receiver import Hook, Receiver, service_signature_is_valid

SPEED = 10_000
WAITS = (5, 30, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 24 * 3600)
"""Seconds before attempts 2 to 9."""

pytestmark = pytest.mark.runner("41 hours are too long at any other speed")


@pytest.fixture(scope="module")
def hurried() -> Iterator[Client]:
    with quick_folder() as folder, local_runner(folder, SPEED) as service:
        yield service.client(service.projects[0].test_key)


@pytest.fixture(scope="module")
def climb(hurried: Client, receiver: Receiver) -> dict[str, Any]:
    """A delivery to an endpoint that always fails: its end, and what was seen of it on the way."""
    hook = receiver.hook(500)
    endpoint = hurried.post("/v1/webhook_endpoints", {"url": hook.url}).ok(201)
    event = event_about(hurried, create_customer(hurried)["id"], "customer.created")
    delivery = delivery_to(hurried, event["id"], endpoint["id"])
    path = f"/v1/events/{event['id']}/deliveries/{delivery['id']}"
    seen: dict[int, Any] = {}

    def has_ended() -> bool:
        found = hurried.get(path).ok()
        seen.setdefault(found["attempt_count"], found)
        return ended(found)

    eventually(has_ended, timeout=90)
    return {"hook": hook, "endpoint": endpoint, "seen": seen, "end": hurried.get(path).ok()}


def seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def test_after_nine_failed_attempts_the_delivery_has_failed(climb: dict[str, Any]) -> None:
    end = climb["end"]
    assert (end["status"], end["attempt_count"], end["max_attempts"]) == ("failed", 9, 9)
    assert [attempt["number"] for attempt in end["attempts"]] == list(range(1, 10))
    assert (end["response_status_code"], end["error_code"]) == (500, "http_error")
    assert end["next_attempt_at"] is None
    # At once, not a wait after the ninth attempt.
    assert 0 <= seconds(end["completed_at"]) - seconds(end["attempts"][-1]["at"]) < 2


def test_each_attempt_waits_its_turn(climb: dict[str, Any]) -> None:
    attempts = climb["end"]["attempts"]
    for wait, earlier, later in zip(WAITS, attempts[:-1], attempts[1:], strict=True):
        gap = seconds(later["at"]) - seconds(earlier["at"])
        assert wait / SPEED - 0.01 <= gap <= wait / SPEED + 3, f"{gap} s before attempt {later['number']}"


def test_the_next_attempt_is_announced_by_the_schedule(climb: dict[str, Any]) -> None:
    waiting = {count: found for count, found in climb["seen"].items() if found["next_attempt_at"] and count}
    assert {6, 7, 8} <= set(waiting)
    for count, found in waiting.items():
        gap = seconds(found["next_attempt_at"]) - seconds(found["attempts"][-1]["at"])
        assert WAITS[count - 1] / SPEED - 0.01 <= gap <= WAITS[count - 1] / SPEED + 0.7, f"after attempt {count}"


def test_every_attempt_sent_the_same_bytes(climb: dict[str, Any]) -> None:
    received = climb["hook"].received
    assert len(received) == 9
    assert len({one.body for one in received}) == 1
    assert all(service_signature_is_valid(one, climb["endpoint"]["secret"]) for one in received)


def test_a_failed_delivery_leaves_its_endpoint_enabled_and_can_be_retried_by_hand(
    hurried: Client, climb: dict[str, Any]
) -> None:
    assert hurried.get(f"/v1/webhook_endpoints/{climb['endpoint']['id']}").ok()["enabled"] is True
    hook: Hook = climb["hook"]
    hook.answer(200)
    path = f"/v1/events/{climb['end']['event_id']}/deliveries"
    queued = hurried.post(f"{path}/{climb['end']['id']}/retry").ok(202)
    done = delivery_when(hurried, queued, ended)
    assert (done["status"], done["attempt_count"]) == ("succeeded", 1)
    assert hurried.get(f"{path}/{climb['end']['id']}").ok() == climb["end"]
