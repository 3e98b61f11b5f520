"""A small HTTP client for the service, and what every answer must have in common."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any, Literal, TypeVar
from urllib.parse import urlencode, urlsplit

from tests.support.described import description

T = TypeVar("T")
Address = tuple[str, int]

TIMEOUT = 60
"""Seconds that a connection waits for an answer."""

REVISIONS = ("2026-06-01", "2026-08-03", "2026-08-22", "2026-12-01")
ULID = "[0-9a-hjkmnp-tv-z]{26}"
RATE_LIMIT_POLICY = '"second";q=100;w=1, "minute";q=5000;w=60'

ACTIONS = {
    "handoff": ["reason"],
    "appointment_confirmed": ["appointment_id"],
    "appointment_rescheduled": ["appointment_id"],
    "appointment_cancelled": ["appointment_id"],
    "call_requested": ["session_id"],
    "customer_opted_out": {"customer_id"},
    "conversation_ended": [],
}
"""Promises 8: the fields of each action."""
REPLAYED_HEADERS = ("Location", "Content-Type", "Service-Version")
RETRYABLE_CODES = frozenset({"idempotency_key_in_use", "conversation_busy", "conflict", "rate_limit_exceeded"})


@dataclass(frozen=True)
class Response:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]

    @property
    def request_id(self) -> str:
        return self.headers.get("Service-Request-Id", "")

    @property
    def challenge(self) -> str | None:
        """`WWW-Authenticate`, which a REST API of API Gateway delivers renamed (promises 2)."""
        return self.headers.get("WWW-Authenticate") or self.headers.get("x-amzn-Remapped-WWW-Authenticate")

    @property
    def replayed(self) -> bool:
        return self.headers.get("Idempotent-Replayed") == "true"

    def ok(self, status: int = 200) -> Any:
        """The body as JSON, of an answer that must have this status."""
        assert self.status == status, f"expected {status}, got {self}"
        return self.json

    def __str__(self) -> str:
        return f"{self.status} {self.body[:600].decode(errors='replace')}"


@dataclass
class Promises:
    """Collects answers that break a promise or are not as described, each kind of breach once a session."""

    base_url: str
    known: set[str] = field(default_factory=set)
    new: list[str] = field(default_factory=list)

    def check(self, method: str, path: str, response: Response, *, with_key: bool, repeatable: bool) -> None:
        for breach in breaches(method, path, response, self.base_url, with_key=with_key, repeatable=repeatable):
            self._add(f"{method} {path} -> {response.status}", f"{breach.split(':')[0]} ({response.status})", breach)
        found = description().breaches(method, path, response.status, response.headers, response.body)
        for breach in found:
            self._add(f"{method} {path} -> {response.status}", breach, f"{breach} in {response}")

    def check_webhook(self, headers: Message, body: bytes) -> None:
        for breach in description().webhook_breaches(headers, body):
            self._add("webhook", breach, f"{breach} in {body[:600].decode(errors='replace')}")

    def _add(self, where: str, kind: str, breach: str) -> None:
        if kind not in self.known:
            self.known.add(kind)
            self.new.append(f"{where}: {breach}")


def breaches(
    method: str, path: str, response: Response, base_url: str, *, with_key: bool, repeatable: bool
) -> Iterable[str]:
    """What in this response contradicts promises 1, 2, 3 and 8, and its description cannot say.

    A `repeatable` request is harmless if repeated.
    """
    headers = response.headers
    # Responses of paths that are not described have these headers, too.
    if not re.fullmatch(f"req_{ULID}", response.request_id):
        yield f"Service-Request-Id: {response.request_id!r}"
    if headers.get("Service-Version") not in REVISIONS:
        yield f"Service-Version: {headers.get('Service-Version')!r}"
    is_page = path.startswith(("/docs", "/llms", "/robots.txt", "/sitemap.xml", "/openapi.json"))
    if headers.get("Cache-Control") not in ("no-store", *(["no-cache"] if is_page else [])):
        yield f"Cache-Control: {headers.get('Cache-Control')!r}"
    media_type = headers.get("Content-Type", "").partition(";")[0]
    programs = ("text/markdown", "text/plain", "application/xml")
    types = ("application/json", "text/html", *(programs if is_page else ()))
    # A 304 has no content, and a gateway may leave its type out.
    if media_type not in types and (response.status, media_type) != (304, ""):
        yield f"Content-Type: {headers.get('Content-Type')!r}"
    elif method == "HEAD":
        if response.body:
            yield f"HEAD: {response.body!r}"
    elif media_type == "application/json":
        is_error = response.status >= 400
        code = response.json.get("error", {}).get("code", "") if is_error else ""
        if code:
            yield from error_breaches(response, base_url, repeatable=repeatable)
        elif not is_error and path.startswith("/v1/"):
            yield from contradictions(path.partition("?")[0], response.json)
        limited = with_key and response.status != 401 and code not in {"route_not_found", "method_not_allowed"}
        if limited and not re.fullmatch(r'"(second|minute)";r=\d+;t=[1-9]\d*', headers.get("RateLimit", "")):
            yield f"RateLimit: {headers.get('RateLimit')!r}"


def error_breaches(response: Response, base_url: str, *, repeatable: bool) -> Iterable[str]:
    """What in an error contradicts the response's headers, or is not for its code."""
    error, code = response.error, response.error["code"]
    if (code == "agent_timeout") != ({"conversation_id", "message_id"} <= set(error)):
        yield f"error fields: {sorted(error)} of {code}"
    if not error["message"]:
        yield f"error message: of {code}"
    if error["request_id"] != response.request_id:
        yield f"error request_id: {error['request_id']} is not the header's {response.request_id}"
    if error["doc_url"] != f"{base_url}/docs/errors#{code}":
        yield f"doc_url: {error['doc_url']}"
    # What else a 5xx says depends on whether anything was written.
    if response.status < 500 or repeatable or code == "agent_timeout":
        expected = "true" if code in RETRYABLE_CODES or (response.status >= 500 and repeatable) else "false"
        if response.headers.get("Service-Should-Retry") != expected:
            yield f"Service-Should-Retry: {response.headers.get('Service-Should-Retry')!r} for {code}"


