"""Lists: parameters, the walk over rows, and the envelope (specification, "Pagination"; contract 3).

A list without filters walks the base table and sees every write. Filters walk keys-only indexes, of a field
or of two fields together; of several indexes they take the entries in common, and only then read rows. So a
page costs the same in a table of any size; which rows it finds may lag by about a second. A page ends before
4 MB, and one that has found something after 1,000 rows or entries that did not match. One that has found
nothing reads on, until the request's 15 seconds have passed.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import re
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import PydanticCustomError

from shared.core import clock, ids, table
from shared.core.aws import Unavailable
from shared.core.errors import ApiError
from shared.core.keys import Scope
from shared.resources import fields

DEFAULT_LIMIT = 20
MOST = 100
EXAMINED = 1_000
BYTES = 4_000_000
SECONDS = 15
"""Since the request's start; after that a page that has found nothing is given up."""
_NEXT = 200  # rows a further call reads, where the first were not enough
_LOOK = 50  # rows that a look into several indexes counts as, if they had nothing in common there
_COMPARISONS = ("gt", "gte", "lt", "lte")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_AFTER_EVERY_ID = "#~"  # sorts behind "#" and any id


def one_of(slot: str, known: Sequence[str]) -> Callable[[str], tuple[str, str]]:
    """A filter by a field with known values."""

    def parse(text: str) -> tuple[str, str]:
        if text not in known:
            message = "{slot} must be one of {known}."
            raise PydanticCustomError("parameter_invalid", message, {"slot": slot, "known": ", ".join(known)})
        return slot, text

    return parse


@dataclass(frozen=True)
class Listed:
    """A kind of rows that can be listed.

    `slots` are the indexed fields, most selective first; `pairs` are those that are indexed together, too.
    `filters` maps a query parameter to a function from its text to (slot, value); those in `repeatable`
    may be given more than once, meaning any of the values. `ordered_by` is a time field with indexes of its
    own. `ordered` lists take `order`, oldest first unless it is `desc`.
    `created` names the parameter of the creation time's range, `values` reads the slots of a document.
    Where it `keeps_deleted`, a deleted row moves to a partition of its own, and can still be read by its id.
    """

    kind: str
    prefix: str
    slots: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    filters: Mapping[str, Callable[[str], tuple[str, str]]] = field(default_factory=dict)
    repeatable: frozenset[str] = frozenset()
    ordered_by: str | None = None
    ordered: bool = False
    created: str | None = "created_at"
    values: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda doc: doc
    keeps_deleted: bool = False

    @property
    def parameters(self) -> frozenset[str]:
        """All query parameters that the list takes."""
        ranges = [f"{name}[{word}]" for name in (self.created, self.ordered_by) if name for word in _COMPARISONS]
        return frozenset(("limit", "starting_after", *(["order"] if self.ordered else []), *self.filters, *ranges))

    @property
    def indexes(self) -> tuple[tuple[str, ...], ...]:
        """The fields of each index; its number is the position, from 1."""
        return (*((slot,) for slot in self.slots), *self.pairs)

    def partition(self, scope: Scope, slots: Sequence[str], values: Sequence[str]) -> str:
        """The index partition of the rows whose fields have these values."""
        # Values of one kind are distinct as they are; where one of two ends must not be guessed.
        text = values[0] if len(values) == 1 else json.dumps(values)
        return scope.index(self.kind, "+".join(slots), text)

    def index(self, scope: Scope, doc: Mapping[str, Any]) -> dict[str, str | None]:
        """The index attributes of a row; None for those it must not have."""
        values = self.values(doc)
        found: dict[str, str | None] = {}
        for number, slots in enumerate(self.indexes, start=1):
            held = [values.get(slot) for slot in slots]
            partition = None if None in held else self.partition(scope, slots, [str(value) for value in held])
            found[f"f{number}"] = partition
            if self.ordered_by:
                found[f"t{number}"] = partition
        if self.ordered_by:
            found["t0"] = scope.pk(self.kind)
            found["sort_time"] = f"{doc[self.ordered_by]}#{doc['id']}"
        return found

    def row(self, scope: Scope, id: str) -> table.Row | None:
        """The row with this id as it is now, or as it was deleted where it can still be read."""
        row = table.get(scope.pk(self.kind), id)
        return self.deleted_row(scope, id) if row is None and self.keeps_deleted else row

    def deleted_row(self, scope: Scope, id: str) -> table.Row | None:
        """The row with this id if it was deleted. A row that is deleted never comes back."""
        return table.get(self.deleted_pk(scope), id)

    def deleted_pk(self, scope: Scope) -> str:
        """The partition of the deleted rows."""
        return scope.pk(f"deleted_{self.kind}")


