"""The scripted agent's clock."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from shared.core import clock
from tests.support.dialogues import NOW


@pytest.fixture(autouse=True)
def wednesday_morning() -> Iterator[None]:
    clock.use(NOW.timestamp, lambda seconds: None)
    yield
    clock.use(time.time, time.sleep)
