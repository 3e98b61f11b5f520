"""The canary on the local runner: it runs on its schedule where it is turned on, and finds everything in order."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.core import metrics
from tests.support.runner import Service, local_runner, memory_folder

PATIENCE = 120

pytestmark = pytest.mark.runner("turns the canary on")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found


@pytest.fixture(scope="module")
def service_with_canary(folder: Path) -> Iterator[Service]:
    """A runner whose canary runs every five seconds."""
    with local_runner(folder, speed=60, CANARY="1") as service:
        yield service


def canary_results(folder: Path) -> list[float]:
    """The results of the runs so far."""
    log = (folder / "data" / "service.log").read_text(errors="replace")
    lines: list[Any] = [json.loads(line) for line in log.splitlines() if line.startswith('{"_aws"')]
    return [line[metrics.CANARY_PASSED][0] for line in lines if metrics.CANARY_PASSED in line]


def test_the_canary_passes_again_and_again_and_its_traffic_is_in_no_other_project(
    service_with_canary: Service, folder: Path
) -> None:
    give_up = time.monotonic() + PATIENCE
    while len(canary_results(folder)) < 3:
        assert time.monotonic() < give_up, "the canary does not run"
        time.sleep(0.5)
    assert canary_results(folder)[:3] == [1, 1, 1], (folder / "data" / "service.log").read_text(errors="replace")[
        -3000:
    ]
    for project in service_with_canary.projects:
        client = service_with_canary.client(project.test_key)
        assert client.get("/v1/events").ok()["data"] == []
        assert client.get("/v1/customers").ok()["data"] == []
