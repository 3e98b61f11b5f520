"""The request for a call (promises 7). What ends one is in `shared/calls/endings.py`.

The command returns the session and the writes of one transaction, which the caller commits. The customer's row names
the call (`active_session`) from its request to its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal, TypedDict

from shared.agent_settings import resource as agent_settings
from shared.appointments.resource import APPOINTMENTS, Appointment, AppointmentRecord, call_count, takes_place
from shared.calls import dialing, opt_outs, project_limits, sessions, simulated_numbers
from shared.calls.consent import consents
from shared.calls.consent.consents import Consent
from shared.calls.sessions import SESSIONS, Session
from shared.core import clock, ids, threads
from shared.core.call_statuses import Channel, FileStatus, SessionCallStatus
from shared.core.errors import ApiError, Code, not_found, not_found_in_body
from shared.core.limits import LATEST_CALL_DAYS
from shared.customers import opted_out_phones
from shared.customers.resource import CUSTOMERS, Customer, CustomerRecord
from shared.resources import fields
from shared.resources.documents import revise
from shared.resources.schema import AppointmentId, CustomerId, Keywords, SessionId, Time
from shared.store import table
from shared.store.keys import Scope
from shared.store.transactions import Change
from shared.tasks import tasks, wake_ups


class CallCreate(fields.Input):
    """The options of a call (promises 7)."""

    appointment_id: AppointmentId | None = None
    """An appointment of the customer that the call is about. It must not be cancelled or deleted."""
    channel: Literal["phone", "whatsapp"] | None = None
    """How to call. `phone` by default; some of test mode's numbers imply `whatsapp`."""
    not_before: fields.DateTime | None = None
    """The earliest time of the call, at most 366 days ahead. The calling hours of the agent's settings hold as well."""
    instructions: Annotated[str, fields.text(2000)] | None = None
    """Instructions for the agent."""
    metadata: fields.MetadataCreate | None = None
    """Your own keys and values, for the session. A key with the value null is omitted."""


class Call(TypedDict):
    """The response of the call action (promises 7)."""

    object: Literal["call"]
    """The type of the object."""
    status: Annotated[Literal["queued", "consent_pending"], Keywords(name="CallStatus")]
    """`queued`, or `consent_pending` while the customer is asked for consent."""
    session_id: SessionId
    """The session that tracks the call."""
    customer_id: CustomerId
    """The customer who is called."""
    appointment_id: AppointmentId | None
    """The appointment that the call is about. Null for a call about none."""
    channel: Channel
    """How the customer is called."""
    call_status: Annotated[Literal["queued"], Keywords(name="PlacedCallStatus")]
    """The session's status when the call was requested."""
    not_before: Time | None
    """The earliest time of the call that the request named."""
    dial_at: Time | None
    """When the call will be dialed. Null while consent is pending."""
    livemode: bool
    """False for a call of a test key."""
    created_at: Time
    """When the session was created."""


