"""An AWS endpoint on loopback whose answers a test states, and our own client of it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from shared.core import clock
from tests.support.clocks import Clock

START = 1_790_000_000.0


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment variable of AWS is set only if the test sets it; besides a region and a key."""
    for name in os.environ:
        if name.startswith(("AWS_", "_X_AMZN")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")


@pytest.fixture
def time() -> Iterator[Clock]:
    """The clock, stopped; a pause moves it on."""
    import time

    stopped = Clock(START)
    clock.use(lambda: stopped.now, stopped.forward)
    yield stopped
    clock.use(time.time, time.sleep)
