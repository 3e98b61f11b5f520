"""Black-box tests over HTTP, from the specification and the contract alone.

By default they start the local runner themselves. To test a running service set `BASE_URL`, `TEST_KEY`,
`LIVE_KEY`, `OTHER_TEST_KEY` and `OTHER_LIVE_KEY` (the last two of a second project; `-m smoke` needs
`TEST_KEY` alone) and, if the service is on this machine, `SPEED`. Without `SPEED` it is taken for a deployed
one: it cannot reach receivers on loopback, so the tests that need those are skipped, and what the first key
made is deleted in the end. `CONNECT_TO=HOST:PORT` connects there whatever host `BASE_URL` names, as curl's
`--connect-to` does; `PATIENCE=3` waits three times as long for what happens in the background; `SAMPLE=4` runs
every fourth case of a test, the first one always. With `-n 2 --dist loadfile` each worker needs projects of its
own: separate their keys by spaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.client import Address, Client, Promises
from tests.conformance.given import Subscribe
from tests.conformance.receiver import Hook, Receiver

ROOT = Path(__file__).parents[2]
SPEED = 50
START_TIMEOUT = 180


@dataclass(frozen=True)
class Project:
    project_id: int
    name: str
    test_key: str = field(repr=False)
    live_key: str = field(repr=False)


@dataclass(frozen=True)
class Service:
    """`speed` divides the service's waits; None for a deployed service, which no receiver here can hear."""

    base_url: str
    projects: tuple[Project, ...]
    speed: float | None
    promises: Promises
    connect_to: Address | None = None

    def client(self, key: str | None) -> Client:
        return Client(self.base_url, key, self.promises, self.connect_to)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def quick_folder() -> Iterator[Path]:
    """A new folder in memory where there is such a place.

    The database syncs each write; on a slow disk it would not reach the 100 requests a second of a rate limit.
    """
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


@contextlib.contextmanager
def local_runner(folder: Path, speed: float) -> Iterator[Service]:
    """The local runner as a subprocess with its own data, stopped again by SIGTERM."""
    ready_file, log_file = folder / "ready.json", folder / "runner.log"
    environment = os.environ | {
        "PORT": str(free_port()),
        "DATA_DIR": str(folder / "data"),
        "SPEED": str(speed),
        "READY_FILE": str(ready_file),
    }
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "infra.local"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + START_TIMEOUT
        while not ready_file.exists():
            tail = log_file.read_text(errors="replace")[-3000:]
            assert process.poll() is None, f"the local runner ended:\n{tail}"
            assert time.monotonic() < deadline, f"the local runner is not ready:\n{tail}"
            time.sleep(0.1)
        ready: dict[str, Any] = json.loads(ready_file.read_text())
        base_url = ready["base_url"].rstrip("/")
        yield Service(base_url, tuple(Project(**project) for project in ready["projects"]), speed, Promises(base_url))
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def running_service() -> Service:
    """The service that the environment names, with as many projects as it has keys of."""
    base_url = os.environ["BASE_URL"].rstrip("/")
    host, _, port = os.environ.get("CONNECT_TO", "").rpartition(":")
    speed = os.environ.get("SPEED")
    service = Service(
        base_url,
        projects=(),
        speed=float(speed) if speed else None,
        promises=Promises(base_url),
        connect_to=(host, int(port)) if host else None,
    )
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))

    def key(name: str) -> str:
        keys = os.environ.get(name, "").split()
        return keys[worker] if keys else ""

    projects = []
    for prefix in ("", "OTHER_"):
        if test_key := key(f"{prefix}TEST_KEY"):
            ping = service.client(test_key).get("/v1/ping").ok()
            projects.append(Project(ping["project_id"], ping["project_name"], test_key, key(f"{prefix}LIVE_KEY")))
    return replace(service, projects=tuple(projects))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A running service is not for the tests that are marked as the runner's own; a slow one gets a sample."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        marker = item.get_closest_marker("runner")
        if marker and "BASE_URL" in os.environ:
            item.add_marker(pytest.mark.skip(reason=marker.args[0]))
    every = int(os.environ.get("SAMPLE") or 1)
    left_out = [item for case in cases.values() for number, item in enumerate(case) if number % every]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def needs_a_runner_of_its_own() -> None:
    """Skip what would take a service that waits longer than the one that is tested."""
    if "BASE_URL" in os.environ:
        pytest.skip("the service waits too little for this at its SPEED")


def delete_all(client: Client) -> None:
    """Delete what this client has made; what the API cannot delete, conversations, is ended."""
    made = re.findall(r"/v1/((?:customers|appointments|webhook_endpoints|conversations)/\w+)", "\n".join(client.made))
    for path in reversed(dict.fromkeys(made)):
        if path.startswith("conversations/"):
            client.post(f"/v1/{path}/end").ok()
        elif (response := client.delete(f"/v1/{path}")).status != 404:
            response.ok()


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    if "BASE_URL" in os.environ:
        yield running_service()
        return
    with quick_folder() as folder, local_runner(folder, SPEED) as started:
        yield started


@pytest.fixture(scope="session")
def client(service: Service) -> Iterator[Client]:
    """Test mode of the first project."""
    found = service.client(service.projects[0].test_key)
    yield found
    if service.speed is None:
        delete_all(found)


@pytest.fixture(scope="session")
def live(service: Service) -> Client:
    """Live mode of the first project."""
    return service.client(service.projects[0].live_key)


@pytest.fixture(scope="session")
def other(service: Service) -> Client:
    """Test mode of the second project."""
    return service.client(service.projects[1].test_key)


@pytest.fixture(scope="session")
def other_live(service: Service) -> Client:
    """Live mode of the second project."""
    return service.client(service.projects[1].live_key)


@pytest.fixture(scope="session")
def anonymous(service: Service) -> Client:
    return service.client(None)


@pytest.fixture(scope="session")
def receiver(service: Service) -> Iterator[Receiver]:
    if service.speed is None:
        pytest.skip("a deployed service cannot reach a receiver on loopback")
    started = Receiver()
    yield started
    started.close()


@contextlib.contextmanager
def subscriptions() -> Iterator[Subscribe]:
    """A function that creates webhook endpoints; they are deleted at the end."""
    made: list[tuple[Client, str]] = []

    def subscribe(client: Client, target: Hook | str, *event_filters: str, **fields: object) -> Any:
        url = target if isinstance(target, str) else target.url
        body = {"url": url, "event_filters": list(event_filters), **fields}
        endpoint = client.post("/v1/webhook_endpoints", body).ok(201)
        made.append((client, endpoint["id"]))
        return endpoint

    try:
        yield subscribe
    finally:
        for client, endpoint_id in made:
            client.delete(f"/v1/webhook_endpoints/{endpoint_id}")


@pytest.fixture
def subscribe() -> Iterator[Subscribe]:
    with subscriptions() as function:
        yield function


@pytest.fixture(scope="module")
def subscribe_module() -> Iterator[Subscribe]:
    """As `subscribe`, for endpoints that several tests of a module look at."""
    with subscriptions() as function:
        yield function


@pytest.fixture(autouse=True)
def every_response_keeps_the_common_promises(service: Service) -> Iterator[None]:
    """Any answer of any test that lacks what every answer has fails that test, each kind of breach once."""
    yield
    broken, service.promises.new = service.promises.new, []
    assert not broken, "\n".join(broken)