def request_call(scope: Scope, customer_id: str, options: CallCreate) -> Change[Session]:
    """Queue a call to a customer. Raises ApiError if they may not be called.

    Nothing changes if a call on WhatsApp awaits their consent, and this one is on WhatsApp, too. `clearance` in
    `shared/calls/dialing.py` asks again what may have changed when the call is to be dialed.
    """
    _check_options(customer_id, options)
    rows = _read_rows(scope, customer_id, options)
    customer = _customer(scope, customer_id, rows)
    appointment = _appointment(scope, customer_id, options, rows)
    phone = customer.doc["phone"]
    if phone is None:
        raise ApiError(Code.CUSTOMER_PHONE_MISSING)
    if opt_outs.has_opted_out(scope, customer.doc, phone, rows):
        raise ApiError(Code.CUSTOMER_OPTED_OUT)
    channel = _channel(scope, phone, options)
    if "active_session" in customer.row:
        active = SESSIONS.find(scope, customer.row["active_session"])
        if channel == Channel.WHATSAPP and sessions.awaits_consent(active.doc):
            return Change(active.doc)
        message = f"The customer already has a call that is queued or in progress: {active.doc['id']}."
        raise ApiError(Code.CALL_IN_PROGRESS, message)
    limits, counts = project_limits.of_rows(scope, rows)
    if reached := counts.reached(limits):
        raise ApiError(Code.CALL_LIMIT_REACHED, reached.text)
    session = new(
        scope,
        customer.doc,
        appointment_id=options.appointment_id,
        channel=channel,
        not_before=options.not_before,
        dial_at=dialing.next_dial_time(agent_settings.of_rows(scope, rows).settings, options.not_before),
        metadata=options.metadata,
    )
    links = _link_writes(scope, session, customer, appointment)
    # If the number may not be called, the customer is not asked either.
    consent = consents.find(scope, phone) if channel == Channel.WHATSAPP and limits.allows(phone) else None
    if consent is None:
        call = _await_dialing(scope, session, options)
    elif consent.is_granted:
        call = _await_dialing(scope, {**session, "consent": consent.public}, options)
    else:
        call = _await_consent(scope, session, consent, options)
    return Change(call.doc, [*links, *call.writes], call.after_commit)


def _await_dialing(scope: Scope, session: Session, options: CallCreate) -> Change[Session]:
    """A new call that is dialed at its time, with the wake-up for that."""
    assert session["dial_at"] is not None, "the call waits to be dialed"
    due = dialing.schedule(scope, session["id"], clock.parse(session["dial_at"]))
    insert = SESSIONS.insert_writes(scope, session, {"instructions": options.instructions, **due.attributes})
    return Change(session, insert, partial(wake_ups.send_within, wake_ups.REQUEST_S, due.wake_ups))


def _await_consent(scope: Scope, session: Session, consent: Consent, options: CallCreate) -> Change[Session]:
    """A new call that begins the request for its phone's consent, or joins the one under way. Raises ApiError."""
    if consent.is_pending:
        write = consents.document_write(consent, consents.with_session(consent, session["id"]))
    else:
        internal = {**tasks.due_attributes(consent.key, clock.now()), "task_token": None, "ask_tries": None}
        write = consents.document_write(consent, consents.with_request(consent, session["id"]), internal)
    pending = consents.after_write(consent, write)
    waiting: Session = {**session, "dial_at": None, "consent": pending.public}
    insert = SESSIONS.insert_writes(scope, waiting, {"instructions": options.instructions})
    if consent.is_pending:
        return Change(waiting, [write, *insert])
    return Change(waiting, [write, *insert], partial(_start_machine, pending))


def new(
    scope: Scope,
    customer: Customer,
    *,
    appointment_id: str | None,
    channel: Channel,
    not_before: str | None,
    dial_at: clock.Instant,
    metadata: Mapping[str, Any] | None,
) -> Session:
    """A call to the customer, who has a phone, that waits to be dialed at the instant `dial_at`."""
    assert customer["phone"] is not None
    common = SESSIONS.common_fields(scope)
    return {
        **common,
        "object": "session",
        "customer_id": customer["id"],
        "appointment_id": appointment_id,
        "channel": channel,
        "direction": "outbound",
        "to": customer["phone"],
        "call_status": SessionCallStatus.QUEUED,
        "ended_reason": None,
        "outcome": None,
        "answered_by": None,
        "not_before": not_before,
        # The plan was read from the clock before the call was created: a millisecond may lie between.
        "dial_at": max(clock.iso(dial_at), common["created_at"]),
        "dialed_at": None,
        "answered_at": None,
        "ended_at": None,
        "duration_seconds": None,
        "call_later_at": None,
        "consent": None,
        "transcript_status": FileStatus.NONE,
        "recording_status": FileStatus.NONE,
        "summary": None,
        "metadata": dict(metadata or {}),
    }


def to_call(session: Session) -> Call:
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


