"""The course of a live call: one step after another, as the carrier tells (contract 7, design "A call").

A step is done when it is due or when an event says that something has happened; either way the carrier is asked what
has become of the call, so events may be lost, doubled or out of order. A worker that dies between placing a call and
writing down its id is followed by one that places it again under the same token, which yields the same call.
"""

from __future__ import annotations

import functools
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared import appointments, customers
from shared.agent.tools import to_view
from shared.calls import dialogue, placing, sessions, transcripts
from shared.calls.sessions import AVAILABLE, MISSED, NONE, PROCESSING
from shared.core import clock, table
from shared.core.keys import Scope
from shared.core.log import logger
from shared.projects import projects
from shared.resources.records import Record
from shared.telephony import Busy, CallRefused, Carrier, ContactState, Ending, NotConfigured
from shared.work import hints, steps

START_AGAIN = 20 * clock.SECOND
"""How long one worker may take to place a call, before another does."""
START_WITHIN = 45 * clock.SECOND
"""After this a call that rang unanswered could be placed a second time by the same token, so it is given up."""
BUSY = 5 * clock.SECOND
LOOK = 30 * clock.SECOND
"""How often the carrier is asked for a call that no event came of."""
LOST_AFTER = 10 * clock.MINUTE
LONGEST = 15 * clock.MINUTE
"""How long a call may take, from dialing on."""
FILES_WITHIN = 30 * clock.MINUTE
"""When a transcript or a recording that has not come is given up."""
TIMEOUT = Ending(sessions.FAILED, "provider_timeout")
NOT_SET_UP = "Live phone calls are not set up for this deployment. "


def step(scope: Scope, found: Record) -> None:
    """Do what comes next of a call. Raises CallRefused or Contended where another worker was quicker."""
    session = found.doc
    if session["call_status"] == sessions.QUEUED:
        _dial(scope, found)
    elif session["call_status"] != sessions.DIALING:
        _write(_files(scope, found))
    elif "contact_id" in found.row:
        _write(_looked(scope, found, found.row["contact_id"]))
    elif clock.now() - clock.parse(session["dialed_at"]) >= START_WITHIN:
        _write(_ended(scope, found, TIMEOUT, None, clock.now()))
    else:
        _write([sessions.changed(scope, found, {}, steps.owed(session["id"], clock.now() + START_AGAIN))])
        _start(scope, sessions.SESSIONS.find(scope, session["id"]))


def of_contact(contact_id: str) -> tuple[Scope, str] | None:
    """Which call a contact is; None for a contact that is none of ours."""
    row = table.get(_contact_pk(contact_id), "contact")
    return None if row is None else (Scope(row["project_id"], row["livemode"]), str(row["session_id"]))


def wake(scope: Scope, session_id: str, noted: Mapping[str, table.Value] | None = None) -> None:
    """Make the next step of a call due now, and note these attributes in the same write."""
    update = table.Update(
        scope.pk(sessions.SESSIONS.kind),
        session_id,
        set={**steps.owed(session_id, clock.now()), **(noted or {})},
        expressions=("v = v + :one",),
        values={":one": 1},
    )
    _write([update])


def keep_transcript(scope: Scope, session_id: str, lines: Sequence[Mapping[str, Any]]) -> None:
    """Keep a call's transcript, unless the agent has written one, and wake the call.

    An analysis without lines is one that failed: a transcript may come yet.
    """
    if lines:
        try:
            _write([transcripts.write(scope, session_id, lines)])
        except table.ConditionFailed:
            logger().info("transcript kept already", extra={"session_id": session_id})
    wake(scope, session_id)


def _dial(scope: Scope, found: Record) -> None:
    dialing = placing.dialing(scope, found, clock.now() + START_AGAIN)
    if isinstance(dialing, Ending):
        _write(placing.ending(scope, found, dialing))
        return
    if found.doc["channel"] == sessions.WHATSAPP:
        logger().error(
            "a call on WhatsApp needs a media bridge: connect one that takes WebRTC for the stage's number",
            extra={"session_id": found.doc["id"]},
        )
        summary = "Live calls on WhatsApp need a media bridge, which this deployment has not."
        _write(placing.ending(scope, found, placing.PROVIDER_ERROR, {"summary": summary}))
        return
    [claim, *others] = dialing
    assert isinstance(claim, table.Update)
    # Written before anybody hears it: the first turn needs it, and a start that is repeated says the same.
    _write([replace(claim, set={**claim.set, "opening": _opening(scope, found)}), *others])
    now = sessions.SESSIONS.find(scope, found.doc["id"])
    # It was put off where the project has as many calls at once as it may.
    if now.doc["call_status"] == sessions.DIALING:
        _start(scope, now)


