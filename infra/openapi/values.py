"""What the values of enumerations mean whose types do not say so: of events, of errors, and small ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.openapi import text
from shared.appointments.resource import AppointmentStatus
from shared.conversations.resource import Role
from shared.core import errors
from shared.core.call_statuses import SessionCallStatus
from shared.core.event_types import EVENT_DESCRIPTIONS
from shared.webhooks.events import FAMILIES

_OF_CALLS = text.meanings(SessionCallStatus)
_VALUES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "AnsweredBy": (
        "Who answered a call.",
        {"human": "A person.", "machine": "An answering machine, a voice mailbox or another recorded voice."},
    ),
    "AppointmentActionType": (
        "How the agent changed an appointment.",
        {
            "appointment_confirmed": "It confirmed the appointment.",
            "appointment_rescheduled": "It moved the appointment to another time.",
            "appointment_cancelled": "It cancelled the appointment.",
        },
    ),
    "AppointmentCreateStatus": ("The status of a new appointment.", text.meanings(AppointmentStatus)),
    "CallStatus": (
        "What becomes of a call that was requested.",
        {
            "queued": _OF_CALLS["queued"],
            "consent_pending": "The customer is asked for consent. They are called if they agree.",
        },
    ),
    "ErrorCode": ("The error, for programs.", {code: kind.meaning for code, kind in errors.ERRORS.items()}),
    "ErrorType": (
        "The kind of an error.",
        {
            "invalid_request_error": "The request is not valid, or names what does not exist. Correct it.",
            "idempotency_error": "The Idempotency-Key belongs to another request.",
            "authentication_error": "The API key is missing or not valid.",
            "permission_error": "The request is not allowed.",
            "conflict_error": "The state of a resource, or another request, does not allow the request now.",
            "rate_limit_error": "The rate limit is exceeded.",
            "api_error": "The service failed, or was too slow.",
        },
    ),
    "EventFilter": (
        "A type of event, or all types of a kind of resource.",
        EVENT_DESCRIPTIONS | {family: f"Every type that begins with `{family[:-1]}`." for family in FAMILIES},
    ),
    "EventType": ("The type of an event.", EVENT_DESCRIPTIONS),
    "MessageCreateRole": ("Who wrote the message.", text.meanings(Role)),
    "PlacedCallStatus": ("The status of a new call.", _OF_CALLS),
    "Speaker": ("Who says a line of a transcript.", {"agent": "The agent.", "customer": "Who answered the call."}),
}


def describe(named: Mapping[str, Any]) -> None:
    """Add descriptions to schemas, by name."""
    for name, (summary, meanings) in _VALUES.items():
        named[name]["description"] = text.listing(summary, {value: meanings[value] for value in named[name]["enum"]})
