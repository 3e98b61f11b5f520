"""Documents: the public form of a resource, as it is stored and sent, and how one changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict, TypeVar, cast

from shared.core import clock
from shared.resources import fields


class Resource(TypedDict):
    """What customers, appointments, sessions, conversations and webhook endpoints have in common."""

    id: str
    """Type prefix and a lower-case ULID. Ids of one type sort by creation time. Never changes."""
    object: str
    """The type's name. Never changes."""
    livemode: bool
    """False for a resource of a test key. Never changes."""
    created_at: str
    """UTC, `YYYY-MM-DDTHH:MM:SS.mmmZ`, as every time of a resource. Never changes."""
    updated_at: str
    """The time of the last change of any other field. Never goes back."""


class ResourceRow(TypedDict):
    """The row of a resource. Each kind adds its own internal attributes (`shared/core/keys.py` has the keys)."""

    pk: str
    sk: str
    """The resource's id."""
    kind: str
    doc: str
    """The resource as JSON text."""
    v: int
    """Counts the row's writes, from 1."""
    req: NotRequired[str]
    """The request that last wrote the row."""


D = TypeVar("D", bound=Mapping[str, Any])


def changed(document: D, changes: Mapping[str, Any]) -> D | None:
    """The document with these changes and a new `updated_at`; None if no value differs."""
    if all(same(document[name], value) for name, value in changes.items()):
        return None
    # A clock that was set back must not take the resource back in time.
    now = max(clock.now(), clock.parse(document["updated_at"]))
    return cast("D", {**document, **changes, "updated_at": clock.iso(now)})


def touched(document: D, changes: Mapping[str, Any]) -> D:
    """The document with these changes, and a new `updated_at` if a value differs."""
    return changed(document, changes) or document


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same; True is not 1, and 1.0 is not 1."""
    return fields.canonical(one) == fields.canonical(other)
