"""/v1/customers: create, list, retrieve, update and soft-delete customers."""

from __future__ import annotations

from shared import calls, customers, fields, http, listing, resources
from shared.http import Answer, Call, Decision


class CustomerPatch(fields.Input):
    """A merge patch; what is absent stays, null clears."""

    phone: fields.Phone = ""
    name: fields.Name | None = None
    email: fields.Email | None = None
    external_id: fields.ExternalId | None = None
    metadata: fields.MetadataPatch | None = None


class CustomerIn(CustomerPatch):
    """A new customer; `phone` is required (contract 5)."""

    phone: fields.Phone
    metadata: fields.Metadata | None = None


def create(call: Call) -> Answer:
    given = call.body(CustomerIn).model_dump()

    def decide() -> Decision:
        customer = customers.new(call.scope, given)
        answer = Answer(201, fields.compact(customer), location=f"/v1/customers/{customer['id']}")
        return [resources.insertion(customers.LISTED, call.scope, customer)], answer

    return call.commit(decide)


def list_customers(call: Call) -> Answer:
    query = listing.read(customers.LISTED, call.query)
    return Answer(200, listing.page(call.scope, customers.LISTED, query).envelope(call.path))


def retrieve(call: Call) -> Answer:
    return Answer(200, resources.find(customers.LISTED, call.scope, call.params["id"]).row["doc"])


def update(call: Call) -> Answer:
    patch = call.body(CustomerPatch).model_dump(exclude_unset=True)

    def decide() -> Decision:
        found = resources.find(customers.LISTED, call.scope, call.params["id"])
        customer = customers.patched(found.doc, patch)
        writes = [] if customer is found.doc else [resources.change(customers.LISTED, call.scope, found, customer)]
        return writes, Answer(200, fields.compact(customer))

    return call.commit(decide)


def delete(call: Call) -> Answer:
    def decide() -> Decision:
        found = resources.find(customers.LISTED, call.scope, call.params["id"])
        customer = customers.deleted(found.doc)
        if customer is found.doc:
            return [], Answer(200, found.row["doc"])
        ended = calls.of_deleted_customer(call.scope, found)
        writes = [customers.deletion(call.scope, found, customer, frees=bool(ended)), *ended]
        return writes, Answer(200, fields.compact(customer))

    return call.commit(decide)


app = http.service(
    http.Resource("/v1/customers", get=list_customers, post=create, query=customers.LISTED.parameters),
    http.Resource("/v1/customers/{id}", get=retrieve, patch=update, delete=delete),
)
handler = http.lambda_handler(app)
