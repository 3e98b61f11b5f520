"""The command line as a process: run to its end, in the background, or in a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.client import wait_for
from tests.support.runner import ROOT

COMMAND = [sys.executable, "-m", "infra.cli"]
TIMEOUT_S = 90


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


class Cli:
    """The command with files and an environment of its own."""

    def __init__(self, folder: Path, **environment: str) -> None:
        keep = {
            name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "PYTHONDONTWRITEBYTECODE")
        }
        homes = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("CONFIG", "CACHE", "STATE")}
        keyring = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
        self.folder = folder
        self.environment = {**keep, **homes, **keyring, "HOME": str(folder), "PYTHONPATH": str(ROOT), **environment}

    def run(self, *arguments: str, stdin: str | bytes = "", code: int = 0, **environment: str) -> Ended:
        """What the command printed, which must end with this code."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [*COMMAND, *arguments],
            input=data,
            capture_output=True,
            timeout=TIMEOUT_S,
            env=self.environment | environment,
            check=False,
            cwd=self.folder,
        )
        ended = Ended(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert ended.code == code, ended
        return ended

    @contextlib.contextmanager
    def start(self, *arguments: str, until: str = "Listening to") -> Iterator[Background]:
        """The command in the background, once its stderr has this text; it is killed at the end."""
        running = Background([*COMMAND, *arguments], self.environment, self.folder)
        try:
            wait_for(lambda: until in running.err, 30)
            yield running
        finally:
            running.kill()

    def in_terminal(self, *arguments: str, dialogue: tuple[tuple[str, str], ...] = (), **environment: str) -> str:
        """What a terminal shows. Each text of the dialogue is awaited, and its answer typed."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(COMMAND[0], [*COMMAND, *arguments], self.environment | {"TERM": "xterm"} | environment)
        shown, typed_after = "", 0
        answers = list(dialogue)
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            if answers and answers[0][0] in shown[typed_after:]:
                typed_after = len(shown)
                # What is typed before the prompt has turned the echo off would be shown.
                time.sleep(0.2)
                os.write(terminal, answers.pop(0)[1].encode())
            if not select.select([terminal], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(terminal, 65536)
            except OSError:
                break
            if not data:
                break
            shown += data.decode()
        os.close(terminal)
        os.waitpid(pid, 0)
        assert not answers, shown
        return shown


class Background:
    """A running command and what it has printed so far."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path) -> None:
        self._out, self._err = folder / f"{time.monotonic_ns()}.out", folder / f"{time.monotonic_ns()}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, cwd=folder
            )

    @property
    def lines(self) -> list[str]:
        """The complete lines of stdout."""
        return self._out.read_text().splitlines()

    @property
    def err(self) -> str:
        return self._err.read_text()

    @property
    def ids(self) -> list[str]:
        """The ids of the events that were printed."""
        return [found[0] for line in self.lines if (found := re.search(r"evt_\w+", line))]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """The exit code after SIGTERM."""
        self.send(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Wire:
    """A way to a server that can be cut; it counts what passes."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._connections: list[socket.socket] = []
        self._lock = threading.Lock()
        self._is_cut = False
        self.requests = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *error: object) -> None:
        self.cut()
        self._listener.close()

    def cut(self) -> None:
        """End all connections by a reset, and refuse new ones."""
        with self._lock:
            self._is_cut = True
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()
            self._connections.clear()

    def mend(self) -> None:
        with self._lock:
            self._is_cut = False

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._is_cut:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._target))
                self._connections += [near, far]
            threading.Thread(target=self._copy, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._copy, args=(far, near, False), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, count: Any) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.requests += data.count(b"GET /v1/") if count else 0
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
