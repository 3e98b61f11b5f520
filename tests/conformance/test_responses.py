"""Promises 1: what every response carries."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.client import RATE_LIMIT_POLICY, REVISIONS, ULID, Client, Response
from tests.support.client_actions import UNKNOWN, create_customer, unique, unique_phone

WITH_KEY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "200 ping": ("GET", "/v1/ping", {}),
    "200 list": ("GET", "/v1/customers", {}),
    "200 events": ("GET", "/v1/events", {}),
    "201 customer": ("POST", "/v1/customers", {"json_body": {"phone": "+14155550111"}}),
    "400 validation": ("POST", "/v1/customers", {"json_body": {"phone": "nonsense"}}),
    "400 json": ("POST", "/v1/customers", {"body": b"{", "headers": {"Content-Type": "application/json"}}),
    "400 version": ("GET", "/v1/ping", {"headers": {"Service-Version": "1999-01-01"}}),
    "400 cursor": ("GET", "/v1/appointments", {"params": {"starting_after": "x"}}),
    "404 customer": ("GET", f"/v1/customers/cust_{UNKNOWN}", {}),
    "404 appointment": ("PATCH", f"/v1/appointments/appt_{UNKNOWN}", {"json_body": {}}),
    "404 endpoint": ("DELETE", f"/v1/webhook_endpoints/whk_{UNKNOWN}", {}),
    "404 event": ("GET", f"/v1/events/evt_{UNKNOWN}/deliveries", {}),
    "413 size": (
        "POST",
        "/v1/customers",
        {"body": b" " * (256 * 1024 + 1), "headers": {"Content-Type": "application/json"}},
    ),
    "415 type": ("POST", "/v1/customers", {"body": b"{}", "headers": {"Content-Type": "text/plain"}}),
}
WITHOUT_KEY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "401 ping": ("GET", "/v1/ping", {}),
    "401 customers": ("POST", "/v1/customers", {"json_body": {}}),
    "404 route": ("GET", "/v1/nothing", {}),
    "404 root": ("GET", "/", {}),
    "404 trailing slash": ("GET", "/v1/ping/", {}),
    "405 ping": ("POST", "/v1/ping", {"json_body": {}}),
    "405 events": ("DELETE", "/v1/events", {}),
    "200 error page": ("GET", "/docs/errors", {}),
}


@pytest.fixture(scope="module")
def answers(client: Client, anonymous: Client) -> dict[str, Response]:
    found = {name: client.request(method, path, **options) for name, (method, path, options) in WITH_KEY.items()}
    found |= {name: anonymous.request(method, path, **options) for name, (method, path, options) in WITHOUT_KEY.items()}
    deleted = create_customer(client)["id"]
    client.delete(f"/v1/customers/{deleted}")
    found["409 deleted"] = client.patch(f"/v1/customers/{deleted}", {"name": "Ann"})
    return found


ALL = [*WITH_KEY, *WITHOUT_KEY, "409 deleted"]
AUTHENTICATED = [*WITH_KEY, "409 deleted"]
ERRORS = [name for name in ALL if not name.startswith("2")]


@pytest.mark.smoke
@pytest.mark.parametrize("name", ALL)
def test_the_status_is_the_expected_one(answers: dict[str, Response], name: str) -> None:
    assert answers[name].status == int(name[:3]), answers[name]


@pytest.mark.smoke
@pytest.mark.parametrize("name", ALL)
def test_every_response_carries_a_request_id(answers: dict[str, Response], name: str) -> None:
    assert re.fullmatch(f"req_{ULID}", answers[name].request_id)


@pytest.mark.smoke
def test_no_two_responses_share_a_request_id(answers: dict[str, Response]) -> None:
    assert len({response.request_id for response in answers.values()}) == len(answers)


@pytest.mark.smoke
@pytest.mark.parametrize("name", ALL)
def test_every_response_names_the_revision_in_force(answers: dict[str, Response], name: str) -> None:
    assert answers[name].headers.get("Service-Version") == REVISIONS[-1]


@pytest.mark.smoke
@pytest.mark.parametrize("name", ALL)
def test_no_response_may_be_stored(answers: dict[str, Response], name: str) -> None:
    # A page may be stored, but not shown again without a request.
    allowed = "no-cache" if name == "200 error page" else "no-store"
    assert answers[name].headers.get("Cache-Control") == allowed


@pytest.mark.smoke
@pytest.mark.parametrize("name", [name for name in ALL if name != "200 error page"])
def test_every_api_response_is_json(answers: dict[str, Response], name: str) -> None:
    assert answers[name].headers.get("Content-Type", "").partition(";")[0] == "application/json"


@pytest.mark.smoke
@pytest.mark.parametrize("name", AUTHENTICATED)
def test_every_authenticated_response_tells_the_rate_limits(answers: dict[str, Response], name: str) -> None:
    headers = answers[name].headers
    assert headers.get("RateLimit-Policy") == RATE_LIMIT_POLICY
    match = re.fullmatch(r'"(second|minute)";r=(\d+);t=(\d+)', headers.get("RateLimit", ""))
    assert match, headers.get("RateLimit")
    quota, length = (100, 1) if match[1] == "second" else (5000, 60)
    assert 0 <= int(match[2]) < quota
    assert 0 <= int(match[3]) <= length


@pytest.mark.smoke
@pytest.mark.parametrize("name", ERRORS)
def test_every_error_says_whether_to_retry(answers: dict[str, Response], name: str) -> None:
    assert answers[name].headers.get("Service-Should-Retry") == "false"


@pytest.mark.smoke
@pytest.mark.parametrize("name", ERRORS)
def test_every_error_has_the_whole_envelope(answers: dict[str, Response], name: str) -> None:
    response = answers[name]
    assert set(response.json) == {"error"}
    error = response.error
    assert {"type", "code", "message", "request_id", "doc_url"} <= set(error)
    assert set(error) <= {"type", "code", "message", "request_id", "doc_url", "param"}
    assert error["request_id"] == response.request_id
    assert error["message"]


def test_a_success_says_nothing_about_retrying(answers: dict[str, Response]) -> None:
    assert "Service-Should-Retry" not in answers["200 ping"].headers


def test_a_first_answer_is_not_marked_as_a_replay(client: Client) -> None:
    response = client.post("/v1/customers", {"phone": unique_phone()}, idempotency_key=unique())
    assert response.status == 201
    assert "Idempotent-Replayed" not in response.headers
    assert "Original-Request" not in response.headers


@pytest.mark.parametrize("group", ["customers", "appointments", "webhook_endpoints"])
def test_location_leads_to_the_created_resource(client: Client, group: str) -> None:
    bodies: dict[str, dict[str, object]] = {
        "customers": {"phone": unique_phone()},
        "appointments": {
            "customer_id": create_customer(client)["id"],
            "appointment_at": "2030-01-01T00:00:00Z",
        },
        "webhook_endpoints": {"url": "https://example.com/hook", "enabled": False},
    }
    response = client.post(f"/v1/{group}", bodies[group])
    made = response.ok(201)
    path = f"/v1/{group}/{made['id']}"
    try:
        assert response.headers["Location"] == f"{client.base_path}{path}"
        assert client.get(path).ok()["id"] == made["id"]
    finally:
        client.delete(path)


def test_ids_sort_in_order_of_creation(client: Client) -> None:
    ids = [create_customer(client)["id"] for _ in range(5)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 5
