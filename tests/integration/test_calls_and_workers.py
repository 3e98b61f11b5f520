"""Calls: one at a time to a customer, each with one end, whatever races, dies or is lost (promises 7 and 10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from shared.aws import services
from shared.calls.project_limits import Limits
from shared.core import clock
from shared.projects import usage
from shared.store.keys import Scope
from tests.support import conversations
from tests.support.clocks import Clock
from tests.support.concurrency import run_at_once
from tests.support.faults import FEWER_TROUBLES, Request, Trouble, deaths, deaths_around, faults, places_of, wrongs
from tests.support.resources import create_resource, get_resource, list_resources, woken
from tests.support.simulated_calls import (
    ACCEPTS,
    BEGIN,
    CONFIRMS,
    FEW_TROUBLES,
    LIMITED,
    NOBODY,
    WAKE_UPS_LOST,
    WHOLE,
    Callee,
    callee,
    dial,
    events_of,
    forward_to_next_step,
    incomplete,
    limit_calls,
    lock_and_count_errors,
    place,
    place_call,
    rows,
    session_of,
    sweep,
    wake_up,
    work,
    writes_with_two_events,
)
from tests.support.stage import Stage, wake_up_record
from tests.support.wire import Fault, Killed, wire


def finish(stage: Stage, time: Clock, scope: Scope) -> None:
    """Wake the workers of a project's tasks, each when it is due, until none is left."""
    for _ in range(5):
        for row in rows(scope, "consent"):
            if "due_at" in row:
                time.now = max(time.now, (max(row["due_at"], row.get("lease_until", 0)) + 1) / clock.SECOND)
                work(stage, "consent", wake_up_record(stage, "consents", row["pk"], row["sk"]))
    for row in rows(scope, "session"):
        dial(stage, time, scope, row["sk"])


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> None:
    """Live keys call simulated customers, as on the local runner."""
    monkeypatch.setenv("SIMULATE_LIVE", "1")


modes = pytest.mark.parametrize("livemode", [False, True], ids=["test", "live"])


# Calling


@pytest.mark.parametrize("phone", [CONFIRMS, ACCEPTS], ids=["phone", "whatsapp"])
def test_of_sixteen_calls_at_once_to_a_customer_there_is_one_session(
    stage: Stage, stopped_clock: Clock, phone: str
) -> None:
    whom = callee(stage, phone)
    answers = run_at_once([partial(place, stage, whom)] * 16)
    statuses = Counter(answer.status for answer in answers)
    ids = {answer.json["session_id"] for answer in answers if answer.status < 400}
    assert len(ids) == len(list_resources(stage, "/v1/sessions")) == 1
    if phone == ACCEPTS:
        assert statuses == {202: 16}
    else:
        assert statuses == {201: 1, 409: 15}
        assert {answer.code for answer in answers if answer.status == 409} == {"call_in_progress"}
    assert list(lock_and_count_errors(whom.scope)) == []
    sweep(stage, stopped_clock, whom.scope)
    assert list(incomplete(stage, whom)) == []


def test_sixteen_calls_at_once_with_one_idempotency_key_are_one_and_the_same(
    stage: Stage, stopped_clock: Clock
) -> None:
    whom = callee(stage)
    answers = run_at_once([partial(place, stage, whom, "k")] * 16)
    left = [answer for answer in answers if answer.status != 201]
    assert {answer.code for answer in left} <= {"idempotency_key_in_use", "call_in_progress"}
    assert place(stage, whom, "k").headers["idempotent-replayed"] == "true"
    assert len({answer.body for answer in answers if answer.status == 201}) == 1
    assert len(list_resources(stage, "/v1/sessions")) == 1


