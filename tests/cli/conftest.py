"""A local runner of its own, and the command as a process whose files are in a folder of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import Cli
from tests.support.client import Client
from tests.support.runner import Service, local_runner, memory_folder
from tests.support.signed_receiver import Receiver

SPEED = 50


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with memory_folder() as folder, local_runner(folder, SPEED) as started:
        yield started


@pytest.fixture(scope="session")
def client(service: Service) -> Client:
    """Test mode of the first project."""
    return service.client(service.projects[0].test_key)


@pytest.fixture(scope="session")
def other(service: Service) -> Client:
    """Test mode of the second project, in which only one test at a time makes events."""
    return service.client(service.projects[1].test_key)


@pytest.fixture
def cli(service: Service, tmp_path: Path) -> Cli:
    """The command, with the first project's test key in its environment."""
    return Cli(tmp_path, APPOINTMENTS_URL=service.base_url, APPOINTMENTS_API_KEY=service.projects[0].test_key)


@pytest.fixture(scope="session")
def receiver() -> Iterator[Receiver]:
    with Receiver() as started:
        yield started
