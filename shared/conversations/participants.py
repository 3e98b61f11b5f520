"""Whom a conversation is with: the `customer` of a request (contract 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared import customers
from shared.core import ids, table
from shared.core.errors import ApiError, not_found_in_body
from shared.core.keys import Scope
from shared.customers import CUSTOMERS
from shared.resources.lists import Query

_MATCHED_BY = ("external_id", "phone")
_REQUIRED = ("external_id", "phone", "email")


def check(customer: Mapping[str, Any] | None) -> None:
    """Raises ApiError for a `customer` that names nobody, or names somebody twice."""
    if customer is None:
        return
    if "id" in customer:
        if len(customer) > 1:
            raise ApiError("parameters_exclusive", "customer[id] goes alone.", param="customer")
        if not ids.is_id(CUSTOMERS.prefix, customer["id"]):
            raise not_found_in_body("customer", customer["id"], "customer[id]")
    elif all(customer.get(name) is None for name in _REQUIRED):
        message = "customer needs one of id, external_id, phone and email."
        raise ApiError("parameter_missing", message, param="customer")


def resolve(scope: Scope, customer: Mapping[str, Any] | None) -> tuple[str | None, list[table.Operation]]:
    """The id of the customer that a request means, and the writes that create or check it. Raises ApiError.

    Matched by id, else external_id, else phone among those that are not deleted, the newest first; else created.
    """
    if customer is None:
        return None, []
    if "id" in customer:
        return customer["id"], [customers.must_exist(scope, customer["id"], "customer[id]")]
    for field in _MATCHED_BY:
        if customer.get(field) is not None:
            query = Query(limit=1, starting_after=None, filters={field: (customer[field],)})
            for row in CUSTOMERS.page(scope, query).rows:
                return row["sk"], [table.Check(scope.pk(CUSTOMERS.kind), row["sk"])]
    created = customers.new(scope, customer)
    return created["id"], [CUSTOMERS.insert(scope, created)]
