from __future__ import annotations

from typing import Any

import pytest

from shared.telephony import lex
from shared.telephony.lex import LONGEST, cut, read, respond
from tests.support.lex_events import ATTRIBUTES, SESSION, event, valid


def with_attributes(**changes: Any) -> dict[str, Any]:
    changed = event()
    given = changed["sessionState"]["sessionAttributes"] | changes
    changed["sessionState"]["sessionAttributes"] = {name: value for name, value in given.items() if value is not None}
    return changed


@pytest.mark.parametrize("source", ["DialogCodeHook", "FulfillmentCodeHook"])
def test_an_event_tells_the_session_and_the_words(source: str) -> None:
    heard = read(event(invocationSource=source))
    assert (heard.session_id, heard.project_id, heard.livemode) == (SESSION, 7, True)
    assert heard.text == "can we move it to Tuesday"
    assert heard.intent["name"] == "FallbackIntent"
    assert heard.attributes == ATTRIBUTES


@pytest.mark.parametrize("text", ["", "   ", "\n", None])
def test_silence_is_not_words(text: str | None) -> None:
    assert read(event(text)).text is None


def test_an_event_without_a_transcript_is_silence() -> None:
    silent = event()
    del silent["inputTranscript"]
    assert read(silent).text is None


def test_pressed_keys_are_words() -> None:
    assert read(event("1", inputMode="DTMF")).text == "1"


def test_a_test_session_is_told_from_a_live_one() -> None:
    assert read(with_attributes(livemode="false")).livemode is False


def test_words_do_not_show_in_a_representation() -> None:
    assert "Tuesday" not in repr(read(event()))


@pytest.mark.parametrize("name", ["session_id", "project_id", "livemode"])
@pytest.mark.parametrize("value", [None, "", 7])
def test_an_attribute_that_the_flow_does_not_set_is_named(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        read(with_attributes(**{name: value}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("project_id", "seven"),
        ("project_id", "-7"),
        ("project_id", "\u0667"),
        ("project_id", "9" * 5_000),
        ("livemode", "True"),
        ("livemode", "yes"),
    ],
)
def test_an_attribute_of_another_form_is_named_and_not_quoted(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=name) as caught:
        read(with_attributes(**{name: value}))
    assert value not in str(caught.value)


@pytest.mark.parametrize(
    "malformed",
    [
        None,
        [],
        {},
        event(sessionState=None),
        event(sessionState=[]),
        event(sessionState={"sessionAttributes": ATTRIBUTES}),
        event(sessionState={"sessionAttributes": ATTRIBUTES, "intent": None}),
        event(sessionState={"sessionAttributes": ATTRIBUTES, "intent": {}}),
        event(sessionState={"sessionAttributes": ATTRIBUTES, "intent": {"name": ""}}),
        event(sessionState={"sessionAttributes": None, "intent": {"name": "FallbackIntent"}}),
        event(sessionState={"sessionAttributes": [], "intent": {"name": "FallbackIntent"}}),
    ],
)
def test_a_malformed_event_is_refused(malformed: Any) -> None:
    with pytest.raises(ValueError, match=r"is not an object|has no name|sets no session attribute"):
        read(malformed)


def test_while_the_talk_goes_on_the_bot_listens_again() -> None:
    response = respond(read(event()), "Which Tuesday do you mean?", close=False)
    assert response == {
        "sessionState": {"sessionAttributes": ATTRIBUTES, "dialogAction": {"type": "ElicitIntent"}},
        "messages": [{"contentType": "PlainText", "content": "Which Tuesday do you mean?"}],
    }
    valid(response)


def test_at_the_end_the_flow_is_told_to_hang_up() -> None:
    heard = read(event())
    response = respond(heard, "Goodbye.", close=True)
    state = response["sessionState"]
    assert state["dialogAction"] == {"type": "Close"}
    assert (state["intent"]["name"], state["intent"]["state"]) == ("FallbackIntent", "Fulfilled")
    assert state["sessionAttributes"] == ATTRIBUTES | {lex.CALL_ENDED: "true"}
    assert response["messages"] == [{"contentType": "PlainText", "content": "Goodbye."}]
    assert heard.attributes == ATTRIBUTES
    valid(response)


@pytest.mark.parametrize("close", [False, True])
def test_a_long_answer_fits(close: bool) -> None:
    valid(respond(read(event()), "A sentence like any other. " * 200, close=close))


def test_an_answer_is_cut_after_the_last_whole_sentence() -> None:
    sentences = "The clinic has time at 3.30 on Tuesday. " * 40
    assert cut(sentences) == ("The clinic has time at 3.30 on Tuesday. " * (LONGEST // 40)).strip()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (" Yes. ", "Yes."),
        ("a" * LONGEST, "a" * LONGEST),
        ("Well! " + "a" * LONGEST, "Well!"),
        ("Really? " + "word " * 300, "Really?"),
        ("はい。" + "あ" * LONGEST, "はい。"),
        ("A line\n" + "a" * LONGEST, "A line"),
        ("word " * 300, ("word " * 205)[:LONGEST].rpartition(" ")[0]),
        ("3.5" * LONGEST, ("3.5" * LONGEST)[:LONGEST]),
    ],
)
def test_a_cut_keeps_sentences_then_words_then_characters(text: str, kept: str) -> None:
    assert cut(text) == kept