@dataclass(frozen=True)
class Query:
    """What a list is asked for, checked: `wanted` values by slot, bounds on id and time (inclusive)."""

    limit: int
    starting_after: str | None
    wanted: Mapping[str, tuple[str, ...]]
    least_id: str | None = None
    most_id: str | None = None
    least_time: str | None = None
    most_time: str | None = None
    forward: bool = False

    @property
    def by_time(self) -> bool:
        """Whether the list is ordered by its time field."""
        return self.least_time is not None or self.most_time is not None

    @property
    def by_id(self) -> bool:
        """Whether the creation time is bounded."""
        return self.least_id is not None or self.most_id is not None


@dataclass(frozen=True)
class Page:
    """The rows of a page; `next_cursor` is None on the last one."""

    rows: list[table.Row]
    next_cursor: str | None

    def envelope(self, url: str, docs: list[str] | None = None) -> str:
        """The list as JSON. `docs` replaces the rows' own documents."""
        data = ",".join([row["doc"] for row in self.rows] if docs is None else docs)
        more = "true" if self.next_cursor else "false"
        return (
            f'{{"object":"list","url":{json.dumps(url)},"data":[{data}],"has_more":{more}'
            f',"next_cursor":{json.dumps(self.next_cursor)}}}'
        )


def read(listed: Listed, given: Mapping[str, list[str]]) -> Query:
    """The query parameters of a list, checked. Raises ApiError."""
    wanted: dict[str, tuple[str, ...]] = {}
    for name, texts in given.items():
        if len(texts) > 1 and name not in listed.repeatable:
            raise ApiError("parameter_invalid", f"{name} was given more than once.", param=name)
        if name in listed.filters:
            for text in texts:
                slot, value = _parsed(name, text, listed.filters[name])
                wanted[slot] = tuple(dict.fromkeys((*wanted.get(slot, ()), value)))
    least_id, most_id = _id_range(listed, given)
    least_time, most_time = _time_range(listed, given)
    return Query(
        limit=_limit(given.get("limit", [str(DEFAULT_LIMIT)])[0]),
        starting_after=given.get("starting_after", [None])[0],
        wanted=wanted,
        least_id=least_id,
        most_id=most_id,
        least_time=least_time,
        most_time=most_time,
        forward=listed.ordered and _order(given.get("order", ["asc"])[0]) == "asc",
    )


def page(
    scope: Scope,
    listed: Listed,
    query: Query,
    base: str | None = None,
    seconds_left: Callable[[float], float] = float,
) -> Page:
    """One page, newest first unless the query asks otherwise; never an empty one that more follow.

    `base` is the partition to walk where it is not the kind's own. `seconds_left` says what is left of a window
    that began with the request (`Call.seconds_left`); without it there is no hurry. Raises Unavailable where nothing
    was found in that time.
    """
    indexed = query.by_time or bool(query.wanted)
    cursor = _time_cursor if query.by_time else _id_cursor
    base = base or scope.pk(listed.kind)
    walk = _by_index(scope, listed, query) if indexed else _by_id(scope, listed, query, base)
    found: list[table.Row] = []
    size = examined = 0
    while True:
        # A full page wants one look behind it, and no more than that.
        full = len(found) == query.limit
        chunk = list(itertools.islice(walk, 1 if full else query.limit - len(found)))
        if not chunk:
            return Page(found, None)
        entries = [entry for entry in chunk if entry is not None and _in_range(query, entry)]
        # An index entry behind a full page tells that there is more, without a read of its row.
        if indexed and full and entries:
            return Page(found, cursor(found[-1]))
        rows = table.get_many([(entry["pk"], entry["sk"]) for entry in entries]) if indexed else {}
        for entry in entries:
            row = rows.get((entry["pk"], entry["sk"])) if indexed else entry
            if row is None or not _matches(listed, query, row, entry.get("sort_time")):
                continue
            size += len(row["doc"].encode())
            if full or (size > BYTES and found):
                return Page(found, cursor(found[-1]))
            found.append(row)
        examined += sum(_LOOK if entry is None else 1 for entry in chunk)
        if found and examined >= EXAMINED:
            return Page(found, cursor(found[-1]))
        if not found and seconds_left(SECONDS) <= 0:
            raise Unavailable("nothing found in time")


