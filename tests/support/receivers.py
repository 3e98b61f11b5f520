"""Webhook receivers on real loopback sockets: friendly, and as hostile as they come.

    with Receiver(answer(500), answer(200)) as receiver:  # n-th connection, n-th behaviour; the last repeats
        ...  # deliver to receiver.url
        first, second = receiver.wait_for(2)
        assert first.body == second.body

A behaviour is a function of one `Exchange`; write your own where those here do not do. No thread, socket or
wait outlives the `with` block, and a mistake in a behaviour is raised at its end.
"""

import contextlib
import datetime
import ipaddress
import itertools
import socket
import ssl
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PATIENCE = 30.0
"""Seconds after which `wait_for` gives up; no test passes by waiting this long."""


@dataclass(frozen=True)
class Request:
    """A request as it arrived."""

    method: str
    target: str
    headers: Mapping[str, str]
    """Names in lower case; of a repeated one, the values joined by commas."""
    body: bytes


@dataclass
class Exchange:
    """One accepted connection."""

    connection: socket.socket
    closing: threading.Event
    """Set when the receiver shuts down: what hangs waits for this."""
    arrived: Callable[[Request], None]
    sent: int = 0
    _buffer: bytes = field(default=b"", repr=False)
    _unread: Request | None = field(default=None, repr=False)

    def put_back(self, request: Request) -> None:
        """Let the next `read_request` return this request again."""
        self._unread = request

    def read_request(self) -> Request:
        if self._unread is not None:
            request, self._unread = self._unread, None
            return request
        head = self._read_until(b"\r\n\r\n").decode("latin-1")
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        headers: dict[str, str] = {}
        for name, value in (line.split(":", 1) for line in lines if line):
            key = name.lower()
            headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
        request = Request(method, target, headers, self._read_exactly(int(headers.get("content-length", "0"))))
        self.arrived(request)
        return request

    def send(self, data: bytes) -> None:
        for start in range(0, len(data), 65536):
            chunk = data[start : start + 65536]
            self.connection.sendall(chunk)
            self.sent += len(chunk)

    def hang(self) -> None:
        """Keep the connection open and silent until the receiver shuts down."""
        self.closing.wait()

    def reset(self) -> None:
        """End the connection by RST instead of FIN."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _read_until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._receive()
        found, self._buffer = self._buffer.split(mark, 1)
        return found

    def _read_exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._receive()
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found

    def _receive(self) -> None:
        data = self.connection.recv(65536)
        if not data:
            raise ConnectionError("the sender went away")
        self._buffer += data


Behaviour = Callable[[Exchange], None]


class Receiver:
    """A server on a free loopback port; see the module's docstring."""

    def __init__(self, *behaviours: Behaviour, tls: "Certificate | None" = None, address: str = "127.0.0.1") -> None:
        self._behaviours = behaviours or (answer(200),)
        self._tls = tls.server_context() if tls else None
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._requests: list[Request] = []
        self._exchanges: list[Exchange] = []
        self._threads: list[threading.Thread] = []
        self._failures: list[Exception] = []
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.bind((address, 0))
        self._listener.listen(256)
        self.port: int = self._listener.getsockname()[1]
        host = f"[{address}]" if ":" in address else address
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}/hook"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        _shut(self._listener)
        with self._changed:
            exchanges = list(self._exchanges)
        for exchange in exchanges:
            _shut(exchange.connection)
        # The accepting thread comes first and starts no other once it has ended.
        for thread in self._threads:
            thread.join()
        if self._failures and error is None:
            raise self._failures[0]

    @property
    def requests(self) -> list[Request]:
        """The complete requests so far, in order of arrival."""
        with self._changed:
            return list(self._requests)

    @property
    def connections(self) -> int:
        """How many connections were accepted so far."""
        with self._changed:
            return len(self._exchanges)

    @property
    def bytes_sent(self) -> int:
        """How much was written to all connections so far (to the kernel, not to the other side)."""
        with self._changed:
            return sum(exchange.sent for exchange in self._exchanges)

    def wait_for(self, count: int) -> list[Request]:
        """The first `count` requests, once they have arrived."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._requests) >= count, PATIENCE):
                raise TimeoutError(f"{len(self._requests)} of {count} requests arrived")
            return self._requests[:count]

    def wait_for_connections(self, count: int) -> None:
        """Return once `count` connections were accepted, whatever came over them."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._exchanges) >= count, PATIENCE):
                raise TimeoutError(f"{len(self._exchanges)} of {count} connections arrived")

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        for number in itertools.count():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            behaviour = self._behaviours[min(number, len(self._behaviours) - 1)]
            exchange = Exchange(connection, self._closing, self._arrived)
            with self._changed:
                self._exchanges.append(exchange)
                self._changed.notify_all()
            if self._closing.is_set():
                connection.close()
                return
            self._start(lambda exchange=exchange, behaviour=behaviour: self._serve(exchange, behaviour))  # type: ignore[misc]

    def _serve(self, exchange: Exchange, behaviour: Behaviour) -> None:
        try:
            if self._tls is not None:
                exchange.connection = self._tls.wrap_socket(exchange.connection, server_side=True)
            behaviour(exchange)
        except OSError:
            pass  # the sender left, or the test is over
        except Exception as failure:
            self._failures.append(failure)
        finally:
            _end(exchange.connection)

    def _arrived(self, request: Request) -> None:
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()


