"""A request does not wait for a queue that hangs: its work is committed, and wake-ups are best effort."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from shared.aws.connections import HttpResponse
from shared.core import threads
from tests.support.clocks import Clock
from tests.support.conversations import CONFIRM, new_thread, send
from tests.support.deliveries import new_event
from tests.support.receivers import Receiver, answer
from tests.support.resources import create_and_get_path, list_resources
from tests.support.stage import Answer, Stage
from tests.support.wire import Fault, Try, wire

PHONE = "+15005550006"
PATIENCE = 20
"""Seconds for which the queue hangs unless the test ends it."""


@contextmanager
def hanging(service: str) -> Iterator[list[bool]]:
    """The service hangs until the end of the block. The list has an entry for each call that ended before."""
    released, ended = threading.Event(), list[bool]()

    def hang(attempt: Try) -> HttpResponse:
        ended.append(released.wait(PATIENCE))
        return attempt.send()

    with wire(Fault(0, hang, service=service)) as line:
        found: list[bool] = []
        yield found
        assert line.disturbed, f"nothing was asked of {service}"
        found += ended
        released.set()
        for thread in threading.enumerate():
            if thread.name == threads.RUN_WITHIN:
                thread.join(PATIENCE)


def message(stage: Stage) -> Callable[[], Answer]:
    thread = new_thread(stage)
    return lambda: send(stage, thread, CONFIRM)


def call(stage: Stage) -> Callable[[], Answer]:
    customer = create_and_get_path(stage, "customers", phone=PHONE)
    return lambda: stage.call("POST", f"{customer}/call", {})


def event_of_a_test(stage: Stage) -> Callable[[], Answer]:
    endpoint = create_and_get_path(stage, "webhook_endpoints", url="https://example.com/")
    return lambda: stage.call("POST", f"{endpoint}/test")


def retry(stage: Stage) -> Callable[[], Answer]:
    with Receiver(answer(400)) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        stage.deliver("deliveries")
    [delivery] = list_resources(stage, path)
    assert delivery["status"] == "failed"
    return lambda: stage.call("POST", f"{path}/{delivery['id']}/retry")


@pytest.mark.parametrize(
    ("prepare", "status"),
    [(message, 201), (call, 201), (event_of_a_test, 202), (retry, 202)],
    ids=["message", "call", "test", "retry"],
)
def test_a_request_is_answered_while_the_queue_hangs(
    stage: Stage, stopped_clock: Clock, prepare: Callable[[Stage], Callable[[], Answer]], status: int
) -> None:
    request = prepare(stage)
    with hanging("sqs") as ended:
        assert request().status == status
    assert ended == []


def test_a_call_that_asks_for_consent_is_answered_while_step_functions_hangs(
    stage: Stage, stopped_clock: Clock
) -> None:
    customer = create_and_get_path(stage, "customers", phone="+15005550022")
    with hanging("stepfunctions") as ended:
        assert stage.call("POST", f"{customer}/call", {}).status == 202
    assert ended == []