def _by_id(scope: Scope, listed: Listed, query: Query, pk: str) -> Iterator[table.Row | None]:
    limit = query.limit + 1
    if query.forward:
        cursor = query.starting_after
        after = None if cursor is None else ids.after(listed.prefix, _checked_cursor(listed, cursor))
        return _rows(table.query(pk, at_least=after, limit=limit, then=_NEXT, forward=True))
    most = _most(query.most_id, _before_id, scope, listed, query)
    return _rows(table.query(pk, at_least=query.least_id, at_most=most, limit=limit, then=_NEXT))


def _by_index(scope: Scope, listed: Listed, query: Query) -> Iterator[table.Row | None]:
    if query.by_time:
        order, least, most = "sort_time", query.least_time, _most(query.most_time, _before_time, scope, listed, query)
    else:
        order, least, most = "sk", query.least_id, _most(query.most_id, _before_id, scope, listed, query)
    conditions = [
        [_Walk(partition, index, order, least, query.limit + 1) for partition in partitions]
        for index, partitions in _conditions(scope, listed, query)
    ]
    return _common(listed, conditions, order, most)


def _conditions(scope: Scope, listed: Listed, query: Query) -> list[tuple[str, list[str]]]:
    """The indexes to be walked, the most selective first, and the partitions of each that are meant."""
    order = "t" if query.by_time else "f"
    if not query.wanted:
        return [(f"{order}0", [scope.pk(listed.kind)])]
    found = []
    for slots in _covering(listed, query.wanted):
        values = itertools.product(*(query.wanted[slot] for slot in slots))
        partitions = [listed.partition(scope, slots, each) for each in values]
        found.append((f"{order}{listed.indexes.index(slots) + 1}", partitions))
    return found


def _covering(listed: Listed, wanted: Collection[str]) -> list[tuple[str, ...]]:
    """Indexes that together have all the wanted fields and no other, pairs before single ones."""
    found: list[tuple[str, ...]] = []
    left = set(wanted)
    for slots in (*listed.pairs, *((slot,) for slot in listed.slots)):
        if left.intersection(slots) and set(slots) <= set(wanted):
            found.append(slots)
            left.difference_update(slots)
    return sorted(found, key=lambda slots: min(map(listed.slots.index, slots)))


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
            self._size = _NEXT if 2 * self._seeks > self._size else self._first
        self._seeks = 0
        self.reads += 1
        pages = table.query(self._partition, index=self._index, at_least=self._least, at_most=most, limit=self._size)
        for page in pages:
            self._block.extend(page)
            if len(self._block) >= self._size:
                return
        self._ended = True


