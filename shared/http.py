"""HTTP for every route group: what all endpoints share, from the request id to the catch-all.

    service(Resource(...), ...)   the ASGI app of a route group
    lambda_handler(app)           its Lambda handler
    Call                          a request that has passed the common checks, handed to an endpoint
    Answer                        what an endpoint returns

Order of checks (contract 2): route, key, rate limit, version header, size, content type, JSON; then the
endpoint validates and works. Endpoints are plain functions; table calls block, as one Lambda container
serves one request at a time.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mangum import Mangum
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Send
from starlette.types import Scope as ASGIScope

from shared import clock, fields, idempotency, ids, log, projects, revisions, table
from shared.aws import Unavailable
from shared.errors import PASSING, RETRYABLE, ApiError
from shared.keys import Scope

MOST_BYTES = 256 * 1024
MOST_DECISIONS = 100
_CONFLICT_SECONDS = 15
"""How long a request takes part in a race before it answers `conflict`."""
_LAST_SECONDS = 2
"""What a function keeps of its time to answer in."""
_BODIES = ("POST", "PATCH")
_POLICY = f'"second";q={projects.PER_SECOND};w=1, "minute";q={projects.PER_MINUTE};w=60'


@dataclass(frozen=True)
class Answer:
    """A success: status, JSON text, `Location` path, and whether the body holds a secret.

    `turn` names the turn that the body comes from where it is not known when the work is committed.
    """

    status: int
    body: str
    location: str | None = None
    secret: bool = False
    turn: str | None = None


@dataclass
class Exchange:
    """What is known of a request from its first moment on, for the answer's headers and the log."""

    request_id: str
    started: float
    seconds: float
    base_url: str
    prefix: str
    revision: str = revisions.NEWEST
    caller: projects.Caller | None = None
    route: str | None = None
    idempotent: bool = False
    committed: bool = False
    code: str | None = None


M = TypeVar("M", bound=fields.Input)
Decision = tuple[Sequence[table.Operation], Answer]


@dataclass
class Call:
    """A request that has passed the common checks."""

    scope: Scope
    project_name: str
    params: Mapping[str, str]
    query: Mapping[str, list[str]]
    path: str
    exchange: Exchange
    _body: Mapping[str, Any]
    _idempotency: idempotency.Request | None = field(repr=False)
    await_turn: Callable[[str], str] | None = None

    @property
    def request_id(self) -> str:
        """The id that the answer's `Service-Request-Id` shows."""
        return self.exchange.request_id

    def seconds_left(self, window: float) -> float:
        """What is left of a window that began with the request and ends before the function's own time does."""
        passed = time.perf_counter() - self.exchange.started
        return min(window, self.exchange.seconds - _LAST_SECONDS) - passed

    def body(self, model: type[M]) -> M:
        """The body as `model`. Raises ApiError."""
        return fields.validate(model, self._body)

    def commit(self, decide: Callable[[], Decision]) -> Answer:
        """Do what `decide` decides, with the answer saved under the request's Idempotency-Key if it has one.

        `decide` reads what it needs and returns the writes and the answer; it is asked again when a
        write lost a race. Without writes and without a key, nothing is written. Raises ApiError.
        """
        for turn in range(MOST_DECISIONS):
            ops, answer = decide()
            record = self._record(answer)
            writes = [*ops, *([record] if record else [])]
            if not writes:
                return answer
            try:
                table.write(writes, self.request_id)
            except table.Refused as refused:
                if refused.op is record:
                    return self._replay(refused.old)
                error = refused.op.refusal(refused.old)
                if error is not None:
                    raise error from None
            except table.Contended as contended:
                if contended.op is record:
                    raise _key_in_use() from None
            else:
                self.exchange.committed = True
                return answer
            # The more writers there are, the longer it takes until this one is alone.
            clock.sleep(random.uniform(0, 0.02 * min(turn, 25)))
            if self.seconds_left(_CONFLICT_SECONDS) <= 0:
                break
        raise ApiError("conflict", headers={"Retry-After": "1"})

    def settle(self, error: ApiError) -> Answer:
        """What a refusal comes to under the request's Idempotency-Key: its record decides (contract 4)."""
        if self._idempotency is None or error.status >= 500 or error.code == "idempotency_key_reused":
            raise error
        if error.status == 409 and error.code not in PASSING:
            record = self._record(Answer(409, _error_body(error, self.exchange)))
            assert record is not None
            try:
                table.write([record], self.request_id)
            except table.Refused as refused:
                return self._replay(refused.old)
            except table.Contended:
                raise _key_in_use() from None
            raise error
        row = idempotency.find(self._idempotency)
        if row is None:
            raise error
        return self._replay(row)

    def _record(self, answer: Answer) -> table.Put | None:
        if self._idempotency is None:
            return None
        saved = idempotency.Saved(answer.status, answer.body, answer.location, self.request_id, answer.turn)
        return idempotency.record(self._idempotency, saved, sealed=answer.secret)

    def _replay(self, row: table.Row | None) -> Answer:
        assert self._idempotency is not None
        assert row is not None
        saved = idempotency.opened(self._idempotency, row)
        if saved.turn is not None:
            assert self.await_turn is not None
            saved = dataclasses.replace(saved, body=self.await_turn(saved.turn))
        raise _Replayed(saved)


