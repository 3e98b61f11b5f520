"""The events as webhooks: what a receiver gets, and what its response means."""

from __future__ import annotations

from infra.openapi.schemas import Schema, ref
from shared.core.facts import EVENT_TYPES

_MEANINGS = {
    "appointment.created": "An appointment was created",
    "appointment.confirmed": "An appointment was confirmed",
    "appointment.rescheduled": "An appointment has a new time",
    "appointment.cancelled": "An appointment was cancelled",
    "appointment.failed": "An appointment failed",
    "customer.created": "A customer was created",
    "customer.updated": "A customer was changed",
    "customer.deleted": "A customer was deleted",
    "session.created": "A call was requested",
    "session.dialing": "A call is being dialed",
    "session.completed": "A call was answered and has ended",
    "session.no_answer": "A call was not answered",
    "session.failed": "A call failed",
    "session.invalid_number": "A call could not be dialed, because the number is not valid",
    "session.call_later": "A customer asked to be called at another time",
    "session.transcript_ready": "The transcript of a call is available",
    "session.recording_ready": "The recording of a call is available",
}
_HEADERS = {
    "Service-Signature": (
        "`t=<Unix seconds>,v1=<hex>`: the HMAC-SHA256 of `<t>.<raw body>`, keyed with the endpoint's signing secret.",
        {"type": "string", "pattern": "^t=[0-9]+,v1=[0-9a-f]{64}$"},
    ),
    "webhook-id": (
        "Standard Webhooks: the id of the event. It is the same in every attempt.",
        {"type": "string", "pattern": "^evt_[0-9a-z]{26}$"},
    ),
    "webhook-timestamp": (
        "Standard Webhooks: when the request was signed, in Unix seconds.",
        {"type": "string", "pattern": "^[0-9]+$"},
    ),
    "webhook-signature": (
        "Standard Webhooks: `v1,` and the base64 HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<raw body>`, keyed"
        " with the bytes that the secret encodes in base64 after `whsec_`.",
        {"type": "string", "pattern": "^v1,[A-Za-z0-9+/]{43}=$"},
    ),
}
_RESPONSES = {
    "2XX": "The event is delivered. The service waits 15 seconds for the response.",
    "3XX": "The attempt failed and is retried. Redirects are not followed.",
    "408": "The attempt failed and is retried.",
    "410": "The delivery failed, and the webhook endpoint is disabled.",
    "429": "The attempt failed and is retried.",
    "4XX": "The delivery failed. It is not retried.",
    "5XX": "The attempt failed and is retried, up to nine attempts within about two days.",
}


def webhooks() -> dict[str, Schema]:
    """The webhook of each event type."""
    return {event_type: {"post": _webhook(event_type)} for event_type in EVENT_TYPES}


def _webhook(event_type: str) -> Schema:
    family, _, name = event_type.partition(".")
    event = ref(f"{family.capitalize()}Event")
    return {
        "operationId": f"on_{family}_{name}",
        "summary": _MEANINGS[event_type],
        "description": "Sent to every enabled webhook endpoint whose `event_filters` match. Verify a signature before"
        " you use the body. Events can arrive twice and out of order.",
        "tags": ["Webhooks"],
        "security": [],
        "parameters": [
            {"name": name, "in": "header", "required": True, "description": description, "schema": schema}
            for name, (description, schema) in _HEADERS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"allOf": [event, {"properties": {"type": {"const": event_type}}}]},
                }
            },
        },
        "responses": {status: {"description": description} for status, description in _RESPONSES.items()},
    }
