"""What the pages show of the code's own data, as Markdown. Templates call these functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shared.api import idempotency
from shared.appointments import resource as appointments
from shared.appointments.resource import AppointmentStatus
from shared.calls import recordings, sessions
from shared.calls.consent import consents
from shared.conversations import resource as conversations
from shared.conversations import turns
from shared.core import clock, limits
from shared.core.api_description import REVISIONS
from shared.core.errors import ERRORS, NEVER_SAVED, RETRYABLE
from shared.core.event_types import EVENT_DESCRIPTIONS
from shared.core.limits import RETRY_SCHEDULE_S
from shared.customers.resource import CUSTOMERS
from shared.docs import samples
from shared.resources import pages, queries
from shared.resources.collections import Collection
from shared.telephony import SessionCallStatus, test_numbers
from shared.telephony.test_numbers import ConsentBehaviour
from shared.webhooks import events, health

LIMITS: Mapping[str, str] = {
    **{name.lower(): f"{value:,}" for name, value in vars(limits).items() if isinstance(value, int)},
    "metadata_kb": str(limits.METADATA_BYTES // 1024),
    "page_items": str(queries.MAX_LIMIT),
    "list_seconds": str(pages.SECONDS),
    "agent_seconds": str(turns.WINDOW_S),
    "event_days": str(events.RETENTION_MS // clock.DAY),
    "failing_days": str(health.FAILING_LIMIT_S * clock.SECOND // clock.DAY),
    "idempotency_hours": str(idempotency.SAVED_MS // clock.HOUR),
    "consent_days": str(consents.LASTS_S * clock.SECOND // clock.DAY),
    "consent_silence_seconds": str(consents.SILENCE_S),
    "recording_link_minutes": str(recordings.LINK_LASTS_MS // clock.MINUTE),
}
"""Limits as the pages state them: `{{ limits.webhook_endpoints }}`."""
CHANGES: Mapping[str, tuple[str, ...]] = {
    "2026-06-01": (
        "Customers and appointments, with filters, pages and `metadata`.",
        "Conversations with the agent, by their ids or by your own thread ids.",
        "Sessions, read only, with transcript and recording.",
        "Webhook endpoints with signing secrets that can be rotated.",
        "Signed events of appointments, their log, deliveries, manual retries.",
        "API keys of test and live mode, Idempotency-Keys, rate limits.",
    ),
    "2026-08-03": (
        "`POST /v1/customers/{id}/call` places a call. Its response is 202 while consent is pending.",
        "Sessions have `call_status`.",
    ),
    "2026-08-22": ("Messages take `markdown`: with `false`, the reply is plain text.",),
    "2026-12-01": (
        "`/v1/agent_settings`: what the [agent](/docs/agent) knows, which new times it may agree to, when it calls.",
        "Calls take `not_before`. Calls and sessions have `not_before` and `dial_at`. `POST /v1/sessions/{id}/cancel` "
        "cancels a [call that waits](/docs/calls#when-calls-are-made).",
        "Sessions have `outcome`, and a filter of this name.",
        "Customers have `do_not_call`, and `POST /v1/customers/{id}/opt_in` lifts an "
        "[opt-out](/docs/calls#people-who-do-not-want-to-be-called). The action `customer_opted_out` reports one.",
        "Conversations have `waiting` and `handoff`, and a filter `waiting`. "
        "`POST /v1/conversations/{id}/resume` gives one back to the agent.",
        "Messages take the role `staff`, and replies have `holding`: see [Handoff](/docs/conversations#handoff).",
        "Events of conversations, `conversation.*`, and `appointment.updated`.",
        "`rotate_secret` takes `previous_secret_valid_seconds`; webhook endpoints have `previous_secret_expires_at`.",
        "What the agent says first, in calls and conversations: that it is an automated assistant.",
    ),
}
"""What each revision added."""
LISTS: Mapping[str, Collection[Any, Any]] = {
    "/v1/customers": CUSTOMERS,
    "/v1/appointments": appointments.APPOINTMENTS,
    "/v1/sessions": sessions.SESSIONS,
    "/v1/conversations": conversations.CONVERSATIONS,
    "/v1/events": events.EVENTS,
}
"""The lists with filters."""
_APPOINTMENT_EFFECTS = {
    8: "rescheduled to a day later",
    9: "cancelled",
    10: "unchanged",
    12: "unchanged; somebody else answers",
    13: "unchanged; the phone is opted out",
}
_CONSENT_WORDS = {
    ConsentBehaviour.ACCEPTS: f"accepts after {consents.SIMULATED_ANSWER_S} seconds",
    ConsentBehaviour.DECLINES: f"declines after {consents.SIMULATED_ANSWER_S} seconds",
    ConsentBehaviour.SILENT: f"never answers; the request expires after {consents.SILENCE_S} seconds",
    ConsentBehaviour.LIMITED: "cannot be asked: 409 `consent_request_limited`",
    ConsentBehaviour.ON_FILE: "has given consent before: 201, as for a phone call",
}


def errors() -> str:
    """Every error code, grouped by status."""
    statuses = sorted({kind.status for kind in ERRORS.values()})
    return "\n\n".join(_errors_of(status) for status in statuses)


def retryable() -> str:
    """The codes whose requests may always be retried."""
    return _words(code for code in ERRORS if code in RETRYABLE)


def transient() -> str:
    """The conflicts that are never saved for an Idempotency-Key."""
    return _words(code for code in ERRORS if code in NEVER_SAVED)


def revisions() -> str:
    """The dates of the revisions."""
    return _words(REVISIONS)


def changelog() -> str:
    """What each revision added, the newest first."""
    return "\n\n".join(
        f"## {revision}\n\n" + "\n".join(f"- {change}" for change in CHANGES[revision])
        for revision in reversed(REVISIONS)
    )


def list_filters() -> str:
    """The filters of each list."""
    rows = []
    for path, collection in LISTS.items():
        names = (f"`{name}`" + " (may be repeated)" * (name in collection.repeatable) for name in collection.filters)
        ranges = (f"`{name}`" for name in (collection.time_field, collection.created) if name)
        rows.append((f"`{path}`", ", ".join(names), ", ".join(ranges)))
    return _table(("List", "Filters", "Ranges"), rows)


def retry_schedule() -> str:
    """The wait before each attempt of a delivery."""
    rows = []
    total = 0
    for number, wait in enumerate(RETRY_SCHEDULE_S, start=1):
        total += wait
        rows.append((str(number), _duration(wait) if wait else "none", _duration(total) if total else "at once"))
    return _table(("Attempt", "Wait before it", "Earliest time after the event"), rows)


def attempts() -> int:
    """The number of attempts of a delivery."""
    return len(RETRY_SCHEDULE_S)


def transitions() -> str:
    """Which appointment status may follow which."""
    targets = [*AppointmentStatus][1:]
    rows = []
    for status in [*AppointmentStatus]:
        allowed = appointments.TRANSITIONS[status]
        row = [f"`{status}`"]
        for target in targets:
            if target == status and target != AppointmentStatus.RESCHEDULED:
                row.append("no change")
            else:
                row.append("yes" if target in allowed else "no")
        rows.append(row)
    return _table(("From", *(f"To `{target}`" for target in targets)), rows)


def call_statuses() -> str:
    """Which call status may follow which."""
    rows = [
        (f"`{status}`", ", ".join(f"`{one}`" for one in SessionCallStatus if one in following) or "none: final")
        for status, following in sessions.TRANSITIONS.items()
    ]
    return _table(("Status", "May become"), rows)


def call_numbers() -> str:
    """The test numbers that select the outcome of a call."""
    rows = []
    for number, outcome in test_numbers.OUTCOMES.items():
        if number in test_numbers.IMPLIES_WHATSAPP:
            continue
        ending = outcome.ending
        effect = _APPOINTMENT_EFFECTS.get(number, "confirmed" if ending.call_status == "completed" else "unchanged")
        reason = "`agent_hangup` or `customer_hangup`" if outcome.says else f"`{ending.ended_reason}`"
        if ending.call_status == SessionCallStatus.CALL_LATER:
            reason = f"`{ending.ended_reason}`"
        phone = f"`+1500555{number:04d}`"
        rows.append((phone, f"`{ending.call_status}`", reason, effect, "yes" if outcome.says else "no"))
    return _table(("Number", "`call_status`", "`ended_reason`", "Appointment", "Transcript and recording"), rows)


def consent_numbers() -> str:
    """The test numbers that are called on WhatsApp."""
    rows = []
    for number in sorted(test_numbers.IMPLIES_WHATSAPP):
        phone = f"+1500555{number:04d}"
        rows.append((f"`{phone}`", _CONSENT_WORDS[test_numbers.consent(phone)]))
    return _table(("Number", "The customer"), rows)


def filters() -> str:
    """The wildcards of event filters."""
    return _words(events.FAMILIES)


def event_types() -> str:
    """Every event type with its meaning and a payload."""
    return "\n\n".join(_event(type) for type in EVENT_DESCRIPTIONS)


def event_list() -> str:
    """Every event type with its meaning, as a table."""
    rows = [(f"[`{type}`](#{type})", EVENT_DESCRIPTIONS[type]) for type in EVENT_DESCRIPTIONS]
    return _table(("Type", "Meaning"), rows)


def _event(type: str) -> str:
    payload = json.dumps(samples.event(type), indent=2, ensure_ascii=False)
    return f"## {type}\n\n{EVENT_DESCRIPTIONS[type]}\n\n```json\n{payload}\n```"


def _errors_of(status: int) -> str:
    entries = []
    for code, kind in ERRORS.items():
        if kind.status == status:
            note = " Temporary: it is never saved for an Idempotency-Key." if code in NEVER_SAVED else ""
            entries.append(f"### {code}\n\n{kind.meaning} {kind.remedy}\n\nType `{kind.type}`.{note}")
    return f"## HTTP {status}\n\n" + "\n\n".join(entries)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _words(codes: Iterable[str]) -> str:
    *most, last = (f"`{code}`" for code in codes)
    return f"{', '.join(most)} and {last}"


def _duration(seconds: int) -> str:
    parts = []
    for size, unit in ((3600, "hour"), (60, "minute"), (1, "second")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    return " ".join(parts)
