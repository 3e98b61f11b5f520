"""The ledger: which customers were erased, by id, kept outside the table.

A restored table contains what was erased after the instant of the restore. `infra.manage customers erase
--from-ledger` erases it again. The ledger contains no personal data: an object of the stage's bucket `Erasures` for
each customer, `{project}/{mode}/{customer}.json`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from shared.aws import objects
from shared.core import clock
from shared.store.keys import Scope


@dataclass(frozen=True)
class Entry:
    """A customer who was erased, or is to be erased. `ended_at` is None until the erasure is complete."""

    scope: Scope
    customer_id: str
    begun_at: str
    ended_at: str | None = None


def begin(scope: Scope, customer_id: str) -> Entry:
    """Enter an erasure that begins now. Raises Unavailable."""
    entry = Entry(scope, customer_id, clock.iso(clock.now()))
    _write(entry)
    return entry


def end(entry: Entry) -> None:
    """Enter the end of an erasure. Raises Unavailable."""
    _write(Entry(entry.scope, entry.customer_id, entry.begun_at, clock.iso(clock.now())))


def entries() -> list[Entry]:
    """All entries, by key. Raises Unavailable."""
    return [_read(item.key) for item in objects.find(_bucket())]


def _read(key: str) -> Entry:
    doc = json.loads(objects.read(_bucket(), key))
    return Entry(Scope(doc["project"], doc["mode"] == "live"), doc["customer"], doc["begun_at"], doc["ended_at"])


def _write(entry: Entry) -> None:
    mode = "live" if entry.scope.livemode else "test"
    doc = {"project": entry.scope.project_id, "mode": mode, "customer": entry.customer_id}
    doc |= {"begun_at": entry.begun_at, "ended_at": entry.ended_at}
    objects.write(_bucket(), f"{entry.scope.project_id}/{mode}/{entry.customer_id}.json", json.dumps(doc))


def _bucket() -> str:
    return os.environ["ERASURES_BUCKET"]
