"""Phones whose owners do not want to be called or written to, per project and mode (promises 11).

A phone's opt-out is a row with a keyed hash of the number and nothing else. It outlives the customers who have the
phone, and their erasure. The key is made with the project, in its row, and never changes (`shared/calls/DECISIONS.md`).
The first opt-out in a mode copies it to a row beside the opt-outs, without which nobody has opted out. The ledger has
every opt-out and its lifting, too, for a table that is restored.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence

from shared.projects import projects
from shared.store import table
from shared.store.keys import Scope

KIND = "opt_out"
_PHONE = "phone#"


def keys(scope: Scope) -> list[table.Key]:
    """The key of the row that `contains` takes in `rows`."""
    return [(scope.pk(KIND), "key")]


def contains(scope: Scope, phone: str, rows: table.Rows | None = None) -> bool:
    """Whether nobody may be called at this phone. `rows` saves a read: those of `keys`, at least."""
    row = _key_row(scope) if rows is None else rows.get(keys(scope)[0])
    return row is not None and table.get(*_address(scope, hash_of(row["key"], phone))) is not None


def add_writes(scope: Scope, phone: str) -> Sequence[table.Write]:
    """The writes that opt a phone out; `[]` if it has opted out."""
    row = _key_row(scope)
    # A project without a key is older than opt-outs.
    key = row["key"] if row else _key_of_project(scope) or secrets.token_hex(32)
    return [*([] if row else [_key_write(scope, key)]), *_put_writes(scope, hash_of(key, phone))]


def remove_writes(scope: Scope, phone: str) -> Sequence[table.Write]:
    """The write that lifts a phone's opt-out; `[]` if it has none."""
    row = _key_row(scope)
    return [] if row is None else _delete_writes(scope, hash_of(row["key"], phone))


def restore_writes(scope: Scope, phone_hash: str, *, opted_out: bool) -> Sequence[table.Write]:
    """The writes that opt a phone out, of which only the hash is known, or lift that; `[]` if nothing changes.

    Raises LookupError if the project has no key, so that no phone has this hash.
    """
    if _key_row(scope) is not None:
        return _put_writes(scope, phone_hash) if opted_out else _delete_writes(scope, phone_hash)
    key = _key_of_project(scope)
    if key is None:
        raise LookupError(f"project {scope.project_id} is not in the table, or has no key of opt-outs")
    return [_key_write(scope, key), *_put_writes(scope, phone_hash)] if opted_out else []


def hash_of(key: str, phone: str) -> str:
    """What is stored of a phone: the hash under the key of its project."""
    return hmac.new(bytes.fromhex(key), phone.encode(), hashlib.sha256).hexdigest()


def phone_hash(row: table.Row) -> str:
    """The hash in a row of an opt-out."""
    return str(row["sk"]).removeprefix(_PHONE)


def _key_row(scope: Scope) -> table.Row | None:
    """The row with the key of the hashes; None before the first opt-out."""
    return table.get(*keys(scope)[0])


def _key_of_project(scope: Scope) -> str | None:
    row = table.get(*projects.row_key(scope.project_id))
    return None if row is None else row.get("opt_out_key")


def _key_write(scope: Scope, key: str) -> table.Write:
    """The write before the first opt-out. If another first one is faster, this one is decided again."""
    [(pk, sk)] = keys(scope)
    return table.Put({"pk": pk, "sk": sk, "kind": "opt_out_key", "key": key})


def _put_writes(scope: Scope, phone_hash: str) -> Sequence[table.Write]:
    pk, sk = _address(scope, phone_hash)
    return [] if table.get(pk, sk) else [table.Put({"pk": pk, "sk": sk, "kind": KIND}, table.ALWAYS)]


def _delete_writes(scope: Scope, phone_hash: str) -> Sequence[table.Write]:
    pk, sk = _address(scope, phone_hash)
    return [table.Delete(pk, sk, table.ALWAYS)] if table.get(pk, sk) else []


def _address(scope: Scope, phone_hash: str) -> table.Key:
    return scope.pk(KIND), _PHONE + phone_hash
