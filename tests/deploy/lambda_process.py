"""LocalStack's way to run a function here: `python -m awslambdaric` on the deployed bundle, without Docker.

Each execution environment is one process and one Lambda Runtime API on loopback, as in Lambda: a process
takes one invocation at a time, keeps what it has in memory for the next one, and is thrown away when it
outlasts the function's timeout.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as Late
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from localstack import config
from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

INIT_TIMEOUT = 60
"""Seconds for the imports of a function, on a busy machine; Lambda itself gives 10."""

VERSION = "/2018-06-01/runtime"

_STARTED: set[subprocess.Popen[bytes]] = set()


def kill_all() -> None:
    """End every function at once, whatever it is doing."""
    for process in list(_STARTED):
        process.kill()


class FunctionProcess:
    """One running function: its process, and the Runtime API that hands it invocations."""

    def __init__(self, function: FunctionVersion, environment: Mapping[str, str], *, support: Path, log: Path) -> None:
        """Start it. `support` is a folder with awslambdaric and what that imports, and nothing else."""
        self._invocations: queue.SimpleQueue[dict[str, str] | None] = queue.SimpleQueue()
        self._answer: Future[tuple[bool, bytes]] = Future()
        self._ready: Future[None] = Future()
        self._function = function
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.5,), daemon=True).start()
        code = function.config.code.get_unzipped_code_location()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                # Without site-packages: the function sees the bundle, the standard library and awslambdaric.
                [str(Path(sys.executable).resolve()), "-s", "-S", "-m", "awslambdaric", function.config.handler],
                cwd=code,
                env={
                    **environment,
                    "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.config.runtime}",
                    "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._server.server_address[1]}",
                    "LAMBDA_TASK_ROOT": str(code),
                    "PATH": os.defpath,
                    "PYTHONPATH": str(support),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        _STARTED.add(self._process)
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def await_ready(self) -> None:
        """Return once its module is imported. Raises StatusErrorException, and TimeoutError."""
        self._ready.result(INIT_TIMEOUT)

    def invoke(self, payload: dict[str, str]) -> tuple[bool, bytes]:
        """Whether it failed, and what it answered; ended by force after the function's timeout."""
        self._answer = Future()
        self._invocations.put(payload)
        timeout = self._function.config.timeout
        try:
            return self._answer.result(timeout)
        except Late:
            self.stop()
            return True, _failure("Sandbox.Timedout", f"Task timed out after {timeout}.00 seconds")

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
            self._ready.set_exception(StatusErrorException("the process ended", payload=failure))
        with contextlib.suppress(InvalidStateError):
            self._answer.set_result((True, failure))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        running = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                with contextlib.suppress(InvalidStateError):
                    running._ready.set_result(None)
                invocation = running._invocations.get()
                if invocation is None:
                    self.close_connection = True
                    return
                deadline = time.time() + running._function.config.timeout
                self.send_response(200)
                self.send_header("Lambda-Runtime-Aws-Request-Id", invocation["invoke-id"])
                self.send_header("Lambda-Runtime-Deadline-Ms", str(int(deadline * 1000)))
                self.send_header("Lambda-Runtime-Invoked-Function-Arn", invocation["invoked-function-arn"])
                self.send_header("Lambda-Runtime-Trace-Id", invocation["trace-id"])
                # awslambdaric crashes without a content type.
                self.send_header("Content-Type", "application/json")
                self._end(invocation["payload"].encode())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with contextlib.suppress(InvalidStateError):
                    if self.path == f"{VERSION}/init/error":
                        running._ready.set_exception(StatusErrorException("the import failed", payload=body))
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


class ProcessExecutor(RuntimeExecutor):  # type: ignore[misc]
    """What LocalStack's Lambda calls; `support`, `logs` and `extra` are set once before it starts.

    `extra` are variables for every function: what this machine has to add to those of the stack.
    """

    support: Path
    logs: Path
    extra: Mapping[str, str] = {}

    def __init__(self, id: str, function_version: FunctionVersion) -> None:
        super().__init__(id, function_version)
        self._running: FunctionProcess | None = None
        self._environment: dict[str, str] = {}
        self._busy = threading.Lock()

    def start(self, env_vars: Mapping[str, Any]) -> None:
        ours = {name: str(value) for name, value in env_vars.items() if not name.startswith("LOCALSTACK_")}
        self._environment = {**ours, **self.extra}
        self._begin()

    def _begin(self) -> FunctionProcess:
        name = self.function_version.id.function_name
        self._running = FunctionProcess(
            self.function_version, self._environment, support=self.support, log=self.logs / f"{name}.log"
        )
        try:
            self._running.await_ready()
        except BaseException:
            self._running.stop()
            raise
        return self._running

    def stop(self) -> None:
        # An invocation under way comes to its end, as it does in Lambda when new code is put in place.
        with self._busy:
            if self._running:
                self._running.stop()

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        with self._busy:
            # The one before may have outlasted its time, or crashed.
            running = self._running if self._running and self._running.alive else self._begin()
            failed, answer = running.invoke(payload)
        return InvocationResult(payload["invoke-id"], answer, is_error=failed, logs="")

    def get_address(self) -> str:
        return "127.0.0.1"

    def get_endpoint_from_executor(self) -> str:
        return "127.0.0.1"

    def get_runtime_endpoint(self) -> str:
        return f"http://127.0.0.1:{config.GATEWAY_LISTEN[0].port}"

    def get_logs(self) -> str:
        return ""

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        return


def _failure(kind: str, message: str) -> bytes:
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()
