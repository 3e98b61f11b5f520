"""Promises 7: what a call may ask for, and its Idempotency-Keys."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.client import Client, Response, assert_error, assert_replay
from tests.support.client_actions import (
    UNKNOWN,
    call,
    create_appointment,
    create_conversation,
    create_customer,
    event_about,
    events_about,
    retrieve_session,
    session_ended,
    sessions_of,
    settle,
    simulated_phone,
    unique,
)
from tests.support.concurrency import run_at_once

# What a call may ask for.


@pytest.mark.parametrize("outcome", ["00", "09"])
def test_without_an_appointment_the_call_concerns_none(client: Client, outcome: str) -> None:
    customer = create_customer(client, phone=simulated_phone(outcome))
    appointment = create_appointment(client, customer["id"])
    made = call(client, customer["id"]).ok(201)
    assert made["appointment_id"] is None
    session = session_ended(client, made["session_id"])
    assert (session["call_status"], session["appointment_id"]) == ("completed", None)
    assert (session["metadata"], session["consent"]) == ({}, None)
    event_about(client, session["id"], "session.transcript_ready")
    assert client.get(f"/v1/appointments/{appointment['id']}").ok() == appointment
    assert [event["type"] for event in events_about(client, appointment["id"])] == ["appointment.created"]


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"channel": "phone"},
        {"instructions": "x" * 2000},
        {"instructions": "Ask for Zoë.\nBe\tbrief."},
        {"appointment_id": None, "channel": None, "instructions": None},
        {"metadata": {"a": [1.0, {"b": None}]}},
    ],
)
def test_every_field_of_the_request_is_optional(client: Client, body: dict[str, Any] | None) -> None:
    customer = create_customer(client, phone=simulated_phone("02"))
    made = call(client, customer["id"], body).ok(201)
    assert (made["status"], made["channel"], made["appointment_id"]) == ("queued", "phone", None)
    assert retrieve_session(client, made["session_id"])["metadata"] == ((body or {}).get("metadata") or {})


@pytest.mark.parametrize(
    ("body", "codes", "param"),
    [
        ({"instructions": "x" * 2001}, {"parameter_invalid"}, "instructions"),
        ({"instructions": 5}, {"parameter_invalid"}, "instructions"),
        ({"instructions": "a\x00b"}, {"parameter_invalid"}, "instructions"),
        ({"channel": "sms"}, {"parameter_invalid"}, "channel"),
        ({"channel": "Phone"}, {"parameter_invalid"}, "channel"),
        ({"channel": 1}, {"parameter_invalid"}, "channel"),
        ({"metadata": 3}, {"parameter_invalid", "metadata_invalid"}, "metadata"),
        ({"metadata": {"k": "x" * 600}}, {"metadata_invalid"}, "metadata[k]"),
        ({"appointment_id": 5}, {"parameter_invalid", "resource_not_found"}, "appointment_id"),
        ({"appointment_id": "nonsense"}, {"resource_not_found"}, "appointment_id"),
        ({"appointment_id": f"appt_{UNKNOWN}"}, {"resource_not_found"}, "appointment_id"),
        ({"customer_id": f"cust_{UNKNOWN}"}, {"parameter_unknown"}, "customer_id"),
        ({"to": "+14155550100"}, {"parameter_unknown"}, "to"),
    ],
)
def test_an_invalid_request_calls_nobody(client: Client, body: object, codes: set[str], param: str) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    assert_error(call(client, customer["id"], body), 400, codes, param=param)
    assert sessions_of(client, customer["id"]) == []
    # Nor is the customer taken for being called.
    call(client, customer["id"]).ok(201)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("instruction", "instructions"), ("chanel", "channel"), ("appointment", "appointment_id")],
)
def test_an_unknown_field_is_refused_with_a_guess(client: Client, written: str, meant: str) -> None:
    customer = create_customer(client)
    error = assert_error(call(client, customer["id"], {written: "x"}), 400, "parameter_unknown", param=written)
    assert "did you mean" in error["message"].lower()
    assert meant in error["message"]


@pytest.mark.parametrize("customer_id", [f"cust_{UNKNOWN}", "nonsense", f"appt_{UNKNOWN}"])
def test_an_unknown_customer_is_not_found(client: Client, customer_id: str) -> None:
    assert_error(call(client, customer_id), 404, "resource_not_found")
    assert_error(call(client, customer_id, {"channel": "sms"}), 400, "parameter_invalid", param="channel")


def test_a_deleted_customer_is_not_called(client: Client) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    client.delete(f"/v1/customers/{customer['id']}").ok()
    assert_error(call(client, customer["id"]), 409, "customer_deleted")
    assert sessions_of(client, customer["id"]) == []


def customer_without_phone(client: Client) -> str:
    """A customer whom only a conversation made."""
    conversation = create_conversation(client, customer={"email": f"{unique()}@example.com"})
    return str(conversation["customer_id"])


@pytest.mark.parametrize("channel", [None, "phone", "whatsapp"])
def test_a_customer_without_a_phone_is_not_called(client: Client, channel: str | None) -> None:
    customer_id = customer_without_phone(client)
    assert client.get(f"/v1/customers/{customer_id}").ok()["phone"] is None
    body = None if channel is None else {"channel": channel}
    assert_error(call(client, customer_id, body), 409, "customer_phone_missing")
    assert sessions_of(client, customer_id) == []


def test_an_appointment_must_be_the_customers_own(client: Client, live: Client, other: Client) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    for caller in (client, live, other):
        foreign = create_appointment(caller)
        response = call(client, customer["id"], {"appointment_id": foreign["id"]})
        error = assert_error(response, 400, "resource_not_found", param="appointment_id")
        assert error["type"] == "invalid_request_error"
        assert caller.get(f"/v1/appointments/{foreign['id']}").ok() == foreign
    assert sessions_of(client, customer["id"]) == []


@pytest.mark.parametrize("how", ["cancelled", "deleted"])
def test_nobody_is_called_about_an_appointment_that_is_off(client: Client, how: str) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    path = f"/v1/appointments/{create_appointment(client, customer['id'])['id']}"
    off = client.patch(path, {"status": "cancelled"}).ok() if how == "cancelled" else client.delete(path).ok()
    response = call(client, customer["id"], {"appointment_id": off["id"]})
    assert_error(response, 409, f"appointment_{how}")
    assert client.get(path).ok() == off
    assert sessions_of(client, customer["id"]) == []


# Idempotency.


@pytest.mark.parametrize(("outcome", "status"), [("00", 201), ("21", 202)])
def test_a_call_is_replayed_also_after_it_ended(client: Client, outcome: str, status: int) -> None:
    customer, key = create_customer(client, phone=simulated_phone(outcome)), unique()
    path, body = f"/v1/customers/{customer['id']}/call", {"instructions": "Zoë", "metadata": {"price": 10.0}}
    first = client.post(path, body, idempotency_key=key)
    assert_replay(first, client.post(path, body, idempotency_key=key))
    session_ended(client, first.ok(status)["session_id"])
    assert_replay(first, client.post(path, body, idempotency_key=key))
    for changed in (None, {**body, "channel": "phone"}):
        error = assert_error(client.post(path, changed, idempotency_key=key), 400, "idempotency_key_reused")
        assert error["type"] == "idempotency_error"
    assert sessions_of(client, customer["id"]) == [first.json["session_id"]]


@pytest.mark.parametrize("outcome", ["00", "23", "20"])
def test_of_sixteen_with_one_key_one_calls(client: Client, outcome: str) -> None:
    customer, key = create_customer(client, phone=simulated_phone(outcome)), unique()

    def place() -> Response:
        while True:
            response = call(client, customer["id"], {}, idempotency_key=key)
            if response.status != 409 or response.error["code"] != "idempotency_key_in_use":
                return response
            time.sleep(0.2)

    answers = run_at_once([place] * 16)
    (first,) = [answer for answer in answers if not answer.replayed]
    for answer in answers:
        if answer is not first:
            assert_replay(first, answer)
    session_id = first.ok(202 if outcome == "20" else 201)["session_id"]
    session_ended(client, session_id)
    assert sessions_of(client, customer["id"]) == [session_id]
    settle(client, "customer")
    types = [event["type"] for event in events_about(client, session_id)]
    assert types.count("session.created") == types.count("session.dialing") == types.count("session.completed") == 1


def test_a_refusal_for_the_customers_state_is_kept(client: Client) -> None:
    customer_id, key = customer_without_phone(client), unique()
    first = call(client, customer_id, idempotency_key=key)
    assert_error(first, 409, "customer_phone_missing")
    client.patch(f"/v1/customers/{customer_id}", {"phone": simulated_phone("00")}).ok()
    assert_replay(first, call(client, customer_id, idempotency_key=key))
    assert sessions_of(client, customer_id) == []
    call(client, customer_id, idempotency_key=unique()).ok(201)


def test_a_refusal_for_the_request_is_not_kept(client: Client) -> None:
    customer, key = create_customer(client, phone=simulated_phone("00")), unique()
    for body in ({"channel": "sms"}, {"appointment_id": f"appt_{UNKNOWN}"}):
        assert call(client, customer["id"], body, idempotency_key=key).status == 400
    accepted = call(client, customer["id"], {}, idempotency_key=key)
    accepted.ok(201)
    assert not accepted.replayed
