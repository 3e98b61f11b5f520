"""Promises 11: what came of a call."""

from __future__ import annotations

import pytest

from tests.support.client import Client, assert_error
from tests.support.given import (
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
    "13": "opted_out",
}


def called(client: Client, number: str, status: str = "pending") -> tuple[str, str]:
    """The customer, and the session that has ended, of a call about an appointment."""
    customer = create_customer(client, phone=simulated_phone(number))["id"]
    appointment = create_appointment(client, customer, status=status)["id"]
    made = call(client, customer, {"appointment_id": appointment}).ok(201)
    return customer, session_ended(client, made["session_id"])["id"]


@pytest.mark.parametrize(("number", "outcome"), OUTCOMES.items())
def test_each_test_number_has_its_outcome(client: Client, number: str, outcome: str) -> None:
    customer, session_id = called(client, number)
    session = retrieve_session(client, session_id)
    assert session["outcome"] == outcome
    event = event_about(client, session_id, f"session.{session['call_status']}")
    assert event["data"]["object"]["outcome"] == outcome
    client.post(f"/v1/customers/{customer}/opt_in", {}).ok()


def test_a_call_about_nothing_changes_nothing(client: Client) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))["id"]
    made = call(client, customer, {}).ok(201)
    assert session_ended(client, made["session_id"])["outcome"] == "no_change"


def test_a_confirmed_appointment_is_confirmed_again(client: Client) -> None:
    _, session_id = called(client, "00", "confirmed")
    assert retrieve_session(client, session_id)["outcome"] == "confirmed"


def test_a_person_who_decides_is_a_handoff(client: Client) -> None:
    before = client.get("/v1/agent_settings").ok()["change_policy"]
    client.patch("/v1/agent_settings", {"change_policy": "ask_staff"}).ok()
    try:
        _, session_id = called(client, "08")
    finally:
        client.patch("/v1/agent_settings", {"change_policy": before}).ok()
    session = retrieve_session(client, session_id)
    assert (session["call_status"], session["outcome"]) == ("completed", "handed_off")


def test_sessions_are_found_by_outcome_and_status(client: Client) -> None:
    customer, confirmed = called(client, "00")

    def again(number: str) -> str:
        client.patch(f"/v1/customers/{customer}", {"phone": simulated_phone(number)}).ok()
        return str(session_ended(client, call(client, customer, {}).ok(201)["session_id"])["id"])

    unchanged, unreached, invalid = again("00"), again("02"), again("01")

    def found(**filters: str) -> set[str]:
        page = client.get("/v1/sessions", {"customer_id": customer, **filters}).ok()
        return {session["id"] for session in page["data"]}

    assert found(outcome="confirmed") == {confirmed}
    assert found(outcome="unreached") == {unreached, invalid}
    assert found(call_status="completed") == {confirmed, unchanged}
    assert found(call_status="completed", outcome="no_change") == {unchanged}
    assert found(call_status="no_answer", outcome="unreached") == {unreached}
    assert found(call_status="completed", outcome="unreached") == set()
    for wrong in ("", "completed", "Confirmed"):
        assert_error(client.get("/v1/sessions", {"outcome": wrong}), 400, "parameter_invalid", "outcome")
