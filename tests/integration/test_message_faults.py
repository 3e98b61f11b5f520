"""A message's request in trouble: it is stored once, and answered once (promises 8)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from shared.store.keys import Scope
from tests.support.clocks import Clock
from tests.support.conversations import (
    LEASE,
    PHONE,
    Hurried,
    new_thread,
    send,
    store_unanswered_message,
    work,
    work_at_each_wait,
)
from tests.support.faults import FEWER_TROUBLES, LASTING_TROUBLE, PASSING_TROUBLE, Trouble, deaths
from tests.support.resources import create_resource, get_resource, idempotency_header, list_resources, woken
from tests.support.stage import Answer, Stage
from tests.support.wire import Fault, Killed, Wire, wire


@dataclass(frozen=True)
class Post:
    """A message on the thread `t`, and how many messages and customers there are when it is stored."""

    new: bool
    customer: Any = None

    def send(self, stage: Stage, key: str | None) -> Answer:
        """The answer, without a wait for the reply."""
        body = {"external_conversation_id": "t", "content": "Hello"}
        body |= {"customer": self.customer} if self.customer else {}
        return Hurried(stage).call("POST", "/v1/messages", body, headers=idempotency_header(key))


POSTS = {
    "first": Post(new=True, customer={"external_id": "x", "phone": PHONE}),
    "later": Post(new=False),
}


def prepare_project(stage: Stage, time: Clock, post: Post) -> Scope:
    """A new project; with the thread, if the message is not to be the first."""
    time.forward(1)
    scope = Scope(stage.project().id, False)
    if not post.new:
        create_resource(stage, "/v1/conversations", external_id="t")
    return scope


def errors_after(stage: Stage, time: Clock, scope: Scope, post: Post) -> Iterator[str]:
    """What is wrong with the thread after its message, once the wake-ups and sweep have been heard."""
    time.forward(31)
    stage.invoke("sweep", {})
    work(stage, woken(stage, scope))
    conversations = list_resources(stage, "/v1/conversations")
    if len(conversations) != 1:
        yield f"{len(conversations)} conversations"
        return
    messages = get_resource(stage, f"/v1/conversations/{conversations[0]['id']}/messages")["data"]
    if [message["role"] for message in messages] != ["user", "assistant"]:
        yield f"the transcript is {[message['role'] for message in messages]}"
    if len(list_resources(stage, "/v1/customers")) != bool(post.customer):
        yield "not one customer"


def calls_of(stage: Stage, time: Clock, post: Post, key: str | None) -> Wire:
    prepare_project(stage, time, post)
    with wire() as line:
        assert post.send(stage, key).code == "agent_timeout"
    return line


def decides_anew(trouble: Trouble) -> bool:
    """Whether the request has to decide anew to come through."""
    return trouble.code is None and trouble.tries >= 3


def expected_code(trouble: Trouble, service: str) -> str:
    """The code that a request in this trouble is answered with; wake-ups are best effort."""
    return "agent_timeout" if service == "sqs" or trouble.code is None else trouble.code


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
@pytest.mark.parametrize("kind", FEWER_TROUBLES)
@pytest.mark.parametrize("post", POSTS.values(), ids=POSTS)
def test_a_message_in_trouble_is_answered_as_promised_and_is_stored_once_under_its_key(
    stage: Stage, stopped_clock: Clock, post: Post, kind: str
) -> None:
    calls = calls_of(stage, stopped_clock, post, "k").calls
    problems = []
    for trouble, (position, call) in itertools.product(FEWER_TROUBLES[kind], enumerate(calls)):
        # Who is in a hurry does not take part in a race for long: `conflict` may come early.
        if not trouble.concerns(call.operation) or (trouble.writes_only and (position == 0 or decides_anew(trouble))):
            continue
        scope = prepare_project(stage, stopped_clock, post)
        with wire(Fault(position, trouble.disturbance, trouble.tries)):
            first = post.send(stage, "k")
        stopped_clock.forward(1)
        second = post.send(stage, "k")
        wrong = [f"{first.status} {first.body[:90]!r}"] if first.code != expected_code(trouble, call.service) else []
        wrong += ["not to be retried"] if first.headers["service-should-retry"] != "true" else []
        wrong += [f"retry: {second.status} {second.body[:90]!r}"] if second.code != "agent_timeout" else []
        wrong += errors_after(stage, stopped_clock, scope, post)
        third, fourth = post.send(stage, "k"), post.send(stage, "k")
        # Without time to wait there is no look either: the reply is asked for with time.
        wrong += [] if third.code == fourth.code == "agent_timeout" else ["the hurried replay is no 504"]
        body = {"external_conversation_id": "t", "content": "Hello"}
        body |= {"customer": post.customer} if post.customer else {}
        replay = stage.call("POST", "/v1/messages", body, headers=idempotency_header("k"))
        if (replay.status, replay.headers.get("idempotent-replayed")) != (201, "true"):
            wrong.append(f"replay: {replay.status} {replay.body[:90]!r}")
        problems += [f"{trouble.name} at {position} {call.operation}: {each}" for each in wrong]
    assert not problems, "\n".join(problems)


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
@pytest.mark.parametrize("kind", ["passing", "lasting", "conflict"])
@pytest.mark.parametrize("post", POSTS.values(), ids=POSTS)
def test_a_message_without_a_key_in_trouble_is_answered_as_promised_and_is_stored_at_most_once(
    stage: Stage, stopped_clock: Clock, post: Post, kind: str
) -> None:
    calls = calls_of(stage, stopped_clock, post, None).calls
    problems = []
    for trouble, (position, call) in itertools.product(FEWER_TROUBLES[kind], enumerate(calls)):
        # Who is in a hurry does not take part in a race for long: `conflict` may come early.
        if not trouble.concerns(call.operation) or (trouble.writes_only and (position == 0 or decides_anew(trouble))):
            continue
        scope = prepare_project(stage, stopped_clock, post)
        with wire(Fault(position, trouble.disturbance, trouble.tries)):
            first = post.send(stage, None)
        wrong = [f"{first.status} {first.body[:90]!r}"] if first.code != expected_code(trouble, call.service) else []
        if first.code == "agent_timeout":
            wrong += errors_after(stage, stopped_clock, scope, post)
        else:
            found = list_resources(stage, "/v1/conversations")
            sizes = [len(get_resource(stage, f"/v1/conversations/{each['id']}/messages")["data"]) for each in found]
            if len(sizes) > 1 or any(size > 1 for size in sizes):
                wrong.append(f"messages {sizes}")
        problems += [f"{trouble.name} at {position} {call.operation}: {each}" for each in wrong]
    assert not problems, "\n".join(problems)


@pytest.mark.usefixtures("nothing_of_other_tests_is_due")
@pytest.mark.parametrize("post", POSTS.values(), ids=POSTS)
def test_a_message_whose_request_dies_at_any_point_is_stored_once_under_its_key_and_answered(
    stage: Stage, stopped_clock: Clock, post: Post
) -> None:
    problems = []
    for death in deaths(calls_of(stage, stopped_clock, post, "k").operations()):
        scope = prepare_project(stage, stopped_clock, post)
        with wire(None, *death), suppress(Killed):
            post.send(stage, "k")
        stopped_clock.forward(1)
        assert post.send(stage, "k").code == "agent_timeout"
        problems += [f"{death}: {wrong}" for wrong in errors_after(stage, stopped_clock, scope, post)]
    assert problems == []


def test_a_look_for_the_reply_in_trouble_is_followed_by_another_and_the_reply_is_found(
    stage: Stage, stopped_clock: Clock
) -> None:
    for trouble in (*PASSING_TROUBLE, *LASTING_TROUBLE):
        thread = new_thread(stage)
        store_unanswered_message(stage, thread, "Hello", "k")
        [record] = woken(stage, thread.scope)
        with wire(kill_after=0), suppress(Killed):
            work(stage, [record])

        def disturbed(record: dict[str, Any] = record, trouble: Trouble = trouble) -> None:
            stopped_clock.forward(LEASE)
            work(stage, [record])
            line.fault = Fault(len(line.calls), trouble.disturbance, trouble.tries)

        def over() -> None:
            line.fault = None

        # The request waits for the turn of a worker that died, which another takes over.
        with wire() as line, work_at_each_wait(stopped_clock, lambda: None, disturbed, over):
            response = send(stage, thread, "Hello", "k")
        assert line.disturbed, trouble.name
        assert response.status == 201, (trouble.name, response.body)
        stopped_clock.forward(1)
        again = send(stage, thread, "Hello", "k")
        assert again.status == 201
        assert again.body == response.body
        assert len(get_resource(stage, thread.messages)["data"]) == 2
