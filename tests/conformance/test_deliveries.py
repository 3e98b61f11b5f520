"""Promises 9: deliveries, signatures and retries, with real receivers."""

from __future__ import annotations

import itertools
import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support import receivers
from tests.support.client import Client, wait_for
from tests.support.client_actions import (
    Subscribe,
    create_appointment,
    create_customer,
    deliveries_of,
    delivery_has_ended,
    delivery_to,
    delivery_when,
    event_about,
    notify,
    seconds,
    unique_phone,
)
from tests.support.receivers import Exchange, answer, drip_body, hang_after_request, redirect
from tests.support.runner import Service, free_port
from tests.support.signed_receiver import Receiver, service_signature_is_valid, standard_signature_is_valid

WAITS = (5, 30, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 24 * 3600)
"""Seconds before attempts 2 to 9."""


# While other tests run, one receiver never answers and one answers without end.


@pytest.fixture(scope="module", autouse=True)
def stuck_ones_start_early(request: pytest.FixtureRequest, receiver: Receiver) -> None:
    """Before the first test of the module, if any of those to be run needs them; all of them need a receiver."""
    if any("stuck" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("stuck")


@pytest.fixture(scope="module")
def stuck(client: Client, receiver: Receiver, subscribe_module: Subscribe) -> dict[str, Any]:
    deliveries = {}
    for name, behaviour in (("hang", hang_after_request), ("drip", drip_body)):
        endpoint = subscribe_module(client, receiver.hook(behaviour), "customer.created")
        deliveries[name] = notify(client, endpoint)
        # It shall hear of nothing else.
        client.patch(f"/v1/webhook_endpoints/{endpoint['id']}", {"event_filters": ["session.*"]}).ok()
    return deliveries


# What is sent


@pytest.fixture(scope="module")
def sample(client: Client, receiver: Receiver, subscribe_module: Subscribe) -> dict[str, Any]:
    """One successful delivery, from the receiver's side and from the API's."""
    hook = receiver.hook(answer(200, b"thank you"))
    endpoint = subscribe_module(client, hook, "customer.updated")
    customer = create_customer(client, name="Zoë", metadata={"price": 10.0, "text": "ünï \u2028 </script>"})
    client.patch(f"/v1/customers/{customer['id']}", {"name": "Ann"}).ok()
    (received,) = hook.wait_about(customer["id"])
    event = event_about(client, customer["id"], "customer.updated")
    delivery = delivery_when(client, delivery_to(client, event["id"], endpoint["id"]), delivery_has_ended)
    return {"received": received, "event": event, "endpoint": endpoint, "delivery": delivery, "hook": hook}


def test_an_event_is_posted_as_json(sample: dict[str, Any]) -> None:
    received = sample["received"]
    assert received.method == "POST"
    assert received.headers["Content-Type"].partition(";")[0] == "application/json"
    assert received.event == sample["event"]


def test_the_body_is_compact_utf8(sample: dict[str, Any]) -> None:
    body: bytes = sample["received"].body
    again = json.dumps(json.loads(body), separators=(",", ":"), ensure_ascii=False)
    assert body.decode() == again


def test_the_service_signature_verifies(sample: dict[str, Any]) -> None:
    received, secret = sample["received"], sample["endpoint"]["secret"]
    header = received.headers["Service-Signature"]
    assert re.fullmatch(r"t=[1-9]\d{9},v1=[0-9a-f]{64}", header)
    assert service_signature_is_valid(received, secret)
    assert not service_signature_is_valid(received, secret + "x")
    assert abs(int(header[2:12]) - received.at) < 20


def test_the_standard_webhooks_signature_verifies(sample: dict[str, Any]) -> None:
    received, secret = sample["received"], sample["endpoint"]["secret"]
    assert received.headers["webhook-id"] == sample["event"]["id"]
    assert re.fullmatch(r"[1-9]\d{9}", received.headers["webhook-timestamp"])
    assert standard_signature_is_valid(received, secret)


def test_a_request_carries_no_key_and_no_cookie(service: Service, sample: dict[str, Any]) -> None:
    headers = sample["received"].headers
    assert "Authorization" not in headers
    assert "Cookie" not in headers
    for project in service.projects:
        assert project.test_key not in str(headers)


def test_a_delivery_has_all_its_fields(sample: dict[str, Any]) -> None:
    delivery, event, endpoint = sample["delivery"], sample["event"], sample["endpoint"]
    expected = {
        "event_id": event["id"],
        "event_type": "customer.updated",
        "webhook_endpoint_id": endpoint["id"],
        "url": endpoint["url"],
        "status": "succeeded",
        "trigger": "automatic",
        "retry_of": None,
        "attempt_count": 1,
        "max_attempts": 9,
        "next_attempt_at": None,
        "response_status_code": 200,
        "response_body": "thank you",
        "error_code": None,
        "livemode": False,
    }
    assert delivery | expected == delivery
    (attempt,) = delivery["attempts"]
    assert (attempt["number"], attempt["response_status_code"], attempt["error_code"]) == (1, 200, None)
    assert 0 <= attempt["duration_ms"] < 15_000
    assert delivery["duration_ms"] == attempt["duration_ms"]
    assert delivery["created_at"] <= delivery["last_attempt_at"] <= delivery["completed_at"]
    assert abs(seconds(attempt["at"]) - sample["received"].at) < 2


def test_a_success_is_delivered_once(client: Client, sample: dict[str, Any]) -> None:
    # Another event comes the same way in the meantime, so that a repeat would have come.
    customer = create_customer(client)
    client.patch(f"/v1/customers/{customer['id']}", {"name": "Ann"}).ok()
    sample["hook"].wait_about(customer["id"])
    assert len(sample["hook"].about(sample["event"]["data"]["object"]["id"])) == 1


# What is retried


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_a_success(client: Client, subscribe: Subscribe, receiver: Receiver, status: int) -> None:
    hook = receiver.hook(status)
    delivery = delivery_when(client, notify(client, subscribe(client, hook, "customer.created")), delivery_has_ended)
    assert (delivery["status"], delivery["attempt_count"]) == ("succeeded", 1)
    assert delivery["response_status_code"] == status
    assert delivery["error_code"] is None
    assert len(hook.received) == 1


@pytest.mark.parametrize(
    ("status", "error_code"),
    [
        (500, "http_error"),
        (501, "http_error"),
        (502, "http_error"),
        (503, "http_error"),
        (599, "http_error"),
        (408, "http_error"),
        (429, "http_error"),
        (300, "redirect"),
        (304, "redirect"),
        (307, "redirect"),
    ],
)
def test_a_passing_failure_is_retried(
    client: Client, subscribe: Subscribe, receiver: Receiver, status: int, error_code: str
) -> None:
    hook = receiver.hook(status, status, 200)
    endpoint = subscribe(client, hook, "customer.created")
    delivery = delivery_when(client, notify(client, endpoint), delivery_has_ended)
    assert (delivery["status"], delivery["attempt_count"]) == ("succeeded", 3)
    outcomes = [(a["number"], a["response_status_code"], a["error_code"]) for a in delivery["attempts"]]
    assert outcomes == [(1, status, error_code), (2, status, error_code), (3, 200, None)]
    assert len(hook.received) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 418, 422, 451, 499])
