"""A conversation that a person has taken over, and that an operator gives back to the agent (promises 8)."""

from __future__ import annotations

import json

import pytest

from shared.conversations import commands
from shared.core.errors import ApiError
from shared.store import commit, table
from tests.support.clocks import Clock
from tests.support.conversing import CONFIRM, Thread, asked, conversed, opened, wake_up, work
from tests.support.racing import just_before
from tests.support.resources import seen
from tests.support.stage import Stage


def resumed(thread: Thread) -> bool:
    """Whether giving the conversation back changed anything."""
    return bool(commit.commit(lambda: commands.resume(thread.scope, thread.id), "test").writes)


def test_the_agent_replies_to_the_next_message_of_a_conversation_that_is_given_back(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread = opened(stage)
    conversed(stage, stopped_clock, thread, "[[sim:handoff]]")
    assert conversed(stage, stopped_clock, thread, CONFIRM)["reply"]["actions"] == []
    assert resumed(thread)

    assert seen(stage, f"/v1/conversations/{thread.id}")["handoff"] is None
    actions = conversed(stage, stopped_clock, thread, CONFIRM)["reply"]["actions"]
    assert [action["type"] for action in actions] == ["appointment_confirmed"]


def test_a_conversation_that_an_earlier_release_handed_over_stays_with_the_person(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread = opened(stage)
    row = table.get(thread.scope.pk("conversation"), thread.id)
    assert row is not None
    old = {name: value for name, value in json.loads(row["doc"]).items() if name not in ("waiting", "handoff")}
    table.write([table.Put(row | {"doc": json.dumps(old), "handed_off": True}, condition="")], "req_test")
    reply = conversed(stage, stopped_clock, thread, CONFIRM)["reply"]
    assert (reply["actions"], reply["holding"]) == ([], True)
    assert seen(stage, thread.appointment)["status"] == "pending"
    assert resumed(thread)
    assert not resumed(thread)
    actions = conversed(stage, stopped_clock, thread, CONFIRM)["reply"]["actions"]
    assert [action["type"] for action in actions] == ["appointment_confirmed"]


def test_giving_a_conversation_back_again_changes_nothing(stage: Stage, stopped_clock: Clock) -> None:
    thread = opened(stage)
    assert not resumed(thread)
    conversed(stage, stopped_clock, thread, "[[sim:handoff]]")
    assert resumed(thread)
    row = table.get(thread.scope.pk("conversation"), thread.id)
    assert not resumed(thread)
    assert table.get(thread.scope.pk("conversation"), thread.id) == row


def test_a_conversation_is_given_back_during_a_turn(stage: Stage, stopped_clock: Clock) -> None:
    thread = opened(stage)
    conversed(stage, stopped_clock, thread, "[[sim:handoff]]")
    message = asked(stage, thread, CONFIRM)
    with just_before("TransactWriteItems", lambda: resumed(thread)):
        assert work(stage, [wake_up(stage, thread, message)]) == 1
    row = table.get(thread.scope.pk("conversation"), thread.id)
    assert row is not None
    assert not {"held", "turn"} & row.keys()
    assert seen(stage, thread.messages)["data"][-1]["actions"][0]["type"] == "appointment_confirmed"


def test_an_unknown_conversation_cannot_be_given_back(stage: Stage) -> None:
    thread = opened(stage)
    with pytest.raises(ApiError, match="resource_not_found"):
        commands.resume(thread.scope, "conv_x")
