"""Pages: how the rows of a page are read (promises 3, "Lists").

A list without filters reads the base table, so it includes every write; with a range of its time field it reads the
index of that time. Each filter reads a keys-only index; several filters are intersected on the index entries before any
row is read. The cost of a page therefore does not depend on the size of the table, but on how many rows share the value
of the most selective filter. A filtered list may lag by about a second.

A page ends before 4 MB. A page with at least one row also ends after 1,000 rows or entries were read. A page
without a row continues until the request's 15 seconds have passed.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from shared.aws.services import Unavailable
from shared.core import clock, ids
from shared.resources import queries
from shared.resources.collections import Collection, Record
from shared.resources.queries import Page, Query
from shared.store import table
from shared.store.keys import Scope

EXAMINED = 1_000
"""The most rows or entries that a page reads once it has a row."""
BYTES = 4_000_000
"""The largest page."""
SECONDS = 15
"""Seconds since the start of the request after which a page without a row fails."""
_NEXT_LIMIT = 200
"""Rows that each further query reads if the first query did not read enough."""
_NEXT_ENTRIES = 60
"""Index entries of a filter's second block: with several filters, most of a larger block may be skipped."""
_GROWTH = 8
"""How many times as large as the last block the next one is, if no entry of that block matched."""
_MOST_ENTRIES = 5_000
"""Index entries of the largest block, less than the 1 MB that a query returns at most."""
_LEAST_USED = 8
"""The part of a block that must be needed before a larger one is read: an eighth."""
_MISS = 50
"""The least number of rows that a read without a match counts as, towards `EXAMINED`."""

D = TypeVar("D", bound=Mapping[str, Any])
R = TypeVar("R", bound=Mapping[str, Any])
Entries = Iterator["table.Row | int"]
"""Rows or index entries in list order. A number is that of entries read without a match: the caller checks the time."""


def read(
    scope: Scope,
    collection: Collection[D, Any],
    query: Query,
    *,
    partition: str | None = None,
    seconds_left: Callable[[float], float] = float,
) -> Page[D]:
    """Read one page, newest first unless the query is `forward` (promises 3). Only the last page may be empty.

    `partition` replaces the collection's own partition. `seconds_left` returns the seconds that remain of a time limit
    that began with the request (`Request.seconds_left`). Raises Unavailable if no row matches within the limit.
    """
    partition = partition or scope.pk(collection.kind)
    indexed = query.by_time or bool(query.filters)
    matching = _by_index(scope, collection, query) if indexed else _by_id(collection, query, partition)
    page: list[table.Row] = []
    size = examined = 0
    while True:
        # A full page only needs to know whether there is a next entry.
        full = len(page) == query.limit
        chunk, count = _chunk(matching, 1 if full else query.limit - len(page))
        if not chunk:
            return Page(page, None)
        entries = [entry for entry in chunk if not isinstance(entry, int) and _in_range(query, entry)]
        # The next index entry shows that there are more, without reading its row.
        if indexed and full and entries:
            return _continued(collection, query, page)
        for row in _matching_rows(collection, query, entries, indexed):
            size += len(row["doc"].encode())
            if full or (size > BYTES and page):
                return _continued(collection, query, page)
            page.append(collection.old_rows.complete(row))
        examined += count
        if page and examined >= EXAMINED:
            return _continued(collection, query, page)
        if not page and seconds_left(SECONDS) <= 0:
            raise Unavailable("no row matched in time")


def _chunk(found: Entries, size: int) -> tuple[list[table.Row | int], int]:
    """The next entries and how many were read: at most `size`, and fewer once `EXAMINED` were read."""
    chunk: list[table.Row | int] = []
    examined = 0
    for entry in itertools.islice(found, size):
        chunk.append(entry)
        examined += max(_MISS, entry) if isinstance(entry, int) else 1
        if examined >= EXAMINED:
            break
    return chunk, examined


