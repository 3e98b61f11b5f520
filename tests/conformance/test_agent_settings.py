"""Promises 11: the settings of the agent, and what it does with them in test mode."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.client import Client, assert_error, wait_for
from tests.support.client_actions import create_appointment, create_customer, event_about, unique

PATH = "/v1/agent_settings"
DEFAULTS: dict[str, Any] = {
    "business_name": None,
    "business_phone": None,
    "timezone": "UTC",
    "language": "en",
    "opening_hours": [],
    "facts": [],
    "change_policy": "auto",
    "minimum_notice_minutes": 0,
    "calling_hours": [],
}
WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday"]
OFFICE = [{"days": WEEKDAYS, "from": "09:00", "to": "17:00"}]


@pytest.fixture
def own(other: Client) -> Iterator[Client]:
    """A client whose settings have their defaults, and get them back."""
    yield other
    other.patch(PATH, dict.fromkeys(DEFAULTS)).ok()


def test_settings_are_always_there_with_their_defaults(own: Client) -> None:
    settings = own.get(PATH).ok()
    times = {"created_at": settings["created_at"], "updated_at": settings["updated_at"]}
    assert settings == DEFAULTS | times | {"object": "agent_settings", "livemode": False}
    assert times["updated_at"] >= times["created_at"]


def test_a_patch_changes_what_it_names_and_null_brings_defaults_back(own: Client) -> None:
    before = own.get(PATH).ok()
    wanted = {
        "business_name": "Blue Clinic",
        "business_phone": "+49 30 901820",
        "timezone": "Europe/Berlin",
        "language": "en",
        "opening_hours": OFFICE,
        "facts": [{"question": "Do you have parking?", "answer": "Yes."}],
        "change_policy": "within_hours",
        "minimum_notice_minutes": 43_200,
        "calling_hours": [{"days": ["saturday", "sunday"], "from": "00:00", "to": "24:00"}],
    }
    changed = own.patch(PATH, wanted).ok()
    assert changed == before | wanted | {"business_phone": "+4930901820", "updated_at": changed["updated_at"]}
    assert changed["updated_at"] > changed["created_at"] == before["created_at"]
    assert own.get(PATH).ok() == changed
    assert own.patch(PATH, wanted).ok() == changed, "nothing differs, so updated_at stays"
    one = own.patch(PATH, {"timezone": None}).ok()
    assert one == changed | {"timezone": "UTC", "updated_at": one["updated_at"]}
    cleared = own.patch(PATH, dict.fromkeys(DEFAULTS)).ok()
    assert cleared == before | {"updated_at": cleared["updated_at"]}


def test_each_mode_has_its_own_settings(client: Client, live: Client) -> None:
    before = client.get(PATH).ok()
    assert live.get(PATH).ok()["livemode"] is True
    name = unique()
    live.patch(PATH, {"business_name": name}).ok()
    assert live.get(PATH).ok()["business_name"] == name
    assert client.get(PATH).ok() == before
    live.patch(PATH, {"business_name": None}).ok()


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"business_name": "x" * 201}, "business_name", "parameter_invalid"),
        ({"business_phone": "030 901820"}, "business_phone", "phone_invalid_format"),
        ({"timezone": "Berlin"}, "timezone", "parameter_invalid"),
        ({"language": "de"}, "language", "parameter_invalid"),
        ({"change_policy": "never"}, "change_policy", "parameter_invalid"),
        ({"minimum_notice_minutes": -1}, "minimum_notice_minutes", "parameter_invalid"),
        ({"minimum_notice_minutes": 43_201}, "minimum_notice_minutes", "parameter_invalid"),
        ({"minimum_notice_minutes": "60"}, "minimum_notice_minutes", "parameter_invalid_integer"),
        ({"opening_hours": OFFICE * 22}, "opening_hours", "parameter_invalid"),
        (
            {"opening_hours": [*OFFICE, {"days": [], "from": "09:00", "to": "10:00"}]},
            "opening_hours[1][days]",
            "parameter_invalid_empty",
        ),
        (
            {"opening_hours": [{"days": ["funday"], "from": "09:00", "to": "10:00"}]},
            "opening_hours[0][days][0]",
            "parameter_invalid",
        ),
        (
            {"opening_hours": [{"days": ["monday"], "from": "9:00", "to": "10:00"}]},
            "opening_hours[0][from]",
            "parameter_invalid",
        ),
        (
            {"opening_hours": [{"days": ["monday"], "from": "24:00", "to": "24:00"}]},
            "opening_hours[0][from]",
            "parameter_invalid",
        ),
        (
            {"opening_hours": [{"days": ["monday"], "from": "09:00", "to": "24:01"}]},
            "opening_hours[0][to]",
            "parameter_invalid",
        ),
        (
            {"opening_hours": [*OFFICE, *OFFICE, {"days": ["monday"], "from": "09:00", "to": "09:00"}]},
            "opening_hours[2][to]",
            "parameter_invalid",
        ),
        (
            {"calling_hours": [{"days": ["monday"], "from": "10:00", "to": "09:00"}]},
            "calling_hours[0][to]",
            "parameter_invalid",
        ),
        ({"opening_hours": [{"days": ["monday"], "from": "09:00"}]}, "opening_hours[0][to]", "parameter_missing"),
        (
            {"opening_hours": [{"days": ["monday"], "form": "09:00", "to": "10:00"}]},
            "opening_hours[0][form]",
            "parameter_unknown",
        ),
        ({"facts": [{"question": "", "answer": "Yes"}]}, "facts[0][question]", "parameter_invalid_empty"),
        ({"facts": [{"question": "Why?", "answer": ""}]}, "facts[0][answer]", "parameter_invalid_empty"),
        ({"facts": [{"question": "Why?", "answer": "x" * 1001}]}, "facts[0][answer]", "parameter_invalid"),
        ({"facts": [{"question": "q" * 201, "answer": "x"}]}, "facts[0][question]", "parameter_invalid"),
        ({"facts": [{"question": "Why?", "answer": "So."}] * 51}, "facts", "parameter_invalid"),
        ({"facts": [{"question": "Why?", "answer": "x" * 1000}] * 17}, "facts", "parameter_invalid"),
        ({"livemode": True}, "livemode", "parameter_unknown"),
    ],
)
def test_a_wrong_value_is_named_exactly(client: Client, body: Any, param: str, code: str) -> None:
    before = client.get(PATH).ok()
    error = assert_error(client.patch(PATH, body), 400, code)
    assert error["param"] == param
    assert client.get(PATH).ok() == before


def test_a_patch_under_a_key_is_done_once(own: Client) -> None:
    key = unique()
    first = own.patch(PATH, {"business_name": "One"}, idempotency_key=key)
    own.patch(PATH, {"business_name": "Two"}).ok()
    again = own.patch(PATH, {"business_name": "One"}, idempotency_key=key)
    assert again.ok() == first.ok()
    assert again.headers["Idempotent-Replayed"] == "true"
    assert own.get(PATH).ok()["business_name"] == "Two"


@pytest.mark.parametrize("method", ["post", "delete"])
def test_nothing_creates_or_deletes_settings(client: Client, method: str) -> None:
    assert_error(getattr(client, method)(PATH), 405, "method_not_allowed")


# What the agent does with them.


def ask_agent(client: Client, text: str, thread: str, customer: Any = None) -> Any:
    body = {"external_conversation_id": thread, "content": text} | (
        {"customer": {"id": customer["id"]}} if customer else {}
    )
    return client.post("/v1/messages", body).ok(201)["reply"]


def test_a_question_is_answered_from_the_facts_and_nothing_else(own: Client) -> None:
    own.patch(PATH, {"facts": [{"question": "Do you have parking?", "answer": "Yes, behind the house."}]}).ok()
    thread = unique()
    assert "Yes, behind the house." in ask_agent(own, "Do you have parking?", thread)["content"]
    unknown = ask_agent(own, "What does a root canal cost?", thread)
    assert "I do not know that" in unknown["content"]
    assert unknown["actions"] == []
    accepted = ask_agent(own, "Yes please", thread)
    assert [action["type"] for action in accepted["actions"]] == ["handoff"]


def a_sunday_night() -> datetime:
    """Three in the morning of a Sunday in a month."""
    day = datetime.now(UTC).replace(hour=3, minute=0, second=0, microsecond=0) + timedelta(days=30)
    return day + timedelta(days=6 - day.weekday())


def test_an_appointment_is_not_moved_out_of_the_hours_but_to_the_next_time_that_is_possible(own: Client) -> None:
    own.patch(PATH, {"opening_hours": OFFICE, "change_policy": "within_hours"}).ok()
    night = a_sunday_night()
    customer = create_customer(own)
    appointment = create_appointment(own, customer["id"], appointment_at=(night - timedelta(days=5)).isoformat())
    thread = unique()
    reply = ask_agent(own, f"Move it to {night:%d %B %Y} at 03:00", thread, customer)
    monday = night + timedelta(days=1)
    assert f"Monday {monday.day} {monday:%B %Y} at 09:00" in reply["content"]
    assert own.get(f"/v1/appointments/{appointment['id']}").ok()["appointment_at"] == appointment["appointment_at"]
    moved = ask_agent(own, "yes", thread)
    assert [action["type"] for action in moved["actions"]] == ["appointment_rescheduled"]
    assert own.get(f"/v1/appointments/{appointment['id']}").ok()["appointment_at"] == f"{monday:%Y-%m-%d}T09:00:00.000Z"


def test_the_staff_is_asked_where_the_business_wants_that(own: Client) -> None:
    own.patch(PATH, {"change_policy": "ask_staff"}).ok()
    customer = create_customer(own)
    night = a_sunday_night()
    appointment = create_appointment(own, customer["id"], appointment_at=(night - timedelta(days=5)).isoformat())
    reply = ask_agent(own, f"Move it to {night:%d %B %Y} at 03:00", unique(), customer)
    assert reply["actions"] == [{"type": "handoff", "reason": "change_requested"}]
    assert own.get(f"/v1/appointments/{appointment['id']}").ok() == appointment


@pytest.mark.parametrize(("policy", "status"), [("within_hours", "rescheduled"), ("ask_staff", "pending")])
def test_a_call_obeys_the_settings_too(own: Client, policy: str, status: str) -> None:
    """The customer of test number 08 asks for another time, and takes what the agent offers."""
    own.patch(
        PATH, {"change_policy": policy, "opening_hours": [{"days": ["monday"], "from": "09:00", "to": "10:00"}]}
    ).ok()
    customer = create_customer(own, phone="+15005550008")
    appointment = create_appointment(own, customer["id"], duration_minutes=60)
    session = own.post(f"/v1/customers/{customer['id']}/call", {"appointment_id": appointment["id"]}).ok(201)[
        "session_id"
    ]
    wait_for(lambda: own.get(f"/v1/sessions/{session}").ok()["call_status"] == "completed")
    after = own.get(f"/v1/appointments/{appointment['id']}").ok()
    assert after["status"] == status
    if policy == "within_hours":
        at = datetime.fromisoformat(after["appointment_at"])
        assert (at.weekday(), at.hour, at.minute) == (0, 9, 0)


def test_settings_have_no_events(own: Client) -> None:
    own.patch(PATH, {"business_name": "Blue Clinic"}).ok()
    customer = create_customer(own)
    event_about(own, customer["id"], "customer.created")
    assert not [event for event in own.get("/v1/events").ok()["data"] if "agent" in event["type"]]
