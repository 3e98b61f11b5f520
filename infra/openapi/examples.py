"""Example values by field, and example bodies. A test checks them against the schemas."""

from __future__ import annotations

from typing import Any

_ULID = "01kacx5d6n8q2r4s6t8v0w1x2y"
CUSTOMER, APPOINTMENT, SESSION = f"cust_{_ULID}", f"appt_{_ULID}", f"sess_{_ULID}"
_TIME = "2026-11-22T09:30:00.000Z"
_METADATA = {"plan": "gold"}

_FIELDS: dict[str, Any] = {
    "phone": "+15005550006",
    "business_phone": "+15005550199",
    "business_name": "Blue Clinic",
    "question": "Do you have parking?",
    "answer": "Yes, behind the house.",
    "to": "+15005550006",
    "name": "Ada Lovelace",
    "email": "ada@example.com",
    "external_id": "crm-1042",
    "external_conversation_id": "thread-77",
    "metadata": _METADATA,
    "customer_id": CUSTOMER,
    "appointment_id": APPOINTMENT,
    "session_id": SESSION,
    "event_id": f"evt_{_ULID}",
    "webhook_endpoint_id": f"whk_{_ULID}",
    "request_id": f"req_{_ULID}",
    "appointment_at": "2032-03-04T15:00:00.000Z",
    "timezone": "Europe/Berlin",
    "duration_minutes": 30,
    "title": "Check-up",
    "location": "12 Main Street",
    "notes": "Bring the X-rays",
    "instructions": "Ask whether the customer needs a parking space.",
    "content": "Can we move it to next Tuesday at 3pm?",
    "url": "https://example.com/webhooks",
    "event_filters": ["appointment.*"],
    "label": "Production",
    "description": "Updates our calendar",
    "secret_prefix": "whsec_MfKQ9r8",
    "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=",
    "project_id": 1,
    "project_name": "Blue Clinic",
    "summary": "The customer confirmed the appointment.",
    "reason": "The customer asked for a person.",
    "created": 1795339800,
    "event_type": "appointment.confirmed",
    "started_at_ms": 0,
    "ended_at_ms": 2400,
}
_OF_TYPES: dict[tuple[str, str], Any] = {
    **{(name, "from"): "08:30" for name in ("Hours", "HoursInput")},
    **{(name, "to"): "17:00" for name in ("Hours", "HoursInput")},
    ("Recording", "url"): "https://recordings.example.com/call.wav?signature=5f2c",
    ("Message", "content"): "Can we move it to next Tuesday at 3pm?",
    ("Line", "content"): "Yes, I'll be there.",
}


def of(type_name: str, field: str, schema: Any) -> dict[str, Any]:
    """The keyword `examples` of a field; nothing if its other keywords say enough."""
    if (type_name, field) in _OF_TYPES:
        return {"examples": [_OF_TYPES[type_name, field]]}
    if field in _FIELDS and "enum" not in schema and "const" not in schema:
        return {"examples": [_FIELDS[field]]}
    if field == "id" and "pattern" in schema:
        return {"examples": [f"{schema['pattern'][1 : schema['pattern'].index('_') + 1]}{_ULID}"]}
    if schema.get("format") == "date-time":
        return {"examples": [None if "null" in schema["type"] else _TIME]}
    return {}


BODIES: dict[str, dict[str, Any]] = {
    "AgentSettingsPatch": {
        "business_name": "Blue Clinic",
        "timezone": "Europe/Berlin",
        "opening_hours": [
            {"days": ["monday", "tuesday", "wednesday", "thursday", "friday"], "from": "08:30", "to": "17:00"}
        ],
        "facts": [{"question": "Do you have parking?", "answer": "Yes, behind the house, free for patients."}],
    },
    "CustomerCreate": {"phone": "+15005550006", "name": "Ada Lovelace", "external_id": "crm-1042"},
    "CustomerPatch": {"email": "ada@example.com", "metadata": {"plan": "gold"}},
    "AppointmentCreate": {
        "customer_id": CUSTOMER,
        "appointment_at": "2032-03-04T15:00:00Z",
        "timezone": "Europe/Berlin",
        "duration_minutes": 30,
        "title": "Check-up",
    },
    "AppointmentPatch": {"status": "cancelled", "cancellation_reason": "moved away"},
    "CallCreate": {"channel": "phone", "instructions": "Ask whether the customer needs a parking space."},
    "ConversationCreate": {"external_id": "thread-77", "customer": {"phone": "+15005550006", "name": "Ada Lovelace"}},
    "MessageCreate": {"content": "Can we move it to next Tuesday at 3pm?"},
    "ThreadMessageCreate": {
        "external_conversation_id": "thread-77",
        "customer": {"phone": "+15005550006"},
        "content": "Can we move it to next Tuesday at 3pm?",
    },
    "WebhookEndpointCreate": {"url": "https://example.com/webhooks", "event_filters": ["appointment.*"]},
    "WebhookEndpointPatch": {"enabled": False},
    "SecretRotation": {"previous_secret_valid_seconds": 3600},
}
"""An example of the body of each input model."""
