"""Lists: the worst case of several filters. Each row lacks one of the values, in turn, and only the oldest row matches.

The page is read in this process from DynamoDB Local, whose time is part of the elapsed time. The time limit of requests
does not apply. Reads are calls of Query or BatchGetItem.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from tests.bench.samples import Figure, Goal

if TYPE_CHECKING:
    from shared.store.keys import Scope

GOALS = {1_000: 12, 10_000: 20, 100_000: 60}
"""The most reads of a page in a table of so many rows."""
FILTERS = (2, 3)
TIMES = 5
HEADINGS = ("a page of a list", "reads", "read units", "CPU, s", "time, s")
Measured = tuple[int, float, float, float]
"""A page's reads and consumed units, and the seconds of CPU time and of elapsed time."""


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
            scope = Scope(stage.project().id, False)
            customers, query = rows.alternating(scope, filters)
            before = 0
            for size in GOALS:
                rows.write(list(itertools.islice(customers, size - before)))
                before = size
                pages = [_page(scope, query) for _ in range(TIMES)]
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


def _page(scope: Scope, query: str) -> Measured:
    from shared.customers.resource import CUSTOMERS
    from shared.resources import list_pages, queries
    from tests.support.wire import wire

    cpu, began = time.process_time(), time.perf_counter()
    with wire() as line:
        page = list_pages.read(scope, CUSTOMERS, queries.parse(CUSTOMERS, parse_qs(query)))
    assert len(page.rows) == 1
    return len(line.operations()), line.capacity, time.process_time() - cpu, time.perf_counter() - began
