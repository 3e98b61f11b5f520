"""/v1/customers: create, list, retrieve, update and soft-delete customers.

`POST /v1/customers/{id}/call` is in `functions/sessions.py`, because its result is a session.
"""

from __future__ import annotations

from shared.api import responses
from shared.api.collections import list_operation, retrieve_operation
from shared.api.requests import Decision, Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, lambda_handler, service
from shared.calls import commands as calls
from shared.customers import resource as customers
from shared.customers.resource import CUSTOMERS, Customer, CustomerCreate, CustomerPatch


def create(request: Request[CustomerCreate]) -> Response:
    """Create a customer.

    Emits the event `customer.created`. Neither `phone` nor `external_id` is unique (contract 5).
    """
    values = request.body.model_dump()

    def decide() -> Decision:
        customer = customers.new(request.scope, values)
        response = responses.created(customer, f"/v1/customers/{customer['id']}")
        return Decision([CUSTOMERS.insert(request.scope, customer)], response)

    return request.commit(decide)


def update(request: Request[CustomerPatch]) -> Response:
    """Update a customer.

    A merge patch: an absent field keeps its value, and null clears it. Emits the event `customer.updated`, unless
    nothing changes (contract 3 and 5).
    """
    patch = request.body.model_dump(exclude_unset=True)

    def decide() -> Decision:
        record = CUSTOMERS.find(request.scope, request.id)
        customer = customers.patched(record.doc, patch)
        if customer is None:
            return Decision([], responses.ok(record.json))
        return Decision([CUSTOMERS.update(request.scope, record, customer)], responses.ok(customer))

    return request.commit(decide)


def delete(request: Request[None]) -> Response:
    """Delete a customer.

    Sets `deleted_at` and emits the event `customer.deleted`. Lists no longer include the customer, but it can still be
    retrieved. Its queued and consent-pending calls fail. A repeated request returns the same customer (contract 5).
    """

    def decide() -> Decision:
        record = CUSTOMERS.find(request.scope, request.id)
        customer = customers.deleted(record.doc)
        if customer is None:
            return Decision([], responses.ok(record.json))
        call_writes = calls.of_deleted_customer(request.scope, record)
        return Decision([*customers.deletion(request.scope, record, customer), *call_writes], responses.ok(customer))

    return request.commit(decide)


app = service(
    Route(
        "/v1/customers",
        get=list_operation(CUSTOMERS, Customer),
        post=Operation(create, name="create_customer", returns=Customer, status=(201,), body=CustomerCreate),
    ),
    Route(
        "/v1/customers/{id}",
        get=retrieve_operation(CUSTOMERS, Customer),
        patch=Operation(
            update,
            name="update_customer",
            reads=CUSTOMERS,
            returns=Customer,
            body=CustomerPatch,
            errors=("resource_not_found", "customer_deleted"),
        ),
        delete=Operation(
            delete, name="delete_customer", returns=Customer, reads=CUSTOMERS, errors=("resource_not_found",)
        ),
    ),
)
handler = lambda_handler(app)