def test_any_other_4xx_is_terminal(client: Client, subscribe: Subscribe, receiver: Receiver, status: int) -> None:
    hook = receiver.hook(status, 200)
    endpoint = subscribe(client, hook, "customer.created")
    delivery = delivery_when(client, notify(client, endpoint), delivery_has_ended)
    assert (delivery["status"], delivery["attempt_count"]) == ("failed", 1)
    assert (delivery["response_status_code"], delivery["error_code"]) == (status, "http_error")
    assert delivery["next_attempt_at"] is None
    assert delivery["completed_at"] is not None
    assert client.get(f"/v1/webhook_endpoints/{endpoint['id']}").ok()["enabled"] is True
    # Longer than the wait before a second attempt would be.
    notify(client, endpoint)
    hook.wait(2)
    assert len(hook.about(event_object(client, delivery))) == 1


def event_object(client: Client, delivery: Any) -> str:
    found: str = client.get(f"/v1/events/{delivery['event_id']}").ok()["data"]["object"]["id"]
    return found


def test_a_redirect_is_not_followed(client: Client, subscribe: Subscribe, receiver: Receiver) -> None:
    target = receiver.hook()
    for status in (301, 302, 303, 307, 308):
        hook = receiver.hook(redirect(target.url, status), 200)
        endpoint = subscribe(client, hook, "customer.created")
        delivery = delivery_when(client, notify(client, endpoint), delivery_has_ended)
        client.delete(f"/v1/webhook_endpoints/{endpoint['id']}").ok()
        assert (delivery["status"], delivery["attempt_count"]) == ("succeeded", 2)
        assert delivery["attempts"][0]["error_code"] == "redirect"
    assert target.received == []