def earliest_first(scope: Scope, collection: Collection[D, R], query: Query) -> Iterator[Record[D, R]]:
    """The resources of a query by time with at most one filter value, earliest first.

    Reads as many as the caller takes, in blocks of `query.limit` rows.
    """
    [(index, [partition])] = _conditions(scope, collection, query)
    for entries in table.query(partition, index=index, at_least=query.min_time, limit=query.limit, forward=True):
        yield from map(collection.record, _matching_rows(collection, query, entries, indexed=True))


def _matching_rows(
    collection: Collection[Any, Any], query: Query, entries: list[table.Row], indexed: bool
) -> Iterator[table.Row]:
    """The current rows of the entries that match the query."""
    rows = table.get_many([(entry["pk"], entry["sk"]) for entry in entries]) if indexed else {}
    for entry in entries:
        row = rows.get((entry["pk"], entry["sk"])) if indexed else entry
        if row is not None and _matches(collection, query, row, entry.get("sort_time")):
            yield row


def _by_id(collection: Collection[Any, Any], query: Query, partition: str) -> Entries:
    limit, cursor = query.limit + 1, query.starting_after
    if query.forward:
        after = None if cursor is None else ids.after(collection.prefix, queries.id_of_cursor(collection, cursor))
        return _rows(table.query(partition, at_least=after, limit=limit, next_limit=_NEXT_LIMIT, forward=True))
    at_most = _start(query.max_id, None if cursor is None else _before_id(collection, cursor))
    return _rows(table.query(partition, at_least=query.min_id, at_most=at_most, limit=limit, next_limit=_NEXT_LIMIT))


def _by_index(scope: Scope, collection: Collection[Any, Any], query: Query) -> Entries:
    cursor = query.starting_after
    if query.by_time:
        order, at_least = "sort_time", query.min_time
        at_most = _start(query.max_time, None if cursor is None else _before_time(scope, collection, cursor))
    else:
        order, at_least = "sk", query.min_id
        at_most = _start(query.max_id, None if cursor is None else _before_id(collection, cursor))
    conditions = [
        [_Scan(partition, index, order, at_least, query.limit + 1) for partition in partitions]
        for index, partitions in _conditions(scope, collection, query)
    ]
    return _intersection(collection, conditions, order, at_most)


def _conditions(scope: Scope, collection: Collection[Any, Any], query: Query) -> list[tuple[str, list[str]]]:
    """The indexes to read, the most selective first, each with the partitions of the filter's values."""
    order = "t" if query.by_time else "f"
    if not query.filters:
        return [(f"{order}0", [scope.pk(collection.kind)])]
    return [
        (f"{order}{number}", [scope.index(collection.kind, name, value) for value in query.filters[name]])
        for number, name in enumerate(collection.indexes.fields, start=1)
        if name in query.filters
    ]


class _Scan:
    """The entries of one index partition in descending order, read in blocks."""

    def __init__(self, partition: str, index: str, order: str, at_least: str | None, size: int) -> None:
        self.entries_read = 0
        self.matched = False
        self._partition, self._index, self._order, self._at_least = partition, index, order, at_least
        self._first = self._size = size
        self._block = deque[table.Row]()
        self._seeks = 0
        self._ended = False

    def seek(self, position: str | None) -> table.Row | None:
        """The first entry at or below a position; None if there is none. Positions must not increase."""
        while self._block and position is not None and self._block[0][self._order] > position:
            self._block.popleft()
        if not self._block and not self._ended:
            self._read(position)
        self._seeks += 1
        return self._block[0] if self._block else None

    def _read(self, position: str | None) -> None:
        if self.entries_read:
            self._size = self._next_size()
        self._seeks, self.matched = 0, False
        pages = table.query(
            self._partition, index=self._index, at_least=self._at_least, at_most=position, limit=self._size
        )
        for page in pages:
            self._block.extend(page)
            self.entries_read += len(page)
            if len(self._block) >= self._size:
                return
        self._ended = True

    def _next_size(self) -> int:
        """The size of the next block: it grows while entries are needed, but none of them matches."""
        # If nearly all of a block was skipped, a larger block would be, too.
        if _LEAST_USED * self._seeks <= self._size:
            return self._first
        return max(_NEXT_ENTRIES, self._size if self.matched else min(_GROWTH * self._size, _MOST_ENTRIES))


