"""Concurrent AWS calls. The clients block, so concurrency means threads."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
RUN_WITHIN = "run-within"
"""The name of the threads of `run_within`."""


def run_all(work: Callable[[T], R], items: Sequence[T], at_once: int) -> list[R]:
    """Call `work` with each item in at most `at_once` threads, and return the results in the order of the items.

    Each call sees the context variables of the caller. All calls end before the first exception is raised.
    """
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(at_once, len(items))) as pool:
        calls = [pool.submit(contextvars.copy_context().run, work, item) for item in items]
    return [call.result() for call in calls]


def run_within(seconds: float, work: Callable[[], R]) -> bool:
    """Call `work` in a thread, and wait for it at most `seconds`. Returns whether it ended in time.

    It sees the context variables of the caller, and its exception is raised here. If it did not end in time, it
    continues, and its result is dropped.
    """
    call: Future[R] = Future()

    def run() -> None:
        try:
            call.set_result(work())
        except BaseException as error:  # noqa: BLE001  # raised where the result is read
            call.set_exception(error)

    # A daemon, so that the process need not wait for it at its end.
    threading.Thread(target=contextvars.copy_context().run, args=(run,), name=RUN_WITHIN, daemon=True).start()
    wait([call], seconds)
    if call.done():
        call.result()
    return call.done()
