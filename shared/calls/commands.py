"""Calls: how one is placed (`POST /v1/customers/{id}/call`), dialed and ended (promises 7).

Functions return the writes of one transaction and perform none. `send_wake_ups` sends the wake-ups after the
transaction. The customer's row names the call (`active_session`) from its request to its end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypedDict, cast
from zoneinfo import ZoneInfo

from shared.agent_settings import commands as agent_settings
from shared.agent_settings import hours
from shared.agent_settings.resource import Settings
from shared.appointments.resource import APPOINTMENTS, AppointmentRecord, AppointmentStatus
from shared.calls import limits, sessions
from shared.calls.consent import consents
from shared.calls.consent.consents import Consent
from shared.calls.live import capacity
from shared.calls.sessions import SESSIONS, Channel, Session, SessionRecord
from shared.core import clock, ids, threads
from shared.core.errors import ApiError, Code, not_found, not_found_in_body
from shared.customers import opt_outs
from shared.customers.resource import CUSTOMERS, Customer, CustomerRecord
from shared.projects import usage
from shared.resources import documents, fields
from shared.resources.schema import AppointmentId, CustomerId, SessionId, Time, one_of
from shared.store import table
from shared.store.commit import Change
from shared.store.keys import Scope
from shared.tasks import tasks, wake_ups
from shared.telephony import ENDED, EndedReason, Ending, SessionCallStatus, test_numbers

DIALS_AFTER_S = 1
"""Seconds, scaled, after which a simulated call is dialed (promises 10)."""
LATEST_MS = 366 * clock.DAY
"""How far ahead a call may be requested."""
PUT_OFF_S = 5
"""Seconds, scaled, after which a call that the limit of calls at once does not allow is tried again."""
CONSENT_DECLINED = Ending(SessionCallStatus.FAILED, EndedReason.CONSENT_DECLINED)
CONSENT_EXPIRED = Ending(SessionCallStatus.FAILED, EndedReason.CONSENT_EXPIRED)
CONSENT_REVOKED = Ending(SessionCallStatus.FAILED, EndedReason.CONSENT_REVOKED)
CUSTOMER_DELETED = Ending(SessionCallStatus.FAILED, EndedReason.CUSTOMER_DELETED)
NOT_ALLOWED = Ending(SessionCallStatus.FAILED, EndedReason.DESTINATION_NOT_ALLOWED)
BLOCKED = Ending(SessionCallStatus.FAILED, EndedReason.BLOCKED)
APPOINTMENT_CANCELLED = Ending(SessionCallStatus.FAILED, EndedReason.APPOINTMENT_CANCELLED)
PHONE_CHANGED = Ending(SessionCallStatus.FAILED, EndedReason.PHONE_CHANGED)
OPTED_OUT = Ending(SessionCallStatus.FAILED, EndedReason.OPTED_OUT)
CANCELED = Ending(SessionCallStatus.FAILED, EndedReason.CANCELED)
PROVIDER_ERROR = Ending(SessionCallStatus.FAILED, EndedReason.PROVIDER_ERROR)
LIMIT_REACHED = "This project has reached its limit of {}."


class CallCreate(fields.Input):
    """The options of a call (promises 7)."""

    appointment_id: AppointmentId | None = None
    """An appointment of the customer that the call is about. It must not be cancelled or deleted."""
    channel: Literal["phone", "whatsapp"] | None = None
    """How to call. `phone` by default; some of test mode's numbers imply `whatsapp`."""
    not_before: fields.Instant | None = None
    """The earliest time of the call, at most 366 days ahead. The calling hours of the agent's settings hold as well."""
    instructions: Annotated[str, fields.text(2000)] | None = None
    """Instructions for the agent."""
    metadata: fields.Metadata | None = None
    """Your own keys and values, for the session. A key with the value null is omitted."""


class Call(TypedDict):
    """The response of the call action (promises 7)."""

    object: Literal["call"]
    """The type of the object."""
    status: Annotated[str, one_of(("queued", "consent_pending"))]
    """`queued`, or `consent_pending` while the customer is asked for consent."""
    session_id: SessionId
    """The session that tracks the call."""
    customer_id: CustomerId
    """The customer who is called."""
    appointment_id: AppointmentId | None
    """The appointment that the call is about. Null for a call about none."""
    channel: Channel
    """How the customer is called."""
    call_status: Literal["queued"]
    """The session's status when the call was placed."""
    not_before: Time | None
    """The earliest time of the call that the request named."""
    dial_at: Time | None
    """When the call will be dialed. Null while consent is pending."""
    livemode: bool
    """False for a call of a test key."""
    created_at: Time
    """When the session was created."""


