"""Rows of public resources: a document, its version, and the request that last wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.core import clock, ids, table
from shared.core.errors import not_found
from shared.core.keys import Scope
from shared.resources import fields
from shared.resources.lists import Listed

Document = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """A resource as read: its document, its version, and the row's internal attributes."""

    doc: Document
    version: int
    row: table.Row = field(repr=False)


def new(listed: Listed, scope: Scope, **values: Any) -> Document:
    """The document of a new resource: id, object, mode and times, then `values`."""
    now = clock.now()
    times = {"created_at": clock.iso(now), "updated_at": clock.iso(now)}
    return {"id": ids.new(listed.prefix, now), "object": listed.kind, "livemode": scope.livemode} | times | values


def find(listed: Listed, scope: Scope, id: str) -> Found:
    """The resource with this id, deleted ones that are kept included. Raises `resource_not_found`."""
    row = listed.row(scope, id) if ids.is_id(listed.prefix, id) else None
    if row is None:
        raise not_found(listed.kind.replace("_", " "), id)
    return of_row(row)


def of_row(row: table.Row) -> Found:
    """The resource in a row."""
    return Found(json.loads(row["doc"]), row["v"], row)


def insertion(listed: Listed, scope: Scope, doc: Document, **internal: table.Value) -> table.Put:
    """The write that creates a resource."""
    row = {"pk": scope.pk(listed.kind), "sk": doc["id"], "kind": listed.kind, "v": 1, "doc": fields.compact(doc)}
    return table.Put(row | listed.index(scope, doc) | internal)


def change(
    listed: Listed,
    scope: Scope,
    found: Found,
    doc: Document,
    *,
    internal: Mapping[str, table.Value | None] | None = None,
) -> table.Update:
    """The write that makes `doc` the resource's document, unless another came between."""
    attributes: dict[str, table.Value | None] = {"doc": fields.compact(doc), "v": found.version + 1}
    attributes |= {**listed.index(scope, doc), **(internal or {})}
    return table.Update(
        scope.pk(listed.kind),
        doc["id"],
        set=attributes,
        condition="v = :v",
        values={":v": found.version},
    )


def deletion(listed: Listed, scope: Scope, found: Found, doc: Document) -> tuple[table.Delete, table.Put]:
    """The writes that move a resource, with `doc` as its document, to the deleted ones, unless another came between.

    The new row keeps the document as it was `before`: the change's event is derived from this row alone.
    """
    row = {
        "pk": listed.deleted_pk(scope),
        "sk": doc["id"],
        "kind": f"deleted_{listed.kind}",
        "v": found.version + 1,
        "doc": fields.compact(doc),
        "before": found.row["doc"],
    }
    gone = table.Delete(scope.pk(listed.kind), doc["id"], condition="v = :v", values={":v": found.version})
    return gone, table.Put(row)


def touched(before: Document, changes: Mapping[str, Any]) -> Document:
    """`before` with the changes and a new `updated_at`; `before` itself where nothing differs."""
    if all(same(before[name], value) for name, value in changes.items()):
        return before
    # A clock that was set back must not take the resource back in time.
    now = max(clock.now(), clock.parse(before["updated_at"]))
    return {**before, **changes, "updated_at": clock.iso(now)}


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same; True is not 1, and 1.0 is not 1."""
    return fields.canonical(one) == fields.canonical(other)
