"""How a call moves from one status to the next: when it is dialed, whether it may be, and how it ends (promises 7).

Functions that change a call return the writes of one transaction, or a `Change` with them, and perform none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from shared.agent_settings import hours
from shared.agent_settings.resource import Settings
from shared.appointments.resource import AppointmentRecord, AppointmentStatus
from shared.calls import capacity, project_limits, sessions
from shared.calls.consent import consents
from shared.calls.sessions import SESSIONS, Session, SessionChanges, SessionRecord
from shared.core import clock
from shared.core.call_statuses import (
    BLOCKED,
    ENDED,
    NOT_ALLOWED,
    OUTCOMES,
    Channel,
    EndedReason,
    Ending,
    SessionCallStatus,
)
from shared.core.limits import LONGEST_QUEUE_DELAY_S
from shared.customers import opted_out_phones
from shared.customers.resource import CUSTOMERS
from shared.projects import usage
from shared.resources.collections import revise
from shared.store import table
from shared.store.keys import Scope
from shared.store.transactions import Change
from shared.tasks import tasks, wake_ups

TRANSITIONS: Mapping[SessionCallStatus, frozenset[SessionCallStatus]] = {
    SessionCallStatus.QUEUED: frozenset(
        {SessionCallStatus.DIALING, SessionCallStatus.FAILED, SessionCallStatus.INVALID_NUMBER}
    ),
    SessionCallStatus.DIALING: frozenset(ENDED),
    **dict.fromkeys(ENDED, frozenset[SessionCallStatus]()),
}

DIALS_AFTER_S = 1
"""Seconds before scaling, after which a simulated call is dialed (promises 10). One whose consent was just given is
dialed at once."""
PUT_OFF_S = 5
"""Seconds before scaling, after which a call that the limit of calls at once does not allow is tried again."""

CONSENT_DECLINED = Ending(SessionCallStatus.FAILED, EndedReason.CONSENT_DECLINED)
CONSENT_EXPIRED = Ending(SessionCallStatus.FAILED, EndedReason.CONSENT_EXPIRED)
CONSENT_REVOKED = Ending(SessionCallStatus.FAILED, EndedReason.CONSENT_REVOKED)
CUSTOMER_DELETED = Ending(SessionCallStatus.FAILED, EndedReason.CUSTOMER_DELETED)
APPOINTMENT_CANCELLED = Ending(SessionCallStatus.FAILED, EndedReason.APPOINTMENT_CANCELLED)
PHONE_CHANGED = Ending(SessionCallStatus.FAILED, EndedReason.PHONE_CHANGED)
OPTED_OUT = Ending(SessionCallStatus.FAILED, EndedReason.OPTED_OUT)
CANCELED = Ending(SessionCallStatus.FAILED, EndedReason.CANCELED)


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

    The project has as many live calls as it may have at once or, if `outside_hours`, calls are not made at present.
    """

    until: clock.Instant
    outside_hours: bool = False


def save_changes(
    scope: Scope,
    record: SessionRecord,
    changes: SessionChanges,
    internal: table.Attributes,
) -> table.Update:
    """The write of a step, on condition that the session did not change since it was read."""
    present = record.doc["call_status"]
    status = changes.get("call_status", present)
    assert status == present or status in TRANSITIONS[present]
    after: Session = {**record.doc, **changes}
    # Sessions have no search rows.
    return SESSIONS.replace(scope, record, revise(record.doc, after), internal)[0]


def next_dial_time(settings: Settings, not_before: str | None) -> clock.Instant:
    """When a call that may be dialed from now on, and not before `not_before`, is dialed: within the calling hours."""
    earliest = clock.now() if not_before is None else max(clock.now(), clock.parse(not_before))
    return hours.next_open(settings["calling_hours"], ZoneInfo(settings["timezone"]), earliest)


def dialing_due_at(scope: Scope, session: Session) -> clock.Instant:
    """When the step that dials a queued call is due."""
    assert session["dial_at"] is not None, "the call waits to be dialed"
    return _with_dialing_delay(scope, clock.parse(session["dial_at"]))


def _with_dialing_delay(scope: Scope, dial_at: clock.Instant) -> clock.Instant:
    return dial_at + (clock.scaled_ms(DIALS_AFTER_S) if scope.is_simulated else 0)


