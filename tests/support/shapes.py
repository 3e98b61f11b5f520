"""The fields of each object and their kinds: contract sections 1 and 5 to 9."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.support.client import REVISIONS, ULID

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

SHAPES: dict[str, dict[str, str]] = {
    "customer": {
        "id": "cust",
        "object": "customer",
        "livemode": "bool",
        "created_at": "time",
        "updated_at": "time",
        "phone": "str?",
        "email": "str?",
        "name": "str?",
        "external_id": "str?",
        "metadata": "dict",
        "deleted_at": "time?",
    },
    "appointment": {
        "id": "appt",
        "object": "appointment",
        "livemode": "bool",
        "created_at": "time",
        "updated_at": "time",
        "customer_id": "cust",
        "session_id": "sess?",
        "status": "str",
        "appointment_at": "time",
        "timezone": "str?",
        "duration_minutes": "int?",
        "title": "str?",
        "location": "str?",
        "notes": "str?",
        "external_id": "str?",
        "metadata": "dict",
        "cancellation_reason": "str?",
        "failure_reason": "str?",
        "deleted_at": "time?",
    },
    "call": {
        "object": "call",
        "status": "queued|consent_pending",
        "session_id": "sess",
        "customer_id": "cust",
        "appointment_id": "appt?",
        "channel": "phone|whatsapp",
        "call_status": "queued",
        "livemode": "bool",
        "created_at": "time",
    },
    "session": {
        "id": "sess",
        "object": "session",
        "livemode": "bool",
        "created_at": "time",
        "updated_at": "time",
        "customer_id": "cust",
        "appointment_id": "appt?",
        "channel": "phone|whatsapp",
        "direction": "outbound",
        "to": "str",
        "call_status": "queued|dialing|completed|no_answer|failed|invalid_number|call_later",
        "ended_reason": (
            "customer_hangup|agent_hangup|no_answer|busy|voicemail|declined|invalid_number|blocked"
            "|destination_not_allowed|provider_error|provider_timeout|max_duration|callback_requested"
            "|consent_declined|consent_expired|consent_revoked|customer_deleted?"
        ),
        "answered_by": "human|machine?",
        "dialed_at": "time?",
        "answered_at": "time?",
        "ended_at": "time?",
        "duration_seconds": "number?",
        "call_later_at": "time?",
        "consent": "dict?",
        "transcript_status": "none|processing|available|failed",
        "recording_status": "none|processing|available|failed",
        "summary": "str?",
        "metadata": "dict",
    },
    "transcript": {"object": "transcript", "session_id": "sess", "status": "str", "data": "list"},
    "recording": {
        "object": "recording",
        "session_id": "sess",
        "status": "str",
        "url": "str",
        "url_expires_at": "time",
        "content_type": "audio/wav",
        "duration_seconds": "number",
    },
    "conversation": {
        "id": "conv",
        "object": "conversation",
        "livemode": "bool",
        "created_at": "time",
        "updated_at": "time",
        "status": "str",
        "external_id": "str?",
        "customer_id": "cust?",
        "metadata": "dict",
        "last_message_at": "time?",
        "ended_at": "time?",
    },
    "webhook_endpoint": {
        "id": "whk",
        "object": "webhook_endpoint",
        "livemode": "bool",
        "created_at": "time",
        "updated_at": "time",
        "url": "str",
        "enabled": "bool",
        "event_filters": "list",
        "label": "str?",
        "description": "str?",
        "secret_prefix": "str",
        "disabled_at": "time?",
        "disabled_reason": "str?",
    },
    "event": {
        "id": "evt",
        "object": "event",
        "type": "str",
        "created": "int",
        "livemode": "bool",
        "api_version": "revision",
        "data": "dict",
    },
    "webhook_delivery": {
        "id": "whd",
        "object": "webhook_delivery",
        "event_id": "evt",
        "event_type": "str",
        "webhook_endpoint_id": "whk",
        "url": "str",
        "status": "str",
        "trigger": "str",
        "retry_of": "whd?",
        "attempt_count": "int",
        "max_attempts": "int",
        "next_attempt_at": "time?",
        "last_attempt_at": "time?",
        "response_status_code": "int?",
        "response_body": "str?",
        "error_code": "str?",
        "duration_ms": "int?",
        "attempts": "list",
        "livemode": "bool",
        "created_at": "time",
        "completed_at": "time?",
    },
}

ATTEMPT = {
    "number": "int",
    "at": "time",
    "response_status_code": "int?",
    "error_code": "str?",
    "duration_ms": "int?",
}

CONSENT = {
    "status": "pending|granted|declined|expired",
    "requested_at": "time?",
    "responded_at": "time?",
    "expires_at": "time?",
}
LINE = {"role": "agent|customer", "content": "str", "started_at_ms": "int", "ended_at_ms": "int"}
"""What was said in a call, one turn of it."""

MESSAGE = {"id": "msg", "object": "message", "role": "str", "content": "str", "created_at": "time"}
MESSAGES = {"user": MESSAGE | {"reply_status": "str"}, "assistant": MESSAGE | {"actions": "list"}}
"""What a transcript shows, by role."""

ACTIONS: dict[str, dict[str, str]] = {
    "handoff": {"reason": "str"},
    "appointment_confirmed": {"appointment_id": "appt"},
    "appointment_rescheduled": {"appointment_id": "appt"},
    "appointment_cancelled": {"appointment_id": "appt"},
    "call_requested": {"session_id": "sess"},
    "conversation_ended": {},
}
REPLY_STATUSES = {"pending", "complete", "failed"}

PREFIXES = {"cust", "appt", "sess", "whk", "evt", "whd", "msg", "conv"}


def is_of_kind(value: object, kind: str) -> bool:
    """A kind is the name of a type, an id's prefix, or the only values there are, `|` between them; `?`: or null."""
    if kind.endswith("?"):
        return value is None or is_of_kind(value, kind[:-1])
    if kind in PREFIXES:
        return isinstance(value, str) and re.fullmatch(f"{kind}_{ULID}", value) is not None
    if kind == "time":
        return isinstance(value, str) and TIMESTAMP.fullmatch(value) is not None
    if kind == "revision":
        return value in REVISIONS
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    types: dict[str, type] = {"bool": bool, "str": str, "dict": dict, "list": list}
    return isinstance(value, types[kind]) if kind in types else value in kind.split("|")


