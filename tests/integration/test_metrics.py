"""What the functions measure of deliveries, turns and calls, in CloudWatch's metric format."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from functions import deliver
from shared.core import clock, metrics
from shared.tasks import tasks
from tests.support import simulated_calls
from tests.support.clocks import Clock
from tests.support.conversations import Thread, new_thread, send_and_get
from tests.support.deliveries import lose_worker, mark, new_event, only_delivery_at, wake_up
from tests.support.log_lines import ids, lines
from tests.support.receivers import Receiver, answer
from tests.support.resources import create_and_get_path
from tests.support.stage import Stage
from tests.support.wire import Fault, lose_response, wire


def metric_lines(printed: pytest.CaptureFixture[str], name: str) -> list[dict[str, Any]]:
    """The lines printed since the last look that measure this."""
    lines = [json.loads(line) for line in printed.readouterr().out.splitlines() if line.startswith('{"_aws"')]
    return [line for line in lines if name in line]


def lateness(printed: pytest.CaptureFixture[str]) -> list[tuple[str, float]]:
    """Queue class and milliseconds of each attempt since the last look."""
    return [
        (line["queue_class"], line[metrics.DELIVERY_LATENESS][0])
        for line in metric_lines(printed, metrics.DELIVERY_LATENESS)
    ]


def test_an_attempt_is_late_by_what_passed_since_it_was_due(
    stage: Stage, stopped_clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Receiver(answer(500)) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        stopped_clock.forward(3)
        wake_up(stage, only_delivery_at(stage, path), "deliveries")
        assert lateness(capsys) == [("first_attempts", 3000)]
        stopped_clock.forward(2)
        wake_up(stage, only_delivery_at(stage, path))
        assert lateness(capsys) == [], "measured ahead of its time"
        stopped_clock.forward(5)
        wake_up(stage, only_delivery_at(stage, path))
        assert lateness(capsys) == [("later_attempts", 2000)]
        # What failed is due again 30 s later; the worker that takes it dies.
        stopped_clock.forward(30)
        lose_worker(stage, only_delivery_at(stage, path))
        stopped_clock.forward(deliver.LEASE_MS / clock.SECOND)
        wake_up(stage, only_delivery_at(stage, path))
        [(queue_class, late)] = lateness(capsys)
        assert (queue_class, round(late, -1)) == ("later_attempts", deliver.LEASE_MS)


def test_what_waits_for_an_endpoint_that_is_known_to_be_slow_is_counted_apart(
    stage: Stage, stopped_clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Receiver(answer(200)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        first, second = new_event(stage), new_event(stage)
        wake_up(stage, only_delivery_at(stage, first), "deliveries")
        mark(stage, endpoint, slow_until=clock.now())
        wake_up(stage, only_delivery_at(stage, second), "slow_deliveries")
        assert [queue_class for queue_class, _ in lateness(capsys)] == ["first_attempts", "slow_endpoints"]
        # A hanging one is late by hours. What counts is how long the wake-up of its attempt waits.
        third = new_event(stage)
        stopped_clock.forward(3_600)
        wake_up(stage, only_delivery_at(stage, third), "hanging_deliveries", clock.now() / 1000 - 7)
        assert lateness(capsys) == [("hanging_endpoints", 7_000)]


def test_a_line_is_a_metric_of_the_stage_and_of_no_project(
    stage: Stage, stopped_clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Receiver(answer(200)) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        wake_up(stage, only_delivery_at(stage, new_event(stage)), "deliveries")
    [line] = metric_lines(capsys, metrics.DELIVERY_LATENESS)
    [described] = line.pop("_aws")["CloudWatchMetrics"]
    assert described == {
        "Namespace": metrics.NAMESPACE,
        "Dimensions": [["table", "queue_class", "service"]],
        "Metrics": [{"Name": metrics.DELIVERY_LATENESS, "Unit": "Milliseconds"}],
    }
    assert line.keys() == {"table", "queue_class", "service", metrics.DELIVERY_LATENESS}


def test_a_delivery_that_worker_after_worker_died_over_is_counted(
    stage: Stage, stopped_clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Receiver(answer(200)) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        for _ in range(tasks.MAX_LOST_WORKERS):
            lose_worker(stage, only_delivery_at(stage, path))
            stopped_clock.forward(deliver.LEASE_MS / clock.SECOND + 1)
        wake_up(stage, only_delivery_at(stage, path))
        assert only_delivery_at(stage, path)["error_code"] == "worker_lost"
        assert receiver.requests == []
    printed = capsys.readouterr().out
    [line] = [json.loads(line) for line in printed.splitlines() if line.startswith('{"_aws"')]
    assert line[metrics.LOST_DELIVERY] == [1.0]


def rates(printed: pytest.CaptureFixture[str], *names: str) -> list[tuple[str, str, float]]:
    """Name, `service` and value of each of these metrics since the last look."""
    lines = [json.loads(line) for line in printed.readouterr().out.splitlines() if line.startswith('{"_aws"')]
    return [(name, line["service"], line[name][0]) for line in lines for name in names if name in line]


TURN = (metrics.FAILED_TURNS, metrics.HANDOFFS)


@pytest.mark.parametrize(
    ("content", "failed", "handed_off"), [("Hello", 0, 0), ("[[sim:error]]", 1, 0), ("[[sim:handoff]]", 0, 1)]
)
def test_a_live_turn_is_measured_by_whether_the_agent_failed_or_handed_off(
    stage: Stage,
    stopped_clock: Clock,
    live_thread: Callable[[], Thread],
    capsys: pytest.CaptureFixture[str],
    content: str,
    failed: int,
    handed_off: int,
) -> None:
    thread = live_thread()
    send_and_get(stage, stopped_clock, thread, content)
    assert rates(capsys, *TURN) == [
        (metrics.FAILED_TURNS, metrics.AGENT, failed),
        (metrics.HANDOFFS, metrics.AGENT, handed_off),
    ]


def test_a_test_keys_turn_is_not_measured_because_it_chooses_its_outcome(
    stage: Stage, stopped_clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    send_and_get(stage, stopped_clock, new_thread(stage), "[[sim:error]]")
    assert rates(capsys, *TURN) == []


@pytest.mark.parametrize(("number", "failed"), [("00", 0), ("02", 0), ("04", 0), ("11", 1)])
@pytest.mark.parametrize("livemode", [True, False])
def test_a_live_call_is_measured_at_its_end_by_whether_the_carrier_failed(
    stage: Stage,
    stopped_clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: str,
    failed: int,
    livemode: bool,
) -> None:
    monkeypatch.setenv("SIMULATE_LIVE", "1")
    whom = simulated_calls.callee(stage, f"+150055500{number}", livemode=livemode)
    simulated_calls.dial(stage, stopped_clock, whom.scope, simulated_calls.place_call(stage, whom))
    stage.fan_out()
    assert rates(capsys, metrics.FAILED_CALLS) == ([(metrics.FAILED_CALLS, metrics.CALLS, failed)] if livemode else [])


def test_a_change_that_is_processed_again_is_neither_logged_nor_measured_again(
    stage: Stage, stopped_clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMULATE_LIVE", "1")
    whom = simulated_calls.callee(stage, "+15005550011", livemode=True)
    simulated_calls.dial(stage, stopped_clock, whom.scope, simulated_calls.place_call(stage, whom))
    with lines() as logged:
        records = stage.fan_out()
        written = ids(logged, "event", "event_id")
        stage.fan_out(records)
    assert len(set(written)) > 1
    assert sorted(ids(logged, "event", "event_id")) == sorted(written)
    assert rates(capsys, metrics.FAILED_CALLS) == [(metrics.FAILED_CALLS, metrics.CALLS, 1)]


def test_an_event_is_logged_if_the_response_to_its_write_is_lost(stage: Stage, stopped_clock: Clock) -> None:
    create_and_get_path(stage, "customers", phone="+15005550006")
    records = stage.stream_records()
    # The first two calls read the project's endpoints, and whether the customer was erased.
    with lines() as logged, wire(Fault(2, lose_response, tries=1)) as line:
        stage.fan_out(records)
    assert line.of("PutItem")
    assert line.disturbed == 1
    assert len(ids(logged, "event", "event_id")) == 1


def test_each_attempt_of_a_batch_has_a_line_of_its_own(
    stage: Stage, stopped_clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Receiver(answer(200)) as receiver:
        for _ in range(10):
            create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        new_event(stage)
        stage.invoke("deliver", {"Records": stage.messages("deliveries")})
        assert len(lateness(capsys)) == 10
