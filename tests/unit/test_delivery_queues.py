"""No endpoint delays another, and a busy one is served at its pace (promise 9.10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest

from functions import deliver
from shared.core import clock
from shared.store import transactions
from shared.tasks import batches, tasks
from shared.webhooks import health, http_client, queues
from shared.webhooks.deliveries.resource import DeliveryError
from shared.webhooks.endpoints import resource as endpoints
from shared.webhooks.http_client import AttemptOutcome
from shared.webhooks.queues import Arrival
from tests.support.virtual_queues import DELIVER, SOURCES, TIMEOUT, DeliveryQueues, Receiver, virtual_queues

QUICK = 0.05
"""Seconds in which a healthy receiver responds."""
SLUGGISH = 8.0
"""Seconds in which a slow one does."""


def share(queue: str) -> int:
    """The most attempts that a queue's executions make concurrently."""
    return SOURCES[queue].concurrency * SOURCES[queue].batch_size


@pytest.fixture
def stage() -> Iterator[DeliveryQueues]:
    with virtual_queues() as found:
        yield found


def healthy_ones(stage: DeliveryQueues, seconds: float) -> list[Receiver]:
    """Twenty healthy endpoints, each with five events a second and a test event every two seconds."""
    receivers = [stage.receiver(f"whk_healthy{number}", QUICK) for number in range(20)]
    for receiver in receivers:
        stage.send(receiver, 5, seconds)
        stage.send_test_events(receiver, 0.5, seconds)
    return receivers


def latest(*receivers: Receiver) -> float:
    """The longest that an attempt to one of these was late, in seconds."""
    return max(late for receiver in receivers for late in (*receiver.late, *receiver.others_late))


def share_above(seconds: float, late: Sequence[float]) -> float:
    return sum(each > seconds for each in late) / len(late)


def test_a_hanging_endpoint_does_not_delay_healthy_ones(stage: DeliveryQueues) -> None:
    healthy = healthy_ones(stage, 60)
    hanging = stage.receiver("whk_hanging", TIMEOUT)
    stage.send(hanging, 50, 60)
    stage.run(61)
    assert {len(receiver.late) for receiver in healthy} == {60 * 5}
    assert latest(*healthy) < 1
    # Before it is known to hang: a batch, and the retries of the attempts before.
    assert hanging.most_in_flight < SOURCES[queues.FIRST].batch_size + endpoints.HANGING_FROM


def test_a_hanging_endpoint_has_one_attempt_at_a_time_however_many_events_it_has(stage: DeliveryQueues) -> None:
    hanging = stage.receiver("whk_hanging", TIMEOUT)
    stage.send(hanging, 50, 300)
    stage.run(60)
    assert hanging.snapshot.hanging
    hanging.most_in_flight = hanging.in_flight
    stage.run(240)
    assert hanging.most_in_flight == 1
    assert stage.length(queues.HANGING) < 10


def test_many_endpoints_that_hang_together_have_one_share_of_the_worker(stage: DeliveryQueues) -> None:
    hanging = [stage.receiver(f"whk_hanging{number}", TIMEOUT) for number in range(200)]
    for receiver in hanging:
        stage.send(receiver, 1, 150)
    stage.run(90)
    # From here on the service knows them; their first retries come, too.
    assert all(receiver.snapshot.hanging for receiver in hanging)
    healthy = healthy_ones(stage, 60)
    stage.most_running.clear()
    stage.run(61)
    assert latest(*healthy) < 1
    assert stage.most_running[queues.HANGING] == SOURCES[queues.HANGING].concurrency
    assert sum(receiver.in_flight for receiver in hanging) <= share(queues.HANGING)
    assert stage.most_running[queues.FIRST] < 25


