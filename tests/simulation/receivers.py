"""Receivers of webhooks: each has a character that the seed draws, and a log of what it got."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shared.core.limits import RECEIVER_S
from tests.simulation.canary import BASE_URL
from tests.simulation.faults import Fault

if TYPE_CHECKING:
    from tests.simulation.hosts import Host
    from tests.simulation.world import World

UNSEEN = ("connection_refused", "dns_error", "tls_error")
"""The errors of attempts of which a receiver sees no request."""


@dataclass
class Got:
    """A POST that arrived: when, what, and how the receiver answered (`status` None: it did not)."""

    at: float
    headers: Mapping[str, str]
    body: str
    status: int | None = None
    error: str | None = None
    by: Any = None
    """The invocation that sent it."""

    @property
    def cut_off(self) -> bool:
        """Whether a fault may have kept its sender from recording it."""
        return bool(self.by.hit_at >= self.at or self.by.ended is None or self.by.ended.error is not None)

    @property
    def event(self) -> Any:
        """The event in the body."""
        return json.loads(self.body)


@dataclass
class Receiver:
    """A receiver. Its host name is its own."""

    name: str
    character: str
    until: float
    """Until when it has its character, in Unix seconds; it is good afterwards."""
    draw: random.Random
    deadly: bool = False
    """Whether its answers kill the function that reads them, as long as it has its character."""
    log: list[Got] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"https://{self.name}.example.com/hook"

    def answer(self, now: float) -> tuple[float, int | None, str | None]:
        """Seconds until the answer, its status, and the error of an exchange without one."""
        quick = self.draw.uniform(0.005, 0.2)
        character = self.character if now < self.until else "good"
        if character == "mixed":
            character = self.draw.choice(("good", "failing", "hanging", "slow", "down", "unknown", "redirecting"))
        answers: dict[str, tuple[float, int | None, str | None]] = {
            "good": (quick, 204, None),
            "failing": (quick, 500, "http_error"),
            "flaky": (quick, 200, None) if self.draw.random() < 0.5 else (quick, 503, "http_error"),
            "hanging": (RECEIVER_S, None, "timeout"),
            "slow": (self.draw.uniform(5, 14), 200, None),
            "down": (quick, None, "connection_refused"),
            "unknown": (quick, None, "dns_error"),
            "untrusted": (quick, None, "tls_error"),
            "redirecting": (quick, 302, "redirect"),
            "refusing": (quick, 404, "http_error"),
            "gone": (quick, 410, "http_error"),
        }
        return answers[character]


CHARACTERS = (
    "good",
    "good",
    "good",
    "failing",
    "flaky",
    "hanging",
    "slow",
    "down",
    "unknown",
    "untrusted",
    "redirecting",
    "refusing",
    "gone",
    "mixed",
)


class Receivers:
    """All receivers of a history."""

    def __init__(self, seed: str, world: World) -> None:
        self._world = world
        self._random = random.Random(f"{seed}/receivers")
        self._by_host: dict[str, Receiver] = {}

    def new(self) -> Receiver:
        """Another receiver."""
        number = len(self._by_host)
        lasts = self._random.choices((60, 600, 7200, 86400, 10 * 86400), (3, 3, 2, 1, 1))[0]
        draw = random.Random(self._random.random())
        character, until = self._random.choice(CHARACTERS), self._world.now + lasts
        deadly = self._world.faults.strikes(Fault.DEADLY)
        receiver = Receiver(f"receiver-{number}", character, until, draw, deadly)
        self._by_host[f"{receiver.name}.example.com"] = receiver
        return receiver

    def all(self) -> list[Receiver]:
        """The receivers."""
        return list(self._by_host.values())

    def client(self, host: Host) -> _Client:
        """The HTTP client of a host (`shared/webhooks/http_client.py`)."""
        return _Client(self, host)

    def post(self, host: Host, url: str, headers: Mapping[str, str], body: bytes) -> Any:
        """Send a POST to the receiver of this URL."""
        world, client = self._world, host.module("shared.webhooks.http_client")
        receives = world.canary.receive if url.startswith(BASE_URL) else self._receive
        world.begin_call()
        started = world.now
        status, failure = receives(url, headers, body)
        error = None if failure is None else client.DeliveryError(failure)
        return client.AttemptOutcome(status, error, None if status is None else "", round((world.now - started) * 1000))

    def _receive(self, url: str, headers: Mapping[str, str], body: bytes) -> tuple[int | None, str | None]:
        """The status and the error of a POST."""
        world, receiver = self._world, self._by_host[urlsplit(url).hostname or ""]
        started = world.now
        seconds, status, error = receiver.answer(started)
        if error not in UNSEEN:
            receiver.log.append(Got(started, dict(headers), body.decode(), status, error, world.invocation()))
        world.note("POST", url, headers["webhook-id"], status or error)
        world.scheduler.sleep(seconds)
        if world.strikes(Fault.KILLED) or (receiver.deadly and started < receiver.until):
            world.invocation().hit_at = world.now
            world.kill()
        return status, error


class _Client:
    """In place of the HTTP client of a process."""

    def __init__(self, receivers: Receivers, host: Host) -> None:
        self._receivers, self._host = receivers, host

    def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, allow_loopback: bool, deadline_s: float
    ) -> Any:
        """POST, and wait for the outcome."""
        return self._receivers.post(self._host, url, headers, body)
