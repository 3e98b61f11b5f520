"""Promises 11: conversations that wait for a person, what the staff writes, and their events."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.client import Client, Response, assert_error, wait_for
from tests.support.client_actions import create_customer, unique

HANDOFF, FAILURE = "[[sim:handoff]]", "[[sim:error]]"


def open_conversation(client: Client, customer_id: str | None = None) -> str:
    """The path of a new conversation."""
    body = {} if customer_id is None else {"customer": {"id": customer_id}}
    return f"/v1/conversations/{client.post('/v1/conversations', body).ok(201)['id']}"


def say(client: Client, path: str, content: str, **more: Any) -> Any:
    return client.post(f"{path}/messages", {"content": content, **more}).ok(201)


def events_of(client: Client, path: str, *types: str) -> list[Any]:
    """The events of a conversation, oldest first, once there are those of these types."""

    def handoff_events() -> list[Any] | None:
        id = path.rpartition("/")[2]
        data = client.get("/v1/events", {"object_id": id, "limit": "100"}).ok()["data"][::-1]
        return data if [event["type"].partition(".")[2] for event in data] == [*types] else None

    return list(wait_for(handoff_events))


def test_a_new_conversation_waits_for_nobody(client: Client) -> None:
    path = open_conversation(client)
    conversation = client.get(path).ok()
    assert (conversation["waiting"], conversation["handoff"]) == (False, None)
    [event] = events_of(client, path, "created")
    assert event["data"] == {"object": conversation}


@pytest.mark.smoke
def test_a_handoff_is_shown_and_sent_until_the_conversation_is_resumed(client: Client) -> None:
    path = open_conversation(client)
    answered = say(client, path, HANDOFF)
    reply, conversation = answered["reply"], answered["conversation"]
    assert reply["actions"] == [{"type": "handoff", "reason": "person_requested"}]
    assert reply["holding"] is False
    assert conversation["waiting"] is True
    assert conversation["handoff"] == {"reason": "person_requested", "at": reply["created_at"]}
    assert client.get(path).ok() == conversation
    resumed = client.post(f"{path}/resume").ok()
    assert resumed == conversation | {"waiting": False, "handoff": None, "updated_at": resumed["updated_at"]}
    assert client.post(f"{path}/resume").ok() == resumed
    answer = say(client, path, "Hello")["reply"]
    assert (answer["actions"], answer["holding"]) == ([], False)
    _, handed_off, back = events_of(client, path, "created", "handed_off", "resumed")
    assert handed_off["data"]["object"] == conversation
    assert handed_off["data"]["previous_attributes"].keys() == {"waiting", "handoff", "last_message_at"}
    assert back["data"] == {
        "object": resumed,
        "previous_attributes": {"waiting": True, "handoff": conversation["handoff"]},
    }


def test_while_somebody_waits_replies_only_hold_the_first_in_full_the_next_in_a_sentence(client: Client) -> None:
    path = open_conversation(client)
    before = say(client, path, HANDOFF)["conversation"]
    first, *others = [say(client, path, text) for text in ("Are you there?", HANDOFF, FAILURE, "Hello?")]
    for answered in (first, *others):
        assert (answered["reply"]["holding"], answered["reply"]["actions"]) == (True, [])
        assert answered["reply_status"] == "complete"
        assert answered["conversation"]["handoff"] == before["handoff"]
    assert len({answered["reply"]["content"] for answered in others}) == 1
    assert len(others[0]["reply"]["content"]) < len(first["reply"]["content"])
    client.post(f"{path}/resume").ok()
    assert say(client, path, HANDOFF)["reply"]["holding"] is False
    # The very first one also says that an automated assistant replies.
    assert first["reply"]["content"].endswith(say(client, path, "Hello?")["reply"]["content"])
    events_of(client, path, "created", "handed_off", "resumed", "handed_off")


def test_a_failed_agent_answers_the_next_message_which_ends_the_waiting(client: Client) -> None:
    path = open_conversation(client)
    failed = say(client, path, FAILURE)
    assert failed["reply_status"] == "failed"
    assert failed["conversation"]["handoff"] == {"reason": "agent_failed", "at": failed["reply"]["created_at"]}
    again = say(client, path, FAILURE)["conversation"]
    assert again["handoff"] == failed["conversation"]["handoff"]
    answered = say(client, path, "Hello")
    assert (answered["conversation"]["waiting"], answered["conversation"]["handoff"]) == (False, None)
    assert answered["reply"]["holding"] is False
    say(client, path, FAILURE)
    replaced = say(client, path, HANDOFF)
    assert replaced["conversation"]["handoff"] == {
        "reason": "person_requested",
        "at": replaced["reply"]["created_at"],
    }
    events_of(client, path, "created", "handed_off", "resumed", "handed_off", "handed_off")


def test_an_ended_conversation_waits_no_more_and_cannot_be_resumed(client: Client) -> None:
    path = open_conversation(client)
    say(client, path, HANDOFF)
    ended = client.post(f"{path}/end").ok()
    assert (ended["status"], ended["waiting"], ended["handoff"]) == ("ended", False, None)
    assert_error(client.post(f"{path}/resume"), 409, "conversation_ended")
    *_, event = events_of(client, path, "created", "handed_off", "ended")
    assert event["data"]["object"] == ended


def test_who_waits_is_found(client: Client) -> None:
    customer_id = create_customer(client)["id"]
    waiting, other = open_conversation(client, customer_id), open_conversation(client, customer_id)
    say(client, waiting, HANDOFF)

    def list_paths(**filters: str) -> list[str]:
        page = client.get("/v1/conversations", {"customer_id": customer_id, **filters}).ok()["data"]
        return [f"/v1/conversations/{one['id']}" for one in page]

    assert (list_paths(waiting="true"), list_paths(waiting="false")) == ([waiting], [other])
    client.post(f"{waiting}/resume").ok()
    assert (list_paths(waiting="true"), list_paths(waiting="false")) == ([], [other, waiting])
    for text in ("yes", "", "True", "1"):
        error = client.get("/v1/conversations", {"waiting": text})
        assert_error(error, 400, {"parameter_invalid", "parameter_invalid_empty"}, param="waiting")


@pytest.mark.smoke
def test_the_staff_writes_without_a_reply_and_the_customer_goes_on_waiting(client: Client) -> None:
    path = open_conversation(client, create_customer(client)["id"])
    before = say(client, path, HANDOFF)["conversation"]
    key = unique()
    body = {"role": "staff", "content": "This is **Mia**."}
    response = client.post(f"{path}/messages", body, idempotency_key=key)
    added = response.ok(201)
    assert added.keys() == {"id", "object", "role", "content", "created_at", "reply", "conversation"}
    assert (added["role"], added["content"], added["reply"]) == ("staff", "This is **Mia**.", None)
    assert added["conversation"] == before == client.get(path).ok()
    again = client.post(f"{path}/messages", body, idempotency_key=key)
    assert (again.body, again.replayed) == (response.body, True)
    message = {name: value for name, value in added.items() if name not in ("reply", "conversation")}
    listed = client.get(f"{path}/messages").ok()["data"]
    assert [one["role"] for one in listed] == ["user", "assistant", "staff"]
    assert listed[-1] == message
    assert say(client, path, "Thank you, Mia")["reply"]["holding"] is True

    def event() -> Any:
        data = client.get("/v1/events", {"type": "conversation.message_added", "object_id": added["id"]}).ok()["data"]
        return data[0] if data else None

    found = wait_for(event)
    assert found["data"] == {"object": message | {"conversation_id": before["id"]}}


def test_the_staff_may_write_while_the_agent_answers_and_not_after_the_end(client: Client) -> None:
    path = open_conversation(client)
    slow = client.post(f"{path}/messages", {"content": "[[sim:timeout]]"})
    assert_error(slow, 504, "agent_timeout")
    assert_error(client.post(f"{path}/messages", {"content": "hello"}), 409, "conversation_busy")
    assert say(client, path, "One moment.", role="staff")["reply"] is None

    def roles() -> list[str] | None:
        found = [one["role"] for one in client.get(f"{path}/messages").ok()["data"]]
        return found if len(found) == 3 else None

    assert sorted(wait_for(roles)) == ["assistant", "staff", "user"]
    client.post(f"{path}/end").ok()
    assert_error(client.post(f"{path}/messages", {"role": "staff", "content": "x"}), 409, "conversation_ended")


def test_a_role_is_user_or_staff_and_a_thread_takes_none(client: Client) -> None:
    path = open_conversation(client)

    def post_message(path: str, **body: Any) -> Response:
        return client.post(path, {"content": "Hello", **body})

    for role in ("assistant", "agent", "", 1):
        assert_error(post_message(f"{path}/messages", role=role), 400, "parameter_invalid", param="role")
    assert post_message(f"{path}/messages", role="user").ok(201)["reply"]["role"] == "assistant"
    thread = post_message("/v1/messages", external_conversation_id=unique(), role="staff")
    assert_error(thread, 400, "parameter_unknown", param="role")
    for content, code in (("", "parameter_invalid_empty"), ("x" * 8001, "parameter_invalid")):
        assert_error(post_message(f"{path}/messages", role="staff", content=content), 400, code, param="content")
    unknown = post_message("/v1/conversations/conv_01h00000000000000000000000/messages", role="staff")
    assert_error(unknown, 404, "resource_not_found")


def test_the_wildcard_of_conversations_is_a_filter(client: Client) -> None:
    path = open_conversation(client)
    say(client, path, HANDOFF)
    events_of(client, path, "created", "handed_off")
    page = client.get("/v1/events", {"type": "conversation.*", "object_id": path.rpartition("/")[2]}).ok()
    assert [event["type"] for event in page["data"]] == ["conversation.handed_off", "conversation.created"]
