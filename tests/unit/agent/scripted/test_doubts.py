"""What is no plain request is asked about."""

from __future__ import annotations

import pytest

from tests.support.dialogues import Dialogue, dental, phone_dialogue, physio

NO_CONFIRMATION = (
    *("How do I confirm?", "should I confirm?", "I'll confirm later", "can you confirm the address?", "confirm?"),
    *("Can you confirm the time?", "Did I confirm?", "Do I have to confirm?", "Have you confirmed it?", "Why confirm?"),
    *("I will confirm tomorrow evening if I can", "If I confirm, can I still cancel?", "I confirm if it is free"),
    *("My wife will confirm", "My wife said I should confirm", 'She said "confirm"', "you asked me to confirm"),
    *("I want to confirm the address", "I wonder if I'll be there", "I'll be there unless it rains", "I may confirm"),
    *("maybe I'm coming", "who said I'm coming?", "I'll be there... or not", "I'd confirm, but I am not sure"),
    *("when I'm coming home I will see", "confirm that you are a robot", "please confirm receipt", "don't confirm"),
    *("confirm the dentist's number", "I can confirm that it hurts", "no need to confirm", "> confirm", "`confirm`"),
    *("will you confirm my insurance?", "I'm coming down with a cold", "I'll be there if I can", "not confirmed"),
)


NO_CALL = (
    *("Did you call me?", "My doctor will call me", "call me Ada", "call me?", "Why did you call me?", "don't call me"),
    *(
        "Who will call me?",
        "please never call me",
        "They call me Bob",
        "if you call me I won't answer",
        "call me maybe",
    ),
    *('My mother said "call me"', "you can call me Mr Smith", "Will you call me if it changes?", "should I call back?"),
    *("You did not give me a call", "nobody called, call me names if you like", "I missed your phone call"),
    *("call me when it is free", "could you call me a taxi?", "your call back was rude", "call my wife"),
    *("what does a phone call cost?", "call me tomorrow at 15:00", "call us what you like", "do not phone me"),
)


@pytest.mark.parametrize("text", NO_CONFIRMATION)
@pytest.mark.parametrize("in_call", [False, True])
def test_a_question_or_a_remark_about_confirming_confirms_nothing(text: str, in_call: bool) -> None:
    for documents in ([dental()], [dental(), physio()]):
        dialogue = phone_dialogue(*documents) if in_call else Dialogue(*documents)
        assert dialogue.say(text)
        assert dialogue.untouched()
        assert dialogue.proposed is None


@pytest.mark.parametrize("text", NO_CALL)
def test_a_question_or_a_remark_about_calling_places_no_call(text: str) -> None:
    dialogue = Dialogue(dental())
    assert dialogue.say(text)
    assert dialogue.untouched()


@pytest.mark.parametrize(
    "text",
    [
        "My doctor will call me tomorrow at 10",
        "Did you call me yesterday at 10?",
        "Will you call me on Friday at 10?",
        "call me ... tomorrow at 10, Ada",
    ],
)
def test_a_remark_about_calling_ends_no_call(text: str) -> None:
    dialogue = phone_dialogue(dental())
    assert dialogue.say(text).endswith("?") or "Please tell me" in dialogue.said[-1].content
    assert dialogue.result.call_later is None
    for answer in ("hm hm", "at 10"):
        dialogue.say(answer)
        assert dialogue.result.call_later is None


def test_a_doubtful_confirmation_is_asked_about_and_a_yes_confirms() -> None:
    dialogue = Dialogue(dental())
    assert dialogue.say("How do I confirm?").startswith("Would you like me to confirm **Dental check-up** on")
    dialogue.say("yes please")
    assert dialogue.actions == ["appointment_confirmed"]


def test_a_doubtful_confirmation_that_is_refused_changes_nothing() -> None:
    dialogue = Dialogue(dental())
    dialogue.say("should I confirm?")
    assert "not changed anything" in dialogue.say("no")
    dialogue.say("yes")
    assert dialogue.untouched()


def test_a_doubtful_confirmation_of_one_of_several_asks_which() -> None:
    dialogue = Dialogue(dental(), physio())
    assert dialogue.say("How do I confirm?") == "Would you like me to confirm an appointment?"
    assert dialogue.say("yes").startswith("Which appointment shall I confirm?")
    assert dialogue.say("is it the second one?").startswith("You have 2 upcoming appointments")
    assert dialogue.untouched()
    assert dialogue.say("confirm the physio").startswith("Would you like me to confirm **Physio** on")
    assert dialogue.untouched()
    dialogue.say("yes")
    assert [doc["status"] for doc in dialogue.documents] == ["pending", "confirmed"]


