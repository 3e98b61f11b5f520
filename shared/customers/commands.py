"""What can be done with a customer: create, update and delete (promises 5).

A command returns the customer afterwards and the writes of one transaction, which the caller commits. The modules of
calls are imported when a call may have to end: they would be a tenth of each cold start.
"""

from __future__ import annotations

from shared.core.errors import ApiError, Code
from shared.customers.resource import CUSTOMERS, Customer, CustomerCreate, CustomerFields, CustomerPatch, CustomerRecord
from shared.resources import fields
from shared.resources.documents import apply_changes, changes_of, revise_deleted
from shared.store import table
from shared.store.keys import Scope
from shared.store.transactions import Change


def create(scope: Scope, body: CustomerCreate) -> Change[Customer]:
    """Create a customer."""
    return insert(scope, body, body.phone, body.metadata, do_not_call=bool(body.do_not_call))


def insert(
    scope: Scope,
    body: CustomerFields,
    phone: str | None,
    metadata: fields.MetadataCreate | None,
    *,
    do_not_call: bool = False,
) -> Change[Customer]:
    """Create a customer, who may have no phone if a conversation creates it."""
    customer: Customer = {
        **CUSTOMERS.common_fields(scope),
        "object": "customer",
        "phone": phone,
        "name": body.name,
        "email": body.email,
        "external_id": body.external_id,
        "do_not_call": do_not_call,
        "metadata": metadata or {},
        "deleted_at": None,
    }
    return Change(customer, CUSTOMERS.insert_writes(scope, customer))


def update(scope: Scope, record: CustomerRecord, patch: CustomerPatch) -> Change[Customer]:
    """Apply a merge patch to a customer as it was read. `do_not_call` ends its call that waits or rings.

    Raises `customer_deleted` or an error of the metadata (promises 3 and 5).
    """
    if record.doc["deleted_at"] is not None:
        raise ApiError(Code.CUSTOMER_DELETED)
    changes = changes_of(patch, record.doc)
    if "do_not_call" in changes:
        changes["do_not_call"] = bool(changes["do_not_call"])
    customer = apply_changes(record.doc, changes)
    if customer is record.doc:
        return Change(customer)
    if customer["do_not_call"] and not record.doc["do_not_call"]:
        from shared.calls import opt_outs

        return opt_outs.save_opted_out(scope, record, customer)
    return Change(customer, CUSTOMERS.replace_writes(scope, record, customer))


def delete(scope: Scope, record: CustomerRecord) -> Change[Customer]:
    """Soft-delete a customer, and end its queued call. Nothing changes if it is deleted already.

    Its appointments and conversations stay as they are: the agent hands over at the next message. The writes fail if a
    call of the customer has started or ended since.
    """
    if record.doc["deleted_at"] is not None:
        return Change(record.doc)
    from shared.calls import endings

    customer = revise_deleted(record.doc, record.doc)
    same_call = table.equals("active_session", record.row.get("active_session"))
    writes = CUSTOMERS.deletion_writes(scope, record, customer, condition=same_call)
    return Change(customer, [*writes, *endings.customer_deleted_writes(scope, record)])
