"""Collections: the usual access to the rows of a resource type.

Every method that reads or writes takes the project and mode (`Scope`) first. Those whose names end with
`_writes` execute nothing: they return the writes of a transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NotRequired, TypedDict, TypeVar, cast

from pydantic_core import from_json

from shared.core import clock, ids
from shared.core.errors import not_found
from shared.resources import fields, search
from shared.resources.documents import CommonFields
from shared.resources.filters import ListParameters
from shared.resources.indexes import Indexes
from shared.resources.search import SearchRows
from shared.store import table
from shared.store.keys import Scope

_OWNER = "customer_id"
"""The field that names the customer of a resource."""

D = TypeVar("D", bound=Mapping[str, Any])
R = TypeVar("R", bound=Mapping[str, Any])
T = TypeVar("T", bound=Mapping[str, Any])
W = TypeVar("W", bound=table.Write)

Writes = tuple[W, *tuple[table.Write, ...]]
"""The write of a resource's own row, of type `W`, and then the others, such as those of its search rows."""


class ResourceRow(TypedDict):
    """The row of a resource. Each kind adds internal attributes. `shared/store/keys.py` documents the keys."""

    pk: str
    sk: str
    """The resource's id."""
    kind: str
    doc: str
    """The resource as JSON text."""
    v: int
    """The version, from 1. Every write that changes `doc` increases it by 1."""
    found_by: NotRequired[str]
    """What its search rows were made of (`shared/resources/search.py`). Absent if it has none."""
    cause: NotRequired[str]
    """The API request that caused the last write, as far as it is known."""


@dataclass(frozen=True)
class Record(Generic[D, R]):
    """A resource as read from the table: its document, and its row with the internal attributes."""

    doc: D
    row: R = field(repr=False)

    @property
    def version(self) -> int:
        """The row's version. An update is conditional on it."""
        return int(self.row["v"])

    @property
    def json(self) -> str:
        """The document as the stored JSON text."""
        return str(self.row["doc"])


@dataclass(frozen=True)
class OldRows:
    """How a row that was written earlier is read: with every field of its resource as it is now."""

    added: Mapping[str, Any] = field(default_factory=dict)
    """Fields that rows of an earlier release do not have, with their values, or functions of the document."""
    expires: str | None = None
    """A field with a time, which is shown as null once that time has passed."""

    def complete(self, row: T) -> T:
        """The row with the document as it is now."""
        doc = from_json(row["doc"]) if self.added else {}
        missing = {name: value for name, value in self.added.items() if name not in doc}
        changes = {name: value(doc) if callable(value) else value for name, value in missing.items()}
        if self.expires is not None and (doc.get(self.expires) or "~") <= clock.iso(clock.now()):
            changes[self.expires] = None
        return cast("T", {**row, "doc": fields.to_json(doc | changes)}) if changes else row