def dial_attributes(session_id: str, at: clock.Instant) -> dict[str, table.Value | None]:
    """The attributes of a call that waits to be dialed at the instant `at`.

    If that is later than a message can be delayed, `sweep` sends the wake-up shortly before.
    """
    if _is_soon(at):
        return tasks.due_attributes(session_id, at)
    return {"due_at": at, **tasks.sweep_attributes(session_id, at - tasks.SWEEP_AHEAD_S * clock.SECOND)}


def dial_wake_ups(scope: Scope, waiting: Sequence[tuple[str, clock.Instant]]) -> list[wake_ups.WakeUp]:
    """The wake-ups of calls that wait to be dialed at these instants, but for those that `sweep` sends later."""
    return [sessions.wake_up(scope, session_id, at) for session_id, at in waiting if _is_soon(at)]


def _is_soon(at: clock.Instant) -> bool:
    return at <= clock.now() + LONGEST_QUEUE_DELAY_S * clock.SECOND


def clearance(scope: Scope, record: SessionRecord) -> Clearance | PutOff | Denied:
    """Whether a queued call may be dialed now, as the settings, the appointment, the phone, limits and consent are.

    `call_customer` in `shared/calls/commands.py` checked most of it at the request; since then, all of it may have
    changed. A call that may not be made yet waits here, where a request is refused.
    """
    subject = sessions.subject(scope, record.doc)
    opens_at = next_dial_time(subject.stored.settings, record.doc["not_before"])
    if opens_at > clock.now():
        return PutOff(opens_at, outside_hours=True)
    if record.doc["appointment_id"] is not None and not _takes_place(subject.appointment):
        return Denied(APPOINTMENT_CANCELLED)
    to = record.doc["to"] if subject.customer is None else subject.customer.doc["phone"] or record.doc["to"]
    if to != record.doc["to"] and record.doc["channel"] == Channel.WHATSAPP:
        return Denied(PHONE_CHANGED)
    # The customer of a call that waits is deleted only together with the call.
    if (subject.customer is not None and subject.customer.doc["do_not_call"]) or opted_out_phones.has_opted_out(
        scope, to
    ):
        return Denied(OPTED_OUT)
    writes = list[table.Write]()
    if scope.livemode:
        allowed, counts = project_limits.of_project(scope)
        if not allowed.allows(to):
            return Denied(NOT_ALLOWED)
        if counts.today >= allowed.per_day:
            return Denied(BLOCKED, project_limits.REACHED.format(allowed.daily))
        if counts.at_once >= allowed.at_once:
            return PutOff(clock.now() + clock.scaled_ms(PUT_OFF_S))
        writes.append(project_limits.increment(scope, counts))
    if record.doc["channel"] == Channel.WHATSAPP:
        consent = consents.find(scope, to)
        if not consent.is_granted:
            return Denied(CONSENT_REVOKED)
        writes.append(consents.check_unchanged(consent))
    return Clearance(to, writes)


def start_dialing(
    scope: Scope, record: SessionRecord, clear: Clearance, next_step_at: clock.Instant
) -> list[table.Write]:
    """The writes that let a queued call dial. Its next step is due at the instant `next_step_at`."""
    now = max(clock.now(), clock.parse(record.doc["created_at"]))
    changes: SessionChanges = {
        "call_status": SessionCallStatus.DIALING,
        "dialed_at": clock.iso(now),
        "dial_at": None,
        "to": clear.to,
    }
    attributes = tasks.due_attributes(record.doc["id"], next_step_at)
    return [save_changes(scope, record, changes, attributes), *clear.writes]


def put_off_or_end(scope: Scope, record: SessionRecord, reason: PutOff | Denied) -> Sequence[table.Write]:
    """The writes that put a queued call off, or end it."""
    if isinstance(reason, Denied):
        changes: SessionChanges = {} if reason.summary is None else {"summary": reason.summary}
        return end_call(scope, record, reason.ending, changes).writes
    if not reason.outside_hours:
        return [wait_for_capacity(scope, record, reason.until)]
    attributes = {**dial_attributes(record.doc["id"], _with_dialing_delay(scope, reason.until)), "waits_since": None}
    return [save_changes(scope, record, {"dial_at": clock.iso(reason.until)}, attributes)]


def wait_for_capacity(
    scope: Scope,
    record: SessionRecord,
    until: clock.Instant,
    attributes: table.Attributes | None = None,
) -> table.Update:
    """The write of a call that could be dialed now, if there were capacity, and is tried again at `until`."""
    due = tasks.due_attributes(record.doc["id"], until)
    internal = {**due, "waits_since": waits_for_capacity_since(record), **(attributes or {})}
    return save_changes(scope, record, {"dial_at": clock.iso(until)}, internal)


