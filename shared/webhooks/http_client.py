"""The HTTP client that sends webhooks to untrusted receivers. Every exchange ends in time with an `AttemptOutcome`.

A receiver may be hostile: it may hang at any point, respond slowly or endlessly, redirect, resolve to our own network,
or not speak HTTP at all. `post` does not raise for any of these; it reports one of these errors (promises 9):

    error                meaning
    None                 a 2xx with a complete body, or with at least `BODY_READ` bytes of it
    timeout              the deadline passed, at any point of the exchange
    connection_refused   the connection was refused, reset or closed, or the address is unreachable
    dns_error            the name has no address
    tls_error            the TLS handshake failed, or the certificate is not trusted
    redirect             a 3xx, which is never followed
    http_error           any other status, or a response that is not HTTP (`status` is None then)
    url_blocked          the URL, or every address of its name, is not allowed; no connection was opened

A status other than 2xx decides the outcome, whatever happens to its body. A 2xx with a malformed body is a timeout,
connection_refused or http_error, depending on how aiohttp receives the bytes.
"""

import asyncio
import atexit
import codecs
import contextlib
import errno
import socket
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDict
from yarl import URL

from shared.core import limits
from shared.resources import fields
from shared.webhooks.deliveries.resource import DeliveryError
from shared.webhooks.urls import UrlRefused, WebhookUrl, read_url, refuse_address

DEADLINE_S = float(limits.RECEIVER_S)
"""Seconds for the whole exchange: DNS lookup, connect, TLS, request, response head and body (promises 9)."""

BODY_READ = 64 * 1024
"""The most bytes of a response body that are read."""
BODY_KEPT = 1024
"""The most bytes of a response body that are stored."""
READ_BUFFER = 16 * 1024
MAX_ADDRESSES = 8  # a name may have hundreds, and aiohttp tries addresses that refuse again

USER_AGENT = "AppointmentService-Webhooks/1.0"

T = TypeVar("T")

Lookup = Callable[[str], Sequence[str]]
"""From a name to its addresses, most preferred first. May block. Raises OSError for a name without addresses."""


@dataclass(frozen=True)
class AttemptOutcome:
    """The outcome of an attempt: of one POST to the endpoint."""

    status: int | None
    """The HTTP status. None without a complete response head."""
    error: DeliveryError | None
    """None for a success (the table above has the meaning of each error)."""
    body: str | None
    """The start of the response body: at most 1 KiB of UTF-8 without control characters. None without a head."""
    duration_ms: int
    """Milliseconds from the start of the exchange to its outcome."""


@dataclass
class _Connections:
    """The addresses that one exchange was refused, and the sockets that it opened."""

    allow_loopback: bool
    refused: list[str] = field(default_factory=list)
    sockets: list[socket.socket] = field(default_factory=list)


_connections: ContextVar[_Connections] = ContextVar("_connections")


