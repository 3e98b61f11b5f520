"""Promises 8: messages and their replies, refusals, forced outcomes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.client import Client, assert_error, wait_for
from tests.support.client_actions import (
    UNKNOWN,
    contents,
    create_appointment,
    create_conversation,
    create_customer,
    end_conversation,
    event_about,
    messages_of,
    send,
    send_to_thread,
    transcript,
    unique,
    unique_phone,
)
from tests.support.runner import Service

PATH = "/v1/messages"


# A message and its reply.


@pytest.mark.smoke
def test_a_message_to_a_thread_opens_a_conversation_and_is_answered(client: Client) -> None:
    thread, customer = unique(), create_customer(client)
    body = {"external_conversation_id": thread, "content": "hello", "metadata": {"page": "/pricing"}}
    response = client.post(PATH, body | {"customer": {"id": customer["id"]}})
    message = response.ok(201)
    assert (message["content"], message["reply_status"]) == ("hello", "complete")
    assert message["reply"]["content"]
    assert message["reply"]["actions"] == []
    assert message["created_at"] <= message["reply"]["created_at"]
    conversation = message["conversation"]
    assert (conversation["external_id"], conversation["status"]) == (thread, "active")
    assert (conversation["customer_id"], conversation["metadata"]) == (customer["id"], {"page": "/pricing"})
    assert conversation["last_message_at"] >= message["created_at"]
    assert conversation["ended_at"] is None
    assert response.headers["Location"] == f"{client.base_path}{messages_of(conversation['id'])}"
    assert client.get(f"/v1/conversations/{conversation['id']}").ok() == conversation


def test_a_message_to_a_conversation_is_answered_alike(client: Client) -> None:
    conversation = create_conversation(client)
    path = messages_of(conversation["id"])
    response = client.post(path, {"content": "hello"})
    message = response.ok(201)
    assert response.headers["Location"] == f"{client.base_path}{path}"
    changed = {"last_message_at", "updated_at"}
    assert message["conversation"] | {name: conversation[name] for name in changed} == conversation
    assert client.get(f"/v1/conversations/{conversation['id']}").ok() == message["conversation"]


def test_both_are_in_the_transcript_as_they_were_answered(client: Client) -> None:
    message = send_to_thread(client, unique(), "hello")
    reply, conversation = message.pop("reply"), message.pop("conversation")
    page = client.get(messages_of(conversation["id"])).ok()
    assert page["data"] == [message, reply]


@pytest.mark.smoke
def test_a_thread_goes_on_in_one_conversation(client: Client) -> None:
    thread = unique()
    answers = [send_to_thread(client, thread, content) for content in ("hello", "good morning")]
    conversation_id = answers[0]["conversation"]["id"]
    answers.append(send(client, conversation_id, "hello again"))
    assert {answer["conversation"]["id"] for answer in answers} == {conversation_id}
    last = [answer["conversation"]["last_message_at"] for answer in answers]
    assert last == sorted(set(last))
    expected = [text for answer in answers for text in (answer["content"], answer["reply"]["content"])]
    assert contents(transcript(client, conversation_id)) == expected


def test_a_live_message_is_answered_on_the_local_runner(live: Client, service: Service) -> None:
    if service.speed is None:
        pytest.skip("a deployed service answers live messages by a model that costs money")
    message = send_to_thread(live, unique(), "hello")
    assert message["conversation"]["livemode"] is True


@pytest.mark.parametrize(
    "content",
    [
        "x",
        "  padded  ",
        "first\n\tsecond\r\nthird",
        "山田太郎 👩‍👩‍👧‍👦 e\u0301 \u2028",
        "<b>&amp;**bold**",
        "é" * 8000,
        "👍" * 8000,
    ],
    ids=range(7),
)
def test_content_is_kept_as_sent(client: Client, content: str) -> None:
    message = send_to_thread(client, unique(), content)
    assert message["content"] == content
    assert transcript(client, message["conversation"]["id"])[0]["content"] == content


# What is refused, and leaves no trace.

INVALID: list[tuple[dict[str, object], str | set[str], str]] = [
    ({"content": None}, "parameter_invalid_empty", "content"),
    ({"content": ""}, {"parameter_invalid_empty", "parameter_invalid"}, "content"),
    ({"content": "x" * 8001}, "parameter_invalid", "content"),
    ({"content": "é" * 8001}, "parameter_invalid", "content"),
    ({"content": "a\x00b"}, "parameter_invalid", "content"),
    ({"content": "a\x1bb"}, "parameter_invalid", "content"),
    ({"content": "a\x7fb"}, "parameter_invalid", "content"),
    ({"content": 7}, "parameter_invalid", "content"),
    ({"content": ["hello"]}, "parameter_invalid", "content"),
    ({"content": "hello", "markdown": "false"}, "parameter_invalid", "markdown"),
    ({"content": "hello", "markdown": 0}, "parameter_invalid", "markdown"),
    ({"content": "hello", "role": "assistant"}, {"parameter_invalid", "parameter_unknown"}, "role"),
    ({"content": "hello", "contnet": "hello"}, "parameter_unknown", "contnet"),
    ({"content": "hello", "metadata": {"k": "x" * 501}}, "metadata_invalid", "metadata[k]"),
    ({}, "parameter_missing", "content"),
]


def name_of(value: object) -> str:
    """A value in a test's id, which every process must give the same."""
    return str(sorted(value) if isinstance(value, set) else value)[:40]


