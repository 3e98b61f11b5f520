"""Deliveries from the first attempt to the last, the clock in hand (promises 9)."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import boto3
import pytest
from standardwebhooks import Webhook

from shared.core import clock, settings
from tests.support.clocks import Clock
from tests.support.concurrency import just_before
from tests.support.deliveries import PHONE, delete, disable, new_event, only_delivery_at, wake_up
from tests.support.receivers import (
    Behaviour,
    Exchange,
    Obedient,
    Receiver,
    answer,
    close_after_request,
    redirect,
    refusing_url,
)
from tests.support.resources import create_and_get_path, get_resource, list_resources
from tests.support.stage import Stage, queue_name
from tests.support.wire import Wire, wire

MINUTE, HOUR = 60, 3600
DAY = 24 * HOUR
WAITS = [5, 30, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 24 * HOUR]
LONGEST_OF_A_QUEUE = 900


@pytest.fixture(autouse=True)
def _no_timer_outlives_its_test(stage: Stage) -> Iterator[None]:
    yield
    machines = boto3.client("stepfunctions")
    for machine in machines.list_state_machines()["stateMachines"]:
        running = machines.list_executions(stateMachineArn=machine["stateMachineArn"], statusFilter="RUNNING")
        for execution in running["executions"]:
            machines.stop_execution(executionArn=execution["executionArn"])


def timers(line: Wire) -> list[tuple[str, Any]]:
    """The timers set: seconds of a queue, or the instant of a state machine."""
    entries = [
        (queue_name(call.parameters["QueueUrl"]), entry.get("DelaySeconds", 0))
        for call in line.of("SendMessageBatch")
        for entry in call.parameters["Entries"]
    ]
    inputs = [json.loads(call.parameters["input"]) for call in line.of("StartExecution")]
    return [*entries, *(("delayed_delivery", clock.parse(given["due_at"])) for given in inputs)]


@pytest.mark.parametrize("status", [410, 200])
@pytest.mark.parametrize("alone", [True, False], ids=["retrieved", "listed"])
def test_a_delivery_that_ends_while_it_is_read_is_shown_with_its_end(stage: Stage, status: int, alone: bool) -> None:
    """A 410 closes the endpoint; that must not look as if the delivery itself had been canceled by it."""
    with Receiver(answer(status)) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        waiting = only_delivery_at(stage, path)
        # The endpoints of the deliveries that were read before.
        with just_before("BatchGetItem", lambda: wake_up(stage, waiting)):
            seen = stage.call("GET", f"{path}/{waiting['id']}").json if alone else only_delivery_at(stage, path)
        ended = only_delivery_at(stage, path)
        assert (ended["status"], ended["attempt_count"]) == ("failed" if status == 410 else "succeeded", 1)
        # Read before its end or after it, and never what it is not.
        assert seen in (waiting, ended)


def test_an_attempt_has_the_time_at_which_it_was_signed_and_sent_however_late_it_is_recorded(
    stage: Stage, stopped_clock: Clock
) -> None:
    def slow(exchange: Exchange) -> None:
        stopped_clock.forward(6.6)
        answer(500)(exchange)

    with Receiver(slow) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        stopped_clock.forward(1)
        sent_at = clock.now()
        wake_up(stage, only_delivery_at(stage, path))
        delivery = only_delivery_at(stage, path)
        assert [clock.parse(attempt["at"]) for attempt in delivery["attempts"]] == [sent_at]
        assert clock.parse(delivery["last_attempt_at"]) == sent_at
        signature = receiver.requests[0].headers["service-signature"]
        assert signature.startswith(f"t={sent_at // 1000},")


def test_the_waits_are_exactly_those_of_the_table_and_the_ninth_failure_is_the_last(
    stage: Stage, stopped_clock: Clock
) -> None:
    # `Retry-After` of a receiver changes nothing.
    with Receiver(answer(500, b"no", {"Retry-After": "7200"})) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        for number in range(1, 10):
            with wire() as line:
                wake_up(stage, only_delivery_at(stage, path))
            ended_at = clock.now()
            delivery = only_delivery_at(stage, path)
            assert delivery["attempt_count"] == len(receiver.requests) == number
            assert (delivery["response_status_code"], delivery["response_body"]) == (500, "no")
            assert delivery["error_code"] == "http_error"
            if number == 9:
                break
            wait = WAITS[number - 1]
            due = ended_at + wait * 1000
            assert (delivery["status"], clock.parse(delivery["next_attempt_at"])) == ("attempting", due)
            [(way, when)] = timers(line)
            if wait <= LONGEST_OF_A_QUEUE:
                assert (way, when) == ("retries", wait)
            else:
                assert way == "delayed_delivery"
                assert due <= when < due + 1000
            # Ahead of its time a wake-up does nothing.
            stopped_clock.now = due / 1000 - 2
            wake_up(stage, delivery)
            assert only_delivery_at(stage, path) == delivery
            stopped_clock.now = due / 1000 + 0.0005
        assert delivery["status"] == "failed"
        assert timers(line) == []
        assert delivery["next_attempt_at"] is None
        assert clock.parse(delivery["completed_at"]) == ended_at
        assert [attempt["number"] for attempt in delivery["attempts"]] == [*range(1, 10)]
        stopped_clock.forward(30 * HOUR)
        wake_up(stage, delivery)
        stage.invoke("sweep", {})
        stage.deliver()
        assert len(receiver.requests) == 9
        assert only_delivery_at(stage, path) == delivery
        # The same bytes each time, signed anew.
        assert len({request.body for request in receiver.requests}) == 1
        assert {request.headers["webhook-id"] for request in receiver.requests} == {delivery["event_id"]}
        signed = [int(request.headers["service-signature"][2:].split(",")[0]) for request in receiver.requests]
        assert [later - earlier for earlier, later in itertools.pairwise(signed)] == [
            pytest.approx(wait, abs=1) for wait in WAITS
        ]
        assert len({request.headers["service-signature"] for request in receiver.requests}) == 9


def test_a_state_machine_that_waits_is_asked_once_for_each_attempt(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(500)) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        for wait in [0, *WAITS[:3]]:
            stopped_clock.forward(wait)
            wake_up(stage, only_delivery_at(stage, path))
    delivery, machines = only_delivery_at(stage, path), boto3.client("stepfunctions")
    arn = settings.state_machine_arn("delayed_delivery")
    started = machines.list_executions(stateMachineArn=arn)["executions"]
    mine = [execution for execution in started if delivery["id"] in execution["name"]]
    assert [execution["name"] for execution in mine] == [f"{delivery['id']}-5"]
    given = json.loads(machines.describe_execution(executionArn=mine[0]["executionArn"])["input"])
    assert json.loads(given["message"])["sk"] == delivery["id"]


def test_a_wake_up_within_a_second_of_its_time_waits_for_it(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(500), answer(200)) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        wake_up(stage, only_delivery_at(stage, path))
        due = clock.parse(only_delivery_at(stage, path)["next_attempt_at"])
        stopped_clock.forward(4.3)
        wake_up(stage, only_delivery_at(stage, path))
        delivery = only_delivery_at(stage, path)
        assert delivery["status"] == "succeeded"
        assert due <= clock.now() <= due + 5


def test_the_wait_counts_from_the_end_of_a_late_attempt(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(500)) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        wake_up(stage, only_delivery_at(stage, path))
        stopped_clock.forward(100)
        wake_up(stage, only_delivery_at(stage, path))
        delivery = only_delivery_at(stage, path)
        assert clock.parse(delivery["next_attempt_at"]) == clock.now() + 30_000


OUTCOMES: dict[str, tuple[Behaviour, str, str | None, int | None]] = {
    "200": (answer(200), "succeeded", None, 200),
    "204": (answer(204), "succeeded", None, 204),
    "301": (redirect("http://127.0.0.1:1/"), "attempting", "redirect", 302),
    "400": (answer(400), "failed", "http_error", 400),
    "401": (answer(401), "failed", "http_error", 401),
    "404": (answer(404), "failed", "http_error", 404),
    "408": (answer(408), "attempting", "http_error", 408),
    "410": (answer(410), "failed", "http_error", 410),
    "429": (answer(429), "attempting", "http_error", 429),
    "500": (answer(500), "attempting", "http_error", 500),
    "503": (answer(503), "attempting", "http_error", 503),
    "closed": (close_after_request, "attempting", "connection_refused", None),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_what_a_receiver_answers_decides_whether_it_is_asked_again(
    stage: Stage, stopped_clock: Clock, outcome: str
) -> None:
    behaviour, status, error, code = OUTCOMES[outcome]
    with Receiver(behaviour) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        wake_up(stage, only_delivery_at(stage, path))
        delivery = only_delivery_at(stage, path)
        assert (delivery["status"], delivery["error_code"], delivery["response_status_code"]) == (status, error, code)
        assert (
            (delivery["next_attempt_at"] is None) == (delivery["completed_at"] is not None) == (status != "attempting")
        )
        [endpoint] = list_resources(stage, "/v1/webhook_endpoints")
        gone = outcome == "410"
        assert (endpoint["enabled"], endpoint["disabled_reason"]) == ((False, "gone") if gone else (True, None))
        stopped_clock.forward(6)
        wake_up(stage, delivery)
        assert len(receiver.requests) == (2 if status == "attempting" else 1)


def test_a_refused_connection_is_tried_again(stage: Stage, stopped_clock: Clock) -> None:
    with refusing_url() as url:
        create_and_get_path(stage, "webhook_endpoints", url=url)
        path = new_event(stage)
        wake_up(stage, only_delivery_at(stage, path))
    delivery = only_delivery_at(stage, path)
    assert (delivery["status"], delivery["error_code"]) == ("attempting", "connection_refused")


def test_an_endpoint_that_failed_everything_for_five_days_is_disabled(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(500)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        for _ in range(5):
            path = new_event(stage)
            wake_up(stage, only_delivery_at(stage, path))
            assert stage.call("GET", endpoint).json["enabled"]
            stopped_clock.forward(DAY - 1)
        wake_up(stage, only_delivery_at(stage, new_event(stage)))
        assert stage.call("GET", endpoint).json["enabled"]
        stopped_clock.forward(5)
        path = new_event(stage)
        wake_up(stage, only_delivery_at(stage, path))
        disabled = stage.call("GET", endpoint).json
        assert (disabled["enabled"], disabled["disabled_reason"]) == (False, "failing")
        assert clock.parse(disabled["disabled_at"]) == clock.now()
        assert only_delivery_at(stage, path)["status"] == "canceled"
        later = only_delivery_at(stage, new_event(stage))
        assert (later["status"], later["error_code"]) == ("canceled", "endpoint_disabled")


def test_one_success_within_the_five_days_keeps_an_endpoint_enabled(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(500)
    with Receiver(obedient) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        wake_up(stage, only_delivery_at(stage, new_event(stage)))
        stopped_clock.forward(4 * DAY)
        obedient.behaviour = answer(200)
        wake_up(stage, only_delivery_at(stage, new_event(stage)))
        obedient.behaviour = answer(500)
        for _ in range(4):
            stopped_clock.forward(DAY)
            wake_up(stage, only_delivery_at(stage, new_event(stage)))
        assert stage.call("GET", endpoint).json["enabled"]


def test_enabling_an_endpoint_gives_it_five_new_days(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(500)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        wake_up(stage, only_delivery_at(stage, new_event(stage)))
        stopped_clock.forward(5 * DAY + 1)
        wake_up(stage, only_delivery_at(stage, new_event(stage)))
        assert not stage.call("GET", endpoint).json["enabled"]
        stage.call("PATCH", endpoint, {"enabled": True})
        wake_up(stage, only_delivery_at(stage, new_event(stage)))
        assert stage.call("GET", endpoint).json["enabled"]


@pytest.mark.parametrize("close", [disable, delete])
@pytest.mark.parametrize("attempted", [False, True], ids=["before_the_first_attempt", "between_attempts"])
def test_closing_an_endpoint_cancels_what_waits_for_it_at_once_and_for_good(
    stage: Stage, stopped_clock: Clock, close: Callable[[Stage, str], None], attempted: bool
) -> None:
    with Receiver(answer(500)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        waiting = only_delivery_at(stage, path)
        if attempted:
            wake_up(stage, waiting)
        stopped_clock.forward(3)
        close(stage, endpoint)
        closed_at = clock.now()
        seen = only_delivery_at(stage, path)
        assert (seen["status"], seen["error_code"], seen["next_attempt_at"]) == ("canceled", "endpoint_disabled", None)
        assert clock.parse(seen["completed_at"]) == closed_at
        assert seen == stage.call("GET", f"{path}/{seen['id']}").json
        stopped_clock.forward(10)
        wake_up(stage, waiting)
        assert only_delivery_at(stage, path) == seen
        assert len(receiver.requests) == int(attempted)
        # No step is scheduled any more. The wake-up at the next attempt, which was sent before, may arrive by now.
        stage.empty_queues()
        stopped_clock.forward(DAY)
        stage.invoke("sweep", {})
        assert waiting["id"] not in str(stage.messages("retries"))


def test_what_was_canceled_stays_so_after_enabling_and_can_be_retried_by_hand(
    stage: Stage, stopped_clock: Clock
) -> None:
    with Receiver(answer(500), answer(500), answer(200)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        disable(stage, endpoint)
        # Disabled and enabled before the worker came: canceled all the same.
        while_disabled = new_event(stage)
        stage.call("PATCH", endpoint, {"enabled": True})
        first = only_delivery_at(stage, path)
        wake_up(stage, first)
        assert (
            only_delivery_at(stage, path)["status"] == only_delivery_at(stage, while_disabled)["status"] == "canceled"
        )
        assert receiver.requests == []
        for each in (path, while_disabled):
            with wire() as line:
                answered = stage.call("POST", f"{each}/{only_delivery_at(stage, each)['id']}/retry")
            assert answered.status == 202
            assert timers(line) == [("retries", 0)]
            retried = answered.json
            assert (retried["trigger"], retried["status"], retried["attempt_count"]) == ("manual", "attempting", 0)
            wake_up(stage, retried)
        newest, oldest = list_resources(stage, path)
        assert (oldest["status"], newest["retry_of"]) == ("canceled", first["id"])
        assert clock.parse(newest["next_attempt_at"]) == clock.now() + 5_000
        stopped_clock.forward(5)
        wake_up(stage, newest)
        assert list_resources(stage, path)[0]["status"] == "succeeded"
        bodies = {request.body for request in receiver.requests}
        assert len(bodies) == 2  # one for each event


def test_a_manual_retry_of_a_closed_endpoint_is_refused(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(400)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        wake_up(stage, only_delivery_at(stage, path))
        retry = f"{path}/{only_delivery_at(stage, path)['id']}/retry"
        disable(stage, endpoint)
        assert stage.call("POST", retry).code == "webhook_endpoint_disabled"
        delete(stage, endpoint)
        assert stage.call("POST", retry).code == "resource_not_found"


def test_retries_go_to_the_present_url_with_the_present_secret_and_the_frozen_body(
    stage: Stage, stopped_clock: Clock
) -> None:
    with Receiver(answer(500)) as former, Receiver(answer(200)) as present:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=former.url)
        path = new_event(stage)
        wake_up(stage, only_delivery_at(stage, path))
        [customer] = list_resources(stage, "/v1/customers")
        stage.call("PATCH", f"/v1/customers/{customer['id']}", {"name": "Changed"})
        stage.call("PATCH", endpoint, {"url": present.url})
        stage.call("POST", f"{endpoint}/rotate_secret")
        stopped_clock.forward(5)
        wake_up(stage, only_delivery_at(stage, path))
        delivery = only_delivery_at(stage, path)
        assert (delivery["status"], delivery["url"]) == ("succeeded", present.url)
        assert present.requests[0].body == former.requests[0].body
        event = stage.call("GET", path.removesuffix("/deliveries"))
        assert event.body == present.requests[0].body


def secrets_that_sign(receiver: Receiver, secrets: Sequence[str]) -> list[str]:
    """The secrets that made the signatures of the last request, in their order."""
    [request] = receiver.requests[-1:]
    t, *digests = request.headers["service-signature"].split(",")
    signed = t.removeprefix("t=").encode() + b"." + request.body
    by_digest = {f"v1={hmac.new(one.encode(), signed, hashlib.sha256).hexdigest()}": one for one in secrets}
    id, sent_at, standard = (request.headers[name] for name in ("webhook-id", "webhook-timestamp", "webhook-signature"))
    for secret, signature in zip([by_digest[one] for one in digests], standard.split(" "), strict=True):
        headers = {"webhook-id": id, "webhook-timestamp": sent_at, "webhook-signature": signature}
        Webhook(secret).verify(request.body.decode(), headers, json_parse=False)
    return [by_digest[one] for one in digests]


def test_the_previous_secret_signs_until_it_expires_or_is_rotated_again(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(200)) as receiver:
        created = stage.call("POST", "/v1/webhook_endpoints", {"url": receiver.url}).json
        endpoint, secrets = f"/v1/webhook_endpoints/{created['id']}", [created["secret"]]

        def rotate(seconds: int | None) -> str | None:
            body = {"previous_secret_valid_seconds": seconds}
            rotated = stage.call("POST", f"{endpoint}/rotate_secret", body).json
            secrets.append(rotated["secret"])
            return cast("str | None", rotated["previous_secret_expires_at"])

        def signing() -> list[int]:
            stage.call("POST", f"{endpoint}/test")
            stage.settle()
            return [secrets.index(one) for one in secrets_that_sign(receiver, secrets)]

        assert signing() == [0]
        expires_at = rotate(60)
        assert expires_at == clock.iso(clock.now() + 60 * clock.SECOND)
        assert signing() == [1, 0]
        assert rotate(60)
        assert signing() == [2, 1], "a further rotation ends the older one"
        before = get_resource(stage, endpoint)
        stopped_clock.forward(59.9)
        assert signing() == [2, 1]
        stopped_clock.forward(0.1)
        assert signing() == [2]
        assert get_resource(stage, endpoint) == before | {"previous_secret_expires_at": None}, "nothing else changes"
        assert rotate(60)
        assert rotate(0) is None
        assert signing() == [4]
        assert rotate(60)
        assert rotate(None) is None
        assert signing() == [6]


def test_first_attempts_of_an_endpoint_come_in_the_order_of_the_changes(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(200)) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        customers = [create_and_get_path(stage, "customers", phone=PHONE).rpartition("/")[2] for _ in range(12)]
        stage.settle()
        assert [json.loads(request.body)["data"]["object"]["id"] for request in receiver.requests] == customers


def test_a_test_event_reaches_its_endpoint_alone_whatever_its_filters_and_has_a_whole_ladder(
    stage: Stage, stopped_clock: Clock
) -> None:
    with Receiver(answer(500), answer(200)) as receiver, Receiver(answer(200)) as other:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url, event_filters=["session.*"])
        create_and_get_path(stage, "webhook_endpoints", url=other.url)
        with wire() as line:
            response = stage.call("POST", f"{endpoint}/test")
        assert (response.status, response.json["trigger"]) == (202, "test")
        assert timers(line) == [("retries", 0)]
        stage.fan_out()
        wake_up(stage, response.json)
        stopped_clock.forward(5)
        wake_up(stage, response.json)
        path = f"/v1/events/{response.json['event_id']}/deliveries"
        assert (only_delivery_at(stage, path)["status"], only_delivery_at(stage, path)["attempt_count"]) == (
            "succeeded",
            2,
        )
        assert other.requests == []
