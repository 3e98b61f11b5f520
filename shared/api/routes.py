"""Routes: the paths of a route group, the operations behind them, and the ASGI app that serves them.

    app = Service(
        Route(
            "/v1/customers/{id}",
            get=Operation(retrieve, name="retrieve_customer", errors=(Code.RESOURCE_NOT_FOUND,)),
            delete=Operation(delete, name="delete_customer", errors=(Code.RESOURCE_NOT_FOUND,)),
        ),
    )
    handler = lambda_handler(app)

A function from a `Request[…]` to a `Response[…]`, with the types of the bodies, serves an operation. It calls AWS
synchronously, because a Lambda container serves one request at a time. The steps of a request stand below `Route` in
the order in which they happen: the Lambda handler, `Service`, `_Dispatch`, `_check`, `_handle`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import NoneType
from typing import Any, cast, get_args, get_type_hints

from mangum import Mangum
from starlette.requests import Request as StarletteRequest
from starlette.routing import BaseRoute, Router
from starlette.routing import Route as StarletteRoute
from starlette.types import Message, Receive, Send
from starlette.types import Scope as ASGIScope

from shared.api import idempotency, responses
from shared.api.requests import Request, check_query, read_api_key, read_json, read_version
from shared.api.responses import RequestContext, Response
from shared.aws.services import Unavailable
from shared.core import clock, ids, log, trace
from shared.core.errors import ApiError, Code
from shared.core.metrics import REQUEST_LINE
from shared.projects import api_keys
from shared.resources import fields, queries
from shared.resources.collections import Collection
from shared.store import table

_READING = ("GET", "HEAD")
_WITH_BODY = ("POST", "PATCH")
_READABLE = {
    "host": re.compile(r"[\w.-]+(:[0-9]{1,5})?", re.ASCII),
    "x-forwarded-port": re.compile(r"[0-9]{1,5}"),
    # Schemes are the same in capitals (RFC 3986, section 3.1).
    "x-forwarded-proto": re.compile(r"https?", re.IGNORECASE),
}
"""The values of the headers that Mangum and Starlette parse, as API Gateway sends them."""


@dataclass(frozen=True)
class Operation:
    """One operation of the API: the function that serves it, and its description."""

    handle: Callable[[Request[Any]], Response[Any]]
    """Returns the response to a request. Its docstring is the summary and the description of the operation."""
    name: str
    """The operation's name in the API description, from which generated clients name their methods. Never changes."""
    status: tuple[int, ...] = (200,)
    """The statuses of a success."""
    optional_body: bool = False
    """Whether the body may be empty, because every field has a default."""
    lists: Collection[Any, Any] | None = None
    """The collection of whose resources it returns a page. Its parameters are the query parameters."""
    errors: tuple[Code, ...] = ()
    """The error codes of this operation, beside those of every operation (key, limits, validation)."""
    reads: Collection[Any, Any] | None = None
    """The collection of the resource that `id` in the path names, if the operation begins by reading it.

    `Request.find` reads it, and its request is sent before the key is authenticated.
    """
    response_type: Any = None
    """The type of the body of a success, if it is not the one in the `Response[…]` that `handle` returns."""
    deferred_body: Callable[[Request[Any], str], str] | None = None
    """For a retry with the same key: returns the body that the saved response names (`Response.deferred`)."""

    @functools.cached_property
    def body(self) -> type[fields.Input]:
        """The model that validates the body of a POST or PATCH: the one in the `Request[…]` that `handle` takes."""
        (model,) = get_args(get_type_hints(self.handle)["request"])
        return fields.Nothing if model is NoneType else cast("type[fields.Input]", model)

    @functools.cached_property
    def returns(self) -> Any:
        """The type of the body of a success."""
        (type,) = get_args(get_type_hints(self.handle)["return"])
        return self.response_type or type

    @property
    def query(self) -> frozenset[str]:
        """The names of the query parameters."""
        return frozenset() if self.lists is None else queries.parameters(self.lists)


