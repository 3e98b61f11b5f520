"""Idempotency-Keys: one effect and one response per key for 24 hours (specification, "Limits"; contract 4).

The record is a row of the transaction that does the work, put on condition that it does not exist: either the effect
and its saved response are there, or neither. A retry meets the record and is answered with the saved response.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request as StarletteRequest

from shared.api.responses import Response
from shared.core import clock, table
from shared.core.errors import ApiError
from shared.core.keys import Scope
from shared.resources import fields

WINDOW = clock.DAY
"""How long a response is saved."""
_HEADER = "Idempotency-Key"
_KEY = re.compile(r"[\x20-\x7e]{1,255}")


@dataclass(frozen=True)
class Key:
    """The Idempotency-Key of a request, and what it is bound to. `api_key` only seals responses; it is not stored."""

    scope: Scope
    value: str
    fingerprint: str
    api_key: str = field(repr=False)

    @property
    def pk(self) -> str:
        """The record's partition."""
        return self.scope.pk("idempotency", hashlib.sha256(self.value.encode()).hexdigest())


def read_key(request: StarletteRequest, scope: Scope, body: Mapping[str, Any], api_key: str) -> Key | None:
    """The request's key, None without the header. Raises `idempotency_key_invalid`."""
    value = parse(request.headers.getlist(_HEADER))
    if value is None:
        return None
    return Key(scope, value, fingerprint(request.method, request.url.path, body), api_key)


def parse(headers: Sequence[str]) -> str | None:
    """The value of the Idempotency-Key headers, None without one. Raises `idempotency_key_invalid`."""
    if not headers:
        return None
    if len(headers) > 1 or not _KEY.fullmatch(headers[0]):
        raise ApiError("idempotency_key_invalid", param=_HEADER)
    return headers[0]


def fingerprint(method: str, path: str, body: Mapping[str, Any]) -> str:
    """What a key is bound to: method, path and the body, however it is spelled as JSON."""
    canonical = fields.canonical(body)
    return hashlib.sha256(f"{method}\n{path}\n{canonical}".encode()).hexdigest()


def record(key: Key, response: Response, request_id: str) -> table.Put:
    """The write that saves a response. Its condition fails if the key has a record that has not expired."""
    row: table.Row = {"pk": key.pk, "sk": "record", "kind": "idempotency", "req": request_id}
    row |= {"fingerprint": key.fingerprint, "code": response.status, "location": response.location}
    row |= {"deferred": response.deferred, "expires_at": (clock.now() + WINDOW) // clock.SECOND}
    row |= _sealed(key, response.body) if response.holds_secret else {"body": response.body}
    return table.Put(
        row,
        condition="attribute_not_exists(pk) OR expires_at <= :now",
        values={":now": clock.now() // clock.SECOND},
    )


def find(key: Key) -> table.Row | None:
    """The record of the key, None if it has none or it has expired."""
    return table.get(key.pk, "record")


def read(key: Key, row: table.Row) -> Response:
    """The saved response of a record. Raises `idempotency_key_reused` if the record is of another request."""
    if row["fingerprint"] != key.fingerprint:
        raise _reused()
    body = _opened(key, row) if "sealed" in row else row["body"]
    return Response(row["code"], body, row.get("location"), deferred=row.get("deferred"), original_request=row["req"])


def _sealed(key: Key, body: str) -> table.Row:
    salt, nonce = os.urandom(16), os.urandom(12)
    return {"salt": salt, "nonce": nonce, "sealed": _cipher(key, salt).encrypt(nonce, body.encode(), None)}


def _opened(key: Key, row: table.Row) -> str:
    from cryptography.exceptions import InvalidTag

    try:
        return str(_cipher(key, row["salt"]).decrypt(row["nonce"], row["sealed"], None).decode())
    except InvalidTag as error:
        raise _reused() from error


def _reused() -> ApiError:
    return ApiError("idempotency_key_reused", param=_HEADER)


def _cipher(key: Key, salt: bytes) -> Any:
    # Only requests whose responses hold a secret come here, so only they pay for the import.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    material = f"{key.api_key}\n{key.value}".encode()
    return AESGCM(HKDF(SHA256(), 32, salt, b"saved response").derive(material))
