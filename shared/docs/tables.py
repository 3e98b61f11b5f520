"""What the pages show of the code's own data, as Markdown. Templates call these functions."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.agent_settings.resource import MAX_FACTS, MAX_FACTS_BYTES, AgentSettingsPatch
from shared.api import idempotency
from shared.appointments import resource as appointments
from shared.appointments.resource import AppointmentPatch, AppointmentStatus
from shared.calls import project_limits, recordings, sessions, simulated_numbers
from shared.calls.commands import CallCreate
from shared.calls.consent import consents
from shared.calls.simulated_numbers import ConsentBehaviour
from shared.conversations import resource as conversations
from shared.conversations import turns
from shared.conversations.resource import ConversationCreate, MessageCreate, ThreadMessageCreate
from shared.core import clock, limits, settings
from shared.core.api_description import REVISIONS
from shared.core.call_statuses import SessionCallStatus
from shared.core.errors import ERRORS, NEVER_SAVED, RETRYABLE, Code
from shared.core.event_types import EVENT_DESCRIPTIONS
from shared.core.limits import RETRY_SCHEDULE_S
from shared.customers.resource import CUSTOMERS, CustomerCreate
from shared.docs import samples
from shared.resources import fields, list_pages, queries
from shared.resources.collections import Collection
from shared.webhooks import events, health
from shared.webhooks.endpoints.resource import SecretRotation, WebhookEndpointCreate

LIMITS: Mapping[str, str] = {
    **{name.lower(): f"{value:,}" for name, value in vars(limits).items() if isinstance(value, int)},
    "metadata_kb": str(limits.METADATA_BYTES // 1024),
    "facts": str(MAX_FACTS),
    "facts_kb": str(MAX_FACTS_BYTES // 1024),
    "page_items": str(queries.MAX_LIMIT),
    "list_seconds": str(list_pages.SECONDS),
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
        "Signed events of appointments and customers, their log, deliveries, manual retries.",
        "API keys of test and live mode, Idempotency-Keys, rate limits.",
    ),
    "2026-08-03": (
        "`POST /v1/customers/{id}/call` requests a call. Its response is 202 while consent is pending.",
        "Sessions have `call_status`, and their changes are events, `session.*`.",
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
        "API keys may end (401 `api_key_expired`), or be read-only (403 `permission_denied` for all but GET).",
        "What the agent says first, in calls and conversations: that it is an automated assistant.",
    ),
}
"""What each revision is about."""
_INPUTS: Mapping[str, type[fields.Input]] = {
    "Customers": CustomerCreate,
    "Appointments": AppointmentPatch,
    "Calls": CallCreate,
    "Conversations": ConversationCreate,
    "Messages": MessageCreate,
    "Messages of a thread": ThreadMessageCreate,
    "Webhook endpoints": WebhookEndpointCreate,
    "Rotation of a secret": SecretRotation,
    "Settings of the agent": AgentSettingsPatch,
}
"""The bodies of requests, by what they are called."""
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
    """What each revision added, the newest first. The first one added everything else."""
    parts = []
    for revision in reversed(REVISIONS):
        parts.append(f"## {revision}\n\n" + "\n".join(f"- {change}" for change in CHANGES[revision]))
        if revision != REVISIONS[0]:
            parts += [f"New {kind}:\n\n{_added(names)}" for kind, names in additions()[revision].items()]
    return "\n\n".join(parts)


@functools.cache
def additions() -> Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]]:
    """What each revision added to the API description: revision, kind, what it belongs to, names."""
    revisions: Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]]
    revisions = json.loads(Path(__file__).with_name("revisions.json").read_text(encoding="utf-8"))
    return revisions


def _added(names: Mapping[str, Sequence[str]]) -> str:
    lines = ((f"`{of}`: " if of else "", ", ".join(f"`{name}`" for name in own)) for of, own in names.items())
    return "\n".join(f"- {of}{own}" for of, own in lines)


def list_filters() -> str:
    """The filters of each list."""
    rows = []
    for path, collection in LISTS.items():
        names = (
            f"`{name}` (may be repeated)" if name in collection.parameters.repeatable else f"`{name}`"
            for name in collection.parameters.filters
        )
        ranges = (f"`{name}`" for name in (collection.indexes.time_field, collection.parameters.created) if name)
        rows.append((f"`{path}`", ", ".join(names), ", ".join(ranges)))
    return _table(("List", "Filters", "Ranges"), rows)


def request_limits() -> str:
    """What a request may have, and what happens beyond it."""
    rows = (
        ("The body", f"{limits.BODY_BYTES // 1024} KiB", _code(Code.REQUEST_TOO_LARGE)),
        ("Nesting of the body", f"{limits.JSON_LEVELS} levels", _code(Code.INVALID_JSON)),
        ("Requests of an API key", f"{LIMITS['requests_per_second']} in a second", _code(Code.RATE_LIMIT_EXCEEDED)),
        ("", f"{LIMITS['requests_per_minute']} in a minute", _code(Code.RATE_LIMIT_EXCEEDED)),
        *_stage_rows(),
        *_firewall_rows(),
        ("Items of a page", LIMITS["page_items"], "The page has that many"),
        (
            "The search of a filter that finds nothing",
            f"{LIMITS['list_seconds']} seconds",
            _code(Code.SERVICE_UNAVAILABLE),
        ),
        (
            "An Idempotency-Key",
            f"{limits.IDEMPOTENCY_KEY_CHARACTERS} characters, kept for {LIMITS['idempotency_hours']} hours",
            _code(Code.IDEMPOTENCY_KEY_INVALID),
        ),
        (
            "Metadata",
            f"{limits.METADATA_KEYS} keys of {limits.METADATA_KEY_CHARACTERS} characters, values of "
            f"{limits.METADATA_VALUE_CHARACTERS} characters, {LIMITS['metadata_kb']} KB in all",
            _code(Code.METADATA_INVALID),
        ),
    )
    return _table(("What", "Limit", "Beyond it"), rows)


def stage_limits() -> str:
    """API Gateway's limits for all projects together, in a sentence."""
    rates = settings.stage_rates()
    if rates is None:
        return "You read this on the local runner, which has no such limits."
    requests, messages = rates
    return (
        f"For all projects together, they are {requests:,} requests per second to one operation, and {messages:,} "
        "per second to each of the two routes that receive messages."
    )


