"""/v1/customers: create, list, retrieve, update and soft-delete customers.

`POST /v1/customers/{id}/call` is in `functions/sessions.py`, because its result is a session.
"""

from __future__ import annotations

from shared.api.collection_operations import list_operation, retrieve_operation
from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, Service, lambda_handler
from shared.core.errors import Code
from shared.customers import commands as customer_commands
from shared.customers.resource import CUSTOMERS, Customer, CustomerCreate, CustomerPatch
from shared.resources import fields


def create(request: Request[CustomerCreate]) -> Response[Customer]:
    """Create a customer.

    Emits the event `customer.created`. Neither `phone` nor `external_id` is unique (promises 5).
    """
    return request.create(lambda: customer_commands.create(request.scope, request.body))


def update(request: Request[CustomerPatch]) -> Response[Customer]:
    """Update a customer.

    A merge patch: an absent field keeps its value, and null clears it. Emits the event `customer.updated`, unless
    nothing changes (promises 3 and 5).
    """
    return request.commit(lambda: customer_commands.update(request.scope, request.find(CUSTOMERS), request.body))


def delete(request: Request[None]) -> Response[Customer]:
    """Delete a customer.

    Sets `deleted_at` and emits the event `customer.deleted`. Lists no longer include the customer, but it can still be
    retrieved. Its queued and consent-pending calls fail. A repeated request returns the same customer (promises 5).
    """
    return request.commit(lambda: customer_commands.delete(request.scope, request.find(CUSTOMERS)))


def opt_in(request: Request[fields.Nothing]) -> Response[Customer]:
    """Lift a customer's opt-out.

    The person agrees to be called again: `do_not_call` is false afterwards, and the opt-out of the phone is lifted. A
    repeated request returns the same customer (promises 11).
    """
    # The other operations need no modules of calls, which would be a tenth of each cold start.
    from shared.calls import opt_outs

    return request.commit(lambda: opt_outs.opt_in(request.scope, request.find(CUSTOMERS)))


app = Service(
    Route(
        "/v1/customers",
        get=list_operation(CUSTOMERS),
        post=Operation(create, name="create_customer", status=(201,)),
    ),
    Route(
        "/v1/customers/{id}",
        get=retrieve_operation(CUSTOMERS),
        patch=Operation(
            update,
            name="update_customer",
            reads=CUSTOMERS,
            errors=(Code.RESOURCE_NOT_FOUND, Code.CUSTOMER_DELETED),
        ),
        delete=Operation(delete, name="delete_customer", reads=CUSTOMERS, errors=(Code.RESOURCE_NOT_FOUND,)),
    ),
    Route(
        "/v1/customers/{id}/opt_in",
        post=Operation(
            opt_in,
            name="opt_in_customer",
            reads=CUSTOMERS,
            optional_body=True,
            errors=(Code.RESOURCE_NOT_FOUND, Code.CUSTOMER_DELETED),
        ),
    ),
)
handler = lambda_handler(app)
