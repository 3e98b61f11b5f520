"""An event of each type for the documentation, derived from samples of resources as the service derives it.

The resources have the service's own types, so a field that is missing here fails the type check. The story: Ada's
appointment is confirmed in a call, moved, cancelled, and Ada is deleted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shared.appointments.resource import Appointment, AppointmentStatus
from shared.calls import commands as call_commands
from shared.calls.sessions import Session
from shared.conversations.resource import Conversation, ConversationStatus, Message, Role
from shared.core import clock, ids
from shared.core.call_statuses import OUTCOMES, Channel, SessionCallStatus
from shared.core.event_types import EVENT_TYPES
from shared.customers.resource import Customer
from shared.store.keys import Scope
from shared.webhooks import events

_START = clock.parse("2032-03-01T09:30:00Z")
_SCOPE = Scope(1, livemode=False)


def _at(seconds: float) -> str:
    return clock.iso(_START + int(seconds * clock.SECOND))


def _id(prefix: str) -> str:
    return ids.deterministic(prefix, _START, "documentation")


CUSTOMER: Customer = {
    "id": _id("cust_"),
    "object": "customer",
    "livemode": False,
    "created_at": _at(0),
    "updated_at": _at(0),
    "phone": "+15005550006",
    "name": "Ada",
    "email": None,
    "external_id": "patient-1842",
    "do_not_call": False,
    "metadata": {},
    "deleted_at": None,
}
APPOINTMENT: Appointment = {
    "id": _id("appt_"),
    "object": "appointment",
    "livemode": False,
    "created_at": _at(2),
    "updated_at": _at(2),
    "status": AppointmentStatus.PENDING,
    "appointment_at": "2032-03-04T15:00:00.000Z",
    "timezone": "Europe/Berlin",
    "duration_minutes": 30,
    "title": "Check-up",
    "location": None,
    "notes": None,
    "customer_id": CUSTOMER["id"],
    "session_id": None,
    "external_id": None,
    "metadata": {"room": "4"},
    "cancellation_reason": None,
    "failure_reason": None,
    "deleted_at": None,
}
SESSION: Session = {
    **call_commands.new(
        _SCOPE,
        CUSTOMER,
        appointment_id=APPOINTMENT["id"],
        channel=Channel.PHONE,
        not_before=None,
        dial_at=_START + 10 * clock.SECOND,
        metadata=None,
    ),
    "id": _id("sess_"),
    "created_at": _at(10),
    "updated_at": _at(10),
}


CONVERSATION: Conversation = {
    "id": _id("conv_"),
    "object": "conversation",
    "livemode": False,
    "created_at": _at(70),
    "updated_at": _at(71),
    "status": ConversationStatus.ACTIVE,
    "external_id": "chat-77",
    "customer_id": CUSTOMER["id"],
    "metadata": {},
    "last_message_at": _at(71),
    "ended_at": None,
    "waiting": False,
    "handoff": None,
}
MESSAGE: Message = {
    "id": _id("msg_"),
    "object": "message",
    "role": Role.STAFF,
    "content": "We have your chart now. Please come at three.",
    "created_at": _at(90),
}


def _then(seconds: float, **changes: object) -> dict[str, object]:
    return {**changes, "updated_at": _at(seconds)}


def _ended(status: str, reason: str, **changes: object) -> dict[str, object]:
    outcome = changes.pop("outcome", None) or OUTCOMES[SessionCallStatus(status)][-1]
    changes |= {"ended_reason": reason, "outcome": outcome, "ended_at": _at(14)}
    return _then(14, dial_at=None, call_status=status, **changes)


_CONFIRMED = _then(30, status="confirmed")
_DIALING = _then(11, call_status="dialing", dial_at=None, dialed_at=_at(11))
_TALKING = (
    _DIALING,
    _then(12, answered_at=_at(12), answered_by="human", transcript_status="processing"),
    _then(12, recording_status="processing"),
)
_COMPLETED = _ended(
    "completed",
    "agent_hangup",
    duration_seconds=2,
    outcome="confirmed",
    summary="The customer confirmed the appointment.",
)
_LATER = _ended(
    "call_later",
    "callback_requested",
    duration_seconds=2,
    call_later_at="2032-03-02T10:00:00.000Z",
    summary="The customer asked to be called later.",
)
_TRANSCRIBED = _then(15, transcript_status="available")
_RECORDED = _then(16, recording_status="available")
_HANDED_OFF = _then(80, last_message_at=_at(80), waiting=True, handoff={"reason": "person_requested", "at": _at(80)})
_CHANGES: Mapping[str, tuple[Mapping[str, Any], tuple[Mapping[str, Any], ...]]] = {
    "appointment.created": (APPOINTMENT, ()),
    "appointment.confirmed": (APPOINTMENT, (_CONFIRMED,)),
    "appointment.rescheduled": (
        APPOINTMENT,
        (_CONFIRMED, _then(40, status="rescheduled", appointment_at="2032-03-05T15:00:00.000Z")),
    ),
    "appointment.cancelled": (APPOINTMENT, (_then(40, status="cancelled", cancellation_reason="moved away"),)),
    "appointment.failed": (APPOINTMENT, (_then(40, status="failed", failure_reason="did not appear"),)),
    "appointment.updated": (APPOINTMENT, (_then(40, notes="Bring the X-rays"),)),
    "customer.created": (CUSTOMER, ()),
    "customer.updated": (CUSTOMER, (_then(50, email="ada@example.com"),)),
    "customer.deleted": (CUSTOMER, (_then(60, deleted_at=_at(60)),)),
    "conversation.created": (CONVERSATION, ()),
    "conversation.handed_off": (CONVERSATION, (_HANDED_OFF,)),
    "conversation.resumed": (CONVERSATION, (_HANDED_OFF, _then(100, waiting=False, handoff=None))),
    "conversation.ended": (CONVERSATION, (_then(110, status="ended", ended_at=_at(110)),)),
    "conversation.message_added": (MESSAGE, ()),
    "session.created": (SESSION, ()),
    "session.dialing": (SESSION, (_DIALING,)),
    "session.completed": (SESSION, (*_TALKING, _COMPLETED)),
    "session.no_answer": (SESSION, (_DIALING, _ended("no_answer", "busy"))),
    "session.failed": (SESSION, (_DIALING, _ended("failed", "provider_error"))),
    "session.invalid_number": (SESSION, (_DIALING, _ended("invalid_number", "invalid_number"))),
    "session.call_later": (SESSION, (*_TALKING, _LATER)),
    "session.transcript_ready": (SESSION, (*_TALKING, _COMPLETED, _TRANSCRIBED)),
    "session.recording_ready": (SESSION, (*_TALKING, _COMPLETED, _TRANSCRIBED, _RECORDED)),
}
"""By event type: a resource, and its changes, of which the last one is the event's."""


def event(type: str) -> dict[str, Any]:
    """The sample of an event of this type, as it is sent to receivers."""
    assert type in EVENT_TYPES
    created, changes = _CHANGES[type]
    old: Mapping[str, Any] | None = None
    new: Mapping[str, Any] = created
    for change in changes:
        old, new = new, {**new, **change}
    derived = events.derive(None if old is None else _row(old), _row(new, version=len(changes) + 1))
    assert derived is not None
    found: dict[str, Any] = json.loads(derived.doc)
    assert found["type"] == type, f"the sample of {type} is one of {found['type']}"
    return found


def _row(resource: Mapping[str, Any], version: int = 1) -> dict[str, Any]:
    pk = _SCOPE.pk(resource["object"])
    row = {"pk": pk, "sk": resource["id"], "v": version, "doc": json.dumps(resource)}
    return row | {"conversation_id": CONVERSATION["id"]}