class Route(StarletteRoute):
    """A path and the operations of its methods. HEAD is GET without a body in the response.

    `elsewhere` are methods of the path that another function serves.
    """

    def __init__(
        self,
        path: str,
        *,
        get: Operation | None = None,
        post: Operation | None = None,
        patch: Operation | None = None,
        delete: Operation | None = None,
        elsewhere: tuple[str, ...] = (),
    ) -> None:
        methods = {"GET": get, "HEAD": get, "POST": post, "PATCH": patch, "DELETE": delete}
        self.operations = {method: operation for method, operation in methods.items() if operation}
        self.allowed = ", ".join(method for method in methods if method in (*self.operations, *elsewhere))
        """The methods of the path."""
        super().__init__(path, _Dispatch(self))


def lambda_handler(app: Service) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    """The Lambda handler of an app, for API Gateway proxy events. It runs on the event loop of its thread."""
    adapter = Mangum(app, lifespan="off")
    return lambda event, context: adapter(_with_readable_headers(event), context)


def _with_readable_headers(event: dict[str, Any]) -> dict[str, Any]:
    """The event without headers whose value is not one of `_READABLE`: some of these would raise exceptions."""

    def is_readable(name: str, value: str | list[str]) -> bool:
        expected = _READABLE.get(name.lower())
        return expected is None or bool(expected.fullmatch(value if isinstance(value, str) else ",".join(value)))

    kept = {
        kind: {name: value for name, value in (event.get(kind) or {}).items() if is_readable(name, value)}
        for kind in ("headers", "multiValueHeaders")
    }
    return event | kept


class Service:
    """The ASGI app of a route group: routes, common headers, one log line per request, and the catch-all."""

    def __init__(self, *routes: BaseRoute) -> None:
        self.routes = routes
        self._router = Router(routes, redirect_slashes=False, default=_no_route)

    def warm(self) -> None:
        """Build the schemas of all request bodies, which are otherwise built when they are first used."""
        for route in self.routes:
            if isinstance(route, Route):
                for operation in route.operations.values():
                    operation.body.model_rebuild()

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        """Serve one request; every exception becomes an error response."""
        context = scope["context"] = _context(scope)
        with trace.naming(request_id=context.request_id):
            await self._serve(scope, context, receive, send)

    async def _serve(self, scope: ASGIScope, context: RequestContext, receive: Receive, send: Send) -> None:
        status = 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name for name, _ in message["headers"]}
                headers = responses.common_headers(context).items()
                common = [(name.lower().encode(), value.encode()) for name, value in headers]
                message["headers"] = [*message["headers"], *(pair for pair in common if pair[0] not in own)]
            elif scope["method"] == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        try:
            await self._router(scope, receive, send_with_headers)
        except Exception as error:  # noqa: BLE001  # any error has a response
            await responses.render_error(api_error(error), context)(scope, receive, send_with_headers)
        _log(scope, context, status)


def _context(scope: ASGIScope) -> RequestContext:
    event = scope.get("aws.event", {})
    # The gateway's `requestContext.path` begins with the stage or the base path mapping; `path` does not.
    full, path = event.get("requestContext", {}).get("path") or scope["path"], event.get("path") or scope["path"]
    prefix = full.removesuffix(path) if full != path else ""
    host = dict(scope["headers"]).get(b"host", b"localhost").decode("latin-1")
    return RequestContext(
        request_id=ids.new("req_"),
        started=time.perf_counter(),
        seconds=_seconds_allowed(scope.get("aws.context")),
        base_url=f"{scope['scheme']}://{host}{prefix}",
        prefix=prefix,
    )


def _seconds_allowed(lambda_context: Any) -> float:
    """Seconds that the function has left for the request."""
    return math.inf if lambda_context is None else lambda_context.get_remaining_time_in_millis() / clock.SECOND


def no_route(path: str) -> ApiError:
    """The 404 for a path that has no operation."""
    return ApiError(Code.ROUTE_NOT_FOUND, f"No operation has the path {path[:200]}.")


async def _no_route(scope: ASGIScope, receive: Receive, send: Send) -> None:
    raise no_route(scope["path"])


class _Dispatch:
    """The ASGI app of one route."""

    def __init__(self, route: Route) -> None:
        self._route = route

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        request, context = StarletteRequest(scope, receive), scope["context"]
        context.route = self._route.path
        operation = self._route.operations.get(request.method)
        if operation is None:
            allowed = self._route.allowed
            raise ApiError(Code.METHOD_NOT_ALLOWED, f"Use one of {allowed}.", headers={"Allow": allowed})
        raw, api_key = await request.body(), read_api_key(request)
        with _read_ahead(operation, request, api_key) as ahead:
            checked, document = _check(operation, request, context, raw, api_key, ahead)
            response = _handle(operation, checked, document)
        await responses.render(response, context)(scope, receive, send)


