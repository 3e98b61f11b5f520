"""A local runner for the tests of the description."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.runner import Service, local_runner, memory_folder

NODE_BIN = Path(__file__).parent / "node_modules/.bin"
SPEED = 50


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with memory_folder() as folder, local_runner(folder, SPEED) as started:
        yield started