def firewall_limits() -> str:
    """The firewall's limits of an IP address, in a sentence or two."""
    rates = settings.firewall_rates()
    if rates is None:
        return "Here, no firewall limits the requests of an IP address. On another stage, there may be one."
    requests, messages = rates
    return (
        f"The firewall limits each IP address, too: to {requests:,} requests per minute, and to {messages:,} messages "
        f"per minute. Beyond that, the response is {_code(Code.PERMISSION_DENIED)}, for about half a minute."
    )


def field_limits() -> str:
    """The fields of requests with a length or a range."""
    rows = []
    for resource, model in _INPUTS.items():
        schema = model.model_json_schema()
        parts = {"": schema, **{f"{name}[]": part for name, part in _items(schema)}}
        for of, part in parts.items():
            for name, described in part["properties"].items():
                bound = limit(next((one for one in described.get("anyOf", ()) if one.get("type") != "null"), described))
                if bound:
                    rows.append((resource, f"`{f'{of}.{name}' if of else name}`", bound))
    rows.append(("Settings of the agent", "`facts`, in all", f"{LIMITS['facts_kb']} KB as JSON"))
    return _table(("Request", "Field", "Limit"), rows)


def work_limits() -> str:
    """How much of calls and messages may be under way."""
    (day, once), (week, twice) = consents.REQUESTS
    rows = (
        ("Calls of a customer that wait or are under way", "1", _code(Code.CALL_IN_PROGRESS)),
        (
            "Live calls of a project at once",
            str(project_limits.AT_ONCE),
            f"{_code(Code.CALL_LIMIT_REACHED)}, or the call waits",
        ),
        (
            "Live calls of a project in a day (UTC)",
            f"{project_limits.PER_DAY:,}",
            f"{_code(Code.CALL_LIMIT_REACHED)}, or the session is `blocked`",
        ),
        (
            "A live call, from dialing on",
            f"{LIMITS['longest_call_minutes']} minutes",
            "The call is ended; the session is `completed`, `max_duration`",
        ),
        (
            "Requests for consent of a phone",
            f"{once} in {day // clock.HOUR} hours, {twice} in {week // clock.DAY} days",
            _code(Code.CONSENT_REQUEST_LIMITED),
        ),
        (
            "Time to answer such a request",
            f"{LIMITS['consent_days']} days",
            "The session is `failed`, `consent_expired`",
        ),
        ("`not_before` of a call", f"{LIMITS['latest_call_days']} days ahead", _code(Code.PARAMETER_INVALID)),
        ("Messages that the agent works on, in a conversation", "1", _code(Code.CONVERSATION_BUSY)),
        (
            "Live messages of a project without a reply",
            str(settings.turns_per_project()),
            f"{_code(Code.RATE_LIMIT_EXCEEDED)} with the reason `messages`",
        ),
        (
            "Time for the reply in a response",
            f"{LIMITS['agent_seconds']} seconds",
            f"{_code(Code.AGENT_TIMEOUT)}; the reply comes later",
        ),
        ("The link to a recording", f"{LIMITS['recording_link_minutes']} minutes", "Retrieve the recording again"),
    )
    return _table(("What", "Limit", "Beyond it"), rows)


