"""What the admin pages say: statuses, errors, actions and spans of time in words."""

from __future__ import annotations

import calendar
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.calls.consent import consents
from shared.core import clock, limits
from shared.projects.api_keys import Key
from shared.webhooks import events, health, replays

FAILING_DAYS = health.FAILING_LIMIT_S * clock.SECOND // clock.DAY
EVENT_DAYS = events.RETENTION_MS // clock.DAY
DELIVERY_STATUS = {
    "attempting": "In progress",
    "succeeded": "Delivered",
    "failed": "Failed",
    "canceled": "Canceled",
}
DELIVERY_TRIGGER = {"automatic": "Sent automatically", "manual": "Replay", "test": "Test event"}
DELIVERY_ERROR = {
    "timeout": f"No complete response within {limits.RECEIVER_SECONDS} seconds",
    "connection_refused": "The connection failed",
    "dns_error": "The host name could not be resolved",
    "tls_error": "The TLS certificate or connection is not valid",
    "redirect": "The receiver redirected; redirects are not followed",
    "http_error": "The receiver did not respond with a 2xx status",
    "url_blocked": "The host name resolves to an address that is not public",
    "endpoint_disabled": "The endpoint was disabled or deleted",
    "worker_lost": "The service failed to finish this attempt",
}
PUT_OFF = "Put off, because other attempts had no response"
DISABLED = {
    "manual": "A person or the API disabled it",
    "gone": "It was disabled because the receiver responded with 410 Gone",
    "failing": f"It was disabled because every attempt has failed for {FAILING_DAYS} days",
}
CALL_STATUS = {
    "queued": "Queued",
    "dialing": "In progress",
    "completed": "Completed",
    "no_answer": "No answer",
    "failed": "Failed",
    "invalid_number": "Invalid number",
    "call_later": "Call later",
}
ENDED_REASON = {
    "customer_hangup": "The customer ended the call",
    "agent_hangup": "The agent ended the call",
    "no_answer": "Nobody answered",
    "busy": "The line was busy",
    "voicemail": "A machine answered",
    "declined": "The customer declined the call",
    "invalid_number": "The number does not exist",
    "blocked": "The call was blocked",
    "destination_not_allowed": "The project may not call this number",
    "provider_error": "The carrier or the service failed",
    "provider_timeout": "The carrier did not report the end of the call",
    "max_duration": "The call reached the longest duration",
    "callback_requested": "The customer asked for a call at another time",
    "consent_declined": "The customer declined to be called",
    "consent_expired": "The customer did not answer the request for consent within "
    f"{consents.LASTS_S * clock.SECOND // clock.DAY} days",
    "consent_revoked": "The customer revoked the consent",
    "customer_deleted": "The customer was deleted",
    "appointment_cancelled": "The appointment was cancelled before the call",
    "phone_changed": "The customer has another number, for which there is no consent",
    "canceled": "The call was canceled while it waited",
    "opted_out": "The customer is not to be called",
}
OUTCOME = {
    "confirmed": "Appointment confirmed",
    "rescheduled": "Appointment moved",
    "cancelled": "Appointment cancelled",
    "opted_out": "Does not want to be called again",
    "wrong_person": "Somebody else answered",
    "handed_off": "A person is to call back",
    "no_change": "Nothing changed",
    "callback": "Wants to be called later",
    "unreached": "Not reached",
    "not_placed": "Not called",
}
CHANNEL = {"phone": "Phone", "whatsapp": "WhatsApp"}
CONSENT = {
    "pending": "The customer was asked for consent and has not answered",
    "granted": "The customer agreed to be called",
    "declined": "The customer declined to be called",
    "expired": "The customer did not answer in time",
}
FILES = {
    "none": "None",
    "processing": "Being prepared",
    "available": "Available",
    "failed": "Could not be made",
}
APPOINTMENT_STATUS = {
    "pending": "Pending",
    "confirmed": "Confirmed",
    "rescheduled": "Rescheduled",
    "cancelled": "Cancelled",
    "failed": "Failed",
}
CONVERSATION_STATUS = {"waiting": "Waits for a person", "active": "Active", "ended": "Ended"}
MESSAGE_ACTION = {
    "handoff": "Handed to a person",
    "appointment_confirmed": "Confirmed an appointment",
    "appointment_rescheduled": "Rescheduled an appointment",
    "appointment_cancelled": "Cancelled an appointment",
    "call_requested": "Requested a call",
    "conversation_ended": "Ended the conversation",
    "customer_opted_out": "Noted that the customer does not want to be called again",
}
HANDOFF = {
    "agent_failed": "The agent failed to answer",
    "cannot_help": "The agent could not help",
    "change_requested": "The customer wants another time",
    "complaint": "The customer complains",
    "customer_deleted": "The customer was deleted",
    "content_filtered": "The model provider filtered the reply",
    "outside_scope": "It is about something that the agent does not do",
    "person_requested": "The customer asked for a person",
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
    "appointment.cancelled": "Cancelled an appointment",
    "appointment.changed": "Changed an appointment",
    "appointment.confirmed": "Confirmed an appointment",
    "appointment.created": "Created an appointment",
    "appointment.list_exported": "Exported a list of appointments",
    "audit_trail.exported": "Exported the audit trail",
    "call.canceled": "Canceled a call",
    "call.list_exported": "Exported a list of calls",
    "call_limits.changed": "Changed the call limits",
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


WROTE = {"user": "Customer", "staff": "Your team", "assistant": "Agent"}
"""Who wrote a message, by its role."""
ERROR = {
    "phone_invalid_format": "Write the phone number with + and the country code in front: +49 170 1234567 instead of "
    "0170 1234567, or +1 500 555 0006 instead of (500) 555-0006.",
}
"""Errors whose message in the API is not for people who fill in a form, by their code."""


@dataclass(frozen=True)
class Ending:
    """How a replay ended, and why if it ended early."""

    title: str
    text: str


REPLAY_ENDED = {
    "done": Ending("Done", ""),
    "stopped": Ending("Stopped", "A person stopped it."),
    "refused": Ending(
        "Gave up", f"The endpoint refused {replays.MAX_REFUSALS} attempts in a row. Mend it, then replay again."
    ),
    "disabled": Ending("Ended", "The endpoint was disabled."),
    "deleted": Ending("Ended", "The endpoint was deleted."),
}
ROLE = {
    "viewer": "can see everything and change nothing",
    "member": "can change everything except API keys, members and limits",
    "owner": "can change everything",
}
_UNITS = ((clock.DAY, "d"), (clock.HOUR, "h"), (clock.MINUTE, "min"), (clock.SECOND, "s"))


def api_key(key: Key) -> str:
    """What an API key is called: its label and its end."""
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


def of_instant(instant: clock.Instant) -> str:
    """An instant as the API's text of a time."""
    return clock.iso(instant)


def at_most(count: int, most: int) -> str:
    """A count that ends at `most`: `7`, `100 or more`."""
    return f"{count:,}" if count < most else f"{most:,} or more"


def percent(part: int, whole: int) -> str:
    """A share: `98 %`. It is 100 only if nothing is missing."""
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
    return clock.iso(unix * clock.SECOND)


def query(parameters: Mapping[str, str], **more: str) -> str:
    """A URL's query with the parameters that have a value."""
    return urllib.parse.urlencode({name: value for name, value in {**parameters, **more}.items() if value})


def minutes(amount: int) -> str:
    """A duration of free time: `45 min`, `1 h`, `2 h 15 min`."""
    hours, rest = divmod(amount, 60)
    return " ".join(filter(None, (f"{hours} h" * bool(hours), f"{rest} min" * bool(rest))))
