"""Collections: the documents and rows of a resource type, changes to a document, and the usual access to the rows.

A document is the public form of a resource, as stored and sent. Every method that reads or writes takes the project and
mode (`Scope`) first. `insert`, `replace`, `move_to_deleted` and `erase` do not write: they return `Writes` for a
transaction.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NotRequired, TypedDict, TypeVar, cast

from pydantic_core import from_json

from shared.core import clock, ids
from shared.core.errors import not_found
from shared.resources import fields, search
from shared.resources.filters import Filter
from shared.resources.schema import Time
from shared.store import table, transactions
from shared.store.keys import Scope

_OWNER = "customer_id"
"""The field that names the customer of a resource."""
_PAGE = 100
_LATEST_MS = clock.HOUR
"""How long a resource's id continues a list from a previous time of the resource."""

D = TypeVar("D", bound=Mapping[str, Any])
R = TypeVar("R", bound=Mapping[str, Any])
T = TypeVar("T", bound=Mapping[str, Any])
W = TypeVar("W", bound=table.Write)

Writes = tuple[W, *tuple[table.Write, ...]]
"""The write of a resource's own row, of type `W`, and then the others, such as those of its search rows."""


class Resource(TypedDict):
    """The common fields of customers, appointments, sessions, conversations and webhook endpoints (promises 1).

    Each adds `object`, the name of its type, and `id`, a type prefix and a lower-case ULID. Ids of one type sort by
    creation time.
    """

    livemode: bool
    """False for a resource of a test key. Never changes."""
    created_at: Time
    """When it was created: UTC, `YYYY-MM-DDTHH:MM:SS.mmmZ`, like every time of a resource. Never changes."""
    updated_at: Time
    """The time of the last change of any other field. Never decreases."""


class CommonFields(Resource):
    """The common fields of a new resource, with its id."""

    id: str


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