def _key_in_use() -> ApiError:
    return ApiError("idempotency_key_in_use", headers={"Retry-After": "1"})


class _Replayed(Exception):
    """The request was answered before, and this was the answer."""

    def __init__(self, saved: idempotency.Saved) -> None:
        super().__init__(saved.request)
        self.saved = saved


Endpoint = Callable[[Call], Answer]


class Resource(Route):
    """A path and its methods. `query` names the parameters that GET takes; `actions` are POSTs without a body."""

    def __init__(
        self,
        path: str,
        *,
        get: Endpoint | None = None,
        post: Endpoint | None = None,
        patch: Endpoint | None = None,
        delete: Endpoint | None = None,
        query: frozenset[str] = frozenset(),
        action: bool = False,
    ) -> None:
        given = {"GET": get, "HEAD": get, "POST": post, "PATCH": patch, "DELETE": delete}
        self.endpoints = {method: endpoint for method, endpoint in given.items() if endpoint}
        self.query = query
        self.action = action
        super().__init__(path, _Dispatch(self))


class _Dispatch:
    """The ASGI app of one resource."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = self._answer(request, scope["exchange"], await request.body())
        await response(scope, receive, send)

    def _answer(self, request: Request, exchange: Exchange, body: bytes) -> Response:
        resource = self._resource
        exchange.route = resource.path
        if request.method not in resource.endpoints:
            allowed = ", ".join(resource.endpoints)
            raise ApiError("method_not_allowed", f"Use one of {allowed}.", headers={"Allow": allowed})
        api_key = _api_key(request)
        try:
            exchange.caller = projects.authenticate(api_key)
        except projects.Limited as limited:
            exchange.caller = limited.caller
            raise _rate_limited(limited) from None
        _check_revision(request, exchange)
        document = _document(request, body, resource.action) if request.method in _BODIES else {}
        call = self._call(request, exchange, api_key, document)
        try:
            try:
                _check_query(request, resource.query)
                answer = resource.endpoints[request.method](call)
            except ApiError as error:
                answer = call.settle(error)
        except _Replayed as replayed:
            return _replay_response(replayed.saved, exchange)
        headers = {"Location": exchange.prefix + answer.location} if answer.location else {}
        return _json(answer.status, answer.body, headers)

    def _call(self, request: Request, exchange: Exchange, api_key: str, document: Mapping[str, Any]) -> Call:
        assert exchange.caller is not None
        scope = exchange.caller.scope
        key = idempotency.checked(request.headers.getlist("Idempotency-Key")) if request.method in _BODIES else None
        exchange.idempotent = key is not None
        keyed = None
        if key is not None:
            print_ = idempotency.fingerprint(request.method, request.url.path, document)
            keyed = idempotency.Request(scope, key, print_, api_key)
        query = {name: request.query_params.getlist(name) for name in request.query_params}
        return Call(
            scope=scope,
            project_name=exchange.caller.project_name,
            params=request.path_params,
            query=query,
            path=request.url.path,
            exchange=exchange,
            _body=document,
            _idempotency=keyed,
        )


class Service:
    """The ASGI app of a route group: routes, the headers of every answer, one log line, the catch-all."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._router = Router(routes, redirect_slashes=False, default=_no_route)

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        exchange = _exchange(scope)
        scope["exchange"] = exchange
        status = 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = [(name.lower().encode(), value.encode()) for name, value in _headers(exchange).items()]
                message["headers"] = [*message["headers"], *added]
            elif scope["method"] == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        try:
            await self._router(scope, receive, send_with_headers)
        except ApiError as error:
            await _error_response(error, exchange)(scope, receive, send_with_headers)
        except Unavailable:
            unavailable = ApiError("service_unavailable", headers={"Retry-After": "1"})
            await _error_response(unavailable, exchange)(scope, receive, send_with_headers)
        except Exception:
            log.logger().exception("internal error", extra={"request_id": exchange.request_id})
            await _error_response(ApiError("internal_error"), exchange)(scope, receive, send_with_headers)
        _log(scope, exchange, status)


def service(*routes: Route) -> Service:
    """The app of a route group."""
    return Service(routes)


def lambda_handler(app: Service) -> Mangum:
    """The Lambda handler of an app, for API Gateway proxy events; runs on its thread's event loop."""
    return Mangum(app, lifespan="off")


async def _no_route(scope: ASGIScope, receive: Receive, send: Send) -> None:
    raise ApiError("route_not_found", f"No endpoint at {scope['path'][:200]}.")


def _exchange(scope: ASGIScope) -> Exchange:
    event = scope.get("aws.event", {})
    # What stands before the path in the gateway's own view of it is the stage, or a base path mapping.
    full, path = event.get("requestContext", {}).get("path") or scope["path"], event.get("path") or scope["path"]
    prefix = full.removesuffix(path) if full != path else ""
    headers = dict(scope["headers"])
    host = headers.get(b"host", b"localhost").decode("latin-1")
    return Exchange(
        request_id=ids.new("req_"),
        started=time.perf_counter(),
        seconds=_seconds_allowed(scope.get("aws.context")),
        base_url=f"{scope['scheme']}://{host}{prefix}",
        prefix=prefix,
    )


