"""Requests as API Gateway passes them to a function."""

from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Mapping
from typing import Any


def request(
    method: str,
    path: str,
    body: Any = None,
    *,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    raw: str | bytes | None = None,
    request_id: str,
) -> dict[str, Any]:
    """The event of a request, its query in `path`; `body` goes as JSON, `raw` as it is. Without a key, it has none."""
    target, _, query = path.partition("?")
    given = {"Host": "api.example.test", "X-Forwarded-Proto": "https"}
    given |= {"Authorization": f"Bearer {key}"} if key else {}
    if raw is None and body is not None:
        raw = json.dumps(body)
    given |= {"Content-Type": "application/json"} if raw is not None else {}
    given |= headers or {}
    parameters = urllib.parse.parse_qs(query, keep_blank_values=True) or None
    return {
        "resource": "/{proxy+}",
        "path": urllib.parse.unquote(target),
        "httpMethod": method,
        "headers": given,
        "multiValueHeaders": {name: [value] for name, value in given.items()},
        "queryStringParameters": {name: values[-1] for name, values in parameters.items()} if parameters else None,
        "multiValueQueryStringParameters": parameters,
        "requestContext": {
            "path": f"/dev{target}",
            "stage": "dev",
            "identity": {"sourceIp": "127.0.0.1"},
            "requestId": request_id,
        },
        "body": base64.b64encode(raw).decode() if isinstance(raw, bytes) else raw,
        "isBase64Encoded": isinstance(raw, bytes),
    }
