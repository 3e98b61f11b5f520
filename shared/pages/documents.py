"""Responses with documents that anyone may keep but has to ask for again: an ETag, and gzip for who accepts it.

The function compresses, not the gateway. The gateway passes a body in base64 on as bytes, by the request's first Accept
header, because all media types are binary ones ("Binary media types for REST APIs in API Gateway":
docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-payload-encodings.html), and leaves a body with a
Content-Encoding as it is ("Receive an API response with a compressed payload in API Gateway":
.../api-gateway-receive-response-with-compressed-payload.html).
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import re
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

_GZIP = re.compile(r"(?:^|,)\s*gzip\s*(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))(?:,|;|$)", re.IGNORECASE)
_TAG = re.compile(r'"[^"]*"')
_KEPT = 64
"""The compressed documents that a container keeps: more than there are pages."""


def respond(request: Request, text: str, media_type: str, headers: Mapping[str, str] | None = None) -> Response:
    """The document, or a 304 if the request's If-None-Match names it.

    The ETag is weak, as that of the document in both codings (RFC 9110, section 8.8.3.3).
    """
    content = text.encode()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    own = {"Cache-Control": "no-cache", "ETag": f"W/{tag}", "Vary": "Accept, Accept-Encoding"} | dict(headers or {})
    asked = request.headers.get("if-none-match", "")
    if asked.strip() == "*" or tag in _TAG.findall(asked):
        # With the type, because API Gateway sets that of JSON where there is none.
        return Response(status_code=304, headers=own, media_type=media_type)
    if accepts_gzip(request.headers):
        return Response(_compressed(content), 200, own | {"Content-Encoding": "gzip"}, media_type)
    return Response(content, 200, own, media_type)


def accepts_gzip(headers: Mapping[str, str]) -> bool:
    """Whether the header Accept-Encoding names gzip, and does not refuse it.

    Without an Accept header, by which the gateway decides, it may pass the body on in base64.
    """
    return "accept" in headers and bool(_GZIP.search(headers.get("accept-encoding", "")))


@functools.lru_cache(_KEPT)
def _compressed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)
