"""A clock that stands still."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from shared.core import clock
from tests.support.models import NOW


@pytest.fixture
def stopped_clock() -> Iterator[None]:
    clock.use(lambda: NOW, lambda seconds: None)
    yield
    clock.use(time.time, time.sleep)
