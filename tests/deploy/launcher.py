"""Starts LocalStack in this process: run by the Python that has localstack-core, not by the one of the tests.

    python -m tests.deploy.launcher < PIPE

Settings come by the environment: LocalStack's own, and `FUNCTION_LOGS` (a folder), `FUNCTION_SUPPORT` (a folder
to make) and `FUNCTION_ENVIRONMENT` (a JSON object of variables for every function). It ends when its standard
input closes, as it does when the tests end in whatever way.
"""

from __future__ import annotations

import functools
import json
import os
import sysconfig
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from localstack.runtime.main import main as run
from localstack.runtime.server import twisted
from localstack.services.apigateway.next_gen.execute_api.integrations import aws
from localstack.services.cloudformation.engine.v2 import change_set_model_executor
from localstack.services.cloudformation.resource_provider import OperationStatus, ProgressEvent
from localstack.services.dynamodb import utils
from localstack.services.dynamodb.server import DynamodbServer
from localstack.services.lambda_.invocation.plugins import DockerRuntimeExecutorPlugin
from localstack.services.lambda_.resource_providers.lambda_alias import LambdaAliasProvider

from tests.deploy.lambda_process import ProcessExecutor
from tests.deploy.runtime_api import kill_all, make_support


def main() -> None:
    support = Path(os.environ["FUNCTION_SUPPORT"])
    ProcessExecutor.support = make_support(support, Path(sysconfig.get_path("platlib")))
    ProcessExecutor.logs = Path(os.environ["FUNCTION_LOGS"])
    ProcessExecutor.extra = json.loads(os.environ["FUNCTION_ENVIRONMENT"])
    DockerRuntimeExecutorPlugin.load = lambda *_, **__: ProcessExecutor
    # The tests have started the database, on DYNAMODB_LOCAL_PORT.
    DynamodbServer.start_dynamodb = lambda _: True
    DynamodbServer.stop_dynamodb = lambda _: None
    # Tables are kept under the access key that the functions have, so that they reach the database themselves:
    # DynamoDB Local keeps those of each key apart. The providers, which use it, are loaded after this.
    key = ProcessExecutor.extra["AWS_ACCESS_KEY_ID"]
    utils.get_ddb_access_key = lambda *_, **__: key
    LambdaAliasProvider.update = _move_alias
    # That its function has changed does not make an alias another one.
    LambdaAliasProvider.SCHEMA = LambdaAliasProvider.SCHEMA | {"createOnlyProperties": ["/properties/Name"]}
    # `*/*` matches no type there, so that a body in base64 would be passed on as it is.
    aws.mime_type_matches_binary_media_types = _is_binary
    # It knows one policy that keeps what a stack leaves.
    change_set_model_executor.DeletionPolicy = SimpleNamespace(Retain=_Kept())
    # LocalStack itself takes no more than the port of GATEWAY_LISTEN.
    listen = twisted.endpoints.TCP4ServerEndpoint
    twisted.endpoints.TCP4ServerEndpoint = functools.partial(listen, interface="127.0.0.1")
    threading.Thread(target=_end_with_the_tests, daemon=True).start()
    run()


def _is_binary(mime_type: str | None, binary_media_types: list[str]) -> bool:
    """Whether a body in base64 is decoded for a client with this Accept header: `*/*` matches any, but it needs one."""
    return bool(mime_type) and "*/*" in binary_media_types


class _Kept:
    """Equal to every deletion policy that keeps a resource."""

    def __eq__(self, other: object) -> bool:
        return other in ("Retain", "RetainExceptOnCreate")

    __hash__ = None  # type: ignore[assignment]


def _move_alias(self: LambdaAliasProvider, request: Any) -> ProgressEvent:
    """Let an alias name another version, which LocalStack's CloudFormation cannot do."""
    model = request.desired_state
    request.aws_client_factory.lambda_.update_alias(
        FunctionName=model["FunctionName"], Name=model["Name"], FunctionVersion=model["FunctionVersion"]
    )
    model["Id"] = request.previous_state["Id"]
    return ProgressEvent(status=OperationStatus.SUCCESS, resource_model=model)


def _end_with_the_tests() -> None:
    while os.read(0, 1):
        pass
    kill_all()
    os._exit(0)


if __name__ == "__main__":
    main()
