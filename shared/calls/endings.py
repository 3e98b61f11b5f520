"""How a call ends: `end_writes`, for every call and every reason (promises 7).

The reasons themselves are in `shared/core/call_statuses.py`. What an opt-out ends is in `shared/calls/opt_outs.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.calls import capacity, project_limits, sessions
from shared.calls.consent import consents
from shared.calls.sessions import SESSIONS, Session, SessionChanges, SessionRecord
from shared.core import clock
from shared.core.call_statuses import (
    CANCELED,
    CUSTOMER_DELETED,
    OUTCOMES,
    EndedReason,
    Ending,
    SessionCallStatus,
)
from shared.core.errors import ApiError, Code
from shared.customers.resource import CUSTOMERS, CustomerRecord
from shared.projects import usage
from shared.resources.collections import Writes
from shared.store import table
from shared.store.keys import Scope
from shared.store.transactions import Change
from shared.tasks import tasks


def end_writes(
    scope: Scope,
    record: SessionRecord,
    ending: Ending,
    changes: SessionChanges | None = None,
    *,
    due_at: clock.Instant | None = None,
    at: clock.Instant | None = None,
    frees_customer: bool = True,
) -> Writes[table.Update]:
    """The writes that end a call, now or at the instant `at`, on condition that it did not change since it was read.

    `changes` are further changes of the session. At `due_at` its next step is due; None if it has none. The same
    transaction frees the customer and what the call used of the limits, counts its usage, and lets it wait no longer
    for its phone's consent. `frees_customer` is False if the caller writes the customer's row, or it does not exist.
    """
    before = record.doc
    now = max(clock.now(), clock.parse(before["created_at"])) if at is None else at
    changes = changes or {}
    changed: Session = {**before, **changes}
    last = _last_changes(changed, ending, now)
    due = tasks.NO_WORK if due_at is None else tasks.due_attributes(before["id"], due_at)
    update = sessions.change_write(scope, record, {**changes, **last}, due)
    writes = list[table.Write]()
    if frees_customer and "customer_deleted" not in record.row:
        pk, is_active = scope.pk(CUSTOMERS.kind), table.equals("active_session", before["id"])
        writes.append(table.Update(pk, before["customer_id"], set={"active_session": None}, condition=is_active))
    dialed = before["call_status"] == SessionCallStatus.DIALING
    if scope.livemode and (dialed or sessions.is_starting(record)):
        writes.append(project_limits.decrement_write(scope))
    if "started_at" in record.row:
        writes.append(capacity.release_write(before["id"]))
    if scope.livemode and dialed:
        used = {"calls": 1, "call_seconds": last["duration_seconds"] or 0}
        writes.append(table.Put(usage.row(scope, before["id"], now, **used), table.ALWAYS))
    if sessions.awaits_consent(changed):
        consent = consents.find(scope, before["to"])
        if consent.is_pending:
            writes.append(consents.document_write(consent, consents.without_session(consent, before["id"])))
    return update, *writes


def _last_changes(session: Session, ending: Ending, now: clock.Instant) -> SessionChanges:
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


def cancel(scope: Scope, id: str) -> Change[Session]:
    """End a queued call. Nothing changes if it was canceled before. Raises `session_not_cancelable`."""
    record = SESSIONS.find(scope, id)
    if record.doc["ended_reason"] == EndedReason.CANCELED:
        return Change(record.doc)
    if not sessions.is_waiting(record):
        raise ApiError(Code.SESSION_NOT_CANCELABLE)
    writes = end_writes(scope, record, CANCELED)
    return Change(SESSIONS.after_replace(record, writes[0]).doc, writes)


def customer_deleted_writes(scope: Scope, customer: CustomerRecord) -> Sequence[table.Write]:
    """The writes that end the queued call of a customer who is deleted, or mark one that was started."""
    if "active_session" not in customer.row:
        return []
    call = SESSIONS.find(scope, customer.row["active_session"])
    if sessions.is_waiting(call):
        return end_writes(scope, call, CUSTOMER_DELETED, frees_customer=False)
    # The version stays the same, so that a turn under way need not run again.
    return [table.Update(scope.pk(SESSIONS.kind), call.doc["id"], set={"customer_deleted": True})]
