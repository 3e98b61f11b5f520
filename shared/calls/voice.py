"""A turn of a live call: the agent answers the customer, with the tools of a conversation (contract 7, 8).

What was said before is the transcript, one row. A turn extends it in the transaction that carries out what the tools
did. The session's row keeps the agent's proposal and what the call has led to.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from shared import customers
from shared.agent import Agent, AgentFailed, Utterance, adapters, plain_text
from shared.agent.tools import Proposal, Tools
from shared.appointments import APPOINTMENTS
from shared.calls import dialogue, sessions, transcripts
from shared.calls.sessions import SESSIONS, SessionRecord
from shared.calls.transcripts import Line
from shared.core import clock, table
from shared.core.keys import Scope
from shared.core.log import logger
from shared.resources import fields
from shared.work import owed

TRIES = 3
"""How often the agent answers a turn whose commit loses races."""
LOST = "Sorry, something went wrong on my side. Someone from our team will get back to you. Goodbye."
SILENCE = "Sorry, I did not hear you. Could you say that again?"
SILENCES = 3
"""After so many silences in a row the agent ends the call."""
FAREWELL = "I cannot hear you. Goodbye."
CHANGES = {
    "appointment_confirmed": "The customer confirmed the appointment.",
    "appointment_rescheduled": "The customer moved the appointment.",
    "appointment_cancelled": "The customer cancelled the appointment.",
}
"""What the summary says of the agent's actions that change an appointment."""
HANDOFF = "The customer is to be called back by a person."
CALL_LATER = "The customer asked to be called again."


@dataclass(frozen=True)
class Response:
    """What the agent says, and whether the call ends with it."""

    text: str
    ends_call: bool


@dataclass(frozen=True)
class _Turn:
    """What the agent says in a turn, and the writes that belong to it."""

    response: Response
    writes: Sequence[table.Operation]


def turn(scope: Scope, session_id: str, text: str | None, seconds: float) -> Response:
    """Answer what the customer said within `seconds`; `text` is None if it was nothing. Raises ApiError."""
    deadline = clock.now() + int(seconds * clock.SECOND)

    def attempt() -> Response:
        session = SESSIONS.find(scope, session_id)
        if session.doc["call_status"] != sessions.DIALING:
            return Response(LOST, ends_call=True)
        if text is None:
            turn = _silence(scope, session)
        else:
            left = (deadline - clock.now()) / clock.SECOND
            turn = _answer(scope, session, text, adapters.agent_for(scope), left)
        table.write(turn.writes, uuid.uuid4().hex)
        return turn.response

    try:
        return owed.retry_on_conflict(attempt, tries=TRIES, seconds=seconds)
    except (table.ConditionFailed, table.Contended):
        return Response(LOST, ends_call=True)


def _silence(scope: Scope, session: SessionRecord) -> _Turn:
    silences = session.row.get("silences", 0) + 1
    response = Response(FAREWELL, ends_call=True) if silences >= SILENCES else Response(SILENCE, ends_call=False)
    return _Turn(response, [sessions.update(scope, session, {}, {"silences": silences})])


def _answer(scope: Scope, session: SessionRecord, text: str, agent: Agent, seconds: float) -> _Turn:
    transcript = transcripts.find(scope, session.doc["id"])
    lines = transcripts.lines(transcript) if transcript else _opening(session)
    tools = _tools(scope, session, text)
    history = [Utterance("user" if line["role"] == "customer" else "assistant", line["content"]) for line in lines]
    try:
        reply = agent.reply([*history, Utterance("user", text)], tools, seconds).content
        response = Response(plain_text.plain(reply).strip() or LOST, dialogue.ends_call(tools))
    except AgentFailed as error:
        logger().warning("agent failed", extra={"session_id": session.doc["id"], "error": str(error)})
        tools = Tools(appointments=(), message=text, in_call=True)
        tools.hand_off("agent_failed")
        response = Response(LOST, ends_call=True)
    lines = [*lines, *_lines(session, lines, text, response.text)]
    put = transcripts.write(scope, session.doc["id"], lines, transcript["v"] if transcript else 0)
    return _Turn(response, [*_writes(scope, session, tools), put])


def _tools(scope: Scope, session: SessionRecord, text: str) -> Tools:
    about = sessions.subject(scope, session.doc).appointment
    proposal = session.row.get("proposal")
    return Tools(
        appointments=[about] if about is not None and dialogue.is_coming(about.doc) else [],
        message=text,
        proposal=Proposal(**json.loads(proposal)) if proposal else None,
        in_call=True,
        instructions=session.row.get("instructions"),
        timezone=None if about is None else about.doc["timezone"],
        changed_before=any(change in session.row.get("outcome", "") for change in CHANGES.values()),
    )


def _writes(scope: Scope, session: SessionRecord, tools: Tools) -> list[table.Operation]:
    """The writes of what the tools did, and of what the session keeps of it."""
    proposal = fields.to_json(vars(tools.proposed)) if tools.proposed else None
    internal: dict[str, table.Value | None] = {"proposal": proposal, "talked": True, "silences": None}
    if tools.later is not None:
        internal["later"] = tools.later
    outcome, before = _outcome(tools), session.row.get("outcome", "")
    if outcome is not None and outcome not in before:
        internal["outcome"] = f"{before} {outcome}".strip()
    writes: list[table.Operation] = [sessions.update(scope, session, {}, internal)]
    if tools.change is not None:
        writes.append(APPOINTMENTS.update(scope, *tools.change))
        writes.append(customers.must_exist(scope, session.doc["customer_id"], "customer"))
    return writes


def _outcome(tools: Tools) -> str | None:
    """What the turn did, as the session's summary says it; None if it did nothing of note."""
    sentences = {**CHANGES, "handoff": HANDOFF}
    for action in tools.actions:
        if action["type"] in sentences:
            return sentences[action["type"]]
    return CALL_LATER if tools.later is not None else None


def _opening(session: SessionRecord) -> list[Line]:
    return dialogue.spoken([("agent", session.row["opening"])]) if "opening" in session.row else []


def _lines(session: SessionRecord, before: Sequence[Line], text: str, reply: str) -> list[Line]:
    """The two lines of a turn: the customer has just stopped speaking, and the agent is about to begin."""
    began = session.doc["answered_at"] or session.doc["dialed_at"]
    assert began is not None, "a call that is under way was dialed"
    customer, agent = dialogue.spoken([("customer", text), ("agent", reply)])
    length = customer["ended_at_ms"] - customer["started_at_ms"]
    last = before[-1]["ended_at_ms"] if before else 0
    start = max(last + 1, clock.now() - clock.parse(began) - length)
    return [
        {**line, "started_at_ms": line["started_at_ms"] + start, "ended_at_ms": line["ended_at_ms"] + start}
        for line in (customer, agent)
    ]
