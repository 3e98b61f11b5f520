"""Lists: parameters, the walk over rows, and the envelope (specification, "Pagination"; contract 3).

A list without filters walks the base table and sees every write. A filter walks the index of the most
selective field given and reads the rows found, so a page costs the same in a table of any size; which
rows it finds may lag by about a second. A page examines at most 1,000 rows and ends before 4 MB.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import PydanticCustomError

from shared import clock, fields, ids, table
from shared.errors import ApiError
from shared.keys import Scope

DEFAULT_LIMIT = 20
MOST = 100
EXAMINED = 1_000
BYTES = 4_000_000
_BATCH = 100
_NEXT = 200  # rows a further call reads, where the first were not enough
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

    `slots` are the indexed fields, most selective first; the position gives the index. `filters` maps a
    query parameter to a function from its text to (slot, value); those in `repeatable` may be given
    more than once, meaning any of the values. `ordered_by` is a time field with indexes of its own.
    `ordered` lists take `order`, oldest first unless it is `desc`.
    `created` names the parameter of the creation time's range, `values` reads the slots of a document.
    """

    kind: str
    prefix: str
    slots: tuple[str, ...] = ()
    filters: Mapping[str, Callable[[str], tuple[str, str]]] = field(default_factory=dict)
    repeatable: frozenset[str] = frozenset()
    ordered_by: str | None = None
    ordered: bool = False
    created: str | None = "created_at"
    values: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda doc: doc

    @property
    def parameters(self) -> frozenset[str]:
        """All query parameters that the list takes."""
        ranges = [f"{name}[{word}]" for name in (self.created, self.ordered_by) if name for word in _COMPARISONS]
        return frozenset(("limit", "starting_after", *(["order"] if self.ordered else []), *self.filters, *ranges))

    def index(self, scope: Scope, doc: Mapping[str, Any], hidden: bool = False) -> dict[str, str | None]:
        """The index attributes of a row; None for those it must not have."""
        values = {} if hidden else self.values(doc)
        found: dict[str, str | None] = {}
        for number, slot in enumerate(self.slots, start=1):
            value = values.get(slot)
            partition = None if value is None else scope.index(self.kind, slot, str(value))
            found[f"f{number}"] = partition
            if self.ordered_by:
                found[f"t{number}"] = partition
        if self.ordered_by:
            found["t0"] = None if hidden else scope.pk(self.kind)
            found["sort_time"] = None if hidden else f"{doc[self.ordered_by]}#{doc['id']}"
        return found


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


def page(scope: Scope, listed: Listed, query: Query, base: str | None = None) -> Page:
    """One page, newest first unless the query asks otherwise.

    `base` is the partition to walk where it is not the kind's own.
    """
    indexed = query.by_time or bool(query.wanted)
    cursor = _time_cursor if query.by_time else _id_cursor
    if query.by_time:
        walk = _by_time(scope, listed, query)
    elif query.wanted:
        walk = _by_filter(scope, listed, query)
    else:
        walk = _by_id(base or scope.pk(listed.kind), listed, query)
    # Where one condition decides alone, an index entry behind a full page tells that there is more,
    # without a read of its row.
    alone = indexed and len(query.wanted) + query.by_time == 1 and not (query.by_time and query.by_id)
    found: list[table.Row] = []
    size = examined = 0
    while True:
        # A full page wants one look behind it, and no more than that.
        wanted = 1 if len(found) == query.limit else query.limit + 1
        chunk = list(itertools.islice(walk, min(wanted, _BATCH) if indexed else wanted))
        if not chunk:
            return Page(found, None)
        if alone and len(found) == query.limit:
            return Page(found, cursor(found[-1]))
        rows = table.get_many([(entry["pk"], entry["sk"]) for entry in chunk]) if indexed else {}
        for entry in chunk:
            examined += 1
            row = rows.get((entry["pk"], entry["sk"])) if indexed else entry
            if row is not None and _matches(listed, query, row, entry.get("sort_time")):
                size += len(row["doc"].encode())
                if len(found) == query.limit or (size > BYTES and found):
                    return Page(found, cursor(found[-1]))
                found.append(row)
            if examined == EXAMINED:
                return Page(found, cursor(entry))


def _by_id(pk: str, listed: Listed, query: Query) -> Iterator[table.Row]:
    limit = query.limit + 1
    if query.forward:
        cursor = query.starting_after
        after = None if cursor is None else ids.after(listed.prefix, _checked_cursor(listed, cursor))
        return _rows(table.query(pk, at_least=after, limit=limit, then=_NEXT, forward=True))
    return _rows(table.query(pk, at_least=query.least_id, at_most=_most_id(listed, query), limit=limit, then=_NEXT))


def _by_filter(scope: Scope, listed: Listed, query: Query) -> Iterator[table.Row]:
    slot = next(slot for slot in listed.slots if slot in query.wanted)
    partitions = [scope.index(listed.kind, slot, value) for value in query.wanted[slot]]
    index = f"f{listed.slots.index(slot) + 1}"
    return _merged(partitions, index, query.least_id, _most_id(listed, query), query.limit, "sk")


def _by_time(scope: Scope, listed: Listed, query: Query) -> Iterator[table.Row]:
    most = query.most_time
    if query.starting_after is not None:
        after = _before_cursor(scope, listed, query.starting_after)
        most = after if most is None else min(most, after)
    partitions, number = [scope.pk(listed.kind)], 0
    slot = next((slot for slot in listed.slots if slot in query.wanted), None)
    if slot is not None:
        partitions = [scope.index(listed.kind, slot, value) for value in query.wanted[slot]]
        number = listed.slots.index(slot) + 1
    return _merged(partitions, f"t{number}", query.least_time, most, query.limit, "sort_time")


def _merged(
    partitions: list[str], index: str, least: str | None, most: str | None, limit: int, order: str
) -> Iterator[table.Row]:
    walks = [
        _rows(table.query(partition, index=index, at_least=least, at_most=most, limit=limit + 1, then=_NEXT))
        for partition in partitions
    ]
    return heapq.merge(*walks, key=lambda entry: entry[order], reverse=True)


def _rows(pages: Iterator[list[table.Row]]) -> Iterator[table.Row]:
    return itertools.chain.from_iterable(pages)


def _matches(listed: Listed, query: Query, row: table.Row, sort_time: str | None) -> bool:
    if row.get("deleted") or table.expired(row):
        return False
    if query.by_time and row.get("sort_time") != sort_time:
        return False
    if query.least_id is not None and row["sk"] < query.least_id:
        return False
    if query.most_id is not None and row["sk"] > query.most_id:
        return False
    if not query.wanted:
        return True
    values = listed.values(json.loads(row["doc"]))
    return all(values.get(slot) in wanted for slot, wanted in query.wanted.items())


def _most_id(listed: Listed, query: Query) -> str | None:
    if query.starting_after is None:
        return query.most_id
    after = ids.before(listed.prefix, _checked_cursor(listed, query.starting_after))
    return after if query.most_id is None else min(query.most_id, after)


def _checked_cursor(listed: Listed, cursor: str) -> str:
    if not ids.is_id(listed.prefix, cursor):
        raise _cursor_invalid()
    return cursor


def _before_cursor(scope: Scope, listed: Listed, cursor: str) -> str:
    if ids.is_id(listed.prefix, cursor):
        row = table.get(scope.pk(listed.kind), cursor)
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
