"""What is said in a call: how the agent begins, and the whole dialogue of a simulated call (promises 10)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared.agent import Agent, Reply, Utterance, assent, opt_out, plain_text
from shared.agent.tools import AppointmentView, Proposal, Tools, TurnInput, TurnResult, to_view
from shared.agent.wording import ATTEND, describe, escaped, local_time, long_time
from shared.agent_settings.resource import Settings
from shared.appointments.resource import Appointment, AppointmentRecord, AppointmentStatus
from shared.calls import identity_check, sessions
from shared.calls.identity_check import Callee, Stage
from shared.calls.transcripts import Line, Speaker
from shared.core import clock
from shared.customers.resource import Customer
from shared.telephony import CHANGES_OF_APPOINTMENT, CallOutcome
from shared.telephony.test_numbers import Outcome

LONGEST_NAME = 80
"""Characters of a name or a title that are spoken."""
CHARACTERS_A_SECOND = 15
"""The pace of natural speech. A simulated call itself takes two seconds, in which nobody could follow a dialogue."""
SHORTEST, PAUSE = 800, 400
"""Milliseconds: the length of the shortest line, and the pause before each line."""
STOPPED = "Sorry, I have just heard that we are not to call you. Goodbye."
_GOODBYE = re.compile(r"(?:good ?-?bye|bye)\b[^.!?]*[.!?]*\s*$", re.IGNORECASE)
OPTED_OUT = "The customer does not want to be called again."
WRONG_PERSON = "Somebody else answered."
HANDOFF = "The customer is to be called back by a person."
SPEAKING = "Yes, speaking."
"""What the scripted customer says when the agent asks for them."""
SECONDS = 10.0
"""Seconds that the agent has for a turn of a simulated call."""


@dataclass(frozen=True)
class Dialogue:
    """A simulated call, from the answer to the end.

    `change` is what the agent's tools did to the appointment: the record as it was read and its new document, as
    `Collection.replace` takes them. `later` is the instant (milliseconds) at which the customer asked to be called
    again.
    """

    lines: list[Line]
    change: tuple[AppointmentRecord, Appointment] | None
    later: int | None
    opts_out: bool
    outcome: CallOutcome | None
    ended_by: Speaker
    summary: str


def callee_of(subject: sessions.Subject) -> Callee:
    """Whom a live call is for, and the appointment that it is about, if that is a coming one."""
    about = subject.appointment
    settings = subject.agent.settings
    view = to_view(about.doc, settings["timezone"]) if about is not None and is_coming(about.doc) else None
    zone = about.doc["timezone"] if about is not None else None
    name = subject.customer.doc["name"] if subject.customer is not None else None
    return callee_for(name, subject.agent.business, view, zone or settings["timezone"])


def callee_for(customer_name: str | None, business: str, appointment: AppointmentView | None, zone: str) -> Callee:
    """Whom a call is for; `appointment` is the coming one that the call is about, `zone` that of other times."""
    matter = in_short = "Is there anything that I can do for you?"
    if appointment is not None:
        bounded = replace(appointment, title=_cut(appointment.title))
        matter = f"I am calling about {describe(bounded)}. {ATTEND}"
        in_short = f"I am calling about {describe(replace(appointment, title=None))}. {ATTEND}"
    name = _escaped(customer_name) or None
    zone = zone if appointment is None else appointment.timezone
    return Callee(name, _escaped(business), matter, in_short, zone)


def first_words(callee: Callee, *, recorded: bool) -> str:
    """The agent's first words, in plain text."""
    return _plain(callee.opening(recorded=recorded))


