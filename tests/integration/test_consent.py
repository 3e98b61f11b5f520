"""Consent to be called on WhatsApp: one answer settles all that wait for it, however it comes (promises 7)."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from shared.aws import services
from shared.calls import opt_outs
from shared.calls.consent import consent_requests, consents
from shared.core import clock, settings
from shared.core.call_statuses import ConsentStatus
from shared.store import table
from shared.store.keys import Scope, scope_of
from tests.support import conversations
from tests.support.clocks import Clock
from tests.support.concurrency import run_at_once
from tests.support.consents import another_customer, remind, reminder, status_and_reason, stored_consent
from tests.support.faults import Trouble, deaths, places_of
from tests.support.resources import list_resources, woken
from tests.support.simulated_calls import (
    FEW_TROUBLES,
    Callee,
    callee,
    dial,
    events_of,
    incomplete,
    lock_and_count_errors,
    place,
    place_call,
    session_of,
    sweep,
    work,
    writes_with_two_events,
)
from tests.support.stage import Stage
from tests.support.wire import Fault, Killed, refuse_connection, wire

ACCEPTS, DECLINES, SILENT = (f"+150055500{number}" for number in (20, 21, 22))

FAILED_BY = {ConsentStatus.DECLINED: "consent_declined", ConsentStatus.EXPIRED: "consent_expired"}


def stop_machine(scope: Scope, phone: str) -> None:
    """Stop the machine of a phone's request once it waits, and take its message away."""
    queue, waits = settings.queue_url("consents"), False
    while not waits:
        found = services.sqs().call("ReceiveMessage", {"QueueUrl": queue, "WaitTimeSeconds": 5}).get("Messages", [])
        assert found, "the machine sent nothing"
        for message in found:
            services.sqs().call("DeleteMessage", {"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"]})
            told = json.loads(message["Body"])
            waits = scope_of(told["pk"]) == scope and "task_token" in told
    arn = settings.state_machine_arn("call_consent")
    running = {"stateMachineArn": arn, "statusFilter": "RUNNING"}
    machines = services.stepfunctions().call("ListExecutions", running)["executions"]
    [mine] = [each for each in machines if each["name"] == consents.find(scope, phone).execution_name]
    services.stepfunctions().call("StopExecution", {"executionArn": mine["executionArn"]})


# One answer


@pytest.mark.parametrize("count", [1, 3])
def test_of_acceptance_refusal_and_expiry_at_once_one_wins_and_all_sessions_follow_it(
    stage: Stage, stopped_clock: Clock, count: int
) -> None:
    problems = []
    for number in range(8):
        whom = callee(stage, SILENT)
        everybody = [whom, *(another_customer(stage, whom, SILENT) for _ in range(count - 1))]
        ids = [place_call(stage, each) for each in everybody]
        remind(stage, whom.scope, SILENT)
        stopped_clock.forward(60)
        now = clock.now()
        works: list[Callable[[], Any]] = [
            *[partial(consent_requests.answer, whom.scope, SILENT, ConsentStatus.GRANTED, now)] * 3,
            *[partial(consent_requests.answer, whom.scope, SILENT, ConsentStatus.DECLINED, now)] * 2,
            *[partial(remind, stage, whom.scope, SILENT)] * 3,
        ]
        run_at_once(works[number:] + works[:number])
        found = [session_of(stage, id) for id in ids]
        statuses = {session["consent"]["status"] for session in found}
        if len(statuses) != 1 or ConsentStatus.PENDING in statuses:
            problems.append(f"{number}: {statuses}")
            continue
        [status] = statuses
        expected = ("queued", None) if status == ConsentStatus.GRANTED else ("failed", FAILED_BY[status])
        problems += [f"{number}: {s}" for s in found if (s["call_status"], s["ended_reason"]) != expected]
        problems += [f"{number}: {each}" for each in lock_and_count_errors(whom.scope)]
        for id in ids:
            dial(stage, stopped_clock, whom.scope, id)
        records = stage.fan_out()
        problems += [
            f"{number}: {each}" for each in (*lock_and_count_errors(whom.scope), *writes_with_two_events(records))
        ]
        revoked = (
            stored_consent(whom.scope, SILENT)["status"] == ConsentStatus.DECLINED and status == ConsentStatus.GRANTED
        )
        for id in ids:
            happened = events_of(stage, id)
            if status == ConsentStatus.GRANTED and not revoked:
                if happened[:3] != ["session.created", "session.dialing", "session.completed"]:
                    problems.append(f"{number}: {happened}")
            elif happened != ["session.created", "session.failed"]:
                problems.append(f"{number}: {status}, {revoked}: {happened}")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("phone", "status", "reason"),
    [(DECLINES, ConsentStatus.DECLINED, "consent_declined"), (SILENT, ConsentStatus.EXPIRED, "consent_expired")],
)
def test_a_refusal_and_silence_end_the_session_and_free_the_customer(
    stage: Stage, stopped_clock: Clock, phone: str, status: str, reason: str
) -> None:
    whom = callee(stage, phone)
    id = place_call(stage, whom)
    sweep(stage, stopped_clock, whom.scope)
    assert status_and_reason(stage, id) == ("failed", reason)
    assert session_of(stage, id)["consent"]["status"] == status
    stage.fan_out()
    assert events_of(stage, id) == ["session.created", "session.failed"]
    assert list(lock_and_count_errors(whom.scope)) == []


