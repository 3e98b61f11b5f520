"""Questions about the business: answered from its facts and hours, and from nothing else."""

from __future__ import annotations

from typing import Any, cast

import pytest

from shared.agent import Utterance
from shared.agent.scripted import Scripted
from shared.agent.turn import TurnInput, TurnResult
from shared.agent_settings.policy import ChangePolicy
from shared.agent_settings.resource import DEFAULTS, Settings
from tests.support.models import appointment_record

pytestmark = pytest.mark.usefixtures("stopped_clock")

PARKING, PRICE = "Yes, behind the house.", "A cleaning costs 90 euros."
FACTS = [
    {"question": "Do you have parking?", "answer": PARKING},
    {"question": "How much does a cleaning cost?", "answer": PRICE},
    {"question": "What is your cancellation policy?", "answer": "Cancel a day before."},
    {"question": "Can I pay by card?", "answer": "We take [all cards](https://evil.example)."},
    {"question": "What is your address?", "answer": "Main Street 5."},
]
NEVER = {"days": ["monday"], "from": "09:00", "to": "09:10"}
"""Hours in which no appointment of half an hour fits."""
OFFER = "I do not know that. Would you like a person to get back to you?"


class Chat:
    """A conversation with the scripted agent about one appointment."""

    def __init__(self, **settings: Any) -> None:
        self.settings = cast("Settings", DEFAULTS | {"facts": FACTS} | settings)
        self.said: list[Utterance] = []
        self.appointment = appointment_record(title="Check-up")
        self.result = TurnResult()

    def say(self, text: str) -> str:
        proposal = self.result.proposed
        turn = TurnInput([self.appointment], text, self.settings, proposal, can_call=True)
        self.said.append(Utterance("user", text))
        reply = Scripted().reply(self.said, turn, 10)
        self.result = reply.result
        self.said.append(Utterance("assistant", reply.content))
        return reply.content


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("Do you have parking?", PARKING),
        ("do you have parking", PARKING),
        ("Is there parking?", PARKING),
        ("Where can I park?", PARKING),
        ("Hi, how much is a cleaning?", PRICE),
        ("What does the cleaning cost?", PRICE),
        ("What is your cancellation policy?", "Cancel a day before."),
        ("What's your address?", "Main Street 5."),
        ("what\u2019s the address", "Main Street 5."),
    ],
)
def test_a_question_is_answered_from_the_fact_whose_words_match(asked: str, answer: str) -> None:
    chat = Chat()
    assert chat.say(asked).startswith(answer)
    assert (chat.result.actions, chat.result.staged, chat.result.proposed) == ([], None, None)


@pytest.mark.parametrize(
    "asked",
    [
        "Do you treat dogs?",
        "What does a root canal cost?",
        "Who is your best dentist?",
        "How old is the clinic?",
        "Can I bring my dog?",
        "Will it hurt?",
        "Should I fast before the treatment?",
        "Where can I leave my bicycle?",
        "Which insurances do you take?",
    ],
)
def test_what_is_not_known_is_not_invented_and_a_person_is_offered(asked: str) -> None:
    chat = Chat()
    assert chat.say(asked) == OFFER
    assert chat.result.actions == []
    chat.say("yes please")
    assert [action["type"] for action in chat.result.actions] == ["handoff"]


def test_a_person_who_is_not_wanted_is_not_asked() -> None:
    chat = Chat()
    chat.say("Do you treat dogs?")
    chat.say("no")
    assert chat.result.actions == []


def test_opening_hours_are_told() -> None:
    hours = [
        {"days": ["monday", "tuesday"], "from": "09:00", "to": "17:30"},
        {"days": ["friday"], "from": "08:00", "to": "12:00"},
    ]
    told = "We are open on Monday, Tuesday from 09:00 to 17:30; on Friday from 08:00 to 12:00 (Europe/Berlin)."
    assert Chat(opening_hours=hours, timezone="Europe/Berlin").say("When are you open?").startswith(told)


@pytest.mark.parametrize("asked", ["What are your opening hours?", "When are you open?", "What time do you close?"])
def test_hours_that_are_not_set_are_not_invented(asked: str) -> None:
    assert Chat().say(asked) == OFFER


def test_where_the_business_is_is_known_if_an_appointment_says_where() -> None:
    chat = Chat(facts=[])
    assert chat.say("Where are you located?") == OFFER
    chat.appointment = appointment_record(title="Check-up", location="Main Street 5")
    assert "Main Street 5" in chat.say("Where are you located?")


def test_a_fact_is_quoted_without_its_links() -> None:
    assert Chat().say("Can I pay by card?").startswith(r"We take \[all cards\](https\://evil.example).")


@pytest.mark.parametrize(
    "asked", ["When is my appointment?", "What appointments do I have?", "Where is it?", "When is the check-up?"]
)
def test_questions_about_appointments_are_answered_as_before(asked: str) -> None:
    assert Chat().say(asked).startswith("You have one upcoming appointment")


def test_a_time_outside_the_hours_is_explained_and_the_next_one_is_offered() -> None:
    hours = [{"days": ["monday"], "from": "09:00", "to": "17:00"}]
    chat = Chat(change_policy=ChangePolicy.WITHIN_HOURS, opening_hours=hours)
    reply = chat.say("Move my appointment to 4 October at 03:00")
    assert "not within our opening hours" in reply
    assert "Monday 5 October 2026 at 09:00" in reply
    assert chat.result.staged is None
    assert "moved to" in chat.say("yes")
    assert chat.result.staged is not None
    assert chat.result.staged.doc["appointment_at"] == "2026-10-05T09:00:00.000Z"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"minimum_notice_minutes": 43_200}, "That is too short notice for us."),
        (
            {"change_policy": ChangePolicy.WITHIN_HOURS, "opening_hours": [NEVER]},
            "That is not within our opening hours.",
        ),
    ],
)
def test_if_no_time_is_possible_it_is_said_why_and_a_person_is_asked(settings: dict[str, Any], why: str) -> None:
    chat = Chat(**settings)
    reply = chat.say("Move my appointment to 4 October at 10:00")
    assert reply.startswith(why)
    assert "will be in touch" in reply
    assert chat.result.actions == [{"type": "handoff", "reason": "change_requested"}]
    assert chat.result.proposed is None


def test_a_person_decides_if_the_business_wants_that() -> None:
    chat = Chat(change_policy=ChangePolicy.ASK_STAFF)
    assert "will be in touch" in chat.say("Move my appointment to 5 October at 10:00")
    assert chat.result.actions == [{"type": "handoff", "reason": "change_requested"}]
    assert chat.result.proposed is None


def test_a_call_outside_the_calling_hours_is_announced_for_their_beginning() -> None:
    hours = [{"days": ["wednesday"], "from": "09:00", "to": "17:00"}]
    chat = Chat(calling_hours=hours, timezone="Europe/Berlin")
    assert "Wednesday 23 September 2026 at 09:00" in chat.say("Please call me")
    assert chat.result.wants_call


@pytest.mark.parametrize("asked", ["What is your phone number?", "How can I reach you?", "What's your number?"])
def test_the_phone_of_the_business_is_told_if_it_is_set(asked: str) -> None:
    assert Chat(business_phone="+4930901820").say(asked).startswith("You can reach us at +4930901820.")
    assert "+49" not in Chat().say(asked)