@dataclass(frozen=True)
class Collection(Generic[D, R]):
    """The resources of one type: documents of type `D` in rows of type `R`."""

    document: type[D]
    """The type `D`."""
    kind: str
    """The rows' `kind`, and the `object` of the documents; those of deliveries have `webhook_delivery`."""
    prefix: str
    """The prefix of the ids."""
    indexes: Indexes = field(default_factory=Indexes)
    """The fields by which lists find the rows."""
    parameters: ListParameters = field(default_factory=ListParameters)
    """The query parameters of its list."""
    old_rows: OldRows = field(default_factory=OldRows)
    """How rows that were written earlier are read."""
    search_rows: SearchRows | None = None
    """By which words and digits it is found; None if it is not searched."""
    keeps_deleted: bool = False
    """Whether a deleted row moves to another partition: lists do not read it, but it can be retrieved by its id."""

    def find(self, scope: Scope, id: str, ahead: table.ReadAhead | None = None) -> Record[D, R]:
        """The resource with this id, deleted or not. `ahead` may have sent the read. Raises `resource_not_found`."""
        row = self.row(scope, id, ahead) if ids.is_id(self.prefix, id) else None
        if row is None:
            raise not_found(self.kind.replace("_", " "), id)
        return self.record(row)

    def record(self, row: Mapping[str, Any]) -> Record[D, R]:
        """The resource of a row."""
        complete = self.old_rows.complete(row)
        return Record(cast("D", from_json(complete["doc"])), cast("R", complete))

    def row(self, scope: Scope, id: str, ahead: table.ReadAhead | None = None) -> table.Row | None:
        """The row with this id, deleted or not; None if it does not exist."""
        row = table.get(scope.pk(self.kind), id, ahead)
        return self.deleted_row(scope, id) if row is None and self.keeps_deleted else row

    def deleted_row(self, scope: Scope, id: str) -> table.Row | None:
        """The row with this id if the resource is deleted, otherwise None. A deletion is final."""
        return table.get(self._deleted_pk(scope), id)

    def row_keys(self, scope: Scope, id: str) -> list[tuple[str, str]]:
        """The keys of the resource's row: before and after its deletion."""
        return [(scope.pk(self.kind), id), (self._deleted_pk(scope), id)]

    def common_fields(self, scope: Scope) -> CommonFields:
        """The first fields of a new resource: id, mode and times. The caller adds `object` and the others."""
        now = clock.now()
        times = dict.fromkeys(("created_at", "updated_at"), clock.iso(now))
        # `object` has its place here, as the second field of the JSON text.
        head = {"id": ids.new(self.prefix, now), "object": self.kind, "livemode": scope.livemode}
        return cast("CommonFields", head | times)

    def insert_writes(self, scope: Scope, doc: D, internal: table.Attributes | None = None) -> Writes[table.Put]:
        """The writes that create the resource, with these internal attributes."""
        row = {"pk": scope.pk(self.kind), "sk": doc["id"], "kind": self.kind, "v": 1, "doc": fields.to_json(doc)}
        index = self.indexes.attributes(scope, self.kind, doc)
        found_by, search_rows = self._search_changes(scope, doc)
        return table.Put({**row, **index, **found_by, **(internal or {})}), *search_rows

    def replace_writes(
        self,
        scope: Scope,
        record: Record[D, R],
        doc: D,
        internal: table.Attributes | None = None,
        condition: table.Condition = table.ALWAYS,
    ) -> Writes[table.Update]:
        """The writes that replace the resource's document by `doc`, if it has not changed since it was read.

        They also set the `internal` attributes; None removes one. A further `condition` must be true of its row.
        """
        changes: dict[str, table.Value | None] = {"doc": fields.to_json(doc), "v": record.version + 1}
        # Functions that change nothing else of a resource may not delete rows, and need not.
        is_found_anew = self.search_rows is not None and self.search_rows.differ(record.doc, doc)
        found_by, search_rows = self._search_changes(scope, doc, record) if is_found_anew else ({}, [])
        latest = self.indexes.latest_attributes(record.row, record.doc, doc)
        update = table.Update(
            scope.pk(self.kind),
            doc["id"],
            set=changes | self.indexes.attributes(scope, self.kind, doc) | latest | found_by | dict(internal or {}),
            condition=table.unchanged(record.version) & condition,
        )
        return update, *search_rows

    def after_replace(self, record: Record[D, R], update: table.Update) -> Record[D, R]:
        """The resource after this write of its row, the first one of `replace_writes`."""
        row = {**record.row, **update.set}
        return self.record({name: value for name, value in row.items() if value is not None})

    def deletion_writes(
        self,
        scope: Scope,
        record: Record[D, R],
        doc: D,
        internal: table.Attributes | None = None,
        condition: table.Condition = table.ALWAYS,
    ) -> Writes[table.Delete]:
        """The writes that move the resource, with `doc` as its document, to the partition of deleted resources.

        The resource must not have changed since it was read, and a further `condition` must be true of its row. The new
        row has only these `internal` attributes, and those of `latest_time`. It stores the previous document as
        `before`, because the event of the deletion is derived from this row alone.
        """
        row: table.Row = {
            **(internal or {}),
            "pk": self._deleted_pk(scope),
            "sk": doc["id"],
            "kind": f"deleted_{self.kind}",
            "v": record.version + 1,
            "doc": fields.to_json(doc),
            "before": record.json,
            **self._owner_index(scope, doc),
            **{name: value for name, value in record.row.items() if name in ("latest_at", "latest_until")},
        }
        delete = table.Delete(scope.pk(self.kind), doc["id"], table.unchanged(record.version) & condition)
        _, search_rows = self._search_changes(scope, doc, record)
        others: list[table.Write] = [table.Put(row), *search_rows]
        return delete, *others

    def erasure_writes(self, scope: Scope, row: table.Row) -> Writes[table.Delete]:
        """The writes that delete this row of a resource for good, if it has not changed since it was read."""
        delete = table.Delete(row["pk"], row["sk"], table.unchanged(row["v"]))
        return delete, *search.change_writes(scope, self.kind, row["sk"], row.get("found_by"), None)

    def search_row_writes(self, scope: Scope, record: Record[D, R]) -> Sequence[table.Write]:
        """The writes that give a resource the search rows that it is to have; `[]` if it has them."""
        found_by, search_rows = self._search_changes(scope, record.doc, record)
        condition = table.unchanged(record.version)
        update = table.Update(scope.pk(self.kind), record.doc["id"], set=found_by, condition=condition)
        return [update, *search_rows] if found_by else []

    def with_value(self, scope: Scope, field: str, value: str) -> tuple[str, str]:
        """The index, and its partition, of the resources with this value of an indexed field."""
        return self.indexes.of_value(scope, self.kind, field, value)

    def deleted_of(self, scope: Scope, customer_id: str) -> tuple[str, str]:
        """The index, and its partition, of a customer's deleted resources. Only resources with a customer have one."""
        return self.indexes.of_value(scope, f"deleted_{self.kind}", _OWNER, customer_id)

    def _search_changes(
        self, scope: Scope, doc: D, record: Record[D, R] | None = None
    ) -> tuple[dict[str, str | None], list[table.Write]]:
        """The attribute `found_by` for this document, and the writes of its search rows; both empty if none differs."""
        before = None if record is None else record.row.get("found_by")
        after = None if self.search_rows is None else self.search_rows.found_by(doc)
        if after == before:
            return {}, []
        return {"found_by": after}, search.change_writes(scope, self.kind, doc["id"], before, after)

    def _owner_index(self, scope: Scope, doc: Mapping[str, Any]) -> dict[str, str]:
        """The index attribute by which a deleted resource is found for the erasure of its customer."""
        return dict([self.deleted_of(scope, doc[_OWNER])]) if _OWNER in self.indexes.fields else {}

    def _deleted_pk(self, scope: Scope) -> str:
        return scope.pk(f"deleted_{self.kind}")
