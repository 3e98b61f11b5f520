"""Lists: the worst case of several filters. Each row lacks one of the values, in turn, and only the oldest row matches.

The handler runs in this process, on DynamoDB Local, whose time is part of the elapsed time. Reads are calls of Query and
BatchGetItem.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.samples import Figure, Goal

if TYPE_CHECKING:
    from tests.support.stage import Stage

Measured = tuple[int, float, float, float]
"""A page's reads and consumed units, and the seconds of CPU time and of elapsed time."""

GOALS = {1_000: 12, 10_000: 20, 100_000: 60}
"""The most reads of a page in a table of so many rows."""
FILTERS = (2, 3)
TIMES = 5
HEADINGS = ("a page of a list", "reads", "read units", "CPU, s", "time, s")


def measure() -> dict[tuple[int, int], Measured]:
    """A page's reads and units, and the medians of its times, by number of filters and of rows."""
    from shared.store.keys import Scope
    from tests.support import privileges, rows
    from tests.support.stage import running, running_database

    found = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        running_database(Path(folder)) as port,
        running(port, Path(folder), privileges.Recorder()) as stage,
    ):
        for filters in FILTERS:
            customers, query = rows.alternating(Scope(stage.project().id, False), filters)
            before = 0
            for size in GOALS:
                rows.write(list(itertools.islice(customers, size - before)))
                before = size
                pages = [_page(stage, query) for _ in range(TIMES)]
                (reads, units), *_ = {page[:2] for page in pages}
                cpu, elapsed = (statistics.median(page[index] for page in pages) for index in (2, 3))
                found[filters, size] = reads, units, cpu, elapsed
    return found


def report(found: Mapping[tuple[int, int], Measured]) -> list[Figure]:
    """The figures."""
    return [
        Figure(
            f"{filters} filters, {rows:,} rows",
            [f"{reads}", f"{units:,g}", f"{cpu:.2f}", f"{elapsed:.2f}"],
            reads,
            Goal(GOALS[rows], "reads"),
        )
        for (filters, rows), (reads, units, cpu, elapsed) in found.items()
    ]


def _page(stage: Stage, query: str) -> Measured:
    from tests.support.wire import wire

    cpu, began = time.process_time(), time.perf_counter()
    with wire() as line:
        page = stage.call("GET", f"/v1/customers?{query}")
    assert len(page.json["data"]) == 1, page.body
    # The check of the key is no read of the list.
    reads, units = len(line.operations()) - 1, line.capacity - 1
    return reads, units, time.process_time() - cpu, time.perf_counter() - began
