"""Promises 4."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.client import Client, Response, assert_error, assert_replay, wait_for
from tests.support.client_actions import (
    UNKNOWN,
    Subscribe,
    create_appointment,
    create_conversation,
    create_customer,
    events_about,
    settle,
    unique,
    unique_phone,
)


@pytest.mark.parametrize("group", ["customers", "appointments", "webhook_endpoints"])
def test_a_create_is_replayed_byte_for_byte(client: Client, group: str) -> None:
    bodies: dict[str, dict[str, object]] = {
        "customers": {"phone": unique_phone(), "name": "Zoë", "metadata": {"price": 10.0}},
        "appointments": {
            "customer_id": create_customer(client)["id"],
            "appointment_at": "2030-01-01T00:00:00Z",
        },
        "webhook_endpoints": {"url": "https://example.com/", "enabled": False},
    }
    key = unique()
    first = client.post(f"/v1/{group}", bodies[group], idempotency_key=key)
    try:
        for _ in range(2):
            assert_replay(first, client.post(f"/v1/{group}", bodies[group], idempotency_key=key))
        assert client.get(f"/v1/{group}").ok()["data"][0]["id"] == first.ok(201)["id"]
    finally:
        client.delete(f"/v1/{group}/{first.json['id']}")


def test_a_replay_of_a_replay_still_names_the_first_request(client: Client) -> None:
    key, body = unique(), {"phone": unique_phone()}
    answers = [client.post("/v1/customers", body, idempotency_key=key) for _ in range(3)]
    originals = {answer.headers.get("Original-Request") for answer in answers[1:]}
    assert originals == {answers[0].request_id}


@pytest.mark.smoke
def test_one_key_makes_one_resource(client: Client) -> None:
    key, external_id = unique(), unique()
    body = {"phone": unique_phone(), "external_id": external_id}
    made = {client.post("/v1/customers", body, idempotency_key=key).ok(201)["id"] for _ in range(3)}
    assert len(made) == 1
    found = wait_for(lambda: client.get("/v1/customers", {"external_id": external_id}).ok()["data"])
    assert {item["id"] for item in found} == made
    settle(client, "customer")
    assert len(events_about(client, made.pop())) == 1


def test_without_a_key_each_request_does_its_own_work(client: Client) -> None:
    body = {"phone": unique_phone()}
    assert client.post("/v1/customers", body).ok(201)["id"] != client.post("/v1/customers", body).ok(201)["id"]


@pytest.mark.smoke
def test_a_patch_is_replayed_even_if_the_resource_has_changed_since(client: Client) -> None:
    path, key = f"/v1/customers/{create_customer(client)['id']}", unique()
    first = client.patch(path, {"name": "Ann"}, idempotency_key=key)
    assert first.ok()["name"] == "Ann"
    client.patch(path, {"name": "Bea"}).ok()
    assert_replay(first, client.patch(path, {"name": "Ann"}, idempotency_key=key))
    assert client.get(path).ok()["name"] == "Bea"


def test_a_patch_that_changes_nothing_is_saved_too(client: Client) -> None:
    path, key = f"/v1/customers/{create_customer(client, name='Ann')['id']}", unique()
    first = client.patch(path, {"name": "Ann"}, idempotency_key=key)
    client.patch(path, {"name": "Bea"}).ok()
    assert_replay(first, client.patch(path, {"name": "Ann"}, idempotency_key=key))
    assert client.get(path).ok()["name"] == "Bea"


def test_a_create_is_replayed_after_its_resource_is_deleted(client: Client) -> None:
    key, body = unique(), {"phone": unique_phone()}
    first = client.post("/v1/customers", body, idempotency_key=key)
    client.delete(f"/v1/customers/{first.ok(201)['id']}").ok()
    assert_replay(first, client.post("/v1/customers", body, idempotency_key=key))


def test_a_create_is_replayed_after_its_premise_is_gone(client: Client) -> None:
    customer_id, key = create_customer(client)["id"], unique()
    body = {"customer_id": customer_id, "appointment_at": "2030-01-01T00:00:00Z"}
    first = client.post("/v1/appointments", body, idempotency_key=key)
    first.ok(201)
    client.delete(f"/v1/customers/{customer_id}").ok()
    assert_replay(first, client.post("/v1/appointments", body, idempotency_key=key))
    assert_error(client.post("/v1/appointments", body, idempotency_key=unique()), 409, "customer_deleted")


def test_a_patch_is_replayed_after_its_resource_is_deleted(client: Client) -> None:
    path, key = f"/v1/appointments/{create_appointment(client)['id']}", unique()
    first = client.patch(path, {"status": "confirmed"}, idempotency_key=key)
    first.ok()
    client.delete(path).ok()
    assert_replay(first, client.patch(path, {"status": "confirmed"}, idempotency_key=key))


def test_an_unknown_query_field_keeps_no_retry_from_its_saved_response(client: Client) -> None:
    customer_id, thread = create_customer(client)["id"], unique()
    conversation_id = create_conversation(client)["id"]
    requests: list[tuple[str, str, dict[str, object]]] = [
        ("POST", "/v1/customers", {"phone": unique_phone()}),
        ("PATCH", f"/v1/customers/{customer_id}", {"name": "Ann"}),
        ("POST", f"/v1/customers/{customer_id}/call", {}),
        ("POST", "/v1/appointments", {"customer_id": customer_id, "appointment_at": "2030-01-01T00:00:00Z"}),
        ("POST", "/v1/conversations", {}),
        ("POST", f"/v1/conversations/{conversation_id}/messages", {"content": "hello"}),
        ("POST", "/v1/messages", {"external_conversation_id": thread, "content": "hello"}),
        ("POST", f"/v1/conversations/{conversation_id}/end", {}),
    ]
    for method, path, body in requests:
        key = unique()
        first = client.request(method, path, json_body=body, idempotency_key=key)
        assert first.status in (200, 201), first
        again = client.request(method, path, json_body=body, params={"x": "1"}, idempotency_key=key)
        assert_replay(first, again)
        for params in ({}, {"x": "1"}):
            other = client.request(method, path, json_body={"nothing": 1}, params=params, idempotency_key=key)
            assert_reused(other)


def test_the_same_json_written_otherwise_is_the_same_request(client: Client) -> None:
    key, phone = unique(), unique_phone()
    first = client.post("/v1/customers", {"phone": phone, "name": "Zoë"}, idempotency_key=key)
    first.ok(201)
    body = json.dumps({"name": "Zoë", "phone": phone}, indent=3, ensure_ascii=False).encode()
    headers = {"Content-Type": "application/json; charset=utf-8"}
    assert_replay(first, client.post("/v1/customers", body=body, headers=headers, idempotency_key=key))


def assert_reused(response: Response) -> None:
    error = assert_error(response, 400, "idempotency_key_reused")
    assert error["type"] == "idempotency_error"
    assert "Idempotent-Replayed" not in response.headers


@pytest.mark.smoke
def test_a_key_cannot_be_reused_for_another_body(client: Client) -> None:
    key, body = unique(), {"phone": unique_phone()}
    first = client.post("/v1/customers", body, idempotency_key=key)
    for changed in ({"phone": unique_phone()}, body | {"name": "Ann"}, body | {"name": None}):
        assert_reused(client.post("/v1/customers", changed, idempotency_key=key))
    assert_replay(first, client.post("/v1/customers", body, idempotency_key=key))


def test_a_key_cannot_be_reused_for_another_path(client: Client) -> None:
    one, two = create_customer(client)["id"], create_customer(client)["id"]
    key = unique()
    client.patch(f"/v1/customers/{one}", {"name": "Ann"}, idempotency_key=key).ok()
    assert_reused(client.patch(f"/v1/customers/{two}", {"name": "Ann"}, idempotency_key=key))
    assert client.get(f"/v1/customers/{two}").ok()["name"] is None


def test_a_key_cannot_be_reused_for_another_method(client: Client) -> None:
    key, body = unique(), {"phone": unique_phone()}
    made = client.post("/v1/customers", body, idempotency_key=key).ok(201)
    assert_reused(client.patch(f"/v1/customers/{made['id']}", body, idempotency_key=key))


def test_reuse_is_told_before_what_else_is_wrong(client: Client) -> None:
    key = unique()
    client.post("/v1/customers", {"phone": unique_phone()}, idempotency_key=key).ok(201)
    assert_reused(client.post("/v1/customers", {"phone": "nonsense"}, idempotency_key=key))
    assert_reused(client.patch(f"/v1/customers/cust_{UNKNOWN}", {"name": "Ann"}, idempotency_key=key))
    assert_reused(client.post("/v1/webhook_endpoints", {"url": "nonsense"}, idempotency_key=key))


def test_the_same_key_is_another_in_another_project_or_mode(
    client: Client, live: Client, other: Client, other_live: Client
) -> None:
    key, body = unique(), {"phone": unique_phone()}
    answers = [caller.post("/v1/customers", body, idempotency_key=key) for caller in (client, live, other, other_live)]
    assert len({answer.ok(201)["id"] for answer in answers}) == 4
    assert not any(answer.replayed for answer in answers)


def test_a_conflict_with_the_state_is_saved(client: Client) -> None:
    path = f"/v1/appointments/{create_appointment(client)['id']}"
    client.patch(path, {"status": "cancelled"}).ok()
    key = unique()
    first = client.patch(path, {"status": "confirmed"}, idempotency_key=key)
    assert_error(first, 409, "invalid_status_transition")
    second = client.patch(path, {"status": "confirmed"}, idempotency_key=key)
    assert_replay(first, second)
    assert second.error["request_id"] == second.request_id


def test_a_saved_conflict_outlives_its_reason(client: Client, subscribe: Subscribe) -> None:
    endpoint = subscribe(client, "https://example.com/", enabled=False)
    path, key = f"/v1/webhook_endpoints/{endpoint['id']}", unique()
    first = client.post(f"{path}/test", idempotency_key=key)
    assert_error(first, 409, "webhook_endpoint_disabled")
    client.patch(path, {"enabled": True}).ok()
    assert_replay(first, client.post(f"{path}/test", idempotency_key=key))


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"phone": "nonsense"}', 400),
        (b"{", 400),
        (b'{"nothing": 1}', 400),
        (b" " * (256 * 1024 + 1), 413),
    ],
    ids=["validation", "json", "unknown field", "size"],
)
def test_a_refused_request_leaves_the_key_free(client: Client, body: bytes, status: int) -> None:
    key, headers = unique(), {"Content-Type": "application/json"}
    for _ in range(2):
        refused = client.post("/v1/customers", body=body, headers=headers, idempotency_key=key)
        assert refused.status == status
        assert not refused.replayed
    accepted = client.post("/v1/customers", {"phone": unique_phone()}, idempotency_key=key)
    accepted.ok(201)
    assert not accepted.replayed


def test_a_not_found_leaves_the_key_free(client: Client) -> None:
    key = unique()
    body = {"customer_id": f"cust_{UNKNOWN}", "appointment_at": "2030-01-01T00:00:00Z"}
    assert_error(client.patch(f"/v1/customers/cust_{UNKNOWN}", {}, idempotency_key=key), 404, "resource_not_found")
    assert_error(client.post("/v1/appointments", body, idempotency_key=key), 400, "resource_not_found")
    body["customer_id"] = create_customer(client)["id"]
    accepted = client.post("/v1/appointments", body, idempotency_key=key)
    accepted.ok(201)
    assert not accepted.replayed


def test_a_wrong_media_type_or_version_leaves_the_key_free(client: Client) -> None:
    key, body = unique(), json.dumps({"phone": unique_phone()}).encode()
    headers = {"Content-Type": "text/plain"}
    assert client.post("/v1/customers", body=body, headers=headers, idempotency_key=key).status == 415
    headers = {"Content-Type": "application/json", "Service-Version": "1999-01-01"}
    assert client.post("/v1/customers", body=body, headers=headers, idempotency_key=key).status == 400
    headers = {"Content-Type": "application/json"}
    accepted = client.post("/v1/customers", body=body, headers=headers, idempotency_key=key)
    accepted.ok(201)
    assert not accepted.replayed


def race(client: Client, method: str, path: str, body: Any, threads: int = 5) -> list[Response]:
    """The same request with one key from several threads at once, each until the key is not in use."""
    key, start = unique(), threading.Barrier(threads)

    def ask(_: int) -> Response:
        start.wait()
        while True:
            response = client.request(method, path, json_body=body, idempotency_key=key)
            if response.status != 409 or response.error["code"] != "idempotency_key_in_use":
                return response
            assert int(response.headers["Retry-After"]) >= 1
            time.sleep(0.2)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(ask, range(threads)))


def assert_one_effect(answers: list[Response]) -> None:
    assert len({answer.body for answer in answers}) == 1, [str(answer) for answer in answers]
    (first,) = [answer for answer in answers if not answer.replayed]
    for answer in answers:
        if answer is not first:
            assert_replay(first, answer)


def test_of_several_creates_at_once_one_does_the_work(client: Client) -> None:
    for _ in range(5):
        body = {"phone": unique_phone(), "external_id": unique()}
        answers = race(client, "POST", "/v1/customers", body)
        assert_one_effect(answers)
        found = wait_for(
            lambda: client.get("/v1/customers", {"external_id": body["external_id"]}).ok()["data"]  # noqa: B023
        )
        assert [item["id"] for item in found] == [answers[0].ok(201)["id"]]


def test_of_several_patches_at_once_one_does_the_work(client: Client) -> None:
    made = create_appointment(client)
    answers = race(client, "PATCH", f"/v1/appointments/{made['id']}", {"status": "confirmed"})
    assert_one_effect(answers)
    settle(client, "appointment")
    types = [event["type"] for event in events_about(client, made["id"])]
    assert types == ["appointment.created", "appointment.confirmed"]


def test_of_several_rotations_at_once_one_does_the_work(client: Client, subscribe: Subscribe) -> None:
    endpoint = subscribe(client, "https://example.com/", enabled=False)
    path = f"/v1/webhook_endpoints/{endpoint['id']}"
    answers = race(client, "POST", f"{path}/rotate_secret", None)
    assert_one_effect(answers)
    assert client.get(path).ok()["secret_prefix"] == answers[0].ok()["secret"][:13]


def test_a_secret_is_replayed_with_the_response_that_showed_it(client: Client) -> None:
    key, body = unique(), {"url": "https://example.com/", "enabled": False}
    first = client.post("/v1/webhook_endpoints", body, idempotency_key=key)
    path = f"/v1/webhook_endpoints/{first.ok(201)['id']}"
    try:
        assert first.json["secret"].startswith("whsec_")
        assert_replay(first, client.post("/v1/webhook_endpoints", body, idempotency_key=key))
        rotate_key = unique()
        rotated = client.post(f"{path}/rotate_secret", idempotency_key=rotate_key)
        assert rotated.ok()["secret"] != first.json["secret"]
        assert_replay(rotated, client.post(f"{path}/rotate_secret", idempotency_key=rotate_key))
        assert client.get(path).ok()["secret_prefix"] == rotated.json["secret_prefix"]
        # The create still replays with the secret of then.
        assert_replay(first, client.post("/v1/webhook_endpoints", body, idempotency_key=key))
    finally:
        client.delete(path)


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\xe9", "\xa0", "a\tb"])
def test_an_invalid_key_is_refused(client: Client, key: str) -> None:
    body = {"phone": unique_phone()}
    response = client.post("/v1/customers", body, idempotency_key=key)
    error = assert_error(response, 400, "idempotency_key_invalid")
    assert error["type"] == "invalid_request_error"
    path = f"/v1/customers/{create_customer(client)['id']}"
    assert_error(client.patch(path, {"name": "Ann"}, idempotency_key=key), 400, "idempotency_key_invalid")


def test_the_longest_and_the_oddest_printable_keys_work(client: Client) -> None:
    odd = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ a" + unique()
    for key in (unique().ljust(255, "x"), odd):
        body = {"phone": unique_phone()}
        first = client.post("/v1/customers", body, idempotency_key=key)
        first.ok(201)
        assert_replay(first, client.post("/v1/customers", body, idempotency_key=key))


def test_keys_that_differ_only_in_case_are_two(client: Client) -> None:
    key, body = unique("case"), {"phone": unique_phone()}
    one = client.post("/v1/customers", body, idempotency_key=key).ok(201)
    assert client.post("/v1/customers", body, idempotency_key=key.upper()).ok(201)["id"] != one["id"]


def test_get_and_delete_ignore_the_header(client: Client) -> None:
    key = unique()
    made = client.post("/v1/customers", {"phone": unique_phone()}, idempotency_key=key).ok(201)
    path = f"/v1/customers/{made['id']}"
    for ignored in (key, "x" * 256, ""):
        response = client.get(path, idempotency_key=ignored)
        response.ok()
        assert not response.replayed
    deleted = client.delete(path, idempotency_key=key)
    assert deleted.ok()["deleted_at"] is not None
    assert not deleted.replayed
    assert client.get(path, idempotency_key=key).ok()["deleted_at"] is not None