def webhook_limits() -> str:
    """The limits of webhooks and events."""
    rows = (
        (
            "Webhook endpoints of a project, in each mode",
            LIMITS["webhook_endpoints"],
            _code(Code.WEBHOOK_ENDPOINT_LIMIT),
        ),
        ("Time of a receiver to respond", f"{LIMITS['receiver_s']} seconds", "Another attempt"),
        (
            "Attempts of a delivery",
            str(attempts()),
            "The delivery is `failed`: see the [schedule](/docs/deliveries#retry-schedule)",
        ),
        (
            "Time in which every attempt to an endpoint fails",
            f"{LIMITS['failing_days']} days",
            "The endpoint is disabled",
        ),
        (
            "Age of an event that can be listed or sent again",
            f"{LIMITS['event_days']} days",
            _code(Code.RESOURCE_NOT_FOUND),
        ),
    )
    return _table(("What", "Limit", "Beyond it"), rows)


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
        (
            f"`{status}`",
            ", ".join(f"`{one}`" for one in SessionCallStatus if one in sessions.TRANSITIONS[status]) or "none: final",
        )
        for status in SessionCallStatus
    ]
    return _table(("Status", "May become"), rows)


def call_numbers() -> str:
    """The test numbers that select the outcome of a call."""
    rows = []
    for number, outcome in simulated_numbers.SCRIPTED_CALLS.items():
        if number in simulated_numbers.IMPLIES_WHATSAPP:
            continue
        ending = outcome.ending
        effect = _APPOINTMENT_EFFECTS.get(number, "unchanged" if ending else "confirmed")
        status = ending.call_status if ending else SessionCallStatus.COMPLETED
        reason = f"`{ending.ended_reason}`" if ending else "`agent_hangup` or `customer_hangup`"
        phone = f"`+1500555{number:04d}`"
        rows.append((phone, f"`{status}`", reason, effect, "yes" if outcome.says else "no"))
    return _table(("Number", "`call_status`", "`ended_reason`", "Appointment", "Transcript and recording"), rows)


def consent_numbers() -> str:
    """The test numbers that are called on WhatsApp."""
    rows = []
    for number in sorted(simulated_numbers.IMPLIES_WHATSAPP):
        phone = f"+1500555{number:04d}"
        rows.append((f"`{phone}`", _CONSENT_WORDS[simulated_numbers.consent(phone)]))
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


def _code(code: Code) -> str:
    return f"{ERRORS[code].status} [`{code}`](/docs/errors#{code})"


def _stage_rows() -> Iterator[tuple[str, str, str]]:
    names = (
        "Requests of all projects to one operation",
        "Messages of all projects to each of the two routes",
    )
    rates = settings.stage_rates()
    for name, rate in zip(names, rates or (None, None), strict=True):
        shown = f"{rate:,} in a second" if rate else "None on the local runner, where you read this"
        yield name, shown, f"{_code(Code.RATE_LIMIT_EXCEEDED)} without `RateLimit`" if rate else ""


def _firewall_rows() -> Iterator[tuple[str, str, str]]:
    names = ("Requests of an IP address", "Messages of an IP address")
    for name, rate in zip(names, settings.firewall_rates() or (None, None), strict=True):
        yield name, f"{rate:,} in a minute" if rate else "None here", _code(Code.PERMISSION_DENIED) if rate else ""


def _items(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects in lists of a schema, by the list's name."""
    for name, described in schema["properties"].items():
        for one in described.get("anyOf", [described]):
            reference = one.get("items", {}).get("$ref")
            if reference:
                yield name, schema["$defs"][reference.rpartition("/")[2]]


def limit(described: Mapping[str, Any]) -> str:
    """The length or range of a value with this schema, in words; empty if it has none."""
    if "maxLength" in described:
        return f"{described['maxLength']:,} characters"
    if "maxItems" in described:
        return f"{described['maxItems']} items"
    if {"minimum", "maximum"} <= described.keys():
        return f"{described['minimum']:,} to {described['maximum']:,}"
    return ""


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
