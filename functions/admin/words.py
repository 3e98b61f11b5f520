"""What the admin pages say: statuses, errors, actions and spans of time in words."""

from __future__ import annotations

import calendar
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.admin import members
from shared.agent.actions import HandoffReason
from shared.appointments.resource import AppointmentStatus
from shared.calls.consent import consents
from shared.conversations import resource as conversations
from shared.conversations.resource import ConversationStatus
from shared.core import clock, limits
from shared.core.call_statuses import CallOutcome, Channel, ConsentStatus, EndedReason, FileStatus, SessionCallStatus
from shared.core.errors import Code
from shared.projects.api_keys import ApiKey
from shared.webhooks import events, health, replays
from shared.webhooks.deliveries.resource import DeliveryError, DeliveryStatus, DeliveryTrigger
from shared.webhooks.endpoints.resource import DisabledReason
from shared.webhooks.replays import ReplayEnd

FAILING_DAYS = health.FAILING_LIMIT_S * clock.SECOND // clock.DAY
EVENT_DAYS = events.RETENTION_MS // clock.DAY
DELIVERY_STATUS: dict[DeliveryStatus, str] = {
    DeliveryStatus.ATTEMPTING: "In progress",
    DeliveryStatus.SUCCEEDED: "Delivered",
    DeliveryStatus.FAILED: "Failed",
    DeliveryStatus.CANCELED: "Canceled",
}
DELIVERY_TRIGGER: dict[DeliveryTrigger, str] = {
    DeliveryTrigger.AUTOMATIC: "Sent automatically",
    DeliveryTrigger.MANUAL: "Replay",
    DeliveryTrigger.TEST: "Test event",
}
DELIVERY_ERROR: dict[DeliveryError, str] = {
    DeliveryError.TIMEOUT: f"No complete response within {limits.RECEIVER_S} seconds",
    DeliveryError.CONNECTION_REFUSED: "The connection failed",
    DeliveryError.DNS_ERROR: "The host name could not be resolved",
    DeliveryError.TLS_ERROR: "The TLS certificate or connection is not valid",
    DeliveryError.REDIRECT: "The receiver redirected; redirects are not followed",
    DeliveryError.HTTP_ERROR: "The receiver did not respond with a 2xx status",
    DeliveryError.URL_BLOCKED: "The host name resolves to an address that is not public",
    DeliveryError.ENDPOINT_DISABLED: "The endpoint was disabled or deleted",
    DeliveryError.WORKER_LOST: "The service failed to finish this attempt",
}
PUT_OFF = "Put off, because other attempts had no response"
DISABLED: dict[DisabledReason, str] = {
    DisabledReason.MANUAL: "A person or the API disabled it",
    DisabledReason.GONE: "It was disabled because the receiver responded with 410 Gone",
    DisabledReason.FAILING: f"It was disabled because every attempt has failed for {FAILING_DAYS} days",
}
CALL_STATUS: dict[SessionCallStatus, str] = {
    SessionCallStatus.QUEUED: "Queued",
    SessionCallStatus.DIALING: "In progress",
    SessionCallStatus.COMPLETED: "Completed",
    SessionCallStatus.NO_ANSWER: "No answer",
    SessionCallStatus.FAILED: "Failed",
    SessionCallStatus.INVALID_NUMBER: "Invalid number",
    SessionCallStatus.CALL_LATER: "Call later",
}
ENDED_REASON: dict[EndedReason, str] = {
    EndedReason.CUSTOMER_HANGUP: "The customer ended the call",
    EndedReason.AGENT_HANGUP: "The agent ended the call",
    EndedReason.NO_ANSWER: "Nobody answered",
    EndedReason.BUSY: "The line was busy",
    EndedReason.VOICEMAIL: "A machine answered",
    EndedReason.DECLINED: "The customer declined the call",
    EndedReason.INVALID_NUMBER: "The number does not exist",
    EndedReason.BLOCKED: "The call was blocked",
    EndedReason.DESTINATION_NOT_ALLOWED: "The project may not call this number",
    EndedReason.PROVIDER_ERROR: "The carrier or the service failed",
    EndedReason.PROVIDER_TIMEOUT: "The carrier did not report the end of the call, or could not start it in time",
    EndedReason.MAX_DURATION: "The call reached the longest duration",
    EndedReason.CALLBACK_REQUESTED: "The customer asked for a call at another time",
    EndedReason.CONSENT_DECLINED: "The customer declined to be called",
    EndedReason.CONSENT_EXPIRED: "The customer did not answer the request for consent within "
    f"{consents.LASTS_S * clock.SECOND // clock.DAY} days",
    EndedReason.CONSENT_REVOKED: "The customer revoked the consent",
    EndedReason.CUSTOMER_DELETED: "The customer was deleted",
    EndedReason.APPOINTMENT_CANCELLED: "The appointment was canceled before the call",
    EndedReason.PHONE_CHANGED: "The customer has another number, for which there is no consent",
    EndedReason.CANCELED: "The call was canceled while it waited",
    EndedReason.OPTED_OUT: "The customer is not to be called",
}
OUTCOME: dict[CallOutcome, str] = {
    CallOutcome.CONFIRMED: "Appointment confirmed",
    CallOutcome.RESCHEDULED: "Appointment moved",
    CallOutcome.CANCELLED: "Appointment canceled",
    CallOutcome.OPTED_OUT: "Does not want to be called again",
    CallOutcome.WRONG_PERSON: "Somebody else answered",
    CallOutcome.HANDED_OFF: "A person is to call back",
    CallOutcome.NO_CHANGE: "Nothing changed",
    CallOutcome.CALLBACK: "Wants to be called later",
    CallOutcome.UNREACHED: "Not reached",
    CallOutcome.NOT_PLACED: "Not called",
}
CHANNEL: dict[Channel, str] = {Channel.PHONE: "Phone", Channel.WHATSAPP: "WhatsApp"}
CONSENT: dict[ConsentStatus, str] = {
    ConsentStatus.PENDING: "The customer was asked for consent and has not answered",
    ConsentStatus.GRANTED: "The customer agreed to be called",
    ConsentStatus.DECLINED: "The customer declined to be called",
    ConsentStatus.EXPIRED: "The customer did not answer in time",
}
FILES: dict[FileStatus, str] = {
    FileStatus.NONE: "None",
    FileStatus.PROCESSING: "Being prepared",
    FileStatus.AVAILABLE: "Available",
    FileStatus.FAILED: "Could not be made",
}
APPOINTMENT_STATUS: dict[AppointmentStatus, str] = {
    AppointmentStatus.PENDING: "Pending",
    AppointmentStatus.CONFIRMED: "Confirmed",
    AppointmentStatus.RESCHEDULED: "Rescheduled",
    AppointmentStatus.CANCELLED: "Canceled",
    AppointmentStatus.FAILED: "Failed",
}
CONVERSATION_STATUS: dict[str, str] = {
    "waiting": "Waits for a person",
    "answered": "Answered, not given back",
    ConversationStatus.ACTIVE: "Active",
    ConversationStatus.ENDED: "Ended",
}
MESSAGE_ACTION = {
    "handoff": "Handed to a person",
    "appointment_confirmed": "Confirmed an appointment",
    "appointment_rescheduled": "Rescheduled an appointment",
    "appointment_cancelled": "Canceled an appointment",
    "call_requested": "Requested a call",
    "conversation_ended": "Ended the conversation",
    "customer_opted_out": "Noted that the customer does not want to be called again",
}
HANDOFF: dict[HandoffReason, str] = {
    HandoffReason.AGENT_FAILED: "The agent failed to answer",
    HandoffReason.CANNOT_HELP: "The agent could not help",
    HandoffReason.CHANGE_REQUESTED: "The customer wants another time",
    HandoffReason.COMPLAINT: "The customer complains",
    HandoffReason.CUSTOMER_DELETED: "The customer was deleted",
    HandoffReason.CONTENT_FILTERED: "The model provider filtered the reply",
    HandoffReason.OUTSIDE_SCOPE: "It is about something that the agent does not do",
    HandoffReason.PERSON_REQUESTED: "The customer asked for a person",
}
COUNTERS = {
    "messages": "Messages that the agent answered",
    "input_tokens": "Model tokens read",
    "output_tokens": "Model tokens written",
    "calls": "Calls",
    "call_seconds": "Seconds of calls",
}
ACTION = {
    "agent_settings.changed": "Changed the settings of the agent",
    "api_key.created": "Created an API key",
    "api_key.revoked": "Revoked an API key",
    "api_key.rotated": "Rotated an API key",
    "appointment.cancelled": "Canceled an appointment",
    "appointment.changed": "Changed an appointment",
    "appointment.confirmed": "Confirmed an appointment",
    "appointment.created": "Created an appointment",
    "appointment.list_exported": "Exported a list of appointments",
    "audit_trail.exported": "Exported the audit trail",
    "call.canceled": "Canceled a call",
    "call.list_exported": "Exported a list of calls",
    "call_limits.changed": "Changed the call limits",
    "consent.revoked": "Revoked a consent to be called on WhatsApp",
    "conversation.ended": "Ended a conversation",
    "conversation.given_back": "Gave a conversation back to the agent",
    "conversation.message_added": "Wrote a message in a conversation",
    "conversation.released": "Released a conversation to others",
    "conversation.taken": "Took a conversation",
    "customer.called": "Called a customer",
    "customer.changed": "Changed a customer",
    "customer.created": "Created a customer",
    "customer.deleted": "Deleted a customer",
    "customer.exported": "Exported what is kept about a customer",
    "customer.list_exported": "Exported a list of customers",
    "customer.opted_in": "Noted that a customer may be called again",
    "customer.opted_out": "Noted that a customer does not want to be called again",
    "delivery.replayed": "Replayed a delivery",
    "delivery.sent_now": "Sent a waiting delivery at once",
    "member.added": "Added a member",
    "member.invitation_requested": "Requested another invitation",
    "member.joined": "Signed in for the first time",
    "member.rebound": "Let a member sign in with a new identity",
    "member.removed": "Removed a member",
    "member.role_changed": "Gave a member another role",
    "member.second_factor_reset_requested": "Requested a reset of the second factor",
    "replay.started": "Started a replay of failed deliveries",
    "replay.stopped": "Stopped a replay",
    "webhook_endpoint.changed": "Changed a webhook endpoint",
    "webhook_endpoint.created": "Created a webhook endpoint",
    "webhook_endpoint.deleted": "Deleted a webhook endpoint",
    "webhook_endpoint.disabled": "Disabled a webhook endpoint",
    "webhook_endpoint.enabled": "Enabled a webhook endpoint",
    "webhook_endpoint.secret_rotated": "Rotated a signing secret",
    "webhook_endpoint.tested": "Sent a test event",
}


