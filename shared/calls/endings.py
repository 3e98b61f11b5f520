"""How calls end: why, and the writes (promises 7).

Functions return writes for a transaction, and perform none.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.calls import capacity, project_limits, sessions
from shared.calls.consent import consents
from shared.calls.sessions import SESSIONS, Session, SessionChanges, SessionRecord
from shared.calls.statuses import ENDED, EndedReason, Ending, SessionCallStatus
from shared.core import clock
from shared.customers.resource import CUSTOMERS
from shared.projects import usage
from shared.store import table
from shared.store.commit import Change
from shared.store.keys import Scope
from shared.tasks import tasks

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
    end_of_call = sessions.end_at({**session, **changes}, ending, now)
    due = tasks.NO_WORK if due_at is None else tasks.due_attributes(session["id"], due_at)
    update = sessions.replace(scope, record, {**changes, **end_of_call}, due)
    writes: list[table.Write] = [update]
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
        writes.append(project_limits.decrement(scope))
    if "started_at" in record.row:
        writes.append(capacity.release(session["id"]))
    if scope.livemode and dialed:
        used = {"calls": 1, "call_seconds": end_of_call["duration_seconds"] or 0}
        writes.append(table.Put(usage.row(scope, session["id"], now, **used), condition=""))
    return Change(SESSIONS.after_write(record, update).doc, writes)


def stop(scope: Scope, active: SessionRecord, *, frees_customer: bool = True) -> Sequence[table.Write]:
    """The writes that end a call because of an opt-out, or let the next step of a call that was started end it."""
    if sessions.waits(active):
        return end_queued(scope, active, OPTED_OUT, frees_customer=frees_customer).writes
    if active.doc["call_status"] in ENDED:
        return []
    due = tasks.due_attributes(active.doc["id"], clock.now())
    return [sessions.replace(scope, active, {}, {**due, "opted_out": True})]


def end_queued(scope: Scope, record: SessionRecord, ending: Ending, *, frees_customer: bool = True) -> Change[Session]:
    """End a queued call, which does not wait for its phone's consent any more."""
    change = end_call(scope, record, ending, frees_customer=frees_customer)
    if sessions.awaits_consent(record.doc):
        consent = consents.find(scope, record.doc["to"])
        if consent.pending:
            return change.with_writes(consents.replace(consent, consents.without_session(consent, record.doc["id"])))
    return change
