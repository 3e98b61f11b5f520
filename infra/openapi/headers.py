"""The headers of responses (promises 1)."""

from __future__ import annotations

from typing import Any

from infra.openapi.schemas import ref
from shared.core import limits

_RATE = f'"second";q={limits.REQUESTS_PER_SECOND};w=1, "minute";q={limits.REQUESTS_PER_MINUTE};w=60'

HEADERS: dict[str, Any] = {
    "Service-Request-Id": {
        "description": "The id of the request. Quote it to support.",
        "required": True,
        "schema": {"type": "string", "pattern": "^req_[0-9a-z]{26}$"},
        "example": "req_01kacx5d6n8q2r4s6t8v0w1x2y",
    },
    "Service-Version": {
        "description": "The API revision in force.",
        "required": True,
        "schema": ref("ApiVersionValue"),
    },
    "Cache-Control": {
        "description": "Responses are not cached.",
        "required": True,
        "schema": {"type": "string", "const": "no-store"},
    },
    "RateLimit-Policy": {
        "description": "The rate limits of an API key: quota (`q`) and seconds (`w`) of each window.",
        "required": True,
        "schema": {"type": "string"},
        "example": _RATE,
    },
    "RateLimit": {
        "description": "The window with the least left: remaining requests (`r`) and seconds until it resets (`t`).",
        "required": True,
        "schema": {"type": "string"},
        "example": '"second";r=99;t=1',
    },
    "Location": {
        "description": "The path of the resource that was created. For a message, the messages of its conversation.",
        "required": True,
        "schema": {"type": "string"},
    },
    "Idempotent-Replayed": {
        "description": "`true` if this is the saved response to an earlier request with the same Idempotency-Key.",
        "schema": {"type": "string", "const": "true"},
    },
    "Original-Request": {
        "description": "If the response is replayed: the id of the request to which it was first sent.",
        "schema": {"type": "string", "pattern": "^req_[0-9a-z]{26}$"},
    },
    "Service-Should-Retry": {
        "description": "Whether to send the same request again: it may succeed, and it takes effect once.",
        "required": True,
        "schema": {"type": "string", "enum": ["true", "false"]},
    },
    "Retry-After": {
        "description": "The number of seconds after which to send the request again.",
        "schema": {"type": "integer", "minimum": 1},
        "example": 1,
    },
    "Service-Rate-Limited-Reason": {
        "description": "The limit that is reached. Later revisions may add others.\n\n"
        "- `second`, `minute`: The window of the API key.\n- `messages`: The project's live messages under way.",
        "schema": {"type": "string"},
    },
    "WWW-Authenticate": {
        "description": "`Bearer`. API Gateway renames it to `x-amzn-Remapped-WWW-Authenticate`.",
        "schema": {"type": "string"},
    },
    "x-amzn-Remapped-WWW-Authenticate": {
        "description": "`Bearer`: the header `WWW-Authenticate`, as API Gateway renames it.",
        "schema": {"type": "string"},
    },
}
_ALWAYS = ("Service-Request-Id", "Service-Version", "Cache-Control")
_AUTHENTICATED = ("RateLimit-Policy", "RateLimit")
_REPLAYED = ("Idempotent-Replayed", "Original-Request")
_MORE = {
    401: ("WWW-Authenticate", "x-amzn-Remapped-WWW-Authenticate"),
    409: ("Retry-After",),
    429: ("Retry-After", "Service-Rate-Limited-Reason"),
    503: ("Retry-After",),
    504: ("Location",),
}


def of_success(status: int, method: str) -> dict[str, Any]:
    """The headers of a success."""
    names = [*_ALWAYS, *_AUTHENTICATED, *(["Location"] if status == 201 else [])]
    return _refs([*names, *(_REPLAYED if method in ("POST", "PATCH") else ())])


def of_error(status: int, method: str, *, by_gateway: bool) -> dict[str, Any]:
    """The headers of an error. `by_gateway`: API Gateway may respond with this status, with fewer headers."""
    found = _refs([*_ALWAYS, *_AUTHENTICATED, "Service-Should-Retry", *_MORE.get(status, ())])
    # Only the conflicts that are saved are replayed.
    if status == 409 and method in ("POST", "PATCH"):
        found |= _refs(_REPLAYED)
    if by_gateway:
        found |= {"Service-Request-Id": HEADERS["Service-Request-Id"] | {"schema": {"type": "string"}}}
        found |= _optional("Service-Version")
    if status in (401, 500) or by_gateway:
        # The key may not be known yet.
        found |= _optional(*_AUTHENTICATED)
    return found


def _optional(*names: str) -> dict[str, Any]:
    return {name: {key: value for key, value in HEADERS[name].items() if key != "required"} for name in names}


def _refs(names: Any) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
