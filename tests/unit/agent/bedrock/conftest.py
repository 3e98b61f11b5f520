"""A model for each test, and time that passes only when somebody sleeps."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from shared.core import clock
from tests.support.models import NOW, Model, Passing


@pytest.fixture(autouse=True)
def passing() -> Iterator[Passing]:
    passing = Passing()
    clock.use(lambda: NOW + passing.seconds, passing.sleep)
    yield passing
    clock.use(time.time, time.sleep)


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as model:
        yield model
        model.stubber.assert_no_pending_responses()