@dataclass(frozen=True)
class Placement:
    """A call's session and the writes that place it. Without writes, the call was placed before and awaits consent.

    `consent` is set if the call begins a request for consent.
    """

    session: Session
    writes: Sequence[table.Write] = ()
    consent: Consent | None = None


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

    until: int
    closed: bool = False


def place(scope: Scope, customer_id: str, options: CallCreate) -> Placement:
    """A new call to a customer, or the one that awaits consent already. Raises ApiError."""
    rows = _read(scope, customer_id, options)
    customer = _customer(scope, customer_id, rows)
    appointment = _appointment(scope, customer_id, options, rows)
    phone = customer.doc["phone"]
    if phone is None:
        raise ApiError(Code.CUSTOMER_PHONE_MISSING)
    if customer.doc["do_not_call"] or opt_outs.has_opted_out(scope, phone, rows):
        raise ApiError(Code.CUSTOMER_OPTED_OUT)
    channel = _channel(scope, phone, options)
    if "active_session" in customer.row:
        active = SESSIONS.find(scope, customer.row["active_session"])
        if channel == Channel.WHATSAPP and sessions.awaits_consent(active.doc):
            return Placement(active.doc)
        message = f"The customer already has a call that is queued or in progress: {active.doc['id']}."
        raise ApiError(Code.CALL_IN_PROGRESS, message)
    allowed = _must_have_room(scope, phone, rows)
    session = sessions.new(
        scope,
        customer.doc,
        appointment_id=options.appointment_id,
        channel=channel,
        not_before=options.not_before,
        dial_at=dial_at(agent_settings.of_rows(scope, rows).settings, options.not_before),
        metadata=options.metadata,
    )
    writes: list[table.Write] = [_claim_customer(scope, customer, session)]
    if appointment is not None:
        changed = documents.touched(appointment.doc, {"session_id": session["id"]})
        writes.append(APPOINTMENTS.replace(scope, appointment, changed))
    request = None
    # If the number may not be called, the customer is not asked either.
    if channel == Channel.WHATSAPP and allowed:
        request = _request_consent(scope, session)
        session = {**session, "consent": request.consent.public}
        if sessions.awaits_consent(session):
            session["dial_at"] = None
        writes += request.writes
    internal: dict[str, table.Value | None] = {"instructions": options.instructions}
    if not sessions.awaits_consent(session):
        internal |= sessions.waits_until(session["id"], due_at(scope, session))
    writes.append(SESSIONS.insert(scope, session, **internal))
    return Placement(session, writes, request.consent if request is not None and request.begins else None)


def call_customer(scope: Scope, customer_id: str, options: CallCreate) -> Change[Call]:
    """Place a call to a customer. Nothing changes if it was placed before and awaits consent. Raises ApiError."""
    placement = place(scope, customer_id, options)
    return Change(call_of(placement.session), placement.writes, lambda: send_wake_ups(scope, placement))


def send_wake_ups(scope: Scope, placement: Placement) -> None:
    """Send the wake-ups of a call whose writes were carried out. A request waits for this."""
    if not placement.writes:
        return
    if (consent := placement.consent) is not None:
        threads.run_within(wake_ups.REQUEST_SECONDS, lambda: consents.start_machine(consent))
    elif not sessions.awaits_consent(placement.session):
        session = placement.session
        dials = sessions.dial_wake_ups(scope, [(session["id"], due_at(scope, session))])
        wake_ups.send_within(wake_ups.REQUEST_SECONDS, "dials", dials)


def call_of(session: Session) -> Call:
    """The response of the call action for this session."""
    return {
        "object": "call",
        "status": "consent_pending" if sessions.awaits_consent(session) else "queued",
        "session_id": session["id"],
        "customer_id": session["customer_id"],
        "appointment_id": session["appointment_id"],
        "channel": session["channel"],
        "call_status": "queued",
        "not_before": session["not_before"],
        "dial_at": session["dial_at"],
        "livemode": session["livemode"],
        "created_at": session["created_at"],
    }


def cancel(scope: Scope, id: str) -> Change[Session]:
    """End a queued call. Nothing changes if it was canceled before. Raises `session_not_cancelable`."""
    record = SESSIONS.find(scope, id)
    session = record.doc
    if session["ended_reason"] == EndedReason.CANCELED:
        return Change(session)
    if session["call_status"] != SessionCallStatus.QUEUED or sessions.is_starting(record):
        raise ApiError(Code.SESSION_NOT_CANCELABLE)
    writes = [*ending(scope, record, CANCELED), *_leave_consent(scope, session)]
    [update] = [write for write in writes if isinstance(write, table.Update) and write.sk == id]
    return Change(SESSIONS.after(record, update).doc, writes)


