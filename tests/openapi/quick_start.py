"""The README's five minutes with the client that openapi-python-client generates, unmodified.

python quick_start.py BASE_URL API_KEY RECEIVER_URL
needs the generated package on the path, and prints the appointment's id.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from appointments_client import AuthenticatedClient
from appointments_client.api.account import ping
from appointments_client.api.appointments import create_appointment, list_appointments, update_appointment
from appointments_client.api.calls import call_customer, retrieve_recording, retrieve_session, retrieve_transcript
from appointments_client.api.conversations import list_messages, send_message_to_thread
from appointments_client.api.customers import create_customer, retrieve_customer
from appointments_client.api.events import list_deliveries, list_events
from appointments_client.api.webhook_endpoints import create_webhook_endpoint
from appointments_client.models import (
    AppointmentCreate,
    AppointmentPatch,
    AppointmentStatus,
    CallCreate,
    CustomerCreate,
    CustomerReference,
    Error,
    EventFilter,
    ThreadMessageCreate,
    WebhookEndpointCreate,
)

AT = datetime(2027, 3, 4, 15, tzinfo=UTC)


def wait_for(check: Callable[[], Any]) -> Any:
    """What `check` returns once that is true."""
    deadline = time.monotonic() + 30
    while not (found := check()):
        assert time.monotonic() < deadline, "not within 30 seconds"
        time.sleep(0.2)
    return found


def quick_start(client: AuthenticatedClient, receiver: str) -> str:
    """The steps of the README. Returns the id of the appointment whose webhooks the receiver gets."""
    key = ping.sync(client=client)
    assert key.livemode is False, key
    endpoint = create_webhook_endpoint.sync(
        client=client, body=WebhookEndpointCreate(url=receiver, event_filters=[EventFilter.APPOINTMENT])
    )
    assert endpoint.secret.startswith("whsec_")

    customer = create_customer.sync(client=client, body=CustomerCreate(phone="+1 500 555 0006", name="Ada"))
    assert retrieve_customer.sync(customer.id, client=client).phone == "+15005550006"
    appointment = create_appointment.sync(
        client=client, body=AppointmentCreate(customer_id=customer.id, appointment_at=AT), idempotency_key=customer.id
    )
    again = create_appointment.sync(
        client=client, body=AppointmentCreate(customer_id=customer.id, appointment_at=AT), idempotency_key=customer.id
    )
    assert (again.id, again.appointment_at) == (appointment.id, AT)
    confirmed = AppointmentPatch(status=AppointmentStatus.CONFIRMED)
    assert update_appointment.sync(appointment.id, client=client, body=confirmed).status == "confirmed"
    cancelled = AppointmentPatch(status=AppointmentStatus.CANCELLED, cancellation_reason="moved away")
    assert update_appointment.sync(appointment.id, client=client, body=cancelled).cancellation_reason == "moved away"

    event = wait_for(
        lambda: next(iter(list_events.sync(client=client, type_=EventFilter.APPOINTMENT_CANCELLED, limit=1).data), None)
    )
    assert event.data.object_.id == appointment.id
    assert event.data.previous_attributes.status == "confirmed"
    [delivery] = wait_for(lambda: list_deliveries.sync(event.id, client=client).data)
    assert delivery.webhook_endpoint_id == endpoint.id

    checkup = create_appointment.sync(
        client=client, body=AppointmentCreate(customer_id=customer.id, appointment_at=AT, title="Check-up")
    )
    thread = f"thread-{customer.id}"
    asked = send_message_to_thread.sync(
        client=client,
        body=ThreadMessageCreate(
            external_conversation_id=thread,
            customer=CustomerReference(id=customer.id),
            content="can we move it to next Tuesday at 3pm?",
        ),
    )
    assert asked.reply.actions == []
    moved = send_message_to_thread.sync(
        client=client, body=ThreadMessageCreate(external_conversation_id=thread, content="yes")
    )
    assert [action.type_ for action in moved.reply.actions] == ["appointment_rescheduled"]
    messages = list_messages.sync(moved.conversation.id, client=client)
    assert [message.role for message in messages.data] == ["user", "assistant"] * 2

    call = call_customer.sync(customer.id, client=client, body=CallCreate(appointment_id=checkup.id))
    session = wait_for(
        lambda: (
            found := retrieve_session.sync(call.session_id, client=client),
            found.recording_status == "available" and found,
        )[1]
    )
    assert (session.call_status, session.ended_reason, session.consent) == ("completed", "agent_hangup", None)
    assert retrieve_transcript.sync(session.id, client=client).data
    assert retrieve_recording.sync(session.id, client=client).url.startswith("http")

    other = create_customer.sync(client=client, body=CustomerCreate(phone="+1 500 555 0020"))
    pending = call_customer.sync_detailed(other.id, client=client)
    assert (pending.status_code, pending.parsed.status) == (202, "consent_pending")

    refused = create_customer.sync(client=client, body=CustomerCreate(phone="12345"))
    assert isinstance(refused, Error)
    assert (refused.error.code, refused.error.param) == ("phone_invalid_format", "phone")
    page = list_appointments.sync(client=client, customer_id=customer.id, limit=1)
    assert (page.has_more, page.next_cursor) == (True, checkup.id)
    return str(appointment.id)


if __name__ == "__main__":
    base_url, api_key, receiver_url = sys.argv[1:]
    # A status that is not described raises an exception.
    sys.stdout.write(
        quick_start(AuthenticatedClient(base_url, api_key, raise_on_unexpected_status=True, timeout=40), receiver_url)
    )
