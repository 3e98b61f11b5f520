"""Promises 3: bodies, content types, sizes, unknown fields."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.client import Client, Response, assert_error
from tests.support.client_actions import (
    UNKNOWN,
    Subscribe,
    create_appointment,
    create_customer,
    unique,
    unique_phone,
)

LIMIT = 256 * 1024


def send(client: Client, body: bytes, content_type: str = "application/json") -> Response:
    return client.post("/v1/customers", body=body, headers={"Content-Type": content_type})


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nonsense",
        b'{"phone": "+14155550111",}',
        b"{'phone': '+14155550111'}",
        b'{"phone": "+14155550111"} {}',
        b'{"phone": "+14155550111", "phone": "+14155550111"}',
        b'{"phone": "+14155550111", "metadata": {"a": 1, "a": 2}}',
        b'{"phone": "+14155550111", "metadata": {"a": [{"b": 1, "b": 1}]}}',
        b'{"phone": "+14155550111", "metadata": {"a": NaN}}',
        b'{"phone": "+14155550111", "metadata": {"a": Infinity}}',
        b'{"phone": "+14155550111", "metadata": {"a": -Infinity}}',
        b'{"phone": "+14155550111", "name": "\xff"}',
        b'{"phone": "+14155550111", "name": "\xc3"}',
        b'{"phone": "+14155550111", "name": "\xed\xa0\x80"}',
        b'{"phone": "+14155550111", "name": "\\ud800"}',
        b'{"phone": "+14155550111", "name": "\\udc00\\ud800"}',
        b'{"phone": "+14155550111", "metadata": {"\\ud800": 1}}',
        b'{"phone": "+14155550111", "name": "raw \n newline"}',
        b"\xff\xfe{\x00}\x00",
        b"[" * 100_000,
        b'{"a":' * 40_000,
        b'{"phone": "+14155550111", "metadata": {"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}",
    ],
    ids=range(22),
)
def test_what_is_not_one_json_document_is_refused(client: Client, body: bytes) -> None:
    assert_error(send(client, body), 400, "invalid_json")


DEEPEST = 64
SHAPES = {"arrays": ("[", "]"), "objects": ('{"a":', "}"), "both": ('[{"a":', "}]")}


def nested_body(levels: int, shape: str) -> bytes:
    """A body of so many levels, in a field that no route has."""
    opening, closing = SHAPES[shape]
    pairs, odd = divmod(levels - 1, 2 if shape == "both" else 1)
    text = opening * pairs + "[" * odd + "1" + "]" * odd + closing * pairs
    return b'{"nothing": ' + text.encode() + b"}"


BODIES = [
    ("POST", "/v1/customers"),
    ("PATCH", f"/v1/customers/cust_{UNKNOWN}"),
    ("POST", f"/v1/customers/cust_{UNKNOWN}/call"),
    ("POST", "/v1/appointments"),
    ("PATCH", f"/v1/appointments/appt_{UNKNOWN}"),
    ("POST", "/v1/conversations"),
    ("POST", f"/v1/conversations/conv_{UNKNOWN}/messages"),
    ("POST", f"/v1/conversations/conv_{UNKNOWN}/end"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/webhook_endpoints"),
    ("PATCH", f"/v1/webhook_endpoints/whk_{UNKNOWN}"),
    ("POST", f"/v1/webhook_endpoints/whk_{UNKNOWN}/test"),
    ("POST", f"/v1/webhook_endpoints/whk_{UNKNOWN}/rotate_secret"),
    ("POST", f"/v1/events/evt_{UNKNOWN}/deliveries/whd_{UNKNOWN}/retry"),
]


@pytest.mark.parametrize(("method", "path"), BODIES, ids=[f"{method} {path}" for method, path in BODIES])
def test_a_body_has_at_most_64_levels(client: Client, method: str, path: str) -> None:
    def send_nested(levels: int, shape: str, key: str | None = None) -> Response:
        headers = {"Content-Type": "application/json"}
        return client.request(method, path, body=nested_body(levels, shape), headers=headers, idempotency_key=key)

    for shape in SHAPES:
        assert_error(send_nested(DEEPEST, shape), 400, "parameter_unknown", param="nothing")
        assert_error(send_nested(DEEPEST + 1, shape), 400, "invalid_json")
    assert_error(send_nested(DEEPEST, "both", unique()), 400, "parameter_unknown", param="nothing")
    for levels in (DEEPEST + 1, 968, 9_986, 100_000):
        assert_error(send_nested(levels, "arrays", unique()), 400, "invalid_json")


@pytest.mark.parametrize("shape", SHAPES)
def test_no_depth_is_too_much_for_the_service(client: Client, shape: str) -> None:
    # About as deep as a parser in C lets through that counts its own calls only.
    for levels in (900, 930, *range(960, 972), 1_000, 3_000, *range(9_984, 9_988), 10_000):
        assert_error(send(client, nested_body(levels, shape)), 400, "invalid_json")


@pytest.mark.parametrize(
    "name",
    [
        "[" * 200,
        '{"a":[' * 30,
        '"' + "[{" * 90,
        "\\" + "[" * 190,
        '\\"' + "{" * 190,
        "]" * 100 + "[" * 100,
    ],
)
def test_brackets_within_a_string_are_no_levels(client: Client, name: str) -> None:
    assert create_customer(client, name=name)["name"] == name
    assert create_customer(client, metadata={name[:40]: name})["metadata"] == {name[:40]: name}


def test_brackets_side_by_side_are_no_levels(client: Client) -> None:
    metadata: dict[str, object] = {f"k{number}": [[], {}, [[]]] * 20 for number in range(50)}
    assert create_customer(client, metadata=metadata)["metadata"] == metadata


@pytest.mark.parametrize(
    "body",
    [
        b'"' + b"\\" * 100_000,
        b'{"a": "' + b'\\"' * 100_000,
        b'{"a": ' + b'"' * 200_000,
        b'{"a": ' + b'""' * 100_000,
        b"\\[" * 80_000,
        b"]" * 100_000 + b"[" * 100_000,
        b'{"a": "' + b"[" * 200_000,
    ],
    ids=range(7),
)
def test_a_large_body_of_quotes_and_brackets_is_refused_at_once(client: Client, body: bytes) -> None:
    started = time.monotonic()
    assert_error(send(client, body), 400, "invalid_json")
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("body", [b"[]", b'"text"', b"1", b"null", b"true"])
def test_a_body_must_be_an_object(client: Client, body: bytes) -> None:
    assert_error(send(client, body), 400, {"invalid_json", "parameter_invalid"})
    customer = create_customer(client)
    response = client.patch(f"/v1/customers/{customer['id']}", body=body, headers={"Content-Type": "application/json"})
    assert_error(response, 400, {"invalid_json", "parameter_invalid"})


def test_an_empty_body_is_refused_where_fields_are_expected(client: Client) -> None:
    assert_error(send(client, b""), 400, {"invalid_json", "parameter_missing"})


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON",
        'application/json;charset="UTF-8"',
    ],
)
def test_json_is_accepted_under_its_media_type(client: Client, content_type: str) -> None:
    send(client, json.dumps({"phone": unique_phone()}).encode(), content_type).ok(201)


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/jsonp",
        "json",
        "",
    ],
)
def test_another_media_type_is_refused(client: Client, content_type: str) -> None:
    error = assert_error(send(client, b'{"phone": "+14155550111"}', content_type), 415, "unsupported_media_type")
    assert error["type"] == "invalid_request_error"


def test_a_body_without_a_content_type_is_refused(client: Client) -> None:
    assert_error(client.post("/v1/customers", body=b'{"phone": "+14155550111"}'), 415, "unsupported_media_type")


def test_a_patch_of_another_media_type_is_refused(client: Client) -> None:
    path = f"/v1/customers/{create_customer(client)['id']}"
    response = client.patch(path, body=b"{}", headers={"Content-Type": "text/plain"})
    assert_error(response, 415, "unsupported_media_type")


def test_a_body_of_exactly_the_limit_is_accepted(client: Client) -> None:
    body = json.dumps({"phone": unique_phone()}).encode()
    send(client, body + b" " * (LIMIT - len(body))).ok(201)


@pytest.mark.parametrize("size", [LIMIT + 1, 1024 * 1024])
def test_a_body_over_the_limit_is_refused(client: Client, size: int) -> None:
    body = json.dumps({"phone": unique_phone()}).encode()
    assert_error(send(client, body + b" " * (size - len(body))), 413, "request_too_large")


@pytest.mark.parametrize(
    ("path", "known", "unknown", "meant"),
    [
        ("/v1/customers", {"phone": "+14155550111"}, "nmae", "name"),
        ("/v1/customers", {"phone": "+14155550111"}, "externalId", "external_id"),
        ("/v1/appointments", {"appointment_at": "2030-01-01T00:00:00Z"}, "titel", "title"),
        (
            "/v1/webhook_endpoints",
            {"url": "https://example.com/", "enabled": False},
            "event_filter",
            "event_filters",
        ),
    ],
)
def test_an_unknown_field_is_refused_with_a_suggestion(
    client: Client, path: str, known: dict[str, object], unknown: str, meant: str
) -> None:
    body = known | {unknown: "x"}
    if path == "/v1/appointments":
        body["customer_id"] = create_customer(client)["id"]
    error = assert_error(client.post(path, body), 400, "parameter_unknown", param=unknown)
    assert "did you mean" in error["message"].lower()
    assert meant in error["message"]


def test_an_unknown_field_that_resembles_nothing_is_refused_too(client: Client) -> None:
    body = {"phone": unique_phone(), "qqqqzzzz": 1}
    error = assert_error(client.post("/v1/customers", body), 400, "parameter_unknown", param="qqqqzzzz")
    assert "did you mean" not in error["message"].lower()


@pytest.mark.parametrize("name", ["id", "object", "created_at", "updated_at", "deleted_at", "livemode"])
def test_a_read_only_field_is_refused(client: Client, name: str) -> None:
    customer, appointment = create_customer(client), create_appointment(client)
    for path, found in (("customers", customer), ("appointments", appointment)):
        response = client.patch(f"/v1/{path}/{found['id']}", {name: found[name]})
        assert_error(response, 400, "parameter_unknown", param=name)
    response = client.post("/v1/customers", {"phone": unique_phone(), name: customer[name]})
    assert_error(response, 400, "parameter_unknown", param=name)


def test_the_session_of_an_appointment_is_read_only(client: Client) -> None:
    path = f"/v1/appointments/{create_appointment(client)['id']}"
    assert_error(client.patch(path, {"session_id": None}), 400, "parameter_unknown", param="session_id")


@pytest.mark.parametrize("name", ["secret", "secret_prefix", "disabled_at", "disabled_reason"])
def test_the_secret_and_state_of_an_endpoint_are_read_only(client: Client, name: str) -> None:
    body = {"url": "https://example.com/", "enabled": False, name: "x"}
    assert_error(client.post("/v1/webhook_endpoints", body), 400, "parameter_unknown", param=name)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/ping",
        "/v1/customers",
        "/v1/appointments",
        "/v1/webhook_endpoints",
        "/v1/events",
        "/v1/customers/{id}",
    ],
)
def test_an_unknown_query_field_is_refused(client: Client, path: str) -> None:
    path = path.replace("{id}", create_customer(client)["id"])
    assert_error(client.get(path, {"limt": "1"}), 400, "parameter_unknown", param="limt")


def test_a_query_field_of_another_list_is_unknown(client: Client) -> None:
    assert_error(client.get("/v1/customers", {"status": "pending"}), 400, "parameter_unknown", param="status")
    assert_error(client.get("/v1/appointments", {"phone": "x"}), 400, "parameter_unknown", param="phone")
    assert_error(client.get("/v1/events", {"status": "failed"}), 400, "parameter_unknown", param="status")


def test_an_unknown_range_operator_is_refused(client: Client) -> None:
    params = {"created_at[after]": "2030-01-01T00:00:00Z"}
    assert_error(client.get("/v1/customers", params), 400, "parameter_unknown", param="created_at[after]")


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/v1/customers", {}, "phone"),
        ("/v1/customers", {"name": "Ann"}, "phone"),
        ("/v1/appointments", {"appointment_at": "2030-01-01T00:00:00Z"}, "customer_id"),
        ("/v1/appointments", {"customer_id": "{customer}"}, "appointment_at"),
        ("/v1/webhook_endpoints", {}, "url"),
    ],
)
def test_a_missing_required_field_is_named(client: Client, path: str, body: dict[str, object], name: str) -> None:
    if "customer_id" in body:
        body = body | {"customer_id": create_customer(client)["id"]}
    assert_error(client.post(path, body), 400, "parameter_missing", param=name)
    assert_error(client.post(path, body | {name: None}), 400, "parameter_invalid_empty", param=name)


def test_a_required_field_cannot_be_cleared(client: Client, subscribe: Subscribe) -> None:
    endpoint = subscribe(client, "https://example.com/", enabled=False)
    appointment = create_appointment(client)
    for path, name in (
        (f"/v1/customers/{appointment['customer_id']}", "phone"),
        (f"/v1/appointments/{appointment['id']}", "appointment_at"),
        (f"/v1/webhook_endpoints/{endpoint['id']}", "url"),
    ):
        assert_error(client.patch(path, {name: None}), 400, "parameter_invalid_empty", param=name)


@pytest.mark.parametrize("text", ["a\x00b", "\x01", "a\x1bb", "a\x0bb", "a\x7fb"])
def test_control_characters_are_refused(client: Client, text: str) -> None:
    body = {"phone": unique_phone(), "name": text}
    assert_error(client.post("/v1/customers", body), 400, "parameter_invalid", param="name")


def test_tabs_and_newlines_are_kept(client: Client) -> None:
    text = "first\n\tsecond\r\nthird"
    appointment = create_appointment(client, notes=text)
    assert client.get(f"/v1/appointments/{appointment['id']}").ok()["notes"] == text


@pytest.mark.parametrize("text", ["Zoë Ünal", "山田太郎", "👩‍👩‍👧‍👦", "أحمد", "e\u0301", "\u2028x"])
def test_text_of_any_script_is_kept_as_sent(client: Client, text: str) -> None:
    customer = create_customer(client, name=text)
    assert customer["name"] == text
    assert client.get(f"/v1/customers/{customer['id']}").ok()["name"] == text


def test_a_field_of_the_wrong_type_is_refused(client: Client) -> None:
    for value in (1, True, ["x"], {"x": 1}):
        body = {"phone": unique_phone(), "name": value}
        assert_error(client.post("/v1/customers", body), 400, "parameter_invalid", param="name")


def test_an_action_takes_no_body_an_empty_one_or_an_empty_object(client: Client, subscribe: Subscribe) -> None:
    endpoint = subscribe(client, "https://example.com/", enabled=False)
    path = f"/v1/webhook_endpoints/{endpoint['id']}/rotate_secret"
    client.post(path).ok()
    client.post(path, body=b"", headers={"Content-Type": "application/json"}).ok()
    client.post(path, {}).ok()


def test_an_action_refuses_fields_it_does_not_have(client: Client, subscribe: Subscribe) -> None:
    endpoint = subscribe(client, "https://example.com/", enabled=False)
    path = f"/v1/webhook_endpoints/{endpoint['id']}/rotate_secret"
    assert_error(client.post(path, {unique("field"): 1}), 400, "parameter_unknown")


@pytest.mark.parametrize(("field", "longest"), [("name", 200), ("external_id", 255)])
def test_the_text_limits_of_a_customer_count_characters(client: Client, field: str, longest: int) -> None:
    assert create_customer(client, **{field: "é" * longest})[field] == "é" * longest
    body = {"phone": unique_phone(), field: "é" * (longest + 1)}
    assert_error(client.post("/v1/customers", body), 400, "parameter_invalid", param=field)


@pytest.mark.parametrize(
    ("field", "longest"),
    [("title", 200), ("location", 500), ("notes", 2000), ("external_id", 255)],
)
def test_the_text_limits_of_an_appointment_count_characters(client: Client, field: str, longest: int) -> None:
    appointment = create_appointment(client, **{field: "é" * longest})
    assert appointment[field] == "é" * longest
    path = f"/v1/appointments/{appointment['id']}"
    assert_error(client.patch(path, {field: "é" * (longest + 1)}), 400, "parameter_invalid", param=field)
