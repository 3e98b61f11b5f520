"""A project's share of live messages under way: slots, whoever comes at once or dies (promise 8.16)."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from shared.store import table
from shared.store.keys import Scope
from tests.support.clocks import Clock
from tests.support.concurrency import just_before, run_at_once
from tests.support.conversations import Hurried, work, work_at_each_wait
from tests.support.faults import deaths
from tests.support.resources import idempotency_header, woken
from tests.support.stage import Answer, Project, Stage
from tests.support.wire import Fault, Killed, conflicting, wire

SHARE = 3
LEASE = 120


@pytest.fixture(autouse=True)
def _share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNS_PER_PROJECT", str(SHARE))
    monkeypatch.setenv("SIMULATE_LIVE", "1")


def send(stage: Stage, project: Project, thread: Any, key: str | None = None, content: str = "Hello") -> Answer:
    """A live message to a thread; with a `Hurried` stage, its reply is left to the worker."""
    body = {"external_conversation_id": str(thread), "content": content}
    return stage.call("POST", "/v1/messages", body, key=project.live_key, headers=idempotency_header(key))


def count_conversations(stage: Stage, project: Project) -> int:
    """How many conversations there are: each has one message."""
    response = stage.call("GET", "/v1/conversations?limit=100", key=project.live_key)
    return len(response.json["data"])


def count_slots(project: Project) -> int:
    """How many slots of the project are taken."""
    rows = next(table.query(Scope(project.id, True).pk("slot"), limit=100))
    return sum(not table.is_expired(row) for row in rows)


def assert_refused(response: Answer) -> None:
    assert (response.status, response.code) == (429, "rate_limit_exceeded")
    assert response.headers["service-rate-limited-reason"] == "messages"
    assert response.headers["retry-after"] == "2"
    assert response.headers["service-should-retry"] == "true"


def test_beyond_its_share_a_project_is_refused_and_nothing_is_stored_while_others_and_test_mode_go_on(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    for number in range(SHARE):
        assert send(Hurried(stage), project, number, f"k{number}").code == "agent_timeout"
    for key in (None, "new"):
        assert_refused(send(stage, project, "beyond", key))
    assert count_conversations(stage, project) == SHARE
    with work_at_each_wait(stopped_clock):
        assert send(stage, stage.project(), "other").status == 201
        body = {"external_conversation_id": "test", "content": "Hello"}
        assert stage.call("POST", "/v1/messages", body, key=project.test_key).status == 201
    # A retry waits for the reply of its own message, which has its slot already.
    assert send(Hurried(stage), project, 0, "k0").code == "agent_timeout"
    # The end of one turn lets one message in, and the refused key was not saved.
    work(stage, woken(stage, Scope(project.id, True))[:1])
    with work_at_each_wait(stopped_clock):
        response = send(stage, project, "beyond", "new")
    assert (response.status, "idempotent-replayed" in response.headers) == (201, False)
    assert count_slots(project) == SHARE - 1
    # Also of a message that was answered, while the share is used up again.
    assert send(Hurried(stage), project, "last").code == "agent_timeout"
    assert send(stage, project, "beyond", "new").body == response.body


def test_a_live_message_takes_one_call_more_and_leaves_no_slot(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    with wire() as line, work_at_each_wait(stopped_clock):
        assert send(stage, project, "one").status == 201
    assert line.operations("dynamodb") == [
        *("UpdateItem", "GetItem"),
        *("Query", "TransactWriteItems"),
        *("BatchGetItem", "Query", "TransactWriteItems"),
    ]
    assert count_slots(project) == 0


def test_of_sixteen_messages_at_once_exactly_the_share_is_stored(stage: Stage, project: Project) -> None:
    # Their replies are due later, so that no turn ends meanwhile.
    answers = run_at_once([partial(send, stage, project, number, content="[[sim:timeout]]") for number in range(16)])
    codes = Counter(found.code for found in answers)
    assert codes == {"agent_timeout": SHARE, "rate_limit_exceeded": 16 - SHARE}
    for found in answers:
        if found.status == 429:
            assert_refused(found)
    assert count_conversations(stage, project) == count_slots(project) == SHARE


def test_a_message_whose_slot_is_taken_meanwhile_takes_another_one(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    others = iter(range(SHARE - 1))
    for _ in range(10):
        with just_before("TransactWriteItems", lambda: [send(Hurried(stage), project, number) for number in others]):
            assert send(stage, project, "one").status == 201
        assert count_slots(project) == SHARE - 1


def test_a_message_whose_slot_another_transaction_holds_looks_for_a_free_one_again(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    with wire() as plain:
        assert send(stage, project, "first").status == 201
    stored = plain.operations().index("TransactWriteItems")
    with wire(Fault(stored, conflicting(-1), tries=3)) as line:
        assert send(stage, project, "second").status == 201
    assert line.operations("dynamodb")[:7] == [
        *plain.operations("dynamodb")[:stored],
        *["TransactWriteItems"] * 3,
        "GetItem",
    ]
    assert count_slots(project) == 0


def test_whoever_dies_with_a_message_its_slot_is_free_two_minutes_later(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    with wire() as line:
        assert send(stage, project, "nobody dies").status == 201
    for death in deaths(line.operations()):
        with wire(None, *death), suppress(Killed):
            send(stage, project, death)
        assert count_slots(project) <= 1
        stopped_clock.forward(LEASE + 1)
        # All are free at once.
        for number in range(SHARE):
            assert send(Hurried(stage), project, f"{death} {number}").code == "agent_timeout"
        assert_refused(send(stage, project, "beyond"))
        stopped_clock.forward(LEASE + 1)
        work(stage, woken(stage, Scope(project.id, True)))


def test_a_turn_that_ends_after_its_lease_frees_no_slot_of_another_message(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    for number in range(SHARE):
        send(Hurried(stage), project, number)
    late = woken(stage, Scope(project.id, True))
    stopped_clock.forward(LEASE + 1)
    for number in range(SHARE):
        assert send(Hurried(stage), project, f"next {number}").code == "agent_timeout"
    work(stage, late)
    assert count_slots(project) == SHARE
    assert_refused(send(stage, project, "beyond"))
