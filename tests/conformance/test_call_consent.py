"""Promises 7 and 10: requests for consent before a call on a messaging app."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.support.client import Client, Response, assert_error, wait_for
from tests.support.client_actions import (
    call,
    create_appointment,
    create_customer,
    event_about,
    events_about,
    retrieve_session,
    seconds,
    session_ended,
    sessions_of,
    settle,
    simulated_phone,
    unique,
)
from tests.support.concurrency import run_at_once
from tests.support.runner import Service, local_runner, memory_folder, skip_unless_own_runner

WHATSAPP = {"channel": "whatsapp"}
PHONE = {"channel": "phone"}


@dataclass(frozen=True)
class Modes:
    """One project of a service that leaves time to act while an answer is awaited: `speed` is 1 or 2."""

    test: Client
    live: Client
    other: Client
    speed: float


@pytest.fixture(scope="module")
def slow_modes(service: Service) -> Iterator[Modes]:
    def modes(of: Service) -> Modes:
        first, second = of.projects[:2]
        return Modes(of.client(first.test_key), of.client(first.live_key), of.client(second.test_key), of.speed or 1)

    if service.speed in {None, 1, 2}:
        yield modes(service)
        return
    skip_unless_own_runner()
    with memory_folder() as folder, local_runner(folder, speed=2) as started:
        yield modes(started)
        assert not started.promises.new, "\n".join(started.promises.new)


def ask(client: Client, phone: str, body: object = None) -> tuple[str, str]:
    """A new customer on this phone and the session that now waits for an answer."""
    customer = create_customer(client, phone=phone)
    return customer["id"], call(client, customer["id"], body).ok(202)["session_id"]


def types_about(client: Client, session_id: str) -> list[str]:
    return [event["type"] for event in events_about(client, session_id)]


# While the customer has not answered.


@pytest.fixture(scope="module")
def waiting(slow_modes: Modes) -> tuple[str, Response]:
    """A customer who never answers, and the 202 that says that she was asked. Nobody is to end the wait."""
    customer = create_customer(slow_modes.test, phone=simulated_phone("22"))
    return customer["id"], call(slow_modes.test, customer["id"], {"metadata": {"a": 1.0}})


def test_who_is_asked_is_not_yet_called(slow_modes: Modes, waiting: tuple[str, Response]) -> None:
    customer_id, answer = waiting
    found = answer.ok(202)
    assert (found["status"], found["call_status"], found["channel"]) == ("consent_pending", "queued", "whatsapp")
    session = retrieve_session(slow_modes.test, found["session_id"])
    assert session["customer_id"] == customer_id
    assert (session["call_status"], session["channel"], session["metadata"]) == ("queued", "whatsapp", {"a": 1.0})
    assert session["dialed_at"] is session["ended_at"] is session["ended_reason"] is None
    consent = session["consent"]
    assert (consent["status"], consent["responded_at"]) == ("pending", None)
    waits = seconds(consent["expires_at"]) - seconds(consent["requested_at"])
    assert waits == pytest.approx(60 / slow_modes.speed, rel=0.05)
    assert abs(seconds(consent["requested_at"]) - seconds(session["created_at"])) < 5
    for suffix in ("transcript", "recording"):
        response = slow_modes.test.get(f"/v1/sessions/{session['id']}/{suffix}")
        assert_error(response, 404, "resource_not_found")


def test_to_be_asked_again_answers_the_same(slow_modes: Modes, waiting: tuple[str, Response]) -> None:
    customer_id, answer = waiting
    before = retrieve_session(slow_modes.test, answer.ok(202)["session_id"])
    for body in (None, WHATSAPP, {"channel": "whatsapp", "metadata": {"a": 2}}):
        again = call(slow_modes.test, customer_id, body)
        assert again.ok(202) == answer.json
        assert not again.replayed
    again = call(slow_modes.test, customer_id, WHATSAPP, idempotency_key=unique())
    assert again.ok(202) == answer.json
    assert not again.replayed
    assert retrieve_session(slow_modes.test, before["id"]) == before
    assert sessions_of(slow_modes.test, customer_id) == [before["id"]]
    settle(slow_modes.test, "customer")
    assert types_about(slow_modes.test, before["id"]) == ["session.created"]


def test_a_phone_call_must_wait_for_the_answer(slow_modes: Modes, waiting: tuple[str, Response]) -> None:
    customer_id, answer = waiting
    key = unique()
    for _ in range(2):
        response = call(slow_modes.test, customer_id, PHONE, idempotency_key=key)
        assert_error(response, 409, "call_in_progress")
        assert not response.replayed
    assert sessions_of(slow_modes.test, customer_id) == [answer.json["session_id"]]


def test_of_sixteen_who_ask_at_once_all_get_one_session(slow_modes: Modes) -> None:
    customer = create_customer(slow_modes.test, phone=simulated_phone("22"))

    def place() -> Response:
        while True:
            response = call(slow_modes.test, customer["id"])
            if response.status != 409 or response.error["code"] != "conflict":
                return response
            time.sleep(0.2)

    answers = run_at_once([place] * 16)
    assert len({answer.ok(202)["session_id"] for answer in answers}) == 1
    assert sessions_of(slow_modes.test, customer["id"]) == [answers[0].json["session_id"]]


def test_deleting_a_customer_ends_the_wait_of_that_customer_alone(slow_modes: Modes) -> None:
    client, phone = slow_modes.test, simulated_phone("22")
    (customer_id, session_id), (_, kept) = ask(client, phone), ask(client, phone)
    before, neighbour = retrieve_session(client, session_id), retrieve_session(client, kept)
    client.delete(f"/v1/customers/{customer_id}").ok()
    ended = session_ended(client, session_id)
    assert (ended["call_status"], ended["ended_reason"]) == ("failed", "customer_deleted")
    assert ended["dialed_at"] is None
    assert ended["ended_at"] is not None
    event = event_about(client, session_id, "session.failed")
    assert event["data"]["object"] == ended
    assert event["data"]["previous_attributes"] == {
        name: value for name, value in before.items() if ended[name] != value and name != "updated_at"
    }
    settle(client, "customer")
    assert types_about(client, session_id) == ["session.created", "session.failed"]
    assert retrieve_session(client, kept) == neighbour
    assert_error(call(client, customer_id), 409, "customer_deleted")


# The answer, which is kept for the phone in the project and mode.


def test_an_acceptance_dials_everybody_who_waits_for_it(slow_modes: Modes) -> None:
    client, phone = slow_modes.test, simulated_phone("20")
    customers, sessions = zip(*(ask(client, phone) for _ in range(3)), strict=True)
    client.delete(f"/v1/customers/{customers[2]}").ok()
    asked = [retrieve_session(client, session_id)["consent"] for session_id in sessions[:2]]
    assert [consent["status"] for consent in asked] == ["pending", "pending"]
    # Nobody is asked twice: the second waits for the first one's answer, no longer than the first.
    assert asked[0]["expires_at"] == asked[1]["expires_at"]

    # The other mode and another project know nothing of it.
    for caller in (slow_modes.live, slow_modes.other):
        ask(caller, phone)

    ended = [session_ended(client, session_id) for session_id in sessions]
    assert [session["call_status"] for session in ended] == ["completed", "completed", "failed"]
    assert ended[2]["ended_reason"] == "customer_deleted"
    granted = [session["consent"] for session in ended[:2]]
    assert [consent["status"] for consent in granted] == ["granted", "granted"]
    waited = seconds(granted[0]["responded_at"]) - seconds(granted[0]["requested_at"])
    assert waited == pytest.approx(5 / slow_modes.speed, rel=0.1, abs=2)
    for session in ended[:2]:
        assert session["consent"]["responded_at"] <= session["dialed_at"] <= session["ended_at"]
        assert (session["answered_by"], session["to"]) == ("human", phone)
    settle(client, "customer")
    assert types_about(client, sessions[2]) == ["session.created", "session.failed"]
    for session_id in sessions[:2]:
        assert types_about(client, session_id)[:3] == ["session.created", "session.dialing", "session.completed"]

    # From now on there is consent, for whoever has this phone.
    newcomer = create_customer(client, phone=phone)["id"]
    for customer_id, body in ((customers[0], None), (customers[1], WHATSAPP), (newcomer, None)):
        made = call(client, customer_id, body).ok(201)
        assert (made["status"], made["channel"]) == ("queued", "whatsapp")
        session = session_ended(client, made["session_id"])
        assert (session["call_status"], session["answered_by"]) == ("completed", "human")


def test_a_refusal_ends_everybody_who_waits_for_it(slow_modes: Modes) -> None:
    client, phone = slow_modes.test, simulated_phone("21")
    customers, sessions = zip(*(ask(client, phone) for _ in range(2)), strict=True)
    ended = [session_ended(client, session_id) for session_id in sessions]
    for session in ended:
        assert (session["call_status"], session["ended_reason"]) == ("failed", "consent_declined")
        assert session["consent"]["status"] == "declined"
        assert session["dialed_at"] is None
        event_about(client, session["id"], "session.failed")
        assert types_about(client, session["id"]) == ["session.created", "session.failed"]
    # In test mode a customer may be asked as often as one likes (number 25 apart), and called by phone.
    again = call(client, customers[0]).ok(202)
    assert again["session_id"] not in sessions
    phoned = create_customer(client, phone=phone)["id"]
    assert call(client, phoned, PHONE).ok(201)["status"] == "queued"


def test_without_an_answer_the_wait_ends_for_all(client: Client) -> None:
    phone = simulated_phone("22")
    customers, sessions = zip(*(ask(client, phone) for _ in range(2)), strict=True)
    ended = [session_ended(client, session_id, timeout=90) for session_id in sessions]
    for session in ended:
        assert (session["call_status"], session["ended_reason"]) == ("failed", "consent_expired")
        assert (session["consent"]["status"], session["consent"]["responded_at"]) == ("expired", None)
        assert session["consent"]["expires_at"] <= session["ended_at"]
        assert seconds(session["ended_at"]) - seconds(session["consent"]["expires_at"]) < 15
    assert ended[0]["consent"]["expires_at"] == ended[1]["consent"]["expires_at"]
    assert call(client, customers[0]).ok(202)["session_id"] not in sessions


def test_a_call_after_a_refused_one_can_be_by_phone(client: Client) -> None:
    customer_id, session_id = ask(client, simulated_phone("21"))
    session_ended(client, session_id)
    made = call(client, customer_id, PHONE).ok(201)
    session = session_ended(client, made["session_id"])
    assert (session["call_status"], session["channel"], session["consent"]) == ("completed", "phone", None)


# What the numbers imply, and what a named channel does instead.


@pytest.mark.parametrize("outcome", ["20", "21", "22", "23", "25"])
def test_by_phone_these_numbers_act_as_any_other(client: Client, outcome: str) -> None:
    customer = create_customer(client, phone=simulated_phone(outcome))
    appointment = create_appointment(client, customer["id"])
    made = call(client, customer["id"], {**PHONE, "appointment_id": appointment["id"]}).ok(201)
    assert (made["status"], made["channel"]) == ("queued", "phone")
    session = session_ended(client, made["session_id"])
    assert (session["call_status"], session["answered_by"], session["channel"]) == ("completed", "human", "phone")
    assert session["consent"] is None
    path = f"/v1/appointments/{appointment['id']}"
    assert wait_for(partial(assert_confirmed, client, path))["session_id"] == session["id"]


def assert_confirmed(client: Client, path: str) -> Any:
    found = client.get(path).ok()
    assert found["status"] == "confirmed", f"still {found}"
    return found


def test_consent_is_not_gained_by_a_phone_call(client: Client) -> None:
    customer = create_customer(client, phone=simulated_phone("22"))
    session_ended(client, call(client, customer["id"], PHONE).ok(201)["session_id"])
    assert call(client, customer["id"]).ok(202)["status"] == "consent_pending"


@pytest.mark.parametrize(
    ("outcome", "call_status", "ended_reasons"),
    [
        ("00", "completed", {"customer_hangup", "agent_hangup"}),
        ("01", "invalid_number", {"invalid_number"}),
        ("02", "no_answer", {"no_answer"}),
        ("05", "call_later", {"callback_requested"}),
        ("11", "failed", {"provider_error"}),
    ],
)
def test_other_numbers_have_consent_on_file(
    client: Client, outcome: str, call_status: str, ended_reasons: set[str]
) -> None:
    customer = create_customer(client, phone=simulated_phone(outcome))
    made = call(client, customer["id"], WHATSAPP).ok(201)
    assert (made["status"], made["channel"]) == ("queued", "whatsapp")
    session = session_ended(client, made["session_id"])
    assert (session["channel"], session["call_status"]) == ("whatsapp", call_status)
    assert session["ended_reason"] in ended_reasons
    assert (session["consent"] or {"status": "granted"})["status"] == "granted"


@pytest.mark.parametrize("body", [None, WHATSAPP])
@pytest.mark.parametrize("mode", ["client", "live"])
def test_who_was_asked_too_often_is_not_asked(request: pytest.FixtureRequest, mode: str, body: object) -> None:
    caller: Client = request.getfixturevalue(mode)
    customer, key = create_customer(caller, phone=simulated_phone("25")), unique()
    appointment = create_appointment(caller, customer["id"])
    wish = {**(body if isinstance(body, dict) else {}), "appointment_id": appointment["id"]}
    for _ in range(2):
        response = call(caller, customer["id"], wish, idempotency_key=key)
        error = assert_error(response, 409, "consent_request_limited")
        assert error["type"] == "conflict_error"
        assert not response.replayed
    assert sessions_of(caller, customer["id"]) == []
    assert caller.get(f"/v1/appointments/{appointment['id']}").ok() == appointment
    # The passing refusal is not kept for the key, and leaves no call in progress.
    caller.patch(f"/v1/customers/{customer['id']}", {"phone": simulated_phone("23")}).ok()
    accepted = call(caller, customer["id"], wish, idempotency_key=key)
    assert accepted.ok(201)["channel"] == "whatsapp"
    assert not accepted.replayed
