"""What is said in a call, simulated or live, and what has come of it so far (promises 10 and 11).

`Briefing` is what is known before a turn, `Progress` what the turns before it have come to, and `reply_in_call` the
agent's side of a turn.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from shared.agent import Agent, Reply, Utterance, opt_out_messages, plain_text
from shared.agent.tools import Tools
from shared.agent.turn import CallContext, CallLater, Proposal, TurnInput, TurnResult, read_proposal, to_view
from shared.agent.wording import ATTEND, describe, escape, local_time, long_time
from shared.agent_settings.resource import Settings
from shared.appointments.resource import AppointmentRecord, AppointmentStatus, takes_place
from shared.calls import identity_check, sessions
from shared.calls.identity_check import Callee
from shared.calls.sessions import CheckStage, SessionChanges, SessionRecord, SessionRow
from shared.calls.transcripts import Line, Speaker
from shared.core import clock
from shared.core.call_statuses import CHANGES_OF_APPOINTMENT, CallOutcome, EndedReason, Ending, SessionCallStatus
from shared.store import table
from shared.store.keys import Scope

LONGEST_NAME = 80
"""Characters of a name or a title that are spoken."""
CHARACTERS_A_SECOND = 15
"""The pace of natural speech. A simulated call itself takes two seconds, in which nobody could follow a dialogue."""
SHORTEST_MS, PAUSE_MS = 800, 400
"""Milliseconds: the length of the shortest line, and the pause before each line."""
STOPPED = "Sorry, I have just heard that we are not to call you. Goodbye."
_OFFER = "Is there anything that I can do for you?"
_GOODBYE = re.compile(r"(?:good ?-?bye|bye)\b[^.!?]*[.!?]*\s*$", re.IGNORECASE)
OPTED_OUT_SUMMARY = "The customer does not want to be called again."


@dataclass(frozen=True)
class Briefing:
    """What is known before a turn of a call: whom the call is for, what it is about, and what the agent may do."""

    customer_id: str
    customer_name: str | None
    """None if the customer has none, or was deleted."""
    business: str
    settings: Settings
    appointment: AppointmentRecord | None = None
    """The appointment that the call is about, if the agent speaks of it."""
    timezone: str | None = None
    """The zone of the appointment that the call is about, whether or not the agent speaks of it."""
    instructions: str | None = None
    """The instructions of the business for this call."""

    @property
    def zone(self) -> str:
        """The zone of the times that are said and understood."""
        return self.timezone or self.settings["timezone"]

    @property
    def callee(self) -> Callee:
        """Whom the call is for, and what it is about, in the words of the identity check."""
        matter = in_short = _OFFER
        if self.appointment is not None:
            appointment = to_view(self.appointment.doc, self.zone)
            bounded = dataclasses.replace(appointment, title=_cut(appointment.title))
            # Nobody is asked whether they will come to what is over.
            question = ATTEND if clock.parse(appointment.at) > clock.now() else _OFFER
            matter = f"I am calling about {describe(bounded)}. {question}"
            in_short = f"I am calling about {describe(dataclasses.replace(appointment, title=None))}. {question}"
        return Callee(_escaped(self.customer_name) or None, _escaped(self.business), matter, in_short, self.zone)

    def first_words(self, *, recorded: bool) -> str:
        """The agent's first words, in plain text."""
        return _plain(self.callee.opening(recorded=recorded))


def brief(scope: Scope, session: SessionRecord) -> Briefing:
    """What is known of a call now.

    The agent does not speak of an appointment that is cancelled or deleted or, in a live call, past. A simulated call
    is about a past one, too, because its number decides what comes of it.
    """
    subject = sessions.subject(scope, session.doc)
    about = subject.appointment
    is_past = about is not None and clock.parse(about.doc["appointment_at"]) <= clock.now()
    return Briefing(
        customer_id=session.doc["customer_id"],
        customer_name=None if subject.customer is None else subject.customer.doc["name"],
        business=subject.stored.business,
        settings=subject.stored.for_agent,
        appointment=about if takes_place(about) and (scope.is_simulated or not is_past) else None,
        timezone=None if about is None else about.doc["timezone"],
        instructions=session.row.get("instructions"),
    )


