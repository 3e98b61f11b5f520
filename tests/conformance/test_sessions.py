"""Promises 1, 3, 6 and 7: reading and listing sessions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.client import Client, assert_error, wait_for
from tests.support.client_actions import (
    UNKNOWN,
    call,
    create_appointment,
    create_customer,
    event_about,
    retrieve_session,
    session_ended,
    session_when,
    simulated_phone,
)

PATH = "/v1/sessions"
STRANGERS = ["live", "other", "other_live"]


def ids(items: Iterable[Any]) -> list[str]:
    return [item["id"] for item in items]


def list_ids(client: Client, params: Any) -> list[str]:
    return ids(client.get(PATH, params).ok()["data"])


def shift(time: str, milliseconds: int) -> str:
    moved = datetime.fromisoformat(time) + timedelta(milliseconds=milliseconds)
    return moved.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def place(client: Client, customer_id: str, **fields: object) -> Any:
    """The session of a call that is over, its recording available if there is one to come."""
    session = session_ended(client, call(client, customer_id, fields).ok(201)["session_id"])
    if session["call_status"] != "completed":
        return session
    both = ("transcript_status", "recording_status")
    return session_when(client, session["id"], lambda found: [found[name] for name in both] == ["available"] * 2)


@pytest.fixture(scope="module")
def past(client: Client) -> list[Any]:
    """Three sessions of one customer, who answers, and two of another, who does not; oldest first."""
    ann, bob = (create_customer(client, phone=simulated_phone(outcome))["id"] for outcome in ("10", "02"))
    x, y = (create_appointment(client, customer_id)["id"] for customer_id in (ann, bob))
    return [
        place(client, ann, appointment_id=x),
        place(client, ann, appointment_id=x, channel="whatsapp", metadata={"a": 1.0}),
        place(client, ann),
        place(client, bob, appointment_id=y, channel="whatsapp"),
        place(client, bob, appointment_id=y),
    ]


# Reading one.


def test_a_session_has_the_metadata_of_its_call(past: list[Any]) -> None:
    assert past[1]["metadata"] == {"a": 1.0}
    assert past[0]["metadata"] == {}


def test_a_session_is_kept_as_it_ended(client: Client, past: list[Any]) -> None:
    for session in past:
        assert retrieve_session(client, session["id"]) == session


def test_a_session_outlives_its_customer(client: Client) -> None:
    customer = create_customer(client, phone=simulated_phone("02"))
    session = place(client, customer["id"])
    client.delete(f"/v1/customers/{customer['id']}").ok()
    assert retrieve_session(client, session["id"]) == session
    assert list_ids(client, {"limit": 1}) == [session["id"]]


@pytest.mark.parametrize("suffix", ["", "/transcript", "/recording"])
@pytest.mark.parametrize(
    "session_id",
    ["nonsense", "sess_", f"sess_{UNKNOWN}", f"SESS_{UNKNOWN}", f"sess_{UNKNOWN}0", f"cust_{UNKNOWN}", "%00", "%ff"],
)
def test_a_malformed_or_unknown_id_is_not_found(client: Client, session_id: str, suffix: str) -> None:
    assert_error(client.get(f"{PATH}/{session_id}{suffix}"), 404, "resource_not_found")


@pytest.mark.parametrize("suffix", ["transcript", "recording"])
def test_who_did_not_answer_has_neither_transcript_nor_recording(client: Client, past: list[Any], suffix: str) -> None:
    assert (past[3]["transcript_status"], past[3]["recording_status"]) == ("none", "none")
    assert_error(client.get(f"{PATH}/{past[3]['id']}/{suffix}"), 404, "resource_not_found")
    client.get(f"{PATH}/{past[0]['id']}/{suffix}").ok()


def test_a_transcript_reads_the_same_each_time(client: Client, past: list[Any]) -> None:
    path = f"{PATH}/{past[0]['id']}/transcript"
    assert client.get(path).ok() == client.get(path).ok()


@pytest.mark.parametrize("suffix", ["", "/transcript", "/recording"])
def test_an_unknown_query_field_is_refused(client: Client, past: list[Any], suffix: str) -> None:
    response = client.get(f"{PATH}/{past[0]['id']}{suffix}", {"expand": "customer"})
    assert_error(response, 400, "parameter_unknown", param="expand")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("suffix", ["", "/{id}", "/{id}/transcript", "/{id}/recording"])
def test_sessions_are_read_only(client: Client, past: list[Any], suffix: str, method: str) -> None:
    response = client.request(method, PATH + suffix.format(id=past[0]["id"]))
    assert_error(response, 405, "method_not_allowed")
    allow = {name.strip() for name in response.headers.get("Allow", "").split(",")}
    assert allow - {"HEAD", "OPTIONS"} == {"GET"}
    assert retrieve_session(client, past[0]["id"]) == past[0]


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_the_call_action_is_a_post(client: Client, past: list[Any], method: str) -> None:
    response = client.request(method, f"/v1/customers/{past[0]['customer_id']}/call")
    assert_error(response, 405, "method_not_allowed")
    allow = {name.strip() for name in response.headers.get("Allow", "").split(",")}
    assert allow - {"OPTIONS"} == {"POST"}


@pytest.mark.parametrize("suffix", ["", "/{id}", "/{id}/transcript", "/{id}/recording"])
def test_head_answers_as_get_without_a_body(client: Client, past: list[Any], suffix: str) -> None:
    path = PATH + suffix.format(id=past[0]["id"])
    connection = client.connection()
    try:
        connection.request("HEAD", client.base_path + path, headers={"Authorization": f"Bearer {client.key}"})
        head = connection.getresponse()
        body = head.read()
    finally:
        connection.close()
    assert (head.status, body) == (200, b"")
    got = client.get(path)
    got.ok()
    for name in ("Content-Type", "Cache-Control", "Service-Version", "RateLimit-Policy"):
        assert head.headers[name] == got.headers[name]
    assert head.headers["Service-Request-Id"].startswith("req_")


# The list.


def test_the_list_has_the_envelope(client: Client, past: list[Any]) -> None:
    page = client.get(PATH, {"limit": 2}).ok()
    assert len(page["data"]) == 2
    assert page["has_more"] is True
    assert page["next_cursor"] == page["data"][1]["id"]


def test_a_list_shows_the_newest_first_and_at_once(client: Client) -> None:
    for _ in range(3):
        made = []
        for _ in range(2):
            customer = create_customer(client, phone=simulated_phone("02"))
            made.append(call(client, customer["id"]).ok(201)["session_id"])
        assert list_ids(client, {"limit": 2}) == made[::-1]


def test_a_listed_session_reads_as_retrieved(client: Client, past: list[Any]) -> None:
    params = {"customer_id": past[0]["customer_id"]}
    found = wait_for(lambda: len(page := client.get(PATH, params).ok()["data"]) == 3 and page)
    assert found == past[2::-1]


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"customer_id": "{ann}"}, [2, 1, 0]),
        ({"customer_id": "{bob}"}, [4, 3]),
        ({"customer_id": f"cust_{UNKNOWN}"}, []),
        ({"appointment_id": "{x}"}, [1, 0]),
        ({"appointment_id": "{y}"}, [4, 3]),
        ({"appointment_id": f"appt_{UNKNOWN}"}, []),
        ({"call_status": "completed"}, [2, 1, 0]),
        ({"call_status": "no_answer"}, [4, 3]),
        ({"call_status": "queued"}, []),
        ({"channel": "phone"}, [4, 2, 0]),
        ({"channel": "whatsapp"}, [3, 1]),
        ({"customer_id": "{ann}", "channel": "phone"}, [2, 0]),
        ({"customer_id": "{ann}", "appointment_id": "{x}"}, [1, 0]),
        ({"customer_id": "{bob}", "appointment_id": "{x}"}, []),
        ({"customer_id": "{ann}", "call_status": "no_answer"}, []),
        ({"appointment_id": "{y}", "channel": "phone", "call_status": "no_answer"}, [4]),
        ({"customer_id": "{ann}", "appointment_id": "{x}", "call_status": "completed", "channel": "whatsapp"}, [1]),
        ({"created_at[gte]": "{second}"}, [4, 3, 2, 1]),
        ({"created_at[gt]": "{second}", "created_at[lt]": "{last}"}, [3, 2]),
        ({"created_at[lte]": "{second}"}, [1, 0]),
        ({"created_at[gt]": "{second}", "channel": "whatsapp"}, [3]),
        ({"created_at[gte]": "{second}", "call_status": "completed"}, [2, 1]),
        ({"created_at[gte]": "{second}", "customer_id": "{ann}"}, [2, 1]),
        ({"created_at[lt]": "{last}", "appointment_id": "{y}", "channel": "whatsapp"}, [3]),
        ({"created_at[gte]": "{second}", "created_at[lte]": "{second}"}, [1]),
    ],
)
def test_sessions_are_filtered_alone_and_combined(
    client: Client, past: list[Any], params: dict[str, str], found: list[int]
) -> None:
    values = {
        "{ann}": past[0]["customer_id"],
        "{bob}": past[3]["customer_id"],
        "{x}": past[0]["appointment_id"],
        "{y}": past[3]["appointment_id"],
        "{second}": past[1]["created_at"],
        "{last}": past[4]["created_at"],
    }
    filled: dict[str, object] = {name: values.get(value, value) for name, value in params.items()}
    ours, expected = set(ids(past)), [past[index]["id"] for index in found]
    # Tests before and after this one call others: reading ends where they begin.
    newest = {"created_at[lte]": past[4]["created_at"]} if "created_at[lt]" not in filled else {}
    oldest = {"created_at[gte]": past[0]["created_at"]} if "created_at[gt]" not in filled else {}
    bounded = newest | oldest | filled
    wait_for(lambda: [one for one in list_ids(client, bounded) if one in ours] == expected)
    plain = filled | {"limit": 100}
    wait_for(lambda: [one for one in list_ids(client, plain) if one in ours] == expected)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_meet_every_session_once(client: Client, past: list[Any], limit: int) -> None:
    params: dict[str, object] = {"customer_id": past[0]["customer_id"], "limit": limit}
    expected = ids(past[2::-1])
    wait_for(lambda: list_ids(client, params | {"limit": 100}) == expected)
    found: list[str] = []
    cursor: dict[str, object] = {}
    while True:
        page = client.get(PATH, params | cursor).ok()
        found += ids(page["data"])
        if not page["has_more"]:
            break
        assert page["next_cursor"] == found[-1]
        cursor = {"starting_after": page["next_cursor"]}
    assert found == expected


def test_a_page_goes_on_right_after_its_cursor(client: Client, past: list[Any]) -> None:
    assert list_ids(client, {"starting_after": past[4]["id"], "limit": 4}) == ids(past[3::-1])


@pytest.mark.parametrize("range_end", ["gt", "gte", "lt", "lte"])
def test_the_ends_of_a_range(client: Client, past: list[Any], range_end: str) -> None:
    at, ours = past[1]["created_at"], past[1]["id"]

    def found(time: str) -> bool:
        params = {"customer_id": past[0]["customer_id"], f"created_at[{range_end}]": time}
        return ours in list_ids(client, params)

    wait_for(lambda: found(shift(at, -1)) is range_end.startswith("g"))
    assert found(at) is range_end.endswith("e")
    assert found(shift(at, 1)) is range_end.startswith("l")
    assert found(at.replace("Z", "+00:00")) is range_end.endswith("e")


@pytest.mark.parametrize(
    ("name", "values", "code"),
    [
        ("call_status", ["done", "Completed", "consent_pending", "pending", ""], "parameter_invalid"),
        ("channel", ["sms", "Phone", ""], "parameter_invalid"),
        ("created_at[gte]", ["nonsense", "2030-01-01", "2030-01-01T00:00:00", ""], "datetime_invalid"),
        ("status", ["completed"], "parameter_unknown"),
        ("to", ["+14155550100"], "parameter_unknown"),
        ("created_at[eq]", ["2030-01-01T00:00:00Z"], "parameter_unknown"),
        ("limit", ["abc", ""], "parameter_invalid_integer"),
        ("starting_after", ["x", "", f"cust_{UNKNOWN}", f"sess_{UNKNOWN}0"], "cursor_invalid"),
    ],
)
def test_what_the_list_does_not_know_is_refused(client: Client, name: str, values: list[str], code: str) -> None:
    for value in values:
        assert_error(client.get(PATH, {name: value}), 400, code, param=name)


def test_an_empty_page_has_no_more(client: Client) -> None:
    page = client.get(PATH, {"starting_after": f"sess_{UNKNOWN}"}).ok()
    assert page == {"object": "list", "data": [], "has_more": False, "next_cursor": None, "url": PATH}


def test_a_filter_follows_the_call(client: Client) -> None:
    customer = create_customer(client, phone=simulated_phone("22"))
    session_id = call(client, customer["id"]).ok(202)["session_id"]
    params = {"customer_id": customer["id"]}
    wait_for(lambda: list_ids(client, params | {"channel": "whatsapp"}) == [session_id])
    session_ended(client, session_id, timeout=90)
    wait_for(lambda: list_ids(client, params | {"call_status": "failed"}) == [session_id])
    assert list_ids(client, params | {"call_status": "queued"}) == []


def test_the_log_knows_the_events_of_a_session(client: Client, past: list[Any]) -> None:
    event_about(client, past[0]["id"], "session.recording_ready")
    for type_ in ("session.*", "session.completed"):
        params = {"object_id": past[0]["id"], "type": type_}
        found = wait_for(lambda: client.get("/v1/events", params).ok()["data"])  # noqa: B023
        assert "session.completed" in {event["type"] for event in found}


# Appointments name their latest session.


def test_an_appointment_names_the_latest_session_about_it(client: Client, past: list[Any]) -> None:
    for latest, earlier in ((past[1], past[0]), (past[4], past[3])):
        path = f"/v1/appointments/{latest['appointment_id']}"
        appointment = client.get(path).ok()
        assert appointment["session_id"] == latest["id"]

        def found(session_id: str) -> list[str]:
            return ids(client.get("/v1/appointments", {"session_id": session_id}).ok()["data"])

        wait_for(lambda: found(latest["id"]) == [appointment["id"]])  # noqa: B023
        assert found(earlier["id"]) == []
    assert ids(client.get("/v1/appointments", {"session_id": past[2]["id"]}).ok()["data"]) == []


def test_naming_its_session_is_no_event_of_the_appointment(client: Client, past: list[Any]) -> None:
    event_about(client, past[4]["id"], "session.no_answer")
    found = client.get("/v1/events", {"object_id": past[4]["appointment_id"]}).ok()["data"]
    assert [event["type"] for event in found] == ["appointment.created"]


# Other projects and the other mode.


@pytest.fixture(params=STRANGERS)
def stranger(request: pytest.FixtureRequest) -> Client:
    found: Client = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/sessions/{sess}"),
        ("GET", "/v1/sessions/{sess}/transcript"),
        ("GET", "/v1/sessions/{sess}/recording"),
        ("POST", "/v1/customers/{cust}/call"),
    ],
)
def test_a_foreign_session_answers_as_an_unknown_one(past: list[Any], stranger: Client, method: str, path: str) -> None:
    foreign = {"sess": past[0]["id"], "cust": past[0]["customer_id"]}
    texts = []
    for owned in (foreign, {name: f"{name}_{UNKNOWN}" for name in foreign}):
        response = stranger.request(method, path.format(**owned))
        assert_error(response, 404, "resource_not_found")
        text = response.body.decode().replace(response.request_id, "")
        for id_ in owned.values():
            text = text.replace(id_, "")
        texts.append(text)
    assert texts[0] == texts[1]


def test_a_stranger_lists_nothing_of_ours(past: list[Any], stranger: Client) -> None:
    ours = set(ids(past))
    assert not ours & set(list_ids(stranger, {"limit": 100}))
    assert not ours & set(list_ids(stranger, {"starting_after": past[4]["id"], "limit": 100}))
    for name in ("customer_id", "appointment_id"):
        assert list_ids(stranger, {name: past[0][name]}) == []
    assert stranger.get("/v1/appointments", {"session_id": past[1]["id"]}).ok()["data"] == []
    assert stranger.get("/v1/events", {"object_id": past[1]["id"]}).ok()["data"] == []


def test_a_stranger_cannot_call_about_our_appointment(client: Client, past: list[Any], stranger: Client) -> None:
    customer = create_customer(stranger, phone=simulated_phone("00"))
    response = call(stranger, customer["id"], {"appointment_id": past[0]["appointment_id"]})
    assert_error(response, 400, "resource_not_found", param="appointment_id")
    assert client.get(f"/v1/appointments/{past[0]['appointment_id']}").ok()["session_id"] == past[1]["id"]
