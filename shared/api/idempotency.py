"""Idempotency-Keys: one effect and one answer per key for 24 hours (specification, "Limits"; contract 4).

The record is a row of the very transaction that does the work, put on condition that it does not exist:
either the effect and its saved answer are there, or neither. A retry meets the record and replays it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.core import clock, table
from shared.core.errors import ApiError
from shared.core.keys import Scope
from shared.resources import fields

WINDOW = clock.DAY
_KEY = re.compile(r"[\x20-\x7e]{1,255}")


@dataclass(frozen=True)
class Saved:
    """An answer to be replayed. `request` is the id of the request that it first answered.

    `awaits` names what the body comes from if that is still to come: who replays the answer waits for it.
    """

    status: int
    body: str
    location: str | None
    request: str
    awaits: str | None = None


@dataclass(frozen=True)
class Request:
    """A request that carries an Idempotency-Key. `api_key` only ever seals; it is not stored."""

    scope: Scope
    key: str
    fingerprint: str
    api_key: str

    @property
    def pk(self) -> str:
        """The record's partition."""
        return self.scope.pk("idempotency", hashlib.sha256(self.key.encode()).hexdigest())


def checked(keys: list[str]) -> str | None:
    """The value of the Idempotency-Key header(s), None without one. Raises ApiError."""
    if not keys:
        return None
    if len(keys) > 1 or not _KEY.fullmatch(keys[0]):
        raise ApiError("idempotency_key_invalid", param="Idempotency-Key")
    return keys[0]


def fingerprint(method: str, path: str, body: Mapping[str, Any]) -> str:
    """What a key is bound to: method, path and the body, whatever its spelling as JSON."""
    canonical = fields.canonical(body)
    return hashlib.sha256(f"{method}\n{path}\n{canonical}".encode()).hexdigest()


def record(request: Request, saved: Saved, *, sealed: bool) -> table.Put:
    """The write that saves an answer and that a second one with the same key is refused by."""
    row: table.Row = {"pk": request.pk, "sk": "record", "kind": "idempotency", "req": saved.request}
    row |= {"fingerprint": request.fingerprint, "code": saved.status, "location": saved.location}
    row |= {"awaits": saved.awaits, "expires_at": (clock.now() + WINDOW) // clock.SECOND}
    if sealed:
        salt, nonce = os.urandom(16), os.urandom(12)
        row |= {
            "salt": salt,
            "nonce": nonce,
            "sealed": _cipher(request, salt).encrypt(nonce, saved.body.encode(), None),
        }
    else:
        row["body"] = saved.body
    return table.Put(
        row,
        condition="attribute_not_exists(pk) OR expires_at <= :now",
        values={":now": clock.now() // clock.SECOND},
    )


def find(request: Request) -> table.Row | None:
    """The record of the key, if it has one that still counts."""
    row = table.get(request.pk, "record")
    return row if row is not None and row["expires_at"] > clock.now() // clock.SECOND else None


def opened(request: Request, row: table.Row) -> Saved:
    """The answer in a record. Raises `idempotency_key_reused` where the record is of another request."""
    if row["fingerprint"] != request.fingerprint:
        raise ApiError("idempotency_key_reused", param="Idempotency-Key")
    body = _unsealed(request, row) if "sealed" in row else row["body"]
    return Saved(row["code"], body, row.get("location"), row["req"], row.get("awaits"))


def _unsealed(request: Request, row: table.Row) -> str:
    from cryptography.exceptions import InvalidTag

    try:
        return str(_cipher(request, row["salt"]).decrypt(row["nonce"], row["sealed"], None).decode())
    except InvalidTag as error:
        raise ApiError("idempotency_key_reused", param="Idempotency-Key") from error


def _cipher(request: Request, salt: bytes) -> Any:
    # Only requests whose answers hold a secret come here, so only they pay for the import.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    material = f"{request.api_key}\n{request.key}".encode()
    return AESGCM(HKDF(SHA256(), 32, salt, b"saved response").derive(material))
