"""Stored batches: changes of the table that fan_out could not process, which contain whole rows."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from shared.aws import objects
from shared.customers.resource import CUSTOMERS
from shared.store import table
from shared.store.keys import Scope


@dataclass(frozen=True)
class StoredBatch:
    """A failed batch of the table's stream. `replace` stores new content in its place, or None to delete it."""

    name: str
    content: str
    replace: Callable[[str | None], None]


def in_bucket(bucket: str) -> Iterator[StoredBatch]:
    """The failed batches in a bucket, oldest first. Raises Unavailable."""
    for item in sorted(objects.list_objects(bucket), key=lambda item: item.modified_at):
        content = objects.read(bucket, item.key).decode()
        yield StoredBatch(item.key, content, functools.partial(objects.replace_or_delete, bucket, item.key))


def erase(batch: StoredBatch, scope: Scope, customer_id: str) -> int:
    """Remove the changes of a customer's rows from a stored batch. Returns their number."""
    stored = json.loads(batch.content)
    payload = json.loads(stored["payload"]) if isinstance(stored["payload"], str) else stored["payload"]
    records = payload["Records"]
    others = [record for record in records if not _is_of(record, scope, customer_id)]
    if len(others) == len(records):
        return 0
    if others:
        payload = {**payload, "Records": others}
        kept = json.dumps(payload) if isinstance(stored["payload"], str) else payload
        batch.replace(json.dumps({**stored, "payload": kept}))
    else:
        batch.replace(None)
    return len(records) - len(others)


def _is_of(record: Any, scope: Scope, customer_id: str) -> bool:
    change = record["dynamodb"]
    return any(_image_is_of(change[name], scope, customer_id) for name in ("OldImage", "NewImage") if name in change)


def _image_is_of(image: Any, scope: Scope, customer_id: str) -> bool:
    if not image["pk"]["S"].startswith(scope.pk("")):
        return False
    if image["sk"]["S"].startswith(CUSTOMERS.prefix):
        return bool(image["sk"]["S"] == customer_id)
    row = table.decode(image)
    if row.get("customer_id") == customer_id:
        return True
    # A phone's opt-out has no document, and belongs to no customer.
    text = row.get("doc", "")
    try:
        return bool(json.loads(text).get("customer_id") == customer_id)
    except ValueError:
        return customer_id in text
