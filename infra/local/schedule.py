"""EventBridge schedules: calls a function periodically."""

from __future__ import annotations

import contextlib
import threading
import uuid
from datetime import UTC, datetime

from infra.local import lambdas, names
from infra.local.lambdas import Lambdas
from infra.local.proxy import Event
from infra.topology import Function

SHORTEST_S = 1.0
"""The shortest time between two calls, in seconds, at any speed."""


def start(function: Function, every_s: int, speed: float, functions: Lambdas, stop: threading.Event) -> None:
    """In a new thread, call the function at once and then every `every_s` seconds, divided by `speed`."""
    thread = lambdas.threads(f"{function.name}-timer", 1)

    def run() -> None:
        while not stop.is_set():
            # `Lambdas.call` has logged it; the next call may succeed.
            with contextlib.suppress(Exception):
                functions.call(function, _event(function))
            stop.wait(max(SHORTEST_S, every_s / speed))

    thread.submit(run)


def _event(function: Function) -> Event:
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": names.ACCOUNT,
        "time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "region": names.REGION,
        "resources": [names.arn("events", f"rule/{names.schedule(function.name)}")],
        "detail": {},
    }