def _intersection(
    collection: Collection[Any, Any], conditions: Sequence[Sequence[_Scan]], order: str, position: str | None
) -> Entries:
    """The entries that every condition has in one of its scans.

    Each condition seeks the position of the previous one, so that the entries between the two are not read.
    """
    scans = [scan for condition in conditions for scan in condition]
    while True:
        before = sum(scan.entries_read for scan in scans)
        positions: list[str] = []
        for condition in conditions:
            entries = [head for scan in condition if (head := scan.seek(position)) is not None]
            if not entries:
                return
            entry = max(entries, key=lambda entry: str(entry[order]))
            position = str(entry[order])
            positions.append(position)
        # Positions do not increase from one condition to the next, so all are equal if the first and last are.
        if positions[0] == positions[-1]:
            for scan in scans:
                scan.matched = True
            yield entry
            time, mark, id = positions[-1].rpartition("#")
            position = f"{time}{mark}{ids.before(collection.prefix, id)}"
        elif read := sum(scan.entries_read for scan in scans) - before:
            yield read


def _rows(pages: Iterator[list[table.Row]]) -> Entries:
    return itertools.chain.from_iterable(pages)


def _matches(collection: Collection[Any, Any], query: Query, row: table.Row, sort_time: str | None) -> bool:
    """Whether a row still matches the query: its index entries may be outdated."""
    if table.is_expired(row):
        return False
    if query.by_time and row.get("sort_time") != sort_time:
        return False
    if not query.filters:
        return True
    values = collection.indexes.values(json.loads(row["doc"]))
    return all(values.get(name) in allowed for name, allowed in query.filters.items())


def _in_range(query: Query, entry: table.Row) -> bool:
    """Whether an entry's creation time is in the query's range."""
    return (query.min_id or "") <= entry["sk"] and (query.max_id is None or entry["sk"] <= query.max_id)


def _start(bound: str | None, after: str | None) -> str | None:
    """The position where a page begins: the upper bound, or the position after the cursor."""
    return min((position for position in (bound, after) if position is not None), default=None)


def _before_id(collection: Collection[Any, Any], cursor: str) -> str:
    return ids.before(collection.prefix, queries.id_of_cursor(collection, cursor))


def _before_time(scope: Scope, collection: Collection[Any, Any], cursor: str) -> str:
    if not ids.is_id(collection.prefix, cursor):
        time, id = queries.time_of_cursor(collection, cursor)
        return f"{time}#{ids.before(collection.prefix, id)}"
    row = collection.row(scope, cursor)
    if row is None:
        raise queries.cursor_invalid()
    return f"{clock.iso(collection.indexes.latest_time(row))}#{ids.before(collection.prefix, cursor)}"


def _continued(collection: Collection[Any, Any], query: Query, rows: list[table.Row]) -> Page[Any]:
    """A page that is not the last one.

    A client may continue a list by time with the id of the last row. If that would not lead beyond the first row,
    because the row was moved from there, the client would get the same rows again. So the page ends before such a row,
    unless all its rows are of this kind.
    """
    if not query.by_time:
        return Page(rows, rows[-1]["sk"])
    first, end = rows[0]["sort_time"], len(rows)
    while end and f"{clock.iso(collection.indexes.latest_time(rows[end - 1]))}#{rows[end - 1]['sk']}" > first:
        end -= 1
    rows = rows[:end] or rows
    return Page(rows, queries.time_cursor(rows[-1]))
