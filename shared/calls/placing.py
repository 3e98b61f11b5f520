"""Calls: placing one, letting it dial, ending it, and what consent does to those that wait (contract 7).

Everything here returns the writes of one transaction and performs none, but for `tell`, which hints at them once
they are done. A call takes the customer's row (`active_session`) when it is placed and gives it back when it ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared import appointments, customers
from shared.calls import consents, sessions
from shared.calls import limits as call_limits
from shared.calls.consents import Consent
from shared.calls.sessions import SESSIONS
from shared.core import clock, ids, mode, table
from shared.core.errors import ApiError, not_found, not_found_in_body
from shared.core.keys import Scope
from shared.projects import usage
from shared.resources import records
from shared.resources.records import Document, Record
from shared.telephony import Ending, test_numbers
from shared.work import hints, steps

DIALS_AFTER = 1
"""Seconds, scaled, after which a simulated call is dialed (contract 10)."""
PUT_OFF = 5
"""Seconds, scaled, after which a call is dialed that was one too many at once."""
DECLINED = Ending(sessions.FAILED, "consent_declined")
EXPIRED = Ending(sessions.FAILED, "consent_expired")
REVOKED = Ending(sessions.FAILED, "consent_revoked")
CUSTOMER_DELETED = Ending(sessions.FAILED, "customer_deleted")
NOT_ALLOWED = Ending(sessions.FAILED, "destination_not_allowed")
PROVIDER_ERROR = Ending(sessions.FAILED, "provider_error")


@dataclass(frozen=True)
class Order:
    """What is asked of a call; without a channel it goes by phone."""

    appointment_id: str | None = None
    channel: str | None = None
    instructions: str | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Placed:
    """A call's session, the writes that place it (none where it waits for consent already), and the new request."""

    session: Document
    writes: Sequence[table.Operation] = ()
    asks: Consent | None = None


def place(scope: Scope, customer_id: str, order: Order) -> Placed:
    """A new call to a customer, or the one that waits for the same consent. Raises ApiError."""
    rows = _read(scope, customer_id, order)
    customer = _customer(scope, customer_id, rows)
    appointment = _appointment(scope, customer_id, order, rows)
    if customer.doc["phone"] is None:
        raise ApiError("customer_phone_missing")
    channel = _channel(scope, customer.doc["phone"], order)
    if "active_session" in customer.row:
        active = SESSIONS.find(scope, customer.row["active_session"])
        if channel == sessions.WHATSAPP and sessions.awaits_consent(active.doc):
            return Placed(active.doc)
        raise ApiError("call_in_progress")
    allowed = _must_have_room(scope, customer.doc["phone"], rows)
    session = sessions.new(
        scope,
        customer.doc,
        appointment_id=order.appointment_id,
        channel=channel,
        metadata=order.metadata,
    )
    writes: list[table.Operation] = [_taking(scope, customer, session)]
    if appointment is not None:
        changes = {"session_id": session["id"]}
        about = documents.touched(appointment.doc, changes)
        writes.append(appointments.APPOINTMENTS.update(scope, appointment, about))
    asks = None
    # Nobody is asked where the call will be refused.
    if channel == sessions.WHATSAPP and allowed:
        session, asks, asking = _with_consent(scope, session)
        writes += asking
    internal: dict[str, Any] = {"instructions": order.instructions}
    if not sessions.awaits_consent(session):
        internal |= steps.owed(session["id"], _dials_at(scope))
    return Placed(session, [*writes, SESSIONS.insert(scope, session, **internal)], asks)


def tell(scope: Scope, placed: Placed) -> None:
    """Hint at what a call that was just placed is owed."""
    if not placed.writes:
        return
    if placed.asks is not None:
        consents.begin(placed.asks)
    elif not sessions.awaits_consent(placed.session):
        hints.send("dials", [sessions.hint(scope, placed.session["id"], _dials_at(scope))])


def answer(session: Document) -> Document:
    """What the call action answers."""
    shown = ("customer_id", "appointment_id", "channel", "call_status", "livemode", "created_at")
    status = "consent_pending" if sessions.awaits_consent(session) else "queued"
    return {"object": "call", "status": status, "session_id": session["id"]} | {name: session[name] for name in shown}


