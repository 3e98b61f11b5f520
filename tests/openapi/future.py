"""The generated Python client reads values of a later revision.

python future.py LATER_URL BASE_URL API_KEY RECEIVER_URL      with the generated package on the path
LATER_URL is that of the server that changes the responses of the service at BASE_URL.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
from appointments_client import AuthenticatedClient
from appointments_client.api.agent import retrieve_agent_settings
from appointments_client.api.appointments import create_appointment, list_appointments
from appointments_client.api.calls import (
    call_customer,
    list_sessions,
    retrieve_recording,
    retrieve_session,
    retrieve_transcript,
)
from appointments_client.api.conversations import send_message_to_thread
from appointments_client.api.customers import create_customer
from appointments_client.api.events import list_events
from appointments_client.api.webhook_endpoints import (
    create_webhook_endpoint,
    delete_webhook_endpoint,
    test_webhook_endpoint,
)
from appointments_client.models import (
    AppointmentCreate,
    CustomerCreate,
    CustomerReference,
    Error,
    SessionEvent,
    ThreadMessageCreate,
    UnknownAction,
    UnknownEvent,
    WebhookEndpointCreate,
)
from appointments_client.types import UNSET

AT = datetime(2032, 3, 4, 15, tzinfo=UTC)
LATER = "of_a_later_revision"
OVERLAP = 120
"""The seconds before the time of the last catch-up that the next one reads again."""


def wait_for(check: Callable[[], Any]) -> Any:
    """What `check` returns once that is true."""
    deadline = time.monotonic() + 30
    while not (found := check()):
        assert time.monotonic() < deadline, "not within 30 seconds"
        time.sleep(0.2)
    return found


class CatchUp:
    """Reads the events that were missed, as the page `catch-up` of the documentation says."""

    def __init__(self, client: AuthenticatedClient, since: int) -> None:
        self.client, self.read_until = client, since
        self.processed: list[Any] = []
        self.repeated = 0

    def run(self) -> list[Any]:
        """Process the events since the last run that are not processed yet. Returns all that are."""
        began, known = int(time.time()), {event.id for event in self.processed}
        found = self.events_since(self.read_until - OVERLAP)
        self.processed += [event for event in found if event.id not in known]
        self.repeated += sum(event.id in known for event in found)
        self.read_until = began
        return self.processed

    def events_since(self, moment: int) -> list[Any]:
        """All events since a time in Unix seconds, oldest first."""
        found, cursor = [], UNSET
        while True:
            page = list_events.sync(client=self.client, createdgte=moment, limit=3, starting_after=cursor)
            found += page.data
            if not page.has_more:
                return found[::-1]
            cursor = page.next_cursor


def ids_in_the_log(base_url: str, api_key: str, since: int) -> set[str]:
    """The ids of the events since a time, read on one page and unchanged."""
    params, headers = {"limit": 100, "created[gte]": since}, {"Authorization": f"Bearer {api_key}"}
    page = httpx.get(f"{base_url}/v1/events", params=params, headers=headers, timeout=40).json()
    assert not page["has_more"]
    return {event["id"] for event in page["data"]}


def converse(client: AuthenticatedClient, customer_id: str) -> None:
    """Make an appointment, and write to the agent about it."""
    body = AppointmentCreate(customer_id=customer_id, appointment_at=AT)
    assert create_appointment.sync(client=client, body=body).status == LATER
    assert list_appointments.sync(client=client).data[0].status == LATER
    for content in ("please confirm my appointment", "I want to talk to a person"):
        reference = CustomerReference(id=customer_id)
        body = ThreadMessageCreate(external_conversation_id=customer_id, customer=reference, content=content)
        answered = send_message_to_thread.sync(client=client, body=body)
        (action,) = answered.reply.actions
        assert isinstance(action, UnknownAction), action
        assert (answered.reply_status, answered.reply.role, action.type_) == (LATER,) * 3, answered


def call(client: AuthenticatedClient, customer_id: str) -> None:
    """Call the customer, and read what is known of the call."""
    placed = call_customer.sync(customer_id, client=client)
    assert (placed.status, placed.call_status, placed.channel) == (LATER,) * 3, placed
    wait_for(lambda: retrieve_session.sync(placed.session_id, client=client).ended_at)
    wait_for(lambda: retrieve_transcript.sync(placed.session_id, client=client).data)
    recording = wait_for(lambda: (found := retrieve_recording.sync(placed.session_id, client=client)).url and found)
    assert (recording.status, recording.content_type) == (LATER,) * 2, recording
    retrieved = retrieve_session.sync(placed.session_id, client=client)
    [listed] = list_sessions.sync(client=client, customer_id=customer_id).data
    for session in (retrieved, listed):
        assert (session.call_status, session.ended_reason, session.outcome) == (LATER,) * 3, session
        assert (session.channel, session.direction, session.answered_by) == (LATER,) * 3, session
        assert (session.transcript_status, session.recording_status) == (LATER,) * 2, session


def main(later_url: str, base_url: str, api_key: str, receiver_url: str) -> None:
    """Read everything that has known values."""
    arguments: dict[str, Any] = {"raise_on_unexpected_status": True, "timeout": 40}
    client = AuthenticatedClient(later_url, api_key, **arguments)
    since = int(time.time())
    catch_up = CatchUp(client, since)
    customer = create_customer.sync(client=client, body=CustomerCreate(phone="+1 500 555 0006"))
    converse(client, customer.id)
    wait_for(lambda: len(catch_up.run()) >= 4)
    call(client, customer.id)
    refused = create_customer.sync(client=client, body=CustomerCreate(phone="12345"))
    assert isinstance(refused, Error), refused
    assert (refused.error.type_, refused.error.code) == (LATER, LATER)
    assert retrieve_agent_settings.sync(client=client).language == LATER
    endpoint = create_webhook_endpoint.sync(client=client, body=WebhookEndpointCreate(url=receiver_url))
    delivery = test_webhook_endpoint.sync(endpoint.id, client=client)
    assert (delivery.max_attempts, delivery.status, delivery.trigger) == (12, LATER, LATER), delivery
    delete_webhook_endpoint.sync(endpoint.id, client=client)

    wait_for(lambda: {event.id for event in catch_up.run()} == ids_in_the_log(base_url, api_key, since - OVERLAP))
    ids = [event.id for event in catch_up.processed]
    assert len(ids) == len({*ids}) > 6, ids  # more than two pages
    assert catch_up.repeated, "the overlap had no event"
    unknown = [event for event in catch_up.processed if isinstance(event, UnknownEvent)]
    assert {(event.type_, event.data.object_["wheels"]) for event in unknown} == {("robot.created", 4)}
    calls = [event for event in catch_up.processed if isinstance(event, SessionEvent)]
    assert {(event.api_version, event.data.object_.direction) for event in calls} == {(LATER, LATER)}


if __name__ == "__main__":
    main(*sys.argv[1:])