@pytest.mark.parametrize(("body", "code", "param"), INVALID, ids=name_of)
def test_an_invalid_message_is_refused_and_leaves_no_trace(
    client: Client, body: dict[str, object], code: str | set[str], param: str
) -> None:
    conversation, thread = create_conversation(client), unique()
    assert_error(client.post(messages_of(conversation["id"]), body), 400, code, param=param)
    assert_error(client.post(PATH, {"external_conversation_id": thread, **body}), 400, code, param=param)
    assert transcript(client, conversation["id"]) == []
    newest = client.get("/v1/conversations", {"limit": 100}).ok()["data"]
    assert thread not in {one["external_id"] for one in newest}


@pytest.mark.parametrize(
    ("thread", "code"),
    [
        (None, "parameter_invalid_empty"),
        ("", {"parameter_invalid_empty", "parameter_invalid"}),
        ("x" * 256, "parameter_invalid"),
        ("a\x00b", "parameter_invalid"),
        (7, "parameter_invalid"),
    ],
)
def test_an_invalid_thread_is_refused(client: Client, thread: object, code: str | set[str]) -> None:
    body = {"external_conversation_id": thread, "content": "hello"}
    assert_error(client.post(PATH, body), 400, code, param="external_conversation_id")


def test_a_thread_is_required_and_goes_by_one_name(client: Client) -> None:
    assert_error(client.post(PATH, {"content": "hello"}), 400, "parameter_missing", param="external_conversation_id")
    body = {"external_id": unique(), "external_conversation_id": unique(), "content": "hello"}
    assert_error(client.post(PATH, body), 400, "parameter_unknown", param="external_id")
    path = messages_of(create_conversation(client)["id"])
    body = {"content": "hello", "external_conversation_id": unique()}
    assert_error(client.post(path, body), 400, "parameter_unknown", param="external_conversation_id")


def test_the_longest_and_the_oddest_threads_work(client: Client) -> None:
    for thread in (unique().ljust(255, "é"), unique("#/?%41 👍\t")):
        first = send_to_thread(client, thread, "hello")["conversation"]
        assert first["external_id"] == thread
        assert send_to_thread(client, thread, "hello")["conversation"]["id"] == first["id"]


def test_a_lone_surrogate_is_no_json(client: Client) -> None:
    body = b'{"external_conversation_id": "x", "content": "\\ud800"}'
    response = client.post(PATH, body=body, headers={"Content-Type": "application/json"})
    assert_error(response, 400, "invalid_json")


# `customer` and `metadata` are for a conversation that the message opens.


def test_customer_and_metadata_have_no_effect_on_an_existing_conversation(client: Client) -> None:
    thread, phone = unique(), unique_phone()
    customer = create_customer(client)
    before = send_to_thread(client, thread, "hello", customer={"id": customer["id"]}, metadata={"a": 1})["conversation"]
    path = messages_of(before["id"])
    for given in ({"phone": phone}, {"id": create_customer(client)["id"]}, {"id": f"cust_{UNKNOWN}"}):
        more = {"customer": given, "metadata": {"b": 2}}
        answers = [
            send_to_thread(client, thread, "hello", **more),
            client.post(path, {"content": "hi", **more}).ok(201),
        ]
        for answer in answers:
            now = answer["conversation"]
            assert (now["id"], now["customer_id"], now["metadata"]) == (before["id"], customer["id"], {"a": 1})
    assert phone not in {one["phone"] for one in client.get("/v1/customers", {"limit": 100}).ok()["data"]}


def test_a_conversation_without_a_customer_stays_without(client: Client) -> None:
    conversation_id = create_conversation(client)["id"]
    answer = send(client, conversation_id, "hello", customer={"phone": unique_phone()})
    assert answer["conversation"]["customer_id"] is None


# Other projects and modes.


