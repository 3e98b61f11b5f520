"""Messages and their turns: their cost, and that each has one reply and one effect whatever happens (contract 8)."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from botocore.stub import Stubber

from shared.agent import adapters
from shared.agent.bedrock import Bedrock
from shared.conversations import answering
from shared.core import clock, keys, table
from shared.core.keys import Scope
from shared.projects import usage
from tests.support import models
from tests.support.clocks import Clock
from tests.support.conversing import LEASE, Hurried, Thread, asked, before_commit, given_again, meanwhile, send, work
from tests.support.faults import FEWER_TROUBLES, LASTING_TROUBLE, PASSING_TROUBLE, WRITES, Trouble, deaths
from tests.support.racing import at_once
from tests.support.resources import created, hinted, keyed, listed, seen
from tests.support.stage import Answer, Project, Stage, sqs_record
from tests.support.wire import ALWAYS, Fault, Killed, Wire, conflicting, refused, wire

WHEN = "2030-05-06T07:08:09Z"
LATER = "2030-06-07T08:00:00Z"
PHONE = "+15005550006"

GIVE_UP = 108
LOCK = 120
WINDOW = 20
LATE = "[[sim:timeout]]"
COMMIT = 6
"""The position of the commit among a worker's calls for a customer."""
FORCED_WINDOW, FORCED_REPLY = 2, 7
"""Seconds after a request with that content: its 504, and its reply."""
CONFIRM = "Please confirm my appointment"
CANCEL = "Please cancel my appointment"


def opened(stage: Stage, project: Project | None = None, livemode: bool = False, **fields: Any) -> Thread:
    """A thread in a new project, or in this one."""
    project = project or stage.project()
    customer = created(stage, "/v1/customers", phone=PHONE)["id"]
    appointment = created(stage, "/v1/appointments", customer_id=customer, appointment_at=WHEN)["id"]
    conversation = created(stage, "/v1/conversations", customer={"id": customer}, **fields)["id"]
    return Thread(Scope(project.id, livemode), conversation, customer, f"/v1/appointments/{appointment}")


def hint(stage: Stage, thread: Thread, message_id: str) -> dict[str, Any]:
    """A hint at a turn."""
    told: dict[str, Any] = {"project_id": thread.scope.project_id, "livemode": thread.scope.livemode}
    told |= {"conversation_id": thread.id, "message_id": message_id}
    return sqs_record(json.dumps(told), stage.queues["turns"].arn)


def answered(stage: Stage, thread: Thread) -> None:
    """Let the turn worker have what its queue holds for the thread."""
    assert work(stage, hinted(stage, thread.scope)) == 1


def conversed(stage: Stage, time: Clock, thread: Thread, content: str, key: str | None = None) -> Any:
    """The 201 of a message that is answered while its request waits."""
    with meanwhile(time, lambda: answered(stage, thread)):
        found = send(stage, thread, content, key)
    assert found.status == 201, found.body
    return found.json


def events_of(stage: Stage, thread: Thread) -> list[str]:
    """The types of the events of the thread's appointment, oldest first."""
    stage.fan_out()
    id = thread.appointment.rpartition("/")[2]
    return [event["type"] for event in seen(stage, f"/v1/events?object_id={id}")["data"]][::-1]


@pytest.fixture
def owed_by_nobody_else(stage: Stage) -> None:
    """Nothing that other tests left is due."""
    for shard in keys.due_shards():
        for page in list(table.query(shard, index="due", limit=1000)):
            for row in page:
                with suppress(table.ConditionFailed):
                    table.update(table.Update(row["pk"], row["sk"], set={"due": None, "due_shard": None}))


# What a message costs

AUTHENTICATED = "UpdateItem"
STORED = "TransactWriteItems"


def calls_of_waiting(stage: Stage, time: Clock, thread: Thread, waits: int) -> list[str]:
    """The DynamoDB calls of a message by id that is answered during its wait number `waits`."""
    positions: list[int] = []

    def worked() -> None:
        positions.append(len(line.calls))
        answered(stage, thread)
        positions.append(len(line.calls))

    idle = [lambda: None] * (waits - 1)
    with wire() as line, meanwhile(time, *idle, worked):
        assert send(stage, thread, "Hello").status == 201
    start, end = positions
    own = [*line.calls[:start], *line.calls[end:]]
    return [call.operation for call in own if call.service == "dynamodb"]


@pytest.mark.parametrize("key", [None, "k"])
def test_a_message_by_id_takes_three_calls_beside_the_looks_for_its_reply(stage: Stage, key: str | None) -> None:
    thread = opened(stage)
    with wire() as line:
        asked(stage, thread, "Hello", key)
    assert line.operations("dynamodb") == [AUTHENTICATED, "GetItem", STORED]
    assert line.operations("sqs") == ["SendMessageBatch"]


@pytest.mark.parametrize("key", [None, "k"])
def test_a_message_by_thread_takes_three_calls_at_first_and_four_later(
    stage: Stage, project: Project, key: str | None
) -> None:
    body = {"external_conversation_id": "t", "content": "Hello"}
    for count, expected in enumerate(
        ([AUTHENTICATED, "GetItem", STORED], [AUTHENTICATED, "GetItem", "GetItem", STORED])
    ):
        with wire() as line:
            headers = keyed(key and f"{key}{count}")
            assert Hurried(stage).call("POST", "/v1/messages", body, headers=headers).code == "agent_timeout"
        assert line.operations("dynamodb") == expected
        assert line.operations("sqs") == ["SendMessageBatch"]
        assert work(stage, hinted(stage, Scope(project.id, False))) == 1


@pytest.mark.parametrize("waits", [1, 2, 3])
def test_a_waiting_message_looks_once_a_wait_and_no_more(stage: Stage, stopped_clock: Clock, waits: int) -> None:
    calls = calls_of_waiting(stage, stopped_clock, opened(stage), waits)
    assert calls == [AUTHENTICATED, "GetItem", STORED, *["GetItem"] * waits]


