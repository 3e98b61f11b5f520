"""The identity check of a call: who answers is found out before the agent speaks of anything (promises 11).

The agent asks for a customer with a name, and names the appointment only after a yes. It tells a customer without a
name the appointment's time at once. The steps are fixed, and their words are not a model's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from shared.agent import Utterance, dates, identity_answers
from shared.agent.identity_answers import Answer
from shared.agent.tools import Tools
from shared.agent.turn import CallLater
from shared.agent.wording import long_time
from shared.calls.sessions import CheckStage
from shared.core import clock
from shared.core.call_statuses import CallOutcome

MOST_LINES = 14
"""Lines of a call after which the agent gives up reaching the person."""
RECORDED = "This call is recorded."
PERSON_COMES = "Of course, I will wait."
WRONG = "I am sorry to have disturbed you. Goodbye."
GOODBYE = "All right, thank you. Goodbye!"
UNREACHED = "I am sorry, I can only speak with {} about this. Goodbye."


@dataclass(frozen=True)
class Callee:
    """Whom a call is for, and what it is about; all texts are Markdown in one line.

    `name` is None if the customer has none, or was deleted. `matter` is what the agent says to the person after a yes,
    `matter_in_short` the same without title. `zone` is that of the times that are said and understood.
    """

    name: str | None
    business: str
    matter: str
    matter_in_short: str
    zone: str

    def opening(self, *, recorded: bool) -> str:
        """The agent's first words."""
        recording = f" {RECORDED}" if recorded else ""
        return f"Hello, {self.who}{recording} {self.matter_in_short if self.name is None else self.question}"

    @property
    def first_stage(self) -> CheckStage:
        """The stage after the opening."""
        return CheckStage.TOLD if self.name is None else CheckStage.ASKED

    @property
    def question(self) -> str:
        """The question for the person."""
        return f"Am I speaking with {self.name}?"

    @property
    def when_to_call(self) -> str:
        """The question for someone else, if the person cannot talk now."""
        return f"When should we call {self.name} again?"

    @property
    def who(self) -> str:
        """Who is calling, as the rest of a sentence."""
        return f"this is the automated AI assistant of {self.business}."


class CheckResult(NamedTuple):
    """What comes of an answer in the identity check."""

    words: str | None
    """What is said; None if the agent itself replies."""
    next_stage: CheckStage | None
    """None if the person speaks, or the call ends with the words."""


def check(callee: Callee, stage: CheckStage | None, history: Sequence[Utterance], tools: Tools) -> CheckResult:
    """What comes of the last utterance. `history` begins with the opening."""
    if stage is None:
        return _answer_reached(callee, tools)
    if callee.name is None:
        return _answer_told(callee, stage, tools)
    answer = identity_answers.understand(tools.turn_input.message, callee.name)
    if answer == Answer.WRONG:
        return _wrong_person(tools)
    if stage in (CheckStage.CALLBACK, CheckStage.CALLBACK_TIME):
        return _answer_when_to_call(callee, stage, answer, history, tools)
    if answer == Answer.AWAY:
        return _ask_when_to_call(callee, tools)
    if answer == Answer.WAIT:
        words, next_stage = PERSON_COMES, CheckStage.WAITING
    elif stage == CheckStage.WAITING:
        # Who speaks now may have heard nothing of it yet.
        words, next_stage = history[0].content, CheckStage.ASKED
    elif answer == Answer.YES:
        return CheckResult(f"Thank you. {callee.matter}", None)
    elif answer == Answer.WHO:
        words, next_stage = f"Hello, {callee.who} {callee.question}", stage
    else:
        words, next_stage = f"Sorry, I did not understand that. {callee.question}", CheckStage.ASKED_AGAIN
    gives_up = stage == next_stage == CheckStage.ASKED_AGAIN and answer == Answer.OTHER
    if gives_up or len(history) >= MOST_LINES:
        tools.end_conversation()
        return CheckResult(UNREACHED.format(callee.name), None)
    return CheckResult(words, next_stage)


def _answer_reached(callee: Callee, tools: Tools) -> CheckResult:
    if identity_answers.is_wrong_number(tools.turn_input.message):
        return _wrong_person(tools)
    if identity_answers.asks_for_caller(tools.turn_input.message):
        matter = callee.matter_in_short if callee.name is None else callee.matter
        return CheckResult(f"Hello, {callee.who} {matter}", None)
    return CheckResult(None, None)


def _answer_told(callee: Callee, stage: CheckStage, tools: Tools) -> CheckResult:
    if stage != CheckStage.TOLD:
        # The customer was deleted meanwhile.
        return _wrong_person(tools, outcome=None)
    if identity_answers.is_wrong_number(tools.turn_input.message):
        return _wrong_person(tools)
    if identity_answers.asks_who(tools.turn_input.message):
        return CheckResult(f"Hello, {callee.who} {callee.matter_in_short}", None)
    return CheckResult(None, None)


def _wrong_person(tools: Tools, outcome: CallOutcome | None = CallOutcome.WRONG_PERSON) -> CheckResult:
    tools.result.outcome = outcome
    tools.end_conversation()
    return CheckResult(WRONG, None)


def _ask_when_to_call(callee: Callee, tools: Tools) -> CheckResult:
    """Ask when to call again, unless the answer says so already."""
    at = _time([tools.turn_input.message], callee.zone)
    return _call_at(at, tools) or CheckResult(callee.when_to_call, CheckStage.CALLBACK)


def _answer_when_to_call(
    callee: Callee, stage: CheckStage, answer: Answer, history: Sequence[Utterance], tools: Tools
) -> CheckResult:
    """End the call for another one, at the time that the last answers name, if they name one."""
    if answer == Answer.WHO and stage == CheckStage.CALLBACK and len(history) < MOST_LINES:
        return CheckResult(f"Hello, {callee.who} {callee.when_to_call}", CheckStage.CALLBACK)
    before = [one.content for one in history[:-1] if one.role == "user"]
    earlier = before[-1:] if stage == CheckStage.CALLBACK_TIME else []
    texts = [*earlier, tools.turn_input.message]
    at = _time(texts, callee.zone)
    if planned := _call_at(at, tools):
        return planned
    if isinstance(at, dates.Unclear) and stage == CheckStage.CALLBACK and dates.names_any(tools.turn_input.message):
        return CheckResult(at.ask, CheckStage.CALLBACK_TIME)
    tools.result.call_later = CallLater(None)
    return CheckResult(GOODBYE, None)


def _call_at(at: datetime | dates.Unclear, tools: Tools) -> CheckResult | None:
    """End the call for another one at this time; None if the time is unclear, or no call is possible then."""
    if isinstance(at, datetime) and tools.call_later(at.astimezone(UTC).isoformat()).ok:
        return CheckResult(f"All right, we will call again on {long_time(at)}. Goodbye!", None)
    return None


def _time(texts: Sequence[str], zone: str) -> datetime | dates.Unclear:
    """The time that the last text names, or all of them together."""
    now = datetime.fromtimestamp(clock.now() / clock.SECOND, UTC)
    parts = [dates.part(text) for text in texts]
    read = [dates.read(text, now, ZoneInfo(zone)) for text in (parts[-1], ". ".join(parts))]
    return next((at for at in read if isinstance(at, datetime)), read[0])
