"""The ledger: which customers were erased, and which phones opted out, kept outside the table.

A restored table contains what was erased after the instant of the restore, and lacks the opt-outs since. `infra.manage
customers erase --from-ledger` and `infra.manage opt-outs apply` make up for it. The ledger contains no personal data:
in the stage's bucket `Erasures`, it has an object for each erased customer, `{project}/{mode}/{customer}.json`, and
one for each opt-out and each lifting, `opt_outs/{project}/{mode}/{hash of the phone}/{change}.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shared.aws import objects
from shared.core import clock, settings
from shared.store.keys import Scope

_OPT_OUTS = "opt_outs/"
_LONGEST_SEQUENCE_NUMBER = 40


@dataclass(frozen=True)
class ErasureEntry:
    """A customer who was erased, or is to be erased. `ended_at` is None until the erasure is complete."""

    scope: Scope
    customer_id: str
    begun_at: str
    ended_at: str | None = None


@dataclass(frozen=True)
class OptOut:
    """A phone, by its hash, that has opted out, or whose opt-out was lifted."""

    scope: Scope
    phone_hash: str
    opted_out: bool


def begin(scope: Scope, customer_id: str) -> ErasureEntry:
    """Enter an erasure that begins now. Raises Unavailable."""
    entry = ErasureEntry(scope, customer_id, clock.iso(clock.now()))
    _write(entry)
    return entry


def end(entry: ErasureEntry) -> None:
    """Enter the end of an erasure. Raises Unavailable."""
    _write(ErasureEntry(entry.scope, entry.customer_id, entry.begun_at, clock.iso(clock.now())))


def entries() -> list[ErasureEntry]:
    """All erasures, by key. Raises Unavailable."""
    return [
        _read(item.key)
        for item in objects.list_objects(settings.erasures_bucket())
        if not item.key.startswith(_OPT_OUTS)
    ]


def enter(change: OptOut, record: Mapping[str, Any]) -> None:
    """Enter an opt-out or its lifting, from the record of the change in the table's stream. Raises Unavailable.

    The key begins with the time and the sequence number of the change. So entering it twice, or after a later one, has
    no further effect.
    """
    at = clock.iso(clock.of_unix(clock.UnixSeconds(int(record["ApproximateCreationDateTime"]))))
    place = f"{_OPT_OUTS}{change.scope.project_id}/{_mode(change.scope)}/{change.phone_hash}"
    name = f"{at}-{record['SequenceNumber']:0>{_LONGEST_SEQUENCE_NUMBER}}"
    doc = {"project": change.scope.project_id, "mode": _mode(change.scope), "phone_hash": change.phone_hash}
    objects.write(
        settings.erasures_bucket(), f"{place}/{name}.json", json.dumps(doc | {"opted_out": change.opted_out, "at": at})
    )


def opt_outs() -> Iterator[OptOut]:
    """The latest change of each phone that has ever opted out. Raises Unavailable."""
    # The objects of one phone are in the order of its changes.
    latest = {
        item.key.rpartition("/")[0]: item.key for item in objects.list_objects(settings.erasures_bucket(), _OPT_OUTS)
    }
    for key in latest.values():
        doc = json.loads(objects.read(settings.erasures_bucket(), key))
        yield OptOut(Scope(doc["project"], doc["mode"] == "live"), doc["phone_hash"], doc["opted_out"])


def _read(key: str) -> ErasureEntry:
    doc = json.loads(objects.read(settings.erasures_bucket(), key))
    return ErasureEntry(Scope(doc["project"], doc["mode"] == "live"), doc["customer"], doc["begun_at"], doc["ended_at"])


def _write(entry: ErasureEntry) -> None:
    mode = _mode(entry.scope)
    doc = {"project": entry.scope.project_id, "mode": mode, "customer": entry.customer_id}
    doc |= {"begun_at": entry.begun_at, "ended_at": entry.ended_at}
    objects.write(
        settings.erasures_bucket(), f"{entry.scope.project_id}/{mode}/{entry.customer_id}.json", json.dumps(doc)
    )


def _mode(scope: Scope) -> str:
    return "live" if scope.livemode else "test"
