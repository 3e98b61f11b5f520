"""A turn of a live call: the agent answers what the customer said, with the tools of a conversation (contract 7, 8).

What was said so far is the transcript, one row, which a turn extends in the transaction that carries out what the
tools did. The session's row keeps what was proposed and what the call has come to.
"""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from shared import appointments, customers
from shared.agent import Agent, AgentFailed, Utterance, plain_text
from shared.agent.tools import Proposal, Tools
from shared.calls import dialogue, sessions, transcripts
from shared.core import clock, table
from shared.core.keys import Scope
from shared.core.log import logger
from shared.resources import fields, records
from shared.resources.records import Record

TRIES = 3
LOST = "Sorry, something went wrong on my side. A person of our team will get back to you. Goodbye."
SILENCE = "Sorry, I did not hear you. Could you say that again?"
SILENCES = 3
"""After so many in a row the agent hangs up."""
FAREWELL = "I cannot hear you. Goodbye."


@dataclass(frozen=True)
class Spoken:
    """What the agent says, and whether the call is over with it."""

    text: str
    ends: bool


def turn(scope: Scope, session_id: str, text: str | None, agent: Agent, seconds: float) -> Spoken:
    """Answer what the customer said; None for silence. `seconds` is the time there is. Raises ApiError."""
    deadline = clock.now() + int(seconds * clock.SECOND)
    for _ in range(TRIES):
        session = sessions.SESSIONS.find(scope, session_id)
        if session.doc["call_status"] != sessions.DIALING:
            return Spoken(LOST, True)
        heard = transcripts.find(scope, session_id)
        if text is None:
            spoken, writes = _silence(scope, session)
        else:
            spoken, writes = _answer(scope, session, heard, text, agent, (deadline - clock.now()) / clock.SECOND)
        try:
            table.write(writes, uuid.uuid4().hex)
        except (table.ConditionFailed, table.Contended):
            continue
        return spoken
    return Spoken(LOST, True)


def _silence(scope: Scope, session: Record) -> tuple[Spoken, list[table.Operation]]:
    silences = session.row.get("silences", 0) + 1
    spoken = Spoken(FAREWELL, True) if silences >= SILENCES else Spoken(SILENCE, False)
    return spoken, [sessions.changed(scope, session, {}, {"silences": silences})]


def _answer(
    scope: Scope, session: Record, heard: table.Row | None, text: str, agent: Agent, seconds: float
) -> tuple[Spoken, list[table.Operation]]:
    lines = [dialogue.Line(**line) for line in transcripts.lines(heard)] if heard else _opening(session)
    tools = _tools(scope, session, text)
    said = [Utterance("user" if line.role == "customer" else "assistant", line.content) for line in lines]
    try:
        reply = agent.reply([*said, Utterance("user", text)], tools, seconds).content
        spoken = Spoken(plain_text.plain(reply).strip() or LOST, _ends(tools))
    except AgentFailed as error:
        logger().warning("agent failed", extra={"session_id": session.doc["id"], "why": str(error)})
        tools = Tools(appointments=(), message=text, in_call=True)
        tools.hand_off("agent_failed")
        spoken = Spoken(LOST, True)
    return spoken, _writes(scope, session, heard, [*lines, *_spoken(session, lines, text, spoken.text)], tools)


def _tools(scope: Scope, session: Record, text: str) -> Tools:
    keys = [(scope.pk(customers.CUSTOMERS.kind), session.doc["customer_id"])]
    if session.doc["appointment_id"] is not None:
        keys.append((scope.pk(appointments.APPOINTMENTS.kind), session.doc["appointment_id"]))
    rows = table.get_many(keys)
    found = []
    if len(keys) > 1 and keys[0] in rows:
        pk, id = keys[1]
        about = rows.get((pk, id)) or appointments.APPOINTMENTS.deleted_row(scope, id)
        found = [records.of_row(about)] if about else []
    proposal = session.row.get("proposal")
    return Tools(
        appointments=[one for one in found if dialogue.is_coming(one.doc)],
        message=text,
        proposal=Proposal(**json.loads(proposal)) if proposal else None,
        in_call=True,
        instructions=session.row.get("instructions"),
        timezone=found[0].doc["timezone"] if found else None,
        changed_before=any(told in session.row.get("outcome", "") for told in _CHANGES.values()),
    )


def _writes(
    scope: Scope, session: Record, heard: table.Row | None, lines: Sequence[dialogue.Line], tools: Tools
) -> list[table.Operation]:
    kept = fields.to_json(vars(tools.proposed)) if tools.proposed else None
    internal: dict[str, table.Value | None] = {"proposal": kept, "talked": True, "silences": None}
    if tools.later is not None:
        internal["later"] = tools.later
    outcome, before = _outcome(tools), session.row.get("outcome", "")
    if outcome is not None and outcome not in before:
        internal["outcome"] = f"{before} {outcome}".strip()
    said = [dataclasses.asdict(line) for line in lines]
    put = transcripts.write(scope, session.doc["id"], said, heard["v"] if heard else 0)
    writes: list[table.Operation] = [sessions.changed(scope, session, {}, internal), put]
    if tools.change is not None:
        writes.append(appointments.APPOINTMENTS.update(scope, *tools.change))
        writes.append(customers.must_be_live(scope, session.doc["customer_id"], "customer"))
    return writes


def _outcome(tools: Tools) -> str | None:
    """What the turn did, as the session's summary says it."""
    told = _CHANGES | {"handoff": "The customer is to be called back by a person."}
    for action in tools.actions:
        if action["type"] in told:
            return told[action["type"]]
    return "The customer asked to be called again." if tools.later is not None else None


_CHANGES = {
    "appointment_confirmed": "The customer confirmed the appointment.",
    "appointment_rescheduled": "The customer moved the appointment.",
    "appointment_cancelled": "The customer cancelled the appointment.",
}


def _ends(tools: Tools) -> bool:
    over = {"conversation_ended", "handoff"} & {action["type"] for action in tools.actions}
    return bool(over) or tools.later is not None


def _opening(session: Record) -> list[dialogue.Line]:
    return dialogue.spoken([("agent", session.row["opening"])]) if "opening" in session.row else []


def _spoken(session: Record, lines: Sequence[dialogue.Line], text: str, reply: str) -> list[dialogue.Line]:
    """The two lines of a turn: the customer has just stopped speaking, the agent is about to begin."""
    began = session.doc["answered_at"] or session.doc["dialed_at"]
    last = lines[-1].ended_at_ms if lines else 0
    customer, agent = dialogue.spoken([("customer", text), ("agent", reply)])
    length = customer.ended_at_ms - customer.started_at_ms
    start = max(last + 1, clock.now() - clock.parse(began) - length)
    return [
        dialogue.Line(line.role, line.content, line.started_at_ms + start, line.ended_at_ms + start)
        for line in (customer, agent)
    ]
