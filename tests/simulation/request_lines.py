"""The lines that requests leave in the log, and the subscription that gives them to `request_log`.

CloudWatch Logs gives them late, and some twice or not at all. A failed batch is given again twice, as Lambda does it.
"""

from __future__ import annotations

import logging
import random
from functools import partial
from typing import TYPE_CHECKING, Any

from infra.local.log_lines import event_of
from shared.core.log import JsonLines
from shared.core.metrics import REQUEST_LINE
from tests.simulation.faults import Fault

if TYPE_CHECKING:
    from tests.simulation.world import World

AGAIN_S = (60, 120)
"""Seconds before a failed batch is given again."""


class RequestLines(logging.Handler):
    """The lines of a history. There is a log only in some."""

    def __init__(self, seed: str, world: World) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.started = False
        self._world = world
        self._random = random.Random(f"{seed}/log")
        self._batch: list[dict[str, Any]] = []

    def start(self, share: float) -> None:
        """In this share of histories, take the lines of all hosts."""
        self.started = self._random.random() < share
        if not self.started:
            return
        for host in self._world.hosts:
            logger = host.module("shared.core.log").logger()
        logger.handlers = [self]
        logger.setLevel(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        """Give a line to the subscription, with others."""
        if record.getMessage() != REQUEST_LINE:
            return
        line = {"id": "", "timestamp": 0, "message": self.format(record)}
        if not self._batch:
            self._world.timers.add("lines")
            self._world.spawn_alone("lines", partial(self._give, self._random.choice((1, 10, 100))))
        self._batch.append(line)

    def _give(self, after: float) -> None:
        world = self._world
        world.scheduler.sleep(after)
        lines, self._batch = self._batch, []
        event, token = event_of(lines), f"lines of {after} s at {world.now}"
        world.timers.add(token)
        world.timers.discard("lines")
        if world.faults.strikes(Fault.LINES_LOST):
            world.note("lines lost", len(lines))
        else:
            for _ in range(2 if world.faults.strikes(Fault.LINES_DOUBLED) else 1):
                self._invoke(event)
        world.timers.discard(token)

    def _invoke(self, event: dict[str, Any]) -> None:
        for pause in (*AGAIN_S, 0):
            if self._world.invoke("request_log", event).succeeded:
                return
            self._world.scheduler.sleep(pause)