WROTE: dict[conversations.Role, str] = {
    conversations.Role.USER: "Customer",
    conversations.Role.STAFF: "Your team",
    conversations.Role.ASSISTANT: "Agent",
}
"""Who wrote a message, by its role."""
ERROR = {
    Code.PHONE_INVALID_FORMAT: "Write the phone number with + and the country code in front: +49 170 1234567 instead "
    "of 0170 1234567, or +1 500 555 0006 instead of (500) 555-0006.",
}
"""Errors whose message in the API is not for people who fill in a form, by their code."""


@dataclass(frozen=True)
class ReplayEnding:
    """How a replay ended, and why if it ended early."""

    title: str
    text: str


REPLAY_ENDED: dict[ReplayEnd, ReplayEnding] = {
    ReplayEnd.DONE: ReplayEnding("Done", ""),
    ReplayEnd.STOPPED: ReplayEnding("Stopped", "A person stopped it."),
    ReplayEnd.REFUSED: ReplayEnding(
        "Gave up", f"The endpoint refused {replays.MAX_REFUSALS} attempts in a row. Mend it, then replay again."
    ),
    ReplayEnd.DISABLED: ReplayEnding("Ended", "The endpoint was disabled."),
    ReplayEnd.DELETED: ReplayEnding("Ended", "The endpoint was deleted."),
}
ROLE: dict[members.MemberRole, str] = {
    members.MemberRole.VIEWER: "can see everything and change nothing",
    members.MemberRole.MEMBER: "can change everything except API keys, members and limits",
    members.MemberRole.OWNER: "can change everything",
}
_UNITS = ((clock.DAY, "d"), (clock.HOUR, "h"), (clock.MINUTE, "min"), (clock.SECOND, "s"))