def answer(status: int = 200, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Behaviour:
    """Take the request and answer it properly."""
    return raw(_head(status, {"Content-Length": str(len(body)), **(headers or {})}) + body)


class Obedient:
    """A behaviour that a test changes as it goes; at first it responds with this status."""

    def __init__(self, status: int) -> None:
        self.behaviour: Behaviour = answer(status)

    def __call__(self, exchange: Exchange) -> None:
        self.behaviour(exchange)


def redirect(location: str, status: int = 302) -> Behaviour:
    return answer(status, headers={"Location": location})


def raw(data: bytes) -> Behaviour:
    """Take the request, answer with exactly these bytes, and close."""

    def behave(exchange: Exchange) -> None:
        exchange.read_request()
        exchange.send(data)

    return behave


def hang_after_accept(exchange: Exchange) -> None:
    """Read nothing, say nothing."""
    exchange.hang()


def hang_after_request(exchange: Exchange) -> None:
    exchange.read_request()
    exchange.hang()


def hang_after_head(exchange: Exchange, status: int = 200) -> None:
    """Announce ten bytes, send three."""
    exchange.read_request()
    exchange.send(_head(status, {"Content-Length": "10"}) + b"abc")
    exchange.hang()


def drip(data: bytes, *, every: float = 1.0) -> Behaviour:
    """Send a byte every so many seconds: a head, or a body if a head comes with `at_once`."""

    def behave(exchange: Exchange) -> None:
        exchange.read_request()
        for byte in data:
            exchange.send(bytes([byte]))
            if exchange.closing.wait(every):
                return
        exchange.hang()

    return behave


def drip_body(exchange: Exchange) -> None:
    """A proper head, then a byte a second for as long as anyone listens."""
    exchange.read_request()
    exchange.send(_head(200, {"Content-Length": "1000000"}))
    while not exchange.closing.wait(1.0):
        exchange.send(b".")


def close_at_once(exchange: Exchange) -> None:
    """Close without a word."""


def close_after_request(exchange: Exchange) -> None:
    exchange.read_request()


def reset_at_once(exchange: Exchange) -> None:
    exchange.reset()


def reset_after_request(exchange: Exchange) -> None:
    exchange.read_request()
    exchange.reset()


@contextlib.contextmanager
def refusing_url() -> Iterator[str]:
    """A URL whose port is taken by a socket that does not listen: every connection is refused."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{reserved.getsockname()[1]}/hook"


@contextlib.contextmanager
def unaccepting_url() -> Iterator[str]:
    """A URL whose queue of connections is full and never served: the handshake of TCP itself hangs.

    Some kernels complete it all the same; then it hangs one step later.
    """
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/hook"


class Certificate:
    """A self-signed certificate for some names or addresses, and the trust that accepts it."""

    def __init__(self, *names: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        now = datetime.datetime.now(datetime.UTC)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(identifier, critical=False)
            .sign(key, hashes.SHA256())
        )
        self.public = certificate.public_bytes(serialization.Encoding.PEM)
        self._private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "server.pem"
            path.write_bytes(self._private + self.public)
            context.load_cert_chain(path)
        return context

    def trust(self) -> ssl.SSLContext:
        """A client's context that trusts this certificate and no other."""
        return ssl.create_default_context(cadata=self.public.decode("ascii"))


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _end(connection: socket.socket) -> None:
    """Close so that what was sent still arrives: unread input would turn the FIN into a RST."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    connection.close()


def _shut(either: socket.socket) -> None:
    """Wake whoever is blocked on it, then close."""
    with contextlib.suppress(OSError):
        either.shutdown(socket.SHUT_RDWR)
    either.close()
