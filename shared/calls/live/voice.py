"""A turn of a live call: the agent answers the customer, with the tools of a conversation (promises 7, 8).

The transcript, one row, is the history of the call. A turn extends it in the transaction that commits the changes of
the tools. The session's row stores the call's progress (`shared/calls/dialogue.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.agent import Agent, AgentFailed, agent_for, count_turn, voicemail
from shared.agent.actions import Action, HandoffReason, handoff
from shared.agent.turn import TurnResult
from shared.agent_settings import resource as agent_settings
from shared.calls import dialogue, opt_outs, sessions, transcripts
from shared.calls.dialogue import Progress
from shared.calls.sessions import SESSIONS, CheckStage, SessionRecord
from shared.calls.transcripts import Line
from shared.core import clock, trace
from shared.core.call_statuses import SessionCallStatus
from shared.core.log import logger
from shared.store import table, transactions
from shared.store.keys import Scope

TRIES = 3
"""The attempts to commit a turn while other writes conflict with it."""
LOST = "Sorry, something went wrong on my side. Someone from our team will get back to you. Goodbye."
SILENCE = "Sorry, I did not hear you. Could you say that again?"
SILENCES = 3
"""The number of consecutive silences after which the agent ends the call."""
FAREWELL = "I cannot hear you. Goodbye."
WAITING, WAITING_SILENCES = "I am still here.", 8
"""What the agent says to a silence while somebody fetches the person, and the number of such silences that it waits."""
WORDS_TO_MACHINE = "Goodbye."
"""What the agent says to a machine, before it hangs up."""


@dataclass(frozen=True)
class SpokenReply:
    """The agent's words, and whether the call ends with them."""

    text: str
    ends_call: bool


@dataclass(frozen=True)
class _Turn:
    """The agent's response in a turn, and the writes that belong to it."""

    response: SpokenReply
    writes: Sequence[table.Write]
    actions: Sequence[Action] | None = None
    """What the agent did; None if it was not asked."""


def respond(scope: Scope, session_id: str, text: str | None, seconds: float) -> SpokenReply:
    """Answer the customer's words within `seconds`; `text` is None if the customer said nothing. Raises ApiError."""
    deadline = clock.now() + int(seconds * clock.SECOND)

    def attempt() -> SpokenReply:
        session = SESSIONS.find(scope, session_id)
        trace.follow(session.row)
        if session.doc["call_status"] != SessionCallStatus.DIALING and not sessions.is_starting(session):
            return SpokenReply(LOST, ends_call=True)
        if session.row.get("opted_out"):
            return SpokenReply(_farewell(scope, dialogue.STOPPED), ends_call=True)
        if text is None:
            turn = _silence(scope, session)
        else:
            seconds_left = (deadline - clock.now()) / clock.SECOND
            turn = _answer(scope, session, text, agent_for(scope), seconds_left)
        table.write(turn.writes)
        if turn.actions is not None:
            count_turn(scope, turn.actions)
        return turn.response

    try:
        return transactions.retry_on_conflict(attempt, tries=TRIES, seconds=seconds)
    except (table.ConditionFailed, table.Contended):
        return SpokenReply(LOST, ends_call=True)


def _silence(scope: Scope, session: SessionRecord) -> _Turn:
    silences = session.row.get("silences", 0) + 1
    words, most = SILENCE, SILENCES
    if session.row.get("stage") == CheckStage.WAITING:
        words, most = WAITING, WAITING_SILENCES
    ends = silences >= most
    response = SpokenReply(_farewell(scope, FAREWELL) if ends else words, ends_call=ends)
    return _Turn(response, [sessions.change_write(scope, session, {}, {"silences": silences})])


def _farewell(scope: Scope, text: str) -> str:
    return dialogue.farewell(text, agent_settings.read(scope).settings)


def _answer(scope: Scope, session: SessionRecord, text: str, agent: Agent, seconds: float) -> _Turn:
    transcript = transcripts.find(scope, session.doc["id"])
    lines = transcripts.lines(transcript) if transcript else _opening(session)
    if not session.row.get("talked") and voicemail.is_greeting(text):
        response = SpokenReply(WORDS_TO_MACHINE, ends_call=True)
        machine = sessions.change_write(scope, session, {}, {"voicemail": True})
        return _Turn(response, [machine, _transcript_write(scope, session, transcript, lines, text, response)])
    briefing, before = dialogue.brief(scope, session), Progress.of(session.row)
    said = [*((line["role"], line["content"]) for line in lines), ("customer", text)]
    try:
        reply, progress = dialogue.reply_in_call(agent, briefing, before, said, seconds)
        result, response = reply.result, SpokenReply(reply.content or LOST, reply.result.ends_call)
    except AgentFailed as error:
        logger().warning("agent failed", extra={"session_id": session.doc["id"], "error": str(error)})
        result = TurnResult([handoff(HandoffReason.AGENT_FAILED)])
        progress = before.after(result, before.stage, briefing.zone)
        response = SpokenReply(dialogue.farewell(LOST, briefing.settings), ends_call=True)
    if progress.opted_out:
        opt_outs.opt_out_now(scope, session.doc["customer_id"], in_call=session.doc["id"], to=session.doc["to"])
    writes = _writes(scope, session, result, progress)
    writes.append(_transcript_write(scope, session, transcript, lines, text, response))
    return _Turn(response, writes, result.actions)


def _transcript_write(
    scope: Scope,
    session: SessionRecord,
    transcript: table.Row | None,
    before: Sequence[Line],
    text: str,
    said: SpokenReply,
) -> table.Write:
    """The write of the transcript with the lines of this turn."""
    lines = [*before, *_lines(session, before, text, said.text)]
    return transcripts.transcript_write(scope, session.doc["id"], lines, transcript["v"] if transcript else 0)


def _writes(scope: Scope, session: SessionRecord, result: TurnResult, progress: Progress) -> list[table.Write]:
    """The writes of a turn: the change of the appointment, and the session's new state."""
    internal: dict[str, table.Value | None] = {**progress.attributes, "talked": True, "silences": None}
    writes: list[table.Write] = [sessions.change_write(scope, session, {}, internal)]
    if result.staged is not None:
        writes += result.staged.writes(scope)
    return writes


def _opening(session: SessionRecord) -> list[Line]:
    return dialogue.to_lines([("agent", session.row["opening"])]) if "opening" in session.row else []


def _lines(session: SessionRecord, before: Sequence[Line], text: str, reply: str) -> list[Line]:
    """The lines of a turn: the customer's, which ends now, and the agent's, which begins now."""
    began = session.doc["answered_at"] or session.doc["dialed_at"]
    began_at = session.row["started_at"] if began is None else clock.parse(began)
    customer, agent = dialogue.to_lines([("customer", text), ("agent", reply)])
    length_ms = customer["ended_at_ms"] - customer["started_at_ms"]
    last = before[-1]["ended_at_ms"] if before else 0
    start = max(last + 1, clock.now() - began_at - length_ms)
    return [
        {**line, "started_at_ms": line["started_at_ms"] + start, "ended_at_ms": line["ended_at_ms"] + start}
        for line in (customer, agent)
    ]