@pytest.mark.parametrize("phone", [CONFIRMS, ACCEPTS], ids=["phone", "whatsapp"])
def test_a_customer_deleted_while_being_called_has_no_queued_session(
    stage: Stage, stopped_clock: Clock, phone: str
) -> None:
    problems = []
    for number in range(6):
        whom = callee(stage, phone)
        delete = partial(stage.call, "DELETE", whom.path)
        answers = run_at_once([*[partial(place, stage, whom)] * 4, delete, *[partial(place, stage, whom)] * 3])
        if (deletion := answers.pop(4)).status != 200:
            problems.append(f"{number}: deletion {deletion.body!r}")
        bad = {answer.code for answer in answers if answer.status >= 400} - {"customer_deleted", "call_in_progress"}
        problems += [f"{number}: {code}" for code in bad]
        ended = [(each["call_status"], each["ended_reason"]) for each in list_resources(stage, "/v1/sessions")]
        problems += [f"{number}: {each}" for each in ended if each != ("failed", "customer_deleted")]
        problems += [f"{number}: {each}" for each in lock_and_count_errors(whom.scope)]
        sweep(stage, stopped_clock, whom.scope)
        problems += [f"{number}, later: {each}" for each in lock_and_count_errors(whom.scope)]
    assert problems == []


@pytest.mark.usefixtures("live")
@modes
def test_a_customer_deleted_while_the_call_is_dialed_has_a_call_that_fails_or_goes_on_to_its_end(
    stage: Stage, stopped_clock: Clock, livemode: bool
) -> None:
    problems = []
    for number in range(8):
        whom = callee(stage, livemode=livemode)
        id = place_call(stage, whom)
        stopped_clock.forward(2)
        record = wake_up(stage, whom.scope, id)
        works: list[Callable[[], Any]] = [partial(work, stage, "dial", record)] * 3
        works.append(partial(stage.call, "DELETE", whom.path))
        deletion = run_at_once(works)[-1]
        problems += [f"{number}: {each}" for each in lock_and_count_errors(whom.scope)]
        session = session_of(stage, id)
        if deletion.status != 200 or session["call_status"] == "queued":
            problems.append(f"{number}: {deletion.status} {session['call_status']}")
        dial(stage, stopped_clock, whom.scope, id)
        session = session_of(stage, id)
        failed = session["ended_reason"] == "customer_deleted"
        changed = [record["dynamodb"].get("NewImage", {}) for record in stage.fan_out()]
        happened, expected = events_of(stage, id), ["session.created", "session.failed"] if failed else WHOLE
        if happened != expected:
            problems.append(f"{number}: {happened}")
        # A worker that waits for the next step moves the clock, so the call may have ended before the deletion.
        deleted = {"kind": {"S": "deleted_customer"}}
        gone = next(number for number, image in enumerate(changed) if image.items() >= deleted.items())
        if any(image and image["sk"]["S"] == whom.appointment for image in changed[gone:]):
            problems.append(f"{number}: a deleted customer's appointment was changed")
        problems += [f"{number}, later: {each}" for each in lock_and_count_errors(whom.scope)]
    assert problems == []


def call_by_phone(stage: Stage) -> Request:
    whom = callee(stage)
    return Request("POST", f"{whom.path}/call", {"appointment_id": whom.appointment}, 201)


def call_with_consent(stage: Stage) -> Request:
    whom = callee(stage, ACCEPTS)
    return Request("POST", f"{whom.path}/call", {"appointment_id": whom.appointment}, 202)


@pytest.mark.parametrize("kind", FEWER_TROUBLES)
@pytest.mark.parametrize("prepare", [call_by_phone, call_with_consent], ids=lambda prepare: prepare.__name__)
def test_a_call_placed_in_trouble_is_one_session_that_comes_to_its_end(
    stage: Stage, stopped_clock: Clock, prepare: Callable[[Stage], Request], kind: str
) -> None:
    problems = []
    for name, fault, code, retry in faults(stage, prepare, FEWER_TROUBLES[kind], "k"):
        request = prepare(stage)
        scope = Scope(get_resource(stage, "/v1/ping")["project_id"], False)
        with wire(fault):
            first = request.send(stage, "k")
        found = list(wrongs(first, request, code, retry=retry))
        stopped_clock.forward(1)
        again = request.send(stage, "k")
        if again.status != request.status or request.send(stage, "k").body != again.body:
            found.append(f"again {again.status} {again.body[:90]!r}")
        finish(stage, stopped_clock, scope)
        whom = Callee(scope, request.path.split("/")[3], request.body["appointment_id"])
        problems += [f"{name}: {each}" for each in [*found, *incomplete(stage, whom)]]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("prepare", [call_by_phone, call_with_consent], ids=lambda prepare: prepare.__name__)
