"""Phones whose owners do not want to be called or written to, per project and mode (promises 11).

A phone's opt-out is a row with a keyed hash of the number and nothing else. It outlives the customers who have the
phone, and their erasure. The key is a row beside it. The first opt-out of a project and mode writes the key, and
nothing changes it afterwards (`shared/calls/DECISIONS.md`).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence

from shared.store import table
from shared.store.keys import Scope


def keys(scope: Scope) -> list[tuple[str, str]]:
    """The key of the row that `has_opted_out` takes in `rows`."""
    return [(scope.pk("opt_out"), "key")]


def has_opted_out(scope: Scope, phone: str, rows: Mapping[tuple[str, str], table.Row] | None = None) -> bool:
    """Whether nobody may be called at this phone. `rows` saves a read if it has those of `keys` that exist."""
    row = _key_row(scope) if rows is None else rows.get(keys(scope)[0])
    return row is not None and table.get(*_address(scope, row, phone)) is not None


def opt_out(scope: Scope, phone: str) -> Sequence[table.Write]:
    """The writes that opt a phone out; `[]` if it has opted out."""
    row, writes = _key_row(scope), list[table.Write]()
    if row is None:
        [(pk, sk)] = keys(scope)
        row = {"pk": pk, "sk": sk, "kind": "opt_out_key", "key": secrets.token_hex(32)}
        # If another first opt-out is faster, its key is the one, and this opt-out is decided again.
        writes.append(table.Put(row))
    pk, sk = _address(scope, row, phone)
    if writes or table.get(pk, sk) is None:
        writes.append(table.Put({"pk": pk, "sk": sk, "kind": "opt_out"}, condition=""))
    return writes


def opt_in(scope: Scope, phone: str) -> Sequence[table.Write]:
    """The write that lifts a phone's opt-out; `[]` if it has none."""
    row = _key_row(scope)
    if row is None or table.get(*_address(scope, row, phone)) is None:
        return []
    return [table.Delete(*_address(scope, row, phone), condition="")]


def _key_row(scope: Scope) -> table.Row | None:
    """The row with the key of the hashes; None before the first opt-out."""
    return table.get(*keys(scope)[0])


def _address(scope: Scope, key_row: table.Row, phone: str) -> tuple[str, str]:
    digest = hmac.new(bytes.fromhex(key_row["key"]), phone.encode(), hashlib.sha256).hexdigest()
    return scope.pk("opt_out"), f"phone#{digest}"
