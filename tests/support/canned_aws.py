"""HTTP responses of AWS as bytes, and servers that send them (behaviours of `tests/support/receivers.py`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from zlib import crc32

from shared.aws.client import AwsClient, AwsService
from shared.aws.credentials import Source
from tests.support.receivers import Behaviour, Certificate, Exchange, Receiver, Request

DATE = "Mon, 21 Sep 2026 14:13:20 GMT"


def response(
    status: int = 200, body: Any = None, headers: Mapping[str, str] | None = None, *, raw: bytes | None = None
) -> bytes:
    """A response; `body` is sent as JSON with its checksum, `raw` as it is without one."""
    content = json.dumps({} if body is None else body).encode() if raw is None else raw
    lines = {"Content-Type": "application/x-amz-json-1.0", "Content-Length": str(len(content)), "Date": DATE}
    if raw is None:
        lines["x-amz-crc32"] = str(crc32(content))
    lines |= headers or {}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Whatever\r\n{head}\r\n".encode() + content


def error(code: str, status: int = 400, **headers: str) -> bytes:
    """An error response with this code."""
    body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "because"}
    return response(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def serving(*responses: bytes) -> Behaviour:
    """A connection that answers so many requests, and is closed then."""

    def behave(exchange: Exchange) -> None:
        for each in responses:
            exchange.read_request()
            exchange.send(each)

    return behave


def answer_always(answer: Callable[[Request], bytes]) -> Behaviour:
    """A connection that answers every request."""

    def behave(exchange: Exchange) -> None:
        while True:
            exchange.send(answer(exchange.read_request()))

    return behave


@contextmanager
def endpoint(*connections: Behaviour, tls: Certificate | None = None) -> Iterator[Receiver]:
    """A server whose connections behave so, in turn; the last one's way is that of all later ones."""
    with Receiver(*connections, tls=tls) as server:
        yield server


@contextmanager
def client(service: AwsService, credentials: Source | None = None) -> Iterator[AwsClient]:
    """A client of the endpoint that the environment names."""
    found = AwsClient(service, credentials or Source())
    try:
        yield found
    finally:
        found.close()
