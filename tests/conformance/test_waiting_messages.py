"""Promises 8: Idempotency-Keys of messages, transcripts, turns and the sync window.

What takes as long as a late reply is started before the first test and looked at in the last ones.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.client import Client, Response, assert_error, assert_replay, wait_for
from tests.support.client_actions import (
    UNKNOWN,
    contents,
    create_conversation,
    end_conversation,
    events_about,
    messages_of,
    send,
    send_to_thread,
    settle,
    transcript,
    unique,
    unique_phone,
)

PATH = "/v1/messages"
LATE = "[[sim:timeout]]"
"""Content whose request is answered 504 after `LATE_WINDOW` seconds, and whose reply comes after `LATE_REPLY`."""
LATE_WINDOW, LATE_REPLY = 2, 7
WINDOW = 20
"""Seconds that a request waits for a reply otherwise (promises 8)."""
CROWD = 40


def ask(client: Client, thread: str, content: str, **options: Any) -> Response:
    return client.post(PATH, {"external_conversation_id": thread, "content": content}, **options)


def conversation_of(client: Client, thread: str) -> Any:
    """The conversation of a thread, once filters find it."""
    (found,) = wait_for(lambda: client.get("/v1/conversations", {"external_id": thread}).ok()["data"])
    return found


# What is slow: each scenario runs in a thread and brings back what it saw.


@dataclass(frozen=True)
class Late:
    """A message whose reply came too late, and what was tried while its turn was held."""

    thread: str
    answer: Response
    seconds: float
    busy: list[Response]
    held: list[Any]
    at_timeout: list[Any]
    afterwards: list[Any]
    retried: Response


def a_late_reply(client: Client) -> Late:
    thread, key = unique(), unique()
    with ThreadPoolExecutor(1) as pool:
        started = time.monotonic()
        waiting = pool.submit(ask, client, thread, LATE)
        conversation_id = conversation_of(client, thread)["id"]
        other_content = {"content": "hello"}
        busy = [
            client.post(messages_of(conversation_id), other_content),
            ask(client, thread, "hello"),
            client.post(messages_of(conversation_id), other_content, idempotency_key=key),
        ]
        held = transcript(client, conversation_id)
        answer = waiting.result()
        seconds = time.monotonic() - started
    at_timeout = transcript(client, conversation_id)
    afterwards = wait_for(lambda: len(found := transcript(client, conversation_id)) == 2 and found, 10)
    retried = client.post(messages_of(conversation_id), other_content, idempotency_key=key)
    return Late(thread, answer, seconds, busy, held, at_timeout, afterwards, retried)


@dataclass(frozen=True)
class Reattached:
    """A late reply that was asked for again with the same key."""

    answer: Response
    other_body: Response
    again: Response
    replay: Response
    found: list[Any]


def a_late_reply_asked_for_again(client: Client) -> Reattached:
    path, key = messages_of(create_conversation(client)["id"]), unique()
    answer = client.post(path, {"content": LATE}, idempotency_key=key)
    other_body = client.post(path, {"content": "hello"}, idempotency_key=key)
    again = client.post(path, {"content": LATE}, idempotency_key=key)
    replay = client.post(path, {"content": LATE}, idempotency_key=key)
    return Reattached(answer, other_body, again, replay, client.get(path).ok()["data"])


@dataclass(frozen=True)
class Joined:
    """A message sent twice with one key: the second time while the first still waited; `seconds` until its answer."""

    first: Response
    second: Response
    seconds: float
    found: list[Any]


def two_wait_for_one_reply(client: Client) -> Joined:
    thread, key = unique(), unique()
    with ThreadPoolExecutor(1) as pool:
        started = time.monotonic()
        waiting = pool.submit(ask, client, thread, LATE, idempotency_key=key)
        conversation_id = conversation_of(client, thread)["id"]
        second = ask(client, thread, LATE, idempotency_key=key)
        seconds = time.monotonic() - started
        return Joined(waiting.result(), second, seconds, transcript(client, conversation_id))


@dataclass(frozen=True)
class EndedMeanwhile:
    """A conversation that was ended while the agent was answering."""

    ended: Response
    seconds: float
    refused: Response
    next_on_thread: Any
    answer: Response
    found: list[Any]
    read: Any


def an_end_during_a_turn(client: Client) -> EndedMeanwhile:
    thread = unique()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, client, thread, LATE)
        conversation_id = conversation_of(client, thread)["id"]
        started = time.monotonic()
        ended = client.post(f"/v1/conversations/{conversation_id}/end")
        seconds = time.monotonic() - started
        refused = client.post(messages_of(conversation_id), {"content": "hello"})
        next_on_thread = send_to_thread(client, thread, "hello")
        answer = waiting.result()
    found = wait_for(lambda: len(found := transcript(client, conversation_id)) == 2 and found, 10)
    read = client.get(f"/v1/conversations/{conversation_id}").ok()
    return EndedMeanwhile(ended, seconds, refused, next_on_thread, answer, found, read)


@dataclass(frozen=True)
class Crowd:
    """How many still waited for a reply when others had been served, and what the many got in the end."""

    still_waiting: int
    others: list[Response]
    answers: list[Response]


def a_crowd_waits(client: Client) -> Crowd:
    threads = {unique() for _ in range(CROWD)}

    def wait(thread: str) -> Response:
        assert_error(ask(client, thread, LATE, idempotency_key=thread), 504, "agent_timeout")
        return ask(client, thread, LATE, idempotency_key=thread)

    with ThreadPoolExecutor(CROWD) as pool:
        waiting = [pool.submit(wait, thread) for thread in threads]

        def all_wait() -> bool:
            listed = client.get("/v1/conversations", {"limit": 100}).ok()["data"]
            return threads <= {conversation["external_id"] for conversation in listed}

        wait_for(all_wait)
        others = [client.get("/v1/ping") for _ in range(10)] + [ask(client, unique(), "hello")]
        still_waiting = sum(not one.done() for one in waiting)
        return Crowd(still_waiting, others, [one.result() for one in waiting])


class Slow:
    """The scenarios, all running from the start."""

    def __init__(self, pool: ThreadPoolExecutor, client: Client, other: Client) -> None:
        self._started: dict[Callable[[Client], Any], Future[Any]] = {
            scenario: pool.submit(scenario, client)
            for scenario in (a_late_reply, a_late_reply_asked_for_again, two_wait_for_one_reply, an_end_during_a_turn)
        }
        self._started[a_crowd_waits] = pool.submit(a_crowd_waits, other)

    def result(self, scenario: Callable[[Client], Any]) -> Any:
        return self._started[scenario].result()


@pytest.fixture(scope="module")
def slow(client: Client, other: Client) -> Iterator[Slow]:
    with ThreadPoolExecutor(5) as pool:
        yield Slow(pool, client, other)


@pytest.fixture(scope="module", autouse=True)
def slow_ones_start_early(request: pytest.FixtureRequest) -> None:
    """Before the first test of the module, if any of those to be run needs them."""
    wanted = (getattr(item, "fixturenames", ()) for item in request.session.items)
    if any("slow" in names for names in wanted):
        request.getfixturevalue("slow")


# Idempotency.


def test_a_message_is_replayed_byte_for_byte(client: Client) -> None:
    thread, key = unique(), unique()
    body = {"external_conversation_id": thread, "content": "hello", "customer": {"phone": unique_phone()}}
    first = client.post(PATH, body, idempotency_key=key)
    conversation = first.ok(201)["conversation"]
    assert_replay(first, client.post(PATH, body, idempotency_key=key))
    send_to_thread(client, thread, "something else")
    end_conversation(client, conversation["id"])
    assert_replay(first, client.post(PATH, body, idempotency_key=key))
    assert len(transcript(client, conversation["id"])) == 4
    settle(client, "customer")
    assert len(events_about(client, conversation["customer_id"])) == 1


def test_the_refusal_of_an_ended_conversation_is_saved(client: Client) -> None:
    conversation_id, key = create_conversation(client)["id"], unique()
    end_conversation(client, conversation_id)
    first = client.post(messages_of(conversation_id), {"content": "hello"}, idempotency_key=key)
    assert_error(first, 409, "conversation_ended")
    assert_replay(first, client.post(messages_of(conversation_id), {"content": "hello"}, idempotency_key=key))


def test_the_key_of_a_message_fits_no_other_message(client: Client) -> None:
    thread, key = unique(), unique()
    first = ask(client, thread, "hello", idempotency_key=key)
    path = messages_of(first.ok(201)["conversation"]["id"])
    assert_error(ask(client, thread, "hello!", idempotency_key=key), 400, "idempotency_key_reused")
    assert_error(client.post(path, {"content": "hello"}, idempotency_key=key), 400, "idempotency_key_reused")
    body = {"external_conversation_id": thread, "content": "hello", "markdown": False}
    assert_error(client.post(PATH, body, idempotency_key=key), 400, "idempotency_key_reused")
    assert_replay(first, ask(client, thread, "hello", idempotency_key=key))


def test_a_refused_message_leaves_its_key_free(client: Client) -> None:
    thread, key = unique(), unique()
    assert_error(ask(client, thread, "", idempotency_key=key), 400, {"parameter_invalid_empty", "parameter_invalid"})
    path = messages_of(f"conv_{UNKNOWN}")
    assert_error(client.post(path, {"content": "hello"}, idempotency_key=key), 404, "resource_not_found")
    answer = ask(client, thread, "hello", idempotency_key=key)
    answer.ok(201)
    assert not answer.replayed


def test_one_message_sent_by_many_at_once_with_one_key_is_one_message(client: Client) -> None:
    thread, key, start = unique(), unique(), threading.Barrier(6)

    def attempt(_: int) -> Response:
        start.wait()
        while True:
            answer = ask(client, thread, "hello", idempotency_key=key)
            if answer.status != 409 or answer.error["code"] != "idempotency_key_in_use":
                return answer
            time.sleep(0.2)

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(attempt, range(6)))
    assert {answer.status for answer in answers} == {201}, [str(answer) for answer in answers]
    assert len({answer.body for answer in answers}) == 1
    assert len(transcript(client, answers[0].json["conversation"]["id"])) == 2


# Transcripts.


@pytest.fixture(scope="module")
def long_talk(client: Client) -> tuple[str, list[Any]]:
    """The path of a transcript of six messages, and the messages."""
    conversation_id = create_conversation(client)["id"]
    for content in ("one", "two", "three"):
        send(client, conversation_id, content)
    return messages_of(conversation_id), transcript(client, conversation_id)


@pytest.mark.parametrize("order", [None, "asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 4, 6])
def test_a_transcript_is_read_from_either_end(
    client: Client, long_talk: tuple[str, list[Any]], order: str | None, limit: int
) -> None:
    path, messages = long_talk
    params: dict[str, object] = {"limit": limit} | ({"order": order} if order else {})
    found: list[Any] = []
    while True:
        page = client.get(path, params).ok()
        assert len(page["data"]) <= limit
        found += page["data"]
        if not page["has_more"]:
            break
        assert page["next_cursor"] == found[-1]["id"]
        params["starting_after"] = page["next_cursor"]
    assert contents(messages)[::2] == ["one", "two", "three"]
    assert found == (messages[::-1] if order == "desc" else messages)


@pytest.mark.parametrize("order", ["", "ASC", "newest", "1"])
def test_an_unknown_order_is_refused(client: Client, long_talk: tuple[str, list[Any]], order: str) -> None:
    assert_error(client.get(long_talk[0], {"order": order}), 400, "parameter_invalid", param="order")


def test_the_parameters_of_a_transcript_are_checked(client: Client, long_talk: tuple[str, list[Any]]) -> None:
    path, messages = long_talk
    assert_error(client.get(path, {"limit": "x"}), 400, "parameter_invalid_integer", param="limit")
    for cursor in ("x", "", f"conv_{UNKNOWN}", messages[0]["id"] + "0"):
        assert_error(client.get(path, {"starting_after": cursor}), 400, "cursor_invalid", param="starting_after")
    for name in ("role", "markdown", "customer_id"):
        assert_error(client.get(path, {name: "user"}), 400, "parameter_unknown", param=name)
    assert len(client.get(path, {"limit": "0"}).ok()["data"]) == 1


def test_a_cursor_of_another_transcript_shows_nothing_of_it(client: Client, long_talk: tuple[str, list[Any]]) -> None:
    own = send_to_thread(client, unique(), "hello")
    path = messages_of(own["conversation"]["id"])
    page = client.get(path, {"starting_after": long_talk[1][0]["id"]}).ok()
    assert contents(page["data"]) == [own["content"], own["reply"]["content"]]


# Many at once.


def answered_messages(answers: list[Response]) -> list[Any]:
    """The answered ones of messages that were sent at once."""
    for answer in answers:
        if answer.status != 201:
            assert_error(answer, 409, "conversation_busy")
            assert answer.headers["Retry-After"] == "2"
    return [answer.json for answer in answers if answer.status == 201]


def test_first_messages_at_once_on_one_thread_give_one_conversation(client: Client) -> None:
    for _ in range(3):
        thread, start = unique(), threading.Barrier(16)

        def first(number: int, thread: str = thread, start: threading.Barrier = start) -> Response:
            start.wait()
            return ask(client, thread, f"message {number}")

        with ThreadPoolExecutor(16) as pool:
            answered = answered_messages(list(pool.map(first, range(16))))
        (conversation_id,) = {message["conversation"]["id"] for message in answered}
        assert conversation_of(client, thread)["id"] == conversation_id
        assert len(transcript(client, conversation_id)) == 2 * len(answered)


def test_the_roles_alternate_whatever_is_sent_at_once(client: Client) -> None:
    conversation_id, thread = (made := create_conversation(client, external_id=unique()))["id"], made["external_id"]

    def send_some(number: int) -> list[Response]:
        answers = []
        for turn in range(4):
            content = f"message {turn} of {number}"
            if number % 2:
                answers.append(ask(client, thread, content))
            else:
                answers.append(client.post(messages_of(conversation_id), {"content": content}))
        return answers

    with ThreadPoolExecutor(16) as pool:
        answered = answered_messages([answer for answers in pool.map(send_some, range(16)) for answer in answers])
    assert answered
    found = transcript(client, conversation_id)
    assert [message["role"] for message in found] == ["user", "assistant"] * len(answered)
    pairs = {(message["id"], message["reply"]["id"]) for message in answered}
    assert {(one["id"], two["id"]) for one, two in zip(found[::2], found[1::2], strict=True)} == pairs
    assert {message.get("reply_status") for message in found} == {"complete", None}


# The sync window, and what goes on meanwhile.


def assert_timeout(client: Client, response: Response, conversation_id: str, message_id: str) -> None:
    error = assert_error(response, 504, "agent_timeout")
    assert (error["conversation_id"], error["message_id"]) == (conversation_id, message_id)
    assert response.headers["Location"] == f"{client.base_path}{messages_of(conversation_id)}"


@pytest.mark.parallel
def test_a_message_during_a_turn_is_refused_and_not_stored(slow: Slow) -> None:
    late: Late = slow.result(a_late_reply)
    for refused in late.busy:
        assert_error(refused, 409, "conversation_busy")
        assert refused.headers["Retry-After"] == "2"
        assert refused.headers["Service-Should-Retry"] == "true"
    (message,) = late.held
    assert (message["content"], message["reply_status"]) == (LATE, "pending")


@pytest.mark.parallel
def test_a_reply_that_is_not_there_in_time_is_a_504_that_tells_where_it_will_be(client: Client, slow: Slow) -> None:
    late: Late = slow.result(a_late_reply)
    (message,) = late.at_timeout
    assert_timeout(client, late.answer, conversation_of(client, late.thread)["id"], message["id"])
    assert late.answer.headers["Service-Should-Retry"] == "false"
    assert late.seconds >= LATE_WINDOW
    assert message == late.held[0]


@pytest.mark.parallel
def test_the_late_reply_appears_in_the_transcript(slow: Slow) -> None:
    late: Late = slow.result(a_late_reply)
    message, reply = late.afterwards
    assert message == late.held[0] | {"reply_status": "complete"}
    assert (reply["role"], reply["actions"]) == ("assistant", [])
    assert reply["content"]


@pytest.mark.parallel
def test_a_busy_answer_is_not_saved_for_its_key(slow: Slow) -> None:
    late: Late = slow.result(a_late_reply)
    late.retried.ok(201)
    assert not late.retried.replayed


@pytest.mark.parallel
def test_the_same_key_finds_the_same_turn_again(client: Client, slow: Slow) -> None:
    found: Reattached = slow.result(a_late_reply_asked_for_again)
    message, reply = found.found
    again = found.again.ok(201)
    assert (again["id"], again["reply"]) == (message["id"], reply)
    assert again["reply_status"] == "complete"
    assert_timeout(client, found.answer, again["conversation"]["id"], message["id"])
    assert found.answer.headers["Service-Should-Retry"] == "true"
    assert_error(found.other_body, 400, "idempotency_key_reused")


@pytest.mark.parallel
def test_a_504_is_never_the_saved_response(slow: Slow) -> None:
    found: Reattached = slow.result(a_late_reply_asked_for_again)
    assert found.replay.replayed
    assert found.replay.ok(201) == found.again.ok(201)
    assert found.replay.body == found.again.body
    assert found.replay.headers["Location"] == found.again.headers["Location"]


@pytest.mark.parallel
def test_who_joins_a_running_turn_has_the_normal_window(client: Client, slow: Slow) -> None:
    joined: Joined = slow.result(two_wait_for_one_reply)
    assert LATE_REPLY <= joined.seconds < WINDOW
    message, reply = joined.found
    second = joined.second.ok(201)
    assert (second["id"], second["reply"]) == (message["id"], reply)
    assert_timeout(client, joined.first, second["conversation"]["id"], message["id"])


@pytest.mark.parallel
def test_an_end_during_a_turn_succeeds_at_once(slow: Slow) -> None:
    ended: EndedMeanwhile = slow.result(an_end_during_a_turn)
    assert ended.ended.ok()["status"] == "ended"
    assert ended.seconds < LATE_REPLY
    assert ended.ended.json["ended_at"] < ended.found[1]["created_at"]
    assert_error(ended.refused, 409, "conversation_ended")


@pytest.mark.parallel
def test_an_end_during_a_turn_frees_the_thread(slow: Slow) -> None:
    ended: EndedMeanwhile = slow.result(an_end_during_a_turn)
    assert ended.next_on_thread["conversation"]["id"] != ended.ended.json["id"]


@pytest.mark.parallel
def test_the_late_reply_to_an_ended_conversation_is_kept(client: Client, slow: Slow) -> None:
    ended: EndedMeanwhile = slow.result(an_end_during_a_turn)
    message, reply = ended.found
    assert_timeout(client, ended.answer, ended.ended.json["id"], message["id"])
    assert (message["reply_status"], reply["role"]) == ("complete", "assistant")
    before = ended.ended.json
    assert ended.read["status"] == "ended"
    assert ended.read["ended_at"] == before["ended_at"]


@pytest.mark.parallel
def test_forty_waiting_messages_keep_nobody_else_waiting(slow: Slow) -> None:
    crowd: Crowd = slow.result(a_crowd_waits)
    assert [response.status for response in crowd.others] == [200] * 10 + [201]
    assert crowd.still_waiting == CROWD
    for answer in crowd.answers:
        answer.ok(201)
