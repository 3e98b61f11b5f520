"""Promises 3: pages, cursors, filters, order."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.client import Client, assert_error, wait_for
from tests.support.client_actions import (
    UNKNOWN,
    Subscribe,
    create_appointment,
    create_customer,
    event_about,
    settle,
    unique,
    unique_phone,
)

LISTS = {
    "/v1/customers": ("customer", "cust"),
    "/v1/appointments": ("appointment", "appt"),
    "/v1/webhook_endpoints": ("webhook_endpoint", "whk"),
    "/v1/events": ("event", "evt"),
}


def ids(items: Iterable[Any]) -> list[str]:
    return [item["id"] for item in items]


def list_ids(client: Client, path: str, params: Any) -> list[str]:
    return ids(client.get(path, params).ok()["data"])


def all_pages(client: Client, path: str, params: dict[str, object], limit: int) -> list[Any]:
    """All pages, one after the other."""
    found: list[Any] = []
    cursor: dict[str, object] = {}
    while True:
        page = client.get(path, params | {"limit": limit} | cursor).ok()
        assert len(page["data"]) <= limit
        found += page["data"]
        if not page["has_more"]:
            assert page["next_cursor"] is None
            return found
        cursor = {"starting_after": page["next_cursor"]}


def shift(time: str, milliseconds: int) -> str:
    moved = datetime.fromisoformat(time) + timedelta(milliseconds=milliseconds)
    return moved.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.mark.parametrize("path", LISTS)
def test_a_list_has_the_envelope(client: Client, subscribe: Subscribe, path: str) -> None:
    subscribe(client, "https://example.com/", enabled=False)
    settle(client, "appointment")
    page = client.get(path, {"limit": 2}).ok()
    assert page["data"]


@pytest.mark.parametrize("path", LISTS)
def test_an_empty_list_has_no_more(client: Client, path: str) -> None:
    page = client.get(path, {"starting_after": f"{LISTS[path][1]}_{UNKNOWN}"}).ok()
    assert page == {"object": "list", "data": [], "has_more": False, "next_cursor": None, "url": path}


def test_a_list_is_newest_first_and_sees_every_write_at_once(client: Client) -> None:
    for _ in range(5):
        made = [create_customer(client)["id"] for _ in range(2)]
        assert list_ids(client, "/v1/customers", {"limit": 2}) == made[::-1]
        made = [create_appointment(client)["id"] for _ in range(2)]
        assert list_ids(client, "/v1/appointments", {"limit": 2}) == made[::-1]


def test_a_listed_item_reads_as_retrieved(client: Client) -> None:
    appointment = create_appointment(client, title="t", metadata={"a": 1.0})
    assert client.get("/v1/appointments", {"limit": 1}).ok()["data"] == [appointment]
    customer = create_customer(client, name="Ann", metadata={"a": 1.0})
    assert client.get("/v1/customers", {"limit": 1}).ok()["data"] == [customer]


@pytest.fixture(scope="module")
def crowd(other: Client) -> list[str]:
    """More customers than the largest page holds, in a project of their own; newest first."""
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: create_customer(other)["id"], range(105)))
    return sorted(made, reverse=True)


@pytest.mark.parametrize(
    ("limit", "size"),
    [(None, 20), ("1", 1), ("100", 100), ("101", 100), ("1000000000000000000000", 100), ("0", 1), ("-7", 1)],
)
def test_the_limit_is_clamped(other: Client, crowd: list[str], limit: str | None, size: int) -> None:
    page = other.get("/v1/customers", {} if limit is None else {"limit": limit}).ok()
    assert ids(page["data"]) == crowd[:size]
    assert page["has_more"] is True
    assert page["next_cursor"] == crowd[size - 1]


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("limit", ["abc", "", "1.5", "1e2", "0x10", "\u0661\u0660"])
def test_a_limit_that_is_no_integer_is_refused(client: Client, path: str, limit: str) -> None:
    assert_error(client.get(path, {"limit": limit}), 400, "parameter_invalid_integer", param="limit")


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("cursor", ["x", "", UNKNOWN, "sess_" + UNKNOWN, "{own}_", "{own}_" + UNKNOWN + "0"])
def test_a_malformed_cursor_is_refused(client: Client, path: str, cursor: str) -> None:
    params = {"starting_after": cursor.replace("{own}", LISTS[path][1])}
    assert_error(client.get(path, params), 400, "cursor_invalid", param="starting_after")


@pytest.mark.parametrize("path", LISTS)
def test_an_id_of_another_list_is_no_cursor(client: Client, path: str) -> None:
    for prefix in {prefix for _, prefix in LISTS.values()} - {LISTS[path][1]}:
        params = {"starting_after": f"{prefix}_{UNKNOWN}"}
        assert_error(client.get(path, params), 400, "cursor_invalid", param="starting_after")


def test_all_pages_together_have_every_item_once(other: Client, crowd: list[str]) -> None:
    found = ids(all_pages(other, "/v1/customers", {}, 10))
    assert len(set(found)) == len(found)
    assert found == sorted(found, reverse=True)
    assert [one for one in found if one in set(crowd)] == crowd


@pytest.mark.parametrize("filtered", [False, True])
def test_deletes_and_new_rows_between_pages_lose_and_repeat_nothing(client: Client, filtered: bool) -> None:
    external_id = unique()
    made = [create_customer(client, external_id=external_id)["id"] for _ in range(7)][::-1]
    params: dict[str, object] = {"external_id": external_id} if filtered else {}
    if filtered:
        wait_for(lambda: list_ids(client, "/v1/customers", params) == made)
    found: list[str] = []
    cursor: dict[str, object] = {}
    while len(found) < 7:
        page = client.get("/v1/customers", params | {"limit": 2} | cursor).ok()
        found += ids(page["data"])
        # The row that the cursor names is deleted, and a newer one comes in.
        client.delete(f"/v1/customers/{found[-1]}").ok()
        create_customer(client, external_id=external_id)
        if not page["has_more"]:
            break
        assert page["next_cursor"] == found[-1]
        cursor = {"starting_after": page["next_cursor"]}
    assert found[:7] == made


def test_a_deleted_row_ahead_is_left_out_of_the_next_pages(client: Client) -> None:
    made = [create_appointment(client)["id"] for _ in range(5)][::-1]
    first = client.get("/v1/appointments", {"limit": 2}).ok()
    client.delete(f"/v1/appointments/{made[2]}").ok()
    second = client.get("/v1/appointments", {"limit": 2, "starting_after": first["next_cursor"]}).ok()
    assert ids(first["data"]) + ids(second["data"]) == [*made[:2], *made[3:]]


def test_a_page_that_holds_the_last_item_has_no_more(client: Client) -> None:
    external_id = unique()
    made = [create_customer(client, external_id=external_id)["id"] for _ in range(4)][::-1]
    params = {"external_id": external_id, "limit": 4}
    wait_for(lambda: list_ids(client, "/v1/customers", params) == made)
    page = client.get("/v1/customers", params).ok()
    assert (page["has_more"], page["next_cursor"]) == (False, None)
    page = client.get("/v1/customers", params | {"limit": 3}).ok()
    assert (page["has_more"], page["next_cursor"]) == (True, made[2])
    page = client.get("/v1/customers", params | {"limit": 3, "starting_after": made[2]}).ok()
    assert (ids(page["data"]), page["has_more"]) == (made[3:], False)


def test_webhook_endpoints_are_listed_and_paged(client: Client, subscribe: Subscribe) -> None:
    made = [subscribe(client, "https://example.com/", enabled=False)["id"] for _ in range(3)][::-1]
    assert ids(all_pages(client, "/v1/webhook_endpoints", {}, 1))[:3] == made
    first = client.get("/v1/webhook_endpoints", {"limit": 2}).ok()
    client.delete(f"/v1/webhook_endpoints/{made[1]}").ok()
    rest = list_ids(client, "/v1/webhook_endpoints", {"starting_after": first["next_cursor"]})
    assert rest[0] == made[2]


# Filters. Which rows a filter finds may lag about a second: the first look waits, the rest must hold.


@pytest.fixture(scope="module")
def people(client: Client) -> list[Any]:
    """Three customers, oldest first; the first two share a phone, the last two an external id."""
    phones, externals, tag = [unique_phone(), unique_phone()], [unique(), unique()], unique("mail")
    made = [
        create_customer(client, phone=phones[0], external_id=externals[0], email=f"{tag}@example.com"),
        create_customer(client, phone=phones[0], external_id=externals[1], email=f"{tag}@example.com"),
        create_customer(client, phone=phones[1], external_id=externals[1], email=f"{tag}x@example.com"),
    ]
    wait_for(lambda: len(list_ids(client, "/v1/customers", {"external_id": externals[1]})) == 2)
    wait_for(lambda: len(list_ids(client, "/v1/customers", {"phone": phones[0]})) == 2)
    return made


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("names", "of", "found"),
    [
        (("phone",), 0, [1, 0]),
        (("phone",), 2, [2]),
        (("email",), 0, [1, 0]),
        (("email",), 2, [2]),
        (("external_id",), 0, [0]),
        (("external_id",), 1, [2, 1]),
        (("phone", "external_id"), 1, [1]),
        (("phone", "email"), 0, [1, 0]),
        (("phone", "email", "external_id"), 0, [0]),
    ],
)
def test_customers_are_filtered_by_each_field_alone_and_combined(
    client: Client, people: list[Any], names: tuple[str, ...], of: int, found: list[int]
) -> None:
    params = {name: people[of][name] for name in names}
    expected = [people[index]["id"] for index in found]
    wait_for(lambda: list_ids(client, "/v1/customers", params) == expected)
    assert ids(all_pages(client, "/v1/customers", params, 1)) == expected


def test_filters_that_no_row_satisfies_together_find_nothing(client: Client, people: list[Any]) -> None:
    params = {"phone": people[0]["phone"], "email": people[2]["email"]}
    assert list_ids(client, "/v1/customers", params) == []
    assert list_ids(client, "/v1/customers", {"external_id": unique()}) == []


def test_a_filter_is_exact(client: Client, people: list[Any]) -> None:
    assert list_ids(client, "/v1/customers", {"external_id": people[0]["external_id"][:-1]}) == []


@pytest.mark.parametrize("path", ["/v1/customers", "/v1/appointments"])
def test_created_at_ranges(client: Client, path: str) -> None:
    make = create_customer if path == "/v1/customers" else create_appointment
    made = [make(client) for _ in range(3)]
    times, (a, b, c) = [one["created_at"] for one in made], ids(made)
    assert times == sorted(set(times))

    def find(**bounds: str) -> list[str]:
        # The lower end keeps out what other tests made before.
        bounds = {"gte": times[0]} | bounds if "gt" not in bounds else bounds
        return list_ids(client, path, {f"created_at[{name}]": time for name, time in bounds.items()})

    assert find() == [c, b, a]
    assert find(gt=times[0]) == [c, b]
    assert find(gte=times[1]) == [c, b]
    assert find(gt=times[2]) == []
    assert find(lt=times[2]) == [b, a]
    assert find(lte=times[1]) == [b, a]
    assert find(lt=times[0]) == []
    assert find(gte=times[1], lte=times[1]) == [b]
    assert find(gt=times[0], lt=times[2]) == [b]
    assert find(gt=shift(times[0], -1), lt=shift(times[0], 1)) == [a]
    offset = times[1].replace("Z", "+00:00")
    assert find(gte=offset, lte=offset) == [b]


def test_a_range_combines_with_filters_and_pages(client: Client) -> None:
    external_id = unique()
    made = []
    for _ in range(4):
        made.append(create_customer(client, external_id=external_id))
        create_customer(client)
    params: dict[str, object] = {
        "external_id": external_id,
        "created_at[gt]": made[0]["created_at"],
        "created_at[lte]": made[3]["created_at"],
    }
    expected = ids(made[:0:-1])
    wait_for(lambda: list_ids(client, "/v1/customers", params) == expected)
    assert ids(all_pages(client, "/v1/customers", params, 1)) == expected
    assert ids(all_pages(client, "/v1/customers", params, 2)) == expected


@pytest.mark.parametrize("path", ["/v1/customers", "/v1/appointments"])
@pytest.mark.parametrize("time", ["nonsense", "2030-01-01", "2030-01-01T00:00:00", "", "1893456000"])
def test_a_range_needs_times_with_an_offset(client: Client, path: str, time: str) -> None:
    response = client.get(path, {"created_at[gte]": time})
    assert_error(response, 400, "datetime_invalid", param="created_at[gte]")


def test_a_deleted_customer_is_found_by_no_filter(client: Client) -> None:
    made = create_customer(client, external_id=unique())
    params = {"external_id": made["external_id"]}
    wait_for(lambda: list_ids(client, "/v1/customers", params) == [made["id"]])
    client.delete(f"/v1/customers/{made['id']}").ok()
    assert list_ids(client, "/v1/customers", params) == []


def test_a_filter_follows_a_changed_field(client: Client) -> None:
    old, new = unique(), unique()
    made = create_customer(client, external_id=old)
    wait_for(lambda: list_ids(client, "/v1/customers", {"external_id": old}) == [made["id"]])
    client.patch(f"/v1/customers/{made['id']}", {"external_id": new}).ok()
    assert list_ids(client, "/v1/customers", {"external_id": old}) == []
    wait_for(lambda: list_ids(client, "/v1/customers", {"external_id": new}) == [made["id"]])


@pytest.fixture(scope="module")
def diary(client: Client) -> list[Any]:
    """Five appointments of two customers, oldest first, times in another order."""
    ann, bob, external_id = create_customer(client)["id"], create_customer(client)["id"], unique()
    made = [
        create_appointment(client, ann, appointment_at="2040-01-03T00:00:00Z"),
        create_appointment(client, ann, appointment_at="2040-01-01T00:00:00Z", status="confirmed"),
        create_appointment(client, ann, appointment_at="2040-01-05T00:00:00Z", external_id=external_id),
        create_appointment(client, bob, appointment_at="2040-01-02T00:00:00Z", external_id=external_id),
        create_appointment(client, ann, appointment_at="2040-01-03T00:00:00Z"),
    ]
    path = f"/v1/appointments/{made[4]['id']}"
    made[4] = client.patch(path, {"status": "cancelled"}).ok()
    params = {"customer_id": ann, "status": "cancelled"}
    wait_for(lambda: list_ids(client, "/v1/appointments", params) == [made[4]["id"]])
    return made


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ([("customer_id", "{ann}")], [4, 2, 1, 0]),
        ([("customer_id", "{bob}")], [3]),
        ([("external_id", "{external}")], [3, 2]),
        ([("customer_id", "{ann}"), ("external_id", "{external}")], [2]),
        ([("customer_id", "{ann}"), ("status", "pending")], [2, 0]),
        ([("customer_id", "{ann}"), ("status", "confirmed")], [1]),
        ([("customer_id", "{ann}"), ("status", "failed")], []),
        ([("customer_id", "{ann}"), ("status", "confirmed"), ("status", "cancelled")], [4, 1]),
        ([("customer_id", "{ann}"), ("status", "pending"), ("status", "pending")], [2, 0]),
        ([("status", "pending"), ("external_id", "{external}"), ("customer_id", "{bob}")], [3]),
        ([("session_id", f"sess_{UNKNOWN}")], []),
        ([("customer_id", f"cust_{UNKNOWN}")], []),
        # With a range of appointment times the order is by that time, latest first.
        ([("customer_id", "{ann}"), ("appointment_at[gte]", "2040-01-01T00:00:00Z")], [2, 4, 0, 1]),
        ([("customer_id", "{ann}"), ("appointment_at[gt]", "2040-01-01T00:00:00Z")], [2, 4, 0]),
        ([("customer_id", "{ann}"), ("appointment_at[lte]", "2040-01-03T00:00:00Z")], [4, 0, 1]),
        ([("customer_id", "{ann}"), ("appointment_at[lt]", "2040-01-03T00:00:00Z")], [1]),
        (
            [
                ("appointment_at[gte]", "2040-01-01T01:00:00+01:00"),
                ("appointment_at[lt]", "2040-01-03T00:00:00Z"),
            ],
            [3, 1],
        ),
        ([("appointment_at[gte]", "2040-01-01T00:00:00Z"), ("external_id", "{external}")], [2, 3]),
        (
            [("appointment_at[gt]", "2040-01-01T00:00:00Z"), ("status", "pending"), ("customer_id", "{ann}")],
            [2, 0],
        ),
        ([("customer_id", "{ann}"), ("created_at[gte]", "{second}")], [4, 2, 1]),
        (
            [
                ("customer_id", "{ann}"),
                ("created_at[gte]", "{second}"),
                ("appointment_at[lte]", "2040-01-03T00:00:00Z"),
            ],
            [4, 1],
        ),
    ],
)
def test_appointments_are_filtered_alone_and_combined(
    client: Client, diary: list[Any], params: list[tuple[str, str]], found: list[int]
) -> None:
    values = {
        "{ann}": diary[0]["customer_id"],
        "{bob}": diary[3]["customer_id"],
        "{external}": diary[2]["external_id"],
        "{second}": diary[1]["created_at"],
    }
    filled = [(name, values.get(value, value)) for name, value in params]
    expected = [diary[index]["id"] for index in found]
    # Rows of other tests may share a range that names no customer.
    ours = set(ids(diary))
    wait_for(lambda: [one for one in list_ids(client, "/v1/appointments", filled) if one in ours] == expected)


@pytest.mark.parametrize("status", ["done", "canceled", "Pending", ""])
def test_an_unknown_status_to_filter_by_is_refused(client: Client, status: str) -> None:
    params = [("status", "pending"), ("status", status)]
    assert_error(client.get("/v1/appointments", params), 400, "parameter_invalid", param="status")


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_by_appointment_time_meet_every_item_once(client: Client, diary: list[Any], limit: int) -> None:
    params: dict[str, object] = {
        "customer_id": diary[0]["customer_id"],
        "appointment_at[gte]": "2040-01-01T00:00:00Z",
    }
    expected = [diary[index]["id"] for index in (2, 4, 0, 1)]
    wait_for(lambda: list_ids(client, "/v1/appointments", params) == expected)
    assert ids(all_pages(client, "/v1/appointments", params, limit)) == expected


def test_pages_by_appointment_time_accept_a_plain_id(client: Client, diary: list[Any]) -> None:
    params = {
        "customer_id": diary[0]["customer_id"],
        "appointment_at[gte]": "2040-01-01T00:00:00Z",
        "starting_after": diary[4]["id"],
    }
    wait_for(lambda: list_ids(client, "/v1/appointments", params) == [diary[0]["id"], diary[1]["id"]])


def test_pages_by_appointment_time_go_on_where_the_cursor_item_was(client: Client) -> None:
    customer_id = create_customer(client)["id"]
    made = [
        create_appointment(client, customer_id, appointment_at=f"2041-01-0{day}T00:00:00Z")["id"]
        for day in (5, 4, 3, 2, 1)
    ]
    params: dict[str, object] = {
        "customer_id": customer_id,
        "appointment_at[gte]": "2041-01-01T00:00:00Z",
        "limit": 2,
    }
    wait_for(lambda: list_ids(client, "/v1/appointments", params | {"limit": 100}) == made)
    first = client.get("/v1/appointments", params).ok()
    assert ids(first["data"]) == made[:2]
    client.patch(f"/v1/appointments/{made[1]}", {"appointment_at": "2041-02-01T00:00:00Z"}).ok()
    second = client.get("/v1/appointments", params | {"starting_after": first["next_cursor"]}).ok()
    assert ids(second["data"]) == made[2:4]
    client.delete(f"/v1/appointments/{made[3]}").ok()
    third = client.get("/v1/appointments", params | {"starting_after": second["next_cursor"]}).ok()
    assert ids(third["data"]) == made[4:]


def test_pages_by_appointment_time_after_plain_ids_leave_nothing_out_when_the_cursor_item_is_moved(
    client: Client,
) -> None:
    customer_id = create_customer(client)["id"]
    made = [
        create_appointment(client, customer_id, appointment_at=f"2042-01-0{day}T00:00:00Z")["id"]
        for day in range(9, 0, -1)
    ]
    params: dict[str, object] = {
        "customer_id": customer_id,
        "appointment_at[gte]": "2042-01-01T00:00:00Z",
        "limit": 3,
    }
    wait_for(lambda: list_ids(client, "/v1/appointments", params | {"limit": 100}) == made)
    found = list_ids(client, "/v1/appointments", params)
    moved = found[-1]
    client.patch(f"/v1/appointments/{moved}", {"appointment_at": "2042-01-04T12:00:00Z"}).ok()
    wait_for(lambda: list_ids(client, "/v1/appointments", params | {"limit": 100})[4] == moved)
    more = True
    while more:
        assert len(found) < 12
        page = client.get("/v1/appointments", params | {"starting_after": found[-1]}).ok()
        found += ids(page["data"])
        more = page["has_more"]
    assert [one for one in found if one != moved] == [one for one in made if one != moved]
    client.delete(f"/v1/appointments/{moved}").ok()
    assert list_ids(client, "/v1/appointments", params | {"starting_after": moved}) == made[3:6]


def test_an_id_without_an_appointment_is_no_cursor_by_appointment_time(client: Client, other: Client) -> None:
    for id in (f"appt_{UNKNOWN}", create_appointment(other)["id"]):
        params = {"appointment_at[gte]": "2042-01-01T00:00:00Z", "starting_after": id}
        assert_error(client.get("/v1/appointments", params), 400, "cursor_invalid", param="starting_after")


def test_a_changed_time_cursor_is_refused(client: Client, diary: list[Any]) -> None:
    params: dict[str, object] = {
        "customer_id": diary[0]["customer_id"],
        "appointment_at[gte]": "2040-01-01T00:00:00Z",
        "limit": 1,
    }
    cursor = wait_for(lambda: client.get("/v1/appointments", params).ok()["next_cursor"])
    for changed in (cursor[1:], f"x{cursor}", "nonsense"):
        response = client.get("/v1/appointments", params | {"starting_after": changed})
        assert_error(response, 400, "cursor_invalid", param="starting_after")


# The event log.


def test_events_are_filtered_by_object(client: Client) -> None:
    made = create_appointment(client)
    path = f"/v1/appointments/{made['id']}"
    client.patch(path, {"status": "confirmed"}).ok()
    client.patch(path, {"status": "failed"}).ok()
    event_about(client, made["id"], "appointment.failed")
    params: dict[str, object] = {"object_id": made["id"]}
    page = client.get("/v1/events", params).ok()
    types = [event["type"] for event in page["data"]]
    assert types == ["appointment.failed", "appointment.confirmed", "appointment.created"]
    assert all_pages(client, "/v1/events", params, 1) == page["data"]


def test_events_are_filtered_by_type_wildcard_and_time(client: Client) -> None:
    customer = create_customer(client)
    made = create_appointment(client, customer["id"])
    client.patch(f"/v1/appointments/{made['id']}", {"status": "confirmed"}).ok()
    confirmed = event_about(client, made["id"], "appointment.confirmed")
    created = event_about(client, made["id"], "appointment.created")
    about_customer = event_about(client, customer["id"], "customer.created")
    ours = set(ids([confirmed, created, about_customer]))

    def find(**params: object) -> list[str]:
        renamed = {name.replace("__", "[") + ("]" if "__" in name else ""): v for name, v in params.items()}
        return [one for one in list_ids(client, "/v1/events", renamed | {"limit": 100}) if one in ours]

    assert find() == ids([confirmed, created, about_customer])
    wait_for(lambda: find(type="appointment.confirmed") == [confirmed["id"]])
    wait_for(lambda: find(type="appointment.*") == ids([confirmed, created]))
    wait_for(lambda: find(type="customer.*") == [about_customer["id"]])
    wait_for(lambda: find(type="appointment.created", object_id=made["id"]) == [created["id"]])
    wait_for(lambda: find(type="appointment.*", object_id=customer["id"]) == [])
    second = about_customer["created"]
    assert about_customer["id"] in find(created__gte=second)
    assert about_customer["id"] not in find(created__gt=second)
    assert about_customer["id"] not in find(created__lt=second)
    assert about_customer["id"] in find(created__lte=second)
    assert find(created__gt=confirmed["created"]) == []
    assert find(object_id=made["id"], created__gte=second, created__lte=confirmed["created"]) == ids(
        [confirmed, created]
    )


def test_unknown_values_of_event_filters_are_refused(client: Client) -> None:
    for value in ("appointment.done", "nonsense", "*", "appointment.", "appointment*", ""):
        assert_error(client.get("/v1/events", {"type": value}), 400, "parameter_invalid", param="type")
    for value in ("nonsense", "1.5", "2030-01-01T00:00:00Z"):
        response = client.get("/v1/events", {"created[gte]": value})
        assert_error(response, 400, "parameter_invalid_integer", param="created[gte]")


def test_the_event_log_has_no_status_filter(client: Client) -> None:
    assert_error(client.get("/v1/events", {"status": "failed"}), 400, "parameter_unknown", param="status")
