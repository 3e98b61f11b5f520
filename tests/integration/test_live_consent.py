"""Consent to live calls, with a messenger in WhatsApp's place: who is asked, and what an answer does (promises 7)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from botocore.stub import ANY, Stubber

from shared.calls import project_limits
from shared.calls.consent import consents
from shared.core.call_statuses import ConsentStatus
from shared.store import table
from shared.telephony import Busy, NotConfigured, adapters, whatsapp
from tests.support.clocks import Clock
from tests.support.concurrency import run_at_once
from tests.support.consents import another_customer, remind, reminder, status_and_reason, stored_consent
from tests.support.faults import deaths, deaths_around
from tests.support.resources import list_resources, woken
from tests.support.simulated_calls import (
    FEW_TROUBLES,
    WAKE_UPS_LOST,
    Callee,
    callee,
    dial,
    events_of,
    limit_calls,
    lock_and_count_errors,
    place,
    place_call,
    session_of,
    sweep,
    work,
    writes_with_two_events,
)
from tests.support.stage import Stage, sqs_record
from tests.support.wire import Fault, Killed, wire

ANYBODY = "+14155552671"
DAY = 24 * 3600


class Messenger:
    """WhatsApp as the service sees it: keeps whom it asked; fails as it is told to, one request after the other."""

    def __init__(self, *failures: Exception | None) -> None:
        self.asked: list[str] = []
        self.references: list[str] = []
        self.permits = False
        self._failures = list(failures)

    def is_permitted(self, to: str) -> bool:
        """Whether the customer may be called without being asked."""
        return self.permits

    def ask(self, to: str, business: str, reference: str) -> str:
        """Ask for consent."""
        self.asked.append(to)
        self.references.append(reference)
        failure = self._failures.pop(0) if self._failures else None
        if failure is not None:
            raise failure
        return f"message-{len(self.asked)}"


Use = Callable[..., Messenger]


@pytest.fixture
def messenger(monkeypatch: pytest.MonkeyPatch, stopped_clock: Clock) -> Iterator[Use]:
    """Puts a messenger in for live calls, which are not simulated then."""
    monkeypatch.delenv("SIMULATE_LIVE", raising=False)
    # Carriers tell whole seconds.
    stopped_clock.now = float(int(stopped_clock.now))

    def use(*failures: Exception | None) -> Messenger:
        # Whom a phone's answer is for is known for all projects, those of other tests too.
        for page in list(table.query(consents.askers_pk(ANYBODY), limit=100)):
            for row in page:
                table.write([table.Delete(row["pk"], row["sk"])])
        found = Messenger(*failures)
        adapters.use(messenger=found)
        return found

    yield use
    adapters.use()


def reply(stage: Stage, phone: str, accepted: bool, at: float, context: str | None = None) -> dict[str, Any]:
    """What WhatsApp publishes of a customer's answer."""
    decided = {"response": "accept" if accepted else "reject", "is_permanent": accepted}
    message = {
        "from": phone.removeprefix("+"),
        "id": f"wamid.{at}",
        "timestamp": str(int(at)),
        "type": "interactive",
        "interactive": {"type": "call_permission_reply", "call_permission_reply": decided},
    } | ({"context": {"id": context}} if context else {})
    entry = {"id": "1", "changes": [{"field": "messages", "value": {"messages": [message]}}]}
    body = {"context": {}, "whatsAppWebhookEntry": json.dumps(entry)}
    return sqs_record(json.dumps(body), stage.queues["consents"].arn)


def undelivered_status(stage: Stage, reference: str) -> dict[str, Any]:
    """What WhatsApp publishes of a request that it accepted and did not deliver."""
    status = {
        "id": "wamid.1",
        "status": "failed",
        "timestamp": "1795336062",
        "recipient_id": ANYBODY.removeprefix("+"),
        "biz_opaque_callback_data": reference,
        "errors": [{"code": 131026, "title": "Message undeliverable"}],
    }
    entry = {"id": "1", "changes": [{"field": "messages", "value": {"statuses": [status]}}]}
    body = {"context": {}, "whatsAppWebhookEntry": json.dumps(entry), "messageId": "another"}
    return sqs_record(json.dumps(body), stage.queues["consents"].arn)


