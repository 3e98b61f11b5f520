"""A conversation that a person has taken over, and that an operator gives back to the agent (promises 8)."""

from __future__ import annotations

import json

import pytest

from shared.conversations import commands as conversation_commands
from shared.core.errors import ApiError
from shared.store import table, transactions
from tests.support.clocks import Clock
from tests.support.concurrency import just_before
from tests.support.conversations import (
    CONFIRM,
    Thread,
    new_thread,
    send_and_get,
    store_unanswered_message,
    wake_up,
    work,
)
from tests.support.resources import get_resource
from tests.support.stage import Stage


def resume(thread: Thread) -> bool:
    """Whether giving the conversation back changed anything."""
    return bool(transactions.commit(lambda: conversation_commands.resume(thread.scope, thread.id)).writes)


def test_the_agent_replies_to_the_next_message_of_a_conversation_that_is_given_back(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread = new_thread(stage)
    send_and_get(stage, stopped_clock, thread, "[[sim:handoff]]")
    assert send_and_get(stage, stopped_clock, thread, CONFIRM)["reply"]["actions"] == []
    assert resume(thread)

    assert get_resource(stage, f"/v1/conversations/{thread.id}")["handoff"] is None
    actions = send_and_get(stage, stopped_clock, thread, CONFIRM)["reply"]["actions"]
    assert [action["type"] for action in actions] == ["appointment_confirmed"]


def test_a_conversation_that_an_earlier_release_handed_over_stays_with_the_person(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread = new_thread(stage)
    row = table.get(thread.scope.pk("conversation"), thread.id)
    assert row is not None
    old = {name: value for name, value in json.loads(row["doc"]).items() if name not in ("waiting", "handoff")}
    table.write([table.Put(row | {"doc": json.dumps(old), "handed_off": True}, table.ALWAYS)])
    reply = send_and_get(stage, stopped_clock, thread, CONFIRM)["reply"]
    assert (reply["actions"], reply["holding"]) == ([], True)
    assert get_resource(stage, thread.appointment)["status"] == "pending"
    assert resume(thread)
    assert not resume(thread)
    actions = send_and_get(stage, stopped_clock, thread, CONFIRM)["reply"]["actions"]
    assert [action["type"] for action in actions] == ["appointment_confirmed"]


def test_giving_a_conversation_back_again_changes_nothing(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    assert not resume(thread)
    send_and_get(stage, stopped_clock, thread, "[[sim:handoff]]")
    assert resume(thread)
    row = table.get(thread.scope.pk("conversation"), thread.id)
    assert not resume(thread)
    assert table.get(thread.scope.pk("conversation"), thread.id) == row


def test_a_conversation_is_given_back_during_a_turn(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    send_and_get(stage, stopped_clock, thread, "[[sim:handoff]]")
    message = store_unanswered_message(stage, thread, CONFIRM)
    with just_before("TransactWriteItems", lambda: resume(thread)):
        assert work(stage, [wake_up(stage, thread, message)]) == 1
    row = table.get(thread.scope.pk("conversation"), thread.id)
    assert row is not None
    assert not {"held", "turn"} & row.keys()
    assert get_resource(stage, thread.messages)["data"][-1]["actions"][0]["type"] == "appointment_confirmed"


def test_an_unknown_conversation_cannot_be_given_back(stage: Stage) -> None:
    thread = new_thread(stage)
    with pytest.raises(ApiError, match="resource_not_found"):
        conversation_commands.resume(thread.scope, "conv_x")