def reply(
    agent: Agent,
    callee: Callee,
    opening: str,
    stage: Stage | None,
    history: Sequence[Utterance],
    turn: TurnInput,
    seconds: float,
) -> tuple[Reply, Stage | None]:
    """The agent's reply to the last utterance, in plain text, and the next stage of the identity check.

    A wish not to be called holds whoever speaks. Raises AgentFailed.
    """
    answer = opt_out.reply(turn)
    if answer is None:
        tools = Tools(turn)
        checked, stage = identity_check.reply(callee, opening, stage, history, tools)
        answer = agent.reply(history, turn, seconds) if checked is None else Reply(checked, tools.result)
    text = _plain(answer.content)
    return replace(answer, content=farewell(text, turn.settings) if ends_call(answer.result) else text), stage


def farewell(text: str, settings: Settings) -> str:
    """The last words of a call, with the phone of the business before the goodbye."""
    phone = settings["business_phone"]
    if phone is None or phone in text:
        return text
    goodbye = _GOODBYE.search(text)
    at = len(text) if goodbye is None else goodbye.start()
    return " ".join(part for part in (text[:at].strip(), f"You can reach us at {phone}.", text[at:].strip()) if part)


def spoken(texts: Sequence[tuple[Speaker, str]]) -> list[Line]:
    """The texts as lines that follow one another at a natural pace."""
    lines: list[Line] = []
    end = 0
    for role, content in texts:
        start = end + PAUSE
        end = start + max(SHORTEST, len(content) * clock.SECOND // CHARACTERS_A_SECOND)
        lines.append({"role": role, "content": content, "started_at_ms": start, "ended_at_ms": end})
    return lines


def simulate(
    outcome: Outcome,
    agent: Agent,
    about: Sequence[AppointmentRecord],
    customer: Customer,
    business: str,
    settings: Settings,
    instructions: str | None,
) -> Dialogue:
    """A dialogue between the agent and the scripted customer of `outcome`.

    `about` has the appointment that the call is about, or nothing. The agent does not mention an appointment that was
    cancelled or deleted. Raises AgentFailed.
    """
    coming = [record for record in about if record.doc["status"] != AppointmentStatus.CANCELLED]
    call = _Call(agent, coming, customer, business, settings, about[0].doc["timezone"] if about else None, instructions)
    waiting = list(outcome.says if coming else outcome.says_alone)
    if call.stage == Stage.ASKED and outcome.is_person:
        waiting.insert(0, SPEAKING)
    goes_on = True
    while waiting and goes_on:
        line = waiting.pop(0)
        # The customer agrees only to what was proposed.
        if assent.agrees(line) and call.proposal is None:
            continue
        goes_on = call.turn(line)
        if coming and line == outcome.says[0] and outcome.asked_back and call.proposal is None:
            waiting.insert(0, outcome.asked_back)
    ended_by: Speaker = "customer" if goes_on else "agent"
    return Dialogue(
        spoken(call.texts), call.change, call.later, call.opts_out, call.outcome, ended_by, _summary(about, call)
    )


class _Call:
    """The agent's side of a call, with its state from one turn to the next."""

    def __init__(
        self,
        agent: Agent,
        coming: Sequence[AppointmentRecord],
        customer: Customer,
        business: str,
        settings: Settings,
        timezone: str | None,
        instructions: str | None,
    ) -> None:
        self.agent, self.coming, self.settings = agent, coming, settings
        self.timezone, self.instructions, self.customer_id = timezone, instructions, customer["id"]
        self.proposal: Proposal | None = None
        self.change: tuple[AppointmentRecord, Appointment] | None = None
        self.later: int | None = None
        self.opts_out = False
        self.outcome: CallOutcome | None = None
        views = Tools(self.turn_input("")).list_appointments()
        zone = timezone or settings["timezone"]
        self.callee = callee_for(customer["name"], business, views[0] if views else None, zone)
        self.opening = first_words(self.callee, recorded=True)
        self.stage: Stage | None = self.callee.first_stage
        self.history = [Utterance("assistant", self.opening)]
        self.texts: list[tuple[Speaker, str]] = [("agent", self.opening)]

    def turn_input(self, message: str) -> TurnInput:
        """The input of a turn, with the appointments as earlier turns have changed them."""
        return TurnInput(
            appointments=[self._changed(record) for record in self.coming],
            message=message,
            customer_id=self.customer_id,
            settings=self.settings,
            proposal=self.proposal,
            in_call=True,
            instructions=self.instructions,
            timezone=self.timezone,
            changed_before=self.change is not None,
        )

    def turn(self, line: str) -> bool:
        """Let the agent answer the customer's line; returns whether the call goes on."""
        turn = self.turn_input(line)
        self.history.append(Utterance("user", line))
        answer, self.stage = reply(self.agent, self.callee, self.opening, self.stage, self.history, turn, SECONDS)
        self.history.append(Utterance("assistant", answer.content))
        self.texts += [("customer", line), ("agent", answer.content)]
        result = answer.result
        self.proposal, self.later, self.opts_out = result.proposed, result.later, result.has("customer_opted_out")
        self.outcome = later_result(self.outcome, result)
        if result.change is not None:
            before, appointment = result.change
            self.change = next(each for each in self.coming if each.doc["id"] == before.doc["id"]), appointment
        return not ends_call(result)

    def _changed(self, record: AppointmentRecord) -> AppointmentRecord:
        if self.change is None or self.change[0] is not record:
            return record
        return replace(record, doc=self.change[1])


def ends_call(result: TurnResult) -> bool:
    """Whether the call ends with the reply of this turn."""
    return result.has("conversation_ended", "handoff", "customer_opted_out") or result.ends_for_later


def is_coming(appointment: Appointment) -> bool:
    """Whether an appointment takes place, later than now. A deleted appointment is cancelled, too."""
    at = clock.parse(appointment["appointment_at"])
    return appointment["status"] != AppointmentStatus.CANCELLED and at > clock.now()


def _summary(about: Sequence[AppointmentRecord], call: _Call) -> str:
    """What came of the call, in one sentence."""
    zone = call.timezone or call.settings["timezone"]
    if call.opts_out:
        return OPTED_OUT
    if call.outcome == CallOutcome.WRONG_PERSON:
        return WRONG_PERSON
    if call.outcome == CallOutcome.HANDED_OFF:
        return HANDOFF
    if call.later is not None:
        return f"The customer asked to be called again on {_local(clock.iso(call.later), zone)}."
    if not about:
        return "The call ended without a change."
    before = about[0].doc
    at = _local(before["appointment_at"], zone)
    if call.change is None:
        return f"The appointment of {at} stays as it is."
    after = call.change[1]
    if after["appointment_at"] != before["appointment_at"]:
        return f"The customer moved the appointment of {at} to {_local(after['appointment_at'], zone)}."
    verb = "cancelled" if after["status"] == AppointmentStatus.CANCELLED else "confirmed"
    return f"The customer {verb} the appointment of {at}."


def _local(instant: str, zone: str) -> str:
    return _plain(long_time(local_time(instant, zone)))


def _escaped(text: str | None) -> str:
    """A name, which may be any text, as Markdown that shows it in one line."""
    return escaped(_cut(text) or "")


def _cut(text: str | None) -> str | None:
    line = " ".join((text or "").split())
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1]}…"


def _plain(markdown: str) -> str:
    return " ".join(plain_text.plain(markdown).split())


def later_result(before: CallOutcome | None, turn: TurnResult) -> CallOutcome | None:
    """What has come of a call after a turn: of several, the first; of two changes of the appointment, the later."""
    results = [
        *([turn.done] if turn.done is not None else []),
        *([CallOutcome.OPTED_OUT] if turn.has("customer_opted_out") else []),
        *([CallOutcome.HANDED_OFF] if turn.has("handoff") else []),
    ]
    if results and results[0] in CHANGES_OF_APPOINTMENT:
        return results[0]
    return min([*results, *([before] if before is not None else [])], key=[*CallOutcome].index, default=None)
