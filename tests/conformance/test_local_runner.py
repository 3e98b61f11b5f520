"""What the local runner answers in API Gateway's place: odd methods, and requests beyond the gateway's limits."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.runner import Service

PATIENCE = 5
"""Seconds in which every answer must be there, and the connection closed where that is expected."""
LIMIT = 10_240
FIELDS = 128

pytestmark = pytest.mark.runner("asks what only the runner's own HTTP server decides")


@dataclass(frozen=True)
class Answer:
    """A response; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> Any:
        """The error in its envelope, which every error has; its request id is the header's."""
        error = json.loads(self.body)["error"]
        assert {"type", "code", "message", "request_id", "doc_url"} <= set(error)
        assert error["request_id"] == self.headers["service-request-id"]
        return error


@pytest.fixture
def port(service: Service) -> int:
    """Where the runner listens on loopback."""
    found = urlsplit(service.base_url).port
    assert found is not None
    return found


def exchange(port: int, request: bytes) -> Answer:
    """What the gateway answers to these bytes, on a connection that stays open on this side."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(request)
        return receive_response(connection)


def receive_response(connection: socket.socket) -> Answer:
    """The next response on a connection."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        assert byte, f"closed after {head!r}"
        head += byte
    first, *lines = head.decode().strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = b""
    while len(body) < int(headers["content-length"]):
        body += connection.recv(65536)
    return Answer(int(first.split()[1]), headers, body)


