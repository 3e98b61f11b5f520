"""The scripted agent in a phone call."""

from __future__ import annotations

import pytest

from shared.agent.turn import CallContext, CallLater
from shared.core import clock
from tests.support.dialogues import Dialogue, dental, phone_dialogue, physio

LATER = clock.parse("2027-03-04T09:00:00Z")  # tomorrow at ten in Berlin


@pytest.mark.parametrize(
    "text",
    [
        "I can't talk right now, please call me tomorrow at 10 in the morning",
        "I can't talk right now call me tomorrow at 10",
        "I'm driving. Call again tomorrow at 10 please",
        "Sorry, I am in a meeting, can you call me back tomorrow at ten?",
        "call me later, tomorrow at 10:00",
        "call me in 24 hours",
    ],
)
def test_who_cannot_talk_now_is_called_again_at_the_time_named(text: str) -> None:
    dialogue = phone_dialogue(dental())
    answer = dialogue.say(text)
    assert answer == "All right, we will call you again on **Thursday 4 March 2027 at 10:00** (Europe/Berlin). Goodbye!"
    assert dialogue.result.call_later == CallLater(LATER)
    assert dialogue.untouched()


@pytest.mark.parametrize(
    "text",
    [
        "Now is a bad time. Tomorrow at 10 would be better",
        "not now, tomorrow at 10",
        "I don't want you to call me tomorrow at 10",
        "call me tomorrow at 10 or 11",
        "call me tomorrow at 10 if it is free",
        "call me any day but Monday at 10",
    ],
)
def test_a_time_in_other_words_ends_no_call(text: str) -> None:
    dialogue = phone_dialogue(dental())
    dialogue.say(text)
    assert dialogue.result.call_later is None
    assert dialogue.untouched()


def test_a_time_to_be_called_is_read_in_the_zone_of_the_appointment_or_the_calls_or_utc() -> None:
    for dialogue, zone, hour in (
        (phone_dialogue(dental(), call=CallContext(timezone="Asia/Tokyo")), "Europe/Berlin", "2027-03-04T09:00:00Z"),
        (phone_dialogue(call=CallContext(timezone="Asia/Tokyo")), "Asia/Tokyo", "2027-03-04T01:00:00Z"),
        (phone_dialogue(), "UTC", "2027-03-04T10:00:00Z"),
    ):
        assert f"({zone})" in dialogue.say("I can't talk now, call me tomorrow at 10")
        assert dialogue.result.call_later == CallLater(clock.parse(hour))


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("I can't talk right now", "Please tell me the day and the time"),
        ("call me back", "Please tell me the day and the time"),
        ("call me later", "Please tell me the day and the time"),
        ("call me tomorrow", "At what time on Thursday 4 March 2027?"),
        ("call me at 5pm", "On which day at 17:00?"),
        ("call me tomorrow at 5", "**05:00** or **17:00**"),
        ("call me on Friday or on Monday at 3", "Please tell me the day and the time"),
        ("call me yesterday at 10", "has passed"),
        ("call me yesterday at 3", "**03:00** or **15:00**"),
        ("call me next week", "day and the time"),
        ("busy right now, call me on 03/04 at 10", "**3 April** or **4 March**"),
    ],
)
def test_when_to_call_is_asked_back_where_it_is_missing_or_unclear(text: str, asked: str) -> None:
    dialogue = phone_dialogue(dental())
    answer = dialogue.say(text)
    assert answer.startswith("When should we call you again?")
    assert asked in answer
    assert dialogue.result.call_later is None
    assert dialogue.untouched()


def test_the_time_to_be_called_is_put_together_from_the_answers() -> None:
    dialogue = phone_dialogue(dental())
    dialogue.say("move it to Monday please")
    dialogue.say("oh, I can't talk right now")
    assert "At what time on Thursday 4 March 2027?" in dialogue.say("tomorrow")
    dialogue.say("at ten")
    assert dialogue.result.call_later == CallLater(LATER)


def test_the_day_of_a_move_is_not_the_day_to_call() -> None:
    dialogue = phone_dialogue(dental())
    assert dialogue.say("move it to Monday please").startswith("When shall I move")
    assert "On which day at 10:00?" in dialogue.say("sorry, call me back at ten")
    dialogue.say("tomorrow")
    assert dialogue.result.call_later == CallLater(LATER)


