"""What is kept about a person, for their request of access: what an erasure removes, as the API shows it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from shared.calls import transcripts
from shared.calls.consent import consents
from shared.conversations.resource import Role, messages_pk
from shared.customers import opted_out_phones
from shared.customers.resource import CUSTOMERS
from shared.erasure import erasing
from shared.resources.collections import Collection
from shared.store import table
from shared.store.keys import Scope
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.deliveries.resource import DELIVERIES
from shared.webhooks.events import EVENTS

_PAGE = 100
Part = tuple[str, dict[str, Any]]
"""The name of a list of the document, and an element of it."""


def document(parts: Iterable[Part]) -> dict[str, list[dict[str, Any]]]:
    """The parts as one document, in which every kind is a list."""
    found: dict[str, list[dict[str, Any]]] = {
        "customers": [],
        "phones": [],
        **{f"{collection.kind}s": [] for collection, _ in erasing.OWNED},
        "events": [],
    }
    for name, one in parts:
        found[name].append(one)
    return found


def parts(scope: Scope, customer_id: str) -> Iterator[Part]:
    """All that is kept about a customer, deleted or not, one after another. Raises `resource_not_found`.

    Recordings are files of their own. Usage has numbers only, and the audit trail no personal data of customers.
    """
    yield "customers", dict(CUSTOMERS.find(scope, customer_id).doc)
    yield from _events(scope, customer_id)
    for phone in sorted(erasing.phones_of(scope, customer_id)):
        yield "phones", _phone(scope, phone)
    for collection, _ in erasing.OWNED:
        for row in erasing.rows_of(collection, scope, customer_id):
            one = _doc(collection, row) | _MORE.get(collection.kind, _nothing)(scope, row)
            yield f"{collection.kind}s", one
            staff = (message["id"] for message in one.get("messages", ()) if message["role"] == Role.STAFF)
            for id in (one["id"], *staff):
                yield from _events(scope, id)


def _doc(collection: Collection[Any, Any], row: table.Row) -> dict[str, Any]:
    return dict(collection.record(row).doc)


def _phone(scope: Scope, phone: str) -> dict[str, Any]:
    consent = consents.find(scope, phone)
    opted_out = opted_out_phones.contains(scope, phone)
    return {"phone": phone, "opted_out": opted_out, "consent": consent.doc if consent.row else None}


def _nothing(scope: Scope, row: table.Row) -> dict[str, Any]:
    return {}


def _of_call(scope: Scope, row: table.Row) -> dict[str, Any]:
    transcript = transcripts.find(scope, row["sk"])
    lines = None if transcript is None else transcripts.lines(transcript)
    return {"instructions": row.get("instructions"), "transcript": lines}


def _of_conversation(scope: Scope, row: table.Row) -> dict[str, Any]:
    pages = table.query(messages_pk(scope, row["sk"]), limit=_PAGE, forward=True)
    return {"messages": [json.loads(one["doc"]) for page in pages for one in page]}


_MORE: Mapping[str, Callable[[Scope, table.Row], dict[str, Any]]] = {
    "session": _of_call,
    "conversation": _of_conversation,
}
"""What belongs to a resource, and is not in its document."""


def _events(scope: Scope, object_id: str) -> Iterator[Part]:
    partition = scope.index(EVENTS.kind, "object_id", object_id)
    for page in table.query(partition, index="f1", limit=_PAGE):
        for row in table.rows_of(page):
            attempts = [_doc(DELIVERIES, dict(one)) for one in deliveries.of_event(scope, row["sk"])]
            yield "events", _doc(EVENTS, row) | {"deliveries": attempts}
