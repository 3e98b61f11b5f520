"""Fixtures of the integration tests: one stage for a test process, a project of its own for each test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared import clock
from tests import stage as stages

MEMORY = Path("/dev/shm")
"""Where there is such a place, the database's files lie in memory: it syncs every write."""


@pytest.fixture(scope="session")
def _stage() -> Iterator[stages.Stage]:
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder, stages.running(Path(folder) / "stage") as stage:
        yield stage


@pytest.fixture
def stage(_stage: stages.Stage) -> stages.Stage:
    """The stage, emptied of what other tests left in stream and queues, with a new project."""
    _stage.stream_records()
    for queue in _stage.queues:
        _stage.messages(queue)
    _stage.project()
    return _stage


class Clock:
    """A clock that moves when told to; `now` in Unix seconds."""

    def __init__(self, start: float) -> None:
        self.now = start

    def forward(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@pytest.fixture
def stopped_clock() -> Iterator[Clock]:
    """The service's clock under the test's control, starting now; sleeping moves it on."""
    import time

    stopped = Clock(time.time())
    clock.use(lambda: stopped.now, stopped.forward)
    yield stopped
    clock.use(time.time, time.sleep)


@pytest.fixture
def project(stage: stages.Stage) -> stages.Project:
    """A new project, which the stage calls as from now on."""
    return stage.project()