def test_slow_endpoints_that_respond_are_not_delayed_by_hanging_ones(stage: DeliveryQueues) -> None:
    slow = [stage.receiver(f"whk_slow{number}", SLUGGISH) for number in range(4)]
    hanging = [stage.receiver(f"whk_hanging{number}", TIMEOUT) for number in range(50)]
    for receiver in (*slow, *hanging):
        stage.send(receiver, 1, 240)
    stage.run(120)
    for receiver in slow:
        assert receiver.snapshot.slow
        receiver.late.clear()
    stage.run(120 + 2 * SLUGGISH)
    assert latest(*slow) < 1
    assert {receiver.ended for receiver in slow} == {240}


def test_test_events_and_manual_retries_do_not_wait_for_endpoints_that_hang(stage: DeliveryQueues) -> None:
    hanging = [stage.receiver(f"whk_hanging{number}", TIMEOUT) for number in range(50)]
    for receiver in hanging:
        stage.send(receiver, 1, 240)
    stage.run(120)
    assert all(receiver.snapshot.hanging for receiver in hanging)
    for receiver in hanging[:3]:
        stage.send_test_events(receiver, 2, 2)
    stage.run(100)
    assert [len(receiver.others_late) for receiver in hanging[:4]] == [4, 4, 4, 0]
    assert max(late for receiver in hanging for late in receiver.others_late) < 1


def test_test_events_to_hanging_endpoints_delay_nothing_else_however_many_there_are(stage: DeliveryQueues) -> None:
    slow = stage.receiver("whk_slow", SLUGGISH)
    hanging, flooded = (stage.receiver(f"whk_hanging{number}", TIMEOUT) for number in range(2))
    for receiver in (slow, hanging, flooded):
        stage.send(receiver, 1, 240)
    stage.run(120)
    slow.late.clear()
    healthy = healthy_ones(stage, 120)
    stage.send_test_events(flooded, 80, 60)
    stage.run(30)
    hanging.seconds = QUICK
    stage.run(90 + 2 * SLUGGISH)
    assert latest(*healthy) < 1
    assert latest(slow) < 1
    assert not hanging.snapshot.hanging
    assert flooded.most_in_flight <= share(queues.MANUAL) + share(queues.RETRIES) // 10
    assert stage.most_running[queues.RETRIES] < SOURCES[queues.RETRIES].concurrency


def test_a_delivery_that_is_put_off_is_taken_up_when_it_was_planned(stage: DeliveryQueues) -> None:
    hanging = stage.receiver("whk_hanging", TIMEOUT)
    stage.send(hanging, 5, 600)
    stage.run(3600)
    assert len(hanging.off_plan) > 5 * 600
    assert max(hanging.off_plan) < 1
    # SQS delays by whole seconds, and `sweep` sends a few wake-ups twice.
    assert share_above(-0.5, hanging.off_plan) > 0.99


def test_an_endpoint_that_responds_again_has_its_backlog_within_twice_the_outage(stage: DeliveryQueues) -> None:
    receiver = stage.receiver("whk_1", QUICK)
    stage.send(receiver, 10, 900)
    stage.run(60)
    receiver.seconds = TIMEOUT
    stage.run(200)
    receiver.seconds = QUICK
    stage.run(641)
    assert receiver.ended == 10 * 900
    assert latest(receiver) < 3 * 200
    assert not receiver.snapshot.slow
    assert max(receiver.late[-100:]) < 1


def test_a_busy_endpoint_that_begins_to_hang_delays_no_other_and_is_served_again_when_it_responds(
    stage: DeliveryQueues,
) -> None:
    healthy = healthy_ones(stage, 80)
    busy = stage.receiver("whk_busy", QUICK)
    stage.send(busy, 100, 40)
    stage.run(10)
    busy.seconds = TIMEOUT
    stage.run(20)
    assert busy.snapshot.hanging
    busy.seconds = QUICK
    stage.run(51)
    # A batch with its first attempt that hangs holds back their groups for a second.
    assert latest(*healthy) < 1 + batches.DELETE_EVERY_S
    stage.run(180)
    assert busy.ended == 100 * 40, "its backlog is delivered"
    stage.send(busy, 1, 120)
    stage.run(121)
    assert not busy.snapshot.slow
    assert max(busy.late[-60:]) < 1


