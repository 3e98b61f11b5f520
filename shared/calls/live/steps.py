"""The steps of a live call, as the carrier describes it (promises 7).

A step runs when it is due, or when an event arrives. In both cases the worker asks the carrier for the state of the
call, so events may be lost, repeated or out of order.

A call stays `queued` until the carrier has accepted it, so that a call for which the carrier has no capacity can wait:
1. A worker writes `started_at`, with the counts of the limits and the call's row in `shared/calls/capacity.py`.
2. It lets the carrier place the call. If it dies here, the next worker does so again with the same token, which yields
   the same call.
3. It writes `dialing` and the call's id. If the carrier had no capacity, it undoes step 1 instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from shared.calls import capacity, dialing, dialogue, endings, project_limits, sessions, transcripts
from shared.calls.dialing import Clearance, Denied, PutOff
from shared.calls.dialogue import Progress
from shared.calls.live import contacts
from shared.calls.sessions import SESSIONS, Session, SessionChanges, SessionRecord, SessionRow
from shared.core import clock, settings
from shared.core.call_statuses import (
    CUSTOMER_DELETED,
    OPTED_OUT,
    PROVIDER_ERROR,
    PROVIDER_TIMEOUT,
    VOICEMAIL,
    CallOutcome,
    Channel,
    EndedReason,
    Ending,
    FileStatus,
    SessionCallStatus,
)
from shared.core.limits import LONGEST_CALL_MINUTES
from shared.core.log import logger
from shared.store import table
from shared.store.keys import Scope
from shared.tasks import tasks, wake_ups
from shared.telephony import Busy, CallRefused, ContactState, NoCapacity, NotConfigured, adapters

DIALED_WITHIN_MS = clock.HOUR
"""How long a call may wait to be dialed."""
START_AGAIN_MS = 20 * clock.SECOND
"""When another worker takes over a call whose worker died while it started it: later than the lease ends."""
START_WITHIN_MS = 45 * clock.SECOND
"""When a call that could not be started is given up. After an unanswered call has rung out, the same token could place
a second one."""
BUSY_MS = 5 * clock.SECOND
"""The wait before a carrier that did not respond is asked again to place a call."""
POLL_MS = 30 * clock.SECOND
"""How often the carrier is asked for the state of a call for which no event arrives."""
LOST_AFTER_MS = 10 * clock.MINUTE
"""When a call that the carrier does not know has failed."""
LONGEST_MS = LONGEST_CALL_MINUTES * clock.MINUTE
"""How long a call may take, from dialing on."""
FILES_GIVEN_UP_AFTER_MS = 30 * clock.MINUTE
"""When a transcript or a recording that has not arrived is given up."""
NOT_SET_UP = "Live phone calls are not set up for this deployment. "
NO_MEDIA_BRIDGE = "Live calls on WhatsApp need a media bridge, which this deployment does not have."
WAITED_TOO_LONG = "The call waited for an hour, because too many calls were under way."


def run_step(scope: Scope, claim: tasks.Claim[SessionRow]) -> None:
    """Run the next step of a call. Raises ConditionFailed or Contended if the rows were modified concurrently."""
    record = SESSIONS.record(claim.row)
    if sessions.is_starting(record):
        if clock.now() - record.row["started_at"] >= START_WITHIN_MS:
            tasks.save_step(claim, _end_writes(scope, record, PROVIDER_TIMEOUT, None, clock.now()))
        else:
            _call_carrier(scope, claim, record, first=False)
    elif record.doc["call_status"] == SessionCallStatus.QUEUED:
        _start(scope, claim, record)
    elif record.doc["call_status"] == SessionCallStatus.DIALING:
        tasks.save_step(claim, _poll_writes(scope, record, record.row["contact_id"]))
    else:
        tasks.save_step(claim, [_files_write(scope, record)])


def _start(scope: Scope, claim: tasks.Claim[SessionRow], record: SessionRecord) -> None:
    """Start a queued call, if its limits and the carrier's allow it now."""
    if "customer_deleted" in record.row:
        tasks.save_step(claim, endings.end_writes(scope, record, CUSTOMER_DELETED))
        return
    needs_bridge = record.doc["channel"] == Channel.WHATSAPP and not settings.dials_whatsapp_by_phone()
    waited_ms = clock.now() - dialing.waits_for_capacity_since(record)
    writes: Sequence[table.Write]
    cleared = dialing.clearance(scope, record)
    # Outside of the calling hours, a call waits as long as it takes. Within them, it fails without a media bridge, or
    # once it has waited too long, before it may wait again.
    if isinstance(cleared, Denied):
        writes = endings.end_writes(scope, record, cleared.ending, cleared.changes)
    elif isinstance(cleared, PutOff) and cleared.outside_hours:
        writes = [dialing.put_off_write(scope, record, cleared)]
    elif needs_bridge:
        logger().error(
            "a call on WhatsApp needs a media bridge: connect one that takes WebRTC for the stage's number",
            extra={"session_id": record.doc["id"]},
        )
        writes = endings.end_writes(scope, record, PROVIDER_ERROR, {"summary": NO_MEDIA_BRIDGE})
    elif waited_ms >= DIALED_WITHIN_MS:
        writes = endings.end_writes(scope, record, PROVIDER_TIMEOUT, {"summary": WAITED_TOO_LONG})
    elif isinstance(cleared, PutOff):
        writes = [dialing.put_off_write(scope, record, cleared)]
    else:
        _start_if_admitted(scope, claim, record, cleared)
        return
    tasks.save_step(claim, writes)


