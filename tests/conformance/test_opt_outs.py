"""Promises 11: customers who are not to be called, and people who do not want to be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.client import Client, assert_error
from tests.support.client_actions import (
    UNKNOWN,
    call,
    create_appointment,
    create_customer,
    event_about,
    events_about,
    retrieve_session,
    session_ended,
    session_when,
    simulated_phone,
)

WISH = "Please do not call me again."
FAR = "2031-01-01T10:00:00Z"


@pytest.fixture
def customers_to_opt_in(client: Client) -> Iterator[list[str]]:
    """The customers named in this list are opted in at the end: other tests may have the same phone."""
    ids: list[str] = []
    yield ids
    for id in ids:
        customer = client.get(f"/v1/customers/{id}")
        if customer.status == 200 and customer.json["deleted_at"] is None:
            client.post(f"/v1/customers/{id}/opt_in").ok()


def opt_out_by_message(client: Client, customer_id: str, content: str = WISH, conversation: str | None = None) -> Any:
    """The answer to a message of the customer."""
    path = conversation or client.post("/v1/conversations", {"customer": {"id": customer_id}}).ok(201)["id"]
    return client.post(f"/v1/conversations/{path}/messages", {"content": content}).ok(201)


def test_do_not_call_is_a_field_like_any_other(client: Client) -> None:
    assert create_customer(client)["do_not_call"] is False
    customer = create_customer(client, do_not_call=True)
    path = f"/v1/customers/{customer['id']}"
    assert customer["do_not_call"] is client.get(path).ok()["do_not_call"] is True
    changed = client.patch(path, {"do_not_call": None}).ok()
    assert changed["do_not_call"] is False
    event = event_about(client, customer["id"], "customer.updated")
    assert event["data"] == {"object": changed, "previous_attributes": {"do_not_call": True}}
    assert create_customer(client, do_not_call=None)["do_not_call"] is False
    wrongs: list[Any] = ["yes", 1, []]
    for wrong in wrongs:
        assert_error(client.patch(path, {"do_not_call": wrong}), 400, "parameter_invalid", "do_not_call")


def test_who_is_not_to_be_called_is_not_called(client: Client) -> None:
    customer = create_customer(client, do_not_call=True, phone=simulated_phone("00"))
    key = customer["id"]
    refused = call(client, customer["id"], {}, idempotency_key=key)
    assert_error(refused, 409, "customer_opted_out")
    client.patch(f"/v1/customers/{customer['id']}", {"do_not_call": False}).ok()
    again = call(client, customer["id"], {}, idempotency_key=key)
    assert again.json["error"]["code"] == "customer_opted_out"
    assert again.headers["idempotent-replayed"] == "true"
    assert call(client, customer["id"], {}).status == 201


def test_a_patch_ends_the_call_that_waits(client: Client) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    waiting = call(client, customer["id"], {"not_before": "2027-06-01T10:00:00Z"}).ok(201)["session_id"]
    changed = client.patch(f"/v1/customers/{customer['id']}", {"do_not_call": True, "name": "Ada"}).ok()
    assert (changed["do_not_call"], changed["name"]) == (True, "Ada")
    session = retrieve_session(client, waiting)
    assert (session["call_status"], session["ended_reason"]) == ("failed", "opted_out")
    event_about(client, waiting, "session.failed")
    # The customer is free for another call.
    client.patch(f"/v1/customers/{customer['id']}", {"do_not_call": False}).ok()
    assert call(client, customer["id"], {}).status == 201


def test_a_patch_ends_the_wait_for_consent(client: Client) -> None:
    customer = create_customer(client, phone=simulated_phone("22"))
    waiting = call(client, customer["id"], {}).ok(202)
    assert waiting["status"] == "consent_pending"
    client.patch(f"/v1/customers/{customer['id']}", {"do_not_call": True}).ok()
    session = retrieve_session(client, waiting["session_id"])
    assert (session["call_status"], session["ended_reason"]) == ("failed", "opted_out")


@pytest.mark.smoke
def test_a_wish_in_a_message_opts_the_phone_out(client: Client, customers_to_opt_in: list[str]) -> None:
    phone = simulated_phone("00")
    customer, namesake = create_customer(client, phone=phone), create_customer(client, phone=phone)
    customers_to_opt_in.append(customer["id"])
    waiting = [
        call(client, one["id"], {"not_before": "2027-06-01T10:00:00Z"}).ok(201)["session_id"]
        for one in (customer, namesake)
    ]
    answered = opt_out_by_message(client, customer["id"])
    assert answered["reply"]["actions"] == [{"type": "customer_opted_out", "customer_id": customer["id"]}]
    assert answered["reply"]["holding"] is False
    assert client.get(f"/v1/customers/{customer['id']}").ok()["do_not_call"] is True
    updated = event_about(client, customer["id"], "customer.updated")
    assert updated["data"]["previous_attributes"] == {"do_not_call": False}
    # The phone has opted out, whoever has it. Their own fields stay as they are.
    assert client.get(f"/v1/customers/{namesake['id']}").ok() == namesake
    for session_id in waiting:
        session = session_ended(client, session_id)
        assert (session["call_status"], session["ended_reason"]) == ("failed", "opted_out")
    newcomer = create_customer(client, phone=phone)
    for one in (customer, namesake, newcomer):
        assert_error(call(client, one["id"], {}), 409, "customer_opted_out")


def test_only_an_opt_in_lifts_the_wish(client: Client) -> None:
    phone = simulated_phone("00")
    customer = create_customer(client, phone=phone)
    path = f"/v1/customers/{customer['id']}"
    opt_out_by_message(client, customer["id"])
    # A client that writes its own copy back undoes nothing.
    client.patch(path, {"do_not_call": False}).ok()
    assert_error(call(client, customer["id"], {}), 409, "customer_opted_out")
    other = create_customer(client, phone=phone)
    client.delete(f"/v1/customers/{other['id']}").ok()
    assert_error(client.post(f"/v1/customers/{other['id']}/opt_in"), 409, "customer_deleted")
    assert_error(call(client, customer["id"], {}), 409, "customer_opted_out")
    first = client.post(f"{path}/opt_in").ok()
    assert first["do_not_call"] is False
    assert client.post(f"{path}/opt_in").ok() == first
    assert call(client, customer["id"], {}).status == 201
    assert_error(client.post(f"/v1/customers/cust_{UNKNOWN}/opt_in"), 404, "resource_not_found")


def test_an_opt_in_of_a_customer_who_is_marked_is_an_update(client: Client) -> None:
    customer = create_customer(client, do_not_call=True)
    opted = client.post(f"/v1/customers/{customer['id']}/opt_in", {}).ok()
    assert opted["do_not_call"] is False
    event_about(client, customer["id"], "customer.updated")


def test_an_unclear_wish_is_asked_about_once(client: Client, customers_to_opt_in: list[str]) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    customers_to_opt_in.append(customer["id"])
    conversation = client.post("/v1/conversations", {"customer": {"id": customer["id"]}}).ok(201)["id"]
    question = opt_out_by_message(client, customer["id"], "I am tired of your calls", conversation)["reply"]
    assert (question["actions"], question["content"].count("?")) == ([], 1)
    declined = opt_out_by_message(client, customer["id"], "no", conversation)["reply"]
    assert declined["actions"] == []
    assert client.get(f"/v1/customers/{customer['id']}").ok()["do_not_call"] is False
    opt_out_by_message(client, customer["id"], "I am tired of your calls", conversation)
    accepted = opt_out_by_message(client, customer["id"], "Yes, please.", conversation)["reply"]
    assert accepted["actions"] == [{"type": "customer_opted_out", "customer_id": customer["id"]}]


@pytest.mark.parametrize("text", ["I'll stop by at three", "Please don't call before noon"])
def test_other_words_opt_nobody_out(client: Client, text: str) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    assert opt_out_by_message(client, customer["id"], text)["reply"]["actions"] == []
    assert call(client, customer["id"], {}).status == 201


def test_while_somebody_waits_the_wish_holds(client: Client, customers_to_opt_in: list[str]) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    customers_to_opt_in.append(customer["id"])
    conversation = client.post("/v1/conversations", {"customer": {"id": customer["id"]}}).ok(201)["id"]
    before = opt_out_by_message(client, customer["id"], "[[sim:handoff]]", conversation)["conversation"]
    answered = opt_out_by_message(client, customer["id"], "STOP", conversation)
    assert answered["reply"]["holding"] is False
    assert [action["type"] for action in answered["reply"]["actions"]] == ["customer_opted_out"]
    assert answered["conversation"]["handoff"] == before["handoff"]
    assert opt_out_by_message(client, customer["id"], "Hello?", conversation)["reply"]["holding"] is True


def test_with_a_deleted_customer_the_phone_is_opted_out_and_a_person_asked(client: Client) -> None:
    phone = simulated_phone("00")
    customer, namesake = create_customer(client, phone=phone), create_customer(client, phone=phone)
    conversation = client.post("/v1/conversations", {"customer": {"id": customer["id"]}}).ok(201)["id"]
    deleted = client.delete(f"/v1/customers/{customer['id']}").ok()
    reply = opt_out_by_message(client, customer["id"], WISH, conversation)["reply"]
    assert reply["actions"] == [
        {"type": "customer_opted_out", "customer_id": customer["id"]},
        {"type": "handoff", "reason": "customer_deleted"},
    ]
    assert client.get(f"/v1/customers/{customer['id']}").ok() == deleted
    assert_error(call(client, namesake["id"], {}), 409, "customer_opted_out")
    client.post(f"/v1/customers/{namesake['id']}/opt_in").ok()
    assert call(client, namesake["id"], {}).status == 201


def test_in_a_conversation_without_a_customer_a_person_is_asked(client: Client) -> None:
    conversation = client.post("/v1/conversations", {}).ok(201)["id"]
    reply = opt_out_by_message(client, "", WISH, conversation)["reply"]
    assert reply["actions"] == [{"type": "handoff", "reason": "cannot_help"}]


def test_who_opts_out_in_a_call_is_not_called_again(client: Client, customers_to_opt_in: list[str]) -> None:
    customer = create_customer(client, phone=simulated_phone("13"))
    customers_to_opt_in.append(customer["id"])
    appointment = create_appointment(client, customer["id"])
    made = call(client, customer["id"], {"appointment_id": appointment["id"]}).ok(201)
    session = session_ended(client, made["session_id"])
    assert (session["call_status"], session["ended_reason"]) == ("completed", "agent_hangup")
    assert client.get(f"/v1/customers/{customer['id']}").ok()["do_not_call"] is True
    assert client.get(f"/v1/appointments/{appointment['id']}").ok()["status"] == "pending"
    event_about(client, customer["id"], "customer.updated")
    event_about(client, session["id"], "session.transcript_ready")
    lines = client.get(f"/v1/sessions/{session['id']}/transcript").ok()["data"]
    assert [line["role"] for line in lines] == ["agent", "customer", "agent"]
    assert_error(call(client, customer["id"], {}), 409, "customer_opted_out")


def test_a_call_that_is_under_way_ends(client: Client, customers_to_opt_in: list[str]) -> None:
    customer = create_customer(client, phone=simulated_phone("02"))
    customers_to_opt_in.append(customer["id"])
    made = call(client, customer["id"], {}).ok(201)
    session_when(client, made["session_id"], lambda one: one["call_status"] != "queued")
    opt_out_by_message(client, customer["id"])
    session = session_ended(client, made["session_id"])
    # It may have ended by itself in the same moment.
    assert (session["call_status"], session["ended_reason"]) in {("failed", "opted_out"), ("no_answer", "no_answer")}
    assert_error(call(client, customer["id"], {}), 409, "customer_opted_out")


def test_consent_ends_with_the_wish(client: Client, customers_to_opt_in: list[str]) -> None:
    phone = simulated_phone("22")
    customer = create_customer(client, phone=phone)
    customers_to_opt_in.append(customer["id"])
    waiting = call(client, customer["id"], {}).ok(202)
    assert waiting["status"] == "consent_pending"
    opt_out_by_message(client, customer["id"])
    session = session_ended(client, waiting["session_id"])
    assert (session["call_status"], session["ended_reason"]) == ("failed", "opted_out")
    client.post(f"/v1/customers/{customer['id']}/opt_in").ok()
    again = call(client, customer["id"], {}).ok(202)
    assert again["status"] == "consent_pending"


def test_a_number_whose_consent_is_on_file_has_it_again_after_an_opt_in(
    client: Client, customers_to_opt_in: list[str]
) -> None:
    customer = create_customer(client, phone=simulated_phone("23"))
    customers_to_opt_in.append(customer["id"])
    opt_out_by_message(client, customer["id"])
    assert_error(call(client, customer["id"], {}), 409, "customer_opted_out")
    client.post(f"/v1/customers/{customer['id']}/opt_in").ok()
    assert call(client, customer["id"], {}).ok(201)["status"] == "queued"


def test_a_wish_of_one_project_is_none_of_another(
    client: Client, other: Client, customers_to_opt_in: list[str]
) -> None:
    phone = simulated_phone("00")
    mine, theirs = create_customer(client, phone=phone), create_customer(other, phone=phone)
    customers_to_opt_in.append(mine["id"])
    opt_out_by_message(client, mine["id"])
    assert call(other, theirs["id"], {}).status == 201
    event_about(other, theirs["id"], "customer.created")
    assert events_about(other, theirs["id"])[0]["type"] == "customer.created"
