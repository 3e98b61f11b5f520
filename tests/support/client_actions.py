"""What tests start from: fresh resources and calls, and looking at the event log."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable
from datetime import datetime
from typing import Any

from tests.support.client import Client, Response, wait_for

UNKNOWN = "00000000000000000000000000"
"""The ULID part of ids that no resource has."""

Subscribe = Callable[..., Any]

TERMINAL = frozenset({"completed", "no_answer", "failed", "invalid_number", "call_later"})
"""The call statuses that never change again."""

_areas = itertools.count(secrets.randbelow(800))


def unique(prefix: str = "x") -> str:
    return f"{prefix}-{secrets.token_hex(8)}"


def unique_phone() -> str:
    return f"+1{secrets.randbelow(8) + 2}{secrets.randbelow(10**9):09d}"


def simulated_phone(outcome: str) -> str:
    """A number that no other test calls, with this outcome (two digits) by promises 10."""
    return f"+1{200 + next(_areas) % 800}55501{outcome}"


def seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def create_customer(client: Client, **fields: object) -> Any:
    return client.post("/v1/customers", {"phone": unique_phone(), **fields}).ok(201)


def create_appointment(client: Client, customer_id: str | None = None, **fields: object) -> Any:
    customer_id = customer_id or create_customer(client)["id"]
    body = {"customer_id": customer_id, "appointment_at": "2030-05-06T07:08:09Z", **fields}
    return client.post("/v1/appointments", body).ok(201)


def create_conversation(client: Client, **fields: object) -> Any:
    return client.post("/v1/conversations", fields).ok(201)


def end_conversation(client: Client, conversation_id: str) -> Any:
    return client.post(f"/v1/conversations/{conversation_id}/end").ok()


def messages_of(conversation_id: str) -> str:
    return f"/v1/conversations/{conversation_id}/messages"


def send(client: Client, conversation_id: str, content: str, **fields: object) -> Any:
    """The answer to a message: the user's message with the agent's reply."""
    return client.post(messages_of(conversation_id), {"content": content, **fields}).ok(201)


def send_to_thread(client: Client, thread: str, content: str, **fields: object) -> Any:
    """As `send`, to a thread of the caller's own naming."""
    body = {"external_conversation_id": thread, "content": content, **fields}
    return client.post("/v1/messages", body).ok(201)


def transcript(client: Client, conversation_id: str) -> list[Any]:
    """All messages of a conversation, oldest first."""
    path, found = messages_of(conversation_id), []
    params: dict[str, object] = {"limit": 100}
    while True:
        page = client.get(path, params).ok()
        found += page["data"]
        if not page["has_more"]:
            return found
        params["starting_after"] = page["next_cursor"]


def contents(messages: list[Any]) -> list[str]:
    return [message["content"] for message in messages]


def events_about(client: Client, object_id: str) -> list[Any]:
    """The logged events of one resource, oldest first, as far as they are in the log by now."""
    page = client.get("/v1/events", {"object_id": object_id, "limit": 100}).ok()
    return list(reversed(page["data"]))


def event_about(client: Client, object_id: str, type_: str) -> Any:
    """The first event of this type about the resource, once it is in the log."""
    return wait_for(lambda: next((event for event in events_about(client, object_id) if event["type"] == type_), None))


def settle(client: Client, kind: str) -> None:
    """Wait until the log has caught up with the changes made so far to resources of this kind."""
    made = create_customer(client) if kind == "customer" else create_appointment(client)
    event_about(client, made["id"], f"{kind}.created")


def deliveries_of(client: Client, event_id: str) -> list[Any]:
    found: list[Any] = client.get(f"/v1/events/{event_id}/deliveries", {"limit": 100}).ok()["data"]
    return found


def delivery_to(client: Client, event_id: str, endpoint_id: str) -> Any:
    """The automatic delivery of an event to an endpoint, once there is one."""
    return wait_for(
        lambda: next(
            (
                delivery
                for delivery in deliveries_of(client, event_id)
                if delivery["webhook_endpoint_id"] == endpoint_id and delivery["trigger"] == "automatic"
            ),
            None,
        )
    )


def delivery_when(client: Client, delivery: Any, condition: Callable[[Any], bool], timeout: float = 15) -> Any:
    """The delivery as it reads once the condition holds for it."""
    path = f"/v1/events/{delivery['event_id']}/deliveries/{delivery['id']}"
    last: list[Any] = [None]

    def check() -> Any:
        last[0] = client.get(path).ok()
        assert condition(last[0]), f"delivery still reads {last[0]}"
        return last[0]

    return wait_for(check, timeout)


def delivery_has_ended(delivery: Any) -> bool:
    return bool(delivery["status"] != "attempting")


def call(client: Client, customer_id: str, body: object = None, **options: Any) -> Response:
    return client.post(f"/v1/customers/{customer_id}/call", body, **options)


def retrieve_session(client: Client, session_id: str) -> Any:
    return client.get(f"/v1/sessions/{session_id}").ok()


def session_when(client: Client, session_id: str, condition: Callable[[Any], bool], timeout: float = 20) -> Any:
    """The session as it reads once the condition holds for it."""

    def check() -> Any:
        found = retrieve_session(client, session_id)
        assert condition(found), f"after {timeout} s the session still reads {found}"
        return found

    return wait_for(check, timeout)


def call_ended(session: Any) -> bool:
    return session["call_status"] in TERMINAL


def session_ended(client: Client, session_id: str, timeout: float = 20) -> Any:
    """The session as it reads once its call is over; transcript and recording may follow."""
    return session_when(client, session_id, call_ended, timeout)


def sessions_of(client: Client, customer_id: str) -> list[str]:
    """The ids of the customer's sessions, newest first, of all that were made by now."""
    found = client.get("/v1/sessions", {"limit": 100}).ok()["data"]
    return [session["id"] for session in found if session["customer_id"] == customer_id]


def notify(client: Client, endpoint: Any, **fields: object) -> Any:
    """The delivery to the endpoint of a new customer's `customer.created`."""
    customer = create_customer(client, **fields)
    return delivery_to(client, event_about(client, customer["id"], "customer.created")["id"], endpoint["id"])


def waiting(client: Client, endpoint: Any) -> Any:
    """A delivery after its third failed attempt, the fourth being some seconds off."""
    return delivery_when(client, notify(client, endpoint), lambda found: found["attempt_count"] == 3)
