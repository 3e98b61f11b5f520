"""A webhook receiver on loopback: records every request, answers as it is told."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.client import Promises, eventually


@dataclass(frozen=True)
class Answer:
    """`hang`: no answer until the other side gives up. `drip`: one byte of an endless body every 0.2 s.

    `once`: no answer before this is set.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: bool = False
    drip: bool = False
    once: threading.Event | None = None


@dataclass(frozen=True)
class Received:
    method: str
    headers: Message
    body: bytes
    at: float

    @property
    def event(self) -> Any:
        return json.loads(self.body)


class Hook:
    """One URL of the receiver. The n-th request gets the n-th answer, the last answer repeats."""

    def __init__(self, url: str, answers: tuple[Answer, ...]) -> None:
        self.url = url
        self._answers = answers
        self._received: list[Received] = []
        self._lock = threading.Lock()

    @property
    def received(self) -> list[Received]:
        with self._lock:
            return list(self._received)

    def about(self, object_id: str) -> list[Received]:
        """The requests whose event concerns this object, as they came in."""
        return [one for one in self.received if one.event["data"]["object"]["id"] == object_id]

    def wait(self, count: int = 1, timeout: float = 15) -> list[Received]:
        return eventually(lambda: len(self.received) >= count and self.received, timeout)

    def wait_about(self, object_id: str, count: int = 1, timeout: float = 15) -> list[Received]:
        return eventually(lambda: len(self.about(object_id)) >= count and self.about(object_id), timeout)

    def answer(self, *answers: int | Answer) -> None:
        """From now on answer the n-th request since the hook was made with the last of these."""
        with self._lock:
            self._answers = (*self._answers[: len(self._received)], *map(as_answer, answers))

    def take(self, received: Received) -> Answer:
        with self._lock:
            self._received.append(received)
            return self._answers[min(len(self._received), len(self._answers)) - 1]


def as_answer(answer: int | Answer) -> Answer:
    return answer if isinstance(answer, Answer) else Answer(answer)


class Receiver:
    """`promises` judges every request to a hook."""

    def __init__(self, promises: Promises | None = None) -> None:
        self._promises = promises
        self._hooks: dict[str, Hook] = {}
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def hook(self, *answers: int | Answer) -> Hook:
        """A new URL that gives these answers in turn; without any, always 200."""
        path = f"/{uuid.uuid4().hex}"
        hook = Hook(f"http://127.0.0.1:{self.port}{path}", tuple(map(as_answer, answers or (200,))))
        self._hooks[path] = hook
        return hook

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hooks, closing, promises = self._hooks, self._closing, self._promises

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                hook = hooks.get(self.path)
                received = Received(self.command, self.headers, body, time.time())
                if hook and promises:
                    promises.check_webhook(self.headers, body)
                answer = hook.take(received) if hook else Answer(404)
                self.close_connection = True
                if answer.hang:
                    closing.wait(60)
                    return
                if answer.once:
                    answer.once.wait(60)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Connection", "close")
                self.send_header("Content-Length", str(10_000 if answer.drip else len(answer.body)))
                self.end_headers()
                try:
                    self.wfile.write(answer.body)
                    while answer.drip and not closing.wait(0.2):
                        self.wfile.write(b".")
                except OSError:
                    return

            do_GET = do_POST = do_PUT = do_HEAD = handle_any

            def log_message(self, format: str, *args: object) -> None:
                return

        return Handler


def service_signature_is_valid(received: Received, secret: str) -> bool:
    """Whether `Service-Signature` verifies as the specification tells a receiver to."""
    parts = dict(part.split("=", 1) for part in received.headers["Service-Signature"].split(","))
    signed = parts["t"].encode() + b"." + received.body
    expected = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, parts["v1"]) and abs(received.at - int(parts["t"])) <= 300


def standard_signature_is_valid(received: Received, secret: str) -> bool:
    """Whether `webhook-signature` verifies as Standard Webhooks tells a receiver to."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    stamp = received.headers["webhook-timestamp"]
    signed = f"{received.headers['webhook-id']}.{stamp}.".encode() + received.body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return expected in received.headers["webhook-signature"].split(" ") and abs(received.at - int(stamp)) <= 300