def test_a_call_whose_request_dies_at_any_point_is_there_whole_or_not_at_all(
    stage: Stage, stopped_clock: Clock, prepare: Callable[[Stage], Request]
) -> None:
    request = prepare(stage)
    with wire() as line:
        request.send(stage, "k")
    problems = []
    for death in deaths(line.operations()):
        request = prepare(stage)
        scope = Scope(get_resource(stage, "/v1/ping")["project_id"], False)
        # The adapter of HTTP makes an answer of everything, even of its process's end.
        with wire(None, *death), suppress(Killed):
            assert request.send(stage, "k").status == 500
        found = list(lock_and_count_errors(scope))
        request.send(stage, "k")
        finish(stage, stopped_clock, scope)
        whom = Callee(scope, request.path.split("/")[3], request.body["appointment_id"])
        problems += [f"{death}: {each}" for each in [*found, *incomplete(stage, whom)]]
    assert not problems, "\n".join(problems)


# The course of a call


def test_wake_ups_that_are_all_lost_only_delay_a_call(stage: Stage, stopped_clock: Clock) -> None:
    whom = callee(stage)
    with wire(WAKE_UPS_LOST):
        place_call(stage, whom)
    start = stopped_clock.now
    sweep(stage, stopped_clock, whom.scope)
    assert list(incomplete(stage, whom)) == []
    assert stopped_clock.now - start < 6 * 61


@contextmanager
def storing(trouble: Callable[[], None], after: bool) -> Iterator[None]:
    """The first recording that is stored meets trouble, before or after it is."""
    left = [trouble]

    def meet(**others: Any) -> None:
        if left:
            left.pop()()

    name, events = f"{'after' if after else 'before'}-call.s3.PutObject", services.s3().meta.events
    events.register_first(name, meet)
    try:
        yield
    finally:
        events.unregister(name, meet)
    assert not left, "nothing was stored"


def die() -> None:
    raise Killed("at the bucket")


def is_refused() -> None:
    raise EndpointConnectionError(endpoint_url="bucket")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("trouble", [die, is_refused], ids=lambda trouble: trouble.__name__)
def test_a_recording_whose_storing_meets_trouble_is_stored_in_the_end(
    stage: Stage, stopped_clock: Clock, trouble: Callable[[], None], after: bool
) -> None:
    whom = callee(stage)
    id = place_call(stage, whom)
    with storing(trouble, after), suppress(Killed):
        dial(stage, stopped_clock, whom.scope, id, 3)
    sweep(stage, stopped_clock, whom.scope)
    assert list(incomplete(stage, whom)) == []


