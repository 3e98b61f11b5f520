"""The API requests of a project and mode in the last day, from the lines that they leave in the log.

A request's row is written after its response, by another function, and only on stages with the setting `request_log`.
It has what the line has: neither bodies nor values of parameters, so no personal data. The text of an error is that of
its code, with the name of the parameter at fault.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from shared.core import clock, ids
from shared.core.metrics import REQUEST_LINE
from shared.store import table
from shared.store.keys import Scope

PREFIX = "req_"
KEPT_MS = clock.DAY
"""How long requests are kept."""
_MOST_READ = 300
"""The requests that are read for one page with a filter."""
_BLOCK = 250
"""The requests that are read together after the first ones of a page."""


@dataclass(frozen=True)
class LoggedRequest:
    """A request. `code` is the error code of its response; None for a success. `route` is the path's pattern.

    `param` is the parameter at fault, as far as it is a name of the API's (`ApiError.field`).
    """

    id: str
    method: str
    route: str
    status: int
    code: str | None
    param: str | None
    key_id: str
    duration_ms: float

    @property
    def at(self) -> str:
        """When it began."""
        return clock.iso(ids.created_at(PREFIX, self.id))


@dataclass(frozen=True)
class RequestPage:
    """Requests, newest first. `cursor` is the `starting_after` of the next page; None on the last page."""

    requests: list[LoggedRequest]
    cursor: str | None


def save(line: str) -> None:
    """Store the request of a log line, once however often the line arrives. Other lines are left out."""
    row = row_of(line)
    if row is not None:
        table.write([table.Put(row, table.ALWAYS)])


def row_of(line: str) -> table.Row | None:
    """The row of the request of a log line; None for other lines."""
    facts = _parse(line)
    if facts is None:
        return None
    id, scope = facts["request_id"], Scope(facts["project_id"], facts["livemode"])
    return {
        "pk": _pk(scope),
        "sk": id,
        "kind": "request",
        **{name: facts[name] for name in ("method", "route", "status", "code", "param", "key_id") if facts.get(name)},
        # Numbers of the table are integers.
        "duration_us": round(facts["duration_ms"] * 1000),
        "expires_at": table.expiry(ids.created_at(PREFIX, id) + KEPT_MS),
        **({"f1": _refused(scope)} if facts["status"] >= 400 else {}),
    }


def find(scope: Scope, id: str) -> LoggedRequest | None:
    """The request with this id; None if it is not known, or not any more."""
    row = table.get(_pk(scope), id) if ids.is_id(PREFIX, id) else None
    return None if row is None else _of_row(row)


def with_ids(scope: Scope, ids_of_requests: Iterable[str]) -> dict[str, LoggedRequest]:
    """The requests with these ids that are stored, by id."""
    rows = table.get_many([(_pk(scope), id) for id in ids_of_requests])
    return {row["sk"]: _of_row(row) for row in rows.values()}


def page(
    scope: Scope,
    limit: int,
    passes: Callable[[LoggedRequest], bool] | None,
    since: clock.Instant,
    until: clock.Instant,
    starting_after: str | None = None,
    *,
    refused: bool = False,
) -> RequestPage:
    """The requests between two instants (`until` is exclusive) that pass (None: all), newest first.

    With `refused`, only those whose response was an error, which have an index. A `starting_after` that is not the id
    of a request counts as absent. A page may be short, because few of the requests that were read pass; it has a cursor
    then.
    """
    least = ids.first_of(PREFIX, max(since, clock.now() - KEPT_MS + 1))
    most = ids.before(PREFIX, ids.first_of(PREFIX, until))
    if starting_after and ids.is_id(PREFIX, starting_after):
        most = min(most, ids.before(PREFIX, starting_after))
    rows = _rows(scope, least, most, limit + 1, refused)
    found, last = list[LoggedRequest](), None
    for row in itertools.islice(rows, _MOST_READ if passes else limit):
        last = _of_row(row)
        if passes is None or passes(last):
            found.append(last)
        if len(found) > limit:
            return RequestPage(found[:limit], found[limit - 1].id)
    return RequestPage(found, last.id if last and next(rows, None) else None)


def _rows(scope: Scope, least: str, most: str, first: int, refused: bool) -> Iterator[table.Row]:
    """The rows of requests between two ids, newest first: `first` of them, and then blocks."""
    partition, index = (_refused(scope), "f1") if refused else (_pk(scope), None)
    for block in table.query(partition, index=index, at_least=least, at_most=most, limit=first, next_limit=_BLOCK):
        yield from table.rows_of(block) if refused else block


def _parse(line: str) -> dict[str, Any] | None:
    """The fields of the line of a request with a valid API key; None for other lines."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    is_request = isinstance(fields, dict) and fields.get("message") == REQUEST_LINE and "key_id" in fields
    return fields if is_request and ids.is_id(PREFIX, fields.get("request_id", "")) else None


def _pk(scope: Scope) -> str:
    return scope.pk("request")


def _refused(scope: Scope) -> str:
    """The index partition of the requests whose response was an error. Only their rows have an index entry."""
    return scope.index("request", "refused", "")


def _of_row(row: table.Row) -> LoggedRequest:
    return LoggedRequest(
        row["sk"],
        row["method"],
        row.get("route", ""),
        row["status"],
        row.get("code"),
        row.get("param"),
        row["key_id"],
        row["duration_us"] / 1000,
    )
