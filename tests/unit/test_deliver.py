"""What the worker does about a wake-up: a pure function of the delivery, its endpoint and the wake-up's queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from functions import deliver
from functions.deliver import Cancel, ClaimedDelivery, Fail, Move, Send
from shared.core import clock, metrics
from shared.store.keys import Scope
from shared.tasks import tasks
from shared.webhooks import health, queues
from shared.webhooks.endpoints import resource as endpoints
from shared.webhooks.queues import Arrival, Destination
from tests.support.clocks import Clock
from tests.support.snapshots import snapshot

NOW = clock.Instant(1_800_000_000_000)
LATE = 5_000
HEALTHY = snapshot(generation=2)
SLOW = replace(HEALTHY, slow_attempts=health.SLOW_ATTEMPTS, slow_until=NOW)
HANGING = replace(SLOW, timeouts=endpoints.HANGING_FROM)
CLOSED = replace(HANGING, generation=3)
QUEUES = (queues.FIRST, queues.RETRIES, queues.SLOW, queues.HANGING, queues.MANUAL, None)


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    import time

    stopped = Clock(NOW / 1000)
    clock.use(lambda: stopped.now, stopped.forward)
    yield
    clock.use(time.time, time.sleep)


def claimed_delivery(number: int = 1, lost: int = 0, trigger: str = "automatic") -> ClaimedDelivery:
    row: Any = {"generation": 2, "due_at": NOW - LATE, "lease": "mine", "lease_until": NOW + 60_000, "lost": lost}
    doc: Any = {"attempt_count": number - 1, "trigger": trigger}
    return ClaimedDelivery(Scope(1, False), tasks.Claim(row, "mine"), doc)


def decide_on(
    endpoint: endpoints.EndpointSnapshot | None,
    queue: str | None,
    claim: ClaimedDelivery | None = None,
    waited: int = 0,
) -> deliver.Decision:
    return deliver.decide(claim or claimed_delivery(), endpoint, Arrival(queue, waited))


@pytest.mark.parametrize("queue", QUEUES)
def test_what_must_not_be_sent_is_canceled_and_what_killed_its_workers_fails_on_every_queue(queue: str | None) -> None:
    killer = claimed_delivery(lost=tasks.MAX_LOST_WORKERS)
    for claim in (claimed_delivery(), killer):
        assert decide_on(None, queue, claim) == decide_on(CLOSED, queue, claim) == Cancel()
    for endpoint in (HEALTHY, SLOW, HANGING):
        assert decide_on(endpoint, queue, killer) == Fail(endpoint)


@pytest.mark.parametrize("queue", QUEUES)
def test_an_attempt_to_a_healthy_endpoint_is_made_wherever_its_wake_up_comes_from(queue: str | None) -> None:
    assert isinstance(decide_on(HEALTHY, queue), Send)


def test_an_attempt_to_a_slow_endpoint_is_made_from_the_queue_of_slow_or_hanging_ones() -> None:
    for queue in (queues.FIRST, queues.RETRIES, None):
        assert decide_on(SLOW, queue) == Move(Destination(queues.SLOW, "whk_1"), put_off_until=None)
    for queue in (queues.SLOW, queues.HANGING):
        assert isinstance(decide_on(SLOW, queue), Send)


def test_an_attempt_to_a_hanging_endpoint_is_put_off_unless_it_is_the_one_of_its_interval() -> None:
    probe = str(NOW // queues.PROBE_EVERY_MS)
    for queue in (queues.FIRST, queues.RETRIES, queues.SLOW, None):
        expected = Move(
            Destination(queues.HANGING, "whk_1", once=probe), put_off_until=NOW + queues.PUT_OFF_RANGE_S[0] * 1000
        )
        assert decide_on(HANGING, queue) == expected
    assert isinstance(decide_on(HANGING, queues.HANGING), Send)


@pytest.mark.parametrize("trigger", ["manual", "test"])
def test_the_first_attempt_that_a_person_asks_for_does_not_wait_for_others(trigger: str) -> None:
    asked = claimed_delivery(trigger=trigger)
    assert decide_on(HANGING, queues.RETRIES, asked) == Move(Destination(queues.MANUAL, "whk_1"), put_off_until=None)
    assert decide_on(HANGING, queues.MANUAL, asked, waited=70) == Send(HANGING, metrics.HANGING_ENDPOINTS, 70)
    assert isinstance(decide_on(SLOW, queues.MANUAL, asked), Send)
    second = claimed_delivery(2, trigger=trigger)
    assert decide_on(HANGING, queues.RETRIES, second) == decide_on(HANGING, queues.RETRIES)


def test_lateness_is_that_of_the_queue_class() -> None:
    assert decide_on(HEALTHY, queues.FIRST) == Send(HEALTHY, metrics.FIRST_ATTEMPTS, LATE)
    assert decide_on(HEALTHY, queues.RETRIES) == Send(HEALTHY, metrics.FIRST_ATTEMPTS, LATE), "sweep found it"
    assert decide_on(HEALTHY, queues.RETRIES, claimed_delivery(number=2)) == Send(HEALTHY, metrics.LATER_ATTEMPTS, LATE)
    assert decide_on(SLOW, queues.SLOW) == Send(SLOW, metrics.SLOW_ENDPOINTS, LATE)
    assert decide_on(HANGING, queues.HANGING, waited=70) == Send(HANGING, metrics.HANGING_ENDPOINTS, 70)
