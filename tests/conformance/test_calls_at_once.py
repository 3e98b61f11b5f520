"""Promises 7 and 8: one call at a time to a customer, and calls that a customer asks the agent for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.support.client import Client, assert_error
from tests.support.given import (
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
from tests.support.racing import at_once
from tests.support.runner import Service, local_runner, needs_a_runner_of_its_own, quick_folder

# One call at a time. At the suite's speed a call is over before the next request, so these take their time.


@pytest.fixture(scope="module")
def unhurried(service: Service) -> Iterator[Client]:
    """Test mode of a service where a call is queued for one second and takes two more."""
    if service.speed in {None, 1}:
        yield service.client(service.projects[0].test_key)
        return
    needs_a_runner_of_its_own()
    with quick_folder() as folder, local_runner(folder, speed=1) as started:
        yield started.client(started.projects[0].test_key)
        assert not started.promises.new, "\n".join(started.promises.new)


def has_status(status: str, session: Any) -> bool:
    return bool(session["call_status"] == status)


def test_a_customer_is_called_once_at_a_time(unhurried: Client) -> None:
    customer, key = create_customer(unhurried, phone=simulated_phone("00")), unique()
    first = call(unhurried, customer["id"]).ok(201)["session_id"]
    assert_error(unhurried.get(f"/v1/sessions/{first}/transcript"), 404, "resource_not_found")
    assert_error(unhurried.get(f"/v1/sessions/{first}/recording"), 404, "resource_not_found")
    for status in ("queued", "dialing"):
        session_when(unhurried, first, partial(has_status, status))
        for body in ({}, {"channel": "whatsapp"}):
            response = call(unhurried, customer["id"], body, idempotency_key=None if body else key)
            assert_error(response, 409, "call_in_progress")
            assert not response.replayed
    assert sessions_of(unhurried, customer["id"]) == [first]
    assert session_ended(unhurried, first)["call_status"] == "completed"
    # What was in the way is gone, also for the key that met it.
    second = call(unhurried, customer["id"], {}, idempotency_key=key)
    assert not second.replayed
    assert sessions_of(unhurried, customer["id"]) == [second.ok(201)["session_id"], first]


@pytest.mark.parametrize("channel", ["phone", "whatsapp"])
def test_of_sixteen_who_call_at_once_one_gets_through(unhurried: Client, channel: str) -> None:
    customer = create_customer(unhurried, phone=simulated_phone("00"))
    answers = at_once([lambda: call(unhurried, customer["id"], {"channel": channel})] * 16)
    (made,) = [answer for answer in answers if answer.status != 409]
    for answer in answers:
        if answer is not made:
            assert_error(answer, 409, {"call_in_progress", "conflict"})
    assert sessions_of(unhurried, customer["id"]) == [made.ok(201)["session_id"]]


def test_customers_with_one_phone_are_called_side_by_side(unhurried: Client) -> None:
    phone = simulated_phone("00")
    made = [call(unhurried, create_customer(unhurried, phone=phone)["id"]).ok(201) for _ in range(2)]
    sessions = [session_ended(unhurried, one["session_id"]) for one in made]
    assert [session["call_status"] for session in sessions] == ["completed", "completed"]


def test_deleting_a_customer_ends_a_queued_call_and_spares_a_dialled_one(unhurried: Client) -> None:
    queued, dialled = (create_customer(unhurried, phone=simulated_phone("00")) for _ in range(2))
    appointment = create_appointment(unhurried, queued["id"])
    placed = call(unhurried, queued["id"], {"appointment_id": appointment["id"]}).ok(201)
    gone = placed["session_id"]
    unhurried.delete(f"/v1/customers/{queued['id']}").ok()
    kept = call(unhurried, dialled["id"]).ok(201)["session_id"]
    session_when(unhurried, kept, partial(has_status, "dialing"))
    unhurried.delete(f"/v1/customers/{dialled['id']}").ok()

    failed = session_ended(unhurried, gone)
    assert (failed["call_status"], failed["ended_reason"]) == ("failed", "customer_deleted")
    assert failed["ended_at"] is not None
    event = event_about(unhurried, gone, "session.failed")
    changed = dict.fromkeys(("ended_at", "ended_reason", "outcome"))
    previous = {"call_status": "queued", "dial_at": placed["dial_at"], **changed}
    assert event["data"] == {"object": failed, "previous_attributes": previous}

    ended = session_ended(unhurried, kept)
    assert (ended["call_status"], ended["answered_by"]) == ("completed", "human")
    event_about(unhurried, kept, "session.completed")
    # By now the other call, which was to be dialled before this one, would have been.
    assert retrieve_session(unhurried, gone) == failed
    types = [event["type"] for event in events_about(unhurried, gone)]
    assert types == ["session.created", "session.failed"]
    now = unhurried.get(f"/v1/appointments/{appointment['id']}").ok()
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


def test_a_repeated_wish_to_be_called_makes_no_second_call(unhurried: Client) -> None:
    customer = create_customer(unhurried, phone=simulated_phone("00"))
    conversation = create_conversation(unhurried, customer={"id": customer["id"]})
    (action,) = say(unhurried, conversation["id"], "call me")["actions"]
    again = say(unhurried, conversation["id"], "call me")
    assert again["content"]
    assert {one.get("session_id", action["session_id"]) for one in again["actions"]} <= {action["session_id"]}
    assert_error(call(unhurried, customer["id"]), 409, "call_in_progress")
    assert sessions_of(unhurried, customer["id"]) == [action["session_id"]]
