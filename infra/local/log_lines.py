"""Takes the place of the subscription of CloudWatch Logs: gives the lines of requests to their function."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import logging
import queue
import threading
import uuid
from typing import Any

from infra.local.lambdas import Lambdas
from infra.topology import Function
from shared.core import log
from shared.core.metrics import REQUEST_LINE

EVERY_S = 0.5
"""Seconds for which lines are collected."""


class _Collector(logging.Handler):
    """Keeps the lines of requests, as they are in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(log.JsonLines())
        self.lines = queue.SimpleQueue[dict[str, Any]]()

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == REQUEST_LINE:
            event = {"id": uuid.uuid4().hex, "timestamp": int(record.created * 1000), "message": self.format(record)}
            self.lines.put(event)


def start(function: Function, functions: Lambdas, stop: threading.Event) -> None:
    """Call the function with what is logged from now on, until `stop`."""
    collector = _Collector()
    log.logger().addHandler(collector)
    threading.Thread(target=_feed, args=(collector, function, functions, stop), daemon=True).start()


def _feed(collector: _Collector, function: Function, functions: Lambdas, stop: threading.Event) -> None:
    while not stop.wait(EVERY_S):
        taken = [collector.lines.get() for _ in range(collector.lines.qsize())]
        if taken:
            # `Lambdas.call` has logged it. A failed batch is lost, as in AWS after two retries.
            with contextlib.suppress(Exception):
                functions.call(function, event_of(taken))


def event_of(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The event with which CloudWatch Logs calls a function."""
    batch = {
        "messageType": "DATA_MESSAGE",
        "owner": "000000000000",
        "logGroup": "/local",
        "logStream": "local",
        "subscriptionFilters": ["local"],
        "logEvents": lines,
    }
    return {"awslogs": {"data": base64.b64encode(gzip.compress(json.dumps(batch).encode())).decode()}}
