"""How a queued call comes to be dialed: when, whether it may be, and how long it waits otherwise (promises 7).

Functions that change a call return writes of one transaction, and perform none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from shared.agent_settings import hours
from shared.agent_settings.resource import Settings
from shared.appointments.resource import takes_place
from shared.calls import opt_outs, project_limits, sessions
from shared.calls.consent import consents
from shared.calls.sessions import SessionChanges, SessionRecord
from shared.core import clock
from shared.core.call_statuses import (
    APPOINTMENT_CANCELLED,
    BLOCKED,
    CONSENT_REVOKED,
    NOT_ALLOWED,
    OPTED_OUT,
    PHONE_CHANGED,
    Channel,
    Ending,
    SessionCallStatus,
)
from shared.core.limits import LONGEST_QUEUE_DELAY_S
from shared.store import table
from shared.store.keys import Scope
from shared.tasks import tasks, wake_ups

DIALS_AFTER_S = 1
"""Unscaled seconds after which a simulated call is dialed (promises 10). One whose consent was just given is
dialed at once."""
PUT_OFF_S = 5
"""Unscaled seconds after which a call that the limit of calls at once does not allow is tried again."""


@dataclass(frozen=True)
class Schedule:
    """When a queued call is dialed: the attributes of its row, and its wake-up, unless `sweep` sends that later."""

    attributes: table.Attributes
    wake_ups: Sequence[wake_ups.WakeUp]


@dataclass(frozen=True)
class Clearance:
    """A queued call may dial the number `to`, in one transaction with these writes."""

    to: str
    writes: Sequence[table.Write] = ()


@dataclass(frozen=True)
class Denied:
    """A queued call may not dial. It ends, with a summary in the `changes` if the ending does not say why."""

    ending: Ending
    changes: SessionChanges | None = None


@dataclass(frozen=True)
class PutOff:
    """A queued call waits until this instant.

    The project has as many live calls as it may have at once or, if `outside_hours`, calls are not made at present.
    """

    until: clock.Instant
    outside_hours: bool = False


def next_dial_time(settings: Settings, not_before: str | None) -> clock.Instant:
    """When a call that may be dialed from now on, and not before `not_before`, is dialed: within the calling hours."""
    earliest = clock.now() if not_before is None else max(clock.now(), clock.parse(not_before))
    return hours.next_open(settings["calling_hours"], ZoneInfo(settings["timezone"]), earliest)


def schedule(scope: Scope, session_id: str, dial_at: clock.Instant, delay_s: int = DIALS_AFTER_S) -> Schedule:
    """Schedule the step that dials a queued call at the instant `dial_at`, or `delay_s` later if it is simulated.

    If that is later than a message can be delayed, `sweep` sends the wake-up shortly before.
    """
    due_at = dial_at + (clock.scaled_ms(delay_s) if scope.is_simulated else 0)
    if due_at > clock.now() + LONGEST_QUEUE_DELAY_S * clock.SECOND:
        return Schedule({"due_at": due_at, **tasks.sweep_ahead_attributes(session_id, due_at)}, [])
    return Schedule(tasks.due_attributes(session_id, due_at), [sessions.wake_up(scope, session_id, due_at)])


def clearance(scope: Scope, record: SessionRecord) -> Clearance | PutOff | Denied:
    """Whether a queued call may be dialed now, as the settings, the appointment, the phone, limits and consent are.

    `request_call` in `shared/calls/commands.py` asked most of this at the request; since then, all of it may have
    changed. A call that may not be made yet waits here, where a request is refused.
    """
    subject = sessions.subject(scope, record.doc)
    opens_at = next_dial_time(subject.stored.settings, record.doc["not_before"])
    if opens_at > clock.now():
        return PutOff(opens_at, outside_hours=True)
    if record.doc["appointment_id"] is not None and not takes_place(subject.appointment):
        return Denied(APPOINTMENT_CANCELLED)
    # The customer of a call that waits is deleted only together with the call.
    to = record.doc["to"] if subject.customer is None else subject.customer.doc["phone"] or record.doc["to"]
    if to != record.doc["to"] and record.doc["channel"] == Channel.WHATSAPP:
        return Denied(PHONE_CHANGED)
    if opt_outs.has_opted_out(scope, None if subject.customer is None else subject.customer.doc, to):
        return Denied(OPTED_OUT)
    limits, counts = project_limits.of_project(scope)
    if not limits.allows(to):
        return Denied(NOT_ALLOWED)
    reached = counts.reached(limits)
    if reached is not None and reached.until_tomorrow:
        return Denied(BLOCKED, {"summary": reached.text})
    if reached is not None:
        return PutOff(clock.now() + clock.scaled_ms(PUT_OFF_S))
    writes: list[table.Write] = [project_limits.increment_write(scope, counts)] if scope.livemode else []
    if record.doc["channel"] == Channel.WHATSAPP:
        consent = consents.find(scope, to)
        if not consent.is_granted:
            return Denied(CONSENT_REVOKED)
        writes.append(consents.unchanged_check(consent))
    return Clearance(to, writes)


def start_writes(
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
    return [sessions.change_write(scope, record, changes, attributes), *clear.writes]


def put_off_write(scope: Scope, record: SessionRecord, reason: PutOff) -> table.Update:
    """The write that puts a queued call off."""
    if not reason.outside_hours:
        return wait_write(scope, record, reason.until)
    attributes = {**schedule(scope, record.doc["id"], reason.until).attributes, "waits_since": None}
    return sessions.change_write(scope, record, {"dial_at": clock.iso(reason.until)}, attributes)


def wait_write(
    scope: Scope,
    record: SessionRecord,
    until: clock.Instant,
    attributes: table.Attributes | None = None,
) -> table.Update:
    """The write of a call that could be dialed now, if there were capacity, and is tried again at `until`."""
    due = tasks.due_attributes(record.doc["id"], until)
    internal = {**due, "waits_since": waits_for_capacity_since(record), **(attributes or {})}
    return sessions.change_write(scope, record, {"dial_at": clock.iso(until)}, internal)


def waits_for_capacity_since(record: SessionRecord) -> clock.Instant:
    """Since when a queued call could have been dialed, if there had been capacity."""
    planned_at = record.doc["dial_at"] or record.doc["created_at"]
    return record.row.get("waits_since", clock.parse(planned_at))