@pytest.mark.parametrize(
    "text", ["I wonder if I'm coming on Monday", "the physio?", "maybe the physio", "not the physio", "no, the physio"]
)
def test_an_answer_that_is_in_doubt_confirms_nothing(text: str) -> None:
    dialogue = Dialogue(dental(), physio())
    assert dialogue.say("confirm").startswith("Which appointment shall I confirm?")
    dialogue.say(text)
    assert dialogue.untouched()


@pytest.mark.parametrize("asked", ["Did you call me?", "move it"])
def test_confirm_after_another_question_is_asked_back(asked: str) -> None:
    dialogue = Dialogue(dental())
    dialogue.say(asked)
    assert dialogue.say("confirm").startswith("Would you like me to confirm **Dental check-up**")
    assert dialogue.untouched()


def test_a_doubtful_call_is_asked_about_and_a_yes_places_it() -> None:
    dialogue = Dialogue(dental())
    assert dialogue.say("Did you call me?") == "Would you like us to call you now?"
    dialogue.say("no")
    assert dialogue.untouched()
    assert dialogue.say("call me tomorrow").endswith("Would you like us to call you now?")
    dialogue.say("yes")
    assert dialogue.result.wants_call


@pytest.mark.parametrize(
    "text",
    [
        "Can you confirm my appointment?",
        "Could you please confirm it?",
        "yes, please confirm my appointment, thank you!",
        "I would like to confirm my appointment.",
        "confirm my appointment on Friday",
        "confirm the one on Friday at 14:30 please",
        "Hi, I confirm my appointment for Friday, 5 March at 14:30.",
        "We will be there!",
    ],
)
def test_a_plain_request_confirms(text: str) -> None:
    dialogue = Dialogue(dental())
    dialogue.say(text)
    assert dialogue.actions == ["appointment_confirmed"]


@pytest.mark.parametrize(
    "text",
    [
        "Hello, please call me now",
        "I'd like you to call me",
        "Would you call me back, please?",
        "I want a call? no: call me",
        "can someone call me?",
        "Give me a ring!",
    ],
)
def test_a_plain_request_places_a_call(text: str) -> None:
    dialogue = Dialogue(dental())
    dialogue.say(text)
    assert dialogue.result.wants_call is ("no:" not in text)


@pytest.mark.parametrize("text", ["I would like to confirm my dental check-up.", "confirm the physio", "confirm both"])
def test_a_request_to_confirm_in_other_words_is_asked_about(text: str) -> None:
    dialogue = Dialogue(dental(), physio())
    assert dialogue.say(text).startswith("Would you like me to confirm")
    assert dialogue.untouched()


@pytest.mark.parametrize("text", ["You can call me back", "call me later", "call me soon", "call me at 10"])
def test_a_request_for_a_call_in_other_words_is_asked_about(text: str) -> None:
    dialogue = Dialogue(dental())
    assert dialogue.say(text) == "Would you like us to call you now?"
    assert dialogue.untouched()


@pytest.mark.parametrize("text", ["confirm", "Confirm.", "I confirm", "yes, confirm", "confirm it"])
def test_confirm_after_a_proposed_cancellation_is_asked_back(text: str) -> None:
    dialogue = Dialogue(dental())
    dialogue.say("cancel my appointment")
    asked = dialogue.say(text)
    assert "Shall I cancel **Dental check-up**" in asked
    assert dialogue.untouched()
    assert dialogue.say(text) == asked
    assert dialogue.untouched()
    dialogue.say("yes")
    assert dialogue.actions == ["appointment_cancelled"]


@pytest.mark.parametrize("text", ["no", "hello", "hm"])
def test_anything_but_a_yes_to_that_question_drops_the_proposal(text: str) -> None:
    dialogue = Dialogue(dental())
    dialogue.say("cancel my appointment")
    dialogue.say("confirm")
    dialogue.say(text)
    assert dialogue.untouched()
    dialogue.say("yes")
    assert dialogue.untouched()


def test_confirm_after_a_new_time_agrees_to_it_and_confirm_it_is_asked_back() -> None:
    dialogue = Dialogue(dental())
    dialogue.say("move it to Monday at 10:00")
    assert "Shall I move **Dental check-up**" in dialogue.say("confirm it")
    assert dialogue.untouched()
    dialogue.say("confirm")
    assert dialogue.actions == ["appointment_rescheduled"]


def test_a_rescheduled_appointment_reads_as_a_sentence() -> None:
    answer = Dialogue(dental(status="rescheduled")).say("when is it?")
    assert answer.startswith(
        "You have one upcoming appointment: **Dental check-up** on **Friday 5 March 2027 at 14:30**"
    )
    assert "(Europe/Berlin), rescheduled and not confirmed yet." in answer
