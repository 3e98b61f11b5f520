from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core import ids
from shared.resources import fields
from shared.store.keys import Scope
from shared.webhooks import events
from shared.webhooks.events import NewEvent

LIVE = Scope(7, True)
CUSTOMER: dict[str, Any] = {
    "id": "cust_01h00000000000000000000000",
    "object": "customer",
    "livemode": True,
    "created_at": "2026-09-21T14:13:20.123Z",
    "updated_at": "2026-09-21T14:13:20.123Z",
    "phone": "+15005550006",
    "name": "Ann",
    "email": None,
    "external_id": None,
    "metadata": {"a": 1, "b": {"c": 2.0}},
    "deleted_at": None,
}
APPOINTMENT: dict[str, Any] = {
    "id": "appt_01h00000000000000000000000",
    "object": "appointment",
    "livemode": True,
    "created_at": "2026-09-21T14:13:20.123Z",
    "updated_at": "2026-09-21T14:13:20.123Z",
    "status": "pending",
    "appointment_at": "2027-01-01T00:00:00.000Z",
    "title": None,
    "session_id": None,
    "metadata": {},
    "failure_reason": None,
    "cancellation_reason": None,
    "deleted_at": None,
}
SESSION: dict[str, Any] = {
    "id": "sess_01h00000000000000000000000",
    "object": "session",
    "livemode": True,
    "created_at": "2026-09-21T14:13:20.123Z",
    "updated_at": "2026-09-21T14:13:20.123Z",
    "call_status": "queued",
    "answered_at": None,
    "transcript_status": "none",
    "recording_status": "none",
}
LATER = "2026-09-21T14:13:21.999Z"


def row(doc: dict[str, Any], version: int = 1) -> dict[str, Any]:
    return {"pk": LIVE.pk(doc["object"]), "sk": doc["id"], "kind": doc["object"], "v": version} | {
        "doc": fields.to_json(doc)
    }


def event_of_change(doc: dict[str, Any], **changes: Any) -> NewEvent | None:
    """The event of a second write of `doc`."""
    return events.derive(row(doc), row(doc | {"updated_at": LATER} | changes, 2))


def body(event: NewEvent | None) -> Any:
    assert event is not None
    return json.loads(event.doc)


@pytest.mark.parametrize("doc", [CUSTOMER, APPOINTMENT, SESSION])
def test_a_new_row_is_a_created_event_with_the_seven_fields_but_nothing_previous(doc: dict[str, Any]) -> None:
    event = events.derive(None, row(doc))

    assert event is not None
    assert body(event) == {
        "id": event.id,
        "object": "event",
        "type": f"{doc['object']}.created",
        "created": 1_790_000_000,
        "livemode": True,
        "api_version": "2026-12-01",
        "data": {"object": doc},
    }
    assert event.scope == LIVE
    assert ids.created_at("evt_", event.id) == 1_790_000_000_123


def test_the_body_is_compact_json_with_text_and_numbers_as_they_are() -> None:
    event = events.derive(None, row(CUSTOMER | {"name": "Zo\u00eb \U0001f600"}))

    assert event is not None
    assert '"name":"Zo\u00eb \U0001f600"' in event.doc
    assert '"metadata":{"a":1,"b":{"c":2.0}}' in event.doc


@pytest.mark.parametrize(
    ("changes", "previous"),
    [
        ({"name": "Bea"}, {"name": "Ann"}),
        ({"name": None}, {"name": "Ann"}),
        ({"email": "a@example.com"}, {"email": None}),
        ({"name": "Bea", "phone": "+15005550007"}, {"name": "Ann", "phone": "+15005550006"}),
        ({"metadata": {"a": 1}}, {"metadata": {"a": 1, "b": {"c": 2.0}}}),
        ({"metadata": {"a": True, "b": {"c": 2.0}}}, {"metadata": {"a": 1, "b": {"c": 2.0}}}),
        ({"metadata": {"a": 1, "b": {"c": 2}}}, {"metadata": {"a": 1, "b": {"c": 2.0}}}),
    ],
)
def test_an_update_of_a_customer_tells_what_changed(changes: dict[str, Any], previous: dict[str, Any]) -> None:
    found = body(event_of_change(CUSTOMER, **changes))

    assert found["type"] == "customer.updated"
    assert fields.canonical(found["data"]["previous_attributes"]) == fields.canonical(previous)
    assert found["data"]["object"] == CUSTOMER | {"updated_at": LATER} | changes


