"""Customers: people to be contacted by phone (specification, "Customer"; contract 5)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from shared.core import clock, ids, table
from shared.core.errors import ApiError, not_found_in_body
from shared.core.keys import Scope
from shared.resources import fields, records
from shared.resources.lists import Listed
from shared.resources.records import Document, Found

LISTED = Listed(
    kind="customer",
    prefix="cust_",
    slots=("external_id", "phone", "email"),
    pairs=(("external_id", "phone"), ("external_id", "email"), ("phone", "email")),
    filters={
        "external_id": lambda text: ("external_id", text),
        # A "+" that a client left unescaped in the query arrives as a space.
        "phone": lambda text: ("phone", fields.phone("+" + text[1:] if text.startswith(" ") else text)),
        "email": lambda text: ("email", text),
    },
    keeps_deleted=True,
)
OPTIONAL = ("phone", "name", "email", "external_id")


def new(scope: Scope, given: Mapping[str, Any]) -> Document:
    """A customer with the given fields."""
    optional = {name: given.get(name) for name in OPTIONAL}
    return records.new(LISTED, scope, **optional, metadata=given.get("metadata") or {}, deleted_at=None)


def patched(customer: Document, patch: Mapping[str, Any]) -> Document:
    """The customer after a merge patch; the very same object where nothing changes. Raises ApiError."""
    if customer["deleted_at"] is not None:
        raise ApiError("customer_deleted")
    changes = dict(patch)
    if "metadata" in changes:
        changes["metadata"] = fields.merged_metadata(customer["metadata"], changes["metadata"])
    return records.touched(customer, changes)


def deleted(customer: Document) -> Document:
    """The customer, soft-deleted; the very same object where it already is."""
    if customer["deleted_at"] is not None:
        return customer
    changed = records.touched(customer, {"deleted_at": clock.iso(clock.now())})
    return changed | {"deleted_at": changed["updated_at"]}


def deletion(scope: Scope, found: Found, customer: Document) -> list[table.Operation]:
    """The writes that delete the customer, unless a call began or ended since it was read."""
    active = found.row.get("active_session")
    gone, kept = records.deletion(LISTED, scope, found, customer)
    same = "attribute_not_exists(active_session)" if active is None else "active_session = :active"
    values = dict(gone.values) | ({} if active is None else {":active": active})
    return [dataclasses.replace(gone, condition=f"{gone.condition} AND {same}", values=values), kept]


def must_be_live(scope: Scope, id: str, param: str) -> table.Check:
    """The condition that the customer exists and is not deleted, for writes that depend on it."""

    def refusal(old: table.Row | None) -> ApiError:
        deleted = LISTED.deleted_row(scope, id) is not None
        return ApiError("customer_deleted") if deleted else not_found_in_body("customer", id, param)

    if not ids.is_id(LISTED.prefix, id):
        raise not_found_in_body("customer", id, param)
    return table.Check(scope.pk(LISTED.kind), id, refusal=refusal)