def _start_if_admitted(scope: Scope, claim: tasks.Claim[SessionRow], record: SessionRecord, clear: Clearance) -> None:
    session_id = record.doc["id"]
    admission = capacity.admit(scope, session_id)
    if isinstance(admission, capacity.Wait):
        tasks.save_step(claim, [dialing.wait_write(scope, record, admission.until), *admission.writes])
        return
    now = clock.now()
    # Stored before the customer hears it: the first turn needs it, and a repeated start must say the same.
    briefing = dialogue.brief(scope, record)
    attributes = {
        **tasks.due_attributes(session_id, now),
        "started_at": now,
        "opening": briefing.first_words(recorded=settings.records_calls()),
        "stage": briefing.callee.first_stage,
    }
    starts = sessions.change_write(scope, record, {"to": clear.to}, attributes)
    tasks.save_step(claim, [starts, *clear.writes, *admission.writes], keep=True)
    _call_carrier(scope, claim, SESSIONS.find(scope, session_id), first=True)


def _call_carrier(scope: Scope, claim: tasks.Claim[SessionRow], record: SessionRecord, *, first: bool) -> None:
    """Let the carrier place the call, and record its id. `first` if no earlier request can have placed it."""
    session = record.doc
    # For the next worker, if this one dies. `sweep`, or the present message if the queue repeats it, comes too late.
    wake_ups.send([sessions.wake_up(scope, session["id"], clock.now() + START_AGAIN_MS)])
    opening = record.row["opening"]
    try:
        contact_id = adapters.carrier().start(session["to"], session["id"], scope.project_id, scope.livemode, opening)
    except Busy as busy:
        logger().warning("carrier busy", extra={"session_id": session["id"], "error": str(busy)})
        tasks.save_step(claim, _try_again_writes(scope, record, none_placed=first and isinstance(busy, NoCapacity)))
    except CallRefused as refused:
        tasks.save_step(claim, endings.end_writes(scope, record, refused.ending))
    except NotConfigured as error:
        logger().error("live calls are not set up", extra={"error": str(error)})
        end = endings.end_writes(scope, record, PROVIDER_ERROR, {"summary": NOT_SET_UP + str(error)})
        tasks.save_step(claim, end)
    else:
        tasks.save_step(claim, contacts.accepted_writes(scope, record, contact_id, clock.now() + POLL_MS))


def _try_again_writes(scope: Scope, record: SessionRecord, *, none_placed: bool) -> list[table.Write]:
    """The writes after a busy carrier's answer. If it `none_placed`, the call waits as if it had not been started."""
    session_id = record.doc["id"]
    if not none_placed:
        return [sessions.change_write(scope, record, {}, tasks.due_attributes(session_id, clock.now() + BUSY_MS))]
    waits = capacity.back_off(scope, session_id)
    undo = {"started_at": None, "opening": None, "stage": None}
    return [dialing.wait_write(scope, record, waits.until, undo), project_limits.undo_write(scope), *waits.writes]