def test_a_late_grant_is_kept_and_dials_nothing(stage: Stage, stopped_clock: Clock) -> None:
    whom = callee(stage, SILENT)
    id = place_call(stage, whom)
    sweep(stage, stopped_clock, whom.scope)
    before = session_of(stage, id)
    stage.messages("dials")
    consent_requests.answer(whom.scope, SILENT, ConsentStatus.GRANTED, clock.now())
    assert stored_consent(whom.scope, SILENT)["status"] == ConsentStatus.GRANTED
    assert woken(stage, whom.scope, "dials") == []
    assert session_of(stage, id) == before
    later = place(stage, whom)
    assert (later.status, later.json["status"]) == (201, "queued")
    dial(stage, stopped_clock, whom.scope, later.json["session_id"])
    assert session_of(stage, later.json["session_id"])["call_status"] == "completed"


def test_a_grant_after_an_opt_out_is_not_kept(stage: Stage, stopped_clock: Clock) -> None:
    whom = callee(stage, SILENT)
    id = place_call(stage, whom)
    change = opt_outs.opt_out(whom.scope, whom.id)
    table.write(change.writes)
    # The worker dies before it has ended the request for consent.
    assert status_and_reason(stage, id) == ("failed", "opted_out")
    consent_requests.answer(whom.scope, SILENT, ConsentStatus.GRANTED, clock.now() + 1_000)
    assert stored_consent(whom.scope, SILENT)["status"] == ConsentStatus.DECLINED
    assert change.after_commit is not None
    change.after_commit()
    assert stored_consent(whom.scope, SILENT)["status"] == ConsentStatus.DECLINED
    assert list(lock_and_count_errors(whom.scope)) == []
    # A client that writes its own copy back undoes nothing; the person's own consent does.
    stage.call("PATCH", whom.path, {"do_not_call": False})
    assert place(stage, whom).json["error"]["code"] == "customer_opted_out"
    assert stage.call("POST", f"{whom.path}/opt_in").status == 200
    assert place(stage, whom).json["status"] == "consent_pending"


def test_an_answer_that_is_older_than_the_one_that_holds_is_dropped(stage: Stage, stopped_clock: Clock) -> None:
    whom = callee(stage, SILENT)
    place_call(stage, whom)
    stopped_clock.forward(30)
    for first, second in (
        (ConsentStatus.DECLINED, ConsentStatus.GRANTED),
        (ConsentStatus.GRANTED, ConsentStatus.DECLINED),
    ):
        stopped_clock.forward(20)
        now = clock.now()
        consent_requests.answer(whom.scope, SILENT, first, now)
        consent_requests.answer(whom.scope, SILENT, second, now - 10 * clock.SECOND)
        assert stored_consent(whom.scope, SILENT)["status"] == first


def test_a_refusal_after_a_grant_revokes_it_for_a_session_that_was_not_dialed_yet(
    stage: Stage, stopped_clock: Clock
) -> None:
    whom = callee(stage, SILENT)
    id = place_call(stage, whom)
    stopped_clock.forward(5)
    consent_requests.answer(whom.scope, SILENT, ConsentStatus.GRANTED, clock.now())
    assert session_of(stage, id)["consent"]["status"] == ConsentStatus.GRANTED
    stopped_clock.forward(1)
    consent_requests.answer(whom.scope, SILENT, ConsentStatus.DECLINED, clock.now())
    dial(stage, stopped_clock, whom.scope, id)
    assert status_and_reason(stage, id) == ("failed", "consent_revoked")
    stage.fan_out()
    assert events_of(stage, id) == ["session.created", "session.failed"]
    assert list(lock_and_count_errors(whom.scope)) == []


# Several customers on one phone