def dial_at(settings: Settings, not_before: str | None) -> int:
    """When a call that may be dialed from now on, and not before `not_before`, is dialed: within the calling hours."""
    earliest = max(clock.now(), 0 if not_before is None else clock.parse(not_before))
    return hours.next_open(settings["calling_hours"], ZoneInfo(settings["timezone"]), earliest)


def due_at(scope: Scope, session: Session) -> int:
    """When the dialing of a queued call, which `dial_at` plans, is due."""
    assert session["dial_at"] is not None, "the call waits to be dialed"
    return clock.parse(session["dial_at"]) + (clock.scaled(DIALS_AFTER_S) if scope.is_simulated else 0)


def clearance(scope: Scope, record: SessionRecord) -> Clearance | PutOff | Denied:
    """Whether a queued call may be dialed now, as the settings, the appointment, the phone, limits and consent are."""
    subject = sessions.subject(scope, record.doc)
    opens_at = dial_at(subject.agent.settings, record.doc["not_before"])
    if opens_at > clock.now():
        return PutOff(opens_at, closed=True)
    if record.doc["appointment_id"] is not None and not _takes_place(subject.appointment):
        return Denied(APPOINTMENT_CANCELLED)
    to = record.doc["to"] if subject.customer is None else subject.customer.doc["phone"] or record.doc["to"]
    if to != record.doc["to"] and record.doc["channel"] == Channel.WHATSAPP:
        return Denied(PHONE_CHANGED)
    # The customer of a call that waits is deleted only together with the call.
    if (subject.customer is not None and subject.customer.doc["do_not_call"]) or opt_outs.has_opted_out(scope, to):
        return Denied(OPTED_OUT)
    writes = list[table.Write]()
    if scope.livemode:
        allowed, counts = limits.of_project(scope)
        if not allowed.allows(to):
            return Denied(NOT_ALLOWED)
        if counts.today >= allowed.per_day:
            return Denied(BLOCKED, LIMIT_REACHED.format(allowed.daily))
        if counts.at_once >= allowed.at_once:
            return PutOff(clock.now() + clock.scaled(PUT_OFF_S))
        writes.append(limits.increment(scope, counts))
    if record.doc["channel"] == Channel.WHATSAPP:
        consent = consents.find(scope, to)
        if not consent.granted:
            return Denied(CONSENT_REVOKED)
        writes.append(consents.unchanged(consent))
    return Clearance(to, writes)


def dialing(
    scope: Scope, record: SessionRecord, clear: Clearance, due_at: int, **internal: table.Value
) -> list[table.Write]:
    """The writes that let a queued call dial. Its next step is due at the instant `due_at`."""
    now = max(clock.now(), clock.parse(record.doc["created_at"]))
    changes = {"call_status": SessionCallStatus.DIALING, "dialed_at": clock.iso(now), "dial_at": None, "to": clear.to}
    attributes = {**tasks.due_attributes(record.doc["id"], due_at), **internal}
    return [sessions.replace(scope, record, changes, attributes), *clear.writes]


def not_dialing(scope: Scope, record: SessionRecord, reason: PutOff | Denied) -> list[table.Write]:
    """The writes that put a queued call off, or end it."""
    if isinstance(reason, Denied):
        return ending(scope, record, reason.ending, {} if reason.summary is None else {"summary": reason.summary})
    if not reason.closed:
        return [waiting(scope, record, reason.until)]
    due = reason.until + (clock.scaled(DIALS_AFTER_S) if scope.is_simulated else 0)
    attributes = {**sessions.waits_until(record.doc["id"], due), "waits_since": None}
    return [sessions.replace(scope, record, {"dial_at": clock.iso(reason.until)}, attributes)]


def waiting(
    scope: Scope, record: SessionRecord, until_ms: int, attributes: Mapping[str, table.Value | None] | None = None
) -> table.Update:
    """The write of a call that could be dialed now, if there were capacity, and is tried again at `until_ms`."""
    due = tasks.due_attributes(record.doc["id"], until_ms)
    internal = {**due, "waits_since": sessions.waits_since(record), **(attributes or {})}
    return sessions.replace(scope, record, {"dial_at": clock.iso(until_ms)}, internal)


