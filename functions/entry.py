"""Lambda's entry point: the attribute NAME is the handler of `functions.NAME`.

Lambda reads the attribute in the phase in which an execution environment is initialized. That phase has a whole core,
and the first request waits less: so what a first request would otherwise build is built here. Importing this module
does nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from shared.aws import services
from shared.core import log


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


def __getattr__(name: str) -> Callable[[Any, Any], Any]:
    if name.startswith("_"):
        raise AttributeError(name)
    function = importlib.import_module(f"functions.{name}")
    warm(function)
    handler: Callable[[Any, Any], Any] = function.handler
    return handler