def can_be_called(customer: CustomerRecord) -> bool:
    """Whether an agent may offer a call to this customer now, as far as the customer's row tells.

    Opt-outs of the phone and the project's limits would cost each turn more reads. `request_call` checks them, and if
    it refuses the call, the agent replies again without one.
    """
    doc = customer.doc
    return doc["phone"] is not None and not doc["do_not_call"] and "active_session" not in customer.row


def _check_options(customer_id: str, options: CallCreate) -> None:
    """Raises an error for an id that cannot exist, or a time that is too late."""
    if not ids.is_id(CUSTOMERS.prefix, customer_id):
        raise not_found("customer", customer_id)
    latest = clock.now() + LATEST_CALL_DAYS * clock.DAY
    if options.not_before is not None and clock.parse(options.not_before) > latest:
        message = f"The time must be at most {LATEST_CALL_DAYS} days ahead."
        raise ApiError(Code.PARAMETER_INVALID, message, param="not_before")
    if options.appointment_id is not None and not ids.is_id(APPOINTMENTS.prefix, options.appointment_id):
        raise not_found_in_body("appointment", options.appointment_id, "appointment_id")


def _read_rows(scope: Scope, customer_id: str, options: CallCreate) -> table.Rows:
    """The rows that a new call depends on, apart from the consent, in one read."""
    keys = [(scope.pk(CUSTOMERS.kind), customer_id), *project_limits.keys(scope), *agent_settings.keys(scope)]
    keys += opted_out_phones.keys(scope)
    if options.appointment_id is not None:
        keys.append((scope.pk(APPOINTMENTS.kind), options.appointment_id))
    return table.get_many(keys)


def _customer(scope: Scope, id: str, rows: table.Rows) -> CustomerRecord:
    row = rows.get((scope.pk(CUSTOMERS.kind), id))
    if row is None:
        deleted = CUSTOMERS.deleted_row(scope, id) is not None
        raise ApiError(Code.CUSTOMER_DELETED) if deleted else not_found("customer", id)
    return CUSTOMERS.record(row)


def _appointment(scope: Scope, customer_id: str, options: CallCreate, rows: table.Rows) -> AppointmentRecord | None:
    id = options.appointment_id
    if id is None:
        return None
    row = rows.get((scope.pk(APPOINTMENTS.kind), id)) or APPOINTMENTS.deleted_row(scope, id)
    record = None if row is None else APPOINTMENTS.record(row)
    if record is None or record.doc["customer_id"] != customer_id:
        raise not_found_in_body("appointment", id, "appointment_id")
    if not takes_place(record):
        raise ApiError(Code.APPOINTMENT_DELETED if record.doc["deleted_at"] else Code.APPOINTMENT_CANCELLED)
    return record


def _channel(scope: Scope, phone: str, options: CallCreate) -> Channel:
    if options.channel is not None:
        return Channel(options.channel)
    implied = scope.is_simulated and simulated_numbers.number(phone) in simulated_numbers.IMPLIES_WHATSAPP
    return Channel.WHATSAPP if implied else Channel.PHONE


def _link_writes(
    scope: Scope, session: Session, customer: CustomerRecord, appointment: AppointmentRecord | None
) -> list[table.Write]:
    """The writes that make this call the only one of the customer, and the latest one about the appointment."""
    active = table.Update(
        scope.pk(CUSTOMERS.kind),
        customer.doc["id"],
        set={"active_session": session["id"]},
        condition=table.unchanged(customer.version) & table.equals("active_session", None),
    )
    if appointment is None:
        return [active]
    linked: Appointment = {**appointment.doc, "session_id": session["id"]}
    about = revise(appointment.doc, linked)
    return [active, *APPOINTMENTS.replace_writes(scope, appointment, about, {"calls": call_count(appointment) + 1})]


def _start_machine(requested: Consent) -> None:
    """Start the state machine of a new request for consent. The caller waits for this."""
    threads.run_within(wake_ups.REQUEST_S, lambda: consents.start_machine(requested))