def ending(
    scope: Scope,
    record: SessionRecord,
    end: Ending,
    changes: Mapping[str, Any] | None = None,
    *,
    due_at: int | None = None,
    frees_customer: bool = True,
    at: int | None = None,
) -> list[table.Write]:
    """The writes that end a call, now or at the instant `at`, on condition that it did not change since it was read.

    `changes` are further changes of the session. At `due_at` its next step is due; None if it has none. The customer is
    freed, unless the customer was deleted, or is deleted in the same transaction (`frees_customer` is False).
    """
    session = record.doc
    now = max(clock.now(), clock.parse(session["created_at"])) if at is None else at
    changes = dict(changes or {})
    ended = sessions.ended(cast("Session", {**session, **changes}), end, now)
    due = tasks.NO_WORK if due_at is None else tasks.due_attributes(session["id"], due_at)
    writes: list[table.Write] = [sessions.replace(scope, record, {**changes, **ended}, due)]
    if frees_customer and "customer_deleted" not in record.row:
        writes.append(
            table.Update(
                scope.pk(CUSTOMERS.kind),
                session["customer_id"],
                set={"active_session": None},
                condition="active_session = :id",
                values={":id": session["id"]},
            )
        )
    dialed = session["call_status"] == SessionCallStatus.DIALING
    if scope.livemode and (dialed or sessions.is_starting(record)):
        writes.append(limits.decrement(scope))
    if "started_at" in record.row:
        writes.append(capacity.release(session["id"]))
    if scope.livemode and dialed:
        used = {"calls": 1, "call_seconds": ended["duration_seconds"] or 0}
        writes.append(table.Put(usage.row(scope, session["id"], now, **used), condition=""))
    return writes


def of_deleted_customer(scope: Scope, customer: CustomerRecord) -> list[table.Write]:
    """The writes that end the customer's queued call, or mark the customer of a dialed call as deleted."""
    if "active_session" not in customer.row:
        return []
    active = SESSIONS.find(scope, customer.row["active_session"])
    if active.doc["call_status"] != SessionCallStatus.QUEUED or sessions.is_starting(active):
        # The version stays the same, so that a turn under way need not run again.
        return [table.Update(scope.pk(SESSIONS.kind), active.doc["id"], set={"customer_deleted": True})]
    return [*ending(scope, active, CUSTOMER_DELETED, frees_customer=False), *_leave_consent(scope, active.doc)]


def stop(scope: Scope, customer: CustomerRecord, after: Customer) -> Change[Customer]:
    """Make a customer's document `after`, and end its call that waits or rings. A call that is spoken is told to end.

    The writes fail if a call of the customer has started or ended since.
    """
    id = customer.row.get("active_session")
    update = CUSTOMERS.replace(scope, customer, after)
    if id is None:
        condition = f"{update.condition} AND attribute_not_exists(active_session)"
        return Change(after, [replace(update, condition=condition)])
    active = SESSIONS.find(scope, id)
    waits = active.doc["call_status"] == SessionCallStatus.QUEUED and not sessions.is_starting(active)
    update = replace(
        CUSTOMERS.replace(scope, customer, after, {"active_session": None} if waits else None),
        condition=f"{update.condition} AND active_session = :active",
        values={**update.values, ":active": id},
    )
    return Change(after, [update, *stopping(scope, active, frees_customer=False)], lambda: wake(scope, id))


def stopping(scope: Scope, active: SessionRecord, *, frees_customer: bool = True) -> list[table.Write]:
    """The writes that end a call because of an opt-out, or let the next step of a call that was started end it."""
    if active.doc["call_status"] == SessionCallStatus.QUEUED and not sessions.is_starting(active):
        return [*ending(scope, active, OPTED_OUT, frees_customer=frees_customer), *_leave_consent(scope, active.doc)]
    if active.doc["call_status"] in ENDED:
        return []
    due = tasks.due_attributes(active.doc["id"], clock.now())
    return [sessions.replace(scope, active, {}, {**due, "opted_out": True})]


def wake(scope: Scope, session_id: str) -> None:
    """Send the wake-up for the next step of a call, best effort."""
    wake_ups.send_within(wake_ups.REQUEST_SECONDS, "dials", [sessions.wake_up(scope, session_id)])


def can_be_called(customer: table.Row) -> bool:
    """Whether an agent may offer a call to this customer now."""
    doc = json.loads(customer["doc"])
    return doc["phone"] is not None and not doc.get("do_not_call") and "active_session" not in customer


def _leave_consent(scope: Scope, session: Session) -> list[table.Write]:
    """The write by which a call that ends does not wait any more for its phone's consent."""
    if not sessions.awaits_consent(session):
        return []
    consent = consents.find(scope, session["to"])
    return [consents.replace(consent, consents.left(consent, session["id"]))] if consent.pending else []


