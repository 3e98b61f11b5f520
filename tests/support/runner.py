"""The service that the conformance tests run against: a local runner of their own, or the one that `BASE_URL` names."""

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

from tests.support.client import Address, Client, Promises
from tests.support.given import Subscribe
from tests.support.signed_receiver import Hook

ROOT = Path(__file__).parents[2]
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
def local_runner(folder: Path, speed: float, **settings: str) -> Iterator[Service]:
    """The local runner as a subprocess with its own data, stopped again by SIGTERM; `settings` are more variables."""
    ready_file, log_file = folder / "ready.json", folder / "runner.log"
    environment = os.environ | {
        "PORT": str(free_port()),
        "DATA_DIR": str(folder / "data"),
        "SPEED": str(speed),
        "READY_FILE": str(ready_file),
        **settings,
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


def needs_a_runner_of_its_own() -> None:
    """Skip what would take a service that waits longer than the one that is tested."""
    if "BASE_URL" in os.environ:
        pytest.skip("the service waits too little for this at its SPEED")


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


def delete_all(client: Client) -> None:
    """Delete what this client has made; what the API cannot delete, conversations, is ended."""
    made = re.findall(r"/v1/((?:customers|appointments|webhook_endpoints|conversations)/\w+)", "\n".join(client.made))
    for path in reversed(dict.fromkeys(made)):
        if path.startswith("conversations/"):
            client.post(f"/v1/{path}/end").ok()
        elif (response := client.delete(f"/v1/{path}")).status != 404:
            response.ok()
