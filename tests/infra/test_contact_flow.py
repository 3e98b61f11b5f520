"""The contact flow: every way through it ends, and it hands on what the code hook asks for.

The names of actions and errors are those of the Amazon Connect API reference, "Amazon Connect Flow language".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from infra import contact_center
from infra.contact_center import BOT_ALIAS, CONTACT_FLOW
from shared.telephony import lex
from shared.telephony.amazon_connect import Connect

Action = dict[str, Any]

ERRORS = {
    "UpdateContactRecordingAndAnalyticsBehavior": {"NoMatchingError", "ChannelMismatch"},
    "MessageParticipant": {"NoMatchingError"},
    "ConnectParticipantWithLexBot": {"InputTimeLimitExceeded", "NoMatchingCondition", "NoMatchingError"},
    "Compare": {"NoMatchingCondition"},
    "DisconnectParticipant": set(),
}
"""The errors of an action, which must all lead somewhere."""


@pytest.fixture(scope="module")
def flow() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(CONTACT_FLOW.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def actions(flow: dict[str, Any]) -> dict[str, Action]:
    return {action["Identifier"]: action for action in flow["Actions"]}


def following(action: Action) -> Iterator[str]:
    transitions = action["Transitions"]
    if "NextAction" in transitions:
        yield transitions["NextAction"]
    for way in (*transitions.get("Conditions", ()), *transitions.get("Errors", ())):
        yield way["NextAction"]


def reachable_from(actions: dict[str, Action], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += following(actions[name])
    return seen


def actions_of_kind(actions: dict[str, Action], kind: str) -> list[Action]:
    return [action for action in actions.values() if action["Type"] == kind]


def test_identifiers_are_unique_and_of_the_languages_characters(flow: dict[str, Any]) -> None:
    names = [action["Identifier"] for action in flow["Actions"]]
    assert len({*names}) == len(names)
    assert all(re.fullmatch(r"[a-z ]{1,50}", name) for name in names)
    assert flow["Version"] == "2019-10-30"


def test_every_transition_leads_to_an_action_and_every_action_is_reached(
    flow: dict[str, Any], actions: dict[str, Action]
) -> None:
    assert {name for action in actions.values() for name in following(action)} <= actions.keys()
    assert reachable_from(actions, flow["StartAction"]) == actions.keys()


def test_from_everywhere_a_call_comes_to_its_end(actions: dict[str, Action]) -> None:
    for name, action in actions.items():
        ends = [one for one in reachable_from(actions, name) if actions[one]["Type"] == "DisconnectParticipant"]
        assert ends, f"{name} never hangs up"
        assert bool(action["Transitions"]) is (action["Type"] != "DisconnectParticipant")


def test_every_error_of_an_action_leads_somewhere(actions: dict[str, Action]) -> None:
    for action in actions.values():
        handled = {error["ErrorType"] for error in action["Transitions"].get("Errors", ())}
        assert handled == ERRORS[action["Type"]], action["Identifier"]


def test_a_bot_that_fails_is_not_asked_again(actions: dict[str, Action]) -> None:
    (listen,) = actions_of_kind(actions, "ConnectParticipantWithLexBot")
    (failed,) = [e["NextAction"] for e in listen["Transitions"]["Errors"] if e["ErrorType"] == "NoMatchingError"]
    assert listen["Identifier"] not in reachable_from(actions, failed)


def test_the_call_is_over_when_the_hook_says_so(actions: dict[str, Action]) -> None:
    (compared,) = actions_of_kind(actions, "Compare")
    (condition,) = compared["Transitions"]["Conditions"]
    heard = lex.read(hook_event({"session_id": "s", "project_id": "1", "livemode": "true"}))
    said = lex.respond(heard, "Goodbye.", close=True)["sessionState"]["sessionAttributes"]
    assert compared["Parameters"]["ComparisonValue"] == f"$.Lex.SessionAttributes.{lex.CALL_ENDED}"
    assert condition["Condition"] == {"Operator": "Equals", "Operands": [said[lex.CALL_ENDED]]}
    assert actions[condition["NextAction"]]["Type"] == "DisconnectParticipant"


class Recorder:
    """Stands in for Amazon Connect's client; keeps the attributes that a call is placed with."""

    attributes: dict[str, str]

    def start_outbound_voice_contact(self, **parameters: Any) -> dict[str, str]:
        self.attributes = parameters["Attributes"]
        return {"ContactId": "contact"}


def hook_event(attributes: dict[str, str]) -> dict[str, Any]:
    return {
        "sessionState": {"sessionAttributes": attributes, "intent": {"name": "FallbackIntent"}},
        "inputTranscript": "Hello?",
    }


@pytest.mark.parametrize("livemode", [True, False])
def test_what_a_call_is_placed_with_reaches_the_hook_and_the_customers_ear(
    actions: dict[str, Action], livemode: bool
) -> None:
    recorder = Recorder()
    Connect(recorder, "instance", "flow").start("+15005550006", "sess_1", 42, livemode, "Hello, this is Blue Clinic.")

    def value(path: str) -> str:
        assert path.startswith("$.Attributes.")
        return recorder.attributes[path.removeprefix("$.Attributes.")]

    (listen,) = actions_of_kind(actions, "ConnectParticipantWithLexBot")
    given = {name: value(path) for name, path in listen["Parameters"]["LexSessionAttributes"].items()}
    heard = lex.read(hook_event(given))
    assert (heard.session_id, heard.project_id, heard.livemode) == ("sess_1", 42, livemode)
    assert value(actions["opening"]["Parameters"]["Text"]) == "Hello, this is Blue Clinic."


def test_recording_begins_after_the_opening_has_said_so_and_before_the_bot(
    flow: dict[str, Any], actions: dict[str, Action]
) -> None:
    opening = actions[flow["StartAction"]]
    assert opening["Identifier"] == "opening"
    record = actions[opening["Transitions"]["NextAction"]]
    assert record["Parameters"]["VoiceBehavior"]["VoiceRecordingBehavior"]["IVRRecordingBehavior"] == "Enabled"
    assert {*following(record)} == {"listen"}
    assert actions["listen"]["Parameters"]["LexV2Bot"]["AliasArn"] == BOT_ALIAS


@pytest.mark.parametrize("records", [True, False])
def test_a_stage_whose_calls_are_not_recorded_has_a_flow_that_does_not(records: bool) -> None:
    flow = json.loads(contact_center.definition("arn:alias", records=records))
    actions = {action["Identifier"]: action for action in flow["Actions"]}
    assert bool(actions_of_kind(actions, "UpdateContactRecordingAndAnalyticsBehavior")) is records
    assert reachable_from(actions, flow["StartAction"]) == actions.keys()
    assert actions["listen"]["Parameters"]["LexV2Bot"]["AliasArn"] == "arn:alias"