def test_customers_on_one_phone_share_one_request_and_its_answer(stage: Stage, stopped_clock: Clock) -> None:
    first = callee(stage, ACCEPTS)
    second, third = another_customer(stage, first, ACCEPTS), another_customer(stage, first, ACCEPTS)
    answers = run_at_once([partial(place, stage, whom) for whom in (first, second, third)] * 3)
    assert {answer.status for answer in answers} == {202}
    assert stored_consent(first.scope, ACCEPTS)["request"] == 1
    ids = {answer.json["customer_id"]: answer.json["session_id"] for answer in answers}
    assert sorted(stored_consent(first.scope, ACCEPTS)["sessions"]) == sorted(ids.values())
    assert stage.call("DELETE", third.path).status == 200
    sweep(stage, stopped_clock, first.scope)
    assert session_of(stage, ids[first.id])["call_status"] == "completed"
    assert session_of(stage, ids[second.id])["call_status"] == "completed"
    assert status_and_reason(stage, ids[third.id]) == ("failed", "customer_deleted")
    assert list(lock_and_count_errors(first.scope)) == []


@pytest.mark.parametrize("status", [ConsentStatus.GRANTED, ConsentStatus.DECLINED])
def test_thirty_sessions_wait_for_one_answer_and_the_next_is_refused(
    stage: Stage, stopped_clock: Clock, status: ConsentStatus
) -> None:
    everybody = [callee(stage, SILENT)]
    for _ in range(30):
        stopped_clock.forward(0.1)
        everybody.append(another_customer(stage, everybody[0], SILENT))
    scope, answers = everybody[0].scope, []
    for whom in everybody:
        stopped_clock.forward(0.1)
        answers.append(place(stage, whom))
    assert [answer.status for answer in answers] == [202] * 30 + [409]
    assert answers[-1].code == "call_in_progress"
    consent_requests.answer(scope, SILENT, status, clock.now())
    assert list(lock_and_count_errors(scope)) == []
    sessions = list_resources(stage, "/v1/sessions")
    expected = "queued" if status == ConsentStatus.GRANTED else "failed"
    assert [session["call_status"] for session in sessions] == [expected] * 30


# Machines, tokens and wake-ups


def test_an_answer_before_the_token_is_stored_ends_the_machine(stage: Stage, stopped_clock: Clock) -> None:
    whom = callee(stage, SILENT)
    place_call(stage, whom)
    consent_requests.answer(whom.scope, SILENT, ConsentStatus.DECLINED, clock.now())
    with wire() as line:
        stage.invoke("consent", {"Records": [reminder(stage, whom.scope, SILENT, task_token="late")]})
    assert [call.parameters["taskToken"] for call in line.of("SendTaskSuccess")] == ["late"]
    assert stored_consent(whom.scope, SILENT)["status"] == ConsentStatus.DECLINED


def test_the_token_ends_the_machine_when_the_answer_comes(stage: Stage, stopped_clock: Clock) -> None:
    whom = callee(stage, SILENT)
    place_call(stage, whom)
    stage.invoke("consent", {"Records": [reminder(stage, whom.scope, SILENT, task_token="t")]})
    # A second wake-up keeps the token.
    remind(stage, whom.scope, SILENT)
    with wire() as line:
        consent_requests.answer(whom.scope, SILENT, ConsentStatus.GRANTED, clock.now())
    assert [call.parameters["taskToken"] for call in line.of("SendTaskSuccess")] == ["t"]


@pytest.mark.parametrize(("phone", "status"), [(ACCEPTS, "completed"), (SILENT, "failed")])
def test_a_request_whose_machine_is_gone_is_made_and_ended_by_sweep(
    stage: Stage, stopped_clock: Clock, phone: str, status: str
) -> None:
    whom = callee(stage, phone)
    id = place_call(stage, whom)
    stop_machine(whom.scope, phone)
    sweep(stage, stopped_clock, whom.scope)
    assert session_of(stage, id)["call_status"] == status
    assert list(lock_and_count_errors(whom.scope)) == []


def test_a_machine_that_never_started_is_done_without(stage: Stage, stopped_clock: Clock) -> None:
    whom = callee(stage, ACCEPTS)
    with wire(Fault(0, refuse_connection, service="stepfunctions")) as line:
        place_call(stage, whom)
    assert line.disturbed
    sweep(stage, stopped_clock, whom.scope)
    assert list(incomplete(stage, whom)) == []


# The worker


def steps_of(stage: Stage, time: Clock, scope: Scope) -> list[dict[str, Any]]:
    """The wake-ups of an accepted request: one to ask, with the token of the machine, and one for the answer."""
    return [reminder(stage, scope, ACCEPTS, task_token="t"), reminder(stage, scope, ACCEPTS)]


def after_wake_ups(stage: Stage, time: Clock, number: int) -> tuple[Callee, dict[str, Any]]:
    """A customer whose request has had this many of its wake-ups, and the next one, due now."""
    whom = callee(stage, ACCEPTS)
    place_call(stage, whom)
    wake_ups = steps_of(stage, time, whom.scope)
    for record in wake_ups[:number]:
        work(stage, "consent", record)
        time.forward(6)
    return whom, wake_ups[number]


