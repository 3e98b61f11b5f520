"""The steps of a live call, as the carrier describes it (contract 7, design "A call").

A step is taken when it is due, or when an event arrives. In both cases the carrier is asked for the state of the call,
so events may be lost, repeated or out of order. If a worker dies after it placed a call and before it recorded the
call's id, the next worker places the call again under the same token, which yields the same call.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared.agent.tools import to_view
from shared.calls import dialogue, placing, sessions, transcripts
from shared.calls.placing import Clearance
from shared.calls.sessions import AVAILABLE, MISSED, NONE, PROCESSING, SESSIONS, Session, SessionRecord
from shared.calls.transcripts import Line
from shared.core import clock, table
from shared.core.keys import Scope
from shared.core.log import logger
from shared.projects import projects
from shared.telephony import Busy, CallRefused, ContactState, Ending, NotConfigured, adapters
from shared.work import hints, owed

START_AGAIN = 20 * clock.SECOND
"""When another worker follows one that died over placing a call; later than the lease ends."""
START_WITHIN = 45 * clock.SECOND
"""When a call that could not be placed is given up. After an unanswered call has rung out, the same token could place a
second one."""
BUSY = 5 * clock.SECOND
"""The wait before a busy carrier is asked again to place a call."""
POLL = 30 * clock.SECOND
"""How often the carrier is asked for the state of a call for which no event arrives."""
LOST_AFTER = 10 * clock.MINUTE
"""When a call that the carrier does not know has failed."""
LONGEST = 15 * clock.MINUTE
"""How long a call may take from dialing on."""
FILES_WITHIN = 30 * clock.MINUTE
"""When a transcript or a recording that has not arrived is given up."""
TIMEOUT = Ending(sessions.FAILED, "provider_timeout")
NOT_SET_UP = "Live phone calls are not set up for this deployment. "
NO_MEDIA_BRIDGE = "Live calls on WhatsApp need a media bridge, which this deployment does not have."


def step(scope: Scope, claim: owed.Claim) -> None:
    """Take the next step of a call. Raises ConditionFailed or Contended if the rows changed meanwhile."""
    record = SESSIONS.record(claim.row)
    if record.doc["call_status"] == sessions.QUEUED:
        _dial(scope, claim, record)
    elif record.doc["call_status"] != sessions.DIALING:
        owed.commit(claim, [_update_files(scope, record)])
    elif "contact_id" in record.row:
        owed.commit(claim, _poll(scope, record, record.row["contact_id"]))
    elif _since_dialed(record.doc) >= START_WITHIN:
        owed.commit(claim, _end(scope, record, TIMEOUT, None, clock.now()))
    else:
        _start(scope, claim, record)


def of_contact(contact_id: str) -> tuple[Scope, str] | None:
    """The project, mode and session of a contact; None for a contact that is not a call of this service."""
    row = table.get(_contact_pk(contact_id), "contact")
    return None if row is None else (Scope(row["project_id"], row["livemode"]), str(row["session_id"]))


def contact_deletion(contact_id: str) -> table.Delete:
    """The write after which events of the contact are ignored."""
    return table.Delete(_contact_pk(contact_id), "contact")


def wake(scope: Scope, session_id: str, attributes: Mapping[str, table.Value] | None = None) -> None:
    """Make the next step of a call due now, and set these attributes of its row."""
    update = table.Update(
        scope.pk(SESSIONS.kind),
        session_id,
        set={**owed.owed(session_id, clock.now()), **(attributes or {})},
        expressions=("v = v + :one",),
        values={":one": 1},
    )
    table.write([update], uuid.uuid4().hex)


def keep_transcript(scope: Scope, session_id: str, lines: Sequence[Line]) -> None:
    """Store a call's transcript, unless the agent has written one, and wake the call.

    An analysis without lines has failed; a transcript may still arrive.
    """
    if lines:
        try:
            table.write([transcripts.write(scope, session_id, lines)], uuid.uuid4().hex)
        except table.ConditionFailed:
            logger().info("transcript exists", extra={"session_id": session_id})
    wake(scope, session_id)


def _dial(scope: Scope, claim: owed.Claim, record: SessionRecord) -> None:
    clear = placing.clearance(scope, record)
    if isinstance(clear, Ending):
        owed.commit(claim, placing.not_dialing(scope, record, clear))
        return
    if record.doc["channel"] == sessions.WHATSAPP:
        logger().error(
            "a call on WhatsApp needs a media bridge: connect one that takes WebRTC for the stage's number",
            extra={"session_id": record.doc["id"]},
        )
        changes = {"summary": NO_MEDIA_BRIDGE}
        owed.commit(claim, placing.ending(scope, record, placing.PROVIDER_ERROR, changes))
        return
    if not isinstance(clear, Clearance):
        owed.commit(claim, placing.not_dialing(scope, record, clear))
        return
    # Stored before the customer hears it: the first turn needs it, and a repeated start must say the same.
    opening = _opening(scope, record)
    owed.commit(claim, placing.dialing(scope, record, clear, clock.now(), opening=opening), keep=True)
    _start(scope, claim, SESSIONS.find(scope, record.doc["id"]))


def _start(scope: Scope, claim: owed.Claim, record: SessionRecord) -> None:
    """Place the call, and record its id."""
    session = record.doc
    # For the next worker, if this one dies. `sweep`, or the present message if the queue repeats it, comes too late.
    hints.send("dials", [sessions.hint(scope, session["id"], clock.now() + START_AGAIN)])
    opening = record.row["opening"]
    try:
        contact_id = adapters.carrier().start(session["to"], session["id"], scope.project_id, scope.livemode, opening)
    except Busy as busy:
        logger().warning("carrier busy", extra={"session_id": session["id"], "error": str(busy)})
        again = owed.owed(session["id"], clock.now() + BUSY)
        owed.commit(claim, [sessions.update(scope, record, {}, again)])
    except CallRefused as refused:
        owed.commit(claim, placing.ending(scope, record, refused.ending))
    except NotConfigured as error:
        logger().error("live calls are not set up", extra={"error": str(error)})
        changes = {"summary": NOT_SET_UP + str(error)}
        owed.commit(claim, placing.ending(scope, record, placing.PROVIDER_ERROR, changes))
    else:
        attributes = {**owed.owed(session["id"], clock.now() + POLL), "contact_id": contact_id}
        owed.commit(claim, [sessions.update(scope, record, {}, attributes), _contact(scope, session, contact_id)])


def _poll(scope: Scope, record: SessionRecord, contact_id: str) -> list[table.Operation]:
    """The writes that take over the carrier's state of a call that is under way."""
    session, now = record.doc, clock.now()
    age, patience = _since_dialed(session), LOST_AFTER
    due = owed.owed(session["id"], now + POLL)
    try:
        state = _describe(contact_id, age)
    except (Busy, NotConfigured) as error:
        logger().warning("the carrier does not respond", extra={"session_id": session["id"], "error": str(error)})
        state, patience = None, LONGEST + LOST_AFTER
    if state is None and age >= patience:
        return _end(scope, record, TIMEOUT, None, now)
    if state is not None:
        answered_at = None if state.answered_at is None else clock.iso(state.answered_at)
        if state.ending is not None:
            return _end(scope, record, state.ending, answered_at, state.ended_at)
        if answered_at is not None and session["answered_at"] is None:
            changes = {"answered_at": answered_at, "transcript_status": PROCESSING}
            return [sessions.update(scope, record, changes, due)]
    # Nothing is new. The version stays as it is, or a turn under way would be taken again.
    unchanged = {":v": record.version}
    return [table.Update(scope.pk(SESSIONS.kind), session["id"], set=due, condition="v = :v", values=unchanged)]


