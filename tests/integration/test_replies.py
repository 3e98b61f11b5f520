"""A request that answers its own message: in its window, cut off, killed or in trouble (promises 8)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from shared.agent import AgentFailed, AgentUnavailable, Reply, Utterance, use_agent
from shared.agent.turn import TurnInput
from shared.conversations import replies
from tests.support.clocks import Clock
from tests.support.concurrency import run_at_once
from tests.support.conversations import (
    CONFIRM,
    WISHES,
    Hurried,
    Thread,
    Wish,
    before_commit,
    events_of,
    new_thread,
    send,
    send_and_get,
    store_unanswered_message,
    thread_errors,
    wake_up,
    work,
    work_at_each_wait,
)
from tests.support.faults import FEWER_TROUBLES, deaths
from tests.support.resources import create_resource, get_resource, woken
from tests.support.stage import Stage, queue_name, sqs_record
from tests.support.wire import Fault, Killed, Wire, wire

WINDOW = 20
CUT = 18
"""Seconds after which the agent is cut off."""
LEASE_END = 25
GIVE_UP = 108
LATE = "[[sim:timeout]]"
STORED = 2
"""The position of the write that stores the message, among the calls of a request by id."""


@pytest.fixture
def stopped_clocks(stopped_clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The service's clock, and with it the machine's own steady clock, by which windows are measured."""
    monkeypatch.setattr("time.perf_counter", lambda: stopped_clock.now)
    return stopped_clock


def delayed_wake_ups(line: Wire, stage: Stage) -> list[tuple[int, dict[str, Any]]]:
    """The wake-ups that were sent: delay in seconds, and the record that each becomes."""
    entries = [entry for call in line.of("SendMessageBatch") for entry in call.parameters["Entries"]]
    arn = stage.queues["turns"].arn
    return [(entry.get("DelaySeconds", 0), sqs_record(entry["MessageBody"], arn)) for entry in entries]


def free_turn(stage: Stage) -> Thread:
    """A conversation whose first message has a turn that nobody has taken. Its wake-up is lost."""
    thread = new_thread(stage)
    store_unanswered_message(stage, thread, CONFIRM, "k")
    stage.messages("turns")
    return thread


def thread_with_wish(stage: Stage, time: Clock, wish: Wish) -> Thread:
    """A thread in a new project, in which the wish is the next message."""
    thread = new_thread(stage)
    for content in wish.before:
        send_and_get(stage, time, thread, content)
        time.forward(1)
    return thread


def die_over(stage: Stage, thread: Thread, content: str) -> None:
    """Send a message whose function is killed. The ASGI adapter makes a response of its own of that."""
    assert send(stage, thread, content, "k").body == b"Internal Server Error"


# Wake-ups and lease


def test_the_wake_ups_for_the_end_of_the_lease_and_of_the_turn_are_sent_before_the_agent_starts(
    stage: Stage, stopped_clocks: Clock
) -> None:
    thread = new_thread(stage)
    with wire(kill_after=STORED + 1) as line:
        die_over(stage, thread, CONFIRM)
    assert line.operations()[STORED:] == ["TransactWriteItems", "SendMessageBatch"]
    (first, record), (last, later) = delayed_wake_ups(line, stage)
    assert LEASE_END < first <= LEASE_END + 2
    assert GIVE_UP <= last < GIVE_UP + 5
    assert record["body"] == later["body"]
    # The lease ends five seconds after the window.
    stopped_clocks.forward(LEASE_END - 0.1)
    assert work(stage, [record]) == 1
    assert len(get_resource(stage, thread.messages)["data"]) == 1
    stopped_clocks.forward(0.2)
    work(stage, [record])
    assert not list(thread_errors(stage, stopped_clocks, thread, WISHES[0]))