def calls_of_each_wake_up(stage: Stage, time: Clock, livemode: bool) -> list[list[str]]:
    """The operations that the worker asks of AWS at each wake-up of a call that goes well."""
    whom = callee(stage, livemode=livemode)
    id, found = place_call(stage, whom), []
    while forward_to_next_step(time, whom.scope, id):
        with wire() as line:
            work(stage, "dial", wake_up(stage, whom.scope, id))
        found.append(line.operations())
    assert list(incomplete(stage, whom)) == []
    return found


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize(("livemode", "by_sweep"), [(False, True), (True, False)], ids=["sweep", "live_message_again"])
def test_a_call_whose_worker_dies_at_any_point_ends_once(
    stage: Stage, stopped_clock: Clock, livemode: bool, by_sweep: bool
) -> None:
    problems = []
    for number, operations in enumerate(calls_of_each_wake_up(stage, stopped_clock, livemode)):
        for death in deaths_around(operations):
            whom = callee(stage, livemode=livemode)
            id = place_call(stage, whom)
            dial(stage, stopped_clock, whom.scope, id, number)
            forward_to_next_step(stopped_clock, whom.scope, id)
            with wire(None, *death), pytest.raises(Killed):
                work(stage, "dial", wake_up(stage, whom.scope, id))
            found = list(lock_and_count_errors(whom.scope))
            if by_sweep:
                sweep(stage, stopped_clock, whom.scope)
            else:
                dial(stage, stopped_clock, whom.scope, id)
            problems += [f"wake-up {number}, {death}: {each}" for each in [*found, *incomplete(stage, whom)]]
            if livemode and usage.of_month(whom.scope, clock.iso(clock.now())[:7])["calls"] != 1:
                problems.append(f"wake-up {number}, {death}: not counted once")
    assert not problems, "\n".join(problems)


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("trouble", FEW_TROUBLES, ids=lambda trouble: trouble.name)
def test_a_call_whose_worker_is_in_trouble_with_a_call_of_aws_ends_once(
    stage: Stage, stopped_clock: Clock, trouble: Trouble
) -> None:
    problems = []
    course = calls_of_each_wake_up(stage, stopped_clock, livemode=True)
    for number, position in places_of(trouble, course):
        operation = course[number][position]
        whom = callee(stage, livemode=True)
        id = place_call(stage, whom)
        dial(stage, stopped_clock, whom.scope, id, number)
        forward_to_next_step(stopped_clock, whom.scope, id)
        with wire(Fault(position, trouble.disturbance, trouble.tries)):
            work(stage, "dial", wake_up(stage, whom.scope, id))
        found = list(lock_and_count_errors(whom.scope))
        dial(stage, stopped_clock, whom.scope, id)
        found += incomplete(stage, whom)
        problems += [f"wake-up {number}, call {position} {operation}: {each}" for each in found]
        if usage.of_month(whom.scope, clock.iso(clock.now())[:7])["calls"] != 1:
            problems.append(f"wake-up {number}, call {position} {operation}: not counted once")
    assert not problems, "\n".join(problems)


@pytest.mark.usefixtures("live")
@modes
def test_workers_that_are_given_the_same_wake_up_at_once_take_each_step_once(
    stage: Stage, stopped_clock: Clock, livemode: bool
) -> None:
    for _ in range(4):
        whom = callee(stage, livemode=livemode)
        id = place_call(stage, whom)
        while forward_to_next_step(stopped_clock, whom.scope, id):
            run_at_once([partial(work, stage, "dial", wake_up(stage, whom.scope, id))] * 6)
        assert list(incomplete(stage, whom)) == []


def test_a_call_that_nobody_answers_frees_the_customer_for_the_next(stage: Stage, stopped_clock: Clock) -> None:
    whom = callee(stage, NOBODY)
    id = place_call(stage, whom)
    dial(stage, stopped_clock, whom.scope, id)
    assert list(writes_with_two_events(stage.fan_out())) == list(lock_and_count_errors(whom.scope)) == []
    assert events_of(stage, id) == [*BEGIN, "session.no_answer"]
    assert place(stage, whom).status == 201


# Limits of live calls


def limited_customers(stage: Stage, *phones: str, **settings: Any) -> list[Callee]:
    """Customers in a new project with limits, for live calls."""
    first = callee(stage, phones[0], livemode=True)
    limit_calls(first.scope.project_id, Limits(**settings))
    return [first, *(callee(stage, phone, first.scope) for phone in phones[1:])]


@pytest.mark.usefixtures("live")
def test_a_destination_that_is_not_allowed_is_not_dialed(stage: Stage, stopped_clock: Clock) -> None:
    for prefixes, status in ((("+44", "+1600"), "failed"), (("+44", "+1500"), "completed")):
        [whom] = limited_customers(stage, CONFIRMS, prefixes=prefixes)
        id = place_call(stage, whom)
        dial(stage, stopped_clock, whom.scope, id)
        session = session_of(stage, id)
        assert session["call_status"] == status
        stage.fan_out()
        calls = usage.of_month(whom.scope, clock.iso(clock.now())[:7])["calls"]
        if status == "failed":
            assert (session["ended_reason"], session["dialed_at"], calls) == ("destination_not_allowed", None, 0)
            assert events_of(stage, id) == ["session.created", "session.failed"]
        else:
            assert calls == 1
        assert list(lock_and_count_errors(whom.scope)) == []


