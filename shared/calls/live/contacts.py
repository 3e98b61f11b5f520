"""The contacts of live calls: which call each belongs to, and what its events bring (promises 7).

The carrier's events name a contact. A row for each contact leads to its session, and is written when the carrier has
accepted the call.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.calls import recordings, sessions, transcripts
from shared.calls.sessions import SESSIONS, Session, SessionChanges, SessionRecord
from shared.calls.transcripts import Line
from shared.core import clock, trace
from shared.core.call_statuses import ENDED, SessionCallStatus
from shared.core.log import logger
from shared.store import table, transactions
from shared.store.keys import Scope
from shared.tasks import tasks
from shared.telephony import Busy, adapters

CONTACT_KEPT_MS = 7 * clock.DAY
"""How long a contact's session can be found. Its last events arrive within hours, but an event that fails can stay in a
queue for days."""


def find(contact_id: str) -> tuple[Scope, str] | None:
    """The project, mode and session of a contact; None for a contact that is not a call of this service."""
    row = table.get(_pk(contact_id), "contact")
    if row is not None:
        trace.follow(row)
    return None if row is None else (Scope(row["project_id"], row["livemode"]), str(row["session_id"]))


def adopt(contact_id: str) -> tuple[Scope, str] | None:
    """Record a contact that no worker has recorded, if it is a call of this service. Returns the call.

    The worker that started it died, or did not get the response. If the call was given up meanwhile, the contact is
    stopped, and the result is None. Raises Busy if it could not be stopped.
    """
    try:
        owner = adapters.carrier().owner(contact_id)
    except Busy as busy:
        # The contact may be another application's, which is no reason to fail.
        logger().warning("contact not identified", extra={"contact_id": contact_id, "error": str(busy)})
        return None
    if owner is None:
        return None
    scope, session_id = Scope(owner.project_id, owner.livemode), owner.session_id

    def attempt() -> bool:
        row = SESSIONS.row(scope, session_id)
        call = None if row is None else SESSIONS.record(row)
        if call is not None and sessions.is_starting(call):
            table.write(accepted_writes(scope, call, contact_id, clock.now()))
            return True
        if call is None or (call.doc["call_status"] in ENDED and call.row.get("contact_id") != contact_id):
            logger().warning("contact of an ended call stopped", extra={"session_id": session_id})
            adapters.carrier().stop(contact_id)
        return False

    return (scope, session_id) if transactions.retry_on_conflict(attempt) else None


def delete_write(contact_id: str) -> table.Delete:
    """The write after which events of the contact are ignored."""
    return table.Delete(_pk(contact_id), "contact", table.ALWAYS)


def make_step_due(scope: Scope, session_id: str) -> None:
    """Make the next step of a call due now."""
    update = table.Update(
        scope.pk(SESSIONS.kind),
        session_id,
        set=tasks.due_attributes(session_id, clock.now()),
        add={"v": 1},
    )
    table.write([update])


def keep_recording(scope: Scope, session_id: str, key: str, *, redacted: bool) -> None:
    """Record the key of a call's recording, and wake the call.

    Of a recording and its redacted copy, which may arrive in any order, the copy is kept and the other one is deleted.
    """

    def attempt() -> str | None:
        row = SESSIONS.find(scope, session_id).row
        attributes = _recording_attributes(row, key, redacted=redacted)
        due = tasks.due_attributes(session_id, clock.now())
        update = table.Update(
            scope.pk(SESSIONS.kind),
            session_id,
            set={**due, **attributes, "v": row["v"] + 1},
            condition=table.unchanged(row["v"]),
        )
        table.write([update])
        raw = attributes.get("raw_recording_key") or row.get("raw_recording_key")
        return None if raw is None else str(raw)

    raw = transactions.retry_on_conflict(attempt)
    if raw is not None:
        recordings.delete(raw)


def _recording_attributes(row: sessions.SessionRow, key: str, *, redacted: bool) -> dict[str, table.Value | None]:
    """The attributes to set when a recording arrives: which copy is kept, and which raw one is to be deleted."""
    present = row.get("recording_key")
    if not redacted:
        return {"raw_recording_key" if row.get("recording_redacted") else "recording_key": key}
    attributes: dict[str, table.Value | None] = {"recording_key": key, "recording_redacted": True}
    return attributes if present in (None, key) else attributes | {"raw_recording_key": present}


def keep_transcript(scope: Scope, session_id: str, lines: Sequence[Line], *, redacted: bool) -> None:
    """Store the transcript that the carrier made of a call, and wake the call.

    The agent's own transcript is kept, and a redacted one replaces the carrier's other one. An analysis without lines
    has failed; a transcript may still arrive.
    """
    if lines:
        transactions.retry_on_conflict(lambda: _store_transcript(scope, session_id, lines, redacted=redacted))
    make_step_due(scope, session_id)


def _store_transcript(scope: Scope, session_id: str, lines: Sequence[Line], *, redacted: bool) -> None:
    present = transcripts.find(scope, session_id)
    source = transcripts.REDACTED if redacted else transcripts.RAW
    if present is None:
        table.write([transcripts.transcript_write(scope, session_id, lines, source=source)])
    elif redacted and present.get("source") == transcripts.RAW:
        table.write([transcripts.transcript_write(scope, session_id, lines, present["v"], source=source)])
    else:
        logger().info("transcript exists", extra={"session_id": session_id})


def accepted_writes(scope: Scope, call: SessionRecord, contact_id: str, due_at: clock.Instant) -> list[table.Write]:
    """The writes of a call that the carrier has accepted, whose next step is due at the instant `due_at`."""
    session = call.doc
    dialed_at = max(call.row["started_at"], clock.parse(session["created_at"]))
    changes: SessionChanges = {
        "call_status": SessionCallStatus.DIALING,
        "dialed_at": clock.iso(dialed_at),
        "dial_at": None,
    }
    attributes = {**tasks.due_attributes(session["id"], due_at), "contact_id": contact_id}
    return [sessions.change_write(scope, call, changes, attributes), _link_write(scope, session, contact_id)]


def _link_write(scope: Scope, session: Session, contact_id: str) -> table.Put:
    """The write by which events of the contact find its session."""
    row: table.Row = {"pk": _pk(contact_id), "sk": "contact", "kind": "contact", "session_id": session["id"]}
    owner = {"project_id": scope.project_id, "livemode": scope.livemode}
    return table.Put(row | owner | {"expires_at": table.expiry(clock.now() + CONTACT_KEPT_MS)}, table.ALWAYS)


def _pk(contact_id: str) -> str:
    return f"CONTACT#{contact_id}"
