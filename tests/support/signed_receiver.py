"""A webhook receiver with many URLs, whose signatures are checked as promise 9.6 tells a receiver to."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
import uuid
from dataclasses import dataclass
from email.message import Message
from typing import Any

from tests.support import receivers
from tests.support.client import Promises, wait_for
from tests.support.receivers import Behaviour, Exchange


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

    def __init__(self, url: str, answers: tuple[Behaviour, ...]) -> None:
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
        return wait_for(lambda: len(self.received) >= count and self.received, timeout)

    def wait_about(self, object_id: str, count: int = 1, timeout: float = 15) -> list[Received]:
        return wait_for(lambda: len(self.about(object_id)) >= count and self.about(object_id), timeout)

    def answer(self, *answers: int | Behaviour) -> None:
        """From now on answer the n-th request since the hook was made with the last of these."""
        with self._lock:
            self._answers = (*self._answers[: len(self._received)], *map(_behaviour, answers))

    def take(self, received: Received) -> Behaviour:
        with self._lock:
            self._received.append(received)
            return self._answers[min(len(self._received), len(self._answers)) - 1]


def _behaviour(answer: int | Behaviour) -> Behaviour:
    return receivers.answer(answer) if isinstance(answer, int) else answer


class Receiver(receivers.Receiver):
    """`promises` judges every request to a hook."""

    def __init__(self, promises: Promises | None = None) -> None:
        super().__init__(self._take)
        self._promises = promises
        self._hooks: dict[str, Hook] = {}

    def hook(self, *answers: int | Behaviour) -> Hook:
        """A new URL that gives these answers in turn; without any, always 200."""
        path = f"/{uuid.uuid4().hex}"
        hook = Hook(f"http://127.0.0.1:{self.port}{path}", tuple(map(_behaviour, answers or (200,))))
        self._hooks[path] = hook
        return hook

    def _take(self, exchange: Exchange) -> None:
        request = exchange.read_request()
        exchange.put_back(request)
        hook = self._hooks.get(request.target)
        if hook is None:
            receivers.answer(404)(exchange)
            return
        headers = Message()
        for name, value in request.headers.items():
            headers[name] = value
        if self._promises:
            self._promises.check_webhook(headers, request.body)
        hook.take(Received(request.method, headers, request.body, time.time()))(exchange)


def service_signature_is_valid(received: Received, secret: str) -> bool:
    """Whether `Service-Signature` verifies as promise 9.6 tells a receiver to."""
    t, *signatures = received.headers["Service-Signature"].split(",")
    sent_at = t.removeprefix("t=")
    expected = hmac.new(secret.encode(), sent_at.encode() + b"." + received.body, hashlib.sha256).hexdigest()
    return f"v1={expected}" in signatures and abs(received.at - int(sent_at)) <= 300


def standard_signature_is_valid(received: Received, secret: str) -> bool:
    """Whether `webhook-signature` verifies as Standard Webhooks tells a receiver to."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    stamp = received.headers["webhook-timestamp"]
    signed = f"{received.headers['webhook-id']}.{stamp}.".encode() + received.body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return expected in received.headers["webhook-signature"].split(" ") and abs(received.at - int(stamp)) <= 300
