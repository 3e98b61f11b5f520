"""What is said in a call until the person is reached (promises 11)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest

from shared.agent import Reply, Utterance
from shared.agent.turn import CallLater, TurnInput, TurnResult
from shared.calls import identity_check
from shared.calls.dialogue import Progress, reply_in_call
from shared.calls.sessions import CheckStage
from shared.calls.transcripts import Speaker
from shared.core import clock
from tests.unit.test_dialogue import appointment_record, briefing

NOW = datetime(2027, 3, 3, 9, 0, 0, tzinfo=UTC)  # a Wednesday
QUESTION = "Am I speaking with Ada Lovelace?"
TOLD = (
    "Thank you. I am calling about Dental check-up on Friday 5 March 2027 at 14:30 (Europe/Berlin). Will you be there?"
)
WHO = "Hello, this is the automated AI assistant of Blue Clinic."
AGAIN = f"Sorry, I did not understand that. {QUESTION}"
WHEN = "When should we call Ada Lovelace again?"
GIVES_UP = "I am sorry, I can only speak with Ada Lovelace about this. Goodbye."
WRONG = "I am sorry to have disturbed you. Goodbye."
WAITS = "Of course, I will wait."
AGENT = "The agent speaks."


@pytest.fixture(autouse=True)
def wednesday_morning() -> Iterator[None]:
    clock.use(NOW.timestamp, lambda seconds: None)
    yield
    clock.use(time.time, time.sleep)


class Agent:
    """An agent, which must not be asked before the person is reached."""

    def reply(self, said: Sequence[Utterance], turn: TurnInput, seconds: float) -> Reply:
        return Reply(AGENT)


@dataclass
class Call:
    """A call, line by line."""

    name: str | None = "Ada Lovelace"

    def __post_init__(self) -> None:
        self.briefing = briefing(appointment_record(), self.name)
        self.opening = self.briefing.first_words(recorded=True)
        self.progress = Progress(self.briefing.callee.first_stage)
        self.said: list[tuple[Speaker, str]] = [("agent", self.opening)]
        self.result = TurnResult()

    def hears(self, text: str) -> str:
        """What the agent answers."""
        self.said.append(("customer", text))
        reply, self.progress = reply_in_call(Agent(), self.briefing, self.progress, self.said, seconds=5)
        self.result = reply.result
        self.said.append(("agent", reply.content))
        return reply.content

    @property
    def is_over(self) -> bool:
        return self.result.ends_call


def test_only_after_a_yes_the_appointment_is_named() -> None:
    call = Call()
    assert call.opening.endswith(QUESTION)
    assert call.hears("Yes, this is she.") == TOLD
    assert call.hears("When is it?") == AGENT
    assert not call.is_over


def test_what_is_not_understood_is_asked_once_more_and_then_it_is_goodbye() -> None:
    call = Call()
    assert call.hears("Hm.") == AGAIN
    assert call.hears("Maybe.") == GIVES_UP
    assert call.is_over
    assert (call.result.outcome, call.result.call_later) == (None, None)


def test_a_yes_to_the_second_question_is_a_yes() -> None:
    call = Call()
    assert call.hears("Yes?") == AGAIN
    assert call.hears("Yes.") == TOLD


@pytest.mark.parametrize("before", [(), ("Hello?",), ("One moment.",), ("Who is this?",), ("She is not here.",)])
def test_a_wrong_number_ends_the_call(before: Sequence[str]) -> None:
    call = Call()
    for text in before:
        call.hears(text)
    assert call.hears("You have the wrong number.") == WRONG
    assert call.is_over
    assert call.result.outcome == "wrong_person"


def test_who_asks_who_is_calling_hears_it_and_is_asked_again() -> None:
    call = Call()
    assert call.hears("Who is this?") == f"{WHO} {QUESTION}"
    assert call.hears("What is this about?") == f"{WHO} {QUESTION}"
    assert call.hears("Yes.") == TOLD


def test_the_agent_waits_for_a_person_who_is_fetched_and_begins_again() -> None:
    call = Call()
    assert call.hears("One moment, please.") == WAITS
    # Whoever speaks now has not heard the question.
    assert call.hears("Yes, hello?") == call.opening
    assert call.hears("Yes, speaking.") == TOLD


def test_somebody_fetched_in_vain_is_asked_when_to_call() -> None:
    call = Call()
    call.hears("One moment, please.")
    assert call.hears("Sorry, she isn't here.") == WHEN


@pytest.mark.parametrize(
    ("answers", "at", "last"),
    [
        (["Tomorrow at 10 am."], "2027-03-04T09:00:00.000Z", "Thursday 4 March 2027 at 10:00 (Europe/Berlin)"),
        (["Try again tomorrow at 15:00, she should be back then."], "2027-03-04T14:00:00.000Z", "15:00"),
        (["Tomorrow.", "At 10 am."], "2027-03-04T09:00:00.000Z", "Thursday 4 March 2027 at 10:00"),
        (["In two hours."], "2027-03-03T11:00:00.000Z", "12:00"),
        (["I don't know."], None, "All right, thank you. Goodbye!"),
        (["Later.", "No idea."], None, "All right, thank you. Goodbye!"),
        (["Tomorrow.", "No idea."], None, "All right, thank you. Goodbye!"),
        (["Who is this?", "Tomorrow at noon."], "2027-03-04T11:00:00.000Z", "12:00"),
    ],
)
def test_who_cannot_talk_now_is_called_later_at_the_time_that_is_named(
    answers: Sequence[str], at: str | None, last: str
) -> None:
    call = Call()
    assert call.hears("She is not here right now.") == WHEN
    words = [call.hears(text) for text in answers]
    assert last in words[-1]
    assert call.is_over
    assert call.result.call_later == CallLater(None if at is None else clock.parse(at))
    assert call.result.outcome is None


def test_a_time_in_the_first_answer_is_not_asked_for() -> None:
    call = Call()
    assert "Thursday 4 March 2027 at 10:00" in call.hears("She's not here, call back tomorrow at 10 am please.")
    assert call.result.call_later == CallLater(clock.parse("2027-03-04T09:00:00.000Z"))


def test_whoever_answers_may_opt_the_phone_out() -> None:
    for before in ([], ["Hm."], ["One moment."], ["She is not here."]):
        call = Call()
        for text in before:
            call.hears(text)
        call.hears("Stop calling me!")
        assert call.result.has("customer_opted_out")
        assert call.is_over


def test_a_doubtful_wish_is_asked_about_and_the_person_still_to_be_reached() -> None:
    call = Call()
    assert call.hears("Don't call me").startswith("Would you like us not to call")
    assert call.hears("No.") == AGAIN
    assert call.hears("Yes, speaking.") == TOLD


@pytest.mark.parametrize("text", ["One moment.", "Who is this?", "Yes? Hello?"])
def test_nobody_is_held_in_the_line_for_ever(text: str) -> None:
    call = Call()
    for _ in range(identity_check.MOST_LINES):
        words = call.hears(text)
        assert "Dental" not in words
        if call.is_over:
            return
    pytest.fail("the call has no end")


def test_a_customer_without_a_name_is_not_asked_for() -> None:
    call = Call(name=None)
    assert "Dental" not in call.opening
    assert call.hears("Yes, I'll be there.") == AGENT
    assert call.hears("Who will treat me?") == AGENT


@pytest.mark.parametrize("name", ["Ada Lovelace", None])
@pytest.mark.parametrize(
    "text", ["Who is this?", "Sorry, who's calling?", "Where are you calling from?", "Am I talking to a robot?"]
)
def test_who_is_calling_is_said_later_in_the_call_too(name: str | None, text: str) -> None:
    call = Call(name)
    call.hears("Yes.")
    words = call.hears(text)
    assert words.startswith(f"{WHO} I am calling about ")
    assert ("Dental" in words) is (name is not None)
    assert not call.is_over


@pytest.mark.parametrize("name", ["Ada Lovelace", None])
@pytest.mark.parametrize("text", ["Oh sorry, wrong number.", "I think you must have misdialed"])
def test_a_wrong_number_is_understood_later_in_the_call_too(name: str | None, text: str) -> None:
    call = Call(name)
    call.hears("Yes.")
    assert call.hears(text) == WRONG
    assert call.result.outcome == "wrong_person"
    assert call.is_over


def test_a_customer_without_a_name_may_ask_who_is_calling() -> None:
    call = Call(name=None)
    words = call.hears("Who is this?")
    assert words.startswith(f"{WHO} I am calling about your appointment on Friday 5 March 2027")
    assert "Dental" not in words
    assert call.hears("Yes, I'll be there.") == AGENT


@pytest.mark.parametrize(
    "text", ["Sorry, you have the wrong number.", "You must have misdialed", "This is not the right number"]
)
def test_a_wrong_number_of_a_customer_without_a_name(text: str) -> None:
    call = Call(name=None)
    assert call.hears(text) == WRONG
    assert call.result.outcome == "wrong_person"
    assert call.is_over


def test_a_customer_who_was_deleted_meanwhile_is_not_spoken_about() -> None:
    call = Call(name=None)
    call.progress = replace(call.progress, stage=CheckStage.ASKED)
    assert call.hears("Yes, speaking.") == WRONG
    assert call.is_over
    assert call.result.outcome is None
