"""Turns: each message has one reply and one effect, whatever happens to its workers (promises 8)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from shared.conversations import replies
from shared.core import clock
from shared.store.keys import Scope
from tests.support import rows
from tests.support.clocks import Clock
from tests.support.concurrency import run_at_once
from tests.support.conversations import (
    CONFIRM,
    LEASE,
    WISHES,
    Hurried,
    Thread,
    Wish,
    before_commit,
    events_of,
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
from tests.support.resources import create_resource, get_resource, list_resources, woken
from tests.support.stage import Stage, sqs_record
from tests.support.wire import ALWAYS, Fault, Killed, Wire, conflicting, refuse_connection, wire

LATER = "2030-06-07T08:00:00Z"

GIVE_UP = 108
LOCK = 120
LATE = "[[sim:timeout]]"
COMMIT = 6
"""The position of the commit among a worker's calls for a customer."""
FORCED_REPLY = 7
"""Seconds after a request with that content: its reply."""


# One reply and one effect

wishes = pytest.mark.parametrize("wish", WISHES, ids=lambda wish: wish.action)


def thread_with_wish(stage: Stage, time: Clock, wish: Wish) -> tuple[Thread, dict[str, Any]]:
    """In a new project: a thread with the wish in it, under the key `k`, and the wake-up at its turn."""
    thread = new_thread(stage)
    for content in wish.before:
        send_and_get(stage, time, thread, content)
        time.forward(1)
    store_unanswered_message(stage, thread, wish.content, "k")
    [record] = woken(stage, thread.scope)
    return thread, record


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
@pytest.mark.parametrize("by_sweep", [False, True], ids=["message_again", "sweep"])
@wishes
def test_a_turn_whose_worker_dies_at_any_point_has_one_reply_and_one_effect(
    stage: Stage, stopped_clock: Clock, wish: Wish, by_sweep: bool
) -> None:
    _, record = thread_with_wish(stage, stopped_clock, wish)
    with wire() as line:
        work(stage, [record])
    problems = []
    for death in deaths(line.operations()):
        thread, record = thread_with_wish(stage, stopped_clock, wish)
        with wire(None, *death), pytest.raises(Killed):
            work(stage, [record])
        redeliver_wake_up(stage, stopped_clock, thread, record, by_sweep)
        problems += [f"{death}: {wrong}" for wrong in thread_errors(stage, stopped_clock, thread, wish)]
    assert not problems, "\n".join(problems)