def test_who_never_names_a_time_is_asked_again() -> None:
    dialogue = phone_dialogue(dental())
    dialogue.say("I can't talk right now")
    for text in ("hm hm", "around noon tomorrow", "tomorrow or on Friday at 10", "not tomorrow"):
        dialogue.say(text)
        assert dialogue.result.call_later is None
    assert dialogue.untouched()


@pytest.mark.parametrize("text", ["call me on 4 March 2029 at 10", "call me on 5 March 2028 at 10"])
def test_a_call_in_more_than_a_year_is_refused(text: str) -> None:
    dialogue = phone_dialogue(dental())
    assert "within a year" in dialogue.say(text)
    assert dialogue.result.call_later is None


def test_a_wish_counts_more_than_being_busy() -> None:
    dialogue = phone_dialogue(dental())
    dialogue.say("I'm driving, but I'll be there")
    assert dialogue.actions == ["appointment_confirmed"]
    dialogue = phone_dialogue(dental())
    dialogue.say("I'm in a meeting, please cancel it")
    assert dialogue.proposed is not None
    assert dialogue.result.call_later is None


def test_after_a_change_no_other_call_is_noted() -> None:
    dialogue = phone_dialogue(dental(), call=CallContext(changed_before=True))
    assert "another call is not needed" in dialogue.say("call me tomorrow at 10")
    assert dialogue.result.call_later is None


@pytest.mark.parametrize("text", ["Yes", "yes, of course", "Sure!"])
def test_a_plain_yes_to_the_opening_confirms(text: str) -> None:
    dialogue = phone_dialogue(dental())
    dialogue.say(text)
    assert dialogue.actions == ["appointment_confirmed"]
    dialogue = phone_dialogue(dental(), call=None)
    dialogue.say(text)
    assert dialogue.untouched()


@pytest.mark.parametrize("text", ["No", "no, sorry", "No, I can't"])
def test_a_plain_no_to_the_opening_changes_nothing(text: str) -> None:
    dialogue = phone_dialogue(dental())
    assert dialogue.say(text).startswith("All right. I have not changed anything.")
    assert dialogue.untouched()
    assert dialogue.say("cancel it").startswith("Shall I cancel")


@pytest.mark.parametrize("text", ["hm", "the weather is bad", "Yes, if it does not rain", "yes, but I am late"])
def test_anything_but_a_plain_yes_to_the_opening_confirms_nothing(text: str) -> None:
    dialogue = phone_dialogue(dental())
    dialogue.say(text)
    assert dialogue.untouched()


def test_a_no_with_a_wish_is_about_the_wish() -> None:
    assert phone_dialogue(dental()).say("No, please cancel it").startswith("Shall I cancel")


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "what can you do",
        "blah blah",
        "I want to book an appointment",
        "call me",
        "a person please",
        "cancel it and call me",
        "no",
        "yes",
        "show my appointments",
        "thank you",
    ],
)
@pytest.mark.parametrize("documents", [0, 1, 2])
def test_in_a_call_nothing_is_offered_that_only_a_chat_has(text: str, documents: int) -> None:
    dialogue = phone_dialogue(*[dental(), physio()][:documents], opening="Hello!")
    answer = dialogue.say(text)
    for words in ("arrange a call", "call you in a moment", "answer here", "take over", "here if you need"):
        assert words not in answer
    assert not dialogue.result.wants_call


def test_an_offer_of_a_person_is_taken_in_a_call_too() -> None:
    dialogue = phone_dialogue()
    assert dialogue.say("move my appointment").endswith("Would you like a person to get back to you?")
    assert dialogue.say("yes please") == "I have asked someone from our team to get back to you."
    assert dialogue.actions == ["handoff"]


@pytest.mark.parametrize("text", ["I can't talk right now", "I'm driving", "call again tomorrow at 10"])
def test_outside_of_a_call_nobody_is_called_later(text: str) -> None:
    dialogue = Dialogue(dental())
    assert "call you again" not in dialogue.say(text)
    assert dialogue.result.call_later is None
    assert dialogue.untouched()


@pytest.mark.parametrize("text", ["I'm not sure yet", "I don't know", "I have to think about it", "I can't say"])
def test_who_has_not_decided_is_not_pressed(text: str) -> None:
    dialogue = Dialogue(dental())
    assert dialogue.say(text).startswith("All right. I have not changed anything.")
    assert dialogue.untouched()
