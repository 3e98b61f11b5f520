"""`trigger`: causes an event in test mode by the requests that cause it for real."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from .command import Command, Failure, Settings, assigned

TIMEOUT_S = 60


@dataclass(frozen=True)
class Step:
    """A request, whose response gives `name` its id. `$name` stands for the id of an earlier step."""

    name: str
    method: str
    path: str
    body: Mapping[str, Any] | None = None


CUSTOMER = Step("customer", "POST", "/v1/customers", {"phone": "$phone06", "name": "Ada Trigger"})
APPOINTMENT = Step(
    "appointment",
    "POST",
    "/v1/appointments",
    {"customer_id": "$customer", "appointment_at": "$next_week", "title": "Check-up"},
)
CONVERSATION = Step("conversation", "POST", "/v1/conversations", {})
MESSAGES = "/v1/conversations/$conversation/messages"
HAND_OFF = Step("reply", "POST", MESSAGES, {"content": "[[sim:handoff]]"})


def _change(**body: Any) -> tuple[Step, ...]:
    return CUSTOMER, APPOINTMENT, Step("appointment", "PATCH", "/v1/appointments/$appointment", body)


def _call(digits: str) -> tuple[Step, ...]:
    """A call to the number with these last digits, which select its outcome."""
    customer = Step("customer", "POST", "/v1/customers", {"phone": f"$phone{digits}", "name": "Ada Trigger"})
    return (
        customer,
        APPOINTMENT,
        Step("session", "POST", "/v1/customers/$customer/call", {"appointment_id": "$appointment"}),
    )


RECIPES: dict[str, tuple[Step, ...]] = {
    "appointment.created": (CUSTOMER, APPOINTMENT),
    "appointment.confirmed": _change(status="confirmed"),
    "appointment.rescheduled": _change(appointment_at="$next_month"),
    "appointment.cancelled": _change(status="cancelled", cancellation_reason="Triggered"),
    "appointment.failed": _change(status="failed", failure_reason="Triggered"),
    "appointment.updated": _change(notes="Triggered"),
    "customer.created": (CUSTOMER,),
    "customer.updated": (CUSTOMER, Step("customer", "PATCH", "/v1/customers/$customer", {"name": "Ada Updated"})),
    "customer.deleted": (CUSTOMER, Step("customer", "DELETE", "/v1/customers/$customer")),
    "conversation.created": (CONVERSATION,),
    "conversation.handed_off": (CONVERSATION, HAND_OFF),
    "conversation.resumed": (
        CONVERSATION,
        HAND_OFF,
        Step("conversation", "POST", "/v1/conversations/$conversation/resume"),
    ),
    "conversation.ended": (CONVERSATION, Step("conversation", "POST", "/v1/conversations/$conversation/end")),
    "conversation.message_added": (
        CONVERSATION,
        Step("message", "POST", MESSAGES, {"content": "Hello", "role": "staff"}),
    ),
    "session.created": _call("06"),
    "session.dialing": _call("06"),
    "session.completed": _call("06"),
    "session.no_answer": _call("03"),
    "session.failed": _call("04"),
    "session.invalid_number": _call("01"),
    "session.call_later": _call("05"),
    "session.transcript_ready": _call("06"),
    "session.recording_ready": _call("06"),
}


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    """A value with the names replaced, longest first."""
    if isinstance(value, dict):
        return {key: _filled(one, names) for key, one in value.items()}
    if isinstance(value, str):
        for name in sorted(names, key=len, reverse=True):
            value = value.replace(f"${name}", names[name])
    return value


@click.command(
    cls=Command,
    examples=(
        "trigger appointment.confirmed",
        "trigger session.no_answer",
        "trigger customer.created --override customer:name=Grace --override customer:metadata[plan]=gold",
    ),
)
@click.argument("event_type", type=click.Choice(list(RECIPES)), metavar="EVENT_TYPE")
@click.option(
    "--override",
    multiple=True,
    metavar="RESOURCE:KEY=VALUE",
    help="A field of the last request for a customer, appointment, conversation, message or session.",
)
@click.pass_obj
def trigger(settings: Settings, event_type: str, override: tuple[str, ...]) -> None:
    """Cause an event in test mode, and wait until it is in the log.

    Creates what the event needs and does what causes it: `session.no_answer` calls a test number that is busy.

    EVENT_TYPE is a type of the page "Event types" of the documentation; shell completion knows all of them.
    """
    from . import output
    from .events import wait_for

    if settings.profile.livemode:
        raise Failure("`trigger` needs a test key: a live key would call real people.", "Use `-p test` or `-p local`.")
    overrides: dict[str, list[str]] = {}
    for one in override:
        resource, _, pair = one.partition(":")
        overrides.setdefault(resource, []).append(pair)
    recipe = RECIPES[event_type]
    last = {step.name: number for number, step in enumerate(recipe)}
    if unknown := set(overrides) - set(last):
        raise click.BadParameter(f"{event_type} has no {', '.join(unknown)}, only {', '.join(last)}.")
    now = datetime.now(UTC).replace(microsecond=0)
    names = {
        "phone": f"+1{random.randint(201, 989)}55501",
        "next_week": (now + timedelta(days=7)).isoformat(),
        "next_month": (now + timedelta(days=30)).isoformat(),
    }
    for number, step in enumerate(recipe):
        body = None if step.body is None else dict(_filled(step.body, names))
        if number == last[step.name] and step.name in overrides:
            body = (body or {}) | assigned(overrides[step.name])
        response = settings.client.request(step.method, _filled(step.path, names), body=body)
        names[step.name] = response.get("session_id") if step.name == "session" else response["id"]
    name = "message" if "message" in names else event_type.partition(".")[0]
    found = wait_for(settings.client, [("type", event_type), ("object_id", names[name])], TIMEOUT_S)
    if found is None:
        raise Failure(f"The event of {names[name]} is not in the log after {TIMEOUT_S} s.")
    if settings.as_json:
        output.show_json(found)
    else:
        click.echo(f"{event_type}  {found['id']}  {names[name]}")
