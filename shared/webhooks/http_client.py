"""Sends one webhook to an address that a stranger chose, and always comes back in time with an `Outcome`.

The receiver may be hostile: it may hang at any point, drip, flood, redirect, resolve to our own network or
answer no HTTP at all. `post` never raises for any of that. What it reports:

    error                what happened
    None                 2xx, and its body ended as announced or passed `BODY_READ`
    timeout              `deadline` passed, wherever the exchange stood
    connection_refused   refused, unreachable, reset or closed, be it in the body of a 2xx
    dns_error            the name has no address
    tls_error            handshake failed or the certificate is not to be trusted
    redirect             3xx, never followed
    http_error           any other status, or an answer whose head is not HTTP (`status` is None then)
    url_blocked          the URL, or every address its name has, is none we send to; nothing was dialled

A status that is not 2xx is the verdict, whatever becomes of its body. A 2xx whose chunks are garbled is one of
timeout, connection_refused and http_error: aiohttp tells them apart by how the bytes were cut on their way.
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
import unicodedata
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

from shared.webhooks.urls import UrlRefused, WebhookUrl, read_url, refuse_address, refuse_url

__all__ = ["DEADLINE", "Client", "Outcome", "post", "refuse_url"]

DEADLINE = 15.0
"""Seconds for the whole exchange: name lookup, connect, TLS, sending, head and body (contract 9)."""

BODY_READ = 64 * 1024
BODY_KEPT = 1024
READ_BUFFER = 16 * 1024
ADDRESSES_TRIED = 8  # a name may have hundreds, and aiohttp comes back to those that refuse

USER_AGENT = "AppointmentService-Webhooks/1.0"

T = TypeVar("T")

Lookup = Callable[[str], Sequence[str]]
"""Name to addresses, most preferred first; may block; raises OSError for a name that has none."""


@dataclass(frozen=True)
class Outcome:
    """What became of one POST."""

    status: int | None
    """None if no complete response head arrived."""
    error: str | None
    """None for success, else a code of the table above."""
    body: str | None
    """The start of the answer, at most 1 KiB of UTF-8 without control characters; None if no head arrived."""
    duration_ms: int


@dataclass
class _Dial:
    """One exchange as the guard sees it."""

    allow_loopback: bool
    refused: list[str] = field(default_factory=list)
    sockets: list[socket.socket] = field(default_factory=list)


_dial: ContextVar[_Dial] = ContextVar("_dial")


class Client:
    """An event loop in a daemon thread with one aiohttp session, for any number of calling threads.

    A process needs one, which the function `post` starts and keeps. Tests make their own, with a `lookup`
    that answers as DNS would and a `trust` that knows their certificate.
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
        deadline: float = DEADLINE,
    ) -> Outcome:
        """POST `body` to `url` and wait for the outcome, `deadline` seconds at most."""
        started = time.monotonic()
        status: int | None = None
        answer: bytes | None = None
        try:
            target = read_url(url, allow_loopback=allow_loopback)
        except UrlRefused:
            error: str | None = "url_blocked"
        else:
            dial = _Dial(allow_loopback)
            status, error, answer = self._run(self._exchange(target, headers, body, dial, deadline))
        kept = None if answer is None else _readable(answer)
        return Outcome(status, error, kept, round((time.monotonic() - started) * 1000))

    def close(self) -> None:
        """End the thread and whatever is under way."""
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def leave(self) -> None:
        """At the end of a process: leave behind whatever is under way, without aiohttp's complaint about it."""
        self._session.detach()

    def _run(self, work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _open(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            ssl=self._trust,
            socket_factory=_guard,
            resolver=_Resolver(self._lookup),
            use_dns_cache=False,  # a name is judged at each send
            # A kept connection goes to an address judged some time ago, and a POST on one that its receiver
            # is just closing would be a failure of our making.
            force_close=True,
            limit=0,  # callers bound themselves; nobody waits here for somebody else's receiver
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(),  # none of its own: one deadline covers all
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
        self, url: WebhookUrl, headers: Mapping[str, str], body: bytes, dial: _Dial, deadline: float
    ) -> tuple[int | None, str | None, bytes | None]:
        """Status, error and the first bytes of the answer."""
        _dial.set(dial)
        sent = CIMultiDict(headers)
        sent.update({"Accept-Encoding": "identity", "User-Agent": USER_AGENT})
        status: int | None = None
        verdict: str | None = None
        answer = bytearray()
        limit = asyncio.timeout(deadline)
        try:
            async with limit:
                response = await self._session.post(
                    URL(str(url), encoded=True),
                    headers=sent,
                    data=body,
                    allow_redirects=False,
                )
                try:
                    status = response.status
                    verdict = _verdict(status)
                    async for chunk in response.content.iter_any():
                        answer += chunk
                        if len(answer) >= BODY_READ:
                            break
                finally:
                    response.close()
        except (aiohttp.ClientError, OSError) as failure:
            # A kernel's own ETIMEDOUT is a TimeoutError as well, hence the question to `limit`.
            verdict = verdict or ("timeout" if limit.expired() else _why_failed(failure, dial))
        finally:
            # A closed transport still waits for unsent bytes or for the peer's TLS goodbye; a receiver that
            # does not read would keep it for ever.
            for dialled in dial.sockets:
                with contextlib.suppress(OSError):
                    dialled.shutdown(socket.SHUT_RDWR)
        return status, verdict, None if status is None else bytes(answer[: BODY_KEPT + 1])


class _Resolver(AbstractResolver):
    """Looks up each name in a daemon thread of its own.

    asyncio's pool has few threads, which a few slow name servers would take from everybody; exit joins it.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found: Future[Sequence[str]] = Future()
        found.set_running_or_notify_cancel()

        def look_up() -> None:
            try:
                found.set_result(self._lookup(host))
            except Exception as failure:
                found.set_exception(failure)

        threading.Thread(target=look_up, name="webhook-lookup", daemon=True).start()
        addresses = (await asyncio.wrap_future(found))[:ADDRESSES_TRIED]
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
    """The socket for an address about to be dialled, literal or looked up; OSError if it must not be."""
    family, kind, protocol, _, address = address_info
    dial = _dial.get()
    refusal = refuse_address(str(address[0]), allow_loopback=dial.allow_loopback)
    if refusal is not None:
        dial.refused.append(refusal)
        raise PermissionError(errno.EACCES, refusal)
    dialled = socket.socket(family, kind, protocol)
    dial.sockets.append(dialled)
    return dialled


def _system_lookup(name: str) -> list[str]:
    # RFC 6761: these are loopback, and not every system's resolver knows it.
    host = "localhost" if name.endswith(".localhost") else name
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(address[0]) for *_, address in found]


def _system_trust() -> ssl.SSLContext:
    """The system's certificate authorities, or certifi's where the system brings none."""
    paths = ssl.get_default_verify_paths()
    bundle = None
    if paths.cafile is None and not (paths.capath and any(Path(paths.capath).iterdir())):
        import certifi  # most systems need none

        bundle = certifi.where()
    context = ssl.create_default_context(cafile=bundle)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _verdict(status: int) -> str | None:
    if 200 <= status <= 299:
        return None
    return "redirect" if 300 <= status <= 399 else "http_error"


def _why_failed(failure: BaseException, dial: _Dial) -> str:
    if dial.refused and not dial.sockets:
        return "url_blocked"
    if isinstance(failure, aiohttp.ClientConnectorDNSError):
        return "dns_error"
    if isinstance(failure, aiohttp.ClientResponseError):
        return "http_error"
    cause: BaseException | None = failure
    while cause is not None:
        # An end of file in mid-handshake is a closed connection, though OpenSSL reports it.
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
            return "tls_error"
        cause = cause.__cause__
    return "connection_refused"


def _readable(answer: bytes) -> str:
    """The first KiB as text: cut between characters, undecodable bytes and controls replaced by U+FFFD."""
    # Replacing can make it longer, hence the second cut.
    text = _cut_decode(answer)
    text = "".join(
        "\ufffd" if unicodedata.category(character) == "Cc" and character not in "\t\n\r" else character
        for character in text
    )
    return _cut_decode(text.encode())


def _cut_decode(data: bytes) -> str:
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data[:BODY_KEPT], len(data) <= BODY_KEPT)


_starting = threading.Lock()
_client: Client | None = None


def post(
    url: str, headers: Mapping[str, str], body: bytes, *, allow_loopback: bool, deadline: float = DEADLINE
) -> Outcome:
    """POST `body` to `url`; blocks until the outcome is known. Call it from as many threads as you like."""
    global _client
    with _starting:
        if _client is None:
            _client = Client()
            atexit.register(_client.leave)
    return _client.post(url, headers, body, allow_loopback=allow_loopback, deadline=deadline)