@pytest.mark.parametrize(
    ("changes", "previous"),
    [
        ({"name": "Bea", "do_not_call": False, "note": None}, {"name": "Ann"}),
        ({"do_not_call": True, "note": "x"}, {"do_not_call": False, "note": None}),
    ],
)
def test_a_field_that_an_earlier_release_did_not_store_had_its_default(
    changes: dict[str, Any], previous: dict[str, Any]
) -> None:
    assert body(event_of_change(CUSTOMER, **changes))["data"]["previous_attributes"] == previous


def test_a_change_of_a_value_s_type_within_one_millisecond_is_a_change_too() -> None:
    # A clock that stands still, or was set back, gives both writes one `updated_at`.
    event = event_of_change(CUSTOMER, metadata={"a": True, "b": {"c": 2.0}}, updated_at=CUSTOMER["updated_at"])

    assert body(event)["type"] == "customer.updated"


def test_deleting_a_customer_is_one_event() -> None:
    found = body(event_of_change(CUSTOMER, deleted_at=LATER))

    assert found["type"] == "customer.deleted"
    assert found["data"]["previous_attributes"] == {"deleted_at": None}


def event_of_deletion(doc: dict[str, Any], **changes: Any) -> NewEvent | None:
    """The event of a new row of a deleted resource, which was `doc` before."""
    kept = row(doc | {"updated_at": LATER, "deleted_at": LATER} | changes, 2)
    kind = f"deleted_{doc['object']}"
    return events.derive(None, kept | {"pk": LIVE.pk(kind), "kind": kind, "before": fields.to_json(doc)})


def test_a_row_among_the_deleted_ones_is_the_event_of_the_deletion() -> None:
    customer, appointment = body(event_of_deletion(CUSTOMER)), body(event_of_deletion(APPOINTMENT, status="cancelled"))

    assert (customer["type"], appointment["type"]) == ("customer.deleted", "appointment.cancelled")
    assert customer["data"]["object"]["deleted_at"] == LATER
    assert customer["data"]["previous_attributes"] == {"deleted_at": None}
    assert appointment["data"]["previous_attributes"] == {"deleted_at": None, "status": "pending"}
    deleted = body(event_of_deletion(APPOINTMENT | {"status": "cancelled"}))
    assert (deleted["type"], deleted["data"]["previous_attributes"]) == ("appointment.updated", {"deleted_at": None})


@pytest.mark.parametrize("doc", [CUSTOMER, APPOINTMENT])
def test_a_write_of_internal_attributes_and_the_removal_of_a_row_mean_nothing(doc: dict[str, Any]) -> None:
    assert events.derive(row(doc), row(doc, 2) | {"expires_at": 5}) is None
    assert events.derive(row(doc), None) is None


@pytest.mark.parametrize("status", ["confirmed", "cancelled", "failed"])
def test_a_change_of_status_is_named_by_the_new_status(status: str) -> None:
    found = body(event_of_change(APPOINTMENT, status=status))

    assert found["type"] == f"appointment.{status}"
    assert found["data"]["previous_attributes"] == {"status": "pending"}


@pytest.mark.parametrize("status", ["pending", "confirmed", "rescheduled"])
def test_a_new_time_is_a_rescheduling_whatever_the_status_becomes(status: str) -> None:
    found = body(event_of_change(APPOINTMENT, status=status, appointment_at="2027-01-02T00:00:00.000Z"))

    assert found["type"] == "appointment.rescheduled"
    assert found["data"]["previous_attributes"]["appointment_at"] == APPOINTMENT["appointment_at"]
    assert found["data"]["previous_attributes"].get("status") == (None if status == "pending" else "pending")