def answer_request(stage: Stage, phone: str, accepted: bool, at: float, context: str | None = None) -> None:
    """A customer answers, and the worker is told."""
    given = {"Records": [reply(stage, phone, accepted, at, context)]}
    assert stage.invoke("consent", given) == {"batchItemFailures": []}


# Live requests, with a messenger in WhatsApp's place


def request_consent(stage: Stage, phone: str = ANYBODY) -> tuple[Callee, str]:
    """In a new project: a live call on WhatsApp that waits for consent, and its session."""
    whom = callee(stage, phone, livemode=True)
    return whom, place_call(stage, whom, channel="whatsapp")


def test_a_live_request_is_sent_once_and_its_answer_settles_it(
    stage: Stage, stopped_clock: Clock, messenger: Use
) -> None:
    for accepted in (True, False):
        sent = messenger()
        whom, id = request_consent(stage)
        for _ in range(3):
            remind(stage, whom.scope, ANYBODY)
        assert sent.asked == [ANYBODY]
        stopped_clock.forward(60)
        answer_request(stage, ANYBODY, accepted, stopped_clock.now)
        session = session_of(stage, id)
        assert session["consent"]["status"] == (ConsentStatus.GRANTED if accepted else ConsentStatus.DECLINED)
        assert session["call_status"] == ("queued" if accepted else "failed")
        assert bool(woken(stage, whom.scope, "dials")) is accepted
        # A live call on WhatsApp has nothing to carry its media.
        dial(stage, stopped_clock, whom.scope, id)
        assert status_and_reason(stage, id) == ("failed", "provider_error" if accepted else "consent_declined")
        assert list(lock_and_count_errors(whom.scope)) == []