def _describe(contact_id: str, age: int) -> ContactState | None:
    """The carrier's state of a call. A call that takes too long is stopped. Raises Busy, NotConfigured."""
    state = adapters.carrier().describe(contact_id)
    if state is None or state.ending is not None or age < LONGEST:
        return state
    adapters.carrier().stop(contact_id)
    too_long = TIMEOUT if state.answered_at is None else Ending(sessions.COMPLETED, "max_duration")
    return ContactState(state.answered_at, clock.now(), too_long)


def _end(
    scope: Scope, record: SessionRecord, ending: Ending, answered_at: str | None, at: int | None
) -> list[table.Operation]:
    """The writes that end a call at the instant `at`, with what the agent's turns did."""
    changes: dict[str, Any] = {"answered_at": answered_at or record.doc["answered_at"]}
    if record.row.get("talked"):
        # A customer who spoke with the agent is a person, unless the carrier says otherwise.
        ending = replace(ending, answered_by=ending.answered_by or "human")
    if "later" in record.row and ending.call_status == sessions.COMPLETED:
        ending = Ending(sessions.CALL_LATER, "callback_requested", "human")
        changes["call_later_at"] = clock.iso(record.row["later"])
    if "outcome" in record.row:
        changes["summary"] = record.row["outcome"]
    return placing.ending(scope, record, ending, changes, due_at=clock.now(), at=at)


def _update_files(scope: Scope, record: SessionRecord) -> table.Update:
    """The write that takes over the state of a transcript or a recording, one status a write."""
    session, now = record.doc, clock.now()
    if session["answered_at"] is None:
        return sessions.update(scope, record, {}, owed.NOTHING)
    assert session["ended_at"] is not None, "the call has ended"
    until = clock.parse(session["ended_at"]) + FILES_WITHIN
    statuses = {"transcript_status": session["transcript_status"], "recording_status": session["recording_status"]}
    for name, status in statuses.items():
        changed = PROCESSING
        if status == PROCESSING:
            exists = (
                _transcript_exists(scope, session) if name == "transcript_status" else "recording_key" in record.row
            )
            changed = AVAILABLE if exists else MISSED if now >= until else PROCESSING
        if status in (NONE, PROCESSING) and changed != status:
            return sessions.update(scope, record, {name: changed}, owed.owed(session["id"], now))
    waits = PROCESSING in statuses.values()
    return sessions.update(scope, record, {}, owed.owed(session["id"], until) if waits else owed.NOTHING)


def _transcript_exists(scope: Scope, session: Session) -> bool:
    return transcripts.find(scope, session["id"]) is not None


def _opening(scope: Scope, record: SessionRecord) -> str:
    """The agent's first words."""
    subject = sessions.subject(scope, record.doc)
    about = None if subject.appointment is None else subject.appointment.doc
    return dialogue.opening(
        None if subject.customer is None else subject.customer.doc["name"],
        projects.name_of(scope.project_id),
        to_view(about) if about is not None and dialogue.is_coming(about) else None,
    )


def _since_dialed(session: Session) -> int:
    """Milliseconds since a call that is under way was dialed."""
    assert session["dialed_at"] is not None, "a call that is under way was dialed"
    return clock.now() - clock.parse(session["dialed_at"])


def _contact(scope: Scope, session: Session, contact_id: str) -> table.Put:
    """The write by which events of the contact find its session."""
    row: table.Row = {"pk": _contact_pk(contact_id), "sk": "contact", "kind": "contact", "session_id": session["id"]}
    return table.Put(row | {"project_id": scope.project_id, "livemode": scope.livemode}, condition="")


def _contact_pk(contact_id: str) -> str:
    return f"CONTACT#{contact_id}"
