"""Many things at once, each in a thread with an event loop of its own, as every Lambda container has one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def at_once(works: Sequence[Callable[[], T]]) -> list[T]:
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
