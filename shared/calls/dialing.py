"""When a queued call is dialed, and whether it may be (promises 7).

Functions return the writes of one transaction and perform none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from shared.agent_settings import hours
from shared.agent_settings.resource import Settings
from shared.appointments.resource import AppointmentRecord, AppointmentStatus
from shared.calls import endings, project_limits, sessions
from shared.calls.consent import consents
from shared.calls.sessions import Session, SessionChanges, SessionRecord
from shared.calls.statuses import Channel, Ending, SessionCallStatus
from shared.core import clock
from shared.customers import opt_outs
from shared.store import table
from shared.store.keys import Scope
from shared.tasks import tasks

DIALS_AFTER_S = 1
"""Seconds, scaled, after which a simulated call is dialed (promises 10). One whose consent was just given is dialed at
once."""
PUT_OFF_S = 5
"""Seconds, scaled, after which a call that the limit of calls at once does not allow is tried again."""


@dataclass(frozen=True)
class Clearance:
    """A queued call may dial the number `to`, in one transaction with these writes."""

    to: str
    writes: Sequence[table.Write] = ()


@dataclass(frozen=True)
class Denied:
    """A queued call may not dial. It ends, and the session's summary says why, if the ending does not."""

    ending: Ending
    summary: str | None = None


@dataclass(frozen=True)
class PutOff:
    """A queued call waits until this instant.

    The project has as many live calls as it may have at once or, if `closed`, calls are not made at present.
    """

    until: clock.Instant
    closed: bool = False


def dial_at(settings: Settings, not_before: str | None) -> clock.Instant:
    """When a call that may be dialed from now on, and not before `not_before`, is dialed: within the calling hours."""
    earliest = clock.now() if not_before is None else max(clock.now(), clock.parse(not_before))
    return hours.next_open(settings["calling_hours"], ZoneInfo(settings["timezone"]), earliest)


def due_at(scope: Scope, session: Session) -> clock.Instant:
    """When the dialing of a queued call, which `dial_at` plans, is due."""
    assert session["dial_at"] is not None, "the call waits to be dialed"
    return _due_at(scope, clock.parse(session["dial_at"]))


def _due_at(scope: Scope, dial_at: clock.Instant) -> clock.Instant:
    return dial_at + (clock.scaled(DIALS_AFTER_S) if scope.is_simulated else 0)


def clearance(scope: Scope, record: SessionRecord) -> Clearance | PutOff | Denied:
    """Whether a queued call may be dialed now, as the settings, the appointment, the phone, limits and consent are."""
    subject = sessions.subject(scope, record.doc)
    opens_at = dial_at(subject.agent.settings, record.doc["not_before"])
    if opens_at > clock.now():
        return PutOff(opens_at, closed=True)
    if record.doc["appointment_id"] is not None and not _takes_place(subject.appointment):
        return Denied(endings.APPOINTMENT_CANCELLED)
    to = record.doc["to"] if subject.customer is None else subject.customer.doc["phone"] or record.doc["to"]
    if to != record.doc["to"] and record.doc["channel"] == Channel.WHATSAPP:
        return Denied(endings.PHONE_CHANGED)
    # The customer of a call that waits is deleted only together with the call.
    if (subject.customer is not None and subject.customer.doc["do_not_call"]) or opt_outs.has_opted_out(scope, to):
        return Denied(endings.OPTED_OUT)
    writes = list[table.Write]()
    if scope.livemode:
        allowed, counts = project_limits.of_project(scope)
        if not allowed.allows(to):
            return Denied(endings.NOT_ALLOWED)
        if counts.today >= allowed.per_day:
            return Denied(endings.BLOCKED, project_limits.REACHED.format(allowed.daily))
        if counts.at_once >= allowed.at_once:
            return PutOff(clock.now() + clock.scaled(PUT_OFF_S))
        writes.append(project_limits.increment(scope, counts))
    if record.doc["channel"] == Channel.WHATSAPP:
        consent = consents.find(scope, to)
        if not consent.granted:
            return Denied(endings.CONSENT_REVOKED)
        writes.append(consents.unchanged(consent))
    return Clearance(to, writes)


def dial(scope: Scope, record: SessionRecord, clear: Clearance, next_step_at: clock.Instant) -> list[table.Write]:
    """The writes that let a queued call dial. Its next step is due at the instant `next_step_at`."""
    now = max(clock.now(), clock.parse(record.doc["created_at"]))
    changes: SessionChanges = {
        "call_status": SessionCallStatus.DIALING,
        "dialed_at": clock.iso(now),
        "dial_at": None,
        "to": clear.to,
    }
    attributes = tasks.due_attributes(record.doc["id"], next_step_at)
    return [sessions.replace(scope, record, changes, attributes), *clear.writes]


def put_off_or_end(scope: Scope, record: SessionRecord, reason: PutOff | Denied) -> Sequence[table.Write]:
    """The writes that put a queued call off, or end it."""
    if isinstance(reason, Denied):
        changes: SessionChanges = {} if reason.summary is None else {"summary": reason.summary}
        return endings.end_call(scope, record, reason.ending, changes).writes
    if not reason.closed:
        return [wait(scope, record, reason.until)]
    attributes = {**sessions.waits_until(record.doc["id"], _due_at(scope, reason.until)), "waits_since": None}
    return [sessions.replace(scope, record, {"dial_at": clock.iso(reason.until)}, attributes)]


def wait(
    scope: Scope,
    record: SessionRecord,
    until: clock.Instant,
    attributes: Mapping[str, table.Value | None] | None = None,
) -> table.Update:
    """The write of a call that could be dialed now, if there were capacity, and is tried again at `until`."""
    due = tasks.due_attributes(record.doc["id"], until)
    internal = {**due, "waits_since": sessions.waits_since(record), **(attributes or {})}
    return sessions.replace(scope, record, {"dial_at": clock.iso(until)}, internal)


def _takes_place(appointment: AppointmentRecord | None) -> bool:
    """Whether an appointment is not cancelled. A deleted one is cancelled, too."""
    return appointment is not None and appointment.doc["status"] != AppointmentStatus.CANCELLED
