"""Promises 3: metadata is kept as sent, merged by key, and bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.client import Client, assert_error, assert_replay
from tests.support.client_actions import (
    call,
    create_appointment,
    create_conversation,
    create_customer,
    event_about,
    retrieve_session,
    send_to_thread,
    unique,
    unique_phone,
)


@pytest.mark.parametrize(
    "value",
    [
        "text",
        "",
        0,
        -1,
        2**53 + 1,
        2**100,
        1.0,
        0.1,
        -0.5,
        1e100,
        1.7976931348623157e308,
        5e-324,
        True,
        False,
        [],
        {},
        [1, [2, [3, None]]],
        {"a": {"b": None, "c": [0.25]}},
        "ünïcödé 👍",
    ],
    ids=str,
)
def test_a_value_is_returned_as_sent(client: Client, value: object) -> None:
    customer = create_customer(client, metadata={"k": value})
    for found in (customer, client.get(f"/v1/customers/{customer['id']}").ok()):
        assert found["metadata"] == {"k": value}
        assert type(found["metadata"]["k"]) is type(value)


def test_a_float_does_not_turn_into_an_integer(client: Client) -> None:
    body = b'{"phone": "+14155550111", "metadata": {"price": 10.0, "count": 10}}'
    created = client.post("/v1/customers", body=body, headers={"Content-Type": "application/json"})
    read = client.get(f"/v1/customers/{created.ok(201)['id']}")
    for response in (created, read):
        assert response.body.replace(b" ", b"").find(b'"price":10.0') > 0


def both_kinds(client: Client, metadata: object) -> list[tuple[str, Any]]:
    customer = create_customer(client, metadata=metadata)
    appointment = create_appointment(client, customer["id"], metadata=metadata)
    return [
        (f"/v1/customers/{customer['id']}", customer),
        (f"/v1/appointments/{appointment['id']}", appointment),
    ]


def test_a_patch_merges_by_key(client: Client) -> None:
    for path, before in both_kinds(client, {"a": 1, "b": 2}):
        after = client.patch(path, {"metadata": {"b": 3, "c": 4}}).ok()
        assert after["metadata"] == {"a": 1, "b": 3, "c": 4}
        assert after["updated_at"] > before["updated_at"]
        assert client.get(path).ok() == after


def test_null_removes_a_key(client: Client) -> None:
    for path, _ in both_kinds(client, {"a": 1, "b": 2}):
        assert client.patch(path, {"metadata": {"a": None, "nothing": None}}).ok()["metadata"] == {"b": 2}


def test_null_clears_all(client: Client) -> None:
    for path, _ in both_kinds(client, {"a": 1, "b": 2}):
        assert client.patch(path, {"metadata": None}).ok()["metadata"] == {}


def test_a_nested_value_is_replaced_whole(client: Client) -> None:
    for path, _ in both_kinds(client, {"a": {"x": 1, "y": 2}}):
        after = client.patch(path, {"metadata": {"a": {"y": None, "z": 3}}}).ok()
        assert after["metadata"] == {"a": {"y": None, "z": 3}}


def test_a_key_with_null_is_dropped_when_something_is_created(client: Client) -> None:
    sent = {"a": None, "b": 0, "c": {"d": None}, "e": [None], "f": ""}
    kept = {key: value for key, value in sent.items() if key != "a"}
    made = both_kinds(client, sent)
    conversation = create_conversation(client, metadata=sent)
    made.append((f"/v1/conversations/{conversation['id']}", conversation))
    session_id = call(client, create_customer(client)["id"], {"metadata": sent}).ok(201)["session_id"]
    made.append((f"/v1/sessions/{session_id}", retrieve_session(client, session_id)))
    who = {"phone": unique_phone(), "metadata": sent}
    opened = send_to_thread(client, unique(), "hello", customer=who, metadata=sent)["conversation"]
    made.append((f"/v1/conversations/{opened['id']}", opened))
    for customer_id in (
        opened["customer_id"],
        create_conversation(client, customer=who | {"phone": unique_phone()})["customer_id"],
    ):
        path = f"/v1/customers/{customer_id}"
        made.append((path, client.get(path).ok()))
    for path, found in made:
        assert found["metadata"] == client.get(path).ok()["metadata"] == kept, path
    assert create_customer(client, metadata={"a": None})["metadata"] == {}


def test_a_null_that_is_dropped_still_belongs_to_what_a_key_is_bound_to(client: Client) -> None:
    key, body = unique(), {"phone": unique_phone(), "metadata": {"a": None}}
    first = client.post("/v1/customers", body, idempotency_key=key)
    assert first.ok(201)["metadata"] == {}
    assert_replay(first, client.post("/v1/customers", body, idempotency_key=key))
    other = client.post("/v1/customers", body | {"metadata": {}}, idempotency_key=key)
    assert_error(other, 400, "idempotency_key_reused")


def test_a_null_is_no_way_around_the_limits_of_a_key(client: Client) -> None:
    body = {"phone": unique_phone(), "metadata": {"x" * 41: None}}
    assert_error(client.post("/v1/customers", body), 400, "metadata_invalid")


def test_fifty_keys_are_allowed_and_no_more(client: Client) -> None:
    fifty = {f"k{n}": n for n in range(50)}
    customer = create_customer(client, metadata=fifty)
    assert customer["metadata"] == fifty
    body = {"phone": unique_phone(), "metadata": fifty | {"one_more": 1}}
    assert_error(client.post("/v1/customers", body), 400, "metadata_invalid")
    path = f"/v1/customers/{customer['id']}"
    assert_error(client.patch(path, {"metadata": {"one_more": 1}}), 400, "metadata_invalid")
    assert client.get(path).ok() == customer
    swapped = client.patch(path, {"metadata": {"one_more": 1, "k0": None}}).ok()["metadata"]
    assert len(swapped) == 50


def test_a_key_has_at_most_forty_characters(client: Client) -> None:
    longest = "é" * 40
    assert create_customer(client, metadata={longest: 1})["metadata"] == {longest: 1}
    body = {"phone": unique_phone(), "metadata": {longest + "é": 1}}
    assert_error(client.post("/v1/customers", body), 400, "metadata_invalid")


def test_a_value_has_at_most_500_characters_serialised(client: Client) -> None:
    # The quotes of a string belong to its serialised form.
    longest = "x" * 498
    assert create_customer(client, metadata={"k": longest})["metadata"] == {"k": longest}
    for value in ("x" * 501, ["x" * 100] * 5, {"a": "x" * 500}, "é" * 501):
        body = {"phone": unique_phone(), "metadata": {"k": value}}
        assert_error(client.post("/v1/customers", body), 400, "metadata_invalid", param="metadata[k]")


def test_characters_and_not_bytes_count_for_a_value(client: Client) -> None:
    value = "é" * 490
    assert create_customer(client, metadata={"k": value})["metadata"] == {"k": value}


def test_metadata_has_at_most_16_kb_in_all(client: Client) -> None:
    thirty = {f"k{n}": "x" * 490 for n in range(30)}
    assert len(json.dumps(thirty)) < 16_000
    customer = create_customer(client, metadata=thirty)
    forty = {f"k{n}": "x" * 490 for n in range(40)}
    body = {"phone": unique_phone(), "metadata": forty}
    assert_error(client.post("/v1/customers", body), 400, "metadata_invalid")
    more = {f"k{n}": "x" * 490 for n in range(30, 40)}
    path = f"/v1/customers/{customer['id']}"
    assert_error(client.patch(path, {"metadata": more}), 400, "metadata_invalid")


@pytest.mark.parametrize("value", ["text", 1, True, [], [["a", 1]]])
def test_metadata_must_be_an_object(client: Client, value: object) -> None:
    body = {"phone": unique_phone(), "metadata": value}
    assert_error(client.post("/v1/customers", body), 400, {"metadata_invalid", "parameter_invalid"}, param="metadata")


def test_a_value_as_deep_as_a_body_may_be_is_kept_everywhere(client: Client) -> None:
    # The body and its metadata are levels 1 and 2; the customer of a message is one more.
    deep: dict[str, Any] = {"k": nest(62)}
    patch = {"k": None, "other": nest(62)}
    for path, found in both_kinds(client, deep):
        assert found["metadata"] == client.get(path).ok()["metadata"] == deep
        assert client.patch(path, {"metadata": patch}).ok()["metadata"] == {"other": nest(62)}
        if found["object"] == "customer":
            changed = event_about(client, found["id"], "customer.updated")
            assert changed["data"]["previous_attributes"] == {"metadata": deep}
            assert changed["data"]["object"]["metadata"] == {"other": nest(62)}
    message = send_to_thread(
        client, unique(), "hello", customer={"phone": unique_phone(), "metadata": {"k": nest(61)}}, metadata=deep
    )
    assert message["conversation"]["metadata"] == deep
    customer = client.get(f"/v1/customers/{message['conversation']['customer_id']}").ok()
    assert customer["metadata"] == {"k": nest(61)}
    key, body = unique(), {"metadata": deep}
    first = client.post("/v1/conversations", body, idempotency_key=key)
    assert first.ok(201)["metadata"] == deep
    assert_replay(first, client.post("/v1/conversations", body, idempotency_key=key))


def nest(levels: int) -> Any:
    """Arrays and objects in turn, so many levels of them."""
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"n": value}
    return value