def assert_fields(found: Mapping[str, Any], shape: Mapping[str, str]) -> None:
    assert set(found) == set(shape), f"missing {set(shape) - set(found)}, unexpected {set(found) - set(shape)}"
    wrong = {name: found[name] for name, kind in shape.items() if not is_of_kind(found[name], kind)}
    assert not wrong, f"wrong kind: {wrong}"


def assert_shape(found: Mapping[str, Any], name: str, *, secret: bool = False) -> None:
    """`found` has exactly the fields of the object called `name`, each of its kind."""
    assert_fields(found, SHAPES[name] | ({"secret": "str"} if secret else {}))
    for attempt in found.get("attempts", ()):
        assert_fields(attempt, ATTEMPT)
    if name == "session" and found["consent"] is not None:
        assert_fields(found["consent"], CONSENT)
    if name == "transcript":
        for line in found["data"]:
            assert_fields(line, LINE)


def assert_message(found: Mapping[str, Any]) -> None:
    """`found` is a message as a transcript shows it: a user's tells of its reply, an assistant's of what it did."""
    assert_fields(found, MESSAGES[found["role"]])
    assert found.get("reply_status", "complete") in REPLY_STATUSES
    for action in found.get("actions", ()):
        assert_fields(action, {"type": action["type"]} | ACTIONS[action["type"]])


def assert_answered(found: Mapping[str, Any]) -> None:
    """`found` is the answer to a message: the user's message with the reply and the conversation."""
    assert_fields(found, MESSAGES["user"] | {"role": "user", "reply": "dict", "conversation": "dict"})
    assert found["reply_status"] in {"complete", "failed"}
    assert found["reply"]["role"] == "assistant"
    assert_message(found["reply"])
    assert_shape(found["conversation"], "conversation")


def assert_page(found: Mapping[str, Any], url: str, name: str) -> None:
    """`found` is a list envelope whose items are objects called `name`."""
    assert set(found) == {"object", "data", "has_more", "next_cursor", "url"}
    assert found["object"] == "list"
    assert found["url"] == url
    assert isinstance(found["has_more"], bool)
    assert (found["next_cursor"] is not None) == found["has_more"]
    for item in found["data"]:
        if name == "message":
            assert_message(item)
        else:
            assert_shape(item, name)
