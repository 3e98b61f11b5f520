"""Walks: how the rows of a page are read (contract 3, "Lists").

A list without filters walks the base table and sees every write. Filters walk keys-only indexes, one of each field;
of several indexes they take the entries in common, and only then read rows. So a page costs the same in a table of
any size: what counts is how many rows share the value of the most selective filter. Which rows a filter finds may lag
by about a second.

A page ends before 4 MB. One that has found something ends after 1,000 rows or entries that did not match; one that
has found nothing reads on, until the request's 15 seconds have passed.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from shared.core import clock, ids, table
from shared.core.aws import Unavailable
from shared.core.keys import Scope
from shared.resources import lists
from shared.resources.lists import Page, Query

if TYPE_CHECKING:
    from shared.resources.collections import Collection

EXAMINED = 1_000
"""Rows or entries that a page reads at the most, once it has found something."""
BYTES = 4_000_000
SECONDS = 15
"""Since the request's start; after that a page that has found nothing is given up."""
_FURTHER = 200
"""Rows that a further query reads, if those of the first were not enough."""
_FURTHER_ENTRIES = 60
"""Index entries that a further query reads, where several indexes are walked: more would mostly be read in vain."""
_LOOK = 50
"""Rows that a look into several indexes counts as, if they had nothing in common there."""

Entries = Iterator["table.Row | None"]
"""Rows or index entries in the order of the list; None for each look that found none, so that time can be checked."""


def read_page(
    scope: Scope,
    collection: Collection[Any, Any],
    query: Query,
    partition: str,
    seconds_left: Callable[[float], float],
) -> Page[Any]:
    """One page; never an empty one while more follows. Raises Unavailable if nothing was found in time."""
    indexed = query.by_time or bool(query.wanted)
    cursor = lists.time_cursor if query.by_time else lists.id_cursor
    walk = _by_index(scope, collection, query) if indexed else _by_id(collection, query, partition)
    page: list[table.Row] = []
    size = examined = 0
    while True:
        # A full page needs one look behind it, and no more than that.
        full = len(page) == query.limit
        chunk = list(itertools.islice(walk, 1 if full else query.limit - len(page)))
        if not chunk:
            return Page(page, None)
        entries = [entry for entry in chunk if entry is not None and _in_range(query, entry)]
        # An index entry behind a full page tells that there is more, without a read of its row.
        if indexed and full and entries:
            return Page(page, cursor(page[-1]))
        for row in _matching_rows(collection, query, entries, indexed):
            size += len(row["doc"].encode())
            if full or (size > BYTES and page):
                return Page(page, cursor(page[-1]))
            page.append(row)
        examined += sum(_LOOK if entry is None else 1 for entry in chunk)
        if page and examined >= EXAMINED:
            return Page(page, cursor(page[-1]))
        if not page and seconds_left(SECONDS) <= 0:
            raise Unavailable("nothing found in time")


def _matching_rows(
    collection: Collection[Any, Any], query: Query, entries: list[table.Row], indexed: bool
) -> Iterator[table.Row]:
    """The rows of the entries that are what the query asks for, as they are now."""
    rows = table.get_many([(entry["pk"], entry["sk"]) for entry in entries]) if indexed else {}
    for entry in entries:
        row = rows.get((entry["pk"], entry["sk"])) if indexed else entry
        if row is not None and _matches(collection, query, row, entry.get("sort_time")):
            yield row


def _by_id(collection: Collection[Any, Any], query: Query, partition: str) -> Entries:
    limit, cursor = query.limit + 1, query.starting_after
    if query.forward:
        after = None if cursor is None else ids.after(collection.prefix, lists.id_of_cursor(collection, cursor))
        return _rows(table.query(partition, at_least=after, limit=limit, then=_FURTHER, forward=True))
    most = _start(query.most_id, None if cursor is None else _before_id(collection, cursor))
    return _rows(table.query(partition, at_least=query.least_id, at_most=most, limit=limit, then=_FURTHER))


def _by_index(scope: Scope, collection: Collection[Any, Any], query: Query) -> Entries:
    cursor = query.starting_after
    if query.by_time:
        order, least = "sort_time", query.least_time
        most = _start(query.most_time, None if cursor is None else _before_time(scope, collection, cursor))
    else:
        order, least = "sk", query.least_id
        most = _start(query.most_id, None if cursor is None else _before_id(collection, cursor))
    conditions = [
        [_Walk(partition, index, order, least, query.limit + 1) for partition in partitions]
        for index, partitions in _conditions(scope, collection, query)
    ]
    return _common(collection, conditions, order, most)