@pytest.mark.usefixtures("live")
def test_a_call_beyond_those_at_once_is_refused_and_the_refusal_is_not_saved(
    stage: Stage, stopped_clock: Clock
) -> None:
    one, other = limited_customers(stage, CONFIRMS, CONFIRMS, at_once=1)
    id = place_call(stage, one)
    dial(stage, stopped_clock, one.scope, id, 1)
    response = place(stage, other, "k")
    assert (response.status, response.code) == (409, "call_limit_reached")
    assert list(lock_and_count_errors(one.scope)) == []
    dial(stage, stopped_clock, one.scope, id)
    assert place(stage, other, "k").status == 201


@pytest.mark.usefixtures("live")
def test_calls_that_begin_to_dial_at_once_keep_within_the_limit_and_the_others_wait(
    stage: Stage, stopped_clock: Clock
) -> None:
    everybody = limited_customers(stage, *[CONFIRMS] * 6, at_once=2)
    scope = everybody[0].scope
    ids = [place_call(stage, whom) for whom in everybody]
    stopped_clock.forward(0.5)
    run_at_once([partial(work, stage, "dial", wake_up(stage, scope, id)) for id in ids])
    dialing = [id for id in ids if session_of(stage, id)["call_status"] == "dialing"]
    assert len(dialing) <= 2
    assert list(lock_and_count_errors(scope)) == []
    for _ in range(4):
        for id in ids:
            dial(stage, stopped_clock, scope, id)
            assert len([one for one in ids if session_of(stage, one)["call_status"] == "dialing"]) <= 2
        stopped_clock.forward(5)
    assert {session_of(stage, id)["ended_reason"] for id in ids} == {"agent_hangup"}
    assert usage.of_month(scope, clock.iso(clock.now())[:7])["calls"] == 6
    assert list(lock_and_count_errors(scope)) == []


@pytest.mark.usefixtures("live")
def test_a_days_calls_are_limited_when_placed_and_when_dialed_until_the_next_day(
    stage: Stage, stopped_clock: Clock
) -> None:
    stopped_clock.now = 1_893_456_000.0 + 12 * 3600  # 2030-01-01T12:00:00Z
    one, other, third = limited_customers(stage, CONFIRMS, CONFIRMS, CONFIRMS, per_day=1)
    first, second = place_call(stage, one), place_call(stage, other)
    dial(stage, stopped_clock, one.scope, first)
    assert session_of(stage, first)["call_status"] == "completed"
    response = place(stage, third, "k")
    assert (response.status, response.code) == (409, "call_limit_reached")
    dial(stage, stopped_clock, one.scope, second)
    above = session_of(stage, second)
    assert (above["call_status"], above["ended_reason"], above["dialed_at"]) == ("failed", "blocked", None)
    assert "1 live calls a day" in above["summary"]
    stopped_clock.now = 1_893_456_000.0 + 24 * 3600 - 30
    assert place(stage, third, "k").code == "call_limit_reached"
    stopped_clock.forward(31)
    again = place(stage, third, "k")
    assert (again.status, again.headers.get("idempotent-replayed")) == (201, None)
    dial(stage, stopped_clock, one.scope, again.json["session_id"])
    assert session_of(stage, again.json["session_id"])["call_status"] == "completed"
    assert list(lock_and_count_errors(one.scope)) == []


@pytest.mark.usefixtures("live")
def test_a_call_that_ends_after_midnight_leaves_the_new_days_calls_alone(stage: Stage, stopped_clock: Clock) -> None:
    stopped_clock.now = 1_893_456_000.0 + 24 * 3600 - 2
    one, other = limited_customers(stage, CONFIRMS, CONFIRMS, per_day=1)
    id = place_call(stage, one)
    dial(stage, stopped_clock, one.scope, id, 1)
    stopped_clock.forward(60)
    dial(stage, stopped_clock, one.scope, id)
    assert list(lock_and_count_errors(one.scope)) == []
    dial(stage, stopped_clock, one.scope, id := place_call(stage, other))
    assert session_of(stage, id)["call_status"] == "completed"


