"""What the conformance suite sees of a response that is not as described."""

from __future__ import annotations

import json
from email.message import Message
from typing import Any

import pytest

from infra.openapi import examples
from tests.support.described import description

REQUEST_ID = "req_" + 26 * "0"
HEADERS = {
    "Content-Type": "application/json",
    "Service-Request-Id": REQUEST_ID,
    "Service-Version": "2026-12-01",
    "Cache-Control": "no-store",
    "RateLimit-Policy": '"second";q=100;w=1, "minute";q=5000;w=60',
    "RateLimit": '"second";r=99;t=1',
    "Content-Length": "1",
}
PING = {"object": "ping", "project_id": 1, "project_name": "Demo", "livemode": False, "request_id": REQUEST_ID}
EVENT = {
    "id": "evt_" + 26 * "0",
    "object": "event",
    "type": "customer.updated",
    "created": 1,
    "livemode": False,
    "api_version": "2026-12-01",
    "data": {
        "object": {
            "id": "cust_" + 26 * "0",
            "object": "customer",
            "livemode": False,
            "created_at": "2026-11-22T09:30:00.000Z",
            "updated_at": "2026-11-22T09:30:00.000Z",
            "phone": None,
            "name": None,
            "email": None,
            "external_id": None,
            "do_not_call": False,
            "metadata": {"any": ["thing"]},
            "deleted_at": None,
        },
        "previous_attributes": {"name": "Ann"},
    },
}
SIGNED = {
    "Service-Signature": f"t=1,v1={64 * 'a'}",
    "webhook-id": EVENT["id"],
    "webhook-timestamp": "1",
    "webhook-signature": f"v1,{43 * 'a'}=",
}


def message(headers: dict[str, Any]) -> Message:
    found = Message()
    for name, value in headers.items():
        found[name] = value
    return found


def breaches(
    body: Any = PING, status: int = 200, headers: dict[str, str] = HEADERS, method: str = "GET", path: str = "/v1/ping"
) -> list[str]:
    return [*description().breaches(method, path, status, message(headers), json.dumps(body).encode())]


def error(code: str, type_: str = "invalid_request_error") -> Any:
    return {"error": {"type": type_, "code": code, "message": "-", "request_id": "-", "doc_url": "http://x/"}}


def test_a_response_as_described_has_no_breach() -> None:
    assert not breaches()


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (PING | {"stray": 1}, "stray"),
        (PING | {"livemode": "no"}, "livemode"),
        ({name: value for name, value in PING.items() if name != "livemode"}, "livemode"),
        ([], "array"),
    ],
)
def test_a_body_with_a_field_too_many_too_few_or_of_another_kind_is_one(body: Any, part: str) -> None:
    [found] = breaches(body)
    assert "ping 200" in found


def test_a_status_that_the_operation_does_not_have_is_one() -> None:
    assert breaches(status=202) == ["described, ping: status 202"]


def test_a_header_too_many_too_few_or_of_another_kind_is_one() -> None:
    assert breaches(headers=HEADERS | {"Service-Debug": "1"}) == ["described, ping 200: header Service-Debug"]
    lacking = {name: value for name, value in HEADERS.items() if name != "RateLimit"}
    assert breaches(headers=lacking) == ["described, ping 200: no header ratelimit"]
    assert len(breaches(headers=HEADERS | {"RateLimit": "99"})) == 1
    for name, value in (("Service-Version", "2032-01-01"), ("RateLimit-Policy", '"second";q=9;w=1')):
        assert breaches(headers=HEADERS | {name: value}) == [f"described, ping 200 header {name}: {value!r}"]


def test_a_code_that_the_operation_does_not_have_or_of_another_type_is_one() -> None:
    headers = HEADERS | {"Service-Should-Retry": "false"}
    assert not breaches(error("api_version_invalid"), 400, headers)
    for code, type_ in (("phone_invalid_format", "invalid_request_error"), ("api_version_invalid", "api_error")):
        assert breaches(error(code, type_), 400, headers) == [f"described, ping 400: {type_} {code}"]


def test_an_operation_that_does_not_exist_is_one_unless_it_is_refused() -> None:
    assert breaches(path="/v1/pong") == ["described, GET /v1/pong: no such operation"]
    assert not breaches(error("route_not_found"), 404, path="/v1/pong")
    assert breaches(error("route_not_found") | {"stray": 1}, 404, path="/v1/pong")


def test_a_webhook_is_judged_by_its_type() -> None:
    def breaches_of(event: Any, headers: dict[str, Any] = SIGNED) -> list[str]:
        return [*description().webhook_breaches(message(headers), json.dumps(event).encode())]

    assert not breaches_of(EVENT)
    assert breaches_of(EVENT | {"type": "customer.renamed"}) == ["described, webhook: type customer.renamed"]
    assert len(breaches_of(EVENT | {"type": "appointment.created"})) == 1
    assert len(breaches_of(EVENT | {"stray": 1})) == 1
    in_seconds = json.loads(json.dumps(EVENT).replace("09:30:00.000Z", "09:30:00Z"))
    assert len(breaches_of(in_seconds)) == 1
    assert len(breaches_of(EVENT, SIGNED | {"webhook-id": "1"})) == 1


def test_a_value_of_a_later_revision_is_one() -> None:
    settings = examples.RESPONSES["AgentSettings"]
    assert not breaches(settings, path="/v1/agent_settings")
    for name in ("language", "change_policy"):
        later = settings | {name: "of_a_later_revision"}
        [found] = breaches(later, path="/v1/agent_settings")
        assert f"/{name}: " in found
    delivery, path = examples.RESPONSES["Delivery"], "/v1/events/evt_1/deliveries/whd_1"
    assert not breaches(delivery, path=path)
    [found] = breaches(delivery | {"max_attempts": 12}, path=path)
    assert "/max_attempts: " in found
