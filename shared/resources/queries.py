"""Queries: the parameters of a list, its cursors and its envelope (promises 3).

`shared/resources/list_pages.py` reads the rows of a page.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic_core import PydanticCustomError

from shared.core import clock, ids
from shared.core.errors import ApiError, Code
from shared.resources import fields
from shared.resources.collections import Collection
from shared.store import table

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
ORDERS = ("asc", "desc")
COMPARISONS = ("gt", "gte", "lt", "lte")
"""The bounds of a range parameter, such as `created_at[gte]`."""
_FAR = 10**15
_INTEGER = re.compile(r"[+-]?[0-9]+")
_AFTER_EVERY_ID = "#~"  # sorts after "#" and any id

D = TypeVar("D")


@dataclass(frozen=True)
class Query:
    """The validated query of a list: the `filters` (accepted values by field), and inclusive bounds of id and time."""

    limit: int
    starting_after: str | None
    filters: Mapping[str, tuple[str, ...]]
    min_id: str | None = None
    max_id: str | None = None
    min_time: str | None = None
    max_time: str | None = None
    forward: bool = False

    @property
    def by_time(self) -> bool:
        """Whether the list is ordered by its time field."""
        return self.min_time is not None or self.max_time is not None


@dataclass(frozen=True)
class Page(Generic[D]):
    """The rows of a page. `next_cursor` is None on the last page.

    `D` is the type of their documents, which are not parsed. The API description has it from `Response[Page[D]]`.
    """

    rows: list[table.Row]
    next_cursor: str | None

    def envelope(self, url: str, docs: list[str] | None = None) -> str:
        """The list envelope as JSON (promises 3). `docs` replaces the documents of the rows."""
        data = ",".join([row["doc"] for row in self.rows] if docs is None else docs)
        more = "true" if self.next_cursor else "false"
        return (
            f'{{"object":"list","url":{json.dumps(url)},"data":[{data}],"has_more":{more}'
            f',"next_cursor":{json.dumps(self.next_cursor)}}}'
        )


def parameters(collection: Collection[Any, Any]) -> frozenset[str]:
    """The names of all query parameters of the list."""
    times = (name for name in (collection.parameters.created, collection.indexes.time_field) if name)
    ranges = [f"{name}[{comparison}]" for name in times for comparison in COMPARISONS]
    order = ["order"] if collection.parameters.takes_order else []
    return frozenset(("limit", "starting_after", *order, *collection.parameters.filters, *ranges))


def parse(collection: Collection[Any, Any], values: Mapping[str, list[str]]) -> Query:
    """Validate the query parameters of a list. Raises ApiError."""
    filters: dict[str, tuple[str, ...]] = {}
    for name, texts in values.items():
        if len(texts) > 1 and name not in collection.parameters.repeatable:
            raise ApiError(Code.PARAMETER_INVALID, f"{name} can be sent only once.", param=name)
        if name in collection.parameters.filters:
            field, accepted = "", dict[str, None]()
            for text in texts:
                field, *matching = _parse(name, text, collection.parameters.filters[name])
                accepted.update(dict.fromkeys(matching))
            # Two parameters may filter by one field: a row must match both.
            filters[field] = tuple(value for value in accepted if value in filters.get(field, accepted))
    min_id, max_id = _id_range(collection, values)
    min_time, max_time = _time_range(collection, values)
    return Query(
        limit=_limit(values.get("limit", [str(DEFAULT_LIMIT)])[0]),
        starting_after=values.get("starting_after", [None])[0],
        filters=filters,
        min_id=min_id,
        max_id=max_id,
        min_time=min_time,
        max_time=max_time,
        forward=collection.parameters.takes_order and _order(values.get("order", ["asc"])[0]) == "asc",
    )


def time_cursor(row: table.Row) -> str:
    """The cursor of a list by time that continues after this row."""
    return base64.urlsafe_b64encode(row["sort_time"].encode()).decode().rstrip("=")


def id_of_cursor(collection: Collection[Any, Any], cursor: str) -> str:
    """Validate a cursor of a list by id, which is an id. Raises `cursor_invalid`."""
    if not ids.is_id(collection.prefix, cursor):
        raise cursor_invalid()
    return cursor


def time_of_cursor(collection: Collection[Any, Any], cursor: str) -> tuple[str, str]:
    """The time and the id of a cursor that `time_cursor` encoded. Raises `cursor_invalid`."""
    try:
        time, _, id = base64.urlsafe_b64decode(cursor.encode("ascii") + b"==").decode("ascii").partition("#")
        canonical = time_cursor({"sort_time": f"{clock.iso(clock.parse(time))}#{id}"})
    except (ValueError, binascii.Error) as error:
        raise cursor_invalid() from error
    # Another encoding of the same position would be compared incorrectly.
    if canonical != cursor or not ids.is_id(collection.prefix, id):
        raise cursor_invalid()
    return time, id


def cursor_invalid() -> ApiError:
    """The error for a `starting_after` that is not a cursor of the list."""
    return ApiError(Code.CURSOR_INVALID, param="starting_after")


def _order(text: str) -> str:
    if text not in ORDERS:
        raise ApiError(Code.PARAMETER_INVALID, "order must be asc or desc.", param="order")
    return text


def _limit(text: str) -> int:
    if not _INTEGER.fullmatch(text.strip()):
        raise ApiError(Code.PARAMETER_INVALID_INTEGER, "limit must be an integer.", param="limit")
    negative, digits = text.strip().startswith("-"), text.strip().lstrip("+-").lstrip("0")
    # int() must not parse a number with thousands of digits.
    number = int(digits or "0") if len(digits) < 4 else MAX_LIMIT
    return 1 if negative else max(1, min(MAX_LIMIT, number))


def _parse(name: str, text: str, parse: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
    try:
        return parse(text)
    except PydanticCustomError as error:
        raise ApiError(Code(error.type), error.message(), param=name) from error


def _id_range(collection: Collection[Any, Any], values: Mapping[str, list[str]]) -> tuple[str | None, str | None]:
    lower, upper = [], []
    created = collection.parameters.created
    for comparison, param, text in _bounds(created, values):
        # The time in `text` is the interval from `start` to before `end`: a second has 1,000 milliseconds.
        start, end = _created_second(param, text) if created == "created" else _created_instant(param, text)
        if comparison in ("gt", "gte"):
            lower.append(ids.first_of(collection.prefix, end if comparison == "gt" else start))
        else:
            upper.append(
                ids.before(collection.prefix, ids.first_of(collection.prefix, start if comparison == "lt" else end))
            )
    return max(lower, default=None), min(upper, default=None)


def _time_range(collection: Collection[Any, Any], values: Mapping[str, list[str]]) -> tuple[str | None, str | None]:
    lower, upper = [], []
    for comparison, param, text in _bounds(collection.indexes.time_field, values):
        time = clock.iso(_instant(param, text))
        if comparison in ("gt", "gte"):
            lower.append(time + _AFTER_EVERY_ID if comparison == "gt" else time)
        else:
            upper.append(time if comparison == "lt" else time + _AFTER_EVERY_ID)
    return max(lower, default=None), min(upper, default=None)


def _bounds(name: str | None, values: Mapping[str, list[str]]) -> Iterator[tuple[str, str, str]]:
    for comparison in COMPARISONS:
        param = f"{name}[{comparison}]"
        if param in values:
            yield comparison, param, values[param][0]


def _created_instant(param: str, text: str) -> tuple[clock.Instant, clock.Instant]:
    instant = _instant(param, text)
    return instant, instant + 1


def _created_second(param: str, text: str) -> tuple[clock.Instant, clock.Instant]:
    if not _INTEGER.fullmatch(text):
        raise ApiError(Code.PARAMETER_INVALID_INTEGER, f"{param} must be a time in Unix seconds.", param=param)
    # int() must not parse a number with thousands of digits. No event is that early or late.
    second = int(text) if len(text) <= 15 else -_FAR if text.startswith("-") else _FAR
    start = clock.of_unix(clock.UnixSeconds(second))
    return start, start + clock.SECOND


def _instant(param: str, text: str) -> clock.Instant:
    # A client may send an unescaped "+" in the query, which is decoded as a space.
    unescaped = re.sub(r" (\d\d:?\d\d)$", r"+\1", text)
    return clock.Instant(_parse(param, unescaped, lambda value: ("", str(fields.instant(value))))[1])
