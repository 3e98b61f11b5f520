"""Idempotency-Keys of POST and PATCH: one effect and one response per key for 24 hours (promises 4).

The record of a key is written in the transaction that does the work, on condition that it does not exist. Either the
effect and its saved response exist, or neither does. A retry's own record fails that condition, and the saved response
is its response.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict, cast

from starlette.requests import Request as StarletteRequest

from shared.api.responses import Response
from shared.core import clock, limits
from shared.core.errors import ApiError, Code
from shared.resources import fields
from shared.store import table
from shared.store.keys import Scope

SAVED_MS = clock.DAY
"""How long a response is saved."""
_HEADER = "Idempotency-Key"
_KEY = re.compile(rf"[\x20-\x7e]{{1,{limits.IDEMPOTENCY_KEY_CHARACTERS}}}")
KEY_PATTERN = f"^[!-~]([ -~]{{0,{limits.IDEMPOTENCY_KEY_CHARACTERS - 2}}}[!-~])?$"
"""The same as JSON Schema. HTTP removes spaces around the value of a header."""


@dataclass(frozen=True)
class IdempotencyKey:
    """The Idempotency-Key of a request, and the request it is bound to.

    `api_key` encrypts responses that hold a secret. It is not stored.
    """

    scope: Scope
    value: str
    fingerprint: str
    api_key: str = field(repr=False)

    @property
    def pk(self) -> str:
        """The partition key of the record."""
        return self.scope.pk("idempotency", hashlib.sha256(self.value.encode()).hexdigest())


class Seal(TypedDict):
    """An encrypted response."""

    salt: bytes
    nonce: bytes
    sealed: bytes


class IdempotencyRow(TypedDict):
    """The record of an Idempotency-Key: its saved response, with `body` or with the attributes of a `Seal`."""

    pk: str
    sk: str
    kind: str
    fingerprint: str
    """The request that the key is bound to."""
    req: str
    """The id of the request that made the response."""
    code: int
    """The response's status."""
    location: NotRequired[str | None]
    deferred: NotRequired[str]
    """Says how to get a body that the response did not have yet."""
    body: NotRequired[str]
    salt: NotRequired[bytes]
    nonce: NotRequired[bytes]
    sealed: NotRequired[bytes]
    expires_at: clock.UnixSeconds


class Recorded(Exception):
    """The request was executed before. `row` is the record of it."""

    def __init__(self, row: table.Row) -> None:
        super().__init__("the request was executed before")
        self.row = cast("IdempotencyRow", row)


def read_key(request: StarletteRequest, scope: Scope, body: Mapping[str, Any], api_key: str) -> IdempotencyKey | None:
    """The key of the request; None without the header. Raises `idempotency_key_invalid`."""
    value = parse(request.headers.getlist(_HEADER))
    if value is None:
        return None
    return IdempotencyKey(scope, value, fingerprint(request.method, request.url.path, body), api_key)


def parse(headers: Sequence[str]) -> str | None:
    """The value of the Idempotency-Key header; None without the header. Raises `idempotency_key_invalid`."""
    if not headers:
        return None
    if len(headers) > 1 or not _KEY.fullmatch(headers[0]):
        raise ApiError(Code.IDEMPOTENCY_KEY_INVALID, param=_HEADER)
    return headers[0]


def fingerprint(method: str, path: str, body: Mapping[str, Any]) -> str:
    """A hash of the method, the path and the canonical JSON of the body, to which a key is bound."""
    canonical = fields.canonical(body)
    return hashlib.sha256(f"{method}\n{path}\n{canonical}".encode()).hexdigest()


def record_write(key: IdempotencyKey, response: Response[Any], request_id: str) -> table.Put:
    """The write that saves a response. It is refused by Recorded if the key has a record that has not expired."""
    row: IdempotencyRow = {
        "pk": key.pk,
        "sk": "record",
        "kind": "idempotency",
        "fingerprint": key.fingerprint,
        "req": request_id,
        "code": response.status,
        "location": response.location,
        "expires_at": table.expiry(clock.now() + SAVED_MS),
    }
    if response.deferred is not None:
        row["deferred"] = response.deferred
    body = _seal(key, response.body) if response.holds_secret else {"body": response.body}
    refusal = table.Refusal(Recorded, goes_first=True, contended=_key_in_use)
    return table.Put({**row, **body}, table.absent_or_expired(), refusal)


def find(key: IdempotencyKey) -> Response[Any] | None:
    """The saved response of the key; None if there is none, or if it has expired. Raises `idempotency_key_reused`."""
    row = table.get(key.pk, "record")
    return None if row is None else read(key, cast("IdempotencyRow", row))


def read(key: IdempotencyKey, row: IdempotencyRow) -> Response[Any]:
    """The saved response in a record. Raises `idempotency_key_reused` if the record belongs to another request."""
    if row["fingerprint"] != key.fingerprint:
        raise _key_reused()
    body = _unseal(key, row) if "sealed" in row else row["body"]
    deferred = row.get("deferred") or None
    return Response(row["code"], body, row.get("location"), deferred=deferred, original_request=row["req"])


def _seal(key: IdempotencyKey, body: str) -> Seal:
    salt, nonce = os.urandom(16), os.urandom(12)
    return {"salt": salt, "nonce": nonce, "sealed": _cipher(key, salt).encrypt(nonce, body.encode(), None)}


def _unseal(key: IdempotencyKey, row: IdempotencyRow) -> str:
    from cryptography.exceptions import InvalidTag

    try:
        return str(_cipher(key, row["salt"]).decrypt(row["nonce"], row["sealed"], None).decode())
    except InvalidTag as error:
        raise _key_reused() from error


def _key_in_use() -> ApiError:
    return ApiError(Code.IDEMPOTENCY_KEY_IN_USE, headers={"Retry-After": "1"})


def _key_reused() -> ApiError:
    return ApiError(Code.IDEMPOTENCY_KEY_REUSED, param=_HEADER)


def _cipher(key: IdempotencyKey, salt: bytes) -> Any:
    # Imported here, because only responses that hold a secret need it.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    material = f"{key.api_key}\n{key.value}".encode()
    return AESGCM(HKDF(SHA256(), 32, salt, b"saved response").derive(material))
