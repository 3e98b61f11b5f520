"""Conversations whose turns a test lets the workers take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from shared.core import clock
from shared.core.keys import Scope
from tests.support import privileges
from tests.support.clocks import Clock
from tests.support.racing import just_before
from tests.support.resources import hinted, keyed
from tests.support.stage import Answer, Stage

LEASE = 50


class Hurried(Stage):
    """The stage, but a request has no time to wait for a reply: it is answered 504 as soon as it is stored."""

    def __init__(self, stage: Stage) -> None:
        self.__dict__ = stage.__dict__

    def invoke(self, function: str, event: Any, seconds: float = 2) -> Any:
        """Call a function as Lambda does when the function's time is nearly over."""
        return super().invoke(function, event, seconds)


@dataclass(frozen=True)
class Thread:
    """A conversation with a customer who has one appointment."""

    scope: Scope
    id: str
    customer: str
    appointment: str

    @property
    def messages(self) -> str:
        """The path of its messages."""
        return f"/v1/conversations/{self.id}/messages"


def send(stage: Stage, thread: Thread, content: str, key: str | None = None) -> Answer:
    """The answer to a message by id."""
    return stage.call("POST", thread.messages, {"content": content}, headers=keyed(key))


def asked(stage: Stage, thread: Thread, content: str, key: str | None = None) -> str:
    """Store a message that nobody has answered yet; its id."""
    found = send(Hurried(stage), thread, content, key)
    assert (found.status, found.code) == (504, "agent_timeout"), found.body
    return str(found.json["error"]["message_id"])


def work(stage: Stage, records: Sequence[dict[str, Any]]) -> int:
    """Let the turn worker have these hints, one by one; how many it was."""
    for record in records:
        assert stage.invoke("turn", {"Records": [record]}) == {"batchItemFailures": []}
    return len(records)


@contextmanager
def meanwhile(time: Clock, *works: Callable[[], Any]) -> Iterator[None]:
    """Who waits by the service's clock lets one of these works be done at each wait, and must then be content."""
    left = list(works)

    def sleep(seconds: float) -> None:
        if not left:
            raise TimeoutError("waited for more than there is")
        time.forward(seconds)
        with privileges.running(None):
            left.pop(0)()

    clock.use(lambda: time.now, sleep)
    try:
        yield
    finally:
        clock.use(lambda: time.now, time.forward)


def before_commit(work: Callable[[], Any]) -> AbstractContextManager[None]:
    """The work is done once, just before the next transaction is sent."""
    return just_before("TransactWriteItems", work)


def given_again(stage: Stage, time: Clock, thread: Thread, record: dict[str, Any], by_sweep: bool) -> None:
    """When its worker's lease is over, the hint comes again, or sweep gives one if the turn is still owed."""
    time.forward(LEASE + 1)
    if by_sweep:
        stage.invoke("sweep", {})
    work(stage, hinted(stage, thread.scope) if by_sweep else [record])
