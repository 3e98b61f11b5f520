"""The steps of a simulated call, each due at its time (promises 10).

An answered call is a real dialogue between the scripted agent and a scripted customer
(`shared/calls/dialogue.py`), and changes the appointment through the agent's tools. No write changes two of a session's
call, transcript and recording status.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from shared.agent.scripted import Scripted
from shared.appointments.resource import APPOINTMENTS
from shared.calls import dialing, dialogue, endings, opting_out, recordings, sessions, transcripts, wav
from shared.calls.dialing import Clearance
from shared.calls.dialogue import Dialogue
from shared.calls.sessions import SESSIONS, FileStatus, SessionChanges, SessionRecord, SessionRow
from shared.core import clock
from shared.customers.resource import CUSTOMERS
from shared.store import table
from shared.store.keys import Scope
from shared.tasks import tasks
from shared.telephony import CallOutcome, EndedReason, Ending, SessionCallStatus, test_numbers
from shared.telephony.test_numbers import Outcome

ANSWERED_AFTER_S = 1
ENDED_AFTER_S = 2
"""Seconds, scaled, after the call was dialed."""


def step(scope: Scope, claim: tasks.Claim[SessionRow]) -> None:
    """Run the next step of a call. Raises ConditionFailed or Contended if the rows were modified concurrently."""
    tasks.save_step(claim, _step(scope, SESSIONS.record(claim.row)))


def _step(scope: Scope, record: SessionRecord) -> Sequence[table.Write]:
    """The writes of the next step."""
    outcome = test_numbers.outcome(record.doc["to"])
    if record.row.get("opted_out") and record.doc["call_status"] == SessionCallStatus.DIALING:
        return _stop(scope, record)
    match record.doc["call_status"]:
        case SessionCallStatus.QUEUED:
            return _dial(scope, record)
        case SessionCallStatus.DIALING if outcome.says:
            return _answer_and_end(scope, record, outcome)
        case SessionCallStatus.DIALING:
            return endings.end(scope, record, outcome.ending).writes
        case _:
            return [_make_files_available(scope, record)]


def _dial(scope: Scope, record: SessionRecord) -> Sequence[table.Write]:
    clear = dialing.clearance(scope, record)
    if not isinstance(clear, Clearance):
        return dialing.put_off_or_end(scope, record, clear)
    outcome = test_numbers.outcome(clear.to)
    seconds = ANSWERED_AFTER_S if outcome.says else ENDED_AFTER_S
    return dialing.dial(scope, record, clear, clock.now() + clock.scaled(seconds))


def _answer_and_end(scope: Scope, record: SessionRecord, outcome: Outcome) -> Sequence[table.Write]:
    """The writes of a call that somebody answers: the answer, the beginning of the recording, the end."""
    session, now = record.doc, clock.now()
    if session["answered_at"] is None:
        answer: SessionChanges = {
            "answered_at": clock.iso(now),
            "answered_by": "human",
            "transcript_status": FileStatus.PROCESSING,
        }
        return [sessions.replace(scope, record, answer, tasks.due_attributes(session["id"], now))]
    if session["recording_status"] == FileStatus.NONE:
        ends_at = clock.parse(session["answered_at"]) + clock.scaled(ENDED_AFTER_S - ANSWERED_AFTER_S)
        begins: SessionChanges = {"recording_status": FileStatus.PROCESSING}
        return [sessions.replace(scope, record, begins, tasks.due_attributes(session["id"], ends_at))]
    return _end(scope, record, outcome)


def _end(scope: Scope, record: SessionRecord, outcome: Outcome) -> Sequence[table.Write]:
    """The writes that end an answered call. A wish not to be contacted is committed before them."""
    result = _dialogue(scope, record, outcome)
    if result.opts_out:
        opting_out.keep(scope, record.doc["customer_id"], in_call=record.doc["id"], to=record.doc["to"])
    changes: SessionChanges = {"summary": result.summary, "outcome": result.outcome}
    if result.later is not None:
        changes["call_later_at"] = clock.iso(result.later)
    ending = outcome.ending
    if ending.call_status == SessionCallStatus.COMPLETED:
        ending = dataclasses.replace(ending, ended_reason=EndedReason(f"{result.ended_by}_hangup"))
    end = endings.end(scope, record, ending, changes, due_at=clock.now())
    appointment = [] if result.change is None else [APPOINTMENTS.replace(scope, *result.change)]
    return [*end.writes, transcripts.write(scope, record.doc["id"], result.lines), *appointment]


def _stop(scope: Scope, record: SessionRecord) -> Sequence[table.Write]:
    """The writes that end a call to a person who has opted out meanwhile. A call that was answered has a transcript."""
    if record.doc["answered_at"] is None:
        return endings.end(scope, record, endings.OPTED_OUT).writes
    if record.doc["recording_status"] == FileStatus.NONE:
        begins: SessionChanges = {"recording_status": FileStatus.PROCESSING}
        return [sessions.replace(scope, record, begins, tasks.due_attributes(record.doc["id"], clock.now()))]
    ending = Ending(SessionCallStatus.COMPLETED, EndedReason.AGENT_HANGUP, "human")
    changes: SessionChanges = {"summary": dialogue.OPTED_OUT, "outcome": CallOutcome.OPTED_OUT}
    end = endings.end(scope, record, ending, changes, due_at=clock.now())
    return [*end.writes, transcripts.write(scope, record.doc["id"], dialogue.spoken([("agent", dialogue.STOPPED)]))]


def _dialogue(scope: Scope, record: SessionRecord, outcome: Outcome) -> Dialogue:
    subject = sessions.subject(scope, record.doc)
    customer = subject.customer or CUSTOMERS.find(scope, record.doc["customer_id"])
    return dialogue.simulate(
        outcome,
        Scripted(),
        [subject.appointment] if subject.appointment is not None else [],
        customer.doc,
        subject.agent.business,
        subject.agent.settings,
        record.row.get("instructions"),
    )


def _make_files_available(scope: Scope, record: SessionRecord) -> table.Update:
    """The write of a call that has ended: its transcript becomes available, then its recording."""
    session = record.doc
    if session["transcript_status"] == FileStatus.PROCESSING:
        changes: SessionChanges = {"transcript_status": FileStatus.AVAILABLE}
        return sessions.replace(scope, record, changes, tasks.due_attributes(session["id"], clock.now()))
    if session["recording_status"] == FileStatus.PROCESSING:
        return _record(scope, record)
    return sessions.replace(scope, record, {}, tasks.NO_WORK)


def _record(scope: Scope, record: SessionRecord) -> table.Update:
    """Store the recording; the write that makes it available."""
    session_id = record.doc["id"]
    transcript = transcripts.find(scope, session_id)
    assert transcript is not None, "the transcript is written with the call's end"
    lines = transcripts.lines(transcript)
    key = recordings.key_of(scope, session_id)
    # Whole seconds, so that the API states the exact length.
    seconds = -(-wav.duration_ms(lines) // clock.SECOND)
    recordings.store(key, wav.wav(lines, seconds * clock.SECOND))
    attributes = {**tasks.NO_WORK, "recording_key": key, "recording_seconds": seconds}
    return sessions.replace(scope, record, {"recording_status": FileStatus.AVAILABLE}, attributes)