def request_bytes(method: str, target: str, *headers: str, body: bytes = b"", host: str = "localhost") -> bytes:
    """A request as bytes."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def chunked_request(chunks: bytes) -> bytes:
    """A request with a body in chunks."""
    return request_bytes("POST", "/v1/customers", "Transfer-Encoding: chunked", body=chunks)


@pytest.mark.parametrize("target", ["example.com:443", "/v1/customers", "localhost:80"])
@pytest.mark.parametrize("rest", [b"", b"\x16\x03\x01 what would go through a tunnel"], ids=["alone", "followed"])
def test_a_tunnel_is_refused_at_once_and_the_connection_closed(port: int, target: str, rest: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(request_bytes("CONNECT", target, body=rest))
        refused = receive_response(connection)
        assert connection.recv(1) == b""
    assert (refused.status, refused.error["code"]) in {(404, "route_not_found"), (405, "method_not_allowed")}


def test_a_tunnel_that_announces_a_body_is_refused_without_waiting_for_it(port: int) -> None:
    assert (
        exchange(port, request_bytes("CONNECT", "example.com:443", "Content-Length: 9")).error["code"]
        == "route_not_found"
    )


@pytest.mark.parametrize("method", ["TRACE", "OPTIONS", "PUT", "PROPFIND", "PRI", "QUERY", "X-Y!"])
@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ((), b""),
        (("Content-Length: 2",), b"{}"),
        (("Transfer-Encoding: chunked",), b"2\r\n{}\r\n0\r\n\r\n"),
        (("Connection: Upgrade", "Upgrade: websocket"), b""),
    ],
    ids=["no body", "body", "chunks", "upgrade"],
)
def test_any_other_method_is_answered_at_once(port: int, method: str, headers: tuple[str, ...], body: bytes) -> None:
    refused = exchange(port, request_bytes(method, "/v1/customers", *headers, body=body))
    assert (refused.status, refused.error["code"]) == (405, "method_not_allowed")


def test_a_request_target_that_is_only_an_asterisk_is_answered_at_once(port: int) -> None:
    assert exchange(port, request_bytes("OPTIONS", "*")).error["code"] == "route_not_found"
    assert exchange(port, request_bytes("PRI", "*")).error["code"] == "parameter_invalid"


@pytest.mark.parametrize("target", ["/v1/customers", "/v1/nothing", "/docs", "/admin", "/openapi.json"])
@pytest.mark.parametrize("host", ["[::1]", "[::1]:8000", "a:1, b:2", "a:1,b", "a:b", ":", "[", "x/y?z#", ""])
def test_every_host_header_is_answered_like_any_other_or_refused(port: int, host: str, target: str) -> None:
    usual, answer = (
        exchange(port, request_bytes("GET", target)),
        exchange(port, request_bytes("GET", target, host=host)),
    )
    assert answer.status in (usual.status, 400)
    if answer.status >= 400:
        assert answer.error["doc_url"].startswith("http://")
    if answer.status == usual.status >= 400:
        assert answer.error["code"] == usual.error["code"]


def request_of_size(size: int, *names: str) -> bytes:
    """A request whose line and header values have `size` bytes together, as many of them in each of these headers."""
    own = len("GET /v1/customers HTTP/1.1") + len("localhost")
    each, rest = divmod(size - own, len(names))
    values = [each + (rest if number == 0 else 0) for number in range(len(names))]
    return request_bytes("GET", "/v1/customers", *(f"{name}: {'x' * n}" for name, n in zip(names, values, strict=True)))


@pytest.mark.parametrize("names", [["A"], ["A", "B"], [f"H{number}" for number in range(100)]], ids=len)
def test_the_line_and_the_header_values_have_10240_bytes_at_the_most(port: int, names: list[str]) -> None:
    # Without a key the function refuses what the gateway lets through.
    assert exchange(port, request_of_size(LIMIT, *names)).error["code"] == "api_key_missing"
    for size in (LIMIT + 1, LIMIT + 1_000, 3 * LIMIT):
        assert_too_large(exchange(port, request_of_size(size, *names)))


def assert_too_large(refused: Answer) -> None:
    assert (refused.status, refused.error["code"]) == (400, "parameter_invalid")
    assert refused.error["type"] == "invalid_request_error"
    assert "10,240 bytes" in refused.error["message"]
    assert refused.headers["service-should-retry"] == "false"


@pytest.mark.parametrize("size", [LIMIT, 30 * LIMIT])
def test_a_target_or_a_header_that_is_larger_alone_is_refused_with_the_limit(port: int, size: int) -> None:
    assert_too_large(exchange(port, request_bytes("GET", f"/v1/customers?name={'x' * size}")))
    assert_too_large(exchange(port, request_bytes("GET", "/v1/customers", f"Cookie: {'x' * size}")))
    assert_too_large(
        exchange(port, request_bytes("POST", "/v1/customers", f"Cookie: {'x' * size}", "Content-Length: 2"))
    )


def test_a_target_of_nine_thousand_characters_is_let_through(port: int) -> None:
    assert exchange(port, request_bytes("GET", f"/v1/customers?name={'x' * 9_000}")).error["code"] == "api_key_missing"


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (
            request_bytes("GET", "/v1/customers", *(f"H{number}: x" for number in range(FIELDS))),
            "more than 128 header fields",
        ),
        (request_bytes("GET", "/v1/customers", "no colon"), "Invalid HTTP header"),
        (chunked_request(b"2\r\n{}\r\nzz\r\n"), "zz"),
        (chunked_request(b"2;" + b"x" * 2 * LIMIT + b"\r\n{}\r\n0\r\n\r\n"), "10240 bytes"),
        (chunked_request(b"2\r\n{}\r\n0\r\n" + b"T: x\r\n" * 2 * FIELDS + b"\r\n"), "Too many trailers"),
    ],
    ids=["headers", "colon", "chunk", "chunk extension", "trailers"],
)
def test_what_is_not_http_is_refused_with_the_reason(port: int, request_: bytes, reason: str) -> None:
    refused = exchange(port, request_)
    assert (refused.status, refused.error["code"]) == (400, "parameter_invalid")
    assert reason in refused.error["message"]
    assert refused.headers["service-should-retry"] == "false"


def test_a_request_has_128_header_fields_at_the_most(port: int) -> None:
    others = [f"H{number}: x" for number in range(FIELDS - 1)]
    assert exchange(port, request_bytes("GET", "/v1/customers", *others)).error["code"] == "api_key_missing"