def calls_of_wake_up(stage: Stage, time: Clock, number: int) -> list[str]:
    """The operations that the worker asks of AWS at a wake-up."""
    _, record = after_wake_ups(stage, time, number)
    with wire() as line:
        work(stage, "consent", record)
    assert len(line.calls) > 2
    return line.operations()


@pytest.mark.parametrize("by_sweep", [False, True], ids=["message_again", "sweep"])
def test_a_request_whose_worker_dies_at_any_point_comes_to_a_call_that_ends_once(
    stage: Stage, stopped_clock: Clock, by_sweep: bool
) -> None:
    problems = []
    for number in range(2):
        for death in deaths(calls_of_wake_up(stage, stopped_clock, number)):
            whom, record = after_wake_ups(stage, stopped_clock, number)
            with wire(None, *death), pytest.raises(Killed):
                work(stage, "consent", record)
            found = list(lock_and_count_errors(whom.scope))
            if not by_sweep:
                for again in (record, *steps_of(stage, stopped_clock, whom.scope)):
                    # The queue gives a message again later than a dead worker's lease ends.
                    stopped_clock.forward(61)
                    work(stage, "consent", again)
            sweep(stage, stopped_clock, whom.scope)
            problems += [f"wake-up {number}, {death}: {each}" for each in [*found, *incomplete(stage, whom)]]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("trouble", FEW_TROUBLES, ids=lambda trouble: trouble.name)
def test_a_request_whose_worker_is_in_trouble_with_a_call_of_aws_comes_to_a_call_that_ends_once(
    stage: Stage, stopped_clock: Clock, trouble: Trouble
) -> None:
    problems = []
    course = [calls_of_wake_up(stage, stopped_clock, number) for number in range(2)]
    for number, position in places_of(trouble, course):
        whom, record = after_wake_ups(stage, stopped_clock, number)
        with wire(Fault(position, trouble.disturbance, trouble.tries)):
            work(stage, "consent", record)
        found = list(lock_and_count_errors(whom.scope))
        work(stage, "consent", record)
        sweep(stage, stopped_clock, whom.scope)
        found += incomplete(stage, whom)
        problems += [f"wake-up {number}, call {position} {course[number][position]}: {each}" for each in found]
    assert not problems, "\n".join(problems)


def test_workers_with_the_same_wake_up_at_once_dial_once(stage: Stage, stopped_clock: Clock) -> None:
    for _ in range(3):
        whom = callee(stage, ACCEPTS)
        place_call(stage, whom)
        for record in steps_of(stage, stopped_clock, whom.scope):
            run_at_once([partial(work, stage, "consent", record)] * 6)
            stopped_clock.forward(6)
        sweep(stage, stopped_clock, whom.scope)
        assert list(incomplete(stage, whom)) == []


# What changes while a session waits


def test_customers_who_were_deleted_hold_no_place_among_those_who_wait(stage: Stage, stopped_clock: Clock) -> None:
    first = callee(stage, SILENT)
    for _ in range(31):
        stopped_clock.forward(0.1)
        whom = another_customer(stage, first, SILENT)
        assert place(stage, whom).status == 202
        assert stage.call("DELETE", whom.path).status == 200
    assert place(stage, first).status == 202
    assert len(stored_consent(first.scope, SILENT)["sessions"]) == 1
    assert list(lock_and_count_errors(first.scope)) == []


def test_consent_that_is_revoked_as_the_call_is_being_dialed_is_heeded(stage: Stage, stopped_clock: Clock) -> None:
    whom = callee(stage, SILENT)
    id = place_call(stage, whom)
    consent_requests.answer(whom.scope, SILENT, ConsentStatus.GRANTED, clock.now())
    stopped_clock.forward(1)
    declined = ConsentStatus.DECLINED
    with conversations.before_commit(lambda: consent_requests.answer(whom.scope, SILENT, declined, clock.now())):
        dial(stage, stopped_clock, whom.scope, id)
    assert status_and_reason(stage, id) == ("failed", "consent_revoked")
    assert list(lock_and_count_errors(whom.scope)) == []


def test_an_operator_revokes_consent_that_was_asked_for(stage: Stage, stopped_clock: Clock) -> None:
    whom = callee(stage, SILENT)
    id = place_call(stage, whom)
    stopped_clock.forward(1)
    consent_requests.answer(whom.scope, SILENT, ConsentStatus.DECLINED, clock.now(), revoked=True)
    assert status_and_reason(stage, id) == ("failed", "consent_revoked")
