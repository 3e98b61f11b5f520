"""Documents: the public form of a resource, as stored and sent, and changes to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, TypeVar, cast

from shared.core import clock
from shared.resources import fields
from shared.resources.schema import Time

D = TypeVar("D", bound=Mapping[str, Any])


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