def contradictions(path: str, found: Any) -> Iterable[str]:
    """What is wrong with a list's envelope, or with a message for its role."""
    is_list = found["object"] == "list"
    if is_list and (found["url"], found["has_more"]) != (path, found["next_cursor"] is not None):
        yield f"list envelope: {found['url']}, {found['has_more']}, {found['next_cursor']}"
    messages = [one for one in (found["data"] if is_list else [found]) if one.get("object") == "message"]
    if "reply" in found:
        reply = found["reply"]
        if found["role"] == "staff":
            answered = reply is None
        else:
            messages.append(reply)
            answered = reply["role"] == "assistant" and found["reply_status"] in ("complete", "failed")
        if not answered:
            yield f"answered message: {found}"
    for message in messages:
        extra = {"user": {"reply_status"}, "assistant": {"actions", "holding"}, "staff": set[str]()}[message["role"]]
        if {"reply_status", "actions", "holding"} & set(message) != extra:
            yield f"message of {message['role']}: {sorted(message)}"
        for action in message.get("actions", ()):
            if set(action) != {"type", *ACTIONS[action["type"]]}:
                yield f"action {action['type']}: {sorted(action)}"


class Client:
    """Requests with one API key. A new connection for each, so that nothing is retried unseen.

    A 429 is waited out as its `Retry-After` says and the request sent again, unless `patient=False`.
    """

    def __init__(self, base_url: str, key: str | None, promises: Promises, connect_to: Address | None = None) -> None:
        """`connect_to`: where connections go, whatever host the URL names; for plain http only."""
        self.base_url = base_url
        self.key = key
        self.promises = promises
        self.base_path = urlsplit(base_url).path
        self.made: list[str] = []
        """The paths that `Location` named, of all that was created."""
        self._connect_to = connect_to

    def request(
        self,
        method: str,
        path: str,
        *,
        json_body: object = None,
        body: bytes | None = None,
        params: Mapping[str, object] | Iterable[tuple[str, object]] | None = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        patient: bool = True,
    ) -> Response:
        sent = {"Accept": "application/json"}
        if self.key is not None:
            sent["Authorization"] = f"Bearer {self.key}"
        if json_body is not None:
            body = json.dumps(json_body).encode()
            sent["Content-Type"] = "application/json"
        if idempotency_key is not None:
            sent["Idempotency-Key"] = idempotency_key
        sent |= headers or {}
        pairs = list(params.items()) if isinstance(params, Mapping) else list(params or ())
        target = f"{self.base_path}{path}" + (f"?{urlencode(pairs)}" if pairs else "")
        give_up = time.monotonic() + 70
        while True:
            response = self._exchange(method, target, body, sent)
            repeatable = idempotency_key is not None or method in ("GET", "HEAD", "DELETE")
            self.promises.check(method, path, response, with_key=self.key is not None, repeatable=repeatable)
            if response.status == 201:
                self.made.append(response.headers.get("Location", ""))
            if response.status != 429 or not patient or time.monotonic() > give_up:
                return response
            time.sleep(int(response.headers.get("Retry-After", "1")))

    def connection(self) -> http.client.HTTPConnection:
        """A new connection to the service; a request on it names the URL's host."""
        url = urlsplit(self.base_url)
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        connection = kind(url.hostname or "", url.port, timeout=TIMEOUT)
        if self._connect_to:
            assert url.scheme == "http", "another address is for plain http"
            connection.sock = socket.create_connection(self._connect_to, TIMEOUT)
        return connection

    def _exchange(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> Response:
        connection = self.connection()
        try:
            # A server may answer 413 before it has read the whole body.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, target, body, dict(headers))
            answer = connection.getresponse()
            return Response(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path: str, params: Any = None, **options: Any) -> Response:
        return self.request("GET", path, params=params, **options)

    def post(self, path: str, json_body: object = None, **options: Any) -> Response:
        return self.request("POST", path, json_body=json_body, **options)

    def patch(self, path: str, json_body: object = None, **options: Any) -> Response:
        return self.request("PATCH", path, json_body=json_body, **options)

    def delete(self, path: str, **options: Any) -> Response:
        return self.request("DELETE", path, **options)


def assert_error(response: Response, status: int, code: str | set[str], param: str | None = None) -> Any:
    """The error object of an answer that must be this error; `param` is compared when given."""
    assert response.status == status, f"expected {status} {code}, got {response}"
    codes = {code} if isinstance(code, str) else code
    assert response.error["code"] in codes, f"expected {status} {code}, got {response}"
    if param is not None:
        assert response.error.get("param") == param, f"expected param {param}, got {response}"
    return response.error


def assert_replay(first: Response, second: Response) -> None:
    """`second` is the replay of `first`: byte for byte but for the request id of an error."""
    assert second.status == first.status, second
    assert second.headers.get("Idempotent-Replayed") == "true"
    assert second.headers.get("Original-Request") == first.request_id
    assert second.request_id != first.request_id
    for name in REPLAYED_HEADERS:
        assert second.headers.get(name) == first.headers.get(name)
    assert second.body.replace(second.request_id.encode(), first.request_id.encode()) == first.body
    if first.status < 400:
        assert second.body == first.body


def wait_for(check: Callable[[], T | Literal[False] | None], timeout: float = 15) -> T:
    """What `check` returns once that is true; a failed assertion in it counts as not yet.

    `timeout` is in seconds, times the environment's `PATIENCE` for a service on a slow machine.
    """
    timeout *= float(os.environ.get("PATIENCE") or 1)
    deadline = time.monotonic() + timeout
    while True:
        late = time.monotonic() > deadline
        try:
            if found := check():
                return found
            assert not late, f"not within {timeout} s: last answer {found!r}"
        except AssertionError:
            if late:
                raise
        time.sleep(0.05)
