"""Projects that a whole module of properties is tested on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.receivers import Receiver
from tests.support.stage import Stage
from tests.support.world import World


@pytest.fixture(scope="module")
def world(_stage: Stage) -> Iterator[World]:
    with Receiver() as receiver:
        yield World(_stage, receiver)
