"""Responses: the result of an operation, the headers of every response, and error bodies (promises 1 and 2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from starlette.responses import Response as StarletteResponse

from shared.core import api_description
from shared.core.errors import RETRYABLE, ApiError
from shared.projects import api_keys, rate_limits
from shared.resources import fields
from shared.resources.collections import Record
from shared.resources.queries import Page

_RATE_LIMIT_POLICY = f'"second";q={rate_limits.PER_SECOND};w=1, "minute";q={rate_limits.PER_MINUTE};w=60'

D = TypeVar("D", bound=Mapping[str, Any])
T = TypeVar("T")


@dataclass
class RequestContext:
    """The context of a request from its start, for the response headers and the log."""

    request_id: str
    started: float
    """The value of `time.perf_counter` at the start of the request."""
    seconds: float
    """Seconds that the function had for the request at its start."""
    base_url: str
    prefix: str
    """The part of the path before the API's paths: the stage's path, or empty."""
    version: str = api_description.NEWEST_REVISION
    caller: api_keys.Caller | None = None
    route: str | None = None
    repeatable: bool = False
    """Whether the request can be repeated without another effect: a GET, a DELETE, or one with an Idempotency-Key."""
    may_have_written: bool = False
    error_code: str | None = None
    error_param: str | None = None


@dataclass(frozen=True)
class Response(Generic[T]):
    """The response of an operation. The body of a success is the JSON text of a `T`."""

    status: int
    body: str
    """JSON text; empty in a saved response whose body is `deferred`."""
    location: str | None = None
    """The path for the `Location` header."""
    holds_secret: bool = False
    """Whether the body is saved encrypted (promises 4)."""
    deferred: str | None = None
    """In a saved response: names the body, if it did not exist yet. A retry gets it from `Operation.deferred_body`."""
    original_request: str | None = None
    """On a replay: the id of the request to which this response was first sent."""


def ok(body: T) -> Response[T]:
    """A 200 with this document."""
    return Response(200, fields.to_json(body))


def stored(record: Record[D, Any]) -> Response[D]:
    """A 200 with this resource as it is stored."""
    return Response(200, record.json)


def page(page: Page[D], path: str, docs: list[str] | None = None) -> Response[Page[D]]:
    """A 200 with this page of the list at the path. `docs`, as JSON texts, replace the documents of the rows."""
    return Response(200, page.envelope(path, docs))


def created(body: T, location: str) -> Response[T]:
    """A 201 with this document. `location` is the path of the resource."""
    return Response(201, fields.to_json(body), location)


def accepted(body: T) -> Response[T]:
    """A 202 with this document: the work is queued."""
    return Response(202, fields.to_json(body))


def common_headers(context: RequestContext) -> dict[str, str]:
    """The headers of every response (promises 1)."""
    headers = {
        "Service-Request-Id": context.request_id,
        "Service-Version": context.version,
        "Cache-Control": "no-store",
    }
    caller = context.caller
    if caller is not None:
        headers["RateLimit-Policy"] = _RATE_LIMIT_POLICY
        remaining = caller.remaining
        second, minute = max(remaining.in_second, 0), max(remaining.in_minute, 0)
        # If both windows are used up, the minute is the one that refuses requests for longer.
        if second < minute:
            headers["RateLimit"] = f'"second";r={second};t=1'
        else:
            headers["RateLimit"] = f'"minute";r={minute};t={remaining.minute_resets_in_s}'
    return headers


def render(response: Response[Any], context: RequestContext) -> StarletteResponse:
    """Render a success or the replay of a saved response. A replayed error body gets the id of this request."""
    headers = {"Location": context.prefix + response.location} if response.location else {}
    body = response.body
    if response.original_request is not None:
        headers |= {"Idempotent-Replayed": "true", "Original-Request": response.original_request}
    if response.status >= 400:
        document = json.loads(body)
        document["error"]["request_id"] = context.request_id
        body = fields.to_json(document)
        headers["Service-Should-Retry"] = "false"
    return _json(response.status, body, headers)


def render_error(error: ApiError, context: RequestContext) -> StarletteResponse:
    """Render an error response."""
    context.error_code, context.error_param = error.code, error.field
    headers = {"Service-Should-Retry": "true" if _should_retry(error, context) else "false"} | error.headers
    if "Location" in headers:
        headers["Location"] = context.prefix + headers["Location"]
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return _json(error.status, error_body(error, context), headers)


def error_body(error: ApiError, context: RequestContext) -> str:
    """The error envelope (promise 2.1)."""
    body = {"type": error.type, "code": error.code, "message": error.message}
    body |= {"param": error.param} if error.param is not None else {}
    body |= error.extra
    body |= {"request_id": context.request_id, "doc_url": f"{context.base_url}/docs/errors#{error.code}"}
    return fields.to_json({"error": body})


def _should_retry(error: ApiError, context: RequestContext) -> bool:
    """The value of `Service-Should-Retry` (promises 1)."""
    if error.status >= 500:
        return context.repeatable or not context.may_have_written
    return error.code in RETRYABLE


def _json(status: int, body: str, headers: Mapping[str, str]) -> StarletteResponse:
    return StarletteResponse(body.encode(), status, headers, media_type="application/json")