def _takes_place(appointment: AppointmentRecord | None) -> bool:
    """Whether an appointment is not cancelled. A deleted one is cancelled, too."""
    return appointment is not None and appointment.doc["status"] != AppointmentStatus.CANCELLED


@dataclass(frozen=True)
class _ConsentRequest:
    """The consent of a call on WhatsApp and its write, if it changes. `begins` if the call begins the request."""

    consent: Consent
    writes: Sequence[table.Write] = ()
    begins: bool = False


def _read(scope: Scope, customer_id: str, options: CallCreate) -> Mapping[tuple[str, str], table.Row]:
    """The rows that a new call depends on, apart from the consent, in one read."""
    if not ids.is_id(CUSTOMERS.prefix, customer_id):
        raise not_found("customer", customer_id)
    if options.not_before is not None and clock.parse(options.not_before) > clock.now() + LATEST_MS:
        message = "The time must be at most 366 days ahead."
        raise ApiError(Code.PARAMETER_INVALID, message, param="not_before")
    keys = [(scope.pk(CUSTOMERS.kind), customer_id), *limits.keys(scope), *agent_settings.keys(scope)]
    keys += opt_outs.keys(scope)
    if options.appointment_id is not None:
        if not ids.is_id(APPOINTMENTS.prefix, options.appointment_id):
            raise not_found_in_body("appointment", options.appointment_id, "appointment_id")
        keys.append((scope.pk(APPOINTMENTS.kind), options.appointment_id))
    return table.get_many(keys)


def _customer(scope: Scope, id: str, rows: Mapping[tuple[str, str], table.Row]) -> CustomerRecord:
    row = rows.get((scope.pk(CUSTOMERS.kind), id))
    if row is None:
        deleted = CUSTOMERS.deleted_row(scope, id) is not None
        raise ApiError(Code.CUSTOMER_DELETED) if deleted else not_found("customer", id)
    return CUSTOMERS.record(row)


def _appointment(
    scope: Scope, customer_id: str, options: CallCreate, rows: Mapping[tuple[str, str], table.Row]
) -> AppointmentRecord | None:
    id = options.appointment_id
    if id is None:
        return None
    row = rows.get((scope.pk(APPOINTMENTS.kind), id)) or APPOINTMENTS.deleted_row(scope, id)
    record = None if row is None else APPOINTMENTS.record(row)
    if record is None or record.doc["customer_id"] != customer_id:
        raise not_found_in_body("appointment", id, "appointment_id")
    if record.doc["deleted_at"] is not None:
        raise ApiError(Code.APPOINTMENT_DELETED)
    if record.doc["status"] == AppointmentStatus.CANCELLED:
        raise ApiError(Code.APPOINTMENT_CANCELLED)
    return record


def _channel(scope: Scope, phone: str, options: CallCreate) -> Channel:
    if options.channel is not None:
        return Channel(options.channel)
    implied = scope.is_simulated and test_numbers.number(phone) in test_numbers.IMPLIES_WHATSAPP
    return Channel.WHATSAPP if implied else Channel.PHONE


def _must_have_room(scope: Scope, to: str, rows: Mapping[tuple[str, str], table.Row]) -> bool:
    """Whether the project may call this number. Raises `call_limit_reached` if it has no call left now."""
    if not scope.livemode:
        return True
    allowed, counts = limits.read(scope, rows)
    if exceeded := counts.exceeded(allowed):
        raise ApiError(Code.CALL_LIMIT_REACHED, LIMIT_REACHED.format(exceeded))
    return allowed.allows(to)


def _claim_customer(scope: Scope, customer: CustomerRecord, session: Session) -> table.Update:
    """The write that makes this call the only one of the customer."""
    return table.Update(
        scope.pk(CUSTOMERS.kind),
        customer.doc["id"],
        set={"active_session": session["id"]},
        condition="v = :v AND attribute_not_exists(active_session)",
        values={":v": customer.version},
    )


def _request_consent(scope: Scope, session: Session) -> _ConsentRequest:
    """The consent of the session's phone: the one on file, or a request that begins or is joined. Raises ApiError."""
    consent = consents.find(scope, session["to"])
    if consent.granted:
        return _ConsentRequest(consent)
    if consent.pending:
        write = consents.replace(consent, consents.joined(consent, session["id"]))
        return _ConsentRequest(consents.after(consent, write), [write])
    internal = {**tasks.due_attributes(consent.key, clock.now()), "task_token": None, "ask_tries": None}
    write = consents.replace(consent, consents.requested(consent, session["id"]), internal)
    return _ConsentRequest(consents.after(consent, write), [write], begins=True)
