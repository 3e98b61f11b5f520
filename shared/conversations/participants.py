"""The customer of a conversation, from the `customer` of a request (promises 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared.core import ids
from shared.core.errors import ApiError, Code, not_found_in_body
from shared.customers import commands as customer_commands
from shared.customers.resource import CUSTOMERS, CustomerFields, exists_check
from shared.resources import fields, list_pages
from shared.resources.queries import Query
from shared.resources.schema import CustomerId
from shared.store import table
from shared.store.keys import Scope

REFERENCE_ERRORS = (Code.PARAMETER_MISSING, Code.PARAMETERS_EXCLUSIVE)
"""The error codes of `check`, beside that of a malformed id."""
CUSTOMER_ERRORS = (Code.RESOURCE_NOT_FOUND, Code.CUSTOMER_DELETED, *REFERENCE_ERRORS)
"""The error codes of requests that name the customer of a new conversation."""

_MATCHED_BY = ("external_id", "phone")
_REQUIRED = ("external_id", "phone", "email")


class CustomerReference(CustomerFields):
    """The customer of a conversation: an id, or at least one of `external_id`, `phone` and `email` (promises 8).

    Without an id, the newest customer with the same `external_id` is the one, otherwise the newest with the same phone.
    A match is not changed. If there is none, a customer is created with these fields.
    """

    id: CustomerId = fields.OMITTED
    """The customer's id. It cannot be combined with other fields."""
    phone: fields.Phone | None = None
    """The phone number in E.164 format. Spaces, `-`, `.` and parentheses between digits are removed."""
    metadata: fields.MetadataCreate | None = None
    """The metadata of a customer who is created."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> Any:
        """Add what `check` demands."""
        present = [{"required": [name], "properties": {name: {"type": "string"}}} for name in _REQUIRED]
        with_id = {"required": ["id"], "properties": {"id": {"type": "string"}}}
        return handler(core) | {"if": with_id, "then": {"maxProperties": 1}, "else": {"anyOf": present}}


def check(customer: CustomerReference | None) -> None:
    """Validate the `customer` of a request.

    Raises `parameter_missing` if nothing identifies the customer, `parameters_exclusive` if `id` is combined with other
    fields, and `resource_not_found` for a malformed id.
    """
    if customer is None:
        return
    if "id" in customer.model_fields_set:
        if len(customer.model_fields_set) > 1:
            raise ApiError(
                Code.PARAMETERS_EXCLUSIVE, "customer[id] cannot be combined with other fields.", param="customer"
            )
        if not ids.is_id(CUSTOMERS.prefix, customer.id):
            raise not_found_in_body("customer", customer.id, "customer[id]")
    elif all(getattr(customer, name) is None for name in _REQUIRED):
        message = "customer must have one of id, external_id, phone and email."
        raise ApiError(Code.PARAMETER_MISSING, message, param="customer")


def resolve(scope: Scope, customer: CustomerReference | None) -> tuple[str | None, Sequence[table.Write]]:
    """The id of the customer of a request, and the writes that create the customer or check that it exists.

    A customer that is not deleted is matched by id, otherwise by external_id, otherwise by phone; the newest if several
    match. Without a match, a customer is created. The check raises `customer_deleted` or `resource_not_found`.
    """
    if customer is None:
        return None, []
    if "id" in customer.model_fields_set:
        return customer.id, [exists_check(scope, customer.id, "customer[id]")]
    for field in _MATCHED_BY:
        value = getattr(customer, field)
        if value is not None:
            query = Query(limit=1, starting_after=None, filters={field: (value,)})
            for row in list_pages.read(scope, CUSTOMERS, query).rows:
                return row["sk"], [table.Check(scope.pk(CUSTOMERS.kind), row["sk"])]
    change = customer_commands.insert(scope, customer, customer.phone, customer.metadata)
    return change.doc["id"], change.writes