def dialing(scope: Scope, found: Record, next_step: int) -> list[table.Operation] | Ending:
    """The writes that let a queued call dial; what it ends with instead where it must not.

    While the project has as many live calls at once as it may, they put it off.
    """
    to, writes = found.doc["to"], list[table.Operation]()
    if scope.livemode:
        limits, counts = call_limits.read(scope, table.get_many(call_limits.keys(scope)))
        if not limits.allows(to) or counts.today >= limits.per_day:
            return NOT_ALLOWED
        if counts.at_once >= limits.at_once:
            again = steps.owed(found.doc["id"], clock.now() + clock.scaled(PUT_OFF))
            return [sessions.changed(scope, found, {}, again)]
        writes.append(call_limits.taken(scope, counts))
    if found.doc["channel"] == sessions.WHATSAPP:
        consent = consents.find(scope, to)
        if not consent.granted:
            return REVOKED
        writes.append(consents.unchanged(consent))
    now = max(clock.now(), clock.parse(found.doc["created_at"]))
    changes = {"call_status": sessions.DIALING, "dialed_at": clock.iso(now)}
    return [sessions.changed(scope, found, changes, steps.owed(found.doc["id"], next_step)), *writes]


def ending(
    scope: Scope,
    found: Record,
    end: Ending,
    changes: Mapping[str, Any] | None = None,
    next_step: int | None = None,
    release: bool = True,
    at: int | None = None,
) -> list[table.Operation]:
    """The writes that end a call, now or `at` an instant, unless its customer was deleted since it was read.

    `release` unless the customer's row is deleted in the same transaction.
    """
    session = found.doc
    now = max(clock.now(), clock.parse(session["created_at"])) if at is None else at
    ended = sessions.ended({**session, **(changes or {})}, end, now)
    owed = steps.NOTHING_OWED if next_step is None else steps.owed(session["id"], next_step)
    writes: list[table.Operation] = [sessions.changed(scope, found, {**ended, **(changes or {})}, owed)]
    # A deleted customer has no call to be freed from.
    if release and "customer_deleted" not in found.row:
        pk, mine = scope.pk(customers.CUSTOMERS.kind), {":mine": session["id"]}
        condition = "active_session = :mine"
        freed = table.Update(pk, session["customer_id"], set={"active_session": None}, condition=condition, values=mine)
        writes.append(freed)
    if scope.livemode and session["call_status"] == sessions.DIALING:
        writes.append(call_limits.given_back(scope))
        used = {"calls": 1, "call_seconds": ended["duration_seconds"] or 0}
        writes.append(table.Put(usage.row(scope, session["id"], now, **used), condition=""))
    return writes


def of_deleted_customer(scope: Scope, customer: Record) -> list[table.Operation]:
    """The writes that end the customer's call, or tell it that there is no customer any more if it was dialed."""
    if "active_session" not in customer.row:
        return []
    active = SESSIONS.find(scope, customer.row["active_session"])
    if active.doc["call_status"] != sessions.QUEUED:
        # The version stays, or a turn under way would be taken again.
        return [table.Update(scope.pk(SESSIONS.kind), active.doc["id"], set={"customer_deleted": True})]
    writes = ending(scope, active, CUSTOMER_DELETED, release=False)
    if sessions.awaits_consent(active.doc):
        consent = consents.find(scope, active.doc["to"])
        if consent.pending:
            writes.append(consents.write(consent, consents.left(consent, active.doc["id"]), consent.row["next_step"]))
    return writes


def settlement(
    scope: Scope, consent: Consent, doc: Document, end: Ending | None, **told: str
) -> tuple[list[table.Operation], list[str]]:
    """The writes beside the consent's own when `doc` settles it, and the sessions to be dialed.

    The sessions that wait end as `end` says, with what is `told` of it; without one they are dialed.
    """
    writes: list[table.Operation] = []
    dial: list[str] = []
    for session_id in consent.doc["sessions"]:
        found = SESSIONS.find(scope, session_id)
        if not sessions.awaits_consent(found.doc):
            continue
        changes = {"consent": consents.shown(doc), **told}
        if end is None:
            writes.append(sessions.changed(scope, found, changes, steps.owed(session_id, clock.now())))
            dial.append(session_id)
        else:
            writes += ending(scope, found, end, changes)
    return writes, dial


