"""Facts answer what they are asked, and hide no request and no question about the customer's own appointment."""

from __future__ import annotations

import pytest

from tests.unit.agent.scripted.test_business import OFFER, Chat

pytestmark = pytest.mark.usefixtures("stopped_clock")

NOTHING = "The answer of the fact."


def chat(question: str) -> Chat:
    return Chat(facts=[{"question": question, "answer": NOTHING}])


@pytest.mark.parametrize(
    ("question", "said", "answer"),
    [
        ("Can I cancel?", "cancel", "Shall I cancel"),
        ("How can I cancel my appointment?", "Please cancel my appointment", "Shall I cancel"),
        ("How do I cancel my appointment?", "I want to cancel my appointment", "Shall I cancel"),
        ("Can I move my appointment?", "Please move my appointment", "When shall I move"),
        ("Do I need to confirm my appointment?", "Confirm my appointment", "**Check-up**"),
        ("Can you call me?", "Please call me", "All right, we will call you"),
    ],
)
def test_a_fact_hides_no_request(question: str, said: str, answer: str) -> None:
    assert chat(question).say(said).startswith(answer)


@pytest.mark.parametrize("said", ["When is my appointment?", "Where is my appointment?"])
@pytest.mark.parametrize("question", ["Do I need an appointment?", "How long is an appointment?"])
def test_a_fact_hides_no_appointment(question: str, said: str) -> None:
    assert chat(question).say(said).startswith("You have one upcoming appointment")


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Do you treat cats?", "Do you treat dogs?"),
        ("Do you have a free consultation?", "Is parking free?"),
        ("Is there parking on Sunday?", "Are you open on Sunday?"),
    ],
)
def test_a_fact_answers_no_other_question(question: str, said: str) -> None:
    assert chat(question).say(said) == OFFER