def test_gone_ends_the_delivery_and_disables_the_endpoint(
    client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    hook = receiver.hook(410)
    endpoint = subscribe(client, hook, "customer.created")
    delivery = delivery_when(client, notify(client, endpoint), delivery_has_ended)
    assert (delivery["status"], delivery["attempt_count"]) == ("failed", 1)
    assert delivery["response_status_code"] == 410
    path = f"/v1/webhook_endpoints/{endpoint['id']}"
    shown = wait_for(lambda: (found := client.get(path).ok())["enabled"] is False and found)
    assert shown["disabled_reason"] == "gone"
    assert shown["disabled_at"] is not None
    canceled = notify(client, endpoint)
    assert (canceled["status"], canceled["error_code"]) == ("canceled", "endpoint_disabled")
    assert len(hook.received) == 1


def test_a_refused_connection_is_retried_at_the_present_url(
    client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    endpoint = subscribe(client, f"http://127.0.0.1:{free_port()}/", "customer.created")
    delivery = delivery_when(client, notify(client, endpoint), lambda found: found["attempt_count"] >= 1)
    assert delivery["attempts"][0]["error_code"] == "connection_refused"
    assert delivery["attempts"][0]["response_status_code"] is None
    hook = receiver.hook()
    client.patch(f"/v1/webhook_endpoints/{endpoint['id']}", {"url": hook.url}).ok()
    delivery = delivery_when(client, delivery, delivery_has_ended, timeout=20)
    assert delivery["status"] == "succeeded"
    assert delivery["attempt_count"] >= 2
    assert len(hook.received) == 1


def test_a_tls_error_is_retried(client: Client, subscribe: Subscribe) -> None:
    def answer_without_tls(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        exchange.hang()

    with receivers.Receiver(answer_without_tls) as receiver:
        endpoint = subscribe(client, receiver.url.replace("http://", "https://"), "customer.created")
        delivery = delivery_when(client, notify(client, endpoint), lambda found: found["attempt_count"] >= 2)
    assert {attempt["error_code"] for attempt in delivery["attempts"]} == {"tls_error"}
    assert delivery["status"] == "attempting"


def test_an_answer_cut_off_is_retried(client: Client, subscribe: Subscribe) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:

        def slam() -> None:
            for answer in (b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"):
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(5)
                    connection.recv(65536)
                    connection.sendall(answer)

        server.settimeout(20)
        done = pool.submit(slam)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        endpoint = subscribe(client, url, "customer.created")
        delivery = delivery_when(client, notify(client, endpoint), delivery_has_ended)
        done.result(20)
    assert delivery["status"] == "succeeded"
    assert delivery["attempt_count"] == 3
    assert all(attempt["error_code"] for attempt in delivery["attempts"][:2])


def test_only_a_little_of_an_answer_is_kept(client: Client, subscribe: Subscribe, receiver: Receiver) -> None:
    hook = receiver.hook(answer(200, b"x" * 300_000))
    delivery = delivery_when(client, notify(client, subscribe(client, hook, "customer.created")), delivery_has_ended)
    assert delivery["status"] == "succeeded"
    assert delivery["response_body"] == "x" * 1024


def test_an_answer_that_is_no_text_is_no_problem(client: Client, subscribe: Subscribe, receiver: Receiver) -> None:
    hook = receiver.hook(answer(200, b"\xff\x00\x01" * 50, {"Content-Encoding": "gzip", "Set-Cookie": "a=b"}))
    delivery = delivery_when(client, notify(client, subscribe(client, hook, "customer.created")), delivery_has_ended)
    assert delivery["status"] == "succeeded"


def test_every_attempt_sends_the_same_bytes_signed_anew(
    client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    hook = receiver.hook(500, 500, 500, 200)
    endpoint = subscribe(client, hook, "appointment.created")
    made = create_appointment(client, title="first", metadata={"price": 10.0})
    hook.wait()
    # The world moves on; what fired stays as it was.
    client.patch(f"/v1/appointments/{made['id']}", {"title": "second", "status": "confirmed"}).ok()
    received = hook.wait(4)
    assert len({one.body for one in received}) == 1
    assert received[0].event["data"]["object"] == made
    assert {one.headers["webhook-id"] for one in received} == {received[0].event["id"]}
    assert all(service_signature_is_valid(one, endpoint["secret"]) for one in received)
    assert all(standard_signature_is_valid(one, endpoint["secret"]) for one in received)
    stamps = [int(one.headers["webhook-timestamp"]) for one in received]
    assert abs(stamps[-1] - received[-1].at) < 4
    assert stamps[-1] > stamps[0]


def test_the_waits_between_attempts_are_those_of_the_schedule(
    service: Service, client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    assert service.speed
    endpoint = subscribe(client, receiver.hook(500), "customer.created")
    delivery = notify(client, endpoint)
    delivery = delivery_when(client, delivery, lambda found: found["attempt_count"] >= 4, timeout=60)
    assert (delivery["status"], delivery["completed_at"]) == ("attempting", None)
    attempts = delivery["attempts"]
    assert [attempt["number"] for attempt in attempts] == [1, 2, 3, 4]
    for wait, earlier, later in zip(WAITS, attempts, attempts[1:], strict=False):
        gap = seconds(later["at"]) - seconds(earlier["at"])
        assert wait / service.speed - 0.01 <= gap <= wait / service.speed + 3, f"{gap} s, not {wait} s scaled"
    assert delivery["last_attempt_at"][:19] == attempts[-1]["at"][:19]
    gap = seconds(delivery["next_attempt_at"]) - seconds(delivery["last_attempt_at"])
    assert WAITS[3] / service.speed - 0.01 <= gap <= WAITS[3] / service.speed + 1


# Who hears what


def test_filters_choose_the_events(client: Client, subscribe: Subscribe, receiver: Receiver) -> None:
    filters = {
        "all": [],
        "customers": ["customer.*"],
        "appointments": ["appointment.*"],
        "sessions": ["session.*"],
        "confirmed": ["appointment.confirmed"],
        "mixed": ["customer.deleted", "appointment.cancelled", "appointment.failed"],
    }
    hooks = {name: receiver.hook() for name in filters}
    for name, chosen in filters.items():
        subscribe(client, hooks[name], *chosen)
    customer = create_customer(client)
    appointment = create_appointment(client, customer["id"])
    path = f"/v1/appointments/{appointment['id']}"
    for status in ("confirmed", "failed", "cancelled"):
        client.patch(path, {"status": status}).ok()
    client.delete(f"/v1/customers/{customer['id']}").ok()
    about_customer = {"customer.created", "customer.deleted"}
    about_appointment = {f"appointment.{kind}" for kind in ("created", "confirmed", "failed", "cancelled")}
    expected = {
        "all": about_customer | about_appointment,
        "customers": about_customer,
        "appointments": about_appointment,
        "sessions": set(),
        "confirmed": {"appointment.confirmed"},
        "mixed": {"customer.deleted", "appointment.cancelled", "appointment.failed"},
    }
    hooks["all"].wait(6)
    for name, types in expected.items():
        received = hooks[name].wait(len(types)) if types else hooks[name].received
        assert sorted(one.event["type"] for one in received) == sorted(types), name


def test_a_changed_filter_applies_to_what_comes_after(client: Client, subscribe: Subscribe, receiver: Receiver) -> None:
    hook = receiver.hook()
    endpoint = subscribe(client, hook, "appointment.*")
    client.patch(f"/v1/webhook_endpoints/{endpoint['id']}", {"event_filters": ["customer.*"]}).ok()
    appointment = create_appointment(client)
    hook.wait_about(appointment["customer_id"])
    event = event_about(client, appointment["id"], "appointment.created")
    assert deliveries_of(client, event["id"]) == []


def test_modes_and_projects_hear_only_of_themselves(
    client: Client,
    live: Client,
    other: Client,
    other_live: Client,
    subscribe: Subscribe,
    receiver: Receiver,
) -> None:
    callers = (client, live, other, other_live)
    hooks = [receiver.hook() for _ in callers]
    for caller, hook in zip(callers, hooks, strict=True):
        subscribe(caller, hook, "customer.created")
    phone = unique_phone()
    made = [create_customer(caller, phone=phone)["id"] for caller in callers]
    for index, hook in enumerate(hooks):
        (received,) = hook.wait_about(made[index])
        assert received.event["livemode"] is (index % 2 == 1)
    # By a second round each hook has had the time to hear of the others' first.
    again = [create_customer(caller, phone=phone)["id"] for caller in callers]
    for index, hook in enumerate(hooks):
        hook.wait_about(again[index])
        heard = {one.event["data"]["object"]["id"] for one in hook.received}
        assert heard & {*made, *again} == {made[index], again[index]}


def creation_time(event: Any) -> float:
    """Unix seconds: an id begins with its time in milliseconds, in ten digits of Crockford's base 32."""
    milliseconds = 0
    for digit in str(event["id"]).partition("_")[2][:10]:
        milliseconds = 32 * milliseconds + "0123456789abcdefghjkmnpqrstvwxyz".index(digit)
    return milliseconds / 1000


# On a busy machine too: a message waits for the one before it until it is a second old.
@pytest.mark.parallel
def test_first_attempts_arrive_in_the_order_of_production(
    client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    hook = receiver.hook()
    subscribe(client, hook, "appointment.*", "customer.*")
    customer = create_customer(client)
    appointment = create_appointment(client, customer["id"])
    path = f"/v1/appointments/{appointment['id']}"
    expected = ["appointment.created"]
    for hour in range(1, 6):
        client.patch(path, {"appointment_at": f"2035-01-01T0{hour}:00:00Z"}).ok()
        client.patch(path, {"status": "confirmed"}).ok()
        expected += ["appointment.rescheduled", "appointment.confirmed"]
    client.delete(path).ok()
    expected.append("appointment.cancelled")
    arrived = hook.wait_about(appointment["id"], len(expected))
    for earlier, later in itertools.pairwise(arrived):
        if earlier.event["id"] > later.event["id"]:
            assert earlier.at - creation_time(earlier.event) > 1, "it did not wait for the one before it"
    received = sorted(arrived, key=lambda one: str(one.event["id"]))
    assert [one.event["type"] for one in received] == expected
    for earlier, later in itertools.pairwise(received):
        before = earlier.event["data"]["object"]["status"]
        assert later.event["data"]["previous_attributes"].get("status", before) == before


@pytest.mark.parallel
def test_a_hanging_endpoint_does_not_hold_up_another(client: Client, subscribe: Subscribe, receiver: Receiver) -> None:
    subscribe(client, receiver.hook(hang_after_request), "customer.created")
    hook = receiver.hook()
    subscribe(client, hook, "customer.created")
    since = time.monotonic()
    for _ in range(3):
        hook.wait_about(create_customer(client)["id"])
    assert time.monotonic() - since < 10


# Deadlines, at the end: fifteen seconds have mostly passed by now


@pytest.mark.parallel
@pytest.mark.parametrize("name", ["hang", "drip"])
def test_a_receiver_has_fifteen_seconds_for_its_whole_answer(client: Client, stuck: dict[str, Any], name: str) -> None:
    delivery = delivery_when(client, stuck[name], lambda found: found["attempt_count"] >= 1, timeout=25)
    attempt = delivery["attempts"][0]
    assert attempt["error_code"] == "timeout"
    assert 14_500 <= attempt["duration_ms"] <= 17_000
    # The wait before the next attempt counts from the end of this one.
    if delivery["next_attempt_at"] and delivery["attempt_count"] == 1:
        assert seconds(delivery["next_attempt_at"]) >= seconds(attempt["at"])