def test_a_healthy_endpoint_gets_a_hundred_events_a_second(stage: DeliveryQueues) -> None:
    busy, quiet = stage.receiver("whk_busy", QUICK), stage.receiver("whk_quiet", QUICK)
    stage.send(busy, 100, 60)
    stage.send(quiet, 1, 60)
    stage.run(61)
    assert len(busy.late) == 100 * 60
    assert share_above(1, busy.late) < 0.02
    assert latest(busy) < 5
    assert max(busy.late[len(busy.late) // 2 :]) < 1
    assert not busy.snapshot.slow
    assert latest(quiet) < 1


def test_a_stage_makes_fifteen_hundred_deliveries_a_second(stage: DeliveryQueues) -> None:
    receivers = [stage.receiver(f"whk_{number}", QUICK) for number in range(300)]
    for receiver in receivers:
        stage.send(receiver, 5, 6)
    stage.run(7)
    late = [each for receiver in receivers for each in receiver.late]
    assert len(late) == 1_500 * 6
    assert share_above(1, late) == 0


def test_an_endpoint_that_is_not_busy_gets_one_event_at_a_time(stage: DeliveryQueues) -> None:
    receiver = stage.receiver("whk_1", QUICK)
    stage.send(receiver, 6, 60)
    stage.run(61)
    assert [number for _, number in receiver.order] == [*range(6 * 60)]
    assert receiver.most_in_flight == 1


def test_events_of_an_object_start_in_order_to_a_busy_endpoint(stage: DeliveryQueues) -> None:
    receiver = stage.receiver("whk_1", QUICK)
    stage.send(receiver, 100, 30)
    stage.run(31)
    # A busy endpoint has its groups after the first events.
    settled = receiver.order[len(receiver.order) // 2 :]
    of_object: dict[str, list[int]] = {}
    for object_id, number in settled:
        of_object.setdefault(object_id, []).append(number)
    assert all(earlier < later for numbers in of_object.values() for earlier, later in pairwise(numbers))


def test_the_worker_has_time_for_the_longest_batch() -> None:
    """Its messages run concurrently: one waits for the previous one, until it is due, and for a receiver that hangs."""
    waits = (batches.IN_ORDER_FOR_MS + tasks.EARLY_MS) / clock.SECOND
    handling = http_client.DEADLINE_S + transactions.CONFLICT_S
    assert waits + handling < DELIVER.timeout_s
    assert handling < deliver.LEASE_MS / clock.SECOND


def outcome(seconds: float, error: DeliveryError | None = None) -> AttemptOutcome:
    return AttemptOutcome(None if error else 200, error, None, int(seconds * 1000))


ON_TIME = Arrival(queues.FIRST, 0)
SLOW = outcome(health.SLOW_ATTEMPT_MS / 1000)
TIMED_OUT = outcome(TIMEOUT, DeliveryError.TIMEOUT)


def mark_attempts(
    endpoint: Receiver, *outcomes: AttemptOutcome, arrival: Arrival = ON_TIME
) -> endpoints.EndpointSnapshot:
    for each in outcomes:
        endpoint.mark(health.mark(endpoint.snapshot, each, arrival))
    return endpoint.snapshot


def test_one_or_two_slow_attempts_do_not_move_an_endpoint(stage: DeliveryQueues) -> None:
    endpoint = stage.receiver("whk_1", QUICK)
    for _ in range(3):
        found = mark_attempts(endpoint, *[SLOW] * (health.SLOW_ATTEMPTS - 1))
        assert not found.slow
        found = mark_attempts(endpoint, outcome(QUICK))
        assert found.slow_attempts == 0
        found = mark_attempts(endpoint, TIMED_OUT, TIMED_OUT, outcome(QUICK))
        assert (found.slow, found.hanging, found.timeouts, found.slow_attempts) == (False, False, 0, 0)
    assert health.mark(endpoint.snapshot, outcome(QUICK), ON_TIME) == {}, "written for each attempt"


def test_a_delivery_to_a_hanging_endpoint_is_put_off_until_its_lateness_has_tripled(stage: DeliveryQueues) -> None:
    now = clock.now()
    assert queues.put_off_until(now) == queues.put_off_until(now - 30_000) == now + 90_000
    assert queues.put_off_until(now - clock.HOUR) == now + 2 * clock.HOUR
    assert queues.put_off_until(now - 2 * clock.DAY) == now + clock.DAY


def test_an_endpoint_is_slow_until_it_is_quick_a_minute_later(stage: DeliveryQueues) -> None:
    endpoint = stage.receiver("whk_1", QUICK)
    begun = clock.now()
    found = mark_attempts(endpoint, *[SLOW] * health.SLOW_ATTEMPTS)
    assert (found.slow, found.slow_until, found.hanging) == (True, begun + health.SLOW_FOR_MS, False)
    stage.run(29)
    assert health.mark(endpoint.snapshot, SLOW, ON_TIME) == {}, "written for each attempt"
    stage.run(2)
    assert health.mark(endpoint.snapshot, SLOW, ON_TIME) == {"slow_until": clock.now() + health.SLOW_FOR_MS}
    assert health.mark(endpoint.snapshot, outcome(QUICK), ON_TIME) == {}
    stage.run(3600)
    assert endpoint.snapshot.slow
    found = mark_attempts(endpoint, outcome(QUICK))
    assert (found.slow, found.slow_attempts) == (False, 0)


def test_an_endpoint_that_hangs_is_slow_from_its_first_response(stage: DeliveryQueues) -> None:
    endpoint = stage.receiver("whk_1", QUICK)
    assert mark_attempts(endpoint, *[TIMED_OUT] * endpoints.HANGING_FROM).hanging
    assert health.mark(endpoint.snapshot, TIMED_OUT, ON_TIME) == {}, "written for each attempt"
    stage.run(3600)
    found = mark_attempts(endpoint, outcome(QUICK))
    assert (found.hanging, found.slow) == (False, True)
    stage.run(health.SLOW_FOR_MS / clock.SECOND)
    found = mark_attempts(endpoint, outcome(QUICK))
    assert (found.hanging, found.slow) == (False, False)


def test_failures_that_are_quick_do_not_move_an_endpoint(stage: DeliveryQueues) -> None:
    endpoint = stage.receiver("whk_1", QUICK)
    found = mark_attempts(endpoint, *[outcome(QUICK, DeliveryError.CONNECTION_REFUSED)] * 10)
    assert (found.slow, found.hanging) == (False, False)


def test_an_endpoint_is_busy_while_its_first_attempts_wait_and_it_responds(stage: DeliveryQueues) -> None:
    def group(object_id: str) -> str:
        destination = queues.first(endpoint.snapshot, object_id)
        assert destination.queue == queues.FIRST
        return destination.group

    endpoint, behind = stage.receiver("whk_1", QUICK), Arrival(queues.FIRST, health.BEHIND_MS + 1)
    assert health.mark(endpoint.snapshot, outcome(QUICK), Arrival(queues.FIRST, health.BEHIND_MS)) == {}
    assert health.mark(endpoint.snapshot, outcome(QUICK), Arrival(queues.RETRIES, health.BEHIND_MS + 1)) == {}
    assert "busy_until" not in health.mark(endpoint.snapshot, SLOW, behind)
    assert group("cus_1") == "whk_1"
    mark_attempts(endpoint, outcome(QUICK), arrival=behind)
    assert len({group(f"cus_{number}") for number in range(500)}) == queues.BUSY_GROUPS
    assert group("cus_1") == group("cus_1")
    assert health.mark(endpoint.snapshot, outcome(QUICK), behind) == {}, "written for each attempt"
    stage.run(health.BUSY_FOR_MS / clock.SECOND)
    assert group("cus_1") == "whk_1"
