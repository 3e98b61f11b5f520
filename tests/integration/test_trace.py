"""A request can be followed through the log: each line of a worker names the API request or event that caused it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.core import trace
from shared.store import table
from shared.store.keys import Scope
from shared.telephony import adapters
from tests.support import simulated_calls
from tests.support.clocks import Clock
from tests.support.conversations import CONFIRM, new_thread, run_turn_worker, store_unanswered_message
from tests.support.deliveries import PHONE, only_delivery_at, wake_up
from tests.support.lex_events import event as lex_event
from tests.support.live_calls import Line, contact_event, forward_and_work, tell
from tests.support.live_calls import answer_live_call as answered_call
from tests.support.log_lines import ids, lines
from tests.support.receivers import Receiver, answer
from tests.support.resources import create_and_get_path
from tests.support.stage import Stage, sqs_record
from tests.support.wire import Fault, refuse_connection, wire


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    """A carrier for live calls."""
    monkeypatch.setenv("SIMULATE_LIVE", "0")
    carrier = Line()
    adapters.use(carrier=carrier)
    yield carrier
    adapters.use()


def create(stage: Stage) -> tuple[str, str]:
    """The ids of a new customer and of the request."""
    response = stage.call("POST", "/v1/customers", {"phone": PHONE})
    return response.json["id"], response.headers["service-request-id"]


def test_a_request_is_named_by_its_event_and_by_every_attempt_of_its_deliveries(
    stage: Stage, stopped_clock: Clock
) -> None:
    with Receiver(answer(500), answer(200)) as receiver, lines() as logged:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        customer, request_id = create(stage)
        stage.fan_out()
        [event] = stage.call("GET", f"/v1/events?object_id={customer}").json["data"]
        path = f"/v1/events/{event['id']}/deliveries"
        wake_up(stage, only_delivery_at(stage, path), "deliveries")
        stopped_clock.forward(5)
        wake_up(stage, only_delivery_at(stage, path))
    assert ids(logged, "event", "request_id", "event_id", "object_id") == [(request_id, event["id"], customer)]
    named = ids(logged, "attempt", "request_id", "event_id", "number", "status")
    assert named == [(request_id, event["id"], 1, 500), (request_id, event["id"], 2, 200)]


def test_a_retry_by_hand_is_named_by_its_own_request(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(400), answer(200)) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        customer, first = create(stage)
        stage.settle()
        [event] = stage.call("GET", f"/v1/events?object_id={customer}").json["data"]
        path = f"/v1/events/{event['id']}/deliveries"
        retried = stage.call("POST", f"{path}/{only_delivery_at(stage, path)['id']}/retry")
        with lines() as logged:
            stage.settle()
    request_id = retried.headers["service-request-id"]
    assert ids(logged, "attempt", "request_id", "event_id") == [(request_id, event["id"])]
    assert request_id != first


def test_every_step_of_a_call_and_its_events_name_the_request_that_placed_it(
    stage: Stage, stopped_clock: Clock
) -> None:
    whom = simulated_calls.callee(stage)
    stage.fan_out()
    placed = simulated_calls.place(stage, whom)
    request_id = placed.headers["service-request-id"]
    with lines() as logged:
        simulated_calls.dial(stage, stopped_clock, whom.scope, placed.json["session_id"])
        stage.fan_out()
    steps = ids(logged, "call", "request_id")
    assert len(steps) > 3
    assert {*steps} == {(request_id,)}
    events = {*ids(logged, "event", "request_id", "type")}
    # The agent confirmed the appointment during the call.
    assert {(request_id, "session.completed"), (request_id, "appointment.confirmed")} <= events
    assert {named for named, _ in events} == {request_id}


def test_a_consent_that_the_customer_gives_dials_for_the_request_that_asked(stage: Stage, stopped_clock: Clock) -> None:
    whom = simulated_calls.callee(stage, phone=simulated_calls.ACCEPTS)
    placed = simulated_calls.place(stage, whom)
    stopped_clock.forward(6)
    with lines() as logged:
        for record in [*stage.messages("consents")]:
            stage.invoke("consent", {"Records": [record]})
        simulated_calls.sweep(stage, stopped_clock, whom.scope)
        simulated_calls.dial(stage, stopped_clock, whom.scope, placed.json["session_id"])
    steps = ids(logged, "call", "request_id")
    assert steps
    assert {*steps} == {(placed.headers["service-request-id"],)}


def test_a_turn_and_what_it_changes_name_the_request_of_the_message(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    stage.fan_out()
    with lines() as logged:
        message_id = store_unanswered_message(stage, thread, CONFIRM)
        [(request_id,)] = ids(logged, "request", "request_id")
        run_turn_worker(stage, thread)
        stage.fan_out()
    assert request_id is not None
    assert ids(logged, "turn", "message_id", "request_id") == [(message_id, request_id)]
    assert ids(logged, "event", "type", "request_id") == [("appointment.confirmed", request_id)]


def test_an_event_of_the_carrier_and_a_turn_of_the_call_name_the_request_that_placed_it(
    stage: Stage, stopped_clock: Clock, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = answered_call(stage, line)
    request_id = str(call.row["cause"])
    assert request_id.startswith("req_")
    stage.messages("dials")
    monkeypatch.setenv("SIMULATE_LIVE", "1")  # so that the agent is the scripted one
    attributes = {"session_id": call.id, "project_id": str(call.scope.project_id), "livemode": "true"}
    utterance = lex_event("hello")
    utterance["sessionState"]["sessionAttributes"] = attributes
    with lines() as logged:
        stage.invoke("voice_turn", utterance)
        monkeypatch.setenv("SIMULATE_LIVE", "0")
        tell(stage, contact_event(line.contacts[call.id]))
    assert ids(logged, "voice turn", "request_id") == [(request_id,)]
    assert call.row["cause"] == request_id
    with lines() as logged:
        forward_and_work(stage, stopped_clock, call, 1)
    assert ids(logged, "call", "request_id") == [(request_id,)]
    assert trace.request_id() is None


def test_items_of_a_batch_do_not_name_each_others_requests(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(200), answer(200)) as receiver, lines() as logged:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        made_by = [create(stage) for _ in range(2)]
        stage.fan_out()
        records = stage.messages("deliveries")
        broken = sqs_record("no JSON", stage.queues["deliveries"].arn)
        stage.invoke("deliver", {"Records": [records[0], broken, records[1]]})
    assert {*ids(logged, "attempt", "request_id")} == {(request_id,) for _, request_id in made_by}
    assert ids(logged, "message or record failed", "request_id", "sqs_message_id") == [(None, broken["messageId"])]
    assert trace.request_id() is None


def test_a_line_that_is_logged_while_a_request_is_served_names_it(stage: Stage) -> None:
    with lines() as logged, wire(Fault(0, refuse_connection, service="sqs")):
        whom = simulated_calls.callee(stage)
        placed = simulated_calls.place(stage, whom)
    lost = (placed.headers["service-request-id"], [placed.json["session_id"]])
    assert ids(logged, "wake-up lost", "request_id", "rows") == [lost]


def test_a_row_remembers_the_request_when_something_from_outside_writes_it(stage: Stage) -> None:
    scope = Scope(stage.project().id, False)
    customer, request_id = create(stage)
    update = table.Update(scope.pk("customer"), customer, set={"active_session": None})
    table.write([update])
    row = table.get(scope.pk("customer"), customer)
    assert row is not None
    assert row["cause"] == request_id
