"""Promises 2: routes, the order of checks, the error page."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.client import Client, assert_error
from tests.support.client_actions import UNKNOWN, create_customer, unique, unique_phone
from tests.support.described import DESCRIPTION
from tests.support.runner import Service

TOO_LARGE = b" " * (256 * 1024 + 1)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/",
        "/v2/ping",
        "/v1/nothing",
        "/v1/ping/",
        "/v1/ping/x",
        "/v1/customers/",
        "/v1/appointments/",
        "/v1/events/",
        "/v1/webhook_endpoints/",
        f"/v1/customers/cust_{UNKNOWN}/",
        f"/v1/customers/cust_{UNKNOWN}/nothing",
        f"/v1/appointments/appt_{UNKNOWN}/nothing",
        f"/v1/webhook_endpoints/whk_{UNKNOWN}/nothing",
        f"/v1/events/evt_{UNKNOWN}/nothing",
        "/V1/ping",
        "/v1/Ping",
        "/favicon.ico",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_route_is_not_found(client: Client, anonymous: Client, method: str, path: str) -> None:
    for caller in (client, anonymous):
        error = assert_error(caller.request(method, path), 404, "route_not_found")
        assert error["type"] == "invalid_request_error"


ALLOWED = {
    "/v1/ping": {"GET"},
    "/v1/customers": {"GET", "POST"},
    f"/v1/customers/cust_{UNKNOWN}": {"GET", "PATCH", "DELETE"},
    "/v1/appointments": {"GET", "POST"},
    f"/v1/appointments/appt_{UNKNOWN}": {"GET", "PATCH", "DELETE"},
    "/v1/webhook_endpoints": {"GET", "POST"},
    f"/v1/webhook_endpoints/whk_{UNKNOWN}": {"GET", "PATCH", "DELETE"},
    f"/v1/webhook_endpoints/whk_{UNKNOWN}/test": {"POST"},
    f"/v1/webhook_endpoints/whk_{UNKNOWN}/rotate_secret": {"POST"},
    "/v1/events": {"GET"},
    f"/v1/events/evt_{UNKNOWN}": {"GET"},
    f"/v1/events/evt_{UNKNOWN}/deliveries": {"GET"},
    f"/v1/events/evt_{UNKNOWN}/deliveries/whd_{UNKNOWN}": {"GET"},
    f"/v1/events/evt_{UNKNOWN}/deliveries/whd_{UNKNOWN}/retry": {"POST"},
}


@pytest.mark.parametrize("path", ALLOWED)
def test_a_route_names_its_methods_when_another_is_used(client: Client, anonymous: Client, path: str) -> None:
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - ALLOWED[path]:
        for caller in (client, anonymous):
            response = caller.request(method, path)
            assert_error(response, 405, "method_not_allowed")
            allow = {name.strip() for name in response.headers.get("Allow", "").split(",")}
            assert allow - {"HEAD", "OPTIONS"} == ALLOWED[path], f"{method}: {allow}"


@pytest.mark.smoke
def test_the_route_is_checked_before_the_key(anonymous: Client) -> None:
    assert_error(anonymous.get("/v1/nothing"), 404, "route_not_found")
    assert_error(anonymous.request("PUT", "/v1/customers"), 405, "method_not_allowed")


def test_the_key_is_checked_before_everything_in_the_request(anonymous: Client) -> None:
    headers = {"Service-Version": "1999-01-01", "Content-Type": "text/plain", "Idempotency-Key": "x" * 256}
    for body in (b"{", TOO_LARGE):
        assert_error(anonymous.post("/v1/customers", body=body, headers=headers), 401, "api_key_missing")


def test_the_version_is_checked_before_the_size(client: Client) -> None:
    headers = {"Service-Version": "1999-01-01", "Content-Type": "text/plain"}
    assert_error(client.post("/v1/customers", body=TOO_LARGE, headers=headers), 400, "api_version_invalid")


def test_the_size_is_checked_before_the_content_type(client: Client) -> None:
    response = client.post("/v1/customers", body=TOO_LARGE, headers={"Content-Type": "text/plain"})
    assert_error(response, 413, "request_too_large")


def test_the_content_type_is_checked_before_the_json(client: Client) -> None:
    response = client.post("/v1/customers", body=b"{", headers={"Content-Type": "text/plain"})
    assert_error(response, 415, "unsupported_media_type")


def test_the_json_is_checked_before_the_fields(client: Client) -> None:
    response = client.post(
        "/v1/customers", body=b'{"phone": 1, "phone": 2}', headers={"Content-Type": "application/json"}
    )
    assert_error(response, 400, "invalid_json")


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        (f"/v1/customers/cust_{UNKNOWN}", {"phone": "nonsense"}, "phone_invalid_format"),
        (f"/v1/appointments/appt_{UNKNOWN}", {"appointment_at": "nonsense"}, "datetime_invalid"),
        (f"/v1/webhook_endpoints/whk_{UNKNOWN}", {"nothing": 1}, "parameter_unknown"),
    ],
)
def test_the_fields_are_checked_before_the_resource(
    client: Client, path: str, body: dict[str, object], code: str
) -> None:
    assert_error(client.patch(path, body), 400, code)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/customers/nonsense",
        "/v1/customers/cust_",
        f"/v1/customers/cust_{UNKNOWN}",
        f"/v1/customers/CUST_{UNKNOWN}",
        f"/v1/customers/appt_{UNKNOWN}",
        f"/v1/customers/cust_{UNKNOWN}0",
        "/v1/customers/cust_iiiiiiiiiiiiiiiiiiiiiiiiii",
        "/v1/customers/%00",
        "/v1/customers/%ff%fe",
        "/v1/customers/" + "x" * 3000,
        f"/v1/appointments/cust_{UNKNOWN}",
        "/v1/webhook_endpoints/nonsense",
        "/v1/events/nonsense",
        "/v1/events/nonsense/deliveries",
        f"/v1/events/evt_{UNKNOWN}/deliveries/nonsense",
        f"/v1/events/evt_{UNKNOWN}/deliveries/whd_{UNKNOWN}",
    ],
)
def test_a_malformed_or_unknown_id_is_not_found(client: Client, path: str) -> None:
    assert_error(client.get(path), 404, "resource_not_found")


def test_an_id_in_upper_case_is_not_found(client: Client) -> None:
    made = create_customer(client)
    head, _, tail = made["id"].partition("_")
    assert_error(client.get(f"/v1/customers/{head}_{tail.upper()}"), 404, "resource_not_found")


def test_an_unknown_id_in_the_body_is_an_invalid_request(client: Client) -> None:
    for customer_id in (f"cust_{UNKNOWN}", "nonsense"):
        body = {"customer_id": customer_id, "appointment_at": "2030-01-01T00:00:00Z"}
        error = assert_error(client.post("/v1/appointments", body), 400, "resource_not_found", param="customer_id")
        assert error["type"] == "invalid_request_error"


def test_param_uses_brackets_for_nested_fields(client: Client) -> None:
    response = client.post("/v1/customers", {"phone": unique_phone(), "metadata": {"k": "x" * 600}})
    assert_error(response, 400, "metadata_invalid", param="metadata[k]")
    response = client.post(
        "/v1/webhook_endpoints",
        {"url": "https://example.com/", "enabled": False, "event_filters": ["appointment.*", "nonsense"]},
    )
    assert_error(response, 400, "event_filter_invalid", param="event_filters[1]")


def test_a_message_does_not_leak_the_inside_of_the_service(client: Client) -> None:
    for response in (
        client.get(f"/v1/customers/cust_{UNKNOWN}"),
        client.post("/v1/customers", {"phone": unique(), "metadata": 3}),
    ):
        assert not re.search(r"Traceback|dynamo|pydantic|arn:|P#", str(response), re.IGNORECASE)


@pytest.mark.smoke
def test_the_error_page_explains_every_code(service: Service, anonymous: Client) -> None:
    response = anonymous.get("/docs/errors")
    assert response.status == 200
    assert response.headers["Content-Type"].startswith("text/html")
    page = response.body.decode()
    schemas = json.loads(DESCRIPTION.read_text(encoding="utf-8"))["components"]["schemas"]
    codes = schemas["ErrorCode"]["enum"]
    missing = {code for code in codes if not re.search(rf'id="?{code}"?[ />]', page)}
    assert not missing


@pytest.mark.smoke
def test_a_doc_url_leads_to_the_error_page(client: Client, anonymous: Client) -> None:
    url, _, anchor = client.get("/v1/customers/nonsense").error["doc_url"].partition("#")
    assert url == f"{client.base_url}/docs/errors"
    assert anchor == "resource_not_found"