def test_test_mode_has_no_limits(stage: Stage, stopped_clock: Clock) -> None:
    whom = callee(stage)
    limit_calls(whom.scope.project_id, Limits(("+44",), 0, 0))
    place_call(stage, whom)
    sweep(stage, stopped_clock, whom.scope)
    assert list(incomplete(stage, whom)) == []
    assert usage.of_month(whom.scope, clock.iso(clock.now())[:7])["calls"] == 0


# A conversation in which the customer asks to be called

CALL_ME = "Please call me"


def wish_for_call(stage: Stage, phone: str = CONFIRMS) -> tuple[conversations.Thread, dict[str, Any]]:
    """In a new project: a thread in which the customer asks for a call, under the key `k`, and its wake-up."""
    whom = callee(stage, phone)
    conversation = create_resource(stage, "/v1/conversations", customer={"id": whom.id})["id"]
    thread = conversations.Thread(whom.scope, conversation, whom.id, f"/v1/appointments/{whom.appointment}")
    conversations.store_unanswered_message(stage, thread, CALL_ME, "k")
    [record] = woken(stage, whom.scope)
    return thread, record


def unkept(stage: Stage, thread: conversations.Thread) -> Iterator[str]:
    """What is wrong with the promise of a call."""
    promised = [
        action["session_id"]
        for message in list_resources(stage, thread.messages)
        for action in message.get("actions") or ()
        if action["type"] == "call_requested"
    ]
    there = [session["id"] for session in list_resources(stage, "/v1/sessions")]
    if promised != there:
        yield f"{promised} promised, {there} there"
    yield from lock_and_count_errors(thread.scope)


def wish_errors(stage: Stage, time: Clock, thread: conversations.Thread) -> Iterator[str]:
    """What is wrong with the answer to the wish, once it was given."""
    yield from unkept(stage, thread)
    with conversations.work_at_each_wait(time, lambda: None):
        response = conversations.send(stage, thread, CALL_ME, "k")
    if response.status != 201:
        yield f"{response.status} {response.body[:90]!r}"
    elif [action["type"] for action in response.json["reply"]["actions"]] != ["call_requested"]:
        yield f"actions {response.json['reply']['actions']}"
    for session in list_resources(stage, "/v1/sessions"):
        dial(stage, time, thread.scope, session["id"])
        stage.fan_out()
        if (happened := events_of(stage, session["id"])) != WHOLE:
            yield f"events {happened}"


@pytest.mark.parametrize("by_sweep", [False, True], ids=["message_again", "sweep"])
def test_a_turn_that_asks_for_a_call_has_its_session_at_whatever_point_its_worker_dies(
    stage: Stage, stopped_clock: Clock, by_sweep: bool
) -> None:
    thread, record = wish_for_call(stage)
    with wire() as line:
        conversations.work(stage, [record])
    assert list(wish_errors(stage, stopped_clock, thread)) == []
    problems = []
    for death in deaths(line.operations()):
        thread, record = wish_for_call(stage)
        with wire(None, *death), pytest.raises(Killed):
            conversations.work(stage, [record])
        found = list(unkept(stage, thread))
        conversations.redeliver_wake_up(stage, stopped_clock, thread, record, by_sweep)
        problems += [f"{death}: {each}" for each in [*found, *wish_errors(stage, stopped_clock, thread)]]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("trouble", FEW_TROUBLES, ids=lambda trouble: trouble.name)
def test_a_turn_that_asks_for_a_call_has_its_session_whatever_trouble_its_worker_is_in(
    stage: Stage, stopped_clock: Clock, trouble: Trouble
) -> None:
    thread, record = wish_for_call(stage)
    with wire() as line:
        conversations.work(stage, [record])
    problems = []
    for position, call in enumerate(line.calls):
        if not trouble.concerns(call.operation):
            continue
        thread, record = wish_for_call(stage)
        with wire(Fault(position, trouble.disturbance, trouble.tries)):
            work(stage, "turn", record)
        found = list(unkept(stage, thread))
        conversations.redeliver_wake_up(stage, stopped_clock, thread, record, by_sweep=False)
        found += wish_errors(stage, stopped_clock, thread)
        problems += [f"{position} {call.operation}: {each}" for each in found]
    assert not problems, "\n".join(problems)


