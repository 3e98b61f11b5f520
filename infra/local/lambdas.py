"""Calls the functions as Lambda does: with an event, for a result; the log goes to standard output.

Many threads call them at once. Lambda, in contrast, runs concurrent calls in separate processes.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from infra.local import names
from infra.local.console import StartError
from infra.local.proxy import Event
from infra.topology import Function

log = logging.getLogger(__name__)

READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods of requests that change no resource."""


@dataclass(frozen=True)
class Context:
    """The context object that Lambda passes to a handler."""

    function_name: str
    memory_limit_in_mb: str
    invoked_function_arn: str
    deadline: float
    function_version: str = "$LATEST"
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    log_stream_name: str = field(default_factory=lambda: f"{time.strftime('%Y/%m/%d')}/[$LATEST]{uuid.uuid4().hex}")
    identity: None = None
    client_context: None = None

    @property
    def log_group_name(self) -> str:
        """The name of the function's log group."""
        return f"/aws/lambda/{self.function_name}"

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the function's timeout. The runner does not stop it then."""
        return max(0, int((self.deadline - time.monotonic()) * 1000))


class Lambdas:
    """The handlers of all functions, loaded once. `after_call` is called after calls that can change a resource."""

    def __init__(self, functions: Iterable[Function]) -> None:
        """Import the handlers. Raises StartError."""
        self._handlers = {function.name: _load(function) for function in functions}
        self.after_call: Callable[[], None] = lambda: None

    def call(self, function: Function, event: Event) -> Any:
        """Call the handler and return its result. An exception is logged and raised again."""
        name = names.function(function.name)
        arn = names.arn("lambda", f"function:{name}")
        context = Context(name, str(function.memory), arn, time.monotonic() + function.timeout_s)
        try:
            return self._handlers[function.name](event, context)
        except Exception:
            log.exception("%s failed, request %s", function.name, context.aws_request_id)
            raise
        finally:
            # The function of the stream and GET requests change no row whose changes become events.
            if not function.stream and event.get("httpMethod") not in READING:
                self.after_call()


def threads(name: str, count: int) -> ThreadPoolExecutor:
    """Threads for handlers. Each has an event loop, like the main thread of a Lambda function."""
    return ThreadPoolExecutor(
        count, thread_name_prefix=name, initializer=lambda: asyncio.set_event_loop(asyncio.new_event_loop())
    )


def _load(function: Function) -> Callable[[Event, Context], Any]:
    try:
        handler: Callable[[Event, Context], Any] = importlib.import_module(function.module).handler
    except (ImportError, AttributeError) as error:
        raise StartError(f"the handler of the function {function.name} is missing: {error}") from error
    return handler
