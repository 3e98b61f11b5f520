"""What is said in a call: how the agent begins, and the whole dialogue of a simulated one (contract 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from shared import appointments
from shared.agent import Agent, Utterance, assent, plain_text
from shared.agent.tools import AppointmentView, Proposal, Tools
from shared.agent.wording import ATTEND, describe, escaped, local_time, long_time
from shared.core import clock
from shared.resources.records import Document, Record
from shared.telephony.test_numbers import Outcome

Speaker = Literal["agent", "customer"]

LONGEST_NAME = 80
"""Characters that are said of a name or a title."""
CHARACTERS_A_SECOND = 15
SHORTEST, PAUSE = 800, 400
"""Milliseconds: of the shortest line, and before each."""
SECONDS = 10.0
"""What the agent has for a turn of a simulated call."""


@dataclass(frozen=True)
class Line:
    """What was said in one go; milliseconds since the call was answered."""

    role: Speaker
    content: str
    started_at_ms: int
    ended_at_ms: int


@dataclass(frozen=True)
class Dialogue:
    """A simulated call, from the answer to the hang-up.

    `change` is what the agent's tools did to the appointment: as it was found, and its document now, ready for
    `resources.change`. `later` is the instant in milliseconds at which the customer asked to be called again.
    """

    lines: list[Line]
    change: tuple[Record, Document] | None
    later: int | None
    ended_by: Speaker
    summary: str


def opening(customer_name: str | None, project_name: str, appointment: AppointmentView | None) -> str:
    """How the agent begins a call about a coming appointment, or about none: plain words in one line."""
    name = _named(customer_name)
    begin = f"Hello{' ' if name else ''}{name}, this is the assistant of {_named(project_name)}."
    if appointment is None:
        return _plain(f"{begin} Is there anything that I can do for you?")
    bounded = replace(appointment, title=_cut(appointment.title))
    return _plain(f"{begin} I am calling about {describe(bounded)}. {ATTEND}")


def spoken(texts: Sequence[tuple[Speaker, str]]) -> list[Line]:
    """The texts, one spoken after the other at a natural pace."""
    lines: list[Line] = []
    end = 0
    for role, content in texts:
        start = end + PAUSE
        end = start + max(SHORTEST, len(content) * clock.SECOND // CHARACTERS_A_SECOND)
        lines.append(Line(role, content, start, end))
    return lines


def simulate(
    outcome: Outcome,
    agent: Agent,
    found: Sequence[Record],
    customer_name: str | None,
    project_name: str,
    instructions: str | None,
) -> Dialogue:
    """A dialogue between the agent and the scripted customer of `outcome`.

    `found` has the appointment that the call is about, or nothing. Of one that was cancelled or deleted meanwhile the
    agent does not speak. Raises AgentFailed.
    """
    coming = [one for one in found if one.doc["status"] != appointments.CANCELLED]
    call = _Call(agent, coming, found[0].doc["timezone"] if found else None, instructions)
    shown = call.tools("").list_appointments()
    call.begin(opening(customer_name, project_name, shown[0] if shown else None))
    goes_on = True
    waiting = list(outcome.says if coming else outcome.says_alone)
    while waiting and goes_on:
        line = waiting.pop(0)
        # Nobody says yes to what was not asked.
        if assent.agrees(line) and call.proposal is None:
            continue
        goes_on = call.turn(line)
        if coming and line == outcome.says[0] and outcome.asked_back and call.proposal is None:
            waiting.insert(0, outcome.asked_back)
    return Dialogue(
        spoken(call.texts), call.change, call.later, "customer" if goes_on else "agent", _summary(found, call)
    )


class _Call:
    """The agent's side of a call, with what is kept from one turn to the next."""

    def __init__(self, agent: Agent, coming: Sequence[Record], timezone: str | None, instructions: str | None) -> None:
        self.agent, self.coming = agent, coming
        self.timezone, self.instructions = timezone, instructions
        self.said: list[Utterance] = []
        self.texts: list[tuple[Speaker, str]] = []
        self.proposal: Proposal | None = None
        self.change: tuple[Record, Document] | None = None
        self.later: int | None = None

    def tools(self, message: str) -> Tools:
        """The tools of a turn, which see the appointments with what earlier turns have done to them."""
        return Tools(
            appointments=[self._now(one) for one in self.coming],
            message=message,
            proposal=self.proposal,
            in_call=True,
            instructions=self.instructions,
            timezone=self.timezone,
            changed_before=self.change is not None,
        )

    def begin(self, opening: str) -> None:
        """Say how the call begins."""
        self.said.append(Utterance("assistant", opening))
        self.texts.append(("agent", opening))

    def turn(self, line: str) -> bool:
        """Let the agent answer what the customer says; whether the call goes on."""
        tools = self.tools(line)
        self.said.append(Utterance("user", line))
        reply = self.agent.reply(self.said, tools, SECONDS).content
        self.said.append(Utterance("assistant", reply))
        self.texts += [("customer", line), ("agent", _plain(reply))]
        self.proposal, self.later = tools.proposed, tools.later
        if tools.change is not None:
            staged, after = tools.change
            self.change = next(one for one in self.coming if one.doc["id"] == staged.doc["id"]), after
        over = {"conversation_ended", "handoff"} & {action["type"] for action in tools.actions}
        return not over and self.later is None

    def _now(self, found: Record) -> Record:
        if self.change is None or self.change[0] is not found:
            return found
        return replace(found, doc=self.change[1])


def is_coming(doc: Document) -> bool:
    # One that was deleted is cancelled too.
    return doc["status"] != appointments.CANCELLED and clock.parse(doc["appointment_at"]) > clock.now()


def _summary(found: Sequence[Record], call: _Call) -> str:
    """What came of the call, in one sentence."""
    if call.later is not None:
        return f"The customer asked to be called again on {_local(clock.iso(call.later), call.timezone)}."
    if not found:
        return "The call ended without a change."
    before = found[0].doc
    at = _local(before["appointment_at"], before["timezone"])
    if call.change is None:
        return f"The appointment of {at} stays as it is."
    after = call.change[1]
    if after["appointment_at"] != before["appointment_at"]:
        return f"The customer moved the appointment of {at} to {_local(after['appointment_at'], after['timezone'])}."
    done = "cancelled" if after["status"] == appointments.CANCELLED else "confirmed"
    return f"The customer {done} the appointment of {at}."


def _local(instant: str, zone: str | None) -> str:
    return _plain(long_time(local_time(instant, zone or "UTC")))


def _named(text: str | None) -> str:
    """Somebody's name, which may be anything, as Markdown that shows it in one line."""
    return escaped(_cut(text) or "")


def _cut(text: str | None) -> str | None:
    line = " ".join((text or "").split())
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1]}…"


def _plain(markdown: str) -> str:
    return " ".join(plain_text.plain(markdown).split())
