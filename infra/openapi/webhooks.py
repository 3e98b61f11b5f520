"""The events as webhooks: what a receiver gets, and what its response means."""

from __future__ import annotations

from infra.openapi.schemas import Schema, ref, resource_of
from shared.core import limits
from shared.core.event_types import EVENT_DESCRIPTIONS
from shared.core.limits import RETRY_SCHEDULE_S
from shared.docs import samples

_HEADERS = {
    "Service-Signature": (
        "`t=<Unix seconds>,v1=<hex>`: the HMAC-SHA256 of `<t>.<raw body>`, keyed with the endpoint's signing secret."
        " While a previous secret is valid, a second `v1` is computed with it: accept a request if any `v1` matches.",
        {"type": "string", "pattern": "^t=[0-9]+(,v1=[0-9a-f]{64}){1,2}$"},
    ),
    "webhook-id": (
        "Standard Webhooks: the id of the event. It is the same in every attempt.",
        {"type": "string", "pattern": "^evt_[0-9a-z]{26}$"},
    ),
    "webhook-timestamp": (
        "Standard Webhooks: when the request was signed, in Unix seconds.",
        {"type": "string", "format": "unixtime", "pattern": "^[0-9]+$"},
    ),
    "webhook-signature": (
        "Standard Webhooks: `v1,` and the base64 HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<raw body>`, keyed"
        " with the bytes that the secret encodes in base64 after `whsec_`. While a previous secret is valid, a second"
        " signature follows after a space.",
        {"type": "string", "pattern": "^v1,[A-Za-z0-9+/]{43}=( v1,[A-Za-z0-9+/]{43}=)?$"},
    ),
}
_RESPONSES = {
    "2XX": f"The event is delivered. The service waits {limits.RECEIVER_S} seconds for the response.",
    "3XX": "The attempt failed and is retried. Redirects are not followed.",
    "408": "The attempt failed and is retried.",
    "410": "The delivery failed, and the webhook endpoint is disabled.",
    "429": "The attempt failed and is retried.",
    "4XX": "The delivery failed. It is not retried.",
    "5XX": f"The attempt failed and is retried, up to {len(RETRY_SCHEDULE_S)} attempts within about two days.",
}
_DESCRIPTION = """Sent to every enabled webhook endpoint whose `event_filters` match. Verify a signature before you \
use the body. Events can arrive twice and out of order."""


def webhooks() -> dict[str, Schema]:
    """The webhook of each event type."""
    return {event_type: {"post": _webhook(event_type)} for event_type in EVENT_DESCRIPTIONS}


def _webhook(event_type: str) -> Schema:
    family, _, name = event_type.partition(".")
    event = ref(f"{resource_of(event_type)}Event")
    summary, _, details = EVENT_DESCRIPTIONS[event_type].partition(". ")
    return {
        "operationId": f"on_{family}_{name}",
        "summary": summary.removesuffix("."),
        "description": f"{details} {_DESCRIPTION}".lstrip(),
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
                    "example": samples.event(event_type),
                }
            },
        },
        "responses": {status: {"description": description} for status, description in _RESPONSES.items()},
    }
