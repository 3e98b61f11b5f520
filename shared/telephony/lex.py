"""The code hook of the Lex V2 bot through which customers speak with the agent in live calls.

The contact flow passes the call's attributes to the bot as session attributes, and plays the hook's response, until
the session attribute `call_ended` is "true". Shapes: "AWS Lambda input event format for Lex V2" and "response format"
of the Lex V2 developer guide. Both kinds of invocation, dialog and fulfilment, carry the same input.
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
class LexInput:
    """The input of the code hook: what the customer said in a call, and whose call it is.

    `text` is None if the customer said nothing: silence, noise, a call that just began.
    """

    session_id: str
    project_id: int
    livemode: bool
    text: str | None = field(repr=False)
    intent: Mapping[str, Any] = field(repr=False)
    attributes: Mapping[str, str] = field(repr=False)


def read(event: Any) -> LexInput:
    """The input event of a code hook. Raises ValueError, which names what is missing and quotes nothing."""
    state = _mapping(_mapping(event, "event").get("sessionState"), "sessionState")
    intent = _mapping(state.get("intent"), "sessionState.intent")
    if not (isinstance(intent.get("name"), str) and intent["name"]):
        raise ValueError("sessionState.intent has no name")
    values = _mapping(state.get("sessionAttributes") or {}, "sessionState.sessionAttributes")
    attributes = {name: value for name, value in values.items() if isinstance(value, str)}
    for name in ("session_id", "project_id", "livemode"):
        if not attributes.get(name):
            raise ValueError(f"the contact flow sets no session attribute {name}")
    if not _PROJECT_ID.fullmatch(attributes["project_id"]):
        raise ValueError("the session attribute project_id is not a number")
    if attributes["livemode"] not in _LIVEMODES:
        raise ValueError("the session attribute livemode is neither true nor false")
    transcript = event.get("inputTranscript")
    return LexInput(
        session_id=attributes["session_id"],
        project_id=int(attributes["project_id"]),
        livemode=_LIVEMODES[attributes["livemode"]],
        text=(transcript.strip() or None) if isinstance(transcript, str) else None,
        intent=intent,
        attributes=attributes,
    )


def respond(lex_input: LexInput, text: str, *, close: bool) -> dict[str, Any]:
    """Return the hook's response: say `text`, which is not empty, then listen; or end the call, if `close`.

    Session attributes that a response leaves out are lost, so it repeats all of them.
    """
    messages = [{"contentType": "PlainText", "content": cut(text)}]
    if not close:
        state: dict[str, Any] = {
            "sessionAttributes": dict(lex_input.attributes),
            "dialogAction": {"type": "ElicitIntent"},
        }
        return {"sessionState": state, "messages": messages}
    state = {
        "sessionAttributes": {**lex_input.attributes, CALL_ENDED: "true"},
        "dialogAction": {"type": "Close"},
        "intent": {**lex_input.intent, "state": "Fulfilled"},
    }
    return {"sessionState": state, "messages": messages}


def cut(text: str) -> str:
    """As much of the text as fits into one message: whole sentences, or whole words of a sentence that is too long."""
    whole = text.strip()
    if len(whole) <= LONGEST:
        return whole
    head = whole[:LONGEST]
    sentences = _SENTENCES.match(head)
    return (sentences[0] if sentences else head.rpartition(" ")[0] or head).strip()


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")
    return value