@pytest.mark.parametrize("changes", [{"title": "x"}, {"metadata": {"a": 1}}, {"deleted_at": LATER}])
def test_a_change_of_other_fields_of_an_appointment_is_an_update(changes: dict[str, Any]) -> None:
    found = body(event_of_change(APPOINTMENT, **changes, session_id="sess_1"))

    assert found["type"] == "appointment.updated"
    assert found["data"]["previous_attributes"] == {name: APPOINTMENT.get(name) for name in (*changes, "session_id")}


def test_a_call_about_an_appointment_is_no_update_of_it() -> None:
    assert event_of_change(APPOINTMENT, session_id="sess_1") is None


def test_previous_attributes_name_all_that_changed_with_the_status() -> None:
    doc = APPOINTMENT | {"status": "failed", "failure_reason": "no answer"}
    event = event_of_change(doc, status="confirmed", failure_reason=None, title="Visit")

    assert body(event)["data"]["previous_attributes"] == {
        "status": "failed",
        "failure_reason": "no answer",
        "title": None,
    }


def test_the_same_change_read_twice_is_the_same_event_and_the_next_change_another() -> None:
    first, again = event_of_change(CUSTOMER, name="Bea"), event_of_change(CUSTOMER, name="Bea")
    following = events.derive(
        row(CUSTOMER | {"name": "Bea", "updated_at": LATER}, 2), row(CUSTOMER | {"name": "Cas", "updated_at": LATER}, 3)
    )

    assert first == again
    assert first is not None
    assert following is not None
    assert first.id < following.id


@given(st.integers(1, 10**6), st.booleans(), st.integers(1, 10**6), st.booleans())
def test_events_of_different_projects_and_modes_have_different_ids(
    one: int, one_live: bool, other: int, other_live: bool
) -> None:
    first, second = Scope(one, one_live), Scope(other, other_live)
    made = [events.derive(None, row(CUSTOMER) | {"pk": scope.pk("customer")}) for scope in (first, second)]

    assert made[0] is not None
    assert made[1] is not None
    assert (made[0].id == made[1].id) == (first == second)
    assert made[1].scope == second


@pytest.mark.parametrize(
    ("filters", "type", "wanted"),
    [
        ([], "session.failed", True),
        (["appointment.*"], "appointment.created", True),
        (["appointment.*"], "customer.created", False),
        (["customer.created"], "customer.created", True),
        (["customer.created"], "customer.updated", False),
        (["customer.created", "session.*"], "session.call_later", True),
    ],
)
def test_filters_pick_types_and_families(filters: list[str], type: str, wanted: bool) -> None:
    assert events.matches(filters, type) is wanted


@pytest.mark.parametrize("status", ["dialing", "completed", "no_answer", "failed", "invalid_number", "call_later"])
def test_each_new_call_status_of_a_session_is_an_event(status: str) -> None:
    event = event_of_change(SESSION, call_status=status)

    assert event is not None
    assert event.type == f"session.{status}"
    assert body(event)["data"]["previous_attributes"] == {"call_status": "queued"}


@pytest.mark.parametrize("part", ["transcript", "recording"])
def test_a_transcript_or_recording_that_is_there_is_an_event(part: str) -> None:
    event = event_of_change(SESSION, **{f"{part}_status": "available"})

    assert event is not None
    assert event.type == f"session.{part}_ready"


@pytest.mark.parametrize(
    "changes",
    [
        {"transcript_status": "processing"},
        {"recording_status": "failed"},
        {"answered_at": LATER},
    ],
)
def test_what_a_session_goes_through_besides_is_no_event(changes: dict[str, Any]) -> None:
    assert event_of_change(SESSION, **changes) is None
