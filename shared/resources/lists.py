"""Lists: query parameters, cursors and the envelope (specification, "Pagination"; contract 3).

`shared/resources/walks.py` reads the rows of a page.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic_core import PydanticCustomError

from shared.core import clock, ids, table
from shared.core.errors import ApiError
from shared.resources import fields

if TYPE_CHECKING:
    from shared.resources.collections import Collection

DEFAULT_LIMIT = 20
LONGEST_PAGE = 100
_COMPARISONS = ("gt", "gte", "lt", "lte")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_AFTER_EVERY_ID = "#~"  # sorts behind "#" and any id

D = TypeVar("D")


def one_of(slot: str, known: Sequence[str]) -> Callable[[str], tuple[str, str]]:
    """A filter by a field with known values."""

    def parse(text: str) -> tuple[str, str]:
        if text not in known:
            message = "{slot} must be one of {known}."
            raise PydanticCustomError("parameter_invalid", message, {"slot": slot, "known": ", ".join(known)})
        return slot, text

    return parse


@dataclass(frozen=True)
class Query:
    """The query of a list, validated: `wanted` values by slot, bounds on id and time (inclusive)."""

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


@dataclass(frozen=True)
class Page(Generic[D]):
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


def parameters(collection: Collection[Any, Any]) -> frozenset[str]:
    """The names of all query parameters that the list takes."""
    ranged = (name for name in (collection.created, collection.ordered_by) if name)
    ranges = [f"{name}[{comparison}]" for name in ranged for comparison in _COMPARISONS]
    order = ["order"] if collection.ordered else []
    return frozenset(("limit", "starting_after", *order, *collection.filters, *ranges))


def parse(collection: Collection[Any, Any], values: Mapping[str, list[str]]) -> Query:
    """The query parameters of a list, validated. Raises ApiError."""
    wanted: dict[str, tuple[str, ...]] = {}
    for name, texts in values.items():
        if len(texts) > 1 and name not in collection.repeatable:
            raise ApiError("parameter_invalid", f"{name} was given more than once.", param=name)
        if name in collection.filters:
            for text in texts:
                slot, value = _parsed(name, text, collection.filters[name])
                wanted[slot] = tuple(dict.fromkeys((*wanted.get(slot, ()), value)))
    least_id, most_id = _id_range(collection, values)
    least_time, most_time = _time_range(collection, values)
    return Query(
        limit=_limit(values.get("limit", [str(DEFAULT_LIMIT)])[0]),
        starting_after=values.get("starting_after", [None])[0],
        wanted=wanted,
        least_id=least_id,
        most_id=most_id,
        least_time=least_time,
        most_time=most_time,
        forward=collection.ordered and _order(values.get("order", ["asc"])[0]) == "asc",
    )


def id_cursor(row: table.Row) -> str:
    """The cursor of a list by id that continues behind this row."""
    return str(row["sk"])


def time_cursor(row: table.Row) -> str:
    """The cursor of a list by time that continues behind this row."""
    return base64.urlsafe_b64encode(row["sort_time"].encode()).decode().rstrip("=")


def id_of_cursor(collection: Collection[Any, Any], cursor: str) -> str:
    """The id that a cursor of a list by id is. Raises `cursor_invalid`."""
    if not ids.is_id(collection.prefix, cursor):
        raise cursor_invalid()
    return cursor


def time_of_cursor(collection: Collection[Any, Any], cursor: str) -> tuple[str, str]:
    """Time and id in a cursor that `time_cursor` made. Raises `cursor_invalid`."""
    try:
        time, _, id = base64.urlsafe_b64decode(cursor.encode("ascii") + b"==").decode("ascii").partition("#")
        canonical = time_cursor({"sort_time": f"{clock.iso(clock.parse(time))}#{id}"})
    except (ValueError, binascii.Error) as error:
        raise cursor_invalid() from error
    # Any other spelling would be compared wrongly.
    if canonical != cursor or not ids.is_id(collection.prefix, id):
        raise cursor_invalid()
    return time, id


def cursor_invalid() -> ApiError:
    """The error for a `starting_after` that is no cursor of the list."""
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
    number = int(digits or "0") if len(digits) < 4 else LONGEST_PAGE
    return 1 if negative else max(1, min(LONGEST_PAGE, number))


def _parsed(name: str, text: str, parse: Callable[[str], tuple[str, str]]) -> tuple[str, str]:
    try:
        return parse(text)
    except PydanticCustomError as error:
        raise ApiError(error.type, error.message(), param=name) from error


def _id_range(collection: Collection[Any, Any], values: Mapping[str, list[str]]) -> tuple[str | None, str | None]:
    least, most = [], []
    for comparison, param, text in _bounds(collection.created, values):
        # The first instant that the text names, and the first behind it: a second is a thousand instants.
        start, end = _created_second(param, text) if collection.created == "created" else _created_instant(param, text)
        if comparison in ("gt", "gte"):
            least.append(ids.first_of(collection.prefix, end if comparison == "gt" else start))
        else:
            most.append(
                ids.before(collection.prefix, ids.first_of(collection.prefix, start if comparison == "lt" else end))
            )
    return max(least, default=None), min(most, default=None)


def _time_range(collection: Collection[Any, Any], values: Mapping[str, list[str]]) -> tuple[str | None, str | None]:
    least, most = [], []
    for comparison, param, text in _bounds(collection.ordered_by, values):
        time = clock.iso(_instant(param, text))
        if comparison in ("gt", "gte"):
            least.append(time + _AFTER_EVERY_ID if comparison == "gt" else time)
        else:
            most.append(time if comparison == "lt" else time + _AFTER_EVERY_ID)
    return max(least, default=None), min(most, default=None)


def _bounds(name: str | None, values: Mapping[str, list[str]]) -> Iterator[tuple[str, str, str]]:
    for comparison in _COMPARISONS:
        param = f"{name}[{comparison}]"
        if param in values:
            yield comparison, param, values[param][0]


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
