"""Promises 11: what came of a call."""

from __future__ import annotations

import pytest

from tests.support.client import Client, assert_error, wait_for
from tests.support.client_actions import (
    call,
    create_appointment,
    create_customer,
    event_about,
    retrieve_session,
    session_ended,
    simulated_phone,
)

OUTCOMES = {
    "00": "confirmed",
    "01": "unreached",
    "02": "unreached",
    "04": "not_placed",
    "05": "callback",
    "06": "confirmed",
    "07": "unreached",
    "08": "rescheduled",
    "09": "cancelled",
    "10": "no_change",
    "11": "not_placed",
    "12": "wrong_person",
    "13": "opted_out",
}


def call_about_appointment(client: Client, number: str, status: str = "pending") -> tuple[str, str]:
    """The customer, and the session that has ended, of a call about an appointment."""
    customer = create_customer(client, phone=simulated_phone(number))["id"]
    appointment = create_appointment(client, customer, status=status)["id"]
    made = call(client, customer, {"appointment_id": appointment}).ok(201)
    return customer, session_ended(client, made["session_id"])["id"]


@pytest.mark.parametrize(("number", "outcome"), OUTCOMES.items())
def test_each_test_number_has_its_outcome(client: Client, number: str, outcome: str) -> None:
    customer, session_id = call_about_appointment(client, number)
    session = retrieve_session(client, session_id)
    assert session["outcome"] == outcome
    event = event_about(client, session_id, f"session.{session['call_status']}")
    assert event["data"]["object"]["outcome"] == outcome
    client.post(f"/v1/customers/{customer}/opt_in", {}).ok()


def lines_of(client: Client, session_id: str, role: str) -> list[str]:
    """What one side said in a call, from its transcript."""
    wait_for(lambda: retrieve_session(client, session_id)["transcript_status"] == "available", 20)
    lines = client.get(f"/v1/sessions/{session_id}/transcript").ok()["data"]
    return [line["content"] for line in lines if line["role"] == role]


def test_a_wrong_person_hears_nothing_of_the_appointment_which_stays(client: Client) -> None:
    customer = create_customer(client, phone=simulated_phone("12"), name="Ada Lovelace")["id"]
    told = {"title": "Root canal", "location": "Room 7", "appointment_at": "2032-05-06T07:00:00Z"}
    appointment = create_appointment(client, customer, **told)
    made = call(client, customer, {"appointment_id": appointment["id"]}).ok(201)
    session = session_ended(client, made["session_id"])
    assert (session["call_status"], session["outcome"]) == ("completed", "wrong_person")
    first, last = lines_of(client, session["id"], "agent")
    assert first.endswith("This call is recorded. Am I speaking with Ada Lovelace?")
    assert "Goodbye" in last
    assert not any(word in first + last for word in ("Root canal", "Room 7", "2032", "07:00", "May"))
    after = client.get(f"/v1/appointments/{appointment['id']}").ok()
    assert (after["status"], after["appointment_at"]) == (appointment["status"], appointment["appointment_at"])


def test_the_appointment_is_named_after_a_yes_and_the_phone_before_the_goodbye(client: Client) -> None:
    customer = create_customer(client, phone=simulated_phone("06"), name="Ada Lovelace")["id"]
    appointment = create_appointment(client, customer, title="Root canal", appointment_at="2032-05-06T07:00:00Z")["id"]
    client.patch("/v1/agent_settings", {"business_name": "Blue Clinic", "business_phone": "+4930123456"}).ok()
    try:
        made = call(client, customer, {"appointment_id": appointment}).ok(201)
        session = session_ended(client, made["session_id"])
    finally:
        client.patch("/v1/agent_settings", {"business_name": None, "business_phone": None}).ok()
    first, second, *_, last = lines_of(client, session["id"], "agent")
    assert first == (
        "Hello, this is the automated AI assistant of Blue Clinic. This call is recorded. "
        "Am I speaking with Ada Lovelace?"
    )
    assert lines_of(client, session["id"], "customer")[0] == "Yes, speaking."
    assert "Root canal on Thursday 6 May 2032" in second
    assert "You can reach us at +4930123456. Goodbye" in last


def test_a_customer_without_a_name_is_told_the_time_at_once_but_neither_title_nor_location(client: Client) -> None:
    for number, outcome in (("00", "confirmed"), ("12", "wrong_person")):
        customer = create_customer(client, phone=simulated_phone(number), name=None)["id"]
        told = {"title": "Root canal", "location": "Room 7", "appointment_at": "2032-05-06T07:00:00Z"}
        appointment = create_appointment(client, customer, **told)["id"]
        made = call(client, customer, {"appointment_id": appointment}).ok(201)
        session = session_ended(client, made["session_id"])
        assert session["outcome"] == outcome
        said = lines_of(client, session["id"], "agent")
        assert "I am calling about your appointment on Thursday 6 May 2032" in said[0]
        told_title = [text for text in said if "Root canal" in text or "Room 7" in text]
        assert said[0] not in told_title
        assert bool(told_title) == (number == "00")


def test_a_call_about_nothing_changes_nothing(client: Client) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))["id"]
    made = call(client, customer, {}).ok(201)
    assert session_ended(client, made["session_id"])["outcome"] == "no_change"


def test_a_confirmed_appointment_is_confirmed_again(client: Client) -> None:
    _, session_id = call_about_appointment(client, "00", "confirmed")
    assert retrieve_session(client, session_id)["outcome"] == "confirmed"


def test_a_person_who_decides_is_a_handoff(client: Client) -> None:
    before = client.get("/v1/agent_settings").ok()["change_policy"]
    client.patch("/v1/agent_settings", {"change_policy": "ask_staff"}).ok()
    try:
        _, session_id = call_about_appointment(client, "08")
    finally:
        client.patch("/v1/agent_settings", {"change_policy": before}).ok()
    session = retrieve_session(client, session_id)
    assert (session["call_status"], session["outcome"]) == ("completed", "handed_off")
    assert session["summary"] == "The customer is to be called back by a person."


def test_sessions_are_found_by_outcome_and_status(client: Client) -> None:
    customer, confirmed = call_about_appointment(client, "00")

    def call_again(number: str) -> str:
        client.patch(f"/v1/customers/{customer}", {"phone": simulated_phone(number)}).ok()
        return str(session_ended(client, call(client, customer, {}).ok(201)["session_id"])["id"])

    unchanged, unreached, invalid = call_again("00"), call_again("02"), call_again("01")

    def find_sessions(**filters: str) -> set[str]:
        page = client.get("/v1/sessions", {"customer_id": customer, **filters}).ok()
        return {session["id"] for session in page["data"]}

    assert find_sessions(outcome="confirmed") == {confirmed}
    assert find_sessions(outcome="unreached") == {unreached, invalid}
    assert find_sessions(call_status="completed") == {confirmed, unchanged}
    assert find_sessions(call_status="completed", outcome="no_change") == {unchanged}
    assert find_sessions(call_status="no_answer", outcome="unreached") == {unreached}
    assert find_sessions(call_status="completed", outcome="unreached") == set()
    for wrong in ("", "completed", "Confirmed"):
        assert_error(client.get("/v1/sessions", {"outcome": wrong}), 400, "parameter_invalid", "outcome")