def api_key(key: ApiKey) -> str:
    """The name of an API key: its label and its last four characters."""
    return f"{key.label or 'No label'} …{key.last_four}"


def subject(changed: Mapping[str, Any], named: Mapping[str, Mapping[str, Any]]) -> str:
    """The object of an event, as the event describes it: `Ada`, `Check-up, Ada`, `Call to Ada`."""
    kind, person = changed["object"], named.get(changed.get("customer_id") or "")
    name = (person["name"] or person["phone"]) if person else changed.get("external_id")
    if kind == "customer":
        return changed["name"] or changed["phone"] or "Customer"
    if kind == "appointment":
        return ", ".join(filter(None, (changed["title"] or "Appointment", name)))
    if kind == "session":
        return f"Call to {name or changed['to']}"
    return ", ".join(filter(None, (kind.replace("_", " ").capitalize(), name)))


def from_now(iso: str) -> str:
    """A time as the span from or until now: `in 4 min`, `4 min ago`, `now`."""
    span = clock.parse(iso) - clock.now()
    size, unit = next(((size, unit) for size, unit in _UNITS if abs(span) >= size), (0, ""))
    if not size:
        return "now"
    amount = f"{round(abs(span) / size)} {unit}"
    return f"in {amount}" if span > 0 else f"{amount} ago"


