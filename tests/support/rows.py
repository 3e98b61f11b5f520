"""Rows straight into the table, made by the service's own builders, where a test wants thousands."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from shared.appointments import commands as appointment_commands
from shared.appointments.resource import APPOINTMENTS, AppointmentCreate, AppointmentRecord
from shared.aws import services
from shared.calls import commands as call_commands
from shared.calls import sessions
from shared.core import clock, ids
from shared.core.call_statuses import Channel
from shared.customers import commands as customer_commands
from shared.customers import resource as customers
from shared.customers.resource import CustomerCreate
from shared.store import table
from shared.store.keys import Scope
from shared.webhooks import events

_BATCH = 25  # rows a call; what BatchWriteItem takes
_TRANSACTION = 100  # writes a call; what TransactWriteItems takes


def customer(scope: Scope, **given: Any) -> table.Row:
    """A customer made now."""
    body = CustomerCreate.model_construct(**{"phone": "+15005550006"} | given)
    return customers.CUSTOMERS.insert_writes(scope, customer_commands.create(scope, body).doc)[0].row


def appointment(scope: Scope, **given: Any) -> table.Row:
    """An appointment made now, of a customer that need not exist."""
    least = {"status": "pending", "appointment_at": clock.iso(clock.now()), "customer_id": "cust_" + "0" * 26}
    body = AppointmentCreate.model_construct(**least | given)
    return APPOINTMENTS.insert_writes(scope, appointment_commands.new(scope, body))[0].row


def alternating(scope: Scope, filters: int) -> tuple[Iterator[table.Row], str]:
    """Customers without end, oldest first, and the query of a list with so many filters.

    The oldest one matches. Each other one lacks the value of one filter, in turn. A list reads these only as entries of
    its indexes, so they have nothing else.
    """
    values = {"external_id": "4711", "phone": "+15005550006", "email": "a@example.com"}
    values = dict(list(values.items())[:filters])
    match, created = customer(scope, **values), itertools.count(1)
    partitions = [f"f{number}" for number in range(1, filters + 1)]
    others = (
        {name: match[name] for name in ("pk", *partitions) if name != lacking}
        | {"sk": ids.new(customers.CUSTOMERS.prefix, clock.now() + next(created))}
        for lacking in itertools.cycle(partitions)
    )
    return itertools.chain([match], others), urlencode(values)


def record(doc: Any, version: int = 1) -> AppointmentRecord:
    """An appointment as it would be read."""
    scope = Scope(1, doc["livemode"])
    return APPOINTMENTS.record(APPOINTMENTS.insert_writes(scope, doc)[0].row | {"v": version})


def event(scope: Scope, type: str, about: Mapping[str, Any]) -> table.Row:
    """An event that fires now."""
    now = clock.now()
    return events.build(scope, ids.new(events.EVENTS.prefix, now), type, now, about, None).row()


def session(scope: Scope, **given: Any) -> table.Row:
    """A session made now, of a customer that need not exist."""
    customer: Any = {"id": "cust_" + "0" * 26, "phone": "+15005550006"}
    doc = call_commands.new(
        scope,
        customer,
        appointment_id=None,
        channel=Channel.PHONE,
        not_before=None,
        dial_at=clock.now(),
        metadata=None,
    )
    session: Any = {**doc, **given}
    return sessions.SESSIONS.insert_writes(scope, session)[0].row


def write(rows: Sequence[table.Row]) -> None:
    """Put the rows into the table."""
    items = [table.encode(row) for row in rows]
    name = os.environ["TABLE_NAME"]
    for start in range(0, len(items), _BATCH):
        puts: Any = [{"PutRequest": {"Item": item}} for item in items[start : start + _BATCH]]
        answer = services.dynamodb().call("BatchWriteItem", {"RequestItems": {name: puts}})
        assert not answer["UnprocessedItems"]
