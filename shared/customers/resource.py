"""Customers: people to be contacted by phone (promises 5)."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from shared.core import clock, ids
from shared.core.errors import ApiError, Code, not_found_in_body
from shared.resources import fields, filters
from shared.resources.collections import Collection, OldRows, Record, ResourceRow
from shared.resources.documents import Resource
from shared.resources.filters import ListParameters
from shared.resources.indexes import Indexes
from shared.resources.schema import E164, CustomerId, Keywords, Metadata, Time, at_most
from shared.resources.search import SearchRows
from shared.store import table
from shared.store.keys import Scope


class Customer(Resource):
    """A person to be contacted by phone (promises 5). Id prefix `cust_`."""

    id: CustomerId
    """The customer's id. Never changes."""
    object: Literal["customer"]
    """The type of the object. Never changes."""
    phone: E164 | None
    """In E.164 format. Null only for a customer that a conversation created without a phone number."""
    name: Annotated[str, at_most(200)] | None
    """At most 200 characters. Null when unset."""
    email: Annotated[str, Keywords(format="email")] | None
    """The email address. Null when unset."""
    external_id: Annotated[str, at_most(255)] | None
    """The caller's own identifier, at most 255 characters; not unique. Null when unset."""
    do_not_call: bool
    """Whether the customer is not to be called. By the client's own decision, or because the person said so."""
    metadata: Metadata
    """The caller's own keys and values, at most 50; `{}` when unset."""
    deleted_at: Time | None
    """When the customer was deleted. Null until then; never changes afterwards."""


class CustomerRow(ResourceRow):
    """A customer's row."""

    active_session: NotRequired[str]
    """The session of the customer's queued or dialing call. Absent if there is none."""


ERASURE_KEPT_MS = 100 * clock.DAY
"""How long the row of an erasure is kept: longer than a change of the table can wait to become an event,
which is a day in the stream and 90 days in the bucket of failed batches."""

CUSTOMERS: Collection[Customer, CustomerRow] = Collection(
    Customer,
    kind="customer",
    prefix="cust_",
    indexes=Indexes(("external_id", "phone", "email")),
    parameters=ListParameters(
        {
            "external_id": filters.Exact("external_id"),
            "phone": filters.Phone("phone"),
            "email": filters.Exact("email"),
        }
    ),
    old_rows=OldRows(added={"do_not_call": False}),
    search_rows=SearchRows("name"),
    keeps_deleted=True,
)
CustomerRecord = Record[Customer, CustomerRow]


class CustomerFields(fields.Input):
    """The fields of a customer that are the same in every request. Requests differ in the phone and the metadata."""

    name: fields.Name | None = None
    """The customer's name."""
    email: fields.Email | None = None
    """The email address, for example `ada@example.com`."""
    external_id: fields.ExternalId | None = None
    """Your own identifier of the customer. It need not be unique."""


class CustomerCreate(CustomerFields):
    """A new customer (promises 5)."""

    phone: fields.Phone
    """The phone number in E.164 format. Spaces, `-`, `.` and parentheses between digits are removed."""
    do_not_call: bool | None = None
    """Whether calls to the customer are refused. Null means false."""
    metadata: fields.MetadataCreate | None = None
    """Your own keys and values. A key with the value null is omitted."""


class CustomerPatch(CustomerFields):
    """A merge patch: an absent field keeps its value, null clears it. The phone cannot be cleared."""

    phone: fields.Phone = fields.OMITTED
    """The phone number in E.164 format. Spaces, `-`, `.` and parentheses between digits are removed."""
    do_not_call: bool | None = None
    """Whether calls to the customer are refused; calls that wait then fail. Null means false.

    It lifts no opt-out of the phone: the person's own wish is lifted by `POST /v1/customers/{id}/opt_in` only.
    """
    metadata: fields.MetadataPatch | None = None
    """Merged by key: the value null removes a key, and null instead of the object removes all keys."""


def exists_check(scope: Scope, id: str, param: str) -> table.Check:
    """The check that the customer exists and is not deleted, for a transaction that depends on it.

    A failed check raises `customer_deleted`, or `resource_not_found` with `param`.
    """

    def error(_: table.Row) -> ApiError:
        deleted = CUSTOMERS.deleted_row(scope, id) is not None
        return ApiError(Code.CUSTOMER_DELETED) if deleted else not_found_in_body("customer", id, param)

    if not ids.is_id(CUSTOMERS.prefix, id):
        raise not_found_in_body("customer", id, param)
    return table.Check(scope.pk(CUSTOMERS.kind), id, refusal=table.Refusal(error))


def erasure_key(scope: Scope, id: str) -> table.Key:
    """The key of the row that marks a customer as erased (`shared/erasure`)."""
    return scope.pk("erasure"), id


def is_erased(scope: Scope, id: str) -> bool:
    """Whether the customer was erased, or is being erased. Changes of its rows then have no events."""
    return table.get(*erasure_key(scope, id)) is not None