def milliseconds(amount: int) -> str:
    """A duration: `320 ms`, `15.0 s`."""
    return f"{amount} ms" if amount < clock.SECOND else f"{amount / clock.SECOND:.1f} s"


def customer_event(event: Mapping[str, Any]) -> str:
    """What an event of a customer says."""
    name, changes = event["type"].partition(".")[2], event["data"].get("previous_attributes", {})
    if "do_not_call" in changes:
        return "Does not want to be called again" if event["data"]["object"]["do_not_call"] else "May be called again"
    return f"Customer {name}" + (f": {', '.join(changes)}" if name == "updated" else "")


def customer(named: Mapping[str, Mapping[str, Any]], id: str) -> str:
    """What a customer is called: the name, else the phone, else the id."""
    one = named.get(id, {})
    return one.get("name") or one.get("phone") or id


def of_instant(instant: clock.Instant) -> str:
    """An instant as the API's text of a time."""
    return clock.iso(instant)


def at_most(count: int, most: int) -> str:
    """A number that was counted up to `most`: `7`, `100 or more`."""
    return f"{count:,}" if count < most else f"{most:,} or more"


def percent(part: int, whole: int) -> str:
    """A part of a whole in percent: `98 %`. It is `100 %` only if they are equal."""
    return f"{part * 100 // whole} %"


def offset(milliseconds: int) -> str:
    """A position in a recording: `1:05`."""
    seconds = milliseconds // clock.SECOND
    return f"{seconds // 60}:{seconds % 60:02d}"


def month(text: str) -> str:
    """A month such as `2026-11`: `November 2026`."""
    year, number = text.split("-")
    return f"{calendar.month_name[int(number)]} {year}"


def replayed(count: int, accepted: int, failed_again: int) -> str:
    """What became of the deliveries that a replay has sent: `11 accepted, 0 failed again`."""
    unknown = count - accepted - failed_again
    return f"{accepted:,} accepted, {failed_again:,} failed again" + (
        f", {unknown:,} without an outcome" * bool(unknown)
    )


def of_seconds(unix: clock.UnixSeconds) -> str:
    """Unix seconds as the API's text of a time."""
    return clock.iso(clock.of_unix(unix))


def query(parameters: Mapping[str, str], **more: str) -> str:
    """A URL's query with the parameters that have a value."""
    return urllib.parse.urlencode({name: value for name, value in {**parameters, **more}.items() if value})


def minutes(amount: int) -> str:
    """A duration of free time: `45 min`, `1 h`, `2 h 15 min`."""
    hours, rest = divmod(amount, 60)
    return " ".join(filter(None, (f"{hours} h" * bool(hours), f"{rest} min" * bool(rest))))