def customer_can_be_called(customer: table.Row) -> bool:
    """Whether an agent may offer a call to this customer now."""
    doc = json.loads(customer["doc"])
    return doc["phone"] is not None and "active_session" not in customer


def _read(scope: Scope, customer_id: str, order: Order) -> Mapping[tuple[str, str], table.Row]:
    """What placing a call is decided by, but for the consent: one call of the table."""
    if not ids.is_id(customers.CUSTOMERS.prefix, customer_id):
        raise not_found("customer", customer_id)
    keys = [(scope.pk(customers.CUSTOMERS.kind), customer_id), *call_limits.keys(scope)]
    if order.appointment_id is not None:
        if not ids.is_id(appointments.APPOINTMENTS.prefix, order.appointment_id):
            raise not_found_in_body("appointment", order.appointment_id, "appointment_id")
        keys.append((scope.pk(appointments.APPOINTMENTS.kind), order.appointment_id))
    return table.get_many(keys)


def _customer(scope: Scope, id: str, rows: Mapping[tuple[str, str], table.Row]) -> Record:
    row = rows.get((scope.pk(customers.CUSTOMERS.kind), id))
    if row is None:
        deleted = customers.CUSTOMERS.deleted_row(scope, id) is not None
        raise ApiError("customer_deleted") if deleted else not_found("customer", id)
    return records.of_row(row)


def _appointment(
    scope: Scope, customer_id: str, order: Order, rows: Mapping[tuple[str, str], table.Row]
) -> Record | None:
    if order.appointment_id is None:
        return None
    row = rows.get((scope.pk(appointments.APPOINTMENTS.kind), order.appointment_id))
    if row is None:
        row = appointments.APPOINTMENTS.deleted_row(scope, order.appointment_id)
    if row is None or (doc := json.loads(row["doc"]))["customer_id"] != customer_id:
        raise not_found_in_body("appointment", order.appointment_id, "appointment_id")
    if doc["deleted_at"] is not None:
        raise ApiError("appointment_deleted")
    if doc["status"] == appointments.CANCELLED:
        raise ApiError("appointment_cancelled")
    return Record(doc, row["v"], row)


def _channel(scope: Scope, phone: str, order: Order) -> str:
    if order.channel is not None:
        return order.channel
    implied = mode.simulated(scope) and test_numbers.number(phone) in test_numbers.IMPLIES_WHATSAPP
    return sessions.WHATSAPP if implied else sessions.PHONE


def _must_have_room(scope: Scope, to: str, rows: Mapping[tuple[str, str], table.Row]) -> bool:
    """Whether the number may be called at all. Raises `call_limit_reached`."""
    if not scope.livemode:
        return True
    limits, counts = call_limits.read(scope, rows)
    if full := counts.full(limits):
        raise ApiError("call_limit_reached", f"This project may place {full}, and has.")
    return limits.allows(to)


def _taking(scope: Scope, customer: Record, session: Document) -> table.Update:
    """The write that makes this the customer's one call."""
    return table.Update(
        scope.pk(customers.CUSTOMERS.kind),
        customer.doc["id"],
        set={"active_session": session["id"]},
        condition="v = :v AND attribute_not_exists(active_session)",
        values={":v": customer.version},
    )


def _with_consent(scope: Scope, session: Document) -> tuple[Document, Consent | None, list[table.Operation]]:
    """The session with the phone's consent, the request that begins with it, and the writes. Raises ApiError."""
    consent = consents.find(scope, session["to"])
    if consent.granted:
        return session | {"consent": consent.shown}, None, []
    begins = not consent.pending
    doc = consents.requested(consent, session["id"]) if begins else consents.joined(consent, session["id"])
    if begins:
        write = consents.write(consent, doc, clock.now(), task_token=None, ask_tries=None)
    else:
        write = consents.write(consent, doc, consent.row["next_step"])
    new = consents.of_row(scope, write.row, consent.phone)
    return session | {"consent": new.shown}, new if begins else None, [write]


def _dials_at(scope: Scope) -> int:
    return clock.now() + (clock.scaled(DIALS_AFTER) if mode.simulated(scope) else 0)
