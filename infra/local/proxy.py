"""API Gateway's Lambda proxy integration for REST APIs: converts requests to events, and results to responses.

Binary media types are `*/*`, as in the stack, so a body is always passed in base64.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from infra.gateway_responses import GATEWAY_RESPONSES
from infra.local import names
from infra.local.routes import Match

STAGE = "local"
# These headers concern a single connection, or are set by the server.
_HOP_BY_HOP = frozenset({"connection", "content-length", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})

_GATEWAY_RESPONSES = {response.kind: response for response in GATEWAY_RESPONSES}

Event = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """An HTTP request. `target` is the raw request target. Headers keep their order, case and duplicates."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    body: bytes
    source_ip: str
    port: int

    @property
    def path(self) -> str:
        """The path as sent, with its percent-encoding."""
        if self.target.startswith("/"):
            return self.target.partition("?")[0]
        # An absolute URL, as in requests to a proxy, or the asterisk of OPTIONS.
        return urlsplit(self.target).path if "://" in self.target else "/"

    @property
    def query(self) -> str:
        """The part after the first question mark."""
        return self.target.partition("?")[2]


@dataclass(frozen=True)
class Response:
    """An HTTP response."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


class BadResult(Exception):
    """The function's result is not one that API Gateway can convert to a response."""


def event(request: Request, match: Match, request_id: str) -> Event:
    """The event for the function of `match`."""
    headers = _grouped(
        [
            *(pair for pair in request.headers if not pair[0].lower().startswith("x-forwarded-")),
            ("X-Forwarded-For", request.source_ip),
            ("X-Forwarded-Port", str(request.port)),
            ("X-Forwarded-Proto", "http"),
        ],
        str.lower,
    )
    query = _grouped(parse_qsl(request.query, keep_blank_values=True, errors="replace"), str)
    host = next((values[-1] for name, values in headers.items() if name.lower() == "host"), "localhost")
    agent = next((values[-1] for name, values in headers.items() if name.lower() == "user-agent"), None)
    now = time.time()
    return {
        "resource": match.resource,
        "path": request.path,
        "httpMethod": request.method,
        "headers": {name: values[-1] for name, values in headers.items()},
        "multiValueHeaders": headers,
        "queryStringParameters": {name: values[-1] for name, values in query.items()} or None,
        "multiValueQueryStringParameters": query or None,
        "pathParameters": {name: unquote(value) for name, value in match.parameters.items()} or None,
        "stageVariables": None,
        "requestContext": {
            "accountId": names.ACCOUNT,
            "apiId": names.rest_api(),
            "domainName": host.partition(":")[0],
            "domainPrefix": host.partition(".")[0],
            "extendedRequestId": request_id,
            "httpMethod": request.method,
            "identity": {"sourceIp": request.source_ip, "userAgent": agent},
            # As with a custom domain, whose paths contain no stage.
            "path": request.path,
            "protocol": "HTTP/1.1",
            "requestId": request_id,
            "requestTime": time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(now)),
            "requestTimeEpoch": int(now * 1000),
            "resourceId": match.function.name,
            "resourcePath": match.resource,
            "stage": STAGE,
        },
        "body": base64.b64encode(request.body).decode() if request.body else None,
        "isBase64Encoded": bool(request.body),
    }


def response(result: object) -> Response:
    """The response for a function's result. Raises BadResult."""
    if not isinstance(result, Mapping):
        raise BadResult("the result must be an object")
    try:
        status = int(result["statusCode"])
        body = result.get("body") or ""
        content = base64.b64decode(body, validate=True) if result.get("isBase64Encoded") else body.encode()
        multiple = result.get("multiValueHeaders") or {}
        taken = {name.lower() for name in multiple}
        headers = [(name, str(value)) for name, values in multiple.items() for value in values]
        headers += [
            (name, str(value)) for name, value in (result.get("headers") or {}).items() if name.lower() not in taken
        ]
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
        raise BadResult(f"the result is malformed: {error!r}") from error
    headers = [(name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP]
    return Response(status, headers, content)


def gateway_error(
    kind: str, request_id: str, base_url: str, *, status: int | None = None, message: str | None = None
) -> Response:
    """An error response of the gateway itself, as the stack's gateway response of this kind defines it.

    `status` is needed for a kind without a status of its own. `message` replaces the message.
    """
    found = _GATEWAY_RESPONSES[kind]
    if message is not None:
        found = dataclasses.replace(found, message=message)
    body = found.body(at_root=True).replace("https://$context.domainName", base_url)
    variables = {"context.requestId": request_id}
    mapped = found.header_mappings().items()
    headers = [("Content-Type", "application/json"), *((name, variables.get(v) or v.strip("'")) for name, v in mapped)]
    code = found.status or status
    assert code is not None, f"{kind} has no status"
    return Response(code, headers, body.replace("$context.requestId", request_id).encode())


def _grouped(pairs: Sequence[tuple[str, str]], same: Any) -> dict[str, list[str]]:
    """Values by name, in order. Names for which `same` returns equal values are grouped under the first spelling."""
    spelling: dict[str, str] = {}
    grouped: dict[str, list[str]] = {}
    for name, value in pairs:
        grouped.setdefault(spelling.setdefault(same(name), name), []).append(value)
    return grouped
