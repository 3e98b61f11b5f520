"""Usage: what live turns and calls are counted as."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from botocore.stub import Stubber

from shared.agent import use_agent
from shared.agent.bedrock import Bedrock
from shared.core import clock
from shared.projects import usage
from shared.store import table
from shared.store.keys import Scope
from tests.support import models
from tests.support.clocks import Clock
from tests.support.conversations import (
    CONFIRM,
    WISHES,
    Thread,
    new_thread,
    redeliver_wake_up,
    send,
    send_and_get,
    store_unanswered_message,
    thread_errors,
    wake_up,
    work,
)
from tests.support.faults import FEWER_TROUBLES, deaths
from tests.support.resources import woken
from tests.support.stage import Project, Stage
from tests.support.wire import Fault, Killed, wire


def month_usage(scope: Scope) -> dict[str, int]:
    """This month's usage."""
    return dict(usage.of_month(scope, clock.iso(clock.now())[:7]))


def test_a_live_turn_is_counted_once_and_a_test_turn_is_not(
    stage: Stage, stopped_clock: Clock, live_thread: Callable[[], Thread]
) -> None:
    stopped_clock.now = 1_900_000_000.0
    thread = live_thread()
    contents = ("Hello", CONFIRM, "[[sim:error]]", CONFIRM)
    for count, content in enumerate(contents, 1):
        found = send_and_get(stage, stopped_clock, thread, content, f"k{count}")
        assert found["conversation"]["livemode"] is True
        assert month_usage(thread.scope)["messages"] == count
    # The key again, and the wake-up again, are no further turns.
    assert send(stage, thread, "Hello", "k1").status == 201
    work(stage, [wake_up(stage, thread, found["id"])])
    assert month_usage(thread.scope)["messages"] == len(contents)
    # A month has its own sum; so have a mode and a project.
    stopped_clock.forward(31 * 24 * 3600)
    assert month_usage(thread.scope) == dict.fromkeys(usage.COUNTERS, 0)
    send_and_get(stage, stopped_clock, thread, "Hello")
    assert month_usage(thread.scope)["messages"] == 1
    assert month_usage(Scope(thread.scope.project_id, False))["messages"] == 0
    tested = new_thread(stage)
    send_and_get(stage, stopped_clock, tested, "Hello")
    for livemode in (False, True):
        assert month_usage(Scope(tested.scope.project_id, livemode))["messages"] == 0


def test_a_live_turn_whose_worker_dies_or_is_in_trouble_is_counted_once(
    stage: Stage, stopped_clock: Clock, live_thread: Callable[[], Thread]
) -> None:
    def one() -> tuple[Thread, dict[str, Any]]:
        thread = live_thread()
        store_unanswered_message(stage, thread, CONFIRM, "k")
        [record] = woken(stage, thread.scope)
        return thread, record

    thread, record = one()
    with wire() as line:
        work(stage, [record])
    kills = [partial(wire, None, *death) for death in deaths(line.operations())]
    last = len(line.calls) - 1
    troubles = [trouble for kind in ("passing", "lasting", "conflict") for trouble in FEWER_TROUBLES[kind]]
    faults = [partial(wire, Fault(last, each.disturbance, each.tries)) for each in troubles]
    for disturbed in (*kills, *faults):
        thread, record = one()
        with disturbed(), suppress(Killed):
            stage.invoke("turn", {"Records": [record]})
        redeliver_wake_up(stage, stopped_clock, thread, record, by_sweep=False)
        assert month_usage(thread.scope)["messages"] == 1, disturbed
        assert not list(thread_errors(stage, stopped_clock, thread, WISHES[0])), disturbed
        assert month_usage(thread.scope)["messages"] == 1, disturbed


@pytest.mark.parametrize("by_worker", [False, True], ids=["request", "worker"])
def test_a_live_message_is_answered_by_the_stages_model_and_its_tokens_are_counted(
    stage: Stage,
    stopped_clock: Clock,
    live_thread: Callable[[], Thread],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    by_worker: bool,
) -> None:
    monkeypatch.setenv("SIMULATE_LIVE", "0")
    monkeypatch.setenv("MODEL_ID", "model")
    agent = Bedrock.from_environment()
    use_agent(agent)
    request.addfinalizer(lambda: use_agent(None))
    thread = live_thread()
    with Stubber(agent.client) as model:
        model.add_response("converse", models.answer("end_turn", [{"text": "Good morning."}], tokens=(100, 10)))
        if by_worker:
            store_unanswered_message(stage, thread, "Hello", "k")
            work(stage, woken(stage, thread.scope))
        found = send(stage, thread, "Hello", "k").json
        model.assert_no_pending_responses()
    assert found["reply"]["content"].endswith("\n\nGood morning.")
    counted = month_usage(thread.scope)
    assert (counted["messages"], counted["input_tokens"], counted["output_tokens"]) == (1, 100, 10)


def test_a_months_usage_sums_the_tokens_of_all_its_turns(stage: Stage, project: Project) -> None:
    scope = Scope(project.id, True)
    for month, count in (("2031-01", 3), ("2031-02", 5)):
        for number in range(count):
            tokens = {"input_tokens": 10 + number, "output_tokens": 100 * number}
            at = clock.parse(f"{month}-15T12:00:00Z")
            table.write([table.Put(usage.row(scope, f"msg_{number:026d}", at, messages=1, model="m", **tokens))])
        call = usage.row(scope, "sess_" + "0" * 26, at, calls=1, call_seconds=90)
        table.write([table.Put(call)])
    nothing = dict.fromkeys(usage.COUNTERS, 0)
    january = {"messages": 3, "input_tokens": 33, "output_tokens": 300, "calls": 1, "call_seconds": 90}
    february = {"messages": 5, "input_tokens": 60, "output_tokens": 1000, "calls": 1, "call_seconds": 90}
    assert usage.of_month(scope, "2031-01") == january
    assert usage.of_month(scope, "2031-02") == february
    assert usage.of_month(scope, "2031-03") == nothing