def _read_ahead(
    operation: Operation, request: StarletteRequest, api_key: str
) -> AbstractContextManager[table.ReadAhead | None]:
    """Begin to read the operation's resource if the key's project is known: its partition contains the project."""
    reads, id = operation.reads, request.path_params.get("id", "")
    scope = api_keys.expected_scope(api_key) if reads and ids.is_id(reads.prefix, id) else None
    return nullcontext() if reads is None or scope is None else table.ReadAhead(scope.pk(reads.kind), id)


def _check(
    operation: Operation,
    request: StarletteRequest,
    context: RequestContext,
    raw: bytes,
    api_key: str,
    ahead: table.ReadAhead | None,
) -> tuple[Request[None], Mapping[str, Any] | None]:
    """Make the checks that all requests share. Returns the request without its body, and the body as a JSON object."""
    caller = context.caller = _authenticate(api_key, context)
    if caller.read_only and request.method not in _READING:
        raise ApiError(Code.PERMISSION_DENIED, "The API key is read-only. Send a key that may write.")
    context.version = read_version(request)
    document, key = None, None
    if request.method in _WITH_BODY:
        document = read_json(request, raw, required=not operation.optional_body)
        key = idempotency.read_key(request, caller.scope, document, api_key)
    context.repeatable = request.method not in _WITH_BODY or key is not None
    checked = Request(
        scope=caller.scope,
        project_name=caller.project_name,
        params=request.path_params,
        query={name: request.query_params.getlist(name) for name in request.query_params},
        path=request.url.path,
        context=context,
        body=None,
        key=key,
        ahead=ahead,
    )
    return checked, document


def _authenticate(api_key: str, context: RequestContext) -> api_keys.Caller:
    try:
        return api_keys.authenticate(api_key)
    except api_keys.LimitExceeded as exceeded:
        context.caller = exceeded.caller
        headers = {"Retry-After": str(exceeded.resets_in_s), "Service-Rate-Limited-Reason": exceeded.window}
        raise ApiError(Code.RATE_LIMIT_EXCEEDED, headers=headers) from None


def _handle(operation: Operation, checked: Request[None], document: Mapping[str, Any] | None) -> Response[Any]:
    """Validate the query and the body, and execute the operation.

    If the Idempotency-Key has a saved response, that is the response, also instead of an error.
    """
    request: Request[Any] = checked
    try:
        check_query(request.query, operation.query)
        if document is not None:
            request = dataclasses.replace(request, body=fields.validate(operation.body, document))
        return operation.handle(request)
    except idempotency.Recorded as recorded:
        saved = request.replay(recorded)
    except ApiError as error:
        saved = request.replay_or_raise(error)
    if saved.deferred is None:
        return saved
    assert operation.deferred_body is not None
    return dataclasses.replace(saved, body=operation.deferred_body(request, saved.deferred))


def api_error(error: Exception) -> ApiError:
    """The error response for an exception. It does not expose details of internal errors."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, Unavailable | table.Contended | table.ConditionFailed):
        return ApiError(Code.SERVICE_UNAVAILABLE, headers={"Retry-After": "1"})
    log.logger().error("internal error", exc_info=error)
    return ApiError(Code.INTERNAL_ERROR)


def _log(scope: ASGIScope, context: RequestContext, status: int) -> None:
    caller = context.caller
    extra = {
        "request_id": context.request_id,
        # Identifies the request in the gateway's access log, which does not have our id.
        "gateway_request_id": scope.get("aws.event", {}).get("requestContext", {}).get("requestId"),
        "method": scope["method"],
        "route": context.route,
        "status": status,
        "code": context.error_code,
        "param": context.error_param,
        "project_id": caller.scope.project_id if caller else None,
        "livemode": caller.scope.livemode if caller else None,
        "key_id": caller.key_id if caller else None,
        "duration_ms": round((time.perf_counter() - context.started) * 1000, 1),
    }
    log.logger().info(REQUEST_LINE, extra=extra)
