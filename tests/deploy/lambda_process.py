"""LocalStack's way to run a function here: the processes of `runtime_api`, one for each execution environment."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from localstack import config
from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

from tests.deploy.runtime_api import FunctionProcess, InitError, Invocation, Program


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
        deployed = self.function_version.config
        program = Program(
            python=Path(sys.executable).resolve(),
            support=self.support,
            code=Path(deployed.code.get_unzipped_code_location()),
            handler=deployed.handler,
            timeout=deployed.timeout,
        )
        environment = {**self._environment, "AWS_EXECUTION_ENV": f"AWS_Lambda_{deployed.runtime}"}
        name = self.function_version.id.function_name
        self._running = FunctionProcess(program, environment, self.logs / f"{name}.log")
        try:
            self._running.await_ready()
        except InitError as error:
            self._running.stop()
            raise StatusErrorException("the function did not start", payload=error.answer) from error
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
            failed, answer = running.invoke(
                Invocation(
                    payload["invoke-id"],
                    payload["invoked-function-arn"],
                    payload["payload"].encode(),
                    payload["trace-id"],
                )
            )
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