def test_wake_ups_that_come_after_the_reply_do_nothing(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    with wire() as line:
        response = send(stage, thread, CONFIRM, "k")
    assert response.status == 201
    wake_ups = delayed_wake_ups(line, stage)
    assert len(wake_ups) == 2
    for delay, record in wake_ups:
        stopped_clock.forward(delay)
        with wire() as line:
            work(stage, [record])
        assert line.operations() == ["UpdateItem"]
    assert not list(thread_errors(stage, stopped_clock, thread, WISHES[0]))


# Requests that die


def by_wake_up(stage: Stage, time: Clock, thread: Thread, wish: Wish, line: Wire) -> None:
    """The wake-ups that the request had sent arrive at their times."""
    start = time.now
    for delay, record in delayed_wake_ups(line, stage):
        time.now = start + delay
        work(stage, [record])


def by_sweep(stage: Stage, time: Clock, thread: Thread, wish: Wish, line: Wire) -> None:
    """All wake-ups are lost."""
    time.forward(61)
    stage.invoke("sweep", {})
    work(stage, woken(stage, thread.scope))


def by_retry(stage: Stage, time: Clock, thread: Thread, wish: Wish, line: Wire) -> None:
    """The client sends the message again, with its key."""
    time.forward(LEASE_END - WINDOW / 2)
    assert send(stage, thread, wish.content, "k").status == 201


Recovery = Callable[[Stage, Clock, Thread, Wish, Wire], None]


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
@pytest.mark.parametrize(
    ("recovery", "wish"),
    [(by_wake_up, WISHES[0]), (by_wake_up, WISHES[1]), (by_sweep, WISHES[0]), (by_retry, WISHES[1])],
    ids=["hint", "hint_after_a_proposal", "sweep", "retry_after_a_proposal"],
)
def test_a_message_whose_request_dies_at_any_point_has_one_reply_and_one_effect(
    stage: Stage, stopped_clocks: Clock, wish: Wish, recovery: Recovery
) -> None:
    thread = thread_with_wish(stage, stopped_clocks, wish)
    with wire() as line:
        assert send(stage, thread, wish.content, "k").status == 201
    problems = []
    for before, after in deaths(line.operations()):
        thread = thread_with_wish(stage, stopped_clocks, wish)
        with wire(None, before, after) as line:
            die_over(stage, thread, wish.content)
        stored = after == STORED or len(line.calls) > STORED + 1
        # The reply is committed by the last call; a message that was stored before waits for it.
        if stored or recovery is by_retry:
            recovery(stage, stopped_clocks, thread, wish, line)
        else:
            assert send(stage, thread, wish.content, "k").status == 201
        if recovery is by_wake_up and stored and len(line.calls) == STORED + 1 + (before is not None):
            # It died before it had sent them.
            by_sweep(stage, stopped_clocks, thread, wish, line)
        problems += [f"{before} {after}: {wrong}" for wrong in thread_errors(stage, stopped_clocks, thread, wish)]
    assert not problems, "\n".join(problems)


def test_a_retry_that_dies_over_the_turn_leaves_it_to_the_wake_ups_that_it_sent(
    stage: Stage, stopped_clocks: Clock
) -> None:
    thread = free_turn(stage)
    with wire() as line:
        assert send(stage, thread, CONFIRM, "k").status == 201
    claimed = line.operations().index("UpdateItem", 1)
    problems = []
    for before, after in deaths(line.operations()):
        thread = free_turn(stage)
        with wire(None, before, after) as line:
            die_over(stage, thread, CONFIRM)
        if line.of("SendMessageBatch") and (before != claimed + 1):
            by_wake_up(stage, stopped_clocks, thread, WISHES[0], line)
        else:
            stopped_clocks.forward(LEASE_END + 1)
            assert send(stage, thread, CONFIRM, "k").status == 201
        problems += [f"{before} {after}: {wrong}" for wrong in thread_errors(stage, stopped_clocks, thread, WISHES[0])]
    assert not problems, "\n".join(problems)


# Requests in trouble


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
@pytest.mark.parametrize("kind", ["passing", "lasting", "conflict"])
def test_a_message_whose_turn_is_in_trouble_with_any_call_has_one_reply_and_one_effect(
    stage: Stage, stopped_clocks: Clock, kind: str
) -> None:
    wish = WISHES[0]
    thread = thread_with_wish(stage, stopped_clocks, wish)
    with wire() as line:
        assert send(stage, thread, wish.content, "k").status == 201
    problems = []
    for trouble, (position, call) in itertools.product(FEWER_TROUBLES[kind], enumerate(line.calls)):
        if position <= STORED or not trouble.concerns(call.operation):
            continue
        name, thread = f"{trouble.name} at {position} {call.operation}", thread_with_wish(stage, stopped_clocks, wish)
        with wire(Fault(position, trouble.disturbance, trouble.tries)) as line:
            response = send(stage, thread, wish.content, "k")
        if response.status == 504:
            problems += [] if trouble.code else [f"{name}: 504"]
            by_wake_up(stage, stopped_clocks, thread, wish, line)
        elif response.status != 201:
            problems.append(f"{name}: {response.status} {response.body[:90]!r}")
        problems += [f"{name}: {wrong}" for wrong in thread_errors(stage, stopped_clocks, thread, wish)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("kind", ["passing", "lasting", "conflict"])
def test_a_retry_in_trouble_with_any_call_of_its_turn_has_one_reply_and_one_effect(
    stage: Stage, stopped_clocks: Clock, kind: str
) -> None:
    """The message is stored, so nothing that happens to the retry is worse than a 504."""

    thread = free_turn(stage)
    with wire() as line:
        assert send(stage, thread, CONFIRM, "k").status == 201
    first_look = 3
    problems = []
    for trouble, (position, call) in itertools.product(FEWER_TROUBLES[kind], enumerate(line.calls)):
        if position < first_look or not trouble.concerns(call.operation):
            continue
        name, thread = f"{trouble.name} at {position} {call.operation}", free_turn(stage)
        with wire(Fault(position, trouble.disturbance, trouble.tries)):
            response = send(stage, thread, CONFIRM, "k")
        if response.status not in (201, 504) or (response.status == 504 and trouble.code is None and kind == "passing"):
            problems.append(f"{name}: {response.status} {response.body[:90]!r}")
        stopped_clocks.forward(LEASE_END + 1)
        send(stage, thread, CONFIRM, "k")
        problems += [f"{name}: {wrong}" for wrong in thread_errors(stage, stopped_clocks, thread, WISHES[0])]
    assert not problems, "\n".join(problems)


# The agent's time


@dataclass
class Slow:
    """An agent that takes so many seconds for each reply, and stops when its time is over. None fails at once."""

    time: Clock
    takes: Sequence[float | None]
    given: list[float] = field(default_factory=list)

    def reply(self, utterances: Sequence[Utterance], turn: TurnInput, seconds: float) -> Reply:
        self.given.append(seconds)
        takes = self.takes[min(len(self.given), len(self.takes)) - 1]
        if takes is None:
            raise AgentUnavailable("throttled")
        self.time.forward(min(takes, max(seconds, 0)))
        if takes > seconds:
            raise AgentUnavailable("it took too long")
        return Reply("Good morning.")


@pytest.fixture
def slow(
    stopped_clocks: Clock, monkeypatch: pytest.MonkeyPatch, live_thread: Callable[[], Thread]
) -> Iterator[Callable[..., Slow]]:
    """Makes the agent of live mode one that takes so long."""
    monkeypatch.setenv("SIMULATE_LIVE", "0")

    def use(*takes: float | None) -> Slow:
        agent = Slow(stopped_clocks, takes)
        use_agent(agent)
        return agent

    yield use
    use_agent(None)


def test_an_agent_is_cut_off_two_seconds_before_the_window_ends_and_the_worker_takes_over(
    stage: Stage, stopped_clocks: Clock, slow: Callable[..., Slow], live_thread: Callable[[], Thread]
) -> None:
    thread, agent, start = live_thread(), slow(100, 3), stopped_clocks.now
    with wire() as line:
        response = send(stage, thread, "Hello", "k")
    assert (response.status, response.code, response.headers["service-should-retry"]) == (504, "agent_timeout", "true")
    assert stopped_clocks.now - start == pytest.approx(CUT, abs=0.1)
    assert agent.given == [pytest.approx(CUT, abs=0.1)]
    # The lease is released, and the worker woken, before the response.
    released, woken_again = line.calls[-2:]
    assert (released.operation, woken_again.operation) == ("UpdateItem", "SendMessageBatch")
    *_, (delay, record) = delayed_wake_ups(line, stage)
    assert delay == 0
    work(stage, [record])
    assert [each.get("reply_status") for each in get_resource(stage, thread.messages)["data"]] == ["complete", None]
    replay = send(stage, thread, "Hello", "k")
    assert (replay.status, replay.headers["idempotent-replayed"]) == (201, "true")
    assert replay.json["reply"]["content"].endswith("\n\nGood morning.")
    assert len(agent.given) == 2


def test_a_reply_shortly_before_the_cut_is_a_201(
    stage: Stage, stopped_clocks: Clock, slow: Callable[..., Slow], live_thread: Callable[[], Thread]
) -> None:
    thread, agent = live_thread(), slow(CUT - 0.2)
    assert send(stage, thread, "Hello", "k").json["reply"]["content"].endswith("\n\nGood morning.")
    assert len(agent.given) == 1


def test_a_reply_that_took_sixteen_seconds_is_decided_again_if_the_conversation_ends_at_its_commit(
    stage: Stage, stopped_clocks: Clock, slow: Callable[..., Slow], live_thread: Callable[[], Thread]
) -> None:
    thread, agent = live_thread(), slow(16, 1)
    found = send_while(stage, thread, lambda: stage.call("POST", f"/v1/conversations/{thread.id}/end"))
    assert found["reply"]["content"].endswith("\n\nGood morning.")
    assert found["conversation"]["status"] == "ended"
    assert len(agent.given) == 2


def test_a_worker_takes_over_from_a_busy_agent_while_the_request_waits(
    stage: Stage, stopped_clocks: Clock, slow: Callable[..., Slow], live_thread: Callable[[], Thread]
) -> None:
    thread, agent = live_thread(), slow(*[None] * replies.AGENT_TRIES, 1)

    def worker() -> None:
        *_, (delay, record) = delayed_wake_ups(line, stage)
        assert delay == 0
        work(stage, [record])

    with wire() as line, work_at_each_wait(stopped_clocks, lambda: None, worker):
        found = send(stage, thread, "Hello", "k")
    assert found.json["reply"]["content"].endswith("\n\nGood morning.")
    assert len(agent.given) == replies.AGENT_TRIES + 1


def test_an_agent_that_stays_busy_is_asked_by_workers_until_the_turn_is_too_old(
    stage: Stage, stopped_clocks: Clock, slow: Callable[..., Slow], live_thread: Callable[[], Thread]
) -> None:
    thread, start = live_thread(), stopped_clocks.now
    slow(100)
    with wire() as line:
        assert send(stage, thread, "Hello", "k").code == "agent_timeout"
    (*_, (_, record)), workers = delayed_wake_ups(line, stage), 0
    while len(get_resource(stage, thread.messages)["data"]) == 1:
        with wire() as line:
            work(stage, [record])
        workers += 1
        if line.of("SendMessageBatch"):
            ((delay, record),) = delayed_wake_ups(line, stage)
            stopped_clocks.forward(delay)
    # Three times unavailable is no reason to give up early; it ends within the 120 s of its lock.
    assert workers >= 3
    assert GIVE_UP <= stopped_clocks.now - start < 120
    message, reply = get_resource(stage, thread.messages)["data"]
    assert message["reply_status"] == "failed"
    assert reply["content"].startswith(replies.INTRODUCTION)
    assert reply["content"].endswith(f"\n\n{replies.APOLOGY}")
    assert reply["actions"] == [{"type": "handoff", "reason": "agent_failed"}]
    # The conversation is the agent's again with the next message.
    slow(1)
    assert send_and_get(stage, stopped_clocks, thread, "Hello")["reply"]["content"] == "Good morning."


def test_an_agent_that_fails_for_good_apologizes_in_the_same_request(
    stage: Stage, stopped_clocks: Clock, live_thread: Callable[[], Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def reply(self, utterances: Sequence[Utterance], turn: TurnInput, seconds: float) -> Reply:
            raise AgentFailed("AccessDeniedException")

    monkeypatch.setenv("SIMULATE_LIVE", "0")
    use_agent(Broken())
    try:
        response = send(stage, live_thread(), "Hello", "k")
    finally:
        use_agent(None)
    assert (response.status, response.json["reply_status"]) == (201, "failed")
    assert response.json["reply"]["actions"] == [{"type": "handoff", "reason": "agent_failed"}]


def test_the_model_knows_the_projects_name_if_the_business_has_none(
    stage: Stage, live_thread: Callable[[], Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Named:
        def reply(self, utterances: Sequence[Utterance], turn: TurnInput, seconds: float) -> Reply:
            return Reply(f"This is {turn.settings['business_name']}.")

    monkeypatch.setenv("SIMULATE_LIVE", "0")
    use_agent(Named())
    try:
        content = send(stage, live_thread(), "Who are you?").json["reply"]["content"]
    finally:
        use_agent(None)
    introduction, reply = content.split("\n\n")
    assert reply == f"This is {introduction.removeprefix(replies.INTRODUCTION)}"


# Retries with the key


def test_the_forced_timeout_is_504_after_two_seconds_and_a_retry_has_the_reply_five_seconds_later(
    stage: Stage, stopped_clocks: Clock
) -> None:
    thread, start = new_thread(stage), stopped_clocks.now
    with wire() as line:
        assert send(stage, thread, LATE, "k").code == "agent_timeout"
    assert stopped_clocks.now - start == pytest.approx(2, abs=0.01)
    assert min(delay for delay, _ in delayed_wake_ups(line, stage)) == 7
    with wire() as line:
        assert send(stage, thread, LATE, "k").status == 201
    assert 7 <= stopped_clocks.now - start < 8
    # It has time to take the turn itself, so it sends no wake-ups before that.
    assert line.operations("sqs") == ["SendMessageBatch"]


def test_a_retry_has_twenty_seconds_and_takes_the_turn_when_its_lease_ends(stage: Stage, stopped_clocks: Clock) -> None:
    thread, start = new_thread(stage), stopped_clocks.now
    message = store_unanswered_message(stage, thread, CONFIRM, "k")
    with suppress(Killed), wire(kill_after=0):
        work(stage, [wake_up(stage, thread, message)])
    for end in (WINDOW, 2 * WINDOW):
        assert send(stage, thread, CONFIRM, "k").code == "agent_timeout"
        assert stopped_clocks.now - start == pytest.approx(end, abs=0.01)
    assert send(stage, thread, CONFIRM, "k").status == 201
    # The worker's lease is 50 seconds.
    assert 50 <= stopped_clocks.now - start < 51
    assert not list(thread_errors(stage, stopped_clocks, thread, WISHES[0]))


def test_the_forced_timeout_is_for_test_mode_only(
    stage: Stage, stopped_clocks: Clock, slow: Callable[..., Slow], live_thread: Callable[[], Thread]
) -> None:
    thread, _, start = live_thread(), slow(3), stopped_clocks.now
    assert send(stage, thread, LATE, "k").status == 201
    assert stopped_clocks.now - start == pytest.approx(3, abs=0.1)


def test_a_retry_and_a_worker_at_one_turn_give_one_reply(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    message = store_unanswered_message(stage, thread, CONFIRM, "k")

    def worker() -> None:
        work(stage, [wake_up(stage, thread, message)])

    def retry() -> None:
        assert send(stage, thread, CONFIRM, "k").status == 201

    run_at_once([worker, retry, worker, retry])
    assert not list(thread_errors(stage, stopped_clock, thread, WISHES[0]))


def test_a_request_without_time_for_the_agent_leaves_the_turn_to_the_worker_at_once(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread = new_thread(stage)
    with wire() as line:
        assert send(Hurried(stage), thread, CONFIRM, "k").code == "agent_timeout"
    (delay, record), (last, _) = delayed_wake_ups(line, stage)
    assert (delay, GIVE_UP <= last < GIVE_UP + 5) == (0, True)
    work(stage, [record])
    assert not list(thread_errors(stage, stopped_clock, thread, WISHES[0]))


# The world changing during the request


@pytest.mark.parametrize("external_id", [None, "t"])
def test_an_end_during_the_request_succeeds_and_the_reply_is_kept_without_its_effect(
    stage: Stage, stopped_clock: Clock, external_id: str | None
) -> None:
    thread = new_thread(stage, external_id=external_id)

    def end() -> None:
        assert stage.call("POST", f"/v1/conversations/{thread.id}/end").status == 200

    found = send_while(stage, thread, end)
    assert (found["reply_status"], found["reply"]["actions"]) == ("complete", [])
    assert found["conversation"]["status"] == "ended"
    assert get_resource(stage, thread.appointment)["status"] == "pending"
    assert events_of(stage, thread) == ["appointment.created"]
    assert send(stage, thread, "Hello").code == "conversation_ended"


def test_a_change_of_the_appointment_during_the_request_is_not_lost(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    change = {"notes": "Ring twice", "metadata": {"a": 1}}
    found = send_while(stage, thread, lambda: stage.call("PATCH", thread.appointment, change))
    assert [action["type"] for action in found["reply"]["actions"]] == ["appointment_confirmed"]
    appointment = get_resource(stage, thread.appointment)
    assert (appointment["status"], appointment["notes"], appointment["metadata"]) == ("confirmed", *change.values())


def test_a_message_during_the_request_is_busy_and_not_stored(stage: Stage, stopped_clock: Clock) -> None:
    thread, others = new_thread(stage), list[str]()
    send_while(stage, thread, lambda: others.append(send(stage, thread, "Hello").code))
    assert others == ["conversation_busy"]
    assert len(get_resource(stage, thread.messages)["data"]) == 2


def send_while(stage: Stage, thread: Thread, change: Callable[[], Any]) -> Any:
    """The 201 of a message whose turn is about to be committed when the change comes."""

    def at_the_commit() -> None:
        # The next transaction is the one that stores the message; the one after it commits the turn.
        pending.append(before_commit(change))
        pending[0].__enter__()

    pending: list[Any] = []
    with before_commit(at_the_commit):
        response = send(stage, thread, CONFIRM, "k")
    pending[0].__exit__(None, None, None)
    assert response.status == 201, response.body
    return response.json


def test_a_request_may_end_the_conversation_or_place_a_call(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage, external_id="t")
    with wire() as line:
        placed = send_and_get(stage, stopped_clock, thread, "Please call me")["reply"]["actions"]
    assert [action["type"] for action in placed] == ["call_requested"]
    # The request has sent the wake-up for the dial, too.
    assert [queue_name(call.parameters["QueueUrl"]) for call in line.of("SendMessageBatch")] == ["turns", "dials"]
    stopped_clock.forward(1)
    ended = send_and_get(stage, stopped_clock, thread, "Goodbye")
    assert [action["type"] for action in ended["reply"]["actions"]] == ["conversation_ended"]
    assert ended["conversation"]["status"] == "ended"
    assert create_resource(stage, "/v1/conversations", external_id="t")["status"] == "active"
