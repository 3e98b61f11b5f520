"""Requests that go on while the stage changes, and what they saw."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

EVERY_S = 0.2
CUSTOMER_EVERY = 5
"""A customer is created with each fifth ping."""

Send = Callable[[str, str, Any], tuple[int, Any]]
"""Sends method, path and body. Returns status and JSON, or raises OSError."""


@dataclass
class Traffic:
    """Pings, and customers that are created. Instants are seconds of the monotonic clock."""

    send: Send
    phone: str
    sent: int = 0
    failures: list[str] = field(default_factory=list)
    failed_at: list[float] = field(default_factory=list)
    customers: list[str] = field(default_factory=list)
    seen: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The first and the last instant at which each release answered a ping."""
    longest_s: float = 0
    """The longest time without a successful response."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send requests until the block ends."""
        end = threading.Event()
        thread = threading.Thread(target=self._run, args=(end,))
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()

    def overlap_s(self, before: str, after: str) -> float:
        """The seconds during which two releases answered side by side."""
        if before not in self.seen or after not in self.seen:
            return 0
        return max(0.0, self.seen[before][1] - self.seen[after][0])

    def _run(self, end: threading.Event) -> None:
        last, turn = time.monotonic(), 0
        while not end.wait(EVERY_S):
            ok = self._ping()
            if turn % CUSTOMER_EVERY == 0:
                ok = self._create() and ok
            turn += 1
            if ok:
                self.longest_s = max(self.longest_s, time.monotonic() - last)
                last = time.monotonic()

    def _ping(self) -> bool:
        answer = self._send("GET", "/v1/ping", None, 200)
        if answer is not None:
            now = time.monotonic()
            self.seen[answer["object"]] = (self.seen.get(answer["object"], (now, now))[0], now)
        return answer is not None

    def _create(self) -> bool:
        answer = self._send("POST", "/v1/customers", {"phone": self.phone}, 201)
        if answer is not None:
            self.customers.append(answer["id"])
        return answer is not None

    def _send(self, method: str, path: str, body: Any, expected: int) -> Any:
        self.sent += 1
        try:
            status, answer = self.send(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            status, answer = 0, repr(error)
        if status == expected:
            return answer
        self.failures.append(f"{method} {path} got {status}: {str(answer)[:200]}")
        self.failed_at.append(time.monotonic())
        return None
