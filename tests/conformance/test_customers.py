"""Promises 5, and the phone numbers of promise 0.5."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.client import Client, assert_error
from tests.support.client_actions import (
    UNKNOWN,
    create_appointment,
    create_customer,
    event_about,
    events_about,
    settle,
    unique,
    unique_phone,
)


@pytest.mark.smoke
def test_a_customer_is_created_with_all_its_fields(client: Client) -> None:
    body = {
        "phone": unique_phone(),
        "name": "Ann Lee",
        "email": "ann@example.com",
        "external_id": unique(),
        "metadata": {"plan": "gold"},
    }
    customer = client.post("/v1/customers", body).ok(201)
    assert customer["id"].startswith("cust_")
    assert customer | body == customer
    assert customer["livemode"] is False
    assert customer["deleted_at"] is None
    assert customer["created_at"] == customer["updated_at"]


def test_only_the_phone_is_required_and_unset_fields_are_null(client: Client) -> None:
    customer = create_customer(client)
    for name in ("name", "email", "external_id", "deleted_at"):
        assert customer[name] is None
    assert customer["metadata"] == {}


def test_a_retrieved_customer_reads_as_it_was_created(client: Client) -> None:
    customer = create_customer(client, name="Ann", email="ann@example.com", metadata={"a": [1, {"b": None}]})
    assert client.get(f"/v1/customers/{customer['id']}").ok() == customer


def test_a_live_key_makes_live_customers(live: Client) -> None:
    customer = create_customer(live)
    assert customer["livemode"] is True


def test_neither_phone_nor_external_id_is_unique(client: Client) -> None:
    fields: dict[str, object] = {"phone": unique_phone(), "external_id": unique()}
    assert create_customer(client, **fields)["id"] != create_customer(client, **fields)["id"]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("+14155552671", "+14155552671"),
        ("  +14155552671  ", "+14155552671"),
        ("\t+14155552671\n", "+14155552671"),
        ("+1 415 555 2671", "+14155552671"),
        ("+1-415-555-2671", "+14155552671"),
        ("+1.415.555.2671", "+14155552671"),
        ("+1 (415) 555-2671", "+14155552671"),
        ("+44 20 7946 0958", "+442079460958"),
        ("+1234567", "+1234567"),
        ("+123456789012345", "+123456789012345"),
    ],
)
def test_a_phone_is_kept_in_e164(client: Client, sent: str, kept: str) -> None:
    customer = create_customer(client, phone=sent)
    assert customer["phone"] == kept
    updated = client.patch(f"/v1/customers/{create_customer(client)['id']}", {"phone": sent}).ok()
    assert updated["phone"] == kept


@pytest.mark.parametrize(
    "phone",
    [
        "",
        " ",
        "+",
        "4155552671",
        "14155552671",
        "0014155552671",
        "(415) 555-2671",
        "1 (415) +555-2671",
        "++14155552671",
        "+04155552671",
        "+123456",
        "+1234567890123456",
        "+1415555267a",
        "+1 415 555 2671 x5",
        "+1/415/555/2671",
        "+1,415,555,2671",
        "tel:+14155552671",
        "+\uff11\uff14\uff11\uff15\uff15\uff15\uff15\uff12\uff16\uff17\uff11",
        "+\u0661\u0664\u0661\u0665\u0665\u0665\u0665\u0662\u0666\u0667\u0661",
        "\uff0b14155552671",
        "+14155552671;ext=5",
    ],
)
def test_a_phone_in_any_other_form_is_refused(client: Client, phone: str) -> None:
    error = assert_error(client.post("/v1/customers", {"phone": phone}), 400, "phone_invalid_format", param="phone")
    assert error["type"] == "invalid_request_error"
    path = f"/v1/customers/{create_customer(client)['id']}"
    assert_error(client.patch(path, {"phone": phone}), 400, "phone_invalid_format", param="phone")


@pytest.mark.parametrize("phone", [14155552671, True, ["+14155552671"], {"number": "+14155552671"}])
def test_a_phone_that_is_no_string_is_refused(client: Client, phone: object) -> None:
    response = client.post("/v1/customers", {"phone": phone})
    assert_error(response, 400, {"phone_invalid_format", "parameter_invalid"}, param="phone")


@pytest.mark.parametrize(
    "email",
    [
        "ann",
        "ann@",
        "@example.com",
        "ann example@example.com",
        "ann@@example.com",
    ],
)
def test_an_invalid_email_is_refused(client: Client, email: str) -> None:
    body = {"phone": unique_phone(), "email": email}
    assert_error(client.post("/v1/customers", body), 400, "email_invalid", param="email")


def test_an_endless_email_is_refused(client: Client) -> None:
    body = {"phone": unique_phone(), "email": "a" * 5000 + "@example.com"}
    assert_error(client.post("/v1/customers", body), 400, {"email_invalid", "parameter_invalid"}, param="email")


@pytest.mark.parametrize("email", ["ann@example.com", "ann+tag@mail.example.co.uk", "a.b-c_d@example.org"])
def test_a_valid_email_is_kept(client: Client, email: str) -> None:
    assert create_customer(client, email=email)["email"] == email


@pytest.mark.smoke
def test_a_patch_changes_what_it_names_and_keeps_the_rest(client: Client) -> None:
    before = create_customer(client, name="Ann", email="ann@example.com", external_id=unique())
    after = client.patch(f"/v1/customers/{before['id']}", {"name": "Bea"}).ok()
    assert after["updated_at"] > before["updated_at"]
    assert after == before | {"name": "Bea", "updated_at": after["updated_at"]}
    assert client.get(f"/v1/customers/{before['id']}").ok() == after


@pytest.mark.parametrize("name", ["name", "email", "external_id"])
def test_null_clears_an_optional_field(client: Client, name: str) -> None:
    before = create_customer(client, name="Ann", email="ann@example.com", external_id=unique())
    after = client.patch(f"/v1/customers/{before['id']}", {name: None}).ok()
    assert after[name] is None
    assert after == before | {name: None, "updated_at": after["updated_at"]}


def test_null_leaves_an_optional_field_unset_on_create(client: Client) -> None:
    customer = create_customer(client, name=None, email=None, external_id=None)
    assert customer["name"] is customer["email"] is customer["external_id"] is None


def test_a_patch_that_changes_nothing_leaves_no_trace(client: Client) -> None:
    before = create_customer(client, name="Ann", metadata={"a": 1})
    bodies: list[dict[str, object]] = [
        {},
        {"name": "Ann"},
        {"phone": before["phone"]},
        {"metadata": {}},
        {"metadata": {"a": 1}},
        {"metadata": {"nothing": None}},
        {"email": None},
    ]
    for body in bodies:
        assert client.patch(f"/v1/customers/{before['id']}", body).ok() == before
    settle(client, "customer")
    assert [event["type"] for event in events_about(client, before["id"])] == ["customer.created"]


def test_deleting_is_soft_and_repeatable(client: Client) -> None:
    before = create_customer(client, name="Ann", metadata={"a": 1})
    path = f"/v1/customers/{before['id']}"
    first = client.delete(path)
    deleted = first.ok()
    assert deleted["deleted_at"] is not None
    assert deleted == before | {"deleted_at": deleted["deleted_at"], "updated_at": deleted["updated_at"]}
    assert client.delete(path).body == first.body
    assert client.get(path).ok() == deleted
    settle(client, "customer")
    types = [event["type"] for event in events_about(client, before["id"])]
    assert types == ["customer.created", "customer.deleted"]


def test_a_deleted_customer_is_hidden_from_the_list(client: Client) -> None:
    customer = create_customer(client)
    assert client.get("/v1/customers").ok()["data"][0]["id"] == customer["id"]
    client.delete(f"/v1/customers/{customer['id']}")
    assert customer["id"] not in [item["id"] for item in client.get("/v1/customers").ok()["data"]]


def test_a_deleted_customer_takes_no_change_and_no_appointment(client: Client) -> None:
    customer_id = create_customer(client)["id"]
    client.delete(f"/v1/customers/{customer_id}").ok()
    error = assert_error(client.patch(f"/v1/customers/{customer_id}", {"name": "Ann"}), 409, "customer_deleted")
    assert error["type"] == "conflict_error"
    body = {"customer_id": customer_id, "appointment_at": "2030-01-01T00:00:00Z"}
    assert_error(client.post("/v1/appointments", body), 409, "customer_deleted")


def test_deleting_a_customer_leaves_its_appointments(client: Client) -> None:
    appointment = create_appointment(client)
    client.delete(f"/v1/customers/{appointment['customer_id']}").ok()
    assert client.get(f"/v1/appointments/{appointment['id']}").ok() == appointment


def test_an_unknown_customer_can_be_neither_changed_nor_deleted(client: Client) -> None:
    path = f"/v1/customers/cust_{UNKNOWN}"
    assert_error(client.patch(path, {"name": "Ann"}), 404, "resource_not_found")
    assert_error(client.delete(path), 404, "resource_not_found")


@pytest.mark.smoke
def test_the_events_of_a_customer_tell_its_changes(client: Client) -> None:
    created = create_customer(client, name="Ann", metadata={"a": 1, "b": 2})
    path = f"/v1/customers/{created['id']}"
    updated = client.patch(path, {"name": "Bea", "email": "bea@example.com", "metadata": {"a": None}}).ok()
    deleted = client.delete(path).ok()
    event_about(client, created["id"], "customer.deleted")
    events: list[Any] = events_about(client, created["id"])
    assert [event["type"] for event in events] == ["customer.created", "customer.updated", "customer.deleted"]
    assert events[0]["data"] == {"object": created}
    assert events[1]["data"] == {
        "object": updated,
        "previous_attributes": {"name": "Ann", "email": None, "metadata": {"a": 1, "b": 2}},
    }
    assert events[2]["data"] == {"object": deleted, "previous_attributes": {"deleted_at": None}}