def _poll_writes(scope: Scope, record: SessionRecord, contact_id: str) -> Sequence[table.Write]:
    """The writes that bring a call under way up to date with the carrier's state of it."""
    session, now = record.doc, clock.now()
    age_ms, patience_ms = _ms_since_dialed(session), LOST_AFTER_MS
    due = tasks.due_attributes(session["id"], now + POLL_MS)
    try:
        state = _describe(contact_id, age_ms)
    except (Busy, NotConfigured) as error:
        logger().warning("the carrier does not respond", extra={"session_id": session["id"], "error": str(error)})
        state, patience_ms = None, LONGEST_MS + LOST_AFTER_MS
    if state is None and age_ms >= patience_ms:
        return _end_writes(scope, record, PROVIDER_TIMEOUT, None, now)
    if record.row.get("opted_out") and session["answered_at"] is None and (state is None or state.answered_at is None):
        adapters.carrier().stop(contact_id)
        return _end_writes(scope, record, OPTED_OUT, None, now)
    if state is not None:
        answered_at = None if state.answered_at is None else clock.iso(state.answered_at)
        if state.ending is not None:
            return _end_writes(scope, record, state.ending, answered_at, state.ended_at)
        if answered_at is not None and session["answered_at"] is None:
            changes: SessionChanges = {"answered_at": answered_at, "transcript_status": FileStatus.PROCESSING}
            return [sessions.change_write(scope, record, changes, due)]
    # Nothing is new. The version stays the same, so that a turn under way need not run again.
    unchanged = table.unchanged(record.version)
    return [table.Update(scope.pk(SESSIONS.kind), session["id"], set=due, condition=unchanged)]


def _describe(contact_id: str, age_ms: int) -> ContactState | None:
    """The carrier's state of a call. A call that takes too long is stopped. Raises Busy, NotConfigured."""
    state = adapters.carrier().describe(contact_id)
    if state is None or state.ending is not None or age_ms < LONGEST_MS:
        return state
    adapters.carrier().stop(contact_id)
    too_long = (
        PROVIDER_TIMEOUT if state.answered_at is None else Ending(SessionCallStatus.COMPLETED, EndedReason.MAX_DURATION)
    )
    return ContactState(state.answered_at, clock.now(), too_long)


def _end_writes(
    scope: Scope, record: SessionRecord, ending: Ending, answered_at: str | None, at: clock.Instant | None
) -> Sequence[table.Write]:
    """The writes that end a call at the instant `at`, with the outcome of the agent's turns."""
    progress = Progress.of(record.row)
    changes: SessionChanges = {
        **progress.session_changes,
        "answered_at": answered_at or record.doc["answered_at"],
    }
    if record.row.get("voicemail") and ending.call_status == SessionCallStatus.COMPLETED:
        ending = VOICEMAIL
    elif record.row.get("talked"):
        # Whoever spoke with the agent is a person, unless the carrier reports a machine.
        ending = dataclasses.replace(ending, answered_by=ending.answered_by or "human")
    if progress.outcome is None and record.row.get("opted_out"):
        changes["outcome"] = CallOutcome.OPTED_OUT
    return endings.end_writes(scope, record, progress.ending(ending), changes, due_at=clock.now(), at=at)


def _files_write(scope: Scope, record: SessionRecord) -> table.Update:
    """The write of the next status of a transcript or a recording. No write changes both."""
    session, now = record.doc, clock.now()
    if session["answered_at"] is None:
        return sessions.change_write(scope, record, {}, tasks.NO_WORK)
    assert session["ended_at"] is not None, "the call has ended"
    until = clock.parse(session["ended_at"]) + FILES_GIVEN_UP_AFTER_MS
    transcript = _next_status(session["transcript_status"], until, lambda: _transcript_exists(scope, session))
    if transcript != session["transcript_status"]:
        due = tasks.due_attributes(session["id"], now)
        return sessions.change_write(scope, record, {"transcript_status": transcript}, due)
    recording = _next_status(session["recording_status"], until, lambda: "recording_key" in record.row)
    if recording != session["recording_status"]:
        due = tasks.due_attributes(session["id"], now)
        return sessions.change_write(scope, record, {"recording_status": recording}, due)
    if FileStatus.PROCESSING not in (transcript, recording):
        return sessions.change_write(scope, record, {}, tasks.NO_WORK)
    return sessions.change_write(scope, record, {}, tasks.due_attributes(session["id"], until))


def _next_status(status: FileStatus, until: clock.Instant, exists: Callable[[], bool]) -> FileStatus:
    """The next status of a file that is expected until the instant `until`."""
    if status == FileStatus.NONE:
        return FileStatus.PROCESSING
    if status != FileStatus.PROCESSING:
        return status
    if exists():
        return FileStatus.AVAILABLE
    return FileStatus.FAILED if clock.now() >= until else FileStatus.PROCESSING


def _transcript_exists(scope: Scope, session: Session) -> bool:
    return transcripts.find(scope, session["id"]) is not None


def _ms_since_dialed(session: Session) -> int:
    """Milliseconds since a call that is under way was dialed."""
    assert session["dialed_at"] is not None, "a call that is under way was dialed"
    return clock.now() - clock.parse(session["dialed_at"])
