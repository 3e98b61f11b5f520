"""The spoken side of a live call: Amazon Connect's Lex V2 bot asks its code hook for every answer.

The contact flow hands the call's attributes on as session attributes of the bot and plays what the hook answers,
until the session attribute `call_ended` is "true". Shapes: "AWS Lambda input event format for Lex V2" and "response
format" of the Lex V2 developer guide. Both kinds of invocation, dialog and fulfilment, carry the same input.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LONGEST = 1024
"""Characters of one message (`Message.content` of the Lex V2 runtime)."""
CALL_ENDED = "call_ended"
"""The session attribute that makes the contact flow hang up."""

_LIVEMODES = {"true": True, "false": False}
_PROJECT_ID = re.compile(r"[0-9]{1,18}")
_SENTENCES = re.compile(r".*(?:[.!?…](?=\s)|[。\uff01\uff1f\n])", re.DOTALL)


@dataclass(frozen=True)
class Heard:
    """What the customer said in a call. `text` is None where nothing was said: silence, noise, a call just begun."""

    session_id: str
    project_id: int
    livemode: bool
    text: str | None = field(repr=False)
    intent: Mapping[str, Any] = field(repr=False)
    attributes: Mapping[str, str] = field(repr=False)
    session_state: Mapping[str, Any] = field(repr=False)


def read(event: Any) -> Heard:
    """The input event of a code hook. Raises ValueError, which names what the event lacks and quotes nothing."""
    state = _mapping(_mapping(event, "event").get("sessionState"), "sessionState")
    intent = _mapping(state.get("intent"), "sessionState.intent")
    if not (isinstance(intent.get("name"), str) and intent["name"]):
        raise ValueError("sessionState.intent has no name")
    given = _mapping(state.get("sessionAttributes") or {}, "sessionState.sessionAttributes")
    attributes = {name: value for name, value in given.items() if isinstance(value, str)}
    for name in ("session_id", "project_id", "livemode"):
        if not attributes.get(name):
            raise ValueError(f"the contact flow sets no session attribute {name}")
    if not _PROJECT_ID.fullmatch(attributes["project_id"]):
        raise ValueError("the session attribute project_id is not a number")
    if attributes["livemode"] not in _LIVEMODES:
        raise ValueError("the session attribute livemode is neither true nor false")
    transcript = event.get("inputTranscript")
    return Heard(
        session_id=attributes["session_id"],
        project_id=int(attributes["project_id"]),
        livemode=_LIVEMODES[attributes["livemode"]],
        text=(transcript.strip() or None) if isinstance(transcript, str) else None,
        intent=intent,
        attributes=attributes,
        session_state=state,
    )


def answer(heard: Heard, text: str, *, close: bool) -> dict[str, Any]:
    """The hook's response: say `text`, which is not empty, then listen, or end the call.

    Session attributes that a response leaves out are lost, so all come back.
    """
    messages = [{"contentType": "PlainText", "content": cut(text)}]
    if not close:
        state: dict[str, Any] = {"sessionAttributes": dict(heard.attributes), "dialogAction": {"type": "ElicitIntent"}}
        return {"sessionState": state, "messages": messages}
    state = {
        "sessionAttributes": {**heard.attributes, CALL_ENDED: "true"},
        "dialogAction": {"type": "Close"},
        "intent": {**heard.intent, "state": "Fulfilled"},
    }
    return {"sessionState": state, "messages": messages}


def cut(text: str) -> str:
    """As much of the text as one message holds: whole sentences, or whole words of a sentence that is longer."""
    whole = text.strip()
    if len(whole) <= LONGEST:
        return whole
    head = whole[:LONGEST]
    sentences = _SENTENCES.match(head)
    return (sentences[0] if sentences else head.rpartition(" ")[0] or head).strip()


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is no object")
    return value
