"""Promises 6: fields, times, transitions and what each change emits."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.client import Client, Response, assert_error
from tests.support.client_actions import (
    UNKNOWN,
    create_appointment,
    create_customer,
    event_about,
    events_about,
    settle,
    unique,
)

EARLIER, LATER = "2030-05-06T07:08:09.000Z", "2031-01-02T03:04:05.000Z"


@pytest.mark.smoke
def test_an_appointment_is_created_with_all_its_fields(client: Client) -> None:
    body = {
        "customer_id": create_customer(client)["id"],
        "appointment_at": "2030-05-06T07:08:09.123Z",
        "status": "confirmed",
        "timezone": "Europe/Berlin",
        "duration_minutes": 45,
        "title": "Check-up",
        "location": "Room 5",
        "notes": "Bring papers",
        "external_id": unique(),
        "metadata": {"a": 1},
    }
    appointment = client.post("/v1/appointments", body).ok(201)
    assert appointment | body == appointment
    assert appointment["livemode"] is False
    for name in ("session_id", "cancellation_reason", "failure_reason", "deleted_at"):
        assert appointment[name] is None
    assert client.get(f"/v1/appointments/{appointment['id']}").ok() == appointment


def test_customer_and_time_suffice_and_the_status_is_pending(client: Client) -> None:
    customer_id = create_customer(client)["id"]
    body = {"customer_id": customer_id, "appointment_at": EARLIER}
    appointment = client.post("/v1/appointments", body).ok(201)
    set_fields = {"id", "object", "livemode", "created_at", "updated_at", "metadata", "status", *body}
    assert appointment["status"] == "pending"
    assert appointment["metadata"] == {}
    assert {name for name, value in appointment.items() if value is not None} == set_fields


@pytest.mark.parametrize("status", ["rescheduled", "cancelled", "failed", "canceled", "Pending"])
def test_an_appointment_starts_as_pending_or_confirmed_only(client: Client, status: str) -> None:
    body = {"customer_id": create_customer(client)["id"], "appointment_at": EARLIER, "status": status}
    assert_error(client.post("/v1/appointments", body), 400, "parameter_invalid", param="status")


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("2030-05-06T07:08:09Z", "2030-05-06T07:08:09.000Z"),
        ("2030-05-06T07:08:09.5Z", "2030-05-06T07:08:09.500Z"),
        ("2030-05-06T07:08:09.123Z", "2030-05-06T07:08:09.123Z"),
        ("2030-05-06T07:08:09+00:00", "2030-05-06T07:08:09.000Z"),
        ("2030-05-06T07:08:09+02:00", "2030-05-06T05:08:09.000Z"),
        ("2030-05-06T07:08:09-05:30", "2030-05-06T12:38:09.000Z"),
        ("2030-12-31T23:00:00-02:00", "2031-01-01T01:00:00.000Z"),
        ("2028-02-29T12:00:00Z", "2028-02-29T12:00:00.000Z"),
        ("1999-12-31T00:00:00Z", "1999-12-31T00:00:00.000Z"),
    ],
)
def test_a_time_is_normalised_to_utc(client: Client, sent: str, kept: str) -> None:
    appointment = create_appointment(client, appointment_at=sent)
    assert appointment["appointment_at"] == kept
    assert client.get(f"/v1/appointments/{appointment['id']}").ok()["appointment_at"] == kept


@pytest.mark.parametrize(
    "value",
    [
        "",
        "nonsense",
        "tomorrow",
        "2030-05-06",
        "2030-05-06T07:08:09",
        "2030-05-06T07:08:09.123",
        "06/05/2030 07:08",
        "2030-13-01T00:00:00Z",
        "2030-02-30T00:00:00Z",
        "2029-02-29T00:00:00Z",
        "2030-05-06T24:30:00Z",
        "2030-05-06T07:61:00Z",
        "2030-05-06T07:08:09+99:00",
        "2030-05-06T07:08:09 Europe/Berlin",
        "9999-12-31T23:59:59-10:00",
        "0001-01-01T00:00:00+10:00",
        "1893456000",
        "\uff12\uff10\uff13\uff10-05-06T07:08:09Z",
    ],
)
def test_anything_that_is_no_time_with_an_offset_is_refused(client: Client, value: str) -> None:
    appointment = create_appointment(client)
    body = {"customer_id": appointment["customer_id"], "appointment_at": value}
    assert_error(client.post("/v1/appointments", body), 400, "datetime_invalid", param="appointment_at")
    path = f"/v1/appointments/{appointment['id']}"
    assert_error(client.patch(path, {"appointment_at": value}), 400, "datetime_invalid", param="appointment_at")


@pytest.mark.parametrize("value", [1893456000, 1893456000.5, True, ["2030-05-06T07:08:09Z"]])
def test_a_time_that_is_no_string_is_refused(client: Client, value: object) -> None:
    body = {"customer_id": create_customer(client)["id"], "appointment_at": value}
    response = client.post("/v1/appointments", body)
    assert_error(response, 400, {"datetime_invalid", "parameter_invalid"}, param="appointment_at")


@pytest.mark.parametrize("timezone", ["Europe/Berlin", "America/Argentina/Buenos_Aires", "UTC", "Asia/Kolkata"])
def test_an_iana_timezone_is_kept(client: Client, timezone: str) -> None:
    assert create_appointment(client, timezone=timezone)["timezone"] == timezone


@pytest.mark.parametrize("timezone", ["Mars/Olympus", "+02:00", "", "../UTC", "/etc/localtime", "Europe/Berlin\n"])
def test_another_timezone_is_refused(client: Client, timezone: str) -> None:
    body = {"customer_id": create_customer(client)["id"], "appointment_at": EARLIER, "timezone": timezone}
    assert_error(
        client.post("/v1/appointments", body),
        400,
        {"parameter_invalid", "parameter_invalid_empty"},
        param="timezone",
    )


@pytest.mark.parametrize("minutes", [1, 1440])
def test_the_shortest_and_longest_duration_are_kept(client: Client, minutes: int) -> None:
    assert create_appointment(client, duration_minutes=minutes)["duration_minutes"] == minutes


@pytest.mark.parametrize("minutes", [0, -1, 1441, 10**30, 1.5, "60", True])
def test_another_duration_is_refused(client: Client, minutes: object) -> None:
    body = {
        "customer_id": create_customer(client)["id"],
        "appointment_at": EARLIER,
        "duration_minutes": minutes,
    }
    codes = {"parameter_invalid", "parameter_invalid_integer"}
    assert_error(client.post("/v1/appointments", body), 400, codes, param="duration_minutes")


@pytest.mark.parametrize("name", ["timezone", "duration_minutes", "title", "location", "notes", "external_id"])
def test_null_clears_an_optional_field(client: Client, name: str) -> None:
    fields: dict[str, Any] = {
        "timezone": "UTC",
        "duration_minutes": 5,
        "title": "t",
        "location": "l",
        "notes": "n",
        "external_id": "e",
    }
    before = create_appointment(client, **fields)
    after = client.patch(f"/v1/appointments/{before['id']}", {name: None}).ok()
    assert after == before | {name: None, "updated_at": after["updated_at"]}
    assert after["updated_at"] > before["updated_at"]


@dataclass(frozen=True)
class Change:
    """One PATCH on an appointment: what there was, what was asked, what came, and the events in the log."""

    before: Any
    body: dict[str, object]
    response: Response
    events: list[Any]


STATUSES = ("pending", "confirmed", "rescheduled", "cancelled", "failed")
ALLOWED = {
    "pending": {"confirmed", "rescheduled", "cancelled", "failed"},
    "confirmed": {"rescheduled", "cancelled", "failed"},
    "rescheduled": {"confirmed", "rescheduled", "cancelled", "failed"},
    "failed": {"confirmed", "rescheduled", "cancelled"},
    "cancelled": set(),
}
NO_OPS = {
    ("pending", "pending"),
    ("confirmed", "confirmed"),
    ("failed", "failed"),
    ("cancelled", "cancelled"),
}


def in_status(client: Client, customer_id: str, status: str) -> Any:
    made = create_appointment(client, customer_id, appointment_at=EARLIER)
    if status == "pending":
        return made
    body = {"appointment_at": "2030-09-09T09:09:09Z"} if status == "rescheduled" else {"status": status}
    return client.patch(f"/v1/appointments/{made['id']}", body).ok()


@pytest.fixture(scope="module")
def changes(client: Client) -> dict[tuple[str, str], Change]:
    """Every cell of the transition table, tried once on an appointment of its own."""
    customer_id = create_customer(client)["id"]
    tried = {}
    for old, new in itertools.product(STATUSES, STATUSES):
        before = in_status(client, customer_id, old)
        body: dict[str, object] = {"appointment_at": LATER} if new == "rescheduled" else {"status": new}
        tried[old, new] = before, body, client.patch(f"/v1/appointments/{before['id']}", body)
    settle(client, "appointment")
    return {
        cell: Change(before, body, response, events_about(client, before["id"]))
        for cell, (before, body, response) in tried.items()
    }


def events_before(change: Change) -> int:
    return 1 if change.before["status"] == "pending" else 2


ALLOWED_CELLS = [(old, new) for old in STATUSES for new in STATUSES if new in ALLOWED[old]]
REFUSED_CELLS = [
    (old, new) for old in STATUSES for new in STATUSES if new not in ALLOWED[old] and (old, new) not in NO_OPS
]


@pytest.mark.parametrize(("old", "new"), ALLOWED_CELLS)
def test_an_allowed_transition_happens(changes: dict[tuple[str, str], Change], old: str, new: str) -> None:
    change = changes[old, new]
    after = change.response.ok()
    assert after["status"] == new
    changed = {"status": new, "updated_at": after["updated_at"]}
    if new == "rescheduled":
        changed["appointment_at"] = LATER
    assert after == change.before | changed
    assert after["updated_at"] > change.before["updated_at"]


@pytest.mark.parametrize(("old", "new"), ALLOWED_CELLS)
def test_an_allowed_transition_emits_exactly_one_event(
    changes: dict[tuple[str, str], Change], old: str, new: str
) -> None:
    change = changes[old, new]
    assert len(change.events) == events_before(change) + 1
    event = change.events[-1]
    assert event["type"] == f"appointment.{new}"
    previous: dict[str, object] = {} if old == new else {"status": old}
    if new == "rescheduled":
        previous["appointment_at"] = change.before["appointment_at"]
    assert event["data"] == {"object": change.response.ok(), "previous_attributes": previous}


@pytest.mark.parametrize(("old", "new"), sorted(NO_OPS))
def test_a_transition_to_the_same_status_changes_nothing(
    changes: dict[tuple[str, str], Change], old: str, new: str
) -> None:
    change = changes[old, new]
    assert change.response.ok() == change.before
    assert len(change.events) == events_before(change)


@pytest.mark.parametrize(("old", "new"), REFUSED_CELLS)
def test_a_forbidden_transition_is_refused_and_leaves_no_trace(
    client: Client, changes: dict[tuple[str, str], Change], old: str, new: str
) -> None:
    change = changes[old, new]
    error = assert_error(change.response, 409, "invalid_status_transition")
    assert error["type"] == "conflict_error"
    assert client.get(f"/v1/appointments/{change.before['id']}").ok() == change.before
    assert len(change.events) == events_before(change)


def test_creating_emits_one_event_without_previous_attributes(client: Client) -> None:
    pending, confirmed = create_appointment(client), create_appointment(client, status="confirmed")
    settle(client, "appointment")
    for made in (pending, confirmed):
        (event,) = events_about(client, made["id"])
        assert event["type"] == "appointment.created"
        assert event["data"] == {"object": made}


def test_an_unknown_status_is_refused(client: Client) -> None:
    path = f"/v1/appointments/{create_appointment(client)['id']}"
    for status in ("done", "canceled", "Confirmed", 1):
        assert_error(client.patch(path, {"status": status}), 400, "parameter_invalid", param="status")
    assert_error(client.patch(path, {"status": None}), 400, "parameter_invalid_empty", param="status")


def test_rescheduled_needs_a_new_time(client: Client) -> None:
    for status in ("pending", "confirmed"):
        made = create_appointment(client, status=status)
        path = f"/v1/appointments/{made['id']}"
        assert client.patch(path, {"status": "rescheduled"}).status == 400
        assert client.get(path).ok() == made


@pytest.mark.smoke
def test_rescheduled_may_be_said_beside_the_new_time(client: Client) -> None:
    made = create_appointment(client)
    body = {"status": "rescheduled", "appointment_at": LATER}
    after = client.patch(f"/v1/appointments/{made['id']}", body).ok()
    assert (after["status"], after["appointment_at"]) == ("rescheduled", LATER)


@pytest.mark.parametrize("old", ["pending", "confirmed", "rescheduled", "failed"])
def test_a_new_time_may_be_confirmed_at_once(client: Client, old: str) -> None:
    before = in_status(client, create_customer(client)["id"], old)
    body = {"status": "confirmed", "appointment_at": LATER}
    after = client.patch(f"/v1/appointments/{before['id']}", body).ok()
    assert (after["status"], after["appointment_at"]) == ("confirmed", LATER)
    settle(client, "appointment")
    events = events_about(client, before["id"])
    assert len(events) == (2 if old == "pending" else 3)
    assert events[-1]["type"] == "appointment.rescheduled"
    previous = {"appointment_at": before["appointment_at"]} | ({} if old == "confirmed" else {"status": old})
    assert events[-1]["data"] == {"object": after, "previous_attributes": previous}


@pytest.mark.parametrize("status", ["cancelled", "failed"])
def test_a_new_time_excludes_the_end_of_the_appointment(client: Client, status: str) -> None:
    made = create_appointment(client)
    path = f"/v1/appointments/{made['id']}"
    response = client.patch(path, {"status": status, "appointment_at": LATER})
    assert_error(response, 400, "parameters_exclusive")
    assert client.get(path).ok() == made


def test_the_same_instant_in_another_offset_is_no_new_time(client: Client) -> None:
    made = create_appointment(client, appointment_at="2030-05-06T07:00:00Z")
    path = f"/v1/appointments/{made['id']}"
    assert client.patch(path, {"appointment_at": "2030-05-06T09:00:00+02:00"}).ok() == made
    settle(client, "appointment")
    assert len(events_about(client, made["id"])) == 1


@pytest.mark.parametrize(("status", "reason"), [("cancelled", "cancellation_reason"), ("failed", "failure_reason")])
def test_a_reason_goes_with_its_status(client: Client, status: str, reason: str) -> None:
    made = create_appointment(client)
    after = client.patch(f"/v1/appointments/{made['id']}", {"status": status, reason: "Ill"}).ok()
    assert (after["status"], after[reason]) == (status, "Ill")
    event = event_about(client, made["id"], f"appointment.{status}")
    assert event["data"]["previous_attributes"] == {"status": "pending", reason: None}


@pytest.mark.parametrize(
    "body",
    [
        {"cancellation_reason": "Ill"},
        {"failure_reason": "Ill"},
        {"status": "failed", "cancellation_reason": "Ill"},
        {"status": "cancelled", "failure_reason": "Ill"},
        {"status": "confirmed", "cancellation_reason": "Ill"},
        {"appointment_at": LATER, "failure_reason": "Ill"},
    ],
)
def test_a_reason_without_its_status_is_refused(client: Client, body: dict[str, object]) -> None:
    made = create_appointment(client)
    path = f"/v1/appointments/{made['id']}"
    response = client.patch(path, body)
    assert response.status == 400, response
    assert response.error["type"] == "invalid_request_error"
    assert client.get(path).ok() == made


def test_a_change_of_other_fields_is_an_update(client: Client) -> None:
    made = create_appointment(client)
    body = {"title": "New", "notes": "n", "duration_minutes": 10, "metadata": {"a": 1}}
    after = client.patch(f"/v1/appointments/{made['id']}", body).ok()
    assert after == made | body | {"updated_at": after["updated_at"]}
    assert after["updated_at"] > made["updated_at"]
    settle(client, "appointment")
    created, updated = events_about(client, made["id"])
    assert (created["type"], updated["type"]) == ("appointment.created", "appointment.updated")
    assert updated["data"] == {"object": after, "previous_attributes": {name: made[name] for name in body}}
    assert updated["api_version"] == "2026-12-01"


def test_a_new_call_is_no_update_of_its_appointment(client: Client) -> None:
    made = create_appointment(client)
    placed = client.post(f"/v1/customers/{made['customer_id']}/call", {"appointment_id": made["id"]}).ok(201)
    settle(client, "appointment")
    types = [event["type"] for event in events_about(client, made["id"])]
    assert types[:1] == ["appointment.created"]
    assert "appointment.updated" not in types
    assert client.get(f"/v1/appointments/{made['id']}").ok()["session_id"] == placed["session_id"]


@pytest.mark.smoke
def test_previous_attributes_hold_every_changed_field(client: Client) -> None:
    made = create_appointment(client, title="Old", metadata={"a": 1, "b": 2})
    body = {"status": "confirmed", "title": "New", "location": "L", "metadata": {"b": None, "c": 3}}
    after = client.patch(f"/v1/appointments/{made['id']}", body).ok()
    event = event_about(client, made["id"], "appointment.confirmed")
    assert event["data"] == {
        "object": after,
        "previous_attributes": {
            "status": "pending",
            "title": "Old",
            "location": None,
            "metadata": {"a": 1, "b": 2},
        },
    }


def test_a_patch_that_changes_nothing_leaves_no_trace(client: Client) -> None:
    made = create_appointment(client, title="t", metadata={"a": 1})
    path = f"/v1/appointments/{made['id']}"
    for body in (
        {},
        {"title": "t"},
        {"appointment_at": made["appointment_at"]},
        {"metadata": {"a": 1}},
        {"notes": None},
    ):
        assert client.patch(path, body).ok() == made
    settle(client, "appointment")
    assert len(events_about(client, made["id"])) == 1


def test_a_cancelled_appointment_still_takes_its_other_fields(client: Client) -> None:
    path = f"/v1/appointments/{create_appointment(client)['id']}"
    cancelled = client.patch(path, {"status": "cancelled"}).ok()
    after = client.patch(path, {"notes": "n", "metadata": {"a": 1}}).ok()
    changed = {"notes": "n", "metadata": {"a": 1}, "updated_at": after["updated_at"]}
    assert after == cancelled | changed


@pytest.mark.smoke
def test_deleting_cancels_first_and_is_repeatable(client: Client) -> None:
    made = create_appointment(client)
    path = f"/v1/appointments/{made['id']}"
    first = client.delete(path)
    deleted = first.ok()
    assert deleted["status"] == "cancelled"
    assert deleted["deleted_at"] is not None
    assert client.delete(path).body == first.body
    assert client.get(path).ok() == deleted
    settle(client, "appointment")
    events = events_about(client, made["id"])
    assert [event["type"] for event in events] == ["appointment.created", "appointment.cancelled"]
    assert events[-1]["data"]["object"]["status"] == "cancelled"
    assert events[-1]["data"]["previous_attributes"]["status"] == "pending"


def test_deleting_a_failed_appointment_removes_the_reason_of_the_failure(client: Client) -> None:
    path = f"/v1/appointments/{create_appointment(client)['id']}"
    failed = client.patch(path, {"status": "failed", "failure_reason": "Closed"}).ok()
    deleted = client.delete(path).ok()
    changed = {"deleted_at": deleted["deleted_at"], "updated_at": deleted["updated_at"]}
    assert deleted == failed | {"status": "cancelled", "failure_reason": None} | changed


def test_deleting_a_cancelled_appointment_is_an_update(client: Client) -> None:
    made = create_appointment(client)
    path = f"/v1/appointments/{made['id']}"
    cancelled = client.patch(path, {"status": "cancelled", "cancellation_reason": "Ill"}).ok()
    deleted = client.delete(path).ok()
    changed = {"deleted_at": deleted["deleted_at"], "updated_at": deleted["updated_at"]}
    assert deleted == cancelled | changed
    settle(client, "appointment")
    assert [event["type"] for event in events_about(client, made["id"])] == [
        "appointment.created",
        "appointment.cancelled",
        "appointment.updated",
    ]


def test_a_deleted_appointment_takes_no_change_and_is_hidden(client: Client) -> None:
    made = create_appointment(client)
    path = f"/v1/appointments/{made['id']}"
    assert client.get("/v1/appointments").ok()["data"][0]["id"] == made["id"]
    client.delete(path).ok()
    assert_error(client.patch(path, {"notes": "n"}), 409, "appointment_deleted")
    assert_error(client.patch(path, {"status": "confirmed"}), 409, "appointment_deleted")
    assert made["id"] not in [item["id"] for item in client.get("/v1/appointments").ok()["data"]]


def test_an_unknown_appointment_can_be_neither_changed_nor_deleted(client: Client) -> None:
    path = f"/v1/appointments/appt_{UNKNOWN}"
    assert_error(client.patch(path, {"notes": "n"}), 404, "resource_not_found")
    assert_error(client.delete(path), 404, "resource_not_found")


def test_of_racing_writers_none_loses_its_update(client: Client) -> None:
    made = create_appointment(client)
    path = f"/v1/appointments/{made['id']}"
    start = threading.Barrier(6)

    def write(number: int) -> Response:
        start.wait()
        while True:
            response = client.patch(path, {"metadata": {f"k{number}": number}})
            if response.status != 409 or response.error["code"] != "conflict":
                return response

    with ThreadPoolExecutor(6) as pool:
        for response in pool.map(write, range(6)):
            response.ok()
    assert client.get(path).ok()["metadata"] == {f"k{number}": number for number in range(6)}


def test_of_racing_transitions_each_emits_one_event_from_the_state_it_found(client: Client) -> None:
    made = create_appointment(client)
    path = f"/v1/appointments/{made['id']}"
    start = threading.Barrier(4)

    def write(status: str) -> int:
        start.wait()
        while True:
            response = client.patch(path, {"status": status})
            if response.status != 409 or response.error["code"] != "conflict":
                return response.status

    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(write, ["confirmed", "confirmed", "cancelled", "cancelled"]))
    assert set(statuses) <= {200, 409}
    assert statuses[2:] == [200, 200]
    assert client.get(path).ok()["status"] == "cancelled"
    settle(client, "appointment")
    events = events_about(client, made["id"])
    types = [event["type"] for event in events]
    assert types in (
        ["appointment.created", "appointment.cancelled"],
        ["appointment.created", "appointment.confirmed", "appointment.cancelled"],
    )
    for earlier, later in itertools.pairwise(events):
        found = earlier["data"]["object"]["status"]
        assert later["data"]["previous_attributes"]["status"] == found