def test_a_live_request_goes_out_from_the_stages_whatsapp_number(
    stage: Stage, stopped_clock: Clock, messenger: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    messenger()
    monkeypatch.setenv("WHATSAPP_PHONE_NUMBER_ID", "phone-number-id-1")
    number = whatsapp.WhatsApp.from_environment()
    adapters.use(messenger=number)
    whom, id = request_consent(stage)
    sender = {"originationPhoneNumberId": "phone-number-id-1"}
    with Stubber(number.client) as stubber:
        unknown = {"permission": {"status": "no_permission"}, "actions": []}
        stubber.add_response("get_whatsapp_call_permission", unknown, sender | {"destinationPhoneNumber": ANYBODY})
        request = sender | {"metaApiVersion": ANY, "message": ANY}
        stubber.add_response("send_whatsapp_message", {"messageId": "message"}, request)
        remind(stage, whom.scope, ANYBODY)
        stubber.assert_no_pending_responses()
    assert session_of(stage, id)["consent"]["status"] == ConsentStatus.PENDING
    stopped_clock.forward(60)
    answer_request(stage, ANYBODY, True, stopped_clock.now)
    assert session_of(stage, id)["consent"]["status"] == ConsentStatus.GRANTED


def test_a_request_that_whatsapp_does_not_deliver_ends_the_calls_and_frees_the_customers(
    stage: Stage, stopped_clock: Clock, messenger: Use
) -> None:
    sent = messenger()
    whom, id = request_consent(stage)
    second = another_customer(stage, whom, ANYBODY)
    joined = place_call(stage, second, channel="whatsapp")
    remind(stage, whom.scope, ANYBODY)
    [reference] = sent.references
    assert ANYBODY.removeprefix("+") not in reference
    assert len(reference) <= 512
    for _ in range(2):
        failure = undelivered_status(stage, reference)
        assert stage.invoke("consent", {"Records": [failure]}) == {"batchItemFailures": []}
    for each in (id, joined):
        assert status_and_reason(stage, each) == ("failed", "provider_error")
        assert session_of(stage, each)["summary"]
    stage.fan_out()
    assert events_of(stage, id) == ["session.created", "session.failed"]
    assert list(lock_and_count_errors(whom.scope)) == []
    # The customer has seen no request, so the next one is not limited.
    assert place(stage, whom, channel="whatsapp").status == 202
    # A report of the earlier request does not end the next.
    stage.invoke("consent", {"Records": [undelivered_status(stage, reference)]})
    assert stored_consent(whom.scope, ANYBODY)["status"] == ConsentStatus.PENDING


def test_a_failure_that_comes_before_the_request_is_recorded_ends_the_calls(
    stage: Stage, stopped_clock: Clock, messenger: Use
) -> None:
    messenger()
    whom, id = request_consent(stage)

    class Quick(Messenger):
        def ask(self, to: str, business: str, reference: str) -> str:
            stage.invoke("consent", {"Records": [undelivered_status(stage, reference)]})
            return super().ask(to, business, reference)

    adapters.use(messenger=Quick())
    remind(stage, whom.scope, ANYBODY)
    assert status_and_reason(stage, id) == ("failed", "provider_error")
    assert list(lock_and_count_errors(whom.scope)) == []


def test_a_failure_of_one_of_several_tries_leaves_the_request_pending(
    stage: Stage, stopped_clock: Clock, messenger: Use
) -> None:
    sent = messenger(Busy("ReadTimeoutError"))
    whom, id = request_consent(stage)
    for _ in range(2):
        remind(stage, whom.scope, ANYBODY)
        stopped_clock.forward(61)
    stage.invoke("consent", {"Records": [undelivered_status(stage, sent.references[-1])]})
    assert session_of(stage, id)["consent"]["status"] == ConsentStatus.PENDING
    answer_request(stage, ANYBODY, True, stopped_clock.now)
    assert session_of(stage, id)["consent"]["status"] == ConsentStatus.GRANTED


@pytest.mark.parametrize("reference", ["", "text", "P#1#live#consent#x 1", f"P#999#live#consent#{'0' * 32} 1"])
def test_a_failure_of_another_message_changes_nothing(stage: Stage, messenger: Use, reference: str) -> None:
    messenger()
    whom, id = request_consent(stage)
    remind(stage, whom.scope, ANYBODY)
    assert stage.invoke("consent", {"Records": [undelivered_status(stage, reference)]}) == {"batchItemFailures": []}
    assert session_of(stage, id)["consent"]["status"] == ConsentStatus.PENDING


def test_a_customer_who_has_said_yes_by_another_way_is_not_asked(
    stage: Stage, stopped_clock: Clock, messenger: Use
) -> None:
    sent = messenger()
    sent.permits = True
    whom, id = request_consent(stage)
    remind(stage, whom.scope, ANYBODY)
    assert sent.asked == []
    assert session_of(stage, id)["consent"]["status"] == ConsentStatus.GRANTED
    dial(stage, stopped_clock, whom.scope, id)
    assert list(lock_and_count_errors(whom.scope)) == []


def test_a_refusal_that_is_told_later_ends_a_permission_of_the_same_second(
    stage: Stage, stopped_clock: Clock, messenger: Use
) -> None:
    messenger().permits = True
    stopped_clock.forward(0.6)
    whom, id = request_consent(stage)
    remind(stage, whom.scope, ANYBODY)
    consent = session_of(stage, id)["consent"]
    assert consent["status"] == ConsentStatus.GRANTED
    assert consent["requested_at"] <= consent["responded_at"]
    answer_request(stage, ANYBODY, False, stopped_clock.now)
    dial(stage, stopped_clock, whom.scope, id)
    assert status_and_reason(stage, id) == ("failed", "consent_revoked")


def test_a_live_request_that_nobody_answers_expires_after_seven_days(
    stage: Stage, stopped_clock: Clock, messenger: Use
) -> None:
    sent = messenger()
    whom, id = request_consent(stage)
    with wire(WAKE_UPS_LOST):
        remind(stage, whom.scope, ANYBODY)
    stopped_clock.forward(7 * DAY - 60)
    remind(stage, whom.scope, ANYBODY)
    assert session_of(stage, id)["call_status"] == "queued"
    stopped_clock.forward(60)
    sweep(stage, stopped_clock, whom.scope)
    assert status_and_reason(stage, id) == ("failed", "consent_expired")
    assert sent.asked == [ANYBODY]
    # A grant that comes too late holds for the next call.
    answer_request(stage, ANYBODY, True, stopped_clock.now)
    assert session_of(stage, id)["call_status"] == "failed"
    assert place(stage, whom, channel="whatsapp").status == 201


def test_a_phone_gets_one_request_a_day_and_two_a_week(stage: Stage, stopped_clock: Clock, messenger: Use) -> None:
    sent = messenger()
    whom = callee(stage, ANYBODY, livemode=True)
    start = stopped_clock.now
    day: float
    for day, status in ((0, 202), (0.5, 409), (0.999, 409), (1, 202), (2, 409), (6.999, 409), (7, 202), (7.5, 409)):
        stopped_clock.now = start + day * DAY
        response = place(stage, whom, "k" if status == 409 else f"day {day}", channel="whatsapp")
        assert response.status == status, (day, response.body)
        if status == 409:
            assert response.code == "consent_request_limited"
            assert list(lock_and_count_errors(whom.scope)) == []
        else:
            remind(stage, whom.scope, ANYBODY)
            stopped_clock.forward(1)
            answer_request(stage, ANYBODY, False, stopped_clock.now)
            assert status_and_reason(stage, response.json["session_id"]) == ("failed", "consent_declined")
    assert len(sent.asked) == 3
    # A refusal is not saved: with the week's window past, the same key asks.
    stopped_clock.now = start + 8 * DAY + 2
    assert place(stage, whom, "k", channel="whatsapp").status == 202


def test_two_customers_of_one_phone_cannot_make_two_requests_at_once(
    stage: Stage, stopped_clock: Clock, messenger: Use
) -> None:
    sent = messenger()
    whom = callee(stage, ANYBODY, livemode=True)
    everybody = [whom, *(another_customer(stage, whom, ANYBODY) for _ in range(5))]
    answers = run_at_once([partial(place, stage, each, channel="whatsapp") for each in everybody])
    assert {answer.status for answer in answers} == {202}
    run_at_once([partial(remind, stage, whom.scope, ANYBODY)] * 6)
    assert sent.asked == [ANYBODY]
    assert len(stored_consent(whom.scope, ANYBODY)["sessions"]) == 6


@pytest.mark.parametrize(
    "failure", [NotConfigured("`phone_number_id` is missing."), whatsapp.CannotAsk("AccessDenied")], ids=repr
)
def test_where_nobody_can_be_asked_the_sessions_that_wait_fail(
    stage: Stage, stopped_clock: Clock, messenger: Use, failure: Exception
) -> None:
    messenger(failure)
    whom, id = request_consent(stage)
    second = place_call(stage, another_customer(stage, whom, ANYBODY), channel="whatsapp")
    remind(stage, whom.scope, ANYBODY)
    for each in (id, second):
        session = session_of(stage, each)
        assert (session["call_status"], session["ended_reason"]) == ("failed", "provider_error")
        assert session["summary"]
        assert session["consent"]["status"] != ConsentStatus.PENDING
    stage.fan_out()
    assert events_of(stage, id) == ["session.created", "session.failed"]
    assert list(lock_and_count_errors(whom.scope)) == []


@pytest.mark.parametrize("by_sweep", [False, True], ids=["message_again", "sweep"])
def test_a_messenger_that_is_busy_is_asked_again_once(
    stage: Stage, stopped_clock: Clock, messenger: Use, by_sweep: bool
) -> None:
    sent = messenger(Busy("ThrottlingException"))
    whom, id = request_consent(stage)
    remind(stage, whom.scope, ANYBODY)
    # The message may be on its way: not at once again.
    remind(stage, whom.scope, ANYBODY)
    assert len(sent.asked) == 1
    stopped_clock.forward(61)
    if by_sweep:
        sweep(stage, stopped_clock, whom.scope, 3)
    for _ in range(3):
        remind(stage, whom.scope, ANYBODY)
        stopped_clock.forward(61)
    assert len(sent.asked) == 2
    assert session_of(stage, id)["consent"]["status"] == ConsentStatus.PENDING
    answer_request(stage, ANYBODY, True, stopped_clock.now)
    assert session_of(stage, id)["consent"]["status"] == ConsentStatus.GRANTED


def test_an_answer_to_an_earlier_request_does_not_settle_the_next(
    stage: Stage, stopped_clock: Clock, messenger: Use
) -> None:
    messenger()
    whom, _ = request_consent(stage)
    remind(stage, whom.scope, ANYBODY)
    at = stopped_clock.now + 60
    stopped_clock.now = at
    answer_request(stage, ANYBODY, False, at)
    stopped_clock.forward(DAY)
    id = place_call(stage, whom, channel="whatsapp")
    remind(stage, whom.scope, ANYBODY)
    answer_request(stage, ANYBODY, False, at)
    assert session_of(stage, id)["consent"]["status"] == ConsentStatus.PENDING
    answer_request(stage, ANYBODY, True, stopped_clock.now)
    assert session_of(stage, id)["consent"]["status"] == ConsentStatus.GRANTED


def test_a_live_refusal_after_a_grant_holds_for_the_next_call(
    stage: Stage, stopped_clock: Clock, messenger: Use
) -> None:
    messenger()
    whom, _ = request_consent(stage)
    remind(stage, whom.scope, ANYBODY)
    stopped_clock.forward(60)
    answer_request(stage, ANYBODY, True, stopped_clock.now)
    stopped_clock.forward(60)
    answer_request(stage, ANYBODY, False, stopped_clock.now)
    [session] = list_resources(stage, "/v1/sessions")
    dial(stage, stopped_clock, whom.scope, session["id"])
    assert status_and_reason(stage, session["id"]) == ("failed", "consent_revoked")
    # SNS may bring the grant again, which is the older answer by now.
    answer_request(stage, ANYBODY, True, stopped_clock.now - 60)
    assert place(stage, whom, channel="whatsapp").code == "consent_request_limited"


def test_an_answer_goes_to_the_project_whose_request_it_answers(
    stage: Stage, stopped_clock: Clock, messenger: Use
) -> None:
    messenger()
    first, _ = request_consent(stage)
    remind(stage, first.scope, ANYBODY)
    stopped_clock.forward(1)
    second, _ = request_consent(stage)
    remind(stage, second.scope, ANYBODY)
    stopped_clock.forward(1)
    answer_request(stage, ANYBODY, True, stopped_clock.now, "message-1")
    assert stored_consent(first.scope, ANYBODY)["status"] == ConsentStatus.GRANTED
    assert stored_consent(second.scope, ANYBODY)["status"] == ConsentStatus.PENDING
    answer_request(stage, ANYBODY, False, stopped_clock.now)
    assert stored_consent(first.scope, ANYBODY)["status"] == ConsentStatus.GRANTED
    assert stored_consent(second.scope, ANYBODY)["status"] == ConsentStatus.DECLINED


def ask_operations(stage: Stage, messenger: Use) -> list[str]:
    messenger()
    whom, _ = request_consent(stage)
    with wire() as line:
        remind(stage, whom.scope, ANYBODY)
    return line.operations()


def test_a_live_worker_that_dies_while_it_asks_for_consent_asks_at_most_once_more(
    stage: Stage, stopped_clock: Clock, messenger: Use
) -> None:
    problems = []
    for death in deaths_around(ask_operations(stage, messenger)):
        sent = messenger()
        whom, id = request_consent(stage)
        with wire(None, *death), pytest.raises(Killed):
            remind(stage, whom.scope, ANYBODY)
        for _ in range(3):
            stopped_clock.forward(61)
            remind(stage, whom.scope, ANYBODY)
        if not 1 <= len(sent.asked) <= 2:
            problems.append(f"{death}: asked {len(sent.asked)} times")
        answer_request(stage, ANYBODY, False, stopped_clock.now)
        if status_and_reason(stage, id) != ("failed", "consent_declined"):
            problems.append(f"{death}: {status_and_reason(stage, id)}")
        problems += [f"{death}: {each}" for each in lock_and_count_errors(whom.scope)]
    assert not problems, "\n".join(problems)


def test_an_answer_counts_though_its_worker_died_over_writing_down_that_it_asked(
    stage: Stage, stopped_clock: Clock, messenger: Use
) -> None:
    last = max(n for n, name in enumerate(ask_operations(stage, messenger)) if name == "TransactWriteItems")
    sent = messenger()
    whom, id = request_consent(stage)
    with wire(kill_before=last), pytest.raises(Killed):
        remind(stage, whom.scope, ANYBODY)
    assert sent.asked == [ANYBODY]
    stopped_clock.forward(5)
    answer_request(stage, ANYBODY, True, stopped_clock.now)
    stopped_clock.forward(61)
    remind(stage, whom.scope, ANYBODY)
    assert session_of(stage, id)["consent"]["status"] == ConsentStatus.GRANTED
    assert sent.asked == [ANYBODY]


def answers_in(stage: Stage, time: Clock, messenger: Use) -> tuple[Callee, str, dict[str, Any]]:
    """A live request, its session, and the message with the customer's refusal."""
    messenger()
    whom, id = request_consent(stage)
    work(stage, "consent", reminder(stage, whom.scope, ANYBODY, task_token="t"))
    time.forward(60)
    return whom, id, reply(stage, ANYBODY, False, time.now)


def open_request_errors(stage: Stage, whom: Callee, id: str) -> Iterator[str]:
    """What is wrong with a session whose customer declined."""
    yield from writes_with_two_events(stage.fan_out())
    yield from lock_and_count_errors(whom.scope)
    if (found := status_and_reason(stage, id)) != ("failed", "consent_declined"):
        yield f"the session is {found}"
    if (happened := events_of(stage, id)) != ["session.created", "session.failed"]:
        yield f"events {happened}"


def test_an_answer_whose_worker_dies_at_any_point_settles_once(
    stage: Stage, stopped_clock: Clock, messenger: Use
) -> None:
    _, _, record = answers_in(stage, stopped_clock, messenger)
    with wire() as line:
        work(stage, "consent", record)
    problems = []
    for death in deaths(line.operations()):
        whom, id, record = answers_in(stage, stopped_clock, messenger)
        with wire(None, *death), pytest.raises(Killed):
            work(stage, "consent", record)
        work(stage, "consent", record)
        problems += [f"{death}: {each}" for each in open_request_errors(stage, whom, id)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("trouble", FEW_TROUBLES, ids=lambda trouble: trouble.name)
def test_an_answer_whose_worker_is_in_trouble_settles_once(
    stage: Stage, stopped_clock: Clock, messenger: Use, trouble: Any
) -> None:
    _, _, record = answers_in(stage, stopped_clock, messenger)
    with wire() as line:
        work(stage, "consent", record)
    problems = []
    for position, call in enumerate(line.calls):
        if not trouble.concerns(call.operation):
            continue
        whom, id, record = answers_in(stage, stopped_clock, messenger)
        with wire(Fault(position, trouble.disturbance, trouble.tries)):
            work(stage, "consent", record)
        work(stage, "consent", record)
        problems += [f"{position} {call.operation}: {each}" for each in open_request_errors(stage, whom, id)]
    assert not problems, "\n".join(problems)


def test_a_customer_who_joins_while_the_request_is_being_sent_is_asked_nothing_new(
    stage: Stage, stopped_clock: Clock, messenger: Use
) -> None:
    sent = messenger()
    first, _ = request_consent(stage)
    second = another_customer(stage, first, ANYBODY)

    class Slow(Messenger):
        def ask(self, to: str, business: str, reference: str) -> str:
            assert place(stage, second, channel="whatsapp").status == 202
            return super().ask(to, business, reference)

    slow = Slow()
    adapters.use(messenger=slow)
    for _ in range(3):
        remind(stage, first.scope, ANYBODY)
        stopped_clock.forward(61)
    assert (slow.asked, sent.asked) == ([ANYBODY], [])
    assert len(stored_consent(first.scope, ANYBODY)["sessions"]) == 2


def test_a_messenger_that_never_answers_is_given_up(stage: Stage, stopped_clock: Clock, messenger: Use) -> None:
    sent = messenger(*[Busy("ReadTimeoutError")] * 9)
    whom, id = request_consent(stage)
    for _ in range(6):
        remind(stage, whom.scope, ANYBODY)
        stopped_clock.forward(61)
    assert sent.asked == [ANYBODY] * 3
    assert status_and_reason(stage, id) == ("failed", "provider_error")
    # The customer may have seen them, so the request counts.
    assert place(stage, whom, channel="whatsapp").code == "consent_request_limited"
    assert list(lock_and_count_errors(whom.scope)) == []


def test_nobody_is_asked_for_a_call_that_would_be_refused(stage: Stage, stopped_clock: Clock, messenger: Use) -> None:
    sent = messenger()
    whom = callee(stage, ANYBODY, livemode=True)
    limit_calls(whom.scope.project_id, project_limits.Limits(prefixes=("+44",)))
    response = place(stage, whom, channel="whatsapp")
    assert (response.status, session_of(stage, response.json["session_id"])["consent"]) == (201, None)
    assert consents.find(whom.scope, ANYBODY).version == 0
    dial(stage, stopped_clock, whom.scope, response.json["session_id"])
    assert status_and_reason(stage, response.json["session_id"]) == ("failed", "destination_not_allowed")
    assert sent.asked == []
