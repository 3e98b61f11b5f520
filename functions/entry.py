"""Lambda's entry point, for every function: `handler` is the handler of the module that `SERVICE_NAME` names.

Lambda imports this module in the phase in which an execution environment is initialized. That phase has a whole core,
and the first request waits less: so what a first request would otherwise build is built here, and only the module of
the one function is imported.

Imports create no garbage, so the garbage collector is off meanwhile. Later it does not look at what they created.
"""

# ruff: noqa: E402
from __future__ import annotations

import gc

gc.disable()

import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from shared.aws import services
from shared.core import log, metrics, settings
from shared.core.metrics import FAILED_INVOCATIONS


def warm(function: ModuleType) -> None:
    """Build what the first call of the function would otherwise build.

    These are the logger, AWS clients, their TLS context, and the schemas of request bodies.
    """
    log.logger()
    app = getattr(function, "app", None)
    if app is not None:
        app.warm()
    for client in (services.dynamodb, services.sqs, services.stepfunctions, services.kms):
        client().warm()
    # The first look-up of a host name imports this codec.
    "localhost".encode("idna")


def counting_failures(handler: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The handler, which counts failures that Lambda cannot see, because the handler's response reports them.

    The alarm of a release uses the count. A 504 is an agent that took too long.
    """

    @functools.wraps(handler)
    def counting(event: Any, context: Any) -> Any:
        response = handler(event, context)
        if isinstance(response, dict):
            status = response.get("statusCode", 200)
            if response.get("batchItemFailures") or (status >= 500 and status != 504):
                metrics.count(FAILED_INVOCATIONS, version=context.function_version)
        return response

    return counting


_function = importlib.import_module(f"functions.{settings.service_name()}")
warm(_function)
handler = counting_failures(_function.handler)
gc.freeze()
gc.enable()