@dataclass(frozen=True)
class Progress:
    """The results of the turns of a call so far. The session of a live call stores them."""

    stage: CheckStage | None
    """What the agent waits for; None once the person speaks."""
    proposal: Proposal | None = None
    """The change that the agent has proposed and the customer has not answered yet."""
    changed: bool = False
    """Whether an appointment was changed."""
    outcome: CallOutcome | None = None
    """What has come of the call, if anything."""
    opted_out: bool = False
    """Whether the customer opted out in the last turn."""
    call_later: CallLater | None = None
    """Why the call ends for another one, if it does."""
    summary: str = ""
    """What has come of the call, in sentences."""

    @classmethod
    def of(cls, row: SessionRow) -> Progress:
        """The progress that a session stores, also under the names that version 0.1.0 gave the attributes."""
        return cls(
            stage=row.get("stage"),
            proposal=read_proposal(row.get("proposal")),
            changed=row.get("changed", False),
            outcome=row.get("outcome_so_far") or row.get("call_result"),
            call_later=CallLater(row.get("later")) if row.get("ends_for_later") else None,
            summary=row.get("summary_so_far") or row.get("outcome", ""),
        )

    @property
    def attributes(self) -> dict[str, table.Value | None]:
        """The attributes in which a session stores it."""
        return {
            "stage": self.stage,
            "proposal": self.proposal.to_json() if self.proposal else None,
            "changed": self.changed or None,
            "outcome_so_far": self.outcome,
            "ends_for_later": self.call_later is not None or None,
            "later": None if self.call_later is None else self.call_later.at,
            "summary_so_far": self.summary or None,
        }

    @property
    def session_changes(self) -> SessionChanges:
        """The fields of the session that it sets when the call ends."""
        at = None if self.call_later is None else self.call_later.at
        call_later_at = None if at is None else clock.iso(at)
        return {"outcome": self.outcome, "summary": self.summary or None, "call_later_at": call_later_at}

    def ending(self, ending: Ending) -> Ending:
        """How the call has ended if `ending` is how the connection did: a completed call may end for another one."""
        if self.call_later is not None and ending.call_status == SessionCallStatus.COMPLETED:
            return Ending(SessionCallStatus.CALL_LATER, EndedReason.CALLBACK_REQUESTED, "human")
        return ending

    def after(self, result: TurnResult, stage: CheckStage | None, zone: str) -> Progress:
        """The progress after a turn, which leads to this stage of the identity check."""
        sentences = [sentence for sentence in _sentences(result, zone) if sentence not in self.summary]
        return Progress(
            stage=stage,
            proposal=result.proposed,
            changed=self.changed or result.staged is not None,
            outcome=_outcome(self.outcome, result),
            opted_out=result.has("customer_opted_out"),
            call_later=result.call_later,
            summary=" ".join([*([self.summary] if self.summary else []), *sentences]),
        )


def reply_in_call(
    agent: Agent, briefing: Briefing, progress: Progress, said: Sequence[tuple[Speaker, str]], seconds: float
) -> tuple[Reply, Progress]:
    """The agent's reply to the customer's words, in plain text, and the progress with it.

    `said` has all lines of the call from the opening on, the customer's last. An opt-out holds whoever speaks.
    Raises AgentFailed.
    """
    history = [Utterance("user" if role == "customer" else "assistant", content) for role, content in said]
    turn_input = TurnInput(
        appointments=[] if briefing.appointment is None else [briefing.appointment],
        message=history[-1].content,
        settings=briefing.settings,
        proposal=progress.proposal,
        customer_id=briefing.customer_id,
        call=CallContext(briefing.instructions, briefing.timezone, progress.changed),
    )
    reply, stage = opt_out_messages.reply(turn_input), progress.stage
    if reply is None:
        tools = Tools(turn_input)
        words, stage = identity_check.check(briefing.callee, stage, history, tools)
        reply = agent.reply(history, turn_input, seconds) if words is None else Reply(words, tools.result)
    text = _plain(reply.content)
    spoken_text = farewell(text, briefing.settings) if reply.result.ends_call else text
    return dataclasses.replace(reply, content=spoken_text), progress.after(reply.result, stage, briefing.zone)


