"""Messages: what they cost, their Idempotency-Keys, and many at once (promises 8)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from shared.store import table
from shared.store.keys import Scope
from tests.support import privileges
from tests.support.clocks import Clock
from tests.support.concurrency import just_before, run_at_once
from tests.support.conversations import (
    CONFIRM,
    LEASE,
    PHONE,
    WISHES,
    Hurried,
    Thread,
    events_of,
    new_thread,
    run_turn_worker,
    send,
    send_and_get,
    store_unanswered_message,
    thread_errors,
    work,
    work_at_each_wait,
)
from tests.support.resources import create_resource, get_resource, idempotency_header, list_resources, woken
from tests.support.stage import Answer, Project, Stage
from tests.support.wire import Killed, wire

# Errors after the message is stored


@pytest.mark.parametrize("key", [None, "erased-meanwhile"])
def test_a_message_whose_customer_is_erased_during_the_turn_is_a_404_with_a_key_and_without(
    stage: Stage, key: str | None
) -> None:
    thread = new_thread(stage)
    erased = table.Delete(thread.scope.pk("customer"), thread.customer, table.ALWAYS)

    def erase() -> None:
        with privileges.running(None):
            table.write([erased])

    # The turn reads the customer after the message was stored.
    with wire() as line, just_before("BatchGetItem", erase):
        response = send(stage, thread, "Do not call me again.", key)
    assert (response.status, response.code) == (404, "resource_not_found")
    assert line.operations().count("BatchGetItem") == 1, "the turn ran again in the same request"


# What a message costs

AUTHENTICATED = "UpdateItem"
STORED = "TransactWriteItems"


FOR_A_CUSTOMER = ["BatchGetItem", "Query", "BatchGetItem"]
"""The settings of the agent with the customer of the conversation, and the customer's appointments by their index."""
FOR_NOBODY = ["BatchGetItem"]
"""The settings of the agent."""
ANSWERED = ["Query", "TransactWriteItems"]
"""The transcript, and the commit of the turn."""


@pytest.mark.parametrize("key", [None, "k"])
def test_a_message_by_id_is_stored_and_answered_by_eight_calls_for_a_customer_and_six_without_one(
    stage: Stage, stopped_clock: Clock, key: str | None
) -> None:
    thread = new_thread(stage)
    alone = Thread(thread.scope, create_resource(stage, "/v1/conversations")["id"], "", "")
    for each, reads in ((thread, FOR_A_CUSTOMER), (alone, FOR_NOBODY)):
        with wire() as line:
            send_and_get(stage, stopped_clock, each, "Hello", key and key + each.id)
        assert line.operations("dynamodb") == [AUTHENTICATED, "GetItem", STORED, *reads, *ANSWERED]
        # The wake-ups are sent before the agent starts.
        assert line.operations().index("SendMessageBatch") == line.operations().index(STORED) + 1
        assert line.operations("sqs") == ["SendMessageBatch"]


@pytest.mark.parametrize("key", [None, "k"])
def test_a_message_by_thread_takes_a_call_more_if_the_thread_has_a_conversation(
    stage: Stage, stopped_clock: Clock, project: Project, key: str | None
) -> None:
    body = {"external_conversation_id": "t", "content": "Hello"}
    for count, reads in enumerate((["GetItem"], ["GetItem", "GetItem"])):
        with wire() as line, work_at_each_wait(stopped_clock):
            response = stage.call("POST", "/v1/messages", body, headers=idempotency_header(key and f"{key}{count}"))
        assert response.status == 201
        assert line.operations("dynamodb") == [AUTHENTICATED, *reads, STORED, *FOR_NOBODY, *ANSWERED]
        assert line.operations("sqs") == ["SendMessageBatch"]


@pytest.mark.parametrize("waits", [1, 2, 3])
def test_a_retry_looks_for_the_reply_at_once_and_then_once_a_wait(
    stage: Stage, stopped_clock: Clock, waits: int
) -> None:
    thread = new_thread(stage)
    store_unanswered_message(stage, thread, "Hello", "k")
    [record] = woken(stage, thread.scope)

    def others_turn() -> None:
        with suppress(Killed), wire(kill_before=1):
            work(stage, [record])

    def answered_by_another() -> None:
        start = len(line.calls)
        stopped_clock.forward(LEASE)
        work(stage, [record])
        del line.calls[start:]

    others_turn()
    idle = [lambda: None] * waits
    with wire() as line, work_at_each_wait(stopped_clock, *idle, answered_by_another):
        assert send(stage, thread, "Hello", "k").status == 201
    # The conversation is busy, so the key's record decides; then the first look.
    found = [AUTHENTICATED, "GetItem", "GetItem", "GetItem"]
    assert line.operations() == [*found, "SendMessageBatch", *["GetItem"] * waits]


