"""The generated Python client reads values of a later revision: each response is changed before the client gets it.

python future.py BASE_URL API_KEY      with the generated package on the path
"""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from typing import Any

import httpx
from appointments_client import AuthenticatedClient
from appointments_client.api.appointments import create_appointment, list_appointments
from appointments_client.api.conversations import send_message_to_thread
from appointments_client.api.customers import create_customer
from appointments_client.api.events import list_events
from appointments_client.models import (
    AppointmentCreate,
    CustomerCreate,
    CustomerReference,
    Error,
    ThreadMessageCreate,
    UnknownAction,
    UnknownEvent,
)

AT = datetime(2032, 3, 4, 15, tzinfo=UTC)
LATER = "of_a_later_revision"
CHANGED = ("status", "reply_status", "code", "role", "api_version")
"""The fields whose values become unknown ones. The second event of each list becomes one of an unknown type."""


def as_later_revision(value: Any) -> Any:
    """The value as a later revision may send it."""
    if isinstance(value, list):
        return [as_later_revision(part) for part in value]
    if not isinstance(value, dict):
        return value
    found = {name: LATER if name in CHANGED and part else as_later_revision(part) for name, part in value.items()}
    if found.get("object") is None and "type" in found:
        found["type"] = LATER  # an action or an error
    return found | {"a_later_field": {"x": 1}}


class Later(httpx.BaseTransport):
    """Sends requests to the service and changes its responses."""

    def __init__(self) -> None:
        self.real = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The changed response of the service."""
        response = self.real.handle_request(request)
        document = as_later_revision(json.loads(response.read()))
        if request.url.path == "/v1/events":
            for event in document["data"][1::2]:
                event |= {"type": "robot.created", "data": {"object": {"object": "robot", "wheels": 4}}}
        return httpx.Response(response.status_code, json=document)


def events(client: AuthenticatedClient, count: int) -> list[Any]:
    """All events, once there are so many: the way in which a client catches up."""
    deadline = time.monotonic() + 30
    while True:
        page = list_events.sync(client=client, limit=100)
        if len(page.data) >= count:
            return list(page.data)
        assert time.monotonic() < deadline, "not within 30 seconds"
        time.sleep(0.2)


def main(base_url: str, api_key: str) -> None:
    """Read everything that has known values."""
    arguments: dict[str, Any] = {"raise_on_unexpected_status": True, "timeout": 40}
    client = AuthenticatedClient(base_url, api_key, httpx_args={"transport": Later()}, **arguments)
    customer = create_customer.sync(client=client, body=CustomerCreate(phone="+1 500 555 0006"))
    body = AppointmentCreate(customer_id=customer.id, appointment_at=AT)
    assert create_appointment.sync(client=client, body=body).status == LATER
    assert list_appointments.sync(client=client).data[0].status == LATER
    for content in ("please confirm my appointment", "I want to talk to a person"):
        reference = CustomerReference(id=customer.id)
        body = ThreadMessageCreate(external_conversation_id=customer.id, customer=reference, content=content)
        answered = send_message_to_thread.sync(client=client, body=body)
        (action,) = answered.reply.actions
        assert isinstance(action, UnknownAction), action
        assert (answered.reply_status, answered.reply.role, action.type_) == (LATER,) * 3, answered
    refused = create_customer.sync(client=client, body=CustomerCreate(phone="12345"))
    assert isinstance(refused, Error), refused
    assert (refused.error.type_, refused.error.code) == (LATER, LATER)
    newest, other, *_ = events(client, 2)
    assert isinstance(other, UnknownEvent), other
    assert (other.type_, other.data.object_["wheels"]) == ("robot.created", 4)
    assert not isinstance(newest, UnknownEvent), newest


if __name__ == "__main__":
    main(*sys.argv[1:])
