"""The local runner as a process that a test kills and starts again."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.runner import ROOT, free_port

STARTED_WITHIN = 60


class LocalRunner:
    """`python -m infra.local` on one data directory and port, in a process group of its own."""

    def __init__(self, folder: Path, speed: float) -> None:
        self.folder, self._speed = folder, speed
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
        deadline = time.monotonic() + STARTED_WITHIN
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