def test_a_replay_of_an_answered_message_looks_once(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage)
    send_and_get(stage, stopped_clock, thread, "Hello", "k")
    with wire() as line:
        assert send(stage, thread, "Hello", "k").status == 201
    assert line.operations() == [AUTHENTICATED, "GetItem", "TransactWriteItems", "GetItem", "SendMessageBatch"][:4]


def test_a_worker_takes_seven_calls_for_a_customer_and_five_without_one(stage: Stage) -> None:
    thread = new_thread(stage)
    store_unanswered_message(stage, thread, CONFIRM)
    [record] = woken(stage, thread.scope)
    with wire() as line:
        work(stage, [record])
    claimed, committed = ["UpdateItem"], ["Query", "TransactWriteItems"]
    # The conversation, its customer with the settings, the customer's appointments; then the transcript.
    assert line.operations() == [*claimed, "GetItem", *FOR_A_CUSTOMER, *committed]
    alone = create_resource(stage, "/v1/conversations")["id"]
    nobody = Thread(thread.scope, alone, "", "")
    store_unanswered_message(stage, nobody, "Hello")
    [record] = woken(stage, thread.scope)
    with wire() as line:
        work(stage, [record])
    assert line.operations() == [*claimed, "GetItem", *FOR_NOBODY, *committed]
    # A wake-up that comes again is one call.
    with wire() as line:
        work(stage, [record])
    assert line.operations() == ["UpdateItem"]


# Retries that never reach their endpoint


def two_ways(thread: Thread) -> list[tuple[str, dict[str, Any]]]:
    """By id, and by the caller's thread `t`: a path and a body."""
    body = {"content": "Hello"}
    return [(thread.messages, body), ("/v1/messages", body | {"external_conversation_id": "t"})]


def test_an_unknown_query_parameter_keeps_no_retry_from_its_saved_response(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage, external_id="t")
    for path, body in two_ways(thread):
        headers = idempotency_header(path)
        first = stage.call("POST", path, body, headers=headers)
        assert first.status == 201
        for query in ("x=1", "limit=1", "x"):
            again = stage.call("POST", f"{path}?{query}", body, headers=headers)
            assert (again.status, again.body) == (201, first.body)
            assert again.headers["idempotent-replayed"] == "true"
            assert again.headers["original-request"] == first.headers["service-request-id"]
            assert again.headers["location"] == first.headers["location"]
        refused = stage.call("POST", f"{path}?x=1", body, headers=idempotency_header(f"{path} 2"))
        assert (refused.status, refused.code) == (400, "parameter_unknown")
    assert len(get_resource(stage, thread.messages)["data"]) == 4


def test_an_unknown_query_parameter_keeps_no_retry_from_its_running_turn(stage: Stage, stopped_clock: Clock) -> None:
    thread = new_thread(stage, external_id="t")
    for path, body in two_ways(thread):
        headers = idempotency_header(path)
        first = Hurried(stage).call("POST", path, body, headers=headers)
        stage.messages("turns")
        again = Hurried(stage).call("POST", f"{path}?x=1", body, headers=headers)
        for found in (first, again):
            assert (found.status, found.code) == (504, "agent_timeout")
            assert found.headers["service-should-retry"] == "true"
        for field in ("conversation_id", "message_id"):
            assert again.json["error"][field] == first.json["error"][field]
        # The wake-up that the first request gave is lost: the retry takes the turn itself.
        found = stage.call("POST", f"{path}?x=1", body, headers=headers)
        assert found.status == 201
        assert found.json["id"] == first.json["error"]["message_id"]


@pytest.mark.parametrize(
    "other",
    [
        {"content": "Other"},
        {"content": ""},
        {"content": None},
        {"nothing": 1},
        {"markdown": "yes"},
        {"customer": {}},
        {"customer": {"id": "nonsense"}},
        {"metadata": {"k": None}},
    ],
    ids=str,
)
def test_a_key_of_a_message_stays_bound_to_its_body_whatever_else_is_wrong(
    stage: Stage, stopped_clock: Clock, other: dict[str, Any]
) -> None:
    thread = new_thread(stage, external_id="t")
    for path, body in two_ways(thread):
        headers = idempotency_header(path)
        assert Hurried(stage).call("POST", path, body, headers=headers).code == "agent_timeout"
        for query in ("", "?x=1"):
            refused = stage.call("POST", path + query, body | other, headers=headers)
            assert (refused.status, refused.code) == (400, "idempotency_key_reused")
        run_turn_worker(stage, thread)


# Idempotency-Keys


