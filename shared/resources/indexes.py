"""Indexes: the attributes of a row by which its resource is found, in the order of ids or of a time.

`shared/store/keys.py` says which resource has which. A list is read by them in `shared/resources/list_pages.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.core import clock
from shared.store import table
from shared.store.keys import Scope

_LATEST_MS = clock.HOUR
"""How long a resource's id continues a list from a previous time of the resource."""


@dataclass(frozen=True)
class Indexes:
    """The indexes of a resource type. A row is in the one of a field if its document has a value of it."""

    fields: tuple[str, ...] = ()
    """The indexed fields, most selective first. A field's position is the number of its index."""
    time_field: str | None = None
    """A field with a time and its own indexes. A list with a range of it is sorted by it."""
    waiting_since: Callable[[Mapping[str, Any]], str | None] | None = None
    """Returns since when a resource waits for somebody, None if it does not. Those that wait are sorted by it in t0."""
    values: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda doc: doc
    """Returns the values of the indexed fields of a document."""

    def attributes(self, scope: Scope, kind: str, doc: Mapping[str, Any]) -> dict[str, str | None]:
        """The index attributes of a row of this kind; None for attributes that the row must not have."""
        values = self.values(doc)
        attributes: dict[str, str | None] = {}
        for number, name in enumerate(self.fields, start=1):
            value = values.get(name)
            partition = None if value is None else scope.index(kind, name, str(value))
            attributes[f"f{number}"] = partition
            if self.time_field:
                attributes[f"t{number}"] = partition
        if self.time_field:
            attributes["t0"] = scope.pk(kind)
            attributes["sort_time"] = f"{doc[self.time_field]}#{doc['id']}"
        if self.waiting_since:
            since = self.waiting_since(doc)
            attributes["t0"] = None if since is None else scope.pk(kind)
            attributes["sort_time"] = None if since is None else f"{since}#{doc['id']}"
        return attributes

    def of_value(self, scope: Scope, kind: str, field: str, value: str) -> tuple[str, str]:
        """The index, and its partition, of the rows of this kind with this value of an indexed field."""
        return f"f{self.fields.index(field) + 1}", scope.index(kind, field, value)

    def latest_time(self, row: Mapping[str, Any]) -> clock.Instant:
        """The latest time that a resource has had within the last hour, as far as its row tells.

        Its id continues a list by time from there. So a client that received the resource at any of these times, and
        sends its id, misses no other resource (promises 3).
        """
        instant = clock.parse(json.loads(row["doc"])[self.time_field])
        return max(instant, row["latest_at"]) if row.get("latest_until", 0) >= clock.now() else instant

    def latest_attributes(
        self, row: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> dict[str, table.Value]:
        """The attributes that `latest_time` reads, if the document `after` has another time than `before`, the row's.

        The row keeps one time: after further changes, the latest time counts for the hour of the others too.
        """
        if self.time_field is None or after[self.time_field] == before[self.time_field]:
            return {}
        return {"latest_at": self.latest_time(row), "latest_until": clock.now() + _LATEST_MS}
