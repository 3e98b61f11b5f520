"""Concurrent calls of AWS. The clients block, so concurrency means threads."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def run_all(work: Callable[[T], R], items: Sequence[T], at_once: int) -> list[R]:
    """Call `work` with each item in at most `at_once` threads, and return the results in the order of the items.

    Each call sees the context variables of the caller. All calls end before the first exception is raised.
    """
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(at_once, len(items))) as pool:
        calls = [pool.submit(contextvars.copy_context().run, work, item) for item in items]
    return [call.result() for call in calls]
