"""Documents: the public form of a resource, as stored and sent, and changes to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict, TypeVar, cast

from shared.core import clock
from shared.resources import fields
from shared.resources.schema import Time


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
    cause: NotRequired[str]
    """The API request that caused the last write, as far as it is known."""


D = TypeVar("D", bound=Mapping[str, Any])


def changed(document: D, changes: Mapping[str, Any]) -> D | None:
    """The document with these changes and a new `updated_at`; None if no value differs (promises 3)."""
    if all(same(document.get(name), value) for name, value in changes.items()):
        return None
    # `updated_at` never decreases, even if the clock is set back.
    now = max(clock.now(), clock.parse(document["updated_at"]))
    return cast("D", {**document, **changes, "updated_at": clock.iso(now)})


def sent(document: Mapping[str, Any], patch: fields.Input) -> dict[str, Any]:
    """The fields that a merge patch sends, its metadata merged into the document's. Raises errors of the metadata."""
    changes = patch.model_dump(exclude_unset=True, by_alias=True)
    if "metadata" in changes:
        changes["metadata"] = fields.merge_metadata(document["metadata"], changes["metadata"])
    return changes


def deleted(document: D, changes: Mapping[str, Any]) -> D:
    """The document after these changes and its soft deletion, which is the time of its last change."""
    changed = touched(document, {**changes, "deleted_at": clock.iso(clock.now())})
    return cast("D", {**changed, "deleted_at": changed["updated_at"]})


def touched(document: D, changes: Mapping[str, Any]) -> D:
    """The document with these changes, and a new `updated_at` if any value differs."""
    return changed(document, changes) or document


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same. True differs from 1, and 1.0 differs from 1."""
    return fields.canonical(one) == fields.canonical(other)