def farewell(text: str, settings: Settings) -> str:
    """The last words of a call, with the phone of the business before the goodbye."""
    phone = settings["business_phone"]
    if phone is None or phone in text:
        return text
    goodbye = _GOODBYE.search(text)
    at = len(text) if goodbye is None else goodbye.start()
    return " ".join(part for part in (text[:at].strip(), f"You can reach us at {phone}.", text[at:].strip()) if part)


def to_lines(texts: Sequence[tuple[Speaker, str]]) -> list[Line]:
    """The texts as lines that follow one another at a natural pace."""
    lines: list[Line] = []
    end = 0
    for role, content in texts:
        start = end + PAUSE_MS
        end = start + max(SHORTEST_MS, len(content) * clock.SECOND // CHARACTERS_A_SECOND)
        lines.append({"role": role, "content": content, "started_at_ms": start, "ended_at_ms": end})
    return lines


def spoken_time(instant: str, zone: str) -> str:
    """The local time of an instant (RFC 3339), in plain text."""
    return _plain(long_time(local_time(instant, zone)))


def _sentences(result: TurnResult, zone: str) -> list[str]:
    """What a turn adds to the call's summary; nothing if it changed nothing."""
    sentences: list[str] = []
    if result.staged is not None:
        before, after = result.staged.record.doc, result.staged.doc
        at = spoken_time(before["appointment_at"], zone)
        if after["appointment_at"] != before["appointment_at"]:
            moved_to = spoken_time(after["appointment_at"], zone)
            sentences.append(f"The customer moved the appointment of {at} to {moved_to}.")
        else:
            verb = "cancelled" if after["status"] == AppointmentStatus.CANCELLED else "confirmed"
            sentences.append(f"The customer {verb} the appointment of {at}.")
    if result.has("customer_opted_out"):
        sentences.append(OPTED_OUT_SUMMARY)
    if result.outcome == CallOutcome.WRONG_PERSON:
        sentences.append("Somebody else answered.")
    if result.has("handoff"):
        sentences.append("The customer is to be called back by a person.")
    if result.call_later is not None:
        named = result.call_later.at
        when = "" if named is None else f" on {spoken_time(clock.iso(named), zone)}"
        sentences.append(f"The customer asked to be called again{when}.")
    return sentences


def _outcome(before: CallOutcome | None, turn: TurnResult) -> CallOutcome | None:
    """The outcome of a call after a turn: of several, the one that is first in `CallOutcome`.

    A later change of the appointment replaces an earlier one.
    """
    results = [
        *([turn.outcome] if turn.outcome is not None else []),
        *([CallOutcome.OPTED_OUT] if turn.has("customer_opted_out") else []),
        *([CallOutcome.HANDED_OFF] if turn.has("handoff") else []),
    ]
    if results and results[0] in CHANGES_OF_APPOINTMENT:
        return results[0]
    return min([*results, *([before] if before is not None else [])], key=[*CallOutcome].index, default=None)


def _escaped(text: str | None) -> str:
    """A name, which may be any text, as Markdown that shows it in one line."""
    return escape(_cut(text) or "")


def _cut(text: str | None) -> str | None:
    line = " ".join((text or "").split())
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1]}…"


def _plain(markdown: str) -> str:
    return " ".join(plain_text.plain(markdown).split())