def test_an_answer_within_a_quarter_of_a_second_is_found_with_at_most_two_looks(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread, start = opened(stage), stopped_clock.now

    def quick() -> None:
        if stopped_clock.now - start >= 0.25:
            answered(stage, thread)

    with wire() as line, meanwhile(stopped_clock, quick, quick):
        found = send(stage, thread, "Hello")
    assert found.status == 201
    assert stopped_clock.now - start <= 0.5
    assert line.operations("sqs").count("SendMessageBatch") == 1


def test_a_replay_of_an_answered_message_looks_once(stage: Stage, stopped_clock: Clock) -> None:
    thread = opened(stage)
    conversed(stage, stopped_clock, thread, "Hello", "k")
    with wire() as line:
        assert send(stage, thread, "Hello", "k").status == 201
    assert line.operations() == [AUTHENTICATED, "GetItem", "TransactWriteItems", "GetItem", "SendMessageBatch"][:4]


def test_a_worker_takes_seven_calls_for_a_customer_and_four_without_one(stage: Stage) -> None:
    thread = opened(stage)
    asked(stage, thread, CONFIRM)
    [record] = hinted(stage, thread.scope)
    with wire() as line:
        work(stage, [record])
    claimed, committed = ["UpdateItem"], ["Query", "TransactWriteItems"]
    # The conversation, its customer, the customer's appointments by their index; then the transcript.
    assert line.operations() == [*claimed, "GetItem", "GetItem", "Query", "BatchGetItem", *committed]
    alone = created(stage, "/v1/conversations")["id"]
    nobody = Thread(thread.scope, alone, "", "")
    asked(stage, nobody, "Hello")
    [record] = hinted(stage, thread.scope)
    with wire() as line:
        work(stage, [record])
    assert line.operations() == [*claimed, "GetItem", *committed]
    # A hint that comes again is one call.
    with wire() as line:
        work(stage, [record])
    assert line.operations() == ["UpdateItem"]


# One reply and one effect


@dataclass(frozen=True)
class Wish:
    """A message that changes the appointment, and what that comes to."""

    content: str
    before: Sequence[str]
    action: str
    event: str
    status: str


WISHES = (
    Wish(CONFIRM, (), "appointment_confirmed", "appointment.confirmed", "confirmed"),
    Wish("yes", (CANCEL,), "appointment_cancelled", "appointment.cancelled", "cancelled"),
)
wishes = pytest.mark.parametrize("wish", WISHES, ids=lambda wish: wish.action)


def wished(stage: Stage, time: Clock, wish: Wish) -> tuple[Thread, dict[str, Any]]:
    """In a new project: a thread with the wish in it, under the key `k`, and the hint at its turn."""
    thread = opened(stage)
    for content in wish.before:
        conversed(stage, time, thread, content)
        time.forward(1)
    asked(stage, thread, wish.content, "k")
    [record] = hinted(stage, thread.scope)
    return thread, record


def wrongs(stage: Stage, time: Clock, thread: Thread, wish: Wish) -> Iterator[str]:
    """What is wrong with a wish that was granted, whatever happened to its workers."""
    messages = seen(stage, thread.messages)["data"][2 * len(wish.before) :]
    if [message["role"] for message in messages] != ["user", "assistant"]:
        yield f"the transcript is {messages}"
        return
    message, reply = messages
    if message["reply_status"] != "complete":
        yield f"reply_status {message['reply_status']}"
    if [action["type"] for action in reply["actions"]] != [wish.action]:
        yield f"actions {reply['actions']}"
    # The key's message waits for nothing any more.
    with meanwhile(time, lambda: None):
        found = send(stage, thread, wish.content, "k")
    conversation = seen(stage, f"/v1/conversations/{thread.id}")
    if (found.status, found.headers.get("idempotent-replayed")) != (201, "true"):
        yield f"{found.status} {found.body[:90]!r}"
    elif found.json != message | {"reply": reply, "conversation": conversation}:
        yield "the 201 is not what the transcript shows"
    if (status := seen(stage, thread.appointment)["status"]) != wish.status:
        yield f"the appointment is {status}"
    if (happened := events_of(stage, thread)) != ["appointment.created", wish.event]:
        yield f"events {happened}"
    if (code := send(Hurried(stage), thread, "Hello").code) != "agent_timeout":
        yield f"the next message is {code}"


@pytest.mark.usefixtures("owed_by_nobody_else")
@pytest.mark.parametrize("by_sweep", [False, True], ids=["message_again", "sweep"])
@wishes
def test_a_turn_whose_worker_dies_at_any_point_has_one_reply_and_one_effect(
    stage: Stage, stopped_clock: Clock, wish: Wish, by_sweep: bool
) -> None:
    _, record = wished(stage, stopped_clock, wish)
    with wire() as line:
        work(stage, [record])
    problems = []
    for death in deaths(len(line.calls)):
        thread, record = wished(stage, stopped_clock, wish)
        with wire(None, *death), pytest.raises(Killed):
            work(stage, [record])
        given_again(stage, stopped_clock, thread, record, by_sweep)
        problems += [f"{death}: {wrong}" for wrong in wrongs(stage, stopped_clock, thread, wish)]
    assert not problems, "\n".join(problems)


def test_a_worker_that_died_keeps_its_turn_from_others_until_its_lease_is_over(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread, record = wished(stage, stopped_clock, WISHES[0])
    with wire(kill_after=0), pytest.raises(Killed):
        work(stage, [record])
    stopped_clock.forward(LEASE - 1)
    with wire() as line:
        work(stage, [record])
    assert line.operations() == ["UpdateItem"]
    stopped_clock.forward(2)
    work(stage, [record])
    assert not list(wrongs(stage, stopped_clock, thread, WISHES[0]))


@pytest.mark.usefixtures("owed_by_nobody_else")
@pytest.mark.parametrize("kind", ["passing", "lasting", "conflict"])
def test_a_turn_whose_worker_is_in_trouble_with_any_call_has_one_reply_and_one_effect(
    stage: Stage, stopped_clock: Clock, kind: str
) -> None:
    wish = WISHES[0]
    _, record = wished(stage, stopped_clock, wish)
    with wire() as line:
        work(stage, [record])
    problems = []
    for trouble, (position, call) in itertools.product(FEWER_TROUBLES[kind], enumerate(line.calls)):
        if trouble.writes_only and call.operation not in WRITES:
            continue
        name = f"{trouble.name} at {position} {call.operation}"
        thread, record = wished(stage, stopped_clock, wish)
        with wire(Fault(position, trouble.disturbance, trouble.tries)), suppress(BatchProcessingError):
            stage.invoke("turn", {"Records": [record]})
        given_again(stage, stopped_clock, thread, record, by_sweep=False)
        problems += [f"{name}: {wrong}" for wrong in wrongs(stage, stopped_clock, thread, wish)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("conflicts", [1, 2, 3, 8])
@pytest.mark.parametrize("position", [0, 1, -1], ids=["reply", "conversation", "message"])
def test_a_commit_in_conflict_is_made_good_by_the_same_worker(
    stage: Stage, stopped_clock: Clock, conflicts: int, position: int
) -> None:
    thread, record = wished(stage, stopped_clock, WISHES[0])
    with wire() as line:
        line.fault = Fault(COMMIT, conflicting(position), conflicts)
        work(stage, [record])
    assert line.disturbed == conflicts
    assert not list(wrongs(stage, stopped_clock, thread, WISHES[0]))


def test_a_worker_that_comes_late_to_its_commit_finds_its_turn_taken(stage: Stage, stopped_clock: Clock) -> None:
    thread, record = wished(stage, stopped_clock, WISHES[0])

    def overtaken() -> None:
        stopped_clock.forward(LEASE + 1)
        work(stage, [record])

    with before_commit(overtaken), suppress(BatchProcessingError):
        stage.invoke("turn", {"Records": [record]})
    work(stage, [record])
    assert not list(wrongs(stage, stopped_clock, thread, WISHES[0]))


def test_of_sixteen_workers_at_one_turn_one_answers(stage: Stage, stopped_clock: Clock) -> None:
    thread, record = wished(stage, stopped_clock, WISHES[0])
    at_once([lambda: work(stage, [record])] * 16)
    assert not list(wrongs(stage, stopped_clock, thread, WISHES[0]))


# Turns that are given up


def gave_up(stage: Stage, thread: Thread, key: str = "k") -> Any:
    """The apology of a turn that failed, checked; the reply."""
    message, reply = seen(stage, thread.messages)["data"]
    assert message["reply_status"] == "failed"
    assert reply["content"] == answering.APOLOGY
    assert [action["type"] for action in reply["actions"]] == ["handoff"]
    found = send(stage, thread, message["content"], key)
    assert found.status == 201, found.body
    conversation = seen(stage, f"/v1/conversations/{thread.id}")
    assert found.json == message | {"reply": reply, "conversation": conversation}
    assert seen(stage, thread.appointment)["status"] == "pending"
    assert events_of(stage, thread) == ["appointment.created"]
    return reply


def reminder(line: Wire, stage: Stage) -> tuple[int, dict[str, Any]]:
    """The later of the two hints that a message sent: its delay in seconds, and the record it becomes."""
    [call] = line.of("SendMessageBatch")
    entry = max(call.parameters["Entries"], key=lambda entry: entry.get("DelaySeconds", 0))
    return entry["DelaySeconds"], sqs_record(entry["MessageBody"], stage.queues["turns"].arn)


def test_the_reminder_ends_a_turn_that_nobody_began(stage: Stage, stopped_clock: Clock) -> None:
    thread = opened(stage)
    with wire() as line:
        asked(stage, thread, CONFIRM, "k")
    delay, record = reminder(line, stage)
    hinted(stage, thread.scope)
    assert GIVE_UP <= delay < LOCK - 5
    stopped_clock.forward(delay)
    work(stage, [record])
    gave_up(stage, thread)
    # Nobody wished for a person: the agent answers the next message.
    reply = conversed(stage, stopped_clock, thread, CONFIRM)["reply"]
    assert [action["type"] for action in reply["actions"]] == ["appointment_confirmed"]
    assert seen(stage, thread.appointment)["status"] == "confirmed"


@pytest.mark.parametrize("age", [0, 30, 57, 59, 90, 107])
def test_the_reminder_ends_a_turn_whose_last_worker_died_at_any_age(
    stage: Stage, stopped_clock: Clock, age: int
) -> None:
    thread = opened(stage)
    with wire() as line:
        asked(stage, thread, CONFIRM, "k")
    delay, later = reminder(line, stage)
    [record] = hinted(stage, thread.scope)
    stopped_clock.forward(age)
    with wire(kill_after=4), pytest.raises(Killed):
        work(stage, [record])
    stopped_clock.forward(delay - age)
    work(stage, [later])
    gave_up(stage, thread)
    assert conversed(stage, stopped_clock, thread, "Hello")["reply"]["content"] != answering.HOLDING


def test_a_turn_is_answered_as_long_as_it_is_younger_than_108_seconds(stage: Stage, stopped_clock: Clock) -> None:
    for age, status in ((GIVE_UP - 1, "complete"), (GIVE_UP, "failed")):
        thread = opened(stage)
        asked(stage, thread, CONFIRM, "k")
        [record] = hinted(stage, thread.scope)
        stopped_clock.forward(age)
        work(stage, [record])
        assert seen(stage, thread.messages)["data"][0]["reply_status"] == status


def test_the_fourth_worker_gives_a_turn_up_that_three_failed_at(stage: Stage, stopped_clock: Clock) -> None:
    thread = opened(stage)
    asked(stage, thread, CONFIRM, "k")
    [record] = hinted(stage, thread.scope)
    for _ in range(3):
        with wire(Fault(COMMIT, conflicting(0), ALWAYS)), suppress(BatchProcessingError):
            stage.invoke("turn", {"Records": [record]})
        assert len(seen(stage, thread.messages)["data"]) == 1
        stopped_clock.forward(1)
    work(stage, [record])
    gave_up(stage, thread)


def test_workers_that_die_one_after_the_other_leave_the_turn_to_the_reminder(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread = opened(stage)
    with wire() as line:
        asked(stage, thread, CONFIRM, "k")
    delay, later = reminder(line, stage)
    start, [record] = stopped_clock.now, hinted(stage, thread.scope)
    for age in (0, LEASE + 1, 2 * LEASE + 2):
        stopped_clock.now = start + age
        with wire(kill_before=COMMIT), pytest.raises(Killed):
            work(stage, [record])
    stopped_clock.now = start + delay
    work(stage, [later])
    gave_up(stage, thread)


@pytest.mark.usefixtures("owed_by_nobody_else")
def test_a_lock_is_free_120_seconds_after_its_message_though_the_worker_that_gave_up_died(
    stage: Stage, stopped_clock: Clock
) -> None:
    problems = []
    for death in deaths(3):
        thread = opened(stage)
        with wire() as line:
            asked(stage, thread, CONFIRM, "k")
        delay, later = reminder(line, stage)
        start, _ = stopped_clock.now, hinted(stage, thread.scope)
        stopped_clock.forward(delay)
        with wire(None, *death), pytest.raises(Killed):
            work(stage, [later])
        stopped_clock.now = start + LOCK
        # Whoever could still help by then does so.
        stage.invoke("sweep", {})
        work(stage, [*hinted(stage, thread.scope), later])
        found = send(Hurried(stage), thread, "Hello")
        if found.code != "agent_timeout":
            problems.append((death, found.code))
    assert problems == []


def test_a_turn_that_fails_for_good_is_an_ordinary_201_with_an_apology(stage: Stage, stopped_clock: Clock) -> None:
    thread = opened(stage)
    found = conversed(stage, stopped_clock, thread, "[[sim:error]]", "k")
    assert found["reply_status"] == "failed"
    assert found["reply"] == gave_up(stage, thread)


def test_a_turn_that_failed_leaves_the_conversation_to_the_agent(stage: Stage, stopped_clock: Clock) -> None:
    thread = opened(stage)
    assert conversed(stage, stopped_clock, thread, "[[sim:error]]")["reply_status"] == "failed"
    stopped_clock.forward(1)
    reply = conversed(stage, stopped_clock, thread, CONFIRM)["reply"]
    assert [action["type"] for action in reply["actions"]] == ["appointment_confirmed"]
    assert seen(stage, thread.appointment)["status"] == "confirmed"


def test_a_handoff_that_somebody_wished_for_outlasts_a_turn_that_failed(stage: Stage, stopped_clock: Clock) -> None:
    thread = opened(stage)
    for content in ("[[sim:handoff]]", "[[sim:error]]", CONFIRM):
        actions = conversed(stage, stopped_clock, thread, content)["reply"]["actions"]
        assert {action["type"] for action in actions} <= {"handoff"}
        stopped_clock.forward(1)
    assert seen(stage, thread.appointment)["status"] == "pending"


def test_a_reply_that_comes_after_the_window_is_not_looked_for_before_its_time(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread = opened(stage)
    message = asked(stage, thread, LATE, "k")
    record = hint(stage, thread, message)
    stopped_clock.forward(FORCED_REPLY - 1)
    work(stage, [record])
    assert len(seen(stage, thread.messages)["data"]) == 1
    stopped_clock.forward(1)
    work(stage, [record])
    assert len(seen(stage, thread.messages)["data"]) == 2
    assert send(stage, thread, LATE, "k").status == 201


@pytest.mark.parametrize("content", ["Hello", LATE])
def test_a_retry_with_its_key_waits_twenty_seconds_whatever_the_first_request_waited(
    stage: Stage, stopped_clock: Clock, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    # Windows are measured by the machine's own steady clock.
    monkeypatch.setattr("time.perf_counter", lambda: stopped_clock.now)
    thread = opened(stage)
    for window in (FORCED_WINDOW if content == LATE else WINDOW, WINDOW, WINDOW):
        start = stopped_clock.now
        assert send(stage, thread, content, "k").code == "agent_timeout"
        assert stopped_clock.now - start == pytest.approx(window, abs=0.01)


def test_the_forced_timeout_is_for_test_mode_only(
    stage: Stage, stopped_clock: Clock, live: Callable[[], Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.perf_counter", lambda: stopped_clock.now)
    monkeypatch.setenv("SIMULATE_LIVE", "0")
    thread, start = live(), stopped_clock.now
    assert send(stage, thread, LATE, "k").code == "agent_timeout"
    assert stopped_clock.now - start == pytest.approx(WINDOW, abs=0.01)


# Retries that never reach their endpoint


def two_ways(thread: Thread) -> list[tuple[str, dict[str, Any]]]:
    """By id, and by the caller's thread `t`: a path and a body."""
    body = {"content": "Hello"}
    return [(thread.messages, body), ("/v1/messages", body | {"external_conversation_id": "t"})]


def test_an_unknown_query_parameter_keeps_no_retry_from_its_saved_response(stage: Stage, stopped_clock: Clock) -> None:
    thread = opened(stage, external_id="t")
    for path, body in two_ways(thread):
        headers = keyed(path)
        with meanwhile(stopped_clock, lambda: answered(stage, thread)):
            first = stage.call("POST", path, body, headers=headers)
        assert first.status == 201
        for query in ("x=1", "limit=1", "x"):
            again = stage.call("POST", f"{path}?{query}", body, headers=headers)
            assert (again.status, again.body) == (201, first.body)
            assert again.headers["idempotent-replayed"] == "true"
            assert again.headers["original-request"] == first.headers["service-request-id"]
            assert again.headers["location"] == first.headers["location"]
        refused = stage.call("POST", f"{path}?x=1", body, headers=keyed(f"{path} 2"))
        assert (refused.status, refused.code) == (400, "parameter_unknown")
    assert len(seen(stage, thread.messages)["data"]) == 4


def test_an_unknown_query_parameter_keeps_no_retry_from_its_running_turn(stage: Stage, stopped_clock: Clock) -> None:
    thread = opened(stage, external_id="t")
    for path, body in two_ways(thread):
        headers = keyed(path)
        first = Hurried(stage).call("POST", path, body, headers=headers)
        stage.messages("turns")
        again = Hurried(stage).call("POST", f"{path}?x=1", body, headers=headers)
        for found in (first, again):
            assert (found.status, found.code) == (504, "agent_timeout")
            assert found.headers["service-should-retry"] == "true"
        for field in ("conversation_id", "message_id"):
            assert again.json["error"][field] == first.json["error"][field]
        # The hint that the first request gave is lost: the retry gives another while it waits.
        with meanwhile(stopped_clock, lambda: None, lambda: answered(stage, thread)):
            found = stage.call("POST", f"{path}?x=1", body, headers=headers)
        assert found.status == 201
        assert found.json["id"] == first.json["error"]["message_id"]


@pytest.mark.parametrize(
    "other",
    [
        {"content": "Other"},
        {"content": ""},
        {"content": None},
        {"nothing": 1},
        {"markdown": "yes"},
        {"customer": {}},
        {"customer": {"id": "nonsense"}},
        {"metadata": {"k": None}},
    ],
    ids=str,
)
def test_a_key_of_a_message_stays_bound_to_its_body_whatever_else_is_wrong(
    stage: Stage, stopped_clock: Clock, other: dict[str, Any]
) -> None:
    thread = opened(stage, external_id="t")
    for path, body in two_ways(thread):
        headers = keyed(path)
        assert Hurried(stage).call("POST", path, body, headers=headers).code == "agent_timeout"
        for query in ("", "?x=1"):
            refused = stage.call("POST", path + query, body | other, headers=headers)
            assert (refused.status, refused.code) == (400, "idempotency_key_reused")
        answered(stage, thread)


# The world changing during a turn


def decided(stage: Stage, thread: Thread, change: Callable[[], Any]) -> tuple[Any, Any]:
    """Let the worker answer while the change comes between its look and its commit; message and reply."""
    [record] = hinted(stage, thread.scope)
    with before_commit(change):
        work(stage, [record])
    *_, message, reply = seen(stage, thread.messages)["data"]
    return message, reply


def test_a_change_of_the_appointment_during_a_turn_is_not_lost(stage: Stage, stopped_clock: Clock) -> None:
    thread = opened(stage)
    asked(stage, thread, CONFIRM, "k")
    change = {"notes": "Ring twice", "metadata": {"a": 1}}
    message, reply = decided(stage, thread, lambda: stage.call("PATCH", thread.appointment, change))
    assert message["reply_status"] == "complete"
    assert [action["type"] for action in reply["actions"]] == ["appointment_confirmed"]
    appointment = seen(stage, thread.appointment)
    assert (appointment["status"], appointment["notes"], appointment["metadata"]) == ("confirmed", *change.values())
    assert events_of(stage, thread) == ["appointment.created", "appointment.confirmed"]


def test_an_appointment_cancelled_during_a_turn_stays_cancelled(stage: Stage, stopped_clock: Clock) -> None:
    thread = opened(stage)
    asked(stage, thread, CONFIRM, "k")
    _, reply = decided(stage, thread, lambda: stage.call("PATCH", thread.appointment, {"status": "cancelled"}))
    assert reply["actions"] == []
    assert "no upcoming appointment" in reply["content"]
    assert seen(stage, thread.appointment)["status"] == "cancelled"
    assert events_of(stage, thread) == ["appointment.created", "appointment.cancelled"]


def test_an_appointment_deleted_during_a_turn_stays_as_it_was_deleted(stage: Stage, stopped_clock: Clock) -> None:
    thread = opened(stage)
    asked(stage, thread, CONFIRM, "k")
    _, reply = decided(stage, thread, lambda: stage.call("DELETE", thread.appointment))
    assert reply["actions"] == []
    assert seen(stage, thread.appointment)["deleted_at"] is not None


def test_a_proposal_is_dropped_if_the_appointment_moves_during_the_turn_that_agrees(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread, record = wished(stage, stopped_clock, WISHES[1])
    with before_commit(lambda: stage.call("PATCH", thread.appointment, {"appointment_at": LATER})):
        work(stage, [record])
    reply = seen(stage, thread.messages)["data"][-1]
    assert reply["actions"] == []
    appointment = seen(stage, thread.appointment)
    assert (appointment["status"], appointment["appointment_at"]) == ("rescheduled", LATER.replace("Z", ".000Z"))
    assert events_of(stage, thread) == ["appointment.created", "appointment.rescheduled"]


@pytest.mark.parametrize("external_id", [None, "t"])
@pytest.mark.parametrize("early", [True, False], ids=["before_the_look", "before_the_commit"])
def test_of_a_conversation_ended_during_a_turn_the_reply_is_kept_and_the_effect_dropped(
    stage: Stage, stopped_clock: Clock, external_id: str | None, early: bool
) -> None:
    thread = opened(stage, external_id=external_id)
    asked(stage, thread, CONFIRM, "k")

    def end() -> None:
        assert stage.call("POST", f"/v1/conversations/{thread.id}/end").status == 200

    if early:
        end()
    message, reply = decided(stage, thread, (lambda: None) if early else end)
    assert (message["reply_status"], reply["actions"]) == ("complete", [])
    assert seen(stage, thread.appointment)["status"] == "pending"
    assert events_of(stage, thread) == ["appointment.created"]
    conversation = seen(stage, f"/v1/conversations/{thread.id}")
    assert conversation["status"] == "ended"
    assert send(stage, thread, CONFIRM, "k").json == message | {"reply": reply, "conversation": conversation}
    assert send(stage, thread, "Hello").code == "conversation_ended"


def test_a_conversation_that_agent_and_api_end_at_once_is_ended_once(stage: Stage, stopped_clock: Clock) -> None:
    thread = opened(stage, external_id="t")
    asked(stage, thread, "Goodbye", "k")
    end = f"/v1/conversations/{thread.id}/end"
    decided(stage, thread, lambda: stage.call("POST", end))
    ended = seen(stage, f"/v1/conversations/{thread.id}")
    assert ended["status"] == "ended"
    # The thread is free for another conversation.
    other = created(stage, "/v1/conversations", external_id="t")
    assert stage.call("POST", end).json == ended
    assert seen(stage, f"/v1/conversations/{other['id']}")["status"] == "active"


def test_to_a_customer_who_was_deleted_the_agent_only_hands_off(stage: Stage, stopped_clock: Clock) -> None:
    thread = opened(stage)
    asked(stage, thread, CONFIRM, "k")
    assert stage.call("DELETE", f"/v1/customers/{thread.customer}").status == 200
    _, reply = decided(stage, thread, lambda: None)
    assert [action["type"] for action in reply["actions"]] == ["handoff"]
    assert seen(stage, thread.appointment)["status"] == "pending"
    assert conversed(stage, stopped_clock, thread, CONFIRM)["reply"]["actions"] == []


def test_to_a_customer_who_is_deleted_during_the_turn_the_agent_only_hands_off(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread = opened(stage)
    asked(stage, thread, CONFIRM, "k")
    _, reply = decided(stage, thread, lambda: stage.call("DELETE", f"/v1/customers/{thread.customer}"))
    assert [action["type"] for action in reply["actions"]] == ["handoff"]
    assert seen(stage, thread.appointment)["status"] == "pending"
    assert events_of(stage, thread) == ["appointment.created"]


# Idempotency-Keys


def test_the_key_of_a_running_turn_waits_for_it_again_and_a_504_is_never_saved(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread = opened(stage)
    message = asked(stage, thread, CONFIRM, "k")
    for _ in range(2):
        again = send(Hurried(stage), thread, CONFIRM, "k")
        assert (again.status, again.code) == (504, "agent_timeout")
        assert again.json["error"]["message_id"] == message
        assert again.json["error"]["conversation_id"] == thread.id
        assert again.headers["location"].endswith(thread.messages)
        assert again.headers["service-should-retry"] == "true"
        assert again.json["error"]["request_id"] == again.headers["service-request-id"]
    assert [each["id"] for each in seen(stage, thread.messages)["data"]] == [message]
    # The reply comes within a new window.
    with meanwhile(stopped_clock, lambda: answered(stage, thread)):
        found = send(stage, thread, CONFIRM, "k")
    assert (found.status, found.headers["idempotent-replayed"]) == (201, "true")
    assert found.json["id"] == message
    assert not list(wrongs(stage, stopped_clock, thread, WISHES[0]))


def test_without_a_key_a_504_is_not_to_be_retried_and_the_next_message_is_busy(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread = opened(stage)
    found = send(Hurried(stage), thread, "Hello")
    assert (found.code, found.headers["service-should-retry"]) == ("agent_timeout", "false")
    busy = send(stage, thread, "Hello")
    assert (busy.status, busy.code, busy.headers["retry-after"]) == (409, "conversation_busy", "2")
    assert busy.headers["service-should-retry"] == "true"
    assert len(seen(stage, thread.messages)["data"]) == 1


@pytest.mark.parametrize("by_thread", [False, True], ids=["by_id", "by_thread"])
def test_the_key_of_an_answered_message_gives_the_same_bytes_whatever_has_happened_since(
    stage: Stage, stopped_clock: Clock, by_thread: bool
) -> None:
    thread = opened(stage, external_id="t")
    path = "/v1/messages" if by_thread else thread.messages
    body = {"content": "[[sim:markdown]]", "markdown": False}
    body |= {"external_conversation_id": "t"} if by_thread else {}
    with meanwhile(stopped_clock, lambda: answered(stage, thread)):
        first = stage.call("POST", path, body, headers=keyed("k"))
    assert first.status == 201
    assert "idempotent-replayed" not in first.headers
    changes: Sequence[Callable[[], Any]] = (
        lambda: None,
        lambda: conversed(stage, stopped_clock, thread, CONFIRM),
        lambda: asked(stage, thread, "Hello"),
        lambda: stage.call("POST", f"/v1/conversations/{thread.id}/end"),
        lambda: created(stage, "/v1/conversations", external_id="t"),
        lambda: stopped_clock.forward(23 * 3600),
    )
    for change in changes:
        change()
        again = stage.call("POST", path, body, headers=keyed("k"))
        assert (again.status, again.body) == (201, first.body)
        assert again.headers["idempotent-replayed"] == "true"
        assert again.headers["original-request"] == first.headers["service-request-id"]
        assert again.headers["location"] == first.headers["location"]


@pytest.mark.parametrize("running", [True, False], ids=["running", "answered"])
def test_a_messages_key_is_refused_to_any_other_request(stage: Stage, stopped_clock: Clock, running: bool) -> None:
    thread = opened(stage, external_id="t")
    asked(stage, thread, "Hello", "k")
    if not running:
        answered(stage, thread)
    others: Sequence[tuple[str, Any]] = (
        (thread.messages, {"content": "Hello!"}),
        (thread.messages, {"content": "Hello", "markdown": False}),
        ("/v1/messages", {"content": "Hello", "external_conversation_id": "t"}),
        ("/v1/customers", {"phone": PHONE}),
    )
    for path, body in others:
        found = Hurried(stage).call("POST", path, body, headers=keyed("k"))
        assert (found.status, found.code) == (400, "idempotency_key_reused"), (path, found.body)
    assert len(seen(stage, thread.messages)["data"]) == (1 if running else 2)
    assert seen(stage, f"/v1/conversations/{thread.id}")["status"] == "active"


def while_working(stage: Stage, scope: Scope, works: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """What the works, all at once, are answered, while a worker is at the queue."""
    left, done = list(works), threading.Event()

    def counted(request: Callable[[], Answer]) -> list[Answer]:
        try:
            return [request()]
        finally:
            left.pop()
            if not left:
                done.set()

    def worker() -> list[Answer]:
        while not done.wait(0.01):
            work(stage, hinted(stage, scope))
        work(stage, hinted(stage, scope))
        return []

    requests: list[Callable[[], list[Answer]]] = [partial(counted, each) for each in works]
    return [found for part in at_once([*requests, worker]) for found in part]


@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("by_thread", [False, True], ids=["by_id", "by_thread"])
def test_however_many_come_at_once_with_one_key_there_is_one_message_and_one_body(
    stage: Stage, by_thread: bool, count: int
) -> None:
    thread = opened(stage)
    path = "/v1/messages" if by_thread else thread.messages
    body: dict[str, Any] = {"content": CONFIRM}
    body |= {"external_conversation_id": "new", "customer": {"id": thread.customer}} if by_thread else {}
    request = partial(stage.call, "POST", path, body, headers=keyed("k"))
    answers = while_working(stage, thread.scope, [request] * count)
    assert [found.status for found in answers] == [201] * count, [found.body for found in answers]
    assert len({found.body for found in answers}) == 1
    assert sum("idempotent-replayed" in found.headers for found in answers) == count - 1
    messages = seen(stage, f"/v1/conversations/{answers[0].json['conversation']['id']}/messages")["data"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert len(listed(stage, "/v1/conversations")) == 1 + by_thread
    assert events_of(stage, thread) == ["appointment.created", "appointment.confirmed"]


# Many messages at once


def alternating(stage: Stage, conversation: str, answers: Sequence[Answer]) -> None:
    """The transcript is a row of exchanges, those that were answered 201; all others were refused as busy."""
    codes = Counter("201" if found.status == 201 else found.code for found in answers)
    assert set(codes) <= {"201", "conversation_busy"}, codes
    assert codes["201"] >= 1
    for found in answers:
        if found.status == 409:
            assert (found.headers["retry-after"], found.headers["service-should-retry"]) == ("2", "true")
    messages = seen(stage, f"/v1/conversations/{conversation}/messages?limit=100")["data"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * codes["201"]
    exchanges = {message["id"]: reply for message, reply in zip(messages[::2], messages[1::2], strict=True)}
    assert {found.json["id"]: found.json["reply"] for found in answers if found.status == 201} == exchanges
    assert {message["reply_status"] for message in messages[::2]} == {"complete"}


def test_sixteen_first_messages_on_one_thread_give_one_conversation(stage: Stage, project: Project) -> None:
    def first(n: int) -> Answer:
        body = {"external_conversation_id": "t", "content": f"Hello {n}", "customer": {"phone": PHONE}}
        return stage.call("POST", "/v1/messages", body)

    answers = while_working(stage, Scope(project.id, False), [partial(first, n) for n in range(16)])
    [conversation] = listed(stage, "/v1/conversations")
    assert conversation["external_id"] == "t"
    [customer] = listed(stage, "/v1/customers")
    assert conversation["customer_id"] == customer["id"]
    alternating(stage, conversation["id"], answers)


def test_sixteen_messages_at_once_to_one_conversation_alternate_with_their_replies(stage: Stage) -> None:
    thread = opened(stage)

    def chat(n: int) -> Answer:
        # Each tries a few times, as a client that is told to come back does.
        for _ in range(3):
            found = send(stage, thread, f"Hello {n}")
            if found.status == 201:
                break
        return found

    answers = while_working(stage, thread.scope, [partial(chat, n) for n in range(16)])
    alternating(stage, thread.id, answers)


def test_of_sixteen_messages_while_nobody_answers_one_is_stored(stage: Stage) -> None:
    thread = opened(stage)
    answers = at_once([partial(send, Hurried(stage), thread, f"Hello {n}") for n in range(16)])
    codes = Counter(found.code for found in answers)
    # Who is in a hurry does not take part in the race for long.
    assert codes["agent_timeout"] == 1
    assert codes["conversation_busy"] + codes["conflict"] == 15
    assert len(seen(stage, thread.messages)["data"]) == 1


def test_messages_and_an_end_at_once_leave_no_message_unanswered(stage: Stage) -> None:
    thread = opened(stage, external_id="t")
    ends = [partial(stage.call, "POST", f"/v1/conversations/{thread.id}/end")] * 2
    chats = [partial(send, stage, thread, f"Hello {n}") for n in range(4)]
    answers = while_working(stage, thread.scope, [*chats, *ends])
    assert [found.status for found in answers[4:]] == [200, 200]
    assert {found.code for found in answers[:4] if found.status != 201} <= {"conversation_busy", "conversation_ended"}
    messages = seen(stage, thread.messages)["data"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2)
    assert len(messages) // 2 == sum(found.status == 201 for found in answers[:4])


@pytest.mark.parametrize("seconds", [0, -0.02], ids=["same_millisecond", "clock_of_another_host"])
def test_a_message_stands_after_the_reply_before_it_whatever_the_clocks_say(
    stage: Stage, stopped_clock: Clock, seconds: float
) -> None:
    thread = opened(stage)
    for _ in range(6):
        conversed(stage, stopped_clock, thread, "Hello")
        stopped_clock.forward(seconds)
        asked(stage, thread, "Hello")
        answered(stage, thread)
        stopped_clock.forward(1)
    assert [each["role"] for each in listed(stage, thread.messages)] == ["user", "assistant"] * 12


# A message's request in trouble


@dataclass(frozen=True)
class Post:
    """A message on the thread `t`, and how many messages and customers there are when it is stored."""

    new: bool
    customer: Any = None

    def send(self, stage: Stage, key: str | None) -> Answer:
        """The answer, without a wait for the reply."""
        body = {"external_conversation_id": "t", "content": "Hello"}
        body |= {"customer": self.customer} if self.customer else {}
        return Hurried(stage).call("POST", "/v1/messages", body, headers=keyed(key))


POSTS = {
    "first": Post(new=True, customer={"external_id": "x", "phone": PHONE}),
    "later": Post(new=False),
}


def prepared(stage: Stage, time: Clock, post: Post) -> Scope:
    """A new project; with the thread, if the message is not to be the first."""
    time.forward(1)
    scope = Scope(stage.project().id, False)
    if not post.new:
        created(stage, "/v1/conversations", external_id="t")
    return scope


def settled(stage: Stage, time: Clock, scope: Scope, post: Post) -> Iterator[str]:
    """What is wrong with the thread after its message, once the hints and sweep have been heard."""
    time.forward(31)
    stage.invoke("sweep", {})
    work(stage, hinted(stage, scope))
    conversations = listed(stage, "/v1/conversations")
    if len(conversations) != 1:
        yield f"{len(conversations)} conversations"
        return
    messages = seen(stage, f"/v1/conversations/{conversations[0]['id']}/messages")["data"]
    if [message["role"] for message in messages] != ["user", "assistant"]:
        yield f"the transcript is {[message['role'] for message in messages]}"
    if len(listed(stage, "/v1/customers")) != bool(post.customer):
        yield "not one customer"


def calls_of(stage: Stage, time: Clock, post: Post, key: str | None) -> Wire:
    prepared(stage, time, post)
    with wire() as line:
        assert post.send(stage, key).code == "agent_timeout"
    return line


def decides_anew(trouble: Trouble) -> bool:
    """Whether the request has to decide anew to come through."""
    return trouble.code is None and trouble.tries >= 3


def expected(trouble: Trouble, service: str) -> str:
    """The code that a request in this trouble is answered with; hints are best effort."""
    return "agent_timeout" if service == "sqs" or trouble.code is None else trouble.code


@pytest.mark.usefixtures("owed_by_nobody_else")
@pytest.mark.parametrize("kind", FEWER_TROUBLES)
@pytest.mark.parametrize("post", POSTS.values(), ids=POSTS)
def test_a_message_in_trouble_has_the_contracts_answer_and_is_stored_once_under_its_key(
    stage: Stage, stopped_clock: Clock, post: Post, kind: str
) -> None:
    calls = calls_of(stage, stopped_clock, post, "k").calls
    problems = []
    for trouble, (position, call) in itertools.product(FEWER_TROUBLES[kind], enumerate(calls)):
        # Who is in a hurry does not take part in a race for long: `conflict` may come early.
        if trouble.writes_only and (call.operation not in WRITES or position == 0 or decides_anew(trouble)):
            continue
        scope = prepared(stage, stopped_clock, post)
        with wire(Fault(position, trouble.disturbance, trouble.tries)):
            first = post.send(stage, "k")
        stopped_clock.forward(1)
        second = post.send(stage, "k")
        wrong = [f"{first.status} {first.body[:90]!r}"] if first.code != expected(trouble, call.service) else []
        wrong += ["not to be retried"] if first.headers["service-should-retry"] != "true" else []
        wrong += [f"retry: {second.status} {second.body[:90]!r}"] if second.code != "agent_timeout" else []
        wrong += settled(stage, stopped_clock, scope, post)
        third, fourth = post.send(stage, "k"), post.send(stage, "k")
        # Without time to wait there is no look either: the reply is asked for with time.
        wrong += [] if third.code == fourth.code == "agent_timeout" else ["the hurried replay is no 504"]
        body = {"external_conversation_id": "t", "content": "Hello"}
        body |= {"customer": post.customer} if post.customer else {}
        replay = stage.call("POST", "/v1/messages", body, headers=keyed("k"))
        if (replay.status, replay.headers.get("idempotent-replayed")) != (201, "true"):
            wrong.append(f"replay: {replay.status} {replay.body[:90]!r}")
        problems += [f"{trouble.name} at {position} {call.operation}: {each}" for each in wrong]
    assert not problems, "\n".join(problems)


@pytest.mark.usefixtures("owed_by_nobody_else")
@pytest.mark.parametrize("kind", ["passing", "lasting", "conflict"])
@pytest.mark.parametrize("post", POSTS.values(), ids=POSTS)
def test_a_message_without_a_key_in_trouble_has_the_contracts_answer_and_is_stored_at_most_once(
    stage: Stage, stopped_clock: Clock, post: Post, kind: str
) -> None:
    calls = calls_of(stage, stopped_clock, post, None).calls
    problems = []
    for trouble, (position, call) in itertools.product(FEWER_TROUBLES[kind], enumerate(calls)):
        # Who is in a hurry does not take part in a race for long: `conflict` may come early.
        if trouble.writes_only and (call.operation not in WRITES or position == 0 or decides_anew(trouble)):
            continue
        scope = prepared(stage, stopped_clock, post)
        with wire(Fault(position, trouble.disturbance, trouble.tries)):
            first = post.send(stage, None)
        wrong = [f"{first.status} {first.body[:90]!r}"] if first.code != expected(trouble, call.service) else []
        if first.code == "agent_timeout":
            wrong += settled(stage, stopped_clock, scope, post)
        else:
            found = listed(stage, "/v1/conversations")
            sizes = [len(seen(stage, f"/v1/conversations/{each['id']}/messages")["data"]) for each in found]
            if len(sizes) > 1 or any(size > 1 for size in sizes):
                wrong.append(f"messages {sizes}")
        problems += [f"{trouble.name} at {position} {call.operation}: {each}" for each in wrong]
    assert not problems, "\n".join(problems)


@pytest.mark.usefixtures("owed_by_nobody_else")
@pytest.mark.parametrize("post", POSTS.values(), ids=POSTS)
def test_a_message_whose_request_dies_at_any_point_is_stored_once_under_its_key_and_answered(
    stage: Stage, stopped_clock: Clock, post: Post
) -> None:
    problems = []
    for death in deaths(len(calls_of(stage, stopped_clock, post, "k").calls)):
        scope = prepared(stage, stopped_clock, post)
        with wire(None, *death), suppress(Killed):
            post.send(stage, "k")
        stopped_clock.forward(1)
        assert post.send(stage, "k").code == "agent_timeout"
        problems += [f"{death}: {wrong}" for wrong in settled(stage, stopped_clock, scope, post)]
    assert problems == []


def test_a_look_for_the_reply_in_trouble_is_followed_by_another_and_the_reply_is_found(
    stage: Stage, stopped_clock: Clock
) -> None:
    for trouble in (*PASSING_TROUBLE, *LASTING_TROUBLE):
        thread = opened(stage)

        def disturbed(thread: Thread = thread, trouble: Trouble = trouble) -> None:
            answered(stage, thread)
            line.fault = Fault(len(line.calls), trouble.disturbance, trouble.tries)

        def over() -> None:
            line.fault = None

        with wire() as line, meanwhile(stopped_clock, disturbed, over):
            first = send(stage, thread, "Hello", "k")
        assert line.disturbed, trouble.name
        # The message is stored: without a key, a client that was sent away would send it twice.
        assert first.status == 201, (trouble.name, first.body)
        stopped_clock.forward(1)
        again = send(stage, thread, "Hello", "k")
        assert again.status == 201
        assert again.body == first.body
        assert len(seen(stage, thread.messages)["data"]) == 2


# Sweep


@pytest.mark.usefixtures("owed_by_nobody_else")
def test_sweep_hints_at_messages_and_deliveries_each_in_the_queue_of_its_worker(
    stage: Stage, stopped_clock: Clock
) -> None:
    created(stage, "/v1/webhook_endpoints", url="https://example.com/hook")
    project = stage.project()
    created(stage, "/v1/webhook_endpoints", url="https://example.com/hook")
    thread = opened(stage, project)
    with wire(Fault(0, refused, service="sqs")):
        stage.fan_out()
        message = asked(stage, thread, "Hello", "k")
    deliveries = {
        delivery["id"]
        for event in listed(stage, "/v1/events")
        for delivery in listed(stage, f"/v1/events/{event['id']}/deliveries")
    }
    assert len(deliveries) == 2
    stage.invoke("sweep", {})
    assert not hinted(stage, thread.scope)
    assert not hinted(stage, thread.scope, "retries")
    stopped_clock.forward(61)
    stage.invoke("sweep", {})
    [record] = hinted(stage, thread.scope)
    assert json.loads(record["body"]) == json.loads(hint(stage, thread, message)["body"])
    assert {json.loads(each["body"])["delivery_id"] for each in hinted(stage, thread.scope, "retries")} == deliveries
    work(stage, [record])
    # What is answered is not hinted at again.
    stopped_clock.forward(7200)
    stage.invoke("sweep", {})
    assert hinted(stage, thread.scope) == []
    assert send(stage, thread, "Hello", "k").status == 201


@pytest.mark.usefixtures("owed_by_nobody_else")
def test_sweep_has_a_message_answered_in_time_whose_hints_were_all_lost(stage: Stage, stopped_clock: Clock) -> None:
    for start in range(0, 60, 15):
        thread = opened(stage)
        with wire(Fault(0, refused, service="sqs")):
            asked(stage, thread, CONFIRM, "k")
        # Sweep runs every minute; the message came at some second of it.
        for wait in (start, 60):
            stopped_clock.forward(wait)
            stage.invoke("sweep", {})
            work(stage, hinted(stage, thread.scope))
        assert not list(wrongs(stage, stopped_clock, thread, WISHES[0])), start


# Usage


def used(scope: Scope) -> dict[str, int]:
    """This month's usage."""
    return dict(usage.of_month(scope, clock.iso(clock.now())[:7]))


@pytest.fixture
def live(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Thread]:
    """Makes a thread in live mode, in a new project; the stage calls with its live key from then on."""
    monkeypatch.setenv("SIMULATE_LIVE", "1")

    def thread() -> Thread:
        project = stage.project()
        stage._key = project.live_key
        return opened(stage, project, livemode=True)

    return thread


def test_a_live_turn_is_counted_once_and_a_test_turn_is_not(
    stage: Stage, stopped_clock: Clock, live: Callable[[], Thread]
) -> None:
    stopped_clock.now = 1_900_000_000.0
    thread = live()
    contents = ("Hello", CONFIRM, "[[sim:error]]", CONFIRM)
    for count, content in enumerate(contents, 1):
        found = conversed(stage, stopped_clock, thread, content, f"k{count}")
        assert found["conversation"]["livemode"] is True
        assert used(thread.scope)["messages"] == count
    # The key again, and the hint again, are no further turns.
    assert send(stage, thread, "Hello", "k1").status == 201
    work(stage, [hint(stage, thread, found["id"])])
    assert used(thread.scope)["messages"] == len(contents)
    # A month has its own sum; so have a mode and a project.
    stopped_clock.forward(31 * 24 * 3600)
    assert used(thread.scope) == dict.fromkeys(usage.COUNTERS, 0)
    conversed(stage, stopped_clock, thread, "Hello")
    assert used(thread.scope)["messages"] == 1
    assert used(Scope(thread.scope.project_id, False))["messages"] == 0
    tested = opened(stage)
    conversed(stage, stopped_clock, tested, "Hello")
    for livemode in (False, True):
        assert used(Scope(tested.scope.project_id, livemode))["messages"] == 0


def test_a_live_turn_whose_worker_dies_or_is_in_trouble_is_counted_once(
    stage: Stage, stopped_clock: Clock, live: Callable[[], Thread]
) -> None:
    def one() -> tuple[Thread, dict[str, Any]]:
        thread = live()
        asked(stage, thread, CONFIRM, "k")
        [record] = hinted(stage, thread.scope)
        return thread, record

    thread, record = one()
    with wire() as line:
        work(stage, [record])
    kills = [partial(wire, None, *death) for death in deaths(len(line.calls))]
    last = len(line.calls) - 1
    troubles = [trouble for kind in ("passing", "lasting", "conflict") for trouble in FEWER_TROUBLES[kind]]
    faults = [partial(wire, Fault(last, each.disturbance, each.tries)) for each in troubles]
    for disturbed in (*kills, *faults):
        thread, record = one()
        with disturbed(), suppress(Killed, BatchProcessingError):
            stage.invoke("turn", {"Records": [record]})
        given_again(stage, stopped_clock, thread, record, by_sweep=False)
        assert used(thread.scope)["messages"] == 1, disturbed
        assert not list(wrongs(stage, stopped_clock, thread, WISHES[0])), disturbed
        assert used(thread.scope)["messages"] == 1, disturbed


def test_a_live_message_is_answered_by_the_stages_model_and_its_tokens_are_counted(
    stage: Stage,
    stopped_clock: Clock,
    live: Callable[[], Thread],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setenv("SIMULATE_LIVE", "0")
    monkeypatch.setenv("MODEL_ID", "model")
    agent = Bedrock.from_environment()
    adapters.use(agent)
    request.addfinalizer(lambda: adapters.use(None))
    thread = live()
    with Stubber(agent.client) as model:
        model.add_response("converse", models.answer("end_turn", [{"text": "Good morning."}], tokens=(100, 10)))
        found = conversed(stage, stopped_clock, thread, "Hello")
        model.assert_no_pending_responses()
    assert found["reply"]["content"] == "Good morning."
    counted = used(thread.scope)
    assert (counted["messages"], counted["input_tokens"], counted["output_tokens"]) == (1, 100, 10)


def test_a_months_usage_sums_the_tokens_of_all_its_turns(stage: Stage, project: Project) -> None:
    scope = Scope(project.id, True)
    for month, count in (("2031-01", 3), ("2031-02", 5)):
        for number in range(count):
            tokens = {"input_tokens": 10 + number, "output_tokens": 100 * number}
            at = clock.parse(f"{month}-15T12:00:00Z")
            table.write([table.Put(usage.row(scope, f"msg_{number:026d}", at, messages=1, model="m", **tokens))], "r")
        call = usage.row(scope, "sess_" + "0" * 26, at, calls=1, call_seconds=90)
        table.write([table.Put(call)], "r")
    nothing = dict.fromkeys(usage.COUNTERS, 0)
    january = {"messages": 3, "input_tokens": 33, "output_tokens": 300, "calls": 1, "call_seconds": 90}
    february = {"messages": 5, "input_tokens": 60, "output_tokens": 1000, "calls": 1, "call_seconds": 90}
    assert usage.of_month(scope, "2031-01") == january
    assert usage.of_month(scope, "2031-02") == february
    assert usage.of_month(scope, "2031-03") == nothing
