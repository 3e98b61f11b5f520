"""Many things at once, each in a thread with an event loop of its own, as every Lambda container has one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from shared.aws import client as aws_client
from shared.aws.connections import HttpResponse

T = TypeVar("T")
WRITES = ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")


def run_at_once(works: Sequence[Callable[[], T]]) -> list[T]:
    """What each of the works returns; none begins before all are ready to."""
    start = threading.Barrier(len(works), timeout=30)

    def run(work: Callable[[], T]) -> T:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            start.wait()
            return work()
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    with ThreadPoolExecutor(len(works), thread_name_prefix="racing") as pool:
        return list(pool.map(run, works))


@contextmanager
def just_before(operation: str, work: Callable[[], Any]) -> Iterator[None]:
    """The work is done once, by somebody else, just before the next call of this operation is sent to DynamoDB."""
    left = [work]

    class Before(aws_client.Hook):
        def attempt(self, call: aws_client.AwsCall, proceed: Callable[[], HttpResponse]) -> HttpResponse:
            if left and call.operation == operation:
                run_at_once([left.pop()])
            return proceed()

    with aws_client.hooked(Before()):
        yield
    assert not left, f"there was no {operation}"
