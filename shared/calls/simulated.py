"""The steps of a simulated call, each due at its time (promises 10).

An answered call is a real dialogue between the scripted agent and a scripted customer, which is spoken at once when the
call ends. It changes the appointment through the agent's tools. No write changes two of a session's call, transcript
and recording status.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from shared.agent import Agent, assent
from shared.agent.scripted import Scripted
from shared.agent.turn import StagedChange
from shared.appointments.resource import APPOINTMENTS
from shared.calls import dialing, dialogue, endings, opt_outs, recordings, sessions, simulated_numbers, transcripts, wav
from shared.calls.dialing import Clearance, Denied, PutOff
from shared.calls.dialogue import Briefing, Progress
from shared.calls.sessions import SESSIONS, CheckStage, SessionChanges, SessionRecord, SessionRow
from shared.calls.simulated_numbers import ScriptedCall
from shared.calls.transcripts import Speaker
from shared.core import clock
from shared.core.call_statuses import OPTED_OUT, CallOutcome, EndedReason, Ending, FileStatus, SessionCallStatus
from shared.store import table
from shared.store.keys import Scope
from shared.tasks import tasks

ANSWERED_AFTER_S = 1
ENDED_AFTER_S = 2
"""Unscaled seconds after the call was dialed."""
SPEAKING = "Yes, speaking."
"""What the scripted customer says when the agent asks for them."""
REPLY_S = 10.0
"""Seconds that the agent has for a reply."""


@dataclass(frozen=True)
class SimulatedCall:
    """What was said in a call, and what has come of it.

    `staged` is what the agent's tools did to the appointment.
    """

    briefing: Briefing
    progress: Progress
    said: tuple[tuple[Speaker, str], ...]
    staged: StagedChange | None = None
    ended_by: Speaker = "customer"

    @property
    def summary(self) -> str:
        """What has come of the call, in sentences."""
        if self.progress.summary:
            return self.progress.summary
        about = self.briefing.appointment
        if about is None:
            return "The call ended without a change."
        at = dialogue.spoken_time(about.doc["appointment_at"], self.briefing.zone)
        return f"The appointment of {at} stays as it is."

    def after(self, line: str, agent: Agent) -> SimulatedCall:
        """The call after the customer's line and the agent's reply. Raises AgentFailed."""
        said: tuple[tuple[Speaker, str], ...] = (*self.said, ("customer", line))
        reply, progress = dialogue.reply_in_call(agent, self.briefing, self.progress, said, REPLY_S)
        briefing, staged = self.briefing, self.staged
        if reply.result.staged is not None:
            read, doc = reply.result.staged.record, reply.result.staged.doc
            staged = StagedChange(read if staged is None else staged.record, doc)
            briefing = dataclasses.replace(briefing, appointment=dataclasses.replace(read, doc=doc))
        ended_by: Speaker = "agent" if reply.result.ends_call else "customer"
        return SimulatedCall(briefing, progress, (*said, ("agent", reply.content)), staged, ended_by)


def simulate(script: ScriptedCall, agent: Agent, briefing: Briefing) -> SimulatedCall:
    """The call of the agent with the scripted customer of `script`, from the answer to the end. Raises AgentFailed."""
    stage = briefing.callee.first_stage
    call = SimulatedCall(briefing, Progress(stage), (("agent", briefing.first_words(recorded=True)),))
    waiting = list(script.says_alone if briefing.appointment is None else script.says)
    if stage == CheckStage.ASKED and script.is_person:
        waiting.insert(0, SPEAKING)
    while waiting and call.ended_by == "customer":
        line = waiting.pop(0)
        # The customer agrees only to what was proposed.
        if assent.agrees(line) and call.progress.proposal is None:
            continue
        call = call.after(line, agent)
        asks_back = line == script.says[0] and call.progress.proposal is None
        if briefing.appointment is not None and asks_back and script.asked_back:
            waiting.insert(0, script.asked_back)
    return call


def run_step(scope: Scope, claim: tasks.Claim[SessionRow]) -> None:
    """Run the next step of a call. Raises ConditionFailed or Contended if the rows were modified concurrently."""
    tasks.save_step(claim, _step_writes(scope, SESSIONS.record(claim.row)))


class Step(Enum):
    """A step of a simulated call, in the order of the call."""

    DIAL = auto()
    END_UNANSWERED = auto()
    ANSWER = auto()
    BEGIN_RECORDING = auto()
    TALK = auto()
    STOP = auto()
    """Instead of TALK, if the person has opted out meanwhile."""
    PUBLISH_TRANSCRIPT = auto()
    PUBLISH_RECORDING = auto()
    NONE = auto()


def step_of(record: SessionRecord) -> Step:
    """The next step of a call. The session's fields say which ones are done."""
    session = record.doc
    if session["call_status"] == SessionCallStatus.QUEUED:
        return Step.DIAL
    if session["call_status"] == SessionCallStatus.DIALING:
        if session["answered_at"] is None:
            is_answered = simulated_numbers.scripted_call(session["to"]).says and not _has_opted_out(record)
            return Step.ANSWER if is_answered else Step.END_UNANSWERED
        if session["recording_status"] == FileStatus.NONE:
            return Step.BEGIN_RECORDING
        return Step.STOP if _has_opted_out(record) else Step.TALK
    if session["transcript_status"] == FileStatus.PROCESSING:
        return Step.PUBLISH_TRANSCRIPT
    return Step.PUBLISH_RECORDING if session["recording_status"] == FileStatus.PROCESSING else Step.NONE