def changes_of(patch: fields.Input, document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a merge patch sends, its metadata merged into the document's. Raises errors of the metadata."""
    changes = patch.model_dump(exclude_unset=True, by_alias=True)
    if "metadata" in changes:
        changes["metadata"] = fields.merge_metadata(document["metadata"], changes["metadata"])
    return changes


def apply_changes(document: D, changes: Mapping[str, Any]) -> D:
    """The document with these fields of a validated patch, as `revise` returns it."""
    return revise(document, cast("D", {**document, **changes}))


def revise(before: D, after: D) -> D:
    """The document `after` with a new `updated_at`; `before` itself if no value differs (promises 3)."""
    if all(fields.same(before.get(name), value) for name, value in after.items()):
        return before
    # `updated_at` never decreases, even if the clock is set back.
    now = max(clock.now(), clock.parse(before["updated_at"]))
    return cast("D", {**after, "updated_at": clock.iso(now)})


def revise_deleted(before: D, after: D) -> D:
    """The document `after` with its soft deletion, whose time is that of its last change."""
    deleted = revise(before, cast("D", {**after, "deleted_at": clock.iso(clock.now())}))
    return cast("D", {**deleted, "deleted_at": deleted["updated_at"]})


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
class Collection(Generic[D, R]):
    """The resources of one type: documents of type `D` in rows of type `R`."""

    document: type[D]
    """The type `D`."""
    kind: str
    """The rows' `kind`, and the `object` of the documents; those of deliveries have `webhook_delivery`."""
    prefix: str
    """The prefix of the ids."""
    indexed: tuple[str, ...] = ()
    """The indexed fields, most selective first. A field's position is the number of its index."""
    filters: Mapping[str, Filter] = field(default_factory=dict)
    """By query parameter."""
    repeatable: frozenset[str] = frozenset()
    """The query parameters that may occur more than once; a row matches if it has any of the values."""
    time_field: str | None = None
    """A field with a time and its own indexes. A list with a range of it is sorted by it."""
    waiting_since: Callable[[Mapping[str, Any]], str | None] | None = None
    """Returns since when a resource waits for somebody, None if it does not. Those that wait are sorted by it in t0."""
    takes_order: bool = False
    """Whether the list takes `order`. Such a list is in ascending order by default."""
    created: str | None = "created_at"
    """The name of the creation time in the range parameters; None if the list has none."""
    values: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda doc: doc
    """Returns the values of the indexed fields of a document."""
    added: Mapping[str, Any] = field(default_factory=dict)
    """Fields that rows of an earlier release do not have, with their values, or functions of the document."""
    expires: str | None = None
    """A field with a time, which is shown as null once that time has passed."""
    searched: str = ""
    """The field whose words it is found by (`shared/resources/search.py`); empty if there is none."""
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
        complete = self.complete(row)
        return Record(cast("D", from_json(complete["doc"])), cast("R", complete))

    def complete(self, row: T) -> T:
        """The row with every field of the resource as it is now, if an earlier release may have written the row."""
        doc = from_json(row["doc"]) if self.added else {}
        missing = {name: value for name, value in self.added.items() if name not in doc}
        changes = {name: value(doc) if callable(value) else value for name, value in missing.items()}
        if self.expires is not None and (doc.get(self.expires) or "~") <= clock.iso(clock.now()):
            changes[self.expires] = None
        return cast("T", {**row, "doc": fields.to_json(doc | changes)}) if changes else row

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

    def insert(self, scope: Scope, doc: D, internal: table.Attributes | None = None) -> Writes[table.Put]:
        """The writes that create the resource, with these internal attributes."""
        row = {"pk": scope.pk(self.kind), "sk": doc["id"], "kind": self.kind, "v": 1, "doc": fields.to_json(doc)}
        found_by, search_rows = self._search_changes(scope, doc)
        return table.Put({**row, **self.index(scope, doc), **found_by, **(internal or {})}), *search_rows

    def replace(
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
        is_found_anew = self._text_and_phone(doc) != self._text_and_phone(record.doc)
        found_by, search_rows = self._search_changes(scope, doc, record) if is_found_anew else ({}, [])
        update = table.Update(
            scope.pk(self.kind),
            doc["id"],
            set=changes | self.index(scope, doc) | self._latest(record, doc) | found_by | dict(internal or {}),
            condition=table.unchanged(record.version) & condition,
        )
        return update, *search_rows

    def after_write(self, record: Record[D, R] | None, writes: Sequence[table.Write]) -> Record[D, R]:
        """The resource after the writes of its `insert`, or of this record's `replace`."""
        if isinstance(writes[0], table.Put):
            return self.record(writes[0].row)
        assert record is not None
        assert isinstance(writes[0], table.Update)
        row = {**record.row, **writes[0].set}
        return self.record({name: value for name, value in row.items() if value is not None})

    def move_to_deleted(
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

    def erase(self, scope: Scope, row: table.Row) -> Writes[table.Delete]:
        """The writes that delete this row of a resource for good, if it has not changed since it was read."""
        delete = table.Delete(row["pk"], row["sk"], table.unchanged(row["v"]))
        return delete, *search.changes(scope, self.kind, row["sk"], row.get("found_by"), None)

    def renew_search_rows(self, scope: Scope) -> int:
        """Give all resources the search rows that they are to have. Returns the number of those that had others."""
        pages = table.query(scope.pk(self.kind), limit=_PAGE, forward=True)
        ids = (row["sk"] for page in pages for row in page)
        return sum(transactions.retry_on_conflict(functools.partial(self._renew, scope, id)) for id in ids)

    def index(self, scope: Scope, doc: Mapping[str, Any]) -> dict[str, str | None]:
        """The index attributes of a row; None for attributes that the row must not have."""
        values = self.values(doc)
        attributes: dict[str, str | None] = {}
        for number, name in enumerate(self.indexed, start=1):
            value = values.get(name)
            partition = None if value is None else scope.index(self.kind, name, str(value))
            attributes[f"f{number}"] = partition
            if self.time_field:
                attributes[f"t{number}"] = partition
        if self.time_field:
            attributes["t0"] = scope.pk(self.kind)
            attributes["sort_time"] = f"{doc[self.time_field]}#{doc['id']}"
        if self.waiting_since:
            since = self.waiting_since(doc)
            attributes["t0"] = None if since is None else scope.pk(self.kind)
            attributes["sort_time"] = None if since is None else f"{since}#{doc['id']}"
        return attributes

    def latest_time(self, row: table.Row) -> clock.Instant:
        """The latest time that a resource has had within the last hour, as far as its row tells.

        Its id continues a list by time from there. So a client that received the resource at any of these times, and
        sends its id, misses no other resource (promises 3).
        """
        instant = clock.parse(json.loads(row["doc"])[self.time_field])
        return max(instant, row["latest_at"]) if row.get("latest_until", 0) >= clock.now() else instant

    def with_value(self, scope: Scope, field: str, value: str) -> tuple[str, str]:
        """The index, and its partition, of the resources with this value of an indexed field."""
        return self._index_of(field), scope.index(self.kind, field, value)

    def deleted_of(self, scope: Scope, customer_id: str) -> tuple[str, str]:
        """The index, and its partition, of a customer's deleted resources. Only resources with a customer have one."""
        return self._index_of(_OWNER), scope.index(f"deleted_{self.kind}", _OWNER, customer_id)

    def of_customer(self, scope: Scope, customer_id: str) -> tuple[str, str]:
        """The index, and its partition, of a customer's resources that are not deleted."""
        return self.with_value(scope, _OWNER, customer_id)

    def _renew(self, scope: Scope, id: str) -> bool:
        pk = scope.pk(self.kind)
        row = table.get(pk, id)
        if row is None:
            return False
        record = self.record(row)
        found_by, search_rows = self._search_changes(scope, record.doc, record)
        if found_by:
            update = table.Update(pk, id, set=found_by, condition=table.unchanged(record.version))
            table.write([update, *search_rows])
        return bool(found_by)

    def _search_changes(
        self, scope: Scope, doc: D, record: Record[D, R] | None = None
    ) -> tuple[dict[str, str | None], list[table.Write]]:
        """The attribute `found_by` for this document, and the writes of its search rows; both empty if none differs."""
        before = None if record is None else record.row.get("found_by")
        is_found = self.searched and doc["deleted_at"] is None
        after = search.found_by(*self._text_and_phone(doc)) if is_found else None
        if after == before:
            return {}, []
        return {"found_by": after}, search.changes(scope, self.kind, doc["id"], before, after)

    def _text_and_phone(self, doc: D) -> tuple[str | None, str | None]:
        """What a resource is found by."""
        return (doc[self.searched], doc.get("phone")) if self.searched else (None, None)

    def _latest(self, record: Record[D, R], doc: D) -> dict[str, table.Value]:
        """The attributes that `latest_time` reads, if `doc` has another time than the record.

        The row keeps one time: after further changes, the latest time counts for the hour of the others too.
        """
        if self.time_field is None or doc[self.time_field] == record.doc[self.time_field]:
            return {}
        return {"latest_at": self.latest_time(dict(record.row)), "latest_until": clock.now() + _LATEST_MS}

    def _owner_index(self, scope: Scope, doc: Mapping[str, Any]) -> dict[str, str]:
        """The index attribute by which a deleted resource is found for the erasure of its customer."""
        return dict([self.deleted_of(scope, doc[_OWNER])]) if _OWNER in self.indexed else {}

    def _index_of(self, field: str) -> str:
        return f"f{self.indexed.index(field) + 1}"

    def _deleted_pk(self, scope: Scope) -> str:
        return scope.pk(f"deleted_{self.kind}")
