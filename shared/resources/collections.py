"""Collections: the resources of one type, of all projects, and the only way to their rows.

Every read and write takes the project and mode first (`Scope`); there is no unscoped finder. `insert`, `update` and
`delete` return the writes of a transaction and perform none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from shared.core import clock, ids, table
from shared.core.errors import not_found
from shared.core.keys import Scope
from shared.resources import fields, lists, walks
from shared.resources.lists import Page, Query

D = TypeVar("D", bound=Mapping[str, Any])
R = TypeVar("R", bound=Mapping[str, Any])


@dataclass(frozen=True)
class Record(Generic[D, R]):
    """A resource as it was read: its document and its row, with the internal attributes."""

    doc: D
    row: R = field(repr=False)

    @property
    def version(self) -> int:
        """The row's version, on condition of which it is written."""
        return int(self.row["v"])

    @property
    def json(self) -> str:
        """The document as JSON text, as it is stored."""
        return str(self.row["doc"])


@dataclass(frozen=True)
class Collection(Generic[D, R]):
    """The resources of one type: documents of type `D` in rows of type `R`.

    `slots` are the indexed fields, most selective first; the position gives the index. `filters` maps a query
    parameter to a function from its text to (slot, value); those in `repeatable` may be given more than once,
    meaning any of the values. `ordered_by` is a time field with indexes of its own. `ordered` lists take `order`,
    oldest first unless it is `desc`. `created` names the parameter of the creation time's range, `values` reads the
    slots of a document. If the collection `keeps_deleted`, a deleted row moves to a partition of its own, where lists
    do not walk, and can still be read by its id.
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
    keeps_deleted: bool = False

    @property
    def parameters(self) -> frozenset[str]:
        """The names of all query parameters that the list takes."""
        return lists.parameters(self)

    def query(self, values: Mapping[str, list[str]]) -> Query:
        """The query parameters of a list, validated. Raises ApiError."""
        return lists.parse(self, values)

    def page(
        self,
        scope: Scope,
        query: Query,
        *,
        partition: str | None = None,
        seconds_left: Callable[[float], float] = float,
    ) -> Page[D]:
        """One page, newest first unless the query asks otherwise; never an empty one while more follows.

        `partition` is the one to walk if it is not the collection's own. `seconds_left` says what is left of a window
        that began with the request (`Request.seconds_left`). Raises Unavailable if nothing was found in that time.
        """
        return walks.read_page(scope, self, query, partition or scope.pk(self.kind), seconds_left)

    def find(self, scope: Scope, id: str) -> Record[D, R]:
        """The resource with this id, a deleted one that is kept included. Raises `resource_not_found`."""
        row = self.row(scope, id) if ids.is_id(self.prefix, id) else None
        if row is None:
            raise not_found(self.kind.replace("_", " "), id)
        return self.record(row)

    def record(self, row: table.Row) -> Record[D, R]:
        """The resource in a row."""
        return Record(cast("D", json.loads(row["doc"])), cast("R", row))

    def row(self, scope: Scope, id: str) -> table.Row | None:
        """The row with this id, a deleted one that is kept included; None if there is none."""
        row = table.get(scope.pk(self.kind), id)
        return self.deleted_row(scope, id) if row is None and self.keeps_deleted else row

    def deleted_row(self, scope: Scope, id: str) -> table.Row | None:
        """The row with this id if it was deleted. A row that is deleted never comes back."""
        return table.get(self._deleted_pk(scope), id)

    def new(self, scope: Scope, **values: Any) -> D:
        """The document of a new resource: id, object, mode and times, then `values`."""
        now = clock.now()
        times = {"created_at": clock.iso(now), "updated_at": clock.iso(now)}
        head = {"id": ids.new(self.prefix, now), "object": self.kind, "livemode": scope.livemode}
        return cast("D", head | times | values)

    def insert(self, scope: Scope, doc: D, **internal: table.Value | None) -> table.Put:
        """The write that creates a resource, with these internal attributes."""
        row = {"pk": scope.pk(self.kind), "sk": doc["id"], "kind": self.kind, "v": 1, "doc": fields.to_json(doc)}
        return table.Put(row | self.index(scope, doc) | internal)

    def update(
        self,
        scope: Scope,
        record: Record[D, R],
        doc: D,
        internal: Mapping[str, table.Value | None] | None = None,
    ) -> table.Update:
        """The write that makes `doc` the resource's document, on condition that it did not change since it was read.

        `internal` attributes are set, or removed if they are None.
        """
        changes: dict[str, table.Value | None] = {"doc": fields.to_json(doc), "v": record.version + 1}
        return table.Update(
            scope.pk(self.kind),
            doc["id"],
            set=changes | self.index(scope, doc) | dict(internal or {}),
            condition="v = :v",
            values={":v": record.version},
        )

    def delete(self, scope: Scope, record: Record[D, R], doc: D) -> tuple[table.Delete, table.Put]:
        """The writes that move a resource, with `doc` as its document, to the deleted ones.

        They hold on condition that it did not change since it was read. The new row keeps the document as it was
        `before`: the event of the deletion is derived from this row alone.
        """
        row = {
            "pk": self._deleted_pk(scope),
            "sk": doc["id"],
            "kind": f"deleted_{self.kind}",
            "v": record.version + 1,
            "doc": fields.to_json(doc),
            "before": record.json,
        }
        delete = table.Delete(scope.pk(self.kind), doc["id"], condition="v = :v", values={":v": record.version})
        return delete, table.Put(row)

    def index(self, scope: Scope, doc: Mapping[str, Any]) -> dict[str, str | None]:
        """The index attributes of a row; None for those it must not have."""
        values = self.values(doc)
        attributes: dict[str, str | None] = {}
        for number, slot in enumerate(self.slots, start=1):
            value = values.get(slot)
            partition = None if value is None else scope.index(self.kind, slot, str(value))
            attributes[f"f{number}"] = partition
            if self.ordered_by:
                attributes[f"t{number}"] = partition
        if self.ordered_by:
            attributes["t0"] = scope.pk(self.kind)
            attributes["sort_time"] = f"{doc[self.ordered_by]}#{doc['id']}"
        return attributes

    def _deleted_pk(self, scope: Scope) -> str:
        return scope.pk(f"deleted_{self.kind}")
