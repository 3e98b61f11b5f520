"""The HTTP server on loopback, which takes the place of API Gateway in front of the functions.

The event loop only reads and writes. Each call of a function runs in a thread, so slow requests do not block others.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from collections.abc import Callable
from typing import Any

from aiohttp import hdrs, web, web_protocol
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong
from aiohttp.http_parser import HttpRequestParserPy, RawRequestMessage
from multidict import CIMultiDict

from infra.local import lambdas, proxy
from infra.local.lambdas import Lambdas
from infra.local.routes import Routes
from infra.topology import Function

THREADS = 128
MAX_BODY = 10 * 1024 * 1024
"""Bytes: API Gateway's limit."""
MAX_HEAD = 10_240
"""Bytes of the request line and the header values together: API Gateway's limit."""
HEAD_TOO_LARGE = f"The request line and the header values have more than {MAX_HEAD:,} bytes together. Shorten them."
MAX_FIELDS = 128
"""Header fields of a request. API Gateway documents no such limit."""
TOO_MANY_FIELDS = f"The request has more than {MAX_FIELDS} header fields. Send fewer."
PATIENCE_S = 1.5
"""Seconds to wait for requests in progress when the runner stops."""

log = logging.getLogger(__name__)


class Gateway:
    """The HTTP server, at `base_url`. It calls `committed` before it responds to a request that may have written."""

    def __init__(
        self, listening: socket.socket, routes: Routes, functions: Lambdas, committed: Callable[[], None]
    ) -> None:
        self._socket = listening
        self._port: int = listening.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self._port}"
        self._routes = routes
        self._functions = functions
        self._committed = committed
        self._threads = lambdas.threads("http", THREADS)
        self._runner: web.ServerRunner | None = None

    async def start(self) -> None:
        """Start to serve requests."""
        self._runner = web.ServerRunner(_Server(self), shutdown_timeout=PATIENCE_S)
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket, backlog=512).start()

    async def stop(self) -> None:
        """Accept no more requests, and wait up to `PATIENCE` seconds for those in progress."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Call the function for a request, and return its response."""
        request_id = str(uuid.uuid4())
        if _head_size(request) > MAX_HEAD:
            return self.error("DEFAULT_4XX", request_id, status=400, message=HEAD_TOO_LARGE)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return self.error("REQUEST_TOO_LARGE", request_id)
        asked = proxy.Request(
            method=request.method,
            target=request.raw_path,
            headers=[(_text(name), _text(value)) for name, value in request.raw_headers],
            body=body,
            source_ip=request.remote or "127.0.0.1",
            port=self._port,
        )
        match = self._routes.match(asked.method, asked.path)
        if match is None:
            return self.error("RESOURCE_NOT_FOUND", request_id)
        event = proxy.event(asked, match, request_id)
        call = asyncio.get_running_loop().run_in_executor(self._threads, self._call, match.function, event)
        try:
            result = await asyncio.wait_for(asyncio.shield(call), match.function.timeout_s)
        except TimeoutError:
            call.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            return self.error("INTEGRATION_TIMEOUT", request_id)
        except Exception:  # noqa: BLE001  # `Lambdas.call` has logged it
            return self.error("INTEGRATION_FAILURE", request_id)
        try:
            return _http(proxy.response(result))
        except proxy.BadResult:
            log.exception("%s, request %s", match.function.name, request_id)
            return self.error("INTEGRATION_FAILURE", request_id)

    def _call(self, function: Function, event: proxy.Event) -> Any:
        result = self._functions.call(function, event)
        if event["httpMethod"] not in lambdas.READING:
            self._committed()
        return result

    def error(
        self, kind: str, request_id: str, *, status: int | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """An error response of the gateway itself."""
        return _http(proxy.gateway_error(kind, request_id, self.base_url, status=status, message=message))


class _Server(web.Server):
    def __init__(self, gateway: Gateway) -> None:
        # aiohttp's C parser rejects unknown methods, but the functions must respond to them.
        web_protocol.HttpRequestParser = HttpRequestParserPy  # type: ignore[attr-defined]
        super().__init__(
            gateway.answer,
            request_factory=self._request,
            access_log=None,
            auto_decompress=False,
            max_line_size=MAX_HEAD,
            max_field_size=MAX_HEAD,
            max_headers=MAX_FIELDS + 2,  # with the request line and the empty line
        )
        self._gateway = gateway

    def __call__(self) -> web.RequestHandler:
        return _Connection(self._gateway, self, loop=self._loop, **self._kwargs)

    def _request(
        self, message: RawRequestMessage, payload: Any, protocol: Any, writer: Any, task: asyncio.Task[None]
    ) -> web.BaseRequest:
        if message.method == hdrs.METH_CONNECT:
            # There is no tunnel, so neither a body nor another request follows on this connection.
            payload.feed_eof()
            message = message._replace(should_close=True)
        return web.BaseRequest(message, payload, protocol, writer, task, self._loop, client_max_size=MAX_BODY)


class _Connection(web.RequestHandler):
    def __init__(self, gateway: Gateway, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._gateway = gateway

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The response to invalid HTTP, or to a request above a limit. Closes the connection."""
        if isinstance(exc, web_protocol.RequestPayloadError) and isinstance(exc.__cause__, BadHttpMessage):
            status, message = 400, exc.__cause__.message
        super().handle_error(request, status, exc, message)
        kind, text = "DEFAULT_5XX", None
        if status < 500:
            kind, text = "DEFAULT_4XX", f"The request is not valid HTTP: {message}"
            if isinstance(exc, LineTooLong):
                text = HEAD_TOO_LARGE
            elif message == "Too many headers received":
                text = TOO_MANY_FIELDS
        response = self._gateway.error(kind, str(uuid.uuid4()), status=status, message=text)
        response.force_close()
        return response


def _head_size(request: web.BaseRequest) -> int:
    """The bytes that count towards `MAX_HEAD`."""
    line = f"{request.method} {request.raw_path} HTTP/1.1".encode(errors="surrogateescape")
    return len(line) + sum(len(value) for _, value in request.raw_headers)


def _http(answer: proxy.Response) -> web.Response:
    headers = CIMultiDict(answer.headers)
    headers.setdefault("Content-Type", "application/json")
    return web.Response(status=answer.status, headers=headers, body=answer.body)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