def _has_opted_out(record: SessionRecord) -> bool:
    return bool(record.row.get("opted_out"))


def _step_writes(scope: Scope, record: SessionRecord) -> Sequence[table.Write]:
    """The writes of the next step."""
    script = simulated_numbers.scripted_call(record.doc["to"])
    now = clock.now()
    due_now = tasks.due_attributes(record.doc["id"], now)
    match step_of(record):
        case Step.DIAL:
            return _dial_writes(scope, record)
        case Step.END_UNANSWERED:
            ending = script.ending if script.ending and not _has_opted_out(record) else OPTED_OUT
            return endings.end_writes(scope, record, ending)
        case Step.ANSWER:
            answer: SessionChanges = {
                "answered_at": clock.iso(now),
                "answered_by": "human",
                "transcript_status": FileStatus.PROCESSING,
            }
            return [sessions.change_write(scope, record, answer, due_now)]
        case Step.BEGIN_RECORDING:
            return [_recording_begun_write(scope, record)]
        case Step.TALK:
            return _talk_writes(scope, record, script)
        case Step.STOP:
            return _stop_writes(scope, record)
        case Step.PUBLISH_TRANSCRIPT:
            return [sessions.change_write(scope, record, {"transcript_status": FileStatus.AVAILABLE}, due_now)]
        case Step.PUBLISH_RECORDING:
            return [_recording_write(scope, record)]
        case Step.NONE:
            return [sessions.change_write(scope, record, {}, tasks.NO_WORK)]


def _dial_writes(scope: Scope, record: SessionRecord) -> Sequence[table.Write]:
    match dialing.clearance(scope, record):
        case Denied(ending, changes):
            return endings.end_writes(scope, record, ending, changes)
        case PutOff() as later:
            return [dialing.put_off_write(scope, record, later)]
        case Clearance() as clear:
            script = simulated_numbers.scripted_call(clear.to)
            seconds = ANSWERED_AFTER_S if script.says else ENDED_AFTER_S
            return dialing.start_writes(scope, record, clear, clock.now() + clock.scaled_ms(seconds))


def _recording_begun_write(scope: Scope, record: SessionRecord) -> table.Update:
    """The write of the beginning. The talk is due when it would end, or at once if the person has opted out."""
    session, at = record.doc, clock.now()
    if not _has_opted_out(record):
        assert session["answered_at"] is not None, "a call is answered before it is recorded"
        at = clock.parse(session["answered_at"]) + clock.scaled_ms(ENDED_AFTER_S - ANSWERED_AFTER_S)
    begins: SessionChanges = {"recording_status": FileStatus.PROCESSING}
    return sessions.change_write(scope, record, begins, tasks.due_attributes(session["id"], at))


def _talk_writes(scope: Scope, record: SessionRecord, script: ScriptedCall) -> Sequence[table.Write]:
    """The writes of the whole talk, which end the call. An opt-out is committed before them."""
    call = simulate(script, Scripted(), dialogue.brief(scope, record))
    if call.progress.opted_out:
        opt_outs.opt_out_now(scope, record.doc["customer_id"], in_call=record.doc["id"], to=record.doc["to"])
    changes: SessionChanges = {**call.progress.session_changes, "summary": call.summary}
    hung_up = Ending(SessionCallStatus.COMPLETED, EndedReason(f"{call.ended_by}_hangup"), "human")
    ending = call.progress.ending(script.ending or hung_up)
    end = endings.end_writes(scope, record, ending, changes, due_at=clock.now())
    # Not `writes` with its check of the customer: `end_writes` has the write of that row, which fails if it is deleted.
    appointment = () if call.staged is None else APPOINTMENTS.replace_writes(scope, call.staged.record, call.staged.doc)
    return [*end, transcripts.transcript_write(scope, record.doc["id"], dialogue.to_lines(call.said)), *appointment]


def _stop_writes(scope: Scope, record: SessionRecord) -> Sequence[table.Write]:
    """The writes that end an answered call to a person who has opted out meanwhile. It has a transcript."""
    ending = Ending(SessionCallStatus.COMPLETED, EndedReason.AGENT_HANGUP, "human")
    changes: SessionChanges = {"summary": dialogue.OPTED_OUT_SUMMARY, "outcome": CallOutcome.OPTED_OUT}
    end = endings.end_writes(scope, record, ending, changes, due_at=clock.now())
    return [
        *end,
        transcripts.transcript_write(scope, record.doc["id"], dialogue.to_lines([("agent", dialogue.STOPPED)])),
    ]


def _recording_write(scope: Scope, record: SessionRecord) -> table.Update:
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
    return sessions.change_write(scope, record, {"recording_status": FileStatus.AVAILABLE}, attributes)
