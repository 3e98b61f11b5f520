"""The course of a simulated call: one step after another, each due at its time (contract 10).

What was said and what came of the appointment is the outcome of a real dialogue between the scripted agent and a
scripted customer (`shared.calls.dialogue`). No write changes two of a session's call, transcript and recording status.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from shared import appointments, customers
from shared.agent.scripted import Scripted
from shared.calls import dialogue, placing, recordings, sessions, transcripts, wav
from shared.calls.dialogue import Dialogue
from shared.calls.sessions import AVAILABLE, PROCESSING
from shared.core import clock, table
from shared.core.keys import Scope
from shared.projects import projects
from shared.resources import records
from shared.resources.records import Record
from shared.telephony import Ending, test_numbers
from shared.work import steps

ANSWERS_AFTER = 1
ENDS_AFTER = 2
"""Seconds, scaled, after it was dialed."""


def step(scope: Scope, found: Record) -> list[table.Operation]:
    """The writes of what comes next of a call."""
    session, outcome = found.doc, test_numbers.outcome(found.doc["to"])
    now = clock.now()
    if session["call_status"] == sessions.QUEUED:
        after = ANSWERS_AFTER if outcome.says else ENDS_AFTER
        dialing = placing.dialing(scope, found, now + clock.scaled(after))
        return placing.ending(scope, found, dialing) if isinstance(dialing, Ending) else dialing
    if session["call_status"] == sessions.DIALING:
        if outcome.says and session["answered_at"] is None:
            answered = {"answered_at": clock.iso(now), "answered_by": "human", "transcript_status": PROCESSING}
            return [sessions.changed(scope, found, answered, steps.owed(session["id"], now))]
        if outcome.says and session["recording_status"] == sessions.NONE:
            ends = clock.parse(session["answered_at"]) + clock.scaled(ENDS_AFTER - ANSWERS_AFTER)
            owed = steps.owed(session["id"], ends)
            return [sessions.changed(scope, found, {"recording_status": PROCESSING}, owed)]
        return _talked(scope, found, outcome) if outcome.says else placing.ending(scope, found, outcome.ending)
    if session["transcript_status"] == PROCESSING:
        owed = steps.owed(session["id"], now)
        return [sessions.changed(scope, found, {"transcript_status": AVAILABLE}, owed)]
    if session["recording_status"] == PROCESSING:
        return [_recorded(scope, found)]
    return [sessions.changed(scope, found, {}, steps.NOTHING_OWED)]


def _talked(scope: Scope, found: Record, outcome: test_numbers.Outcome) -> list[table.Operation]:
    """The writes that end a call in which people talked."""
    session = found.doc
    said = _talk(scope, found, outcome)
    changes: dict[str, str | None] = {"summary": said.summary}
    if said.later is not None:
        changes["call_later_at"] = clock.iso(said.later)
    ending = outcome.ending
    if ending.call_status == sessions.COMPLETED:
        ending = dataclasses.replace(ending, ended_reason=f"{said.ended_by}_hangup")
    writes = placing.ending(scope, found, ending, changes, next_step=clock.now())
    writes.append(transcripts.write(scope, session["id"], [dataclasses.asdict(line) for line in said.lines]))
    if said.change is not None:
        writes.append(appointments.APPOINTMENTS.update(scope, *said.change))
    return writes


def _talk(scope: Scope, found: Record, outcome: test_numbers.Outcome) -> Dialogue:
    session = found.doc
    keys = [(scope.pk(customers.CUSTOMERS.kind), session["customer_id"])]
    if session["appointment_id"] is not None:
        keys.append((scope.pk(appointments.APPOINTMENTS.kind), session["appointment_id"]))
    rows = table.get_many(keys)
    customer = rows.get(keys[0]) or customers.CUSTOMERS.deleted_row(scope, session["customer_id"])
    assert customer is not None, "a customer's row is kept"
    about = None
    # A call that was under way when its customer was deleted changes nothing any more.
    if len(keys) > 1 and keys[0] in rows:
        about = rows.get(keys[1]) or appointments.APPOINTMENTS.deleted_row(scope, session["appointment_id"])
    return dialogue.simulate(
        outcome,
        Scripted(),
        [records.of_row(about)] if about else [],
        json.loads(customer["doc"])["name"],
        projects.name_of(scope.project_id),
        found.row.get("instructions"),
    )


def _recorded(scope: Scope, found: Record) -> table.Update:
    session = found.doc
    row = transcripts.find(scope, session["id"])
    assert row is not None, "the transcript is written with the call's end"
    lines = [dialogue.Line(**line) for line in transcripts.lines(row)]
    key = recordings.key_of(scope, session["id"])
    # Whole seconds, so that what the API says of its length is exact.
    seconds = -(-wav.duration_ms(lines) // clock.SECOND)
    recordings.store(key, wav.wav(lines, seconds * clock.SECOND))
    kept: Mapping[str, table.Value | None] = {"recording_key": key, "recording_seconds": seconds}
    return sessions.changed(scope, found, {"recording_status": AVAILABLE}, {**steps.NOTHING_OWED, **kept})
