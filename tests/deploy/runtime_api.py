"""A Lambda function here: `python -m awslambdaric` on the deployed bundle, without Docker.

Each execution environment is one process and one Lambda Runtime API on loopback, as in Lambda: a process
takes one invocation at a time, keeps what it has in memory for the next one, and is thrown away when it
outlasts the function's timeout. Runs on the tests' Python and on LocalStack's.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

INIT_TIMEOUT = 60
"""Seconds for the imports of a function, on a busy machine; Lambda itself gives 10."""

VERSION = "/2018-06-01/runtime"

RUNTIME = ("awslambdaric", "runtime_client", "simplejson", "snapshot_restore_py")
"""awslambdaric and what it imports."""

_STARTED: set[subprocess.Popen[bytes]] = set()


class InitError(Exception):
    """The function's module could not be imported; `answer` is what its callers get, as JSON."""

    def __init__(self, message: str, answer: bytes) -> None:
        super().__init__(f"{message}: {answer.decode(errors='replace')}")
        self.answer = answer


@dataclass(frozen=True)
class Program:
    """What a function's processes run: `handler` of the bundle in folder `code`, by `python`.

    `support` is the folder that `make_support` has made; `timeout` in seconds.
    """

    python: Path
    support: Path
    code: Path
    handler: str
    timeout: int


@dataclass(frozen=True)
class Invocation:
    """One call of a function; `payload` is the event as JSON."""

    request_id: str
    function_arn: str
    payload: bytes
    trace_id: str = "Root=1-00000000-000000000000000000000000;Sampled=0"


def make_support(folder: Path, site_packages: Path) -> Path:
    """Make `folder`, with awslambdaric as it is installed in `site_packages`, what that imports, and nothing else."""
    folder.mkdir()
    for name in RUNTIME:
        found = [path for form in (name, f"{name}.py", f"{name}.*.so") for path in site_packages.glob(form)]
        if not found:
            raise ImportError(f"{name} is not installed in {site_packages}")
        (folder / found[0].name).symlink_to(found[0])
    return folder


def kill_all() -> None:
    """End every function at once, whatever it is doing."""
    for process in list(_STARTED):
        process.kill()


class FunctionProcess:
    """One running function: its process, and the Runtime API that hands it invocations."""

    def __init__(
        self,
        program: Program,
        environment: Mapping[str, str],
        log: Path,
        in_child: Callable[[], None] | None = None,
    ) -> None:
        """Start it. What it writes is added to `log`; `in_child` is called in the new process before all else."""
        self._program = program
        self._invocations: queue.SimpleQueue[Invocation | None] = queue.SimpleQueue()
        self._answer: Future[tuple[bool, bytes]] = Future()
        self._ready: Future[float] = Future()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        self._started = time.monotonic()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                # Without site-packages: the function sees the bundle, the standard library and awslambdaric.
                [str(program.python), "-s", "-S", "-m", "awslambdaric", program.handler],
                cwd=program.code,
                env={
                    **environment,
                    "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._server.server_address[1]}",
                    "LAMBDA_TASK_ROOT": str(program.code),
                    "PATH": os.defpath,
                    "PYTHONPATH": str(program.support),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=in_child,
            )
        _STARTED.add(self._process)
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def peak_memory(self) -> int | None:
        """The most bytes it has had in memory so far; None where the system does not tell, or it has ended."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        return None

    def await_ready(self) -> float:
        """The seconds until its module was imported, once it is. Raises InitError, and TimeoutError."""
        return self._ready.result(INIT_TIMEOUT)

    def invoke(self, invocation: Invocation) -> tuple[bool, bytes]:
        """Whether it failed, and what it answered; ended by force after the function's timeout."""
        self._answer = Future()
        self._invocations.put(invocation)
        try:
            return self._answer.result(self._program.timeout)
        except Late:
            self.stop()
            return True, _failure("Sandbox.Timedout", f"Task timed out after {self._program.timeout}.00 seconds")

    def stop(self) -> None:
        """End the process and its Runtime API."""
        self._process.kill()
        self._process.wait()
        self._invocations.put(None)
        self._server.shutdown()
        self._server.server_close()

    def _watch(self) -> None:
        """Let nobody wait for a process that has ended."""
        code = self._process.wait()
        _STARTED.discard(self._process)
        failure = _failure("Runtime.ExitError", f"Runtime exited with status {code}")
        with contextlib.suppress(InvalidStateError):
            self._ready.set_exception(InitError("the process ended", failure))
        with contextlib.suppress(InvalidStateError):
            self._answer.set_result((True, failure))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        running = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                with contextlib.suppress(InvalidStateError):
                    running._ready.set_result(time.monotonic() - running._started)
                invocation = running._invocations.get()
                if invocation is None:
                    self.close_connection = True
                    return
                deadline = time.time() + running._program.timeout
                self.send_response(200)
                self.send_header("Lambda-Runtime-Aws-Request-Id", invocation.request_id)
                self.send_header("Lambda-Runtime-Deadline-Ms", str(int(deadline * 1000)))
                self.send_header("Lambda-Runtime-Invoked-Function-Arn", invocation.function_arn)
                self.send_header("Lambda-Runtime-Trace-Id", invocation.trace_id)
                # awslambdaric crashes without a content type.
                self.send_header("Content-Type", "application/json")
                self._end(invocation.payload)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with contextlib.suppress(InvalidStateError):
                    if self.path == f"{VERSION}/init/error":
                        running._ready.set_exception(InitError("the import failed", body))
                    elif self.path.startswith(f"{VERSION}/invocation/"):
                        running._answer.set_result((self.path.endswith("/error"), body))
                self.send_response(202)
                self.send_header("Content-Type", "application/json")
                self._end(b"{}")

            def _end(self, body: bytes) -> None:
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return

        return Handler


def _failure(kind: str, message: str) -> bytes:
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()
