"""No endpoint delays another, and a busy one is served at its pace (specification, "Retry behavior"; README)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest

from shared.core import clock
from shared.webhooks import deliveries, http_client, lanes
from shared.work import batches, owed
from tests.support.virtual_lanes import DELIVER, SOURCES, TIMEOUT, Lanes, Receiver, virtual_lanes

QUICK = 0.05
"""Seconds in which a healthy receiver responds."""
SLOW_SHARE = SOURCES[lanes.SLOW].concurrency


@pytest.fixture
def stage() -> Iterator[Lanes]:
    with virtual_lanes() as found:
        yield found


def healthy_ones(stage: Lanes, seconds: float) -> list[Receiver]:
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


def test_a_hanging_endpoint_does_not_delay_healthy_ones(stage: Lanes) -> None:
    healthy = healthy_ones(stage, 60)
    hanging = stage.receiver("whk_hanging", TIMEOUT)
    stage.send(hanging, 50, 60)
    stage.run(61)
    assert {len(receiver.late) for receiver in healthy} == {60 * 5}
    assert latest(*healthy) < 1
    # The first batch, which nobody could know to hang, and then its share.
    assert hanging.most_in_flight <= SOURCES[lanes.FIRST].batch_size + SLOW_SHARE


def test_many_endpoints_that_hang_together_have_one_share_of_the_worker(stage: Lanes) -> None:
    hanging = [stage.receiver(f"whk_hanging{number}", TIMEOUT) for number in range(100)]
    for receiver in hanging:
        stage.send(receiver, 1, 90)
    stage.run(30)
    # From here on the service knows them; their first retries come, too.
    healthy = healthy_ones(stage, 60)
    for receiver in hanging:
        receiver.most_in_flight = receiver.in_flight
    stage.most_running.clear()
    stage.run(61)
    assert latest(*healthy) < 1
    assert stage.most_running[lanes.SLOW] == SLOW_SHARE
    assert sum(receiver.in_flight for receiver in hanging) <= SLOW_SHARE
    assert max(stage.most_running[queue] for queue in (lanes.FIRST, lanes.LATER)) < 25


def test_a_busy_endpoint_that_begins_to_hang_delays_no_other_and_is_served_again_when_it_responds(
    stage: Lanes,
) -> None:
    healthy = healthy_ones(stage, 80)
    busy = stage.receiver("whk_busy", QUICK)
    stage.send(busy, 100, 40)
    stage.run(10)
    busy.seconds = TIMEOUT
    stage.run(20)
    assert busy.snapshot.slow
    busy.seconds = QUICK
    stage.run(51)
    assert len(busy.late) == 100 * 40, "its backlog is delivered"
    assert latest(*healthy) < 1
    stage.send(busy, 1, 120)
    stage.run(121)
    assert not busy.snapshot.slow
    assert max(busy.late[-60:]) < 1


def test_a_healthy_endpoint_gets_a_hundred_events_a_second(stage: Lanes) -> None:
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


def test_a_stage_makes_fifteen_hundred_deliveries_a_second(stage: Lanes) -> None:
    receivers = [stage.receiver(f"whk_{number}", QUICK) for number in range(300)]
    for receiver in receivers:
        stage.send(receiver, 5, 6)
    stage.run(7)
    late = [each for receiver in receivers for each in receiver.late]
    assert len(late) == 1_500 * 6
    assert share_above(1, late) == 0


def test_an_endpoint_that_is_not_busy_gets_one_event_at_a_time(stage: Lanes) -> None:
    receiver = stage.receiver("whk_1", QUICK)
    stage.send(receiver, 6, 60)
    stage.run(61)
    assert [number for _, number in receiver.order] == [*range(6 * 60)]
    assert receiver.most_in_flight == 1


def test_events_of_an_object_start_in_order_to_a_busy_endpoint(stage: Lanes) -> None:
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
    waits = (batches.IN_ORDER_FOR + owed.EARLY) / clock.SECOND
    handling = http_client.DEADLINE + owed.CONFLICT_SECONDS
    assert waits + handling < DELIVER.timeout
    assert handling < deliveries.LEASE / clock.SECOND


def test_an_endpoint_is_slow_until_it_is_quick_a_minute_later(stage: Lanes) -> None:
    endpoint = stage.receiver("whk_1", QUICK)
    assert lanes.marks(endpoint.snapshot, lanes.SLOW_ATTEMPT - 1, 0) == {}
    begun = clock.now()
    endpoint.mark(lanes.marks(endpoint.snapshot, lanes.SLOW_ATTEMPT, 0))
    assert (endpoint.snapshot.slow, endpoint.snapshot.slow_until) == (True, begun + lanes.SLOW_FOR)
    stage.run(29)
    assert lanes.marks(endpoint.snapshot, lanes.SLOW_ATTEMPT, 0) == {}, "written for each attempt"
    stage.run(2)
    assert lanes.marks(endpoint.snapshot, lanes.SLOW_ATTEMPT, 0) == {"slow_until": clock.now() + lanes.SLOW_FOR}
    assert lanes.marks(endpoint.snapshot, 50, 0) == {}
    stage.run(3600)
    assert endpoint.snapshot.slow
    assert lanes.marks(endpoint.snapshot, 50, 0) == {"slow_until": None}


def test_an_endpoint_is_busy_while_its_first_attempts_wait_and_it_responds(stage: Lanes) -> None:
    endpoint = stage.receiver("whk_1", QUICK)
    assert lanes.marks(endpoint.snapshot, 50, lanes.BEHIND) == {}
    assert "busy_until" not in lanes.marks(endpoint.snapshot, lanes.SLOW_ATTEMPT, lanes.BEHIND + 1)
    assert lanes.group(endpoint.snapshot, "cus_1") == "whk_1"
    endpoint.mark(lanes.marks(endpoint.snapshot, 50, lanes.BEHIND + 1))
    groups = {lanes.group(endpoint.snapshot, f"cus_{number}") for number in range(500)}
    assert len(groups) == lanes.BUSY_GROUPS
    assert lanes.group(endpoint.snapshot, "cus_1") == lanes.group(endpoint.snapshot, "cus_1")
    assert lanes.marks(endpoint.snapshot, 50, lanes.BEHIND + 1) == {}, "written for each attempt"
    stage.run(lanes.BUSY_FOR / clock.SECOND)
    assert lanes.group(endpoint.snapshot, "cus_1") == "whk_1"