def test_a_worker_that_died_keeps_its_turn_from_others_until_its_lease_is_over(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread, record = thread_with_wish(stage, stopped_clock, WISHES[0])
    with wire(kill_after=0), pytest.raises(Killed):
        work(stage, [record])
    stopped_clock.forward(LEASE - 1)
    with wire() as line:
        work(stage, [record])
    assert line.operations() == ["UpdateItem"]
    stopped_clock.forward(2)
    work(stage, [record])
    assert not list(thread_errors(stage, stopped_clock, thread, WISHES[0]))


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
@pytest.mark.parametrize("kind", ["passing", "lasting", "conflict"])
def test_a_turn_whose_worker_is_in_trouble_with_any_call_has_one_reply_and_one_effect(
    stage: Stage, stopped_clock: Clock, kind: str
) -> None:
    wish = WISHES[0]
    _, record = thread_with_wish(stage, stopped_clock, wish)
    with wire() as line:
        work(stage, [record])
    problems = []
    for trouble, (position, call) in itertools.product(FEWER_TROUBLES[kind], enumerate(line.calls)):
        if not trouble.concerns(call.operation):
            continue
        name = f"{trouble.name} at {position} {call.operation}"
        thread, record = thread_with_wish(stage, stopped_clock, wish)
        with wire(Fault(position, trouble.disturbance, trouble.tries)):
            stage.invoke("turn", {"Records": [record]})
        redeliver_wake_up(stage, stopped_clock, thread, record, by_sweep=False)
        problems += [f"{name}: {wrong}" for wrong in thread_errors(stage, stopped_clock, thread, wish)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("conflicts", [1, 2, 3, 8])
@pytest.mark.parametrize("position", [0, 1, -1], ids=["reply", "conversation", "message"])
def test_a_commit_in_conflict_is_made_good_by_the_same_worker(
    stage: Stage, stopped_clock: Clock, conflicts: int, position: int
) -> None:
    thread, record = thread_with_wish(stage, stopped_clock, WISHES[0])
    with wire() as line:
        line.fault = Fault(COMMIT, conflicting(position), conflicts)
        work(stage, [record])
    assert line.disturbed == conflicts
    assert not list(thread_errors(stage, stopped_clock, thread, WISHES[0]))


def test_a_worker_that_comes_late_to_its_commit_finds_its_turn_taken(stage: Stage, stopped_clock: Clock) -> None:
    thread, record = thread_with_wish(stage, stopped_clock, WISHES[0])

    def overtaken() -> None:
        stopped_clock.forward(LEASE + 1)
        work(stage, [record])

    with before_commit(overtaken):
        stage.invoke("turn", {"Records": [record]})
    work(stage, [record])
    assert not list(thread_errors(stage, stopped_clock, thread, WISHES[0]))


def test_of_sixteen_workers_at_one_turn_one_answers(stage: Stage, stopped_clock: Clock) -> None:
    thread, record = thread_with_wish(stage, stopped_clock, WISHES[0])
    run_at_once([lambda: work(stage, [record])] * 16)
    assert not list(thread_errors(stage, stopped_clock, thread, WISHES[0]))


# Turns that are given up


def gave_up(stage: Stage, thread: Thread, key: str = "k") -> Any:
    """The apology of a turn that failed, checked; the reply."""
    message, reply = get_resource(stage, thread.messages)["data"]
    assert message["reply_status"] == "failed"
    assert reply["content"].endswith(replies.APOLOGY)
    assert [action["type"] for action in reply["actions"]] == ["handoff"]
    response = send(stage, thread, message["content"], key)
    assert response.status == 201, response.body
    conversation = get_resource(stage, f"/v1/conversations/{thread.id}")
    assert response.json == message | {"reply": reply, "conversation": conversation}
    assert get_resource(stage, thread.appointment)["status"] == "pending"
    assert events_of(stage, thread) == ["appointment.created"]
    return reply


def reminder(line: Wire, stage: Stage) -> tuple[int, dict[str, Any]]:
    """The later of the two wake-ups that a message sent: its delay in seconds, and the record it becomes."""
    [call] = line.of("SendMessageBatch")
    entry = max(call.parameters["Entries"], key=lambda entry: entry.get("DelaySeconds", 0))
    return entry["DelaySeconds"], sqs_record(entry["MessageBody"], stage.queues["turns"].arn)


def test_the_reminder_ends_a_turn_that_nobody_began(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    with wire() as line:
        store_unanswered_message(stage, thread, CONFIRM, "k")
    delay, record = reminder(line, stage)
    woken(stage, thread.scope)
    assert GIVE_UP <= delay < LOCK - 5
    stopped_clock.forward(delay)
    work(stage, [record])
    gave_up(stage, thread)
    # Nobody wished for a person: the agent answers the next message.
    reply = send_and_get(stage, stopped_clock, thread, CONFIRM)["reply"]
    assert [action["type"] for action in reply["actions"]] == ["appointment_confirmed"]
    assert get_resource(stage, thread.appointment)["status"] == "confirmed"


@pytest.mark.parametrize("age", [0, 30, 57, 59, 90, 107])
def test_the_reminder_ends_a_turn_whose_last_worker_died_at_any_age(
    stage: Stage, stopped_clock: Clock, age: int
) -> None:
    thread = new_thread(stage)
    with wire() as line:
        store_unanswered_message(stage, thread, CONFIRM, "k")
    delay, later = reminder(line, stage)
    [record] = woken(stage, thread.scope)
    stopped_clock.forward(age)
    with wire(kill_after=4), pytest.raises(Killed):
        work(stage, [record])
    stopped_clock.forward(delay - age)
    work(stage, [later])
    gave_up(stage, thread)
    assert send_and_get(stage, stopped_clock, thread, "Hello")["reply"]["content"] != replies.HOLDING


def test_a_turn_is_answered_as_long_as_it_is_younger_than_108_seconds(stage: Stage, stopped_clock: Clock) -> None:
    for age, status in ((GIVE_UP - 1, "complete"), (GIVE_UP, "failed")):
        thread = new_thread(stage)
        store_unanswered_message(stage, thread, CONFIRM, "k")
        [record] = woken(stage, thread.scope)
        stopped_clock.forward(age)
        work(stage, [record])
        assert get_resource(stage, thread.messages)["data"][0]["reply_status"] == status


def test_the_fourth_worker_gives_a_turn_up_that_three_failed_at(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    store_unanswered_message(stage, thread, CONFIRM, "k")
    [record] = woken(stage, thread.scope)
    for _ in range(3):
        with wire(Fault(COMMIT, conflicting(0), ALWAYS)):
            stage.invoke("turn", {"Records": [record]})
        assert len(get_resource(stage, thread.messages)["data"]) == 1
        stopped_clock.forward(1)
    work(stage, [record])
    gave_up(stage, thread)


def test_workers_that_die_one_after_the_other_leave_the_turn_to_the_reminder(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread = new_thread(stage)
    with wire() as line:
        store_unanswered_message(stage, thread, CONFIRM, "k")
    delay, later = reminder(line, stage)
    start, [record] = stopped_clock.now, woken(stage, thread.scope)
    for age in (0, LEASE + 1, 2 * LEASE + 2):
        stopped_clock.now = start + age
        with wire(kill_before=COMMIT), pytest.raises(Killed):
            work(stage, [record])
    stopped_clock.now = start + delay
    work(stage, [later])
    gave_up(stage, thread)


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
def test_a_lock_is_free_120_seconds_after_its_message_though_the_worker_that_gave_up_died(
    stage: Stage, stopped_clock: Clock
) -> None:
    def neglected_thread() -> tuple[Thread, float, dict[str, Any]]:
        """A thread whose message nobody answered until its reminder is due; when it was sent; the reminder."""
        thread = new_thread(stage)
        with wire() as line:
            store_unanswered_message(stage, thread, CONFIRM, "k")
        delay, later = reminder(line, stage)
        start, _ = stopped_clock.now, woken(stage, thread.scope)
        stopped_clock.forward(delay)
        return thread, start, later

    _, _, later = neglected_thread()
    with wire() as line:
        work(stage, [later])
    problems = []
    for death in deaths(line.operations()):
        thread, start, later = neglected_thread()
        with wire(None, *death), pytest.raises(Killed):
            work(stage, [later])
        stopped_clock.now = start + LOCK
        # Whoever could still help by then does so.
        stage.invoke("sweep", {})
        work(stage, [*woken(stage, thread.scope), later])
        found = send(Hurried(stage), thread, "Hello")
        if found.code != "agent_timeout":
            problems.append((death, found.code))
    assert problems == []


def test_a_turn_that_fails_for_good_is_an_ordinary_201_with_an_apology(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    found = send_and_get(stage, stopped_clock, thread, "[[sim:error]]", "k")
    assert found["reply_status"] == "failed"
    assert found["reply"] == gave_up(stage, thread)


def test_a_turn_that_failed_leaves_the_conversation_to_the_agent(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    assert send_and_get(stage, stopped_clock, thread, "[[sim:error]]")["reply_status"] == "failed"
    stopped_clock.forward(1)
    reply = send_and_get(stage, stopped_clock, thread, CONFIRM)["reply"]
    assert [action["type"] for action in reply["actions"]] == ["appointment_confirmed"]
    assert get_resource(stage, thread.appointment)["status"] == "confirmed"


def test_a_handoff_that_somebody_wished_for_outlasts_a_turn_that_failed(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    for content in ("[[sim:handoff]]", "[[sim:error]]", CONFIRM):
        actions = send_and_get(stage, stopped_clock, thread, content)["reply"]["actions"]
        assert {action["type"] for action in actions} <= {"handoff"}
        stopped_clock.forward(1)
    assert get_resource(stage, thread.appointment)["status"] == "pending"


def test_a_wake_up_that_comes_too_early_is_dropped_and_one_that_is_a_little_early_waits(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread = new_thread(stage)
    message = store_unanswered_message(stage, thread, LATE, "k")
    record, due = wake_up(stage, thread, message), stopped_clock.now + FORCED_REPLY
    stopped_clock.now = due - 1.1
    work(stage, [record])
    assert len(get_resource(stage, thread.messages)["data"]) == 1
    stopped_clock.now = due - 0.9
    work(stage, [record])
    assert stopped_clock.now >= due
    assert len(get_resource(stage, thread.messages)["data"]) == 2
    assert send(stage, thread, LATE, "k").status == 201


# The world changing during a turn


def decide_while(stage: Stage, thread: Thread, change: Callable[[], Any]) -> tuple[Any, Any]:
    """Let the worker answer while the change comes between its look and its commit; message and reply."""
    [record] = woken(stage, thread.scope)
    with before_commit(change):
        work(stage, [record])
    *_, message, reply = get_resource(stage, thread.messages)["data"]
    return message, reply


def test_the_agent_gets_the_next_appointments_of_a_customer_who_has_many(stage: Stage) -> None:
    scope, customer = Scope(stage.project().id, False), "cust_" + "0" * 25 + "1"

    def stored(days: int, count: int, **given: Any) -> list[str]:
        times = [clock.iso(clock.now() + days * clock.DAY + number * clock.HOUR) for number in range(count)]
        made = [rows.appointment(scope, customer_id=customer, appointment_at=time, **given) for time in times]
        rows.write(made[::-1])
        return [row["sk"] for row in made]

    stored(-3, 5)
    stored(1, 60, status="cancelled")
    following = stored(2, 55)
    found = replies.upcoming_appointments(scope, customer)
    assert [record.doc["id"] for record in found] == following[:50]


def test_a_change_of_the_appointment_during_a_turn_is_not_lost(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    store_unanswered_message(stage, thread, CONFIRM, "k")
    change = {"notes": "Ring twice", "metadata": {"a": 1}}
    message, reply = decide_while(stage, thread, lambda: stage.call("PATCH", thread.appointment, change))
    assert message["reply_status"] == "complete"
    assert [action["type"] for action in reply["actions"]] == ["appointment_confirmed"]
    appointment = get_resource(stage, thread.appointment)
    assert (appointment["status"], appointment["notes"], appointment["metadata"]) == ("confirmed", *change.values())
    assert events_of(stage, thread) == ["appointment.created", "appointment.updated", "appointment.confirmed"]


def test_an_appointment_cancelled_during_a_turn_stays_cancelled(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    store_unanswered_message(stage, thread, CONFIRM, "k")
    _, reply = decide_while(stage, thread, lambda: stage.call("PATCH", thread.appointment, {"status": "cancelled"}))
    assert reply["actions"] == []
    assert "no upcoming appointment" in reply["content"]
    assert get_resource(stage, thread.appointment)["status"] == "cancelled"
    assert events_of(stage, thread) == ["appointment.created", "appointment.cancelled"]


def test_an_appointment_deleted_during_a_turn_stays_as_it_was_deleted(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    store_unanswered_message(stage, thread, CONFIRM, "k")
    _, reply = decide_while(stage, thread, lambda: stage.call("DELETE", thread.appointment))
    assert reply["actions"] == []
    assert get_resource(stage, thread.appointment)["deleted_at"] is not None


def test_a_proposal_is_dropped_if_the_appointment_moves_during_the_turn_that_agrees(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread, record = thread_with_wish(stage, stopped_clock, WISHES[1])
    with before_commit(lambda: stage.call("PATCH", thread.appointment, {"appointment_at": LATER})):
        work(stage, [record])
    reply = get_resource(stage, thread.messages)["data"][-1]
    assert reply["actions"] == []
    appointment = get_resource(stage, thread.appointment)
    assert (appointment["status"], appointment["appointment_at"]) == ("rescheduled", LATER.replace("Z", ".000Z"))
    assert events_of(stage, thread) == ["appointment.created", "appointment.rescheduled"]


@pytest.mark.parametrize("external_id", [None, "t"])
@pytest.mark.parametrize("early", [True, False], ids=["before_the_look", "before_the_commit"])
def test_of_a_conversation_ended_during_a_turn_the_reply_is_kept_and_the_effect_dropped(
    stage: Stage, stopped_clock: Clock, external_id: str | None, early: bool
) -> None:
    thread = new_thread(stage, external_id=external_id)
    store_unanswered_message(stage, thread, CONFIRM, "k")

    def end() -> None:
        assert stage.call("POST", f"/v1/conversations/{thread.id}/end").status == 200

    if early:
        end()
    message, reply = decide_while(stage, thread, (lambda: None) if early else end)
    assert (message["reply_status"], reply["actions"]) == ("complete", [])
    assert get_resource(stage, thread.appointment)["status"] == "pending"
    assert events_of(stage, thread) == ["appointment.created"]
    conversation = get_resource(stage, f"/v1/conversations/{thread.id}")
    assert conversation["status"] == "ended"
    assert send(stage, thread, CONFIRM, "k").json == message | {"reply": reply, "conversation": conversation}
    assert send(stage, thread, "Hello").code == "conversation_ended"


def test_a_conversation_that_agent_and_api_end_at_once_is_ended_once(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage, external_id="t")
    store_unanswered_message(stage, thread, "Goodbye", "k")
    end = f"/v1/conversations/{thread.id}/end"
    decide_while(stage, thread, lambda: stage.call("POST", end))
    ended = get_resource(stage, f"/v1/conversations/{thread.id}")
    assert ended["status"] == "ended"
    # The thread is free for another conversation.
    other = create_resource(stage, "/v1/conversations", external_id="t")
    assert stage.call("POST", end).json == ended
    assert get_resource(stage, f"/v1/conversations/{other['id']}")["status"] == "active"


def test_to_a_customer_who_was_deleted_the_agent_only_hands_off(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    store_unanswered_message(stage, thread, CONFIRM, "k")
    assert stage.call("DELETE", f"/v1/customers/{thread.customer}").status == 200
    _, reply = decide_while(stage, thread, lambda: None)
    assert [action["type"] for action in reply["actions"]] == ["handoff"]
    assert get_resource(stage, thread.appointment)["status"] == "pending"
    assert send_and_get(stage, stopped_clock, thread, CONFIRM)["reply"]["actions"] == []


def test_to_a_customer_who_is_deleted_during_the_turn_the_agent_only_hands_off(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread = new_thread(stage)
    store_unanswered_message(stage, thread, CONFIRM, "k")
    _, reply = decide_while(stage, thread, lambda: stage.call("DELETE", f"/v1/customers/{thread.customer}"))
    assert [action["type"] for action in reply["actions"]] == ["handoff"]
    assert get_resource(stage, thread.appointment)["status"] == "pending"
    assert events_of(stage, thread) == ["appointment.created"]


# Sweep


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
def test_sweep_wake_ups_at_messages_and_deliveries_each_in_the_queue_of_its_worker(
    stage: Stage, stopped_clock: Clock
) -> None:
    create_resource(stage, "/v1/webhook_endpoints", url="https://example.com/hook")
    project = stage.project()
    create_resource(stage, "/v1/webhook_endpoints", url="https://example.com/hook")
    thread = new_thread(stage, project)
    with wire(Fault(0, refuse_connection, service="sqs")):
        stage.fan_out()
        message = store_unanswered_message(stage, thread, "Hello", "k")
    deliveries = {
        delivery["id"]
        for event in list_resources(stage, "/v1/events")
        for delivery in list_resources(stage, f"/v1/events/{event['id']}/deliveries")
    }
    assert len(deliveries) == 3
    stage.invoke("sweep", {})
    assert not woken(stage, thread.scope)
    assert not woken(stage, thread.scope, "retries")
    stopped_clock.forward(61)
    stage.invoke("sweep", {})
    [record] = woken(stage, thread.scope)
    assert json.loads(record["body"]) == json.loads(wake_up(stage, thread, message)["body"])
    assert {json.loads(each["body"])["sk"] for each in woken(stage, thread.scope, "retries")} == deliveries
    work(stage, [record])
    # What is answered is not woken at again.
    stopped_clock.forward(7200)
    stage.invoke("sweep", {})
    assert woken(stage, thread.scope) == []
    assert send(stage, thread, "Hello", "k").status == 201


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
def test_sweep_has_a_message_answered_in_time_whose_wake_ups_were_all_lost(stage: Stage, stopped_clock: Clock) -> None:
    for start in range(0, 60, 15):
        thread = new_thread(stage)
        with wire(Fault(0, refuse_connection, service="sqs")):
            store_unanswered_message(stage, thread, CONFIRM, "k")
        # Sweep runs every minute; the message came at some second of it.
        for wait in (start, 60):
            stopped_clock.forward(wait)
            stage.invoke("sweep", {})
            work(stage, woken(stage, thread.scope))
        assert not list(thread_errors(stage, stopped_clock, thread, WISHES[0])), start
