"""The service that the conformance tests run against: a local runner of their own, or the one that `BASE_URL` names."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import Address, Client, Promises
from tests.support.client_actions import Subscribe
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
def memory_folder() -> Iterator[Path]:
    """A new folder in memory where there is such a place.

    The database syncs each write; on a slow disk it would not reach the 100 requests a second of a rate limit.
    """
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


class LocalRunner:
    """`python -m infra.local` on one data directory and port, in a process group of its own."""

    def __init__(self, folder: Path, speed: float, **settings: str) -> None:
        """`settings` are further environment variables."""
        self.folder, self._speed, self._settings = folder, speed, settings
        self.data_dir = folder / "data"
        self.ready_file = folder / "ready.json"
        self.port = free_port()
        self._log = (folder / "runner.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def start(self) -> None:
        # What a killed one left would be taken for the new one's.
        self.ready_file.unlink(missing_ok=True)
        environment = os.environ | {
            "PORT": str(self.port),
            "DATA_DIR": str(self.data_dir),
            "SPEED": str(self._speed),
            "READY_FILE": str(self.ready_file),
            **self._settings,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "infra.local"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def ready(self) -> Any:
        """What the ready file says, once it is there."""
        deadline = time.monotonic() + START_TIMEOUT
        while not self.ready_file.exists():
            tail = (self.folder / "runner.log").read_text(errors="replace")[-2000:]
            assert self.process.poll() is None, f"the runner ended by itself:\n{tail}"
            assert time.monotonic() < deadline, f"the runner is not ready:\n{tail}"
            time.sleep(0.05)
        return json.loads(self.ready_file.read_text())

    def children(self) -> list[int]:
        """The backend's and the database's process ids, as far as they run."""
        with contextlib.suppress(OSError, ValueError):
            pids = json.loads((self.data_dir / "backend.lock").read_text())
            return [pid for pid in pids if str(self.folder) in command_line(pid)]
        return []

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def kill_everything(self, order: random.Random) -> None:
        pids = [self.process.pid, *self.children()]
        order.shuffle(pids)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def terminate(self) -> float:
        """Stop by SIGTERM; the seconds that it took."""
        asked = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        return time.monotonic() - asked

    def close(self) -> None:
        """Whatever happened, leave nothing behind."""
        if self._process is not None and self._process.poll() is None:
            self.kill_everything(random.Random())
        self._log.close()


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def processes_of(folder: Path) -> list[str]:
    """Command lines of running processes that name the folder."""
    found = (command_line(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [line for line in found if str(folder) in line and "pytest" not in line]


@contextlib.contextmanager
def local_runner(folder: Path, speed: float, **settings: str) -> Iterator[Service]:
    """The service of a local runner with its own data, which ends with the context."""
    runner = LocalRunner(folder, speed, **settings)
    runner.start()
    try:
        ready = runner.ready()
        base_url = ready["base_url"].rstrip("/")
        yield Service(base_url, tuple(Project(**project) for project in ready["projects"]), speed, Promises(base_url))
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            runner.terminate()
        runner.close()


def skip_unless_own_runner() -> None:
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