def _seconds_allowed(context: Any) -> float:
    """The time that the function has for the request."""
    return math.inf if context is None else context.get_remaining_time_in_millis() / clock.SECOND


def _api_key(request: Request) -> str:
    scheme, _, key = request.headers.get("Authorization", "").strip().partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise ApiError("api_key_missing", headers={"WWW-Authenticate": "Bearer"})
    return key.strip()


def _check_revision(request: Request, exchange: Exchange) -> None:
    asked = request.headers.get("Service-Version")
    if asked is None:
        return
    if asked not in revisions.REVISIONS:
        known = ", ".join(revisions.REVISIONS)
        raise ApiError("api_version_invalid", f"Known revisions: {known}.", param="Service-Version")
    exchange.revision = asked


def _check_query(request: Request, known: frozenset[str]) -> None:
    taken = known if request.method in ("GET", "HEAD") else frozenset[str]()
    for name in request.query_params:
        if name not in taken:
            raise fields.unknown(name, name, sorted(taken))


def _document(request: Request, body: bytes, action: bool) -> Mapping[str, Any]:
    """The body as a JSON object. Raises ApiError."""
    if len(body) > MOST_BYTES:
        raise ApiError("request_too_large")
    if not body:
        if action:
            return {}
        raise ApiError("invalid_json", "The body is empty; send one JSON object.")
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" or request.headers.get("Content-Encoding", "identity") != "identity":
        raise ApiError("unsupported_media_type")
    try:
        document = json.loads(body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
        # Lone surrogates and numbers beyond a double parse, but are no JSON that could be given back.
        fields.canonical(document).encode()
    except (ValueError, RecursionError) as error:
        raise ApiError("invalid_json") from error
    if not isinstance(document, dict):
        raise ApiError("invalid_json", "The body must be one JSON object.")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _rate_limited(limited: projects.Limited) -> ApiError:
    headers = {"Retry-After": str(limited.resets_in), "Service-Rate-Limited-Reason": limited.reason}
    return ApiError("rate_limit_exceeded", headers=headers)


def _headers(exchange: Exchange) -> dict[str, str]:
    """The headers of every answer (contract 1)."""
    found = {
        "Service-Request-Id": exchange.request_id,
        "Service-Version": exchange.revision,
        "Cache-Control": "no-store",
    }
    caller = exchange.caller
    if caller is not None:
        found["RateLimit-Policy"] = _POLICY
        second, minute = max(caller.left_in_second, 0), max(caller.left_in_minute, 0)
        if second <= minute:
            found["RateLimit"] = f'"second";r={second};t=1'
        else:
            found["RateLimit"] = f'"minute";r={minute};t={caller.minute_resets_in}'
    return found


def _error_body(error: ApiError, exchange: Exchange) -> str:
    body = {"type": error.type, "code": error.code, "message": error.message}
    body |= {"param": error.param} if error.param is not None else {}
    body |= error.extra
    body |= {"request_id": exchange.request_id, "doc_url": f"{exchange.base_url}/docs/errors#{error.code}"}
    return fields.compact({"error": body})


def _error_response(error: ApiError, exchange: Exchange) -> Response:
    exchange.code = error.code
    retry = error.code in RETRYABLE
    retry |= error.code == "internal_error" and not exchange.committed
    retry |= error.code == "agent_timeout" and exchange.idempotent
    headers = {"Service-Should-Retry": "true" if retry else "false"} | error.headers
    if "Location" in headers:
        headers["Location"] = exchange.prefix + headers["Location"]
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return _json(error.status, _error_body(error, exchange), headers)


def _replay_response(saved: idempotency.Saved, exchange: Exchange) -> Response:
    headers = {"Idempotent-Replayed": "true", "Original-Request": saved.request}
    headers |= {"Location": exchange.prefix + saved.location} if saved.location else {}
    body = saved.body
    if saved.status >= 400:
        document = json.loads(body)
        document["error"]["request_id"] = exchange.request_id
        body = fields.compact(document)
        headers["Service-Should-Retry"] = "false"
    return _json(saved.status, body, headers)


def _json(status: int, body: str, headers: Mapping[str, str]) -> Response:
    return Response(body.encode(), status, headers, media_type="application/json")


def _log(scope: ASGIScope, exchange: Exchange, status: int) -> None:
    caller = exchange.caller
    extra = {
        "request_id": exchange.request_id,
        # The same line of the gateway's access log, which does not know our id.
        "gateway_request_id": scope.get("aws.event", {}).get("requestContext", {}).get("requestId"),
        "method": scope["method"],
        "route": exchange.route,
        "status": status,
        "code": exchange.code,
        "project_id": caller.scope.project_id if caller else None,
        "livemode": caller.scope.livemode if caller else None,
        "duration_ms": round((time.perf_counter() - exchange.started) * 1000, 1),
    }
    log.logger().info("request", extra=extra)