class WebhookClient:
    """An aiohttp session on an event loop in a daemon thread, for any number of calling threads.

    A process needs one, which `post` creates. Tests create their own, with a `lookup` that replaces DNS and a `trust`
    that accepts their certificate.
    """

    def __init__(self, *, lookup: Lookup | None = None, trust: ssl.SSLContext | None = None) -> None:
        self._lookup = lookup or _system_lookup
        self._trust = trust or _system_trust()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="webhook-http", daemon=True)
        self._thread.start()
        self._session = self._run(self._open())

    def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        allow_loopback: bool,
        deadline_s: float = DEADLINE_S,
    ) -> AttemptOutcome:
        """POST `body` to `url` and wait for the outcome, at most `deadline_s` seconds."""
        started = time.monotonic()
        status: int | None = None
        data: bytes | None = None
        try:
            target = read_url(url, allow_loopback=allow_loopback)
        except UrlRefused:
            error: DeliveryError | None = DeliveryError.URL_BLOCKED
        else:
            connections = _Connections(allow_loopback)
            status, error, data = self._run(self._exchange(target, headers, body, connections, deadline_s))
        text = None if data is None else _to_text(data)
        return AttemptOutcome(status, error, text, round((time.monotonic() - started) * 1000))

    def close(self) -> None:
        """Cancel all exchanges and end the thread."""
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def leave(self) -> None:
        """At the exit of the process: abandon all exchanges without the warning of aiohttp."""
        self._session.detach()

    def _run(self, work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _open(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            ssl=self._trust,
            socket_factory=_guard,
            resolver=_Resolver(self._lookup),
            use_dns_cache=False,  # addresses are checked at each send
            # No connection is reused: its address was checked earlier, and a POST on a connection that the receiver
            # is closing would fail.
            force_close=True,
            limit=0,  # callers limit themselves; no exchange waits for another
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(),  # none: one deadline covers the exchange
            trust_env=False,
            auto_decompress=False,
            read_bufsize=READ_BUFFER,
        )

    async def _close(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._session.close()

    async def _exchange(
        self, url: WebhookUrl, headers: Mapping[str, str], body: bytes, connections: _Connections, deadline_s: float
    ) -> tuple[int | None, DeliveryError | None, bytes | None]:
        """The status, the error and the first bytes of the response body."""
        _connections.set(connections)
        request_headers = CIMultiDict(headers)
        request_headers.update({"Accept-Encoding": "identity", "User-Agent": USER_AGENT})
        status: int | None = None
        verdict: DeliveryError | None = None
        data = bytearray()
        limit = asyncio.timeout(deadline_s)
        try:
            async with limit:
                response = await self._session.post(
                    URL(str(url), encoded=True),
                    headers=request_headers,
                    data=body,
                    allow_redirects=False,
                )
                try:
                    # HTTP has no status below 100 (RFC 9110, section 15).
                    status = response.status if response.status >= 100 else None
                    verdict = _verdict(response.status)
                    async for chunk in response.content.iter_any():
                        data += chunk
                        if len(data) >= BODY_READ:
                            break
                finally:
                    response.close()
        except (aiohttp.ClientError, OSError) as failure:
            # The kernel's ETIMEDOUT is a TimeoutError too, so ask `limit` whether the deadline passed.
            verdict = verdict or (DeliveryError.TIMEOUT if limit.expired() else _why_failed(failure, connections))
        finally:
            # A closed transport waits for unsent bytes and the peer's TLS close. A receiver that does not read would
            # keep it open forever.
            for sock in connections.sockets:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        return status, verdict, None if status is None else bytes(data[: BODY_KEPT + 1])


class _Resolver(AbstractResolver):
    """Looks up each name in a daemon thread of its own.

    A few slow name servers would block all threads of asyncio's pool, and the exit of the process joins that pool.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        future: Future[Sequence[str]] = Future()
        future.set_running_or_notify_cancel()

        def look_up() -> None:
            try:
                future.set_result(self._lookup(host))
            except Exception as failure:  # noqa: BLE001  # raised where the addresses are awaited
                future.set_exception(failure)

        threading.Thread(target=look_up, name="webhook-lookup", daemon=True).start()
        addresses = (await asyncio.wrap_future(future))[:MAX_ADDRESSES]
        if not addresses:
            raise OSError(f"{host} has no address")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        pass


def _guard(address_info: aiohttp.AddrInfoType) -> socket.socket:
    """Create the socket for an address, literal or looked up. Raises OSError if the address is not allowed."""
    family, kind, protocol, _, address = address_info
    connections = _connections.get()
    refusal = refuse_address(str(address[0]), allow_loopback=connections.allow_loopback)
    if refusal is not None:
        connections.refused.append(refusal)
        raise PermissionError(errno.EACCES, refusal)
    sock = socket.socket(family, kind, protocol)
    connections.sockets.append(sock)
    return sock


def _system_lookup(name: str) -> list[str]:
    # These names are loopback (RFC 6761), but not every resolver supports them.
    host = "localhost" if name.endswith(".localhost") else name
    addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(address[0]) for *_, address in addresses]


def _system_trust() -> ssl.SSLContext:
    """The certificate authorities of the system, or those of certifi if the system has none."""
    paths = ssl.get_default_verify_paths()
    bundle = None
    if paths.cafile is None and not (paths.capath and any(Path(paths.capath).iterdir())):
        import certifi  # most systems do not need it

        bundle = certifi.where()
    context = ssl.create_default_context(cafile=bundle)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _verdict(status: int) -> DeliveryError | None:
    if 200 <= status <= 299:
        return None
    return DeliveryError.REDIRECT if 300 <= status <= 399 else DeliveryError.HTTP_ERROR


def _why_failed(failure: BaseException, connections: _Connections) -> DeliveryError:
    if connections.refused and not connections.sockets:
        return DeliveryError.URL_BLOCKED
    if isinstance(failure, aiohttp.ClientConnectorDNSError):
        return DeliveryError.DNS_ERROR
    if isinstance(failure, aiohttp.ClientResponseError):
        return DeliveryError.HTTP_ERROR
    cause: BaseException | None = failure
    while cause is not None:
        # An end of file during the handshake is a closed connection, although OpenSSL reports it.
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
            return DeliveryError.TLS_ERROR
        cause = cause.__cause__
    return DeliveryError.CONNECTION_REFUSED


def _to_text(data: bytes) -> str:
    """The first KiB as text, cut between characters. U+FFFD replaces undecodable bytes and control characters."""
    # The replacement can make the text longer, so it is cut again.
    text = _cut_decode(data)
    text = "".join("\ufffd" if fields.is_control(character) else character for character in text)
    return _cut_decode(text.encode())


def _cut_decode(data: bytes) -> str:
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data[:BODY_KEPT], len(data) <= BODY_KEPT)


_starting = threading.Lock()
_client: WebhookClient | None = None


def use(client: WebhookClient) -> None:
    """Use this client for all POSTs from now on, for tests."""
    global _client
    _client = client


def post(
    url: str, headers: Mapping[str, str], body: bytes, *, allow_loopback: bool, deadline_s: float = DEADLINE_S
) -> AttemptOutcome:
    """POST `body` to `url` and wait for the outcome, at most `deadline_s` seconds. Thread-safe; never raises."""
    global _client
    with _starting:
        if _client is None:
            _client = WebhookClient()
            atexit.register(_client.leave)
    return _client.post(url, headers, body, allow_loopback=allow_loopback, deadline_s=deadline_s)