def waits_for_capacity_since(record: SessionRecord) -> clock.Instant:
    """Since when a queued call could have been dialed, if there had been capacity."""
    planned_at = record.doc["dial_at"] or record.doc["created_at"]
    return record.row.get("waits_since", clock.parse(planned_at))


def end_call(
    scope: Scope,
    record: SessionRecord,
    ending: Ending,
    changes: SessionChanges | None = None,
    *,
    due_at: clock.Instant | None = None,
    frees_customer: bool = True,
    at: clock.Instant | None = None,
) -> Change[Session]:
    """End a call, now or at the instant `at`, on condition that it did not change since it was read.

    `changes` are further changes of the session. At `due_at` its next step is due; None if it has none. The customer is
    freed, unless the customer was deleted, or is deleted in the same transaction (`frees_customer` is False).
    """
    session = record.doc
    now = max(clock.now(), clock.parse(session["created_at"])) if at is None else at
    changes = changes or {}
    changes = {**changes, **_changes_at_end({**session, **changes}, ending, now)}
    due = tasks.NO_WORK if due_at is None else tasks.due_attributes(session["id"], due_at)
    update = save_changes(scope, record, changes, due)
    writes: list[table.Write] = [update]
    if frees_customer and "customer_deleted" not in record.row:
        pk, is_active = scope.pk(CUSTOMERS.kind), table.equals("active_session", session["id"])
        writes.append(table.Update(pk, session["customer_id"], set={"active_session": None}, condition=is_active))
    dialed = session["call_status"] == SessionCallStatus.DIALING
    if scope.livemode and (dialed or sessions.is_starting(record)):
        writes.append(project_limits.decrement(scope))
    if "started_at" in record.row:
        writes.append(capacity.release(session["id"]))
    if scope.livemode and dialed:
        used = {"calls": 1, "call_seconds": changes["duration_seconds"] or 0}
        writes.append(table.Put(usage.row(scope, session["id"], now, **used), table.ALWAYS))
    return Change(SESSIONS.after_write(record, writes).doc, writes)


def end_by_opt_out(scope: Scope, active: SessionRecord, *, frees_customer: bool = True) -> Sequence[table.Write]:
    """The writes that end a call because of an opt-out, or let the next step of a call that was started end it."""
    if sessions.is_waiting(active):
        return end_queued(scope, active, OPTED_OUT, frees_customer=frees_customer).writes
    if active.doc["call_status"] in ENDED:
        return []
    due = tasks.due_attributes(active.doc["id"], clock.now())
    return [save_changes(scope, active, {}, {**due, "opted_out": True})]


def end_queued(scope: Scope, record: SessionRecord, ending: Ending, *, frees_customer: bool = True) -> Change[Session]:
    """End a queued call, which does not wait for its phone's consent any more."""
    change = end_call(scope, record, ending, frees_customer=frees_customer)
    if sessions.awaits_consent(record.doc):
        consent = consents.find(scope, record.doc["to"])
        if consent.is_pending:
            return change.with_writes(consents.save(consent, consents.without_session(consent, record.doc["id"])))
    return change


def _changes_at_end(session: Session, ending: Ending, now: clock.Instant) -> SessionChanges:
    """The changes that end a call at `now`.

    The session has the outcome of the talk only if the call is completed, and the time of the next one only if it ended
    for that.
    """
    outcomes = OUTCOMES[ending.call_status]
    answered_at = session["answered_at"]
    seconds = None if answered_at is None else max(0, round((now - clock.parse(answered_at)) / clock.SECOND))
    return {
        "call_status": ending.call_status,
        "dial_at": None,
        "ended_reason": ending.ended_reason,
        "outcome": session["outcome"] if session["outcome"] in outcomes else outcomes[-1],
        "answered_by": ending.answered_by or session["answered_by"],
        "ended_at": clock.iso(now),
        "duration_seconds": seconds,
        "call_later_at": session["call_later_at"] if ending.call_status == SessionCallStatus.CALL_LATER else None,
    }


def _takes_place(appointment: AppointmentRecord | None) -> bool:
    """Whether an appointment is not cancelled. A deleted one is cancelled, too."""
    return appointment is not None and appointment.doc["status"] != AppointmentStatus.CANCELLED