def test_a_foreign_conversation_answers_as_an_unknown_one(
    client: Client, live: Client, other: Client, other_live: Client
) -> None:
    thread = unique()
    mine = send_to_thread(client, thread, "a secret")["conversation"]
    for stranger in (live, other, other_live):
        for method, path, body in (
            ("GET", "", None),
            ("GET", "/messages", None),
            ("POST", "/messages", {"content": "hello"}),
            ("POST", "/end", None),
        ):
            answers = [
                stranger.request(method, f"/v1/conversations/{id}{path}", json_body=body)
                for id in (mine["id"], f"conv_{UNKNOWN}")
            ]
            for answer in answers:
                assert_error(answer, 404, "resource_not_found")
            texts = {
                answer.body.decode().replace(answer.request_id, "").replace(id, "")
                for answer, id in zip(answers, (mine["id"], f"conv_{UNKNOWN}"), strict=True)
            }
            assert len(texts) == 1
        for params in ({"external_id": thread}, {"limit": "100"}):
            listed = stranger.get("/v1/conversations", params).ok()["data"]
            assert mine["id"] not in {conversation["id"] for conversation in listed}
    assert client.get(f"/v1/conversations/{mine['id']}").ok() == mine
    assert len(transcript(client, mine["id"])) == 2


def test_the_same_thread_is_another_in_another_project(client: Client, other: Client) -> None:
    thread = unique()
    found = [send_to_thread(caller, thread, "hello")["conversation"]["id"] for caller in (client, other)]
    assert found[0] != found[1]
    for caller, conversation_id in zip((client, other), found, strict=True):
        assert len(transcript(caller, conversation_id)) == 2


# Forced outcomes of test mode.


def pending_appointment(client: Client) -> Any:
    """A pending appointment that its customer's conversations see by now."""
    appointment = create_appointment(client)
    params = {"customer_id": appointment["customer_id"]}
    wait_for(lambda: client.get("/v1/appointments", params).ok()["data"])
    return appointment


def test_a_turn_that_fails_is_answered_by_an_apology_and_a_handoff(client: Client) -> None:
    appointment = pending_appointment(client)
    thread = unique()
    message = send_to_thread(client, thread, "[[sim:error]]", customer={"id": appointment["customer_id"]})
    assert message["reply_status"] == "failed"
    assert message["reply"]["content"]
    assert [action["type"] for action in message["reply"]["actions"]] == ["handoff"]
    conversation_id = message["conversation"]["id"]
    assert [one.get("reply_status") for one in transcript(client, conversation_id)] == ["failed", None]
    assert client.get(f"/v1/appointments/{appointment['id']}").ok() == appointment


def test_the_message_after_a_turn_that_failed_is_answered_by_the_agent(client: Client) -> None:
    appointment = pending_appointment(client)
    conversation_id = create_conversation(client, customer={"id": appointment["customer_id"]})["id"]
    (handoff,) = send(client, conversation_id, "[[sim:error]]")["reply"]["actions"]
    assert handoff == {"type": "handoff", "reason": "agent_failed"}
    message = send(client, conversation_id, "confirm my appointment")
    assert message["reply_status"] == "complete"
    assert message["reply"]["actions"] == [{"type": "appointment_confirmed", "appointment_id": appointment["id"]}]


def test_a_handoff_is_followed_by_holding_replies_that_change_nothing(client: Client) -> None:
    appointment = pending_appointment(client)
    conversation_id = create_conversation(client, customer={"id": appointment["customer_id"]})["id"]
    message = send(client, conversation_id, "[[sim:handoff]]")
    assert message["reply_status"] == "complete"
    assert [action["type"] for action in message["reply"]["actions"]] == ["handoff"]
    assert message["conversation"]["status"] == "active"
    assert_holds(client, conversation_id, appointment)


def assert_holds(client: Client, conversation_id: str, appointment: Any) -> None:
    """The conversation goes on, without the agent doing anything."""
    for content in ("confirm my appointment", "cancel my appointment", "yes"):
        message = send(client, conversation_id, content)
        assert message["reply"]["content"]
        assert {action["type"] for action in message["reply"]["actions"]} <= {"handoff"}
    assert client.get(f"/v1/appointments/{appointment['id']}").ok() == appointment


def test_a_new_conversation_after_a_handoff_has_the_agent_back(client: Client) -> None:
    appointment = pending_appointment(client)
    thread, customer = unique(), {"id": appointment["customer_id"]}
    first = send_to_thread(client, thread, "[[sim:handoff]]", customer=customer)["conversation"]
    end_conversation(client, first["id"])
    reply = send_to_thread(client, thread, "confirm", customer=customer)["reply"]
    assert reply["actions"] == [{"type": "appointment_confirmed", "appointment_id": appointment["id"]}]
    event_about(client, appointment["id"], "appointment.confirmed")
