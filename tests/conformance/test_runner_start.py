"""What the terminal of `make run` says if a port or the space on the disk is missing."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import wait_for
from tests.support.runner import ROOT, free_port

PATIENCE = 60
SIZE = 4 * 2**20

pytestmark = pytest.mark.runner("starts runners of its own")


@pytest.fixture(autouse=True)
def every_response_keeps_the_common_promises() -> None:
    """In place of the one for the shared runner, which these tests do without."""


@contextlib.contextmanager
def start_runner(folder: Path, *before: str, **settings: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A runner, started by the command `before`, and the file of what it prints."""
    environment = os.environ | {"PORT": str(free_port()), "DATA_DIR": str(folder / "disk" / "data"), **settings}
    terminal = folder / "terminal"
    with terminal.open("ab") as output:
        command = [*before, sys.executable, "-m", "infra.local"]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process, terminal
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def wait_for_print(terminal: Path, text: str) -> str:
    """What the terminal shows once it shows this text."""
    wait_for(lambda: text in terminal.read_text(), PATIENCE)
    return terminal.read_text()


def test_a_port_that_is_taken_while_the_runner_starts_is_named(tmp_path: Path) -> None:
    port = free_port()
    with start_runner(tmp_path, PORT=str(port)) as (process, terminal), socket.socket() as other:
        wait_for_print(terminal, "Starting")
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        assert process.wait(PATIENCE) == 1
    assert terminal.read_text().endswith(
        f"make run: port {port} is in use: stop the process that uses it, or choose another port: make run PORT=8001\n"
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> list[str]:
    """The beginning of a command that runs on a small disk of its own, at `disk` in the folder."""
    (tmp_path / "disk").mkdir()
    mount = f'mount -t tmpfs -o size={SIZE} tmpfs "{tmp_path}/disk" && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this machine mounts no disk for a test: {error}")
    return command


def test_a_runner_does_not_start_on_a_full_disk(tmp_path: Path, small_disk: list[str]) -> None:
    fill = f'head -c {SIZE - 2**19} /dev/zero > "{tmp_path}/disk/others"; exec "$@"'
    with start_runner(tmp_path, *small_disk, "sh", "-c", fill, "sh") as (process, terminal):
        assert process.wait(PATIENCE) == 1
    assert terminal.read_text().startswith(f"make run: the disk of DATA_DIR {tmp_path}/disk/data is full: delete")


def test_the_terminal_says_each_time_that_the_disk_becomes_full(tmp_path: Path, small_disk: list[str]) -> None:
    with start_runner(tmp_path, *small_disk) as (process, terminal):
        assert " is full" not in wait_for_print(terminal, "Serving")
        others = Path(f"/proc/{process.pid}/root{tmp_path}/disk/others")
        for _ in range(2):
            terminal.write_text("")
            with contextlib.suppress(OSError), others.open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
            wait_for_print(terminal, f"requests fail because the disk of DATA_DIR {tmp_path}/disk/data is full: delete")
            others.unlink()
            # The runner looks every two seconds.
            time.sleep(5)
        assert process.poll() is None