def test_a_wish_for_a_call_that_another_call_comes_before_promises_nothing(stage: Stage, stopped_clock: Clock) -> None:
    thread, record = wish_for_call(stage)
    with conversations.before_commit(lambda: stage.call("POST", f"/v1/customers/{thread.customer}/call")):
        conversations.work(stage, [record])
    reply = list_resources(stage, thread.messages)[-1]
    assert reply["role"] == "assistant"
    assert "call_requested" not in [action["type"] for action in reply["actions"]]
    assert len(list_resources(stage, "/v1/sessions")) == 1
    assert list(lock_and_count_errors(thread.scope)) == []


def test_the_call_that_an_agent_arranges_goes_by_phone_whatever_the_number_implies(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread, record = wish_for_call(stage, LIMITED)
    conversations.work(stage, [record])
    reply = list_resources(stage, thread.messages)[-1]
    assert [action["type"] for action in reply["actions"]] == ["call_requested"]
    [session] = list_resources(stage, "/v1/sessions")
    assert (session["channel"], session["consent"]) == ("phone", None)
    assert list(lock_and_count_errors(thread.scope)) == []


def test_a_talk_changes_nothing_for_a_customer_who_is_deleted_meanwhile(stage: Stage, stopped_clock: Clock) -> None:
    whom = callee(stage)
    id = place_call(stage, whom)
    with conversations.before_commit(lambda: stage.call("DELETE", whom.path)):
        dial(stage, stopped_clock, whom.scope, id)
    assert session_of(stage, id)["call_status"] == "completed"
    assert get_resource(stage, f"/v1/appointments/{whom.appointment}")["status"] == "pending"
    assert list(lock_and_count_errors(whom.scope)) == []


def test_who_opts_out_in_a_call_is_opted_out_wherever_the_worker_dies(stage: Stage, stopped_clock: Clock) -> None:
    phone = "+15005550013"

    def call_before_end() -> tuple[Callee, str]:
        """A call whose next step is its end."""
        whom = callee(stage, phone)
        id = place_call(stage, whom)
        while session_of(stage, id)["recording_status"] == "none":
            forward_to_next_step(stopped_clock, whom.scope, id)
            work(stage, "dial", wake_up(stage, whom.scope, id))
        forward_to_next_step(stopped_clock, whom.scope, id)
        return whom, id

    whom, id = call_before_end()
    other = create_resource(stage, "/v1/customers", phone=phone)["id"]
    # Placed before the wish.
    waiting = stage.call("POST", f"/v1/customers/{other}/call", {"not_before": clock.iso(clock.now() + clock.DAY)})
    with wire() as line:
        work(stage, "dial", wake_up(stage, whom.scope, id))
    assert (session_of(stage, id)["call_status"], session_of(stage, id)["outcome"]) == ("completed", "opted_out")
    assert session_of(stage, waiting.json["session_id"])["ended_reason"] == "opted_out"
    problems = []
    for death in deaths(line.operations()):
        whom, id = call_before_end()
        with wire(None, *death), suppress(Killed):
            work(stage, "dial", wake_up(stage, whom.scope, id))
        dial(stage, stopped_clock, whom.scope, id)
        session = session_of(stage, id)
        if (session["call_status"], session["outcome"]) != ("completed", "opted_out"):
            problems.append(f"{death}: {session}")
        if not get_resource(stage, whom.path)["do_not_call"]:
            problems.append(f"{death}: not opted out")
        stage.fan_out()
        if events_of(stage, whom.id) != ["customer.created", "customer.updated"]:
            problems.append(f"{death}: {events_of(stage, whom.id)}")
    assert not problems, "\n".join(problems)
