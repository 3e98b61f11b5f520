"""Example values by field, and example bodies. A test checks them against the schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.docs import samples

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
    "created": 1795339800,
    "event_type": "appointment.confirmed",
    "started_at_ms": 0,
    "ended_at_ms": 2400,
    "max_attempts": 9,
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

_TIMES = {"livemode": False, "created_at": _TIME, "updated_at": _TIME}
_QUESTION = {"id": f"msg_{_ULID}", "object": "message", "role": "user", "content": "please confirm my appointment"}
_REPLY = {
    "id": "msg_01kacx5d6n8q2r4s6t8v0w1x2z",
    "object": "message",
    "role": "assistant",
    "content": "I am the automated AI assistant of Blue Clinic.\n\nYour appointment is confirmed.",
    "created_at": "2026-11-22T09:30:01.000Z",
    "actions": [{"type": "appointment_confirmed", "appointment_id": samples.APPOINTMENT["id"]}],
    "holding": False,
}
_MESSAGE = {**_QUESTION, "created_at": _TIME, "reply_status": "complete"}
_ANSWERED = {**_MESSAGE, "reply": _REPLY, "conversation": samples.CONVERSATION}
_HOURS = {"days": ["monday", "tuesday", "wednesday", "thursday", "friday"], "from": "08:30", "to": "17:00"}
_ENDPOINT = {
    "id": f"whk_{_ULID}",
    "object": "webhook_endpoint",
    **_TIMES,
    "url": "https://example.com/webhooks",
    "enabled": True,
    "event_filters": ["appointment.*"],
    "label": "Production",
    "description": None,
    "secret_prefix": "whsec_MfKQ9r8",
    "previous_secret_expires_at": None,
    "disabled_at": None,
    "disabled_reason": None,
}
RESPONSES: Mapping[str, Any] = {
    "AgentSettings": {
        "object": "agent_settings",
        **_TIMES,
        "business_name": "Blue Clinic",
        "business_phone": "+15005550199",
        "timezone": "Europe/Berlin",
        "language": "en",
        "opening_hours": [_HOURS],
        "facts": [{"question": "Do you have parking?", "answer": "Yes, behind the house."}],
        "change_policy": "within_hours",
        "minimum_notice_minutes": 120,
        "calling_hours": [_HOURS],
    },
    "AnsweredMessage": _ANSWERED,
    "Appointment": samples.APPOINTMENT,
    "Call": {
        "object": "call",
        "status": "queued",
        "session_id": samples.SESSION["id"],
        "customer_id": samples.CUSTOMER["id"],
        "appointment_id": samples.APPOINTMENT["id"],
        "channel": "phone",
        "call_status": "queued",
        "not_before": None,
        "dial_at": _TIME,
        "livemode": False,
        "created_at": _TIME,
    },
    "Conversation": samples.CONVERSATION,
    "Customer": samples.CUSTOMER,
    "DeletedWebhookEndpoint": {"id": f"whk_{_ULID}", "object": "webhook_endpoint", "deleted": True},
    "Delivery": {
        "id": f"whd_{_ULID}",
        "object": "webhook_delivery",
        "event_id": samples.event("appointment.confirmed")["id"],
        "event_type": "appointment.confirmed",
        "webhook_endpoint_id": f"whk_{_ULID}",
        "url": "https://example.com/webhooks",
        "status": "succeeded",
        "trigger": "automatic",
        "retry_of": None,
        "attempt_count": 1,
        "max_attempts": 9,
        "next_attempt_at": None,
        "last_attempt_at": _TIME,
        "response_status_code": 204,
        "response_body": "",
        "error_code": None,
        "duration_ms": 84,
        "attempts": [
            {"number": 1, "at": _TIME, "response_status_code": 204, "error_code": None, "duration_ms": 84},
        ],
        "livemode": False,
        "created_at": _TIME,
        "completed_at": _TIME,
    },
    "Event": samples.event("appointment.confirmed"),
    "Message": _MESSAGE,
    "Ping": {
        "object": "ping",
        "project_id": 1,
        "project_name": "Blue Clinic",
        "livemode": False,
        "request_id": f"req_{_ULID}",
    },
    "PostedMessage": _ANSWERED,
    "Recording": {
        "object": "recording",
        "session_id": samples.SESSION["id"],
        "status": "available",
        "url": "https://recordings.example.com/call.wav?signature=5f2c",
        "url_expires_at": "2026-11-22T09:45:00.000Z",
        "content_type": "audio/wav",
        "duration_seconds": 21,
    },
    "Session": samples.SESSION,
    "Transcript": {
        "object": "transcript",
        "session_id": samples.SESSION["id"],
        "status": "available",
        "data": [
            {"role": "agent", "content": "Will you be there?", "started_at_ms": 300, "ended_at_ms": 1500},
            {"role": "customer", "content": "Yes, I'll be there.", "started_at_ms": 1800, "ended_at_ms": 3100},
        ],
    },
    "WebhookEndpoint": _ENDPOINT,
    "WebhookEndpointWithSecret": {**_ENDPOINT, "secret": _FIELDS["secret"]},
}
"""An example of the body of each success, by the name of its schema. A list has one item."""

_WAITING: Mapping[str, Any] = {
    "id": "whd_01kacx5d6n8q2r4s6t8v0w1x2z",
    "status": "attempting",
    "trigger": "manual",
    "retry_of": f"whd_{_ULID}",
    "attempt_count": 0,
    "attempts": [],
    "next_attempt_at": _TIME,
    **dict.fromkeys(("last_attempt_at", "response_status_code", "response_body", "duration_ms", "completed_at")),
}
_AFTER: Mapping[tuple[str, int], Mapping[str, Any]] = {
    ("call_customer", 202): {"status": "consent_pending", "channel": "whatsapp", "dial_at": None},
    ("cancel_session", 200): {
        "call_status": "failed",
        "ended_reason": "canceled",
        "outcome": "not_placed",
        "dial_at": None,
        "ended_at": _TIME,
    },
    ("delete_appointment", 200): {"status": "cancelled", "deleted_at": _TIME},
    ("delete_customer", 200): {"deleted_at": _TIME},
    ("end_conversation", 200): {"status": "ended", "ended_at": _TIME},
    ("retry_delivery", 202): _WAITING,
    ("test_webhook_endpoint", 202): {
        **_WAITING,
        "event_type": "appointment.created",
        "trigger": "test",
        "retry_of": None,
    },
    ("update_appointment", 200): BODIES["AppointmentPatch"],
    ("update_customer", 200): BODIES["CustomerPatch"],
    ("update_webhook_endpoint", 200): {"enabled": False, "disabled_at": _TIME, "disabled_reason": "manual"},
}
"""What an operation changes in the example of its response."""


def response(operation: str, status: int, path: str, name: str) -> Any:
    """The example of a success of an operation, whose schema has this name."""
    if name in RESPONSES:
        return {**RESPONSES[name], **_AFTER.get((operation, status), {})}
    parent = "conv" if operation == "list_messages" else "evt"
    return {
        "object": "list",
        "url": path.replace("{id}", f"{parent}_{_ULID}"),
        "data": [RESPONSES[name.removesuffix("List")]],
        "has_more": False,
        "next_cursor": None,
    }
