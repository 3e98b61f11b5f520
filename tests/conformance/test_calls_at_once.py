"""Promises 7 and 8: one call at a time to a customer, and calls that a customer asks the agent for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.support.client import Client, assert_error
from tests.support.client_actions import (
    call,
    create_appointment,
    create_conversation,
    create_customer,
    event_about,
    events_about,
    retrieve_session,
    send,
    session_ended,
    session_when,
    sessions_of,
    simulated_phone,
    unique,
)
from tests.support.concurrency import run_at_once
from tests.support.runner import Service, local_runner, memory_folder, skip_unless_own_runner

# One call at a time. At the suite's speed a call is over before the next request, so these take their time.


@pytest.fixture(scope="module")
def slow_client(service: Service) -> Iterator[Client]:
    """Test mode of a service where a call is queued for one second and takes two more."""
    if service.speed in {None, 1}:
        yield service.client(service.projects[0].test_key)
        return
    skip_unless_own_runner()
    with memory_folder() as folder, local_runner(folder, speed=1) as started:
        yield started.client(started.projects[0].test_key)
        assert not started.promises.new, "\n".join(started.promises.new)


def has_status(status: str, session: Any) -> bool:
    return bool(session["call_status"] == status)


def test_a_customer_is_called_once_at_a_time(slow_client: Client) -> None:
    customer, key = create_customer(slow_client, phone=simulated_phone("00")), unique()
    first = call(slow_client, customer["id"]).ok(201)["session_id"]
    assert_error(slow_client.get(f"/v1/sessions/{first}/transcript"), 404, "resource_not_found")
    assert_error(slow_client.get(f"/v1/sessions/{first}/recording"), 404, "resource_not_found")
    for status in ("queued", "dialing"):
        session_when(slow_client, first, partial(has_status, status))
        for body in ({}, {"channel": "whatsapp"}):
            response = call(slow_client, customer["id"], body, idempotency_key=None if body else key)
            assert_error(response, 409, "call_in_progress")
            assert not response.replayed
    assert sessions_of(slow_client, customer["id"]) == [first]
    assert session_ended(slow_client, first)["call_status"] == "completed"
    # What was in the way is gone, also for the key that met it.
    second = call(slow_client, customer["id"], {}, idempotency_key=key)
    assert not second.replayed
    assert sessions_of(slow_client, customer["id"]) == [second.ok(201)["session_id"], first]


@pytest.mark.parametrize("channel", ["phone", "whatsapp"])
def test_of_sixteen_who_call_at_once_one_gets_through(slow_client: Client, channel: str) -> None:
    customer = create_customer(slow_client, phone=simulated_phone("00"))
    answers = run_at_once([lambda: call(slow_client, customer["id"], {"channel": channel})] * 16)
    (made,) = [answer for answer in answers if answer.status != 409]
    for answer in answers:
        if answer is not made:
            assert_error(answer, 409, {"call_in_progress", "conflict"})
    assert sessions_of(slow_client, customer["id"]) == [made.ok(201)["session_id"]]


def test_customers_with_one_phone_are_called_side_by_side(slow_client: Client) -> None:
    phone = simulated_phone("00")
    made = [call(slow_client, create_customer(slow_client, phone=phone)["id"]).ok(201) for _ in range(2)]
    sessions = [session_ended(slow_client, one["session_id"]) for one in made]
    assert [session["call_status"] for session in sessions] == ["completed", "completed"]


def test_deleting_a_customer_ends_a_queued_call_and_spares_a_dialled_one(slow_client: Client) -> None:
    queued, dialled = (create_customer(slow_client, phone=simulated_phone("00")) for _ in range(2))
    appointment = create_appointment(slow_client, queued["id"])
    placed = call(slow_client, queued["id"], {"appointment_id": appointment["id"]}).ok(201)
    gone = placed["session_id"]
    slow_client.delete(f"/v1/customers/{queued['id']}").ok()
    kept = call(slow_client, dialled["id"]).ok(201)["session_id"]
    session_when(slow_client, kept, partial(has_status, "dialing"))
    slow_client.delete(f"/v1/customers/{dialled['id']}").ok()

    failed = session_ended(slow_client, gone)
    assert (failed["call_status"], failed["ended_reason"]) == ("failed", "customer_deleted")
    assert failed["ended_at"] is not None
    event = event_about(slow_client, gone, "session.failed")
    changed = dict.fromkeys(("ended_at", "ended_reason", "outcome"))
    previous = {"call_status": "queued", "dial_at": placed["dial_at"], **changed}
    assert event["data"] == {"object": failed, "previous_attributes": previous}

    ended = session_ended(slow_client, kept)
    assert (ended["call_status"], ended["answered_by"]) == ("completed", "human")
    event_about(slow_client, kept, "session.completed")
    # By now the other call, which was to be dialled before this one, would have been.
    assert retrieve_session(slow_client, gone) == failed
    types = [event["type"] for event in events_about(slow_client, gone)]
    assert types == ["session.created", "session.failed"]
    now = slow_client.get(f"/v1/appointments/{appointment['id']}").ok()
    assert (now["status"], now["deleted_at"]) == ("pending", None)


# Calls that a customer asks the agent for.


def say(client: Client, conversation_id: str, content: str) -> Any:
    return send(client, conversation_id, content)["reply"]


@pytest.mark.parametrize("words", ["call me", "Please call me back.", "Can you give me a call?"])
def test_the_agent_calls_who_asks_for_it(client: Client, words: str) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    conversation = create_conversation(client, customer={"id": customer["id"]})
    (action,) = say(client, conversation["id"], words)["actions"]
    assert action["type"] == "call_requested"
    made = retrieve_session(client, action["session_id"])
    assert (made["customer_id"], made["to"], made["channel"]) == (customer["id"], customer["phone"], "phone")
    ended = session_ended(client, made["id"])
    assert (ended["call_status"], ended["answered_by"]) == ("completed", "human")
    for type_ in ("created", "dialing", "completed", "transcript_ready", "recording_ready"):
        event_about(client, made["id"], f"session.{type_}")
    assert sessions_of(client, customer["id"]) == [made["id"]]


@pytest.mark.parametrize("words", ["don't call me", "[[sim:handoff]]"])
def test_the_agent_calls_nobody_unasked(client: Client, words: str) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    conversation = create_conversation(client, customer={"id": customer["id"]})
    say(client, conversation["id"], words)
    if words == "[[sim:handoff]]":
        # From then on it changes nothing.
        say(client, conversation["id"], "call me")
    assert sessions_of(client, customer["id"]) == []


@pytest.mark.parametrize("known", [True, False], ids=["no phone", "no customer"])
def test_who_cannot_be_called_is_offered_a_person(client: Client, known: bool) -> None:
    fields = {"customer": {"email": f"{unique()}@example.com"}} if known else {}
    conversation = create_conversation(client, **fields)
    before = client.get("/v1/sessions", {"limit": 1}).ok()["data"]
    reply = say(client, conversation["id"], "call me")
    assert {action["type"] for action in reply["actions"]} <= {"handoff"}
    assert reply["actions"] or "person" in reply["content"].lower()
    assert client.get("/v1/sessions", {"limit": 1}).ok()["data"] == before


def test_a_repeated_wish_to_be_called_makes_no_second_call(slow_client: Client) -> None:
    customer = create_customer(slow_client, phone=simulated_phone("00"))
    conversation = create_conversation(slow_client, customer={"id": customer["id"]})
    (action,) = say(slow_client, conversation["id"], "call me")["actions"]
    again = say(slow_client, conversation["id"], "call me")
    assert again["content"]
    assert {one.get("session_id", action["session_id"]) for one in again["actions"]} <= {action["session_id"]}
    assert_error(call(slow_client, customer["id"]), 409, "call_in_progress")
    assert sessions_of(slow_client, customer["id"]) == [action["session_id"]]