def test_the_key_of_a_running_turn_waits_for_it_again_and_a_504_is_never_saved(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread = new_thread(stage)
    message = store_unanswered_message(stage, thread, CONFIRM, "k")
    for _ in range(2):
        again = send(Hurried(stage), thread, CONFIRM, "k")
        assert (again.status, again.code) == (504, "agent_timeout")
        assert again.json["error"]["message_id"] == message
        assert again.json["error"]["conversation_id"] == thread.id
        assert again.headers["location"].endswith(thread.messages)
        assert again.headers["service-should-retry"] == "true"
        assert again.json["error"]["request_id"] == again.headers["service-request-id"]
    assert [each["id"] for each in get_resource(stage, thread.messages)["data"]] == [message]
    # A request that has time takes the turn.
    response = send(stage, thread, CONFIRM, "k")
    assert (response.status, response.headers["idempotent-replayed"]) == (201, "true")
    assert response.json["id"] == message
    assert not list(thread_errors(stage, stopped_clock, thread, WISHES[0]))


def test_without_a_key_a_504_is_not_to_be_retried_and_the_next_message_is_busy(
    stage: Stage, stopped_clock: Clock
) -> None:
    thread = new_thread(stage)
    found = send(Hurried(stage), thread, "Hello")
    assert (found.code, found.headers["service-should-retry"]) == ("agent_timeout", "false")
    busy = send(stage, thread, "Hello")
    assert (busy.status, busy.code, busy.headers["retry-after"]) == (409, "conversation_busy", "2")
    assert busy.headers["service-should-retry"] == "true"
    assert len(get_resource(stage, thread.messages)["data"]) == 1


@pytest.mark.parametrize("by_thread", [False, True], ids=["by_id", "by_thread"])
def test_the_key_of_an_answered_message_gives_the_same_bytes_whatever_has_happened_since(
    stage: Stage, stopped_clock: Clock, by_thread: bool
) -> None:
    thread = new_thread(stage, external_id="t")
    path = "/v1/messages" if by_thread else thread.messages
    body = {"content": "[[sim:markdown]]", "markdown": False}
    body |= {"external_conversation_id": "t"} if by_thread else {}
    first = stage.call("POST", path, body, headers=idempotency_header("k"))
    assert first.status == 201
    assert "idempotent-replayed" not in first.headers
    changes: Sequence[Callable[[], Any]] = (
        lambda: None,
        lambda: send_and_get(stage, stopped_clock, thread, CONFIRM),
        lambda: store_unanswered_message(stage, thread, "Hello"),
        lambda: stage.call("POST", f"/v1/conversations/{thread.id}/end"),
        lambda: create_resource(stage, "/v1/conversations", external_id="t"),
        lambda: stopped_clock.forward(23 * 3600),
    )
    for change in changes:
        change()
        again = stage.call("POST", path, body, headers=idempotency_header("k"))
        assert (again.status, again.body) == (201, first.body)
        assert again.headers["idempotent-replayed"] == "true"
        assert again.headers["original-request"] == first.headers["service-request-id"]
        assert again.headers["location"] == first.headers["location"]


@pytest.mark.parametrize("running", [True, False], ids=["running", "answered"])
def test_a_messages_key_is_refused_to_any_other_request(stage: Stage, stopped_clock: Clock, running: bool) -> None:
    thread = new_thread(stage, external_id="t")
    store_unanswered_message(stage, thread, "Hello", "k")
    if not running:
        run_turn_worker(stage, thread)
    others: Sequence[tuple[str, Any]] = (
        (thread.messages, {"content": "Hello!"}),
        (thread.messages, {"content": "Hello", "markdown": False}),
        ("/v1/messages", {"content": "Hello", "external_conversation_id": "t"}),
        ("/v1/customers", {"phone": PHONE}),
    )
    for path, body in others:
        response = Hurried(stage).call("POST", path, body, headers=idempotency_header("k"))
        assert (response.status, response.code) == (400, "idempotency_key_reused"), (path, response.body)
    assert len(get_resource(stage, thread.messages)["data"]) == (1 if running else 2)
    assert get_resource(stage, f"/v1/conversations/{thread.id}")["status"] == "active"


def while_working(stage: Stage, scope: Scope, works: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """What the works, all at once, are answered, while a worker is at the queue."""
    left, done = list(works), threading.Event()

    def counted(request: Callable[[], Answer]) -> list[Answer]:
        try:
            return [request()]
        finally:
            left.pop()
            if not left:
                done.set()

    def worker() -> list[Answer]:
        while not done.wait(0.01):
            work(stage, woken(stage, scope))
        work(stage, woken(stage, scope))
        return []

    requests: list[Callable[[], list[Answer]]] = [partial(counted, each) for each in works]
    return [found for part in run_at_once([*requests, worker]) for found in part]


@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("by_thread", [False, True], ids=["by_id", "by_thread"])
def test_however_many_come_at_once_with_one_key_there_is_one_message_and_one_body(
    stage: Stage, by_thread: bool, count: int
) -> None:
    thread = new_thread(stage)
    path = "/v1/messages" if by_thread else thread.messages
    body: dict[str, Any] = {"content": CONFIRM}
    body |= {"external_conversation_id": "new", "customer": {"id": thread.customer}} if by_thread else {}
    request = partial(stage.call, "POST", path, body, headers=idempotency_header("k"))
    answers = while_working(stage, thread.scope, [request] * count)
    assert [found.status for found in answers] == [201] * count, [found.body for found in answers]
    assert len({found.body for found in answers}) == 1
    assert sum("idempotent-replayed" in found.headers for found in answers) == count - 1
    messages = get_resource(stage, f"/v1/conversations/{answers[0].json['conversation']['id']}/messages")["data"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert len(list_resources(stage, "/v1/conversations")) == 1 + by_thread
    assert events_of(stage, thread) == ["appointment.created", "appointment.confirmed"]


# Many messages at once


def alternating(stage: Stage, conversation: str, answers: Sequence[Answer]) -> None:
    """The transcript is a row of exchanges, those that were answered 201; all others were refused as busy."""
    codes = Counter("201" if found.status == 201 else found.code for found in answers)
    assert set(codes) <= {"201", "conversation_busy"}, codes
    assert codes["201"] >= 1
    for found in answers:
        if found.status == 409:
            assert (found.headers["retry-after"], found.headers["service-should-retry"]) == ("2", "true")
    messages = get_resource(stage, f"/v1/conversations/{conversation}/messages?limit=100")["data"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * codes["201"]
    exchanges = {message["id"]: reply for message, reply in zip(messages[::2], messages[1::2], strict=True)}
    assert {found.json["id"]: found.json["reply"] for found in answers if found.status == 201} == exchanges
    assert {message["reply_status"] for message in messages[::2]} == {"complete"}


def test_sixteen_first_messages_on_one_thread_give_one_conversation(stage: Stage, project: Project) -> None:
    def first(n: int) -> Answer:
        body = {"external_conversation_id": "t", "content": f"Hello {n}", "customer": {"phone": PHONE}}
        return stage.call("POST", "/v1/messages", body)

    answers = while_working(stage, Scope(project.id, False), [partial(first, n) for n in range(16)])
    [conversation] = list_resources(stage, "/v1/conversations")
    assert conversation["external_id"] == "t"
    [customer] = list_resources(stage, "/v1/customers")
    assert conversation["customer_id"] == customer["id"]
    alternating(stage, conversation["id"], answers)


def test_sixteen_messages_at_once_to_one_conversation_alternate_with_their_replies(stage: Stage) -> None:
    thread = new_thread(stage)

    def chat(n: int) -> Answer:
        # Each tries a few times, as a client that is told to come back does.
        for _ in range(3):
            response = send(stage, thread, f"Hello {n}")
            if response.status == 201:
                break
        return response

    answers = while_working(stage, thread.scope, [partial(chat, n) for n in range(16)])
    alternating(stage, thread.id, answers)


def test_of_sixteen_messages_while_nobody_answers_one_is_stored(stage: Stage) -> None:
    thread = new_thread(stage)
    answers = run_at_once([partial(send, Hurried(stage), thread, f"Hello {n}") for n in range(16)])
    codes = Counter(found.code for found in answers)
    # Who is in a hurry does not take part in the race for long.
    assert codes["agent_timeout"] == 1
    assert codes["conversation_busy"] + codes["conflict"] == 15
    assert len(get_resource(stage, thread.messages)["data"]) == 1


def test_messages_and_an_end_at_once_leave_no_message_unanswered(stage: Stage) -> None:
    thread = new_thread(stage, external_id="t")
    ends = [partial(stage.call, "POST", f"/v1/conversations/{thread.id}/end")] * 2
    chats = [partial(send, stage, thread, f"Hello {n}") for n in range(4)]
    answers = while_working(stage, thread.scope, [*chats, *ends])
    assert [found.status for found in answers[4:]] == [200, 200]
    assert {found.code for found in answers[:4] if found.status != 201} <= {"conversation_busy", "conversation_ended"}
    messages = get_resource(stage, thread.messages)["data"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2)
    assert len(messages) // 2 == sum(found.status == 201 for found in answers[:4])


@pytest.mark.parametrize("seconds", [0, -0.02], ids=["same_millisecond", "clock_of_another_host"])
def test_a_message_stands_after_the_reply_before_it_whatever_the_clocks_say(
    stage: Stage, stopped_clock: Clock, seconds: float
) -> None:
    thread = new_thread(stage)
    for _ in range(6):
        send_and_get(stage, stopped_clock, thread, "Hello")
        stopped_clock.forward(seconds)
        store_unanswered_message(stage, thread, "Hello")
        run_turn_worker(stage, thread)
        stopped_clock.forward(1)
    assert [each["role"] for each in list_resources(stage, thread.messages)] == ["user", "assistant"] * 12