def _common(
    listed: Listed, conditions: Sequence[Sequence[_Walk]], order: str, most: str | None
) -> Iterator[table.Row | None]:
    """The entries that all conditions have, each in one of its walks; None for each look that found none.

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
        # They never rise from one to the next.
        if positions[0] == positions[-1]:
            yield entry
            time, mark, id = positions[-1].rpartition("#")
            most = f"{time}{mark}{ids.before(listed.prefix, id)}"
        elif sum(walk.reads for walk in walks) > reads:
            yield None


def _rows(pages: Iterator[list[table.Row]]) -> Iterator[table.Row | None]:
    return itertools.chain.from_iterable(pages)


def _matches(listed: Listed, query: Query, row: table.Row, sort_time: str | None) -> bool:
    """Whether a row is what an index said of it some time ago."""
    if table.expired(row):
        return False
    if query.by_time and row.get("sort_time") != sort_time:
        return False
    if not query.wanted:
        return True
    values = listed.values(json.loads(row["doc"]))
    return all(values.get(slot) in wanted for slot, wanted in query.wanted.items())


def _in_range(query: Query, entry: table.Row) -> bool:
    """Whether an entry was created in the time that is asked for."""
    return (query.least_id or "") <= entry["sk"] and (query.most_id is None or entry["sk"] <= query.most_id)


def _most(
    bound: str | None,
    before: Callable[[Scope, Listed, str], str],
    scope: Scope,
    listed: Listed,
    query: Query,
) -> str | None:
    """Where a list begins: at the bound, or behind its cursor."""
    if query.starting_after is None:
        return bound
    after = before(scope, listed, query.starting_after)
    return after if bound is None else min(bound, after)


def _checked_cursor(listed: Listed, cursor: str) -> str:
    if not ids.is_id(listed.prefix, cursor):
        raise _cursor_invalid()
    return cursor


def _before_id(scope: Scope, listed: Listed, cursor: str) -> str:
    return ids.before(listed.prefix, _checked_cursor(listed, cursor))


def _before_time(scope: Scope, listed: Listed, cursor: str) -> str:
    if ids.is_id(listed.prefix, cursor):
        row = listed.row(scope, cursor)
        # An id that never was a row stands where its own time stands.
        time = (
            clock.iso(min(ids.instant(listed.prefix, cursor), clock.LAST))
            if row is None
            else json.loads(row["doc"])[listed.ordered_by]
        )
        return f"{time}#{ids.before(listed.prefix, cursor)}"
    try:
        time, _, id = base64.urlsafe_b64decode(cursor.encode("ascii") + b"==").decode("ascii").partition("#")
        own = _time_cursor({"sort_time": f"{clock.iso(clock.parse(time))}#{id}"})
    except (ValueError, binascii.Error) as error:
        raise _cursor_invalid() from error
    # Only what this list gave out: any other spelling would be compared wrongly.
    if own != cursor or not ids.is_id(listed.prefix, id):
        raise _cursor_invalid()
    return f"{time}#{ids.before(listed.prefix, id)}"


def _id_cursor(row: table.Row) -> str:
    return str(row["sk"])


def _time_cursor(row: table.Row) -> str:
    return base64.urlsafe_b64encode(row["sort_time"].encode()).decode().rstrip("=")


def _cursor_invalid() -> ApiError:
    return ApiError("cursor_invalid", param="starting_after")


def _order(text: str) -> str:
    if text not in ("asc", "desc"):
        raise ApiError("parameter_invalid", "order must be asc or desc.", param="order")
    return text


def _limit(text: str) -> int:
    if not _INTEGER.fullmatch(text.strip()):
        raise ApiError("parameter_invalid_integer", "limit must be an integer.", param="limit")
    negative, digits = text.strip().startswith("-"), text.strip().lstrip("+-").lstrip("0")
    # No int() of what may have thousands of digits.
    number = int(digits or "0") if len(digits) < 4 else MOST
    return 1 if negative else max(1, min(MOST, number))


def _parsed(name: str, text: str, parse: Callable[[str], tuple[str, str]]) -> tuple[str, str]:
    try:
        return parse(text)
    except PydanticCustomError as error:
        raise ApiError(error.type, error.message(), param=name) from error


def _id_range(listed: Listed, given: Mapping[str, list[str]]) -> tuple[str | None, str | None]:
    least, most = [], []
    for word, param, text in _bounds(listed.created, given):
        # The first instant that the text names, and the first behind it: a second is a thousand instants.
        start, end = _created_second(param, text) if listed.created == "created" else _created_instant(param, text)
        if word in ("gt", "gte"):
            least.append(ids.first_of(listed.prefix, end if word == "gt" else start))
        else:
            most.append(ids.before(listed.prefix, ids.first_of(listed.prefix, start if word == "lt" else end)))
    return max(least, default=None), min(most, default=None)


def _time_range(listed: Listed, given: Mapping[str, list[str]]) -> tuple[str | None, str | None]:
    least, most = [], []
    for word, param, text in _bounds(listed.ordered_by, given):
        time = clock.iso(_instant(param, text))
        if word in ("gt", "gte"):
            least.append(time + _AFTER_EVERY_ID if word == "gt" else time)
        else:
            most.append(time if word == "lt" else time + _AFTER_EVERY_ID)
    return max(least, default=None), min(most, default=None)


def _bounds(name: str | None, given: Mapping[str, list[str]]) -> Iterator[tuple[str, str, str]]:
    for word in _COMPARISONS:
        param = f"{name}[{word}]"
        if param in given:
            yield word, param, given[param][0]


def _created_instant(param: str, text: str) -> tuple[int, int]:
    instant = _instant(param, text)
    return instant, instant + 1


def _created_second(param: str, text: str) -> tuple[int, int]:
    if not _INTEGER.fullmatch(text) or len(text) > 15:
        raise ApiError("parameter_invalid_integer", f"{param} must be a time in Unix seconds.", param=param)
    return int(text) * clock.SECOND, (int(text) + 1) * clock.SECOND


def _instant(param: str, text: str) -> int:
    # A "+" that a client left unescaped in the query arrives as a space.
    unescaped = re.sub(r" (\d\d:?\d\d)$", r"+\1", text)
    return int(_parsed(param, unescaped, lambda value: ("", str(fields.instant(value))))[1])
