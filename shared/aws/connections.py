"""Kept connections to one endpoint of AWS: HTTP/1.1 over TLS, or plain HTTP for endpoints on loopback.

A connection carries one request at a time and is kept for the next one. Threads share the connections of an endpoint.
AWS states the length of every response, so a response that a broken connection cuts off is never taken for a whole one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from shared.core import clock

CONNECT_S = 2.0
"""Seconds in which a connection must be open, its TLS handshake included."""
RESPONSE_S = 6.0
"""Seconds in which a request must be sent and its response received."""
KEPT_MS = clock.MINUTE
"""How long a connection is kept without a request. After hours in which Lambda froze the process, a connection may have
been dropped without a word, and a request on it would wait for a response until it times out."""

_MOST_KEPT = 128
_MOST_HEAD = 64 * 1024  # bytes of a response before its body
_READ = 64 * 1024


class ConnectionFailed(Exception):
    """A request got no response. `reason` says why; AWS may have received the request unless it is `connect_…`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Closed(ConnectionFailed):
    """The peer closed the connection. `silent`: before the first byte of a response."""

    def __init__(self, silent: bool) -> None:
        super().__init__("connection_closed")
        self.silent = silent


@dataclass(frozen=True)
class HttpResponse:
    """An HTTP response. The names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    resent: bool = False
    """Whether the request was sent twice: AWS may have received it on the first connection, too."""


class Connections:
    """The connections to the endpoint with this URL. `tls` makes the TLS context at the first connection."""

    def __init__(
        self,
        url: str,
        tls: Callable[[], ssl.SSLContext],
        *,
        connect_seconds: float = CONNECT_S,
        response_seconds: float = RESPONSE_S,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not the URL of an endpoint: {url}")
        self._tls = tls if parts.scheme == "https" else None
        self._address = (parts.hostname, parts.port or (443 if self._tls else 80))
        self._connect_seconds = connect_seconds
        self._response_seconds = response_seconds
        self._idle: deque[tuple[socket.socket, clock.Instant]] = deque()
        """With the instant of their last response, by the wall clock: others may stand still in a frozen process."""

    def exchange(self, request: bytes) -> HttpResponse:
        """Send a whole request and return the response. Raises ConnectionFailed."""
        return self.send(request).response()

    def send(self, request: bytes) -> Exchange:
        """Send a whole request; the exchange reads the response. Raises ConnectionFailed if it cannot connect."""
        kept = self._take()
        return Exchange(self, request, kept or self.connect(), kept is not None, self._response_seconds)

    def warm(self) -> None:
        """Make the TLS context, which takes longer than a request."""
        if self._tls is not None:
            self._tls()

    def close(self) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            self._idle.pop()[0].close()

    def _take(self) -> socket.socket | None:
        """A kept connection that is still open; None if there is none."""
        while True:
            try:
                connection, used_at = self._idle.pop()
            except IndexError:
                return None
            # Between two requests nothing is received, so a connection with something to read is closed or broken.
            poll = select.poll()
            poll.register(connection, select.POLLIN)
            if 0 <= clock.now() - used_at < KEPT_MS and not poll.poll(0):
                return connection
            connection.close()

    def connect(self) -> socket.socket:
        """A new connection. Raises ConnectionFailed."""
        deadline = time.monotonic() + self._connect_seconds
        try:
            connection = _connected(self._address, deadline)
        except TimeoutError:
            raise ConnectionFailed("connect_timeout") from None
        except OSError:
            raise ConnectionFailed("connect_failed") from None
        if self._tls is None:
            return connection
        try:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            return self._tls().wrap_socket(connection, server_hostname=self._address[0])
        except TimeoutError:
            connection.close()
            raise ConnectionFailed("connect_timeout") from None
        except OSError as error:
            connection.close()
            untrusted = isinstance(error, ssl.SSLCertVerificationError)
            raise ConnectionFailed("connect_untrusted" if untrusted else "connect_failed") from None
        except BaseException:
            connection.close()
            raise

    def keep(self, connection: socket.socket) -> None:
        """Keep a connection for the next request."""
        if len(self._idle) < _MOST_KEPT:
            self._idle.append((connection, clock.now()))
        else:
            connection.close()


class Exchange:
    """A request that is sent, on a connection that is its own until the response is read.

    If a kept connection turns out to be closed before a byte of the response arrives, the request is sent again on a
    new connection: AWS closes connections that are idle, and this may cross the request.
    """

    def __init__(
        self, connections: Connections, request: bytes, connection: socket.socket, kept: bool, seconds: float
    ) -> None:
        self._connections = connections
        self._request = request
        self._kept = kept
        self._seconds = seconds
        self._failure: OSError | None = None
        self._send(connection)

    def response(self) -> HttpResponse:
        """The response. Raises ConnectionFailed."""
        try:
            return self._read()
        except _Closed as closed:
            if not (self._kept and closed.silent):
                raise
            try:
                connection = self._connections.connect()
            except ConnectionFailed:
                raise closed from None
        self._send(connection)
        return dataclasses.replace(self._read(), resent=True)

    def end(self) -> None:
        """End an exchange whose response nobody needs. If it has not arrived, the connection is closed."""
        self._reading.without_waiting()
        with contextlib.suppress(ConnectionFailed):
            self._read()

    def _send(self, connection: socket.socket) -> None:
        self._connection = connection
        self._reading = _Reading(connection, time.monotonic() + self._seconds)
        try:
            connection.settimeout(self._seconds)
            connection.sendall(self._request)
        except OSError as error:
            self._failure = error

    def _read(self) -> HttpResponse:
        failure, self._failure = self._failure, None
        keep = False
        try:
            if failure is not None:
                raise failure
            response, keep = self._reading.response()
        except TimeoutError:
            raise ConnectionFailed("response_timeout") from None
        except OSError:
            raise _Closed(silent=self._reading.is_silent) from None
        finally:
            if keep:
                self._connections.keep(self._connection)
            else:
                self._connection.close()
        return response


def _connected(address: tuple[str, int], deadline: float) -> socket.socket:
    """A connection to the first address of the host that accepts one. Raises OSError."""
    failure: OSError = OSError("the host has no address")
    for family, kind, protocol, _, found in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            connection.connect(found)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError as error:
            connection.close()
            failure = error
        else:
            return connection
    raise failure


class _Reading:
    """Reads one response before a deadline."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._waits = True
        self._unread = b""
        self.is_silent = True
        """Whether no byte has arrived."""

    def without_waiting(self) -> None:
        """From now on, raise an OSError instead of waiting for a byte."""
        self._waits = False

    def response(self) -> tuple[HttpResponse, bool]:
        """The response, and whether the connection may be kept. Raises ConnectionFailed or OSError."""
        status, headers, keep = self._head()
        while status < 200:  # an interim response
            status, headers, keep = self._head()
        if status in (204, 304):
            body = b""
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            body = self._chunks()
        elif headers.get("content-length", "").isdecimal():
            body = self._exactly(int(headers["content-length"]))
        else:
            # Its end would be the end of the connection, so that a broken one could not be told from a whole one.
            raise ConnectionFailed("response_malformed")
        return HttpResponse(status, headers, body), keep and not self._unread

    def _head(self) -> tuple[int, dict[str, str], bool]:
        """The status, the headers, and whether the server keeps the connection."""
        head = self._until(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdecimal() or rest[3:4] not in ("", " "):
            raise ConnectionFailed("response_malformed")
        headers = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise ConnectionFailed("response_malformed")
            headers[name.lower()] = value.strip()
        connection = headers.get("connection", "").lower()
        keep = connection != "close" if version == "HTTP/1.1" else connection == "keep-alive"
        return int(rest[:3]), headers, keep

    def _chunks(self) -> bytes:
        parts = []
        while True:
            size = self._until(b"\r\n").partition(b";")[0].strip()
            try:
                length = int(size, 16)
            except ValueError:
                raise ConnectionFailed("response_malformed") from None
            if length == 0:
                break
            parts.append(self._exactly(length))
            if self._exactly(2) != b"\r\n":
                raise ConnectionFailed("response_malformed")
        while self._until(b"\r\n"):
            pass  # trailers
        return b"".join(parts)

    def _until(self, end: bytes) -> bytes:
        """What comes before `end`, which is consumed too."""
        while end not in self._unread:
            if len(self._unread) > _MOST_HEAD:
                raise ConnectionFailed("response_malformed")
            self._unread += self._more()
        found, _, self._unread = self._unread.partition(end)
        return found

    def _exactly(self, length: int) -> bytes:
        if len(self._unread) < length:
            parts, missing = [self._unread], length - len(self._unread)
            while missing > 0:
                parts.append(self._more())
                missing -= len(parts[-1])
            self._unread = b"".join(parts)
        found, self._unread = self._unread[:length], self._unread[length:]
        return found

    def _more(self) -> bytes:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left if self._waits else 0)
        received = self._connection.recv(_READ)
        if not received:
            raise _Closed(silent=self.is_silent)
        self.is_silent = False
        return received


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """A TLS context that trusts the certificates of a file; those of certifi if it is None."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is None:
        import certifi

        ca_file = certifi.where()
    context.load_verify_locations(ca_file)
    return context