def _start(scope: Scope, found: Record) -> None:
    """Place the call, and write down which one it is."""
    session = found.doc
    # For who follows if this worker dies: sweep, and the message that woke it, would come too late.
    hints.send("dials", [sessions.hint(scope, session["id"], clock.now() + START_AGAIN)])
    opening = found.row["opening"]
    try:
        contact_id = _carrier().start(session["to"], session["id"], scope.project_id, scope.livemode, opening)
    except Busy as busy:
        logger().warning("carrier busy", extra={"session_id": session["id"], "why": str(busy)})
        _write([sessions.changed(scope, found, {}, steps.owed(session["id"], clock.now() + BUSY))])
    except CallRefused as refused:
        _write(placing.ending(scope, found, refused.ending))
    except NotConfigured as missing:
        logger().error("live calls are not set up", extra={"why": str(missing)})
        _write(placing.ending(scope, found, placing.PROVIDER_ERROR, {"summary": NOT_SET_UP + str(missing)}))
    else:
        owed = steps.owed(session["id"], clock.now() + LOOK)
        placed = sessions.changed(scope, found, {}, {**owed, "contact_id": contact_id})
        contact = {"pk": _contact_pk(contact_id), "sk": "contact", "kind": "contact", "session_id": session["id"]}
        contact |= {"project_id": scope.project_id, "livemode": scope.livemode}
        _write([placed, table.Put(contact, condition="")])


def _looked(scope: Scope, found: Record, contact_id: str) -> list[table.Operation]:
    """What the carrier says of a call that is under way, as writes."""
    session, now = found.doc, clock.now()
    again = _looked_again(scope, found, now + LOOK)
    age = now - clock.parse(session["dialed_at"])
    patience = LOST_AFTER
    try:
        seen = _carrier().describe(contact_id)
        if age >= LONGEST and seen is not None and seen.ending is None:
            _carrier().stop(contact_id)
            seen = ContactState(seen.answered_at, now, _too_long(seen))
    except (Busy, NotConfigured) as trouble:
        logger().warning("the carrier tells nothing", extra={"session_id": session["id"], "why": str(trouble)})
        seen, patience = None, LONGEST + LOST_AFTER
    if seen is None:
        lost = age >= patience
        return _ended(scope, found, TIMEOUT, None, now) if lost else [again]
    answered = None if seen.answered_at is None else clock.iso(seen.answered_at)
    if seen.ending is not None:
        return _ended(scope, found, seen.ending, answered, seen.ended_at)
    if answered is not None and session["answered_at"] is None:
        changes = {"answered_at": answered, "transcript_status": PROCESSING}
        return [sessions.changed(scope, found, changes, again.set)]
    return [again]


def _looked_again(scope: Scope, found: Record, at: int) -> table.Update:
    """The write after a look that saw nothing new; the version stays, or a turn under way would be taken again."""
    id, unchanged = found.doc["id"], {":v": found.version}
    return table.Update(
        scope.pk(sessions.SESSIONS.kind), id, set=steps.owed(id, at), condition="v = :v", values=unchanged
    )


def _ended(scope: Scope, found: Record, ending: Ending, answered: str | None, at: int | None) -> list[table.Operation]:
    changes: dict[str, Any] = {"answered_at": answered or found.doc["answered_at"]}
    if found.row.get("talked"):
        # Whoever spoke with the agent was a person, unless the carrier knows better.
        ending = replace(ending, answered_by=ending.answered_by or "human")
    if "later" in found.row and ending.call_status == sessions.COMPLETED:
        ending = Ending(sessions.CALL_LATER, "callback_requested", "human")
        changes["call_later_at"] = clock.iso(found.row["later"])
    if "outcome" in found.row:
        changes["summary"] = found.row["outcome"]
    return placing.ending(scope, found, ending, changes, next_step=clock.now(), at=at)


def _too_long(seen: ContactState) -> Ending:
    return TIMEOUT if seen.answered_at is None else Ending(sessions.COMPLETED, "max_duration")


def _files(scope: Scope, found: Record) -> list[table.Operation]:
    """What has come of a transcript and a recording, one status a write."""
    session = found.doc
    if session["answered_at"] is None:
        return [sessions.changed(scope, found, {}, steps.NOTHING_OWED)]
    now = clock.now()
    until = clock.parse(session["ended_at"]) + FILES_WITHIN
    soon, there = steps.owed(session["id"], now), {"recording": "recording_key" in found.row}
    if session["transcript_status"] == PROCESSING:
        there["transcript"] = transcripts.find(scope, session["id"]) is not None
    for part in ("transcript", "recording"):
        name = f"{part}_status"
        if session[name] == NONE:
            return [sessions.changed(scope, found, {name: PROCESSING}, soon)]
        if session[name] == PROCESSING and (there[part] or now >= until):
            return [sessions.changed(scope, found, {name: AVAILABLE if there[part] else MISSED}, soon)]
    waits = PROCESSING in (session["transcript_status"], session["recording_status"])
    owed = steps.owed(session["id"], until) if waits else steps.NOTHING_OWED
    return [sessions.changed(scope, found, {}, owed)]


def _opening(scope: Scope, found: Record) -> str:
    """What the agent says first."""
    customer = table.get(scope.pk(customers.CUSTOMERS.kind), found.doc["customer_id"])
    name = json.loads(customer["doc"])["name"] if customer else None
    about = None
    if found.doc["appointment_id"] is not None:
        about = table.get(scope.pk(appointments.APPOINTMENTS.kind), found.doc["appointment_id"])
    doc = json.loads(about["doc"]) if about else None
    coming = doc is not None and dialogue.is_coming(doc)
    return dialogue.opening(name, projects.name_of(scope.project_id), to_view(doc) if doc and coming else None)


def _contact_pk(contact_id: str) -> str:
    return f"CONTACT#{contact_id}"


def _write(writes: list[table.Operation]) -> None:
    table.write(writes, uuid.uuid4().hex)


@functools.cache
def _carrier() -> Carrier:
    from shared.telephony.amazon_connect import Connect

    return Connect.from_environment()