def _conditions(scope: Scope, collection: Collection[Any, Any], query: Query) -> list[tuple[str, list[str]]]:
    """The indexes to walk, the most selective first, each with the partitions of the values that are wanted."""
    order = "t" if query.by_time else "f"
    if not query.wanted:
        return [(f"{order}0", [scope.pk(collection.kind)])]
    return [
        (f"{order}{number}", [scope.index(collection.kind, slot, value) for value in query.wanted[slot]])
        for number, slot in enumerate(collection.slots, start=1)
        if slot in query.wanted
    ]


class _Walk:
    """The entries of one index partition down from a position, latest first, read by blocks."""

    def __init__(self, partition: str, index: str, order: str, least: str | None, size: int) -> None:
        self.reads = 0
        self._partition, self._index, self._order, self._least = partition, index, order, least
        self._first = self._size = size
        self._block = deque[table.Row]()
        self._seeks = 0
        self._ended = False

    def seek(self, most: str | None) -> table.Row | None:
        """The first entry at or below a position, which must never rise; None if there is none."""
        while self._block and most is not None and self._block[0][self._order] > most:
            self._block.popleft()
        if not self._block and not self._ended:
            self._read(most)
        self._seeks += 1
        return self._block[0] if self._block else None

    def _read(self, most: str | None) -> None:
        # A block that was mostly jumped over would be so again, if it were larger.
        if self.reads:
            self._size = _FURTHER_ENTRIES if 2 * self._seeks > self._size else self._first
        self._seeks = 0
        self.reads += 1
        pages = table.query(self._partition, index=self._index, at_least=self._least, at_most=most, limit=self._size)
        for page in pages:
            self._block.extend(page)
            if len(self._block) >= self._size:
                return
        self._ended = True


def _common(
    collection: Collection[Any, Any], conditions: Sequence[Sequence[_Walk]], order: str, most: str | None
) -> Entries:
    """The entries that all conditions have, each in one of its walks.

    Each condition seeks to where the one before it stands, so that what lies between is not read.
    """
    walks = [walk for condition in conditions for walk in condition]
    while True:
        reads = sum(walk.reads for walk in walks)
        positions: list[str] = []
        for condition in conditions:
            entries = [entry for walk in condition if (entry := walk.seek(most)) is not None]
            if not entries:
                return
            entry = max(entries, key=lambda entry: str(entry[order]))
            most = str(entry[order])
            positions.append(most)
        # Positions never rise from one condition to the next.
        if positions[0] == positions[-1]:
            yield entry
            time, mark, id = positions[-1].rpartition("#")
            most = f"{time}{mark}{ids.before(collection.prefix, id)}"
        elif sum(walk.reads for walk in walks) > reads:
            yield None


def _rows(pages: Iterator[list[table.Row]]) -> Entries:
    return itertools.chain.from_iterable(pages)


def _matches(collection: Collection[Any, Any], query: Query, row: table.Row, sort_time: str | None) -> bool:
    """Whether a row is still what an index said of it."""
    if table.expired(row):
        return False
    if query.by_time and row.get("sort_time") != sort_time:
        return False
    if not query.wanted:
        return True
    values = collection.values(json.loads(row["doc"]))
    return all(values.get(slot) in wanted for slot, wanted in query.wanted.items())


def _in_range(query: Query, entry: table.Row) -> bool:
    """Whether an entry was created in the time that is asked for."""
    return (query.least_id or "") <= entry["sk"] and (query.most_id is None or entry["sk"] <= query.most_id)


def _start(bound: str | None, after: str | None) -> str | None:
    """Where a list begins: at the bound, or behind its cursor."""
    return min((position for position in (bound, after) if position is not None), default=None)


def _before_id(collection: Collection[Any, Any], cursor: str) -> str:
    return ids.before(collection.prefix, lists.id_of_cursor(collection, cursor))


def _before_time(scope: Scope, collection: Collection[Any, Any], cursor: str) -> str:
    if not ids.is_id(collection.prefix, cursor):
        time, id = lists.time_of_cursor(collection, cursor)
        return f"{time}#{ids.before(collection.prefix, id)}"
    row = collection.row(scope, cursor)
    # An id that never was a row stands where its own time stands.
    time = (
        clock.iso(min(ids.instant(collection.prefix, cursor), clock.LAST))
        if row is None
        else json.loads(row["doc"])[collection.ordered_by]
    )
    return f"{time}#{ids.before(collection.prefix, cursor)}"
