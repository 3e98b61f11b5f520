from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from time import time as time_of_system

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.aws.client import DYNAMODB
from shared.aws.connections import ConnectionFailed, Connections, HttpResponse, tls_context
from shared.core import clock
from tests.support.canned_aws import answer_always, client, endpoint, response, serving
from tests.support.clocks import Clock
from tests.support.concurrency import run_at_once
from tests.support.receivers import (
    Behaviour,
    Certificate,
    Exchange,
    Receiver,
    Request,
    drip,
    hang_after_accept,
    hang_after_request,
    raw,
    refusing_url,
    reset_after_request,
    reset_at_once,
    unaccepting_url,
)

REQUEST = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\n{}"
WHOLE = response(200, {"Item": {"pk": {"S": "a"}}})
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'5\r\n{"a":\r\n1;name=value\r\n1\r\nA\r\n,"b": [1]}\r\n0\r\nSome-Trailer: x\r\n\r\n'
)
WITHOUT_TLS: Callable[[], ssl.SSLContext] = lambda: pytest.fail("no TLS")  # noqa: E731


@contextmanager
def connections(url: str, *, connect: float = 2, respond: float = 6) -> Iterator[Connections]:
    found = Connections(url, WITHOUT_TLS, connect_seconds=connect, response_seconds=respond)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def connect_to(*behaviours: Behaviour, respond: float = 6) -> Iterator[tuple[Receiver, Connections]]:
    with endpoint(*behaviours) as server, connections(server.url, respond=respond) as found:
        yield server, found


def cut(data: bytes, at: int, *, reset: bool) -> Behaviour:
    """A response of which only the first bytes come."""

    def behave(exchange: Exchange) -> None:
        exchange.read_request()
        exchange.send(data[:at])
        if reset:
            exchange.reset()

    return behave


@pytest.mark.parametrize("data", [WHOLE, CHUNKED], ids=["whole", "chunked"])
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_response_that_is_cut_at_any_byte_is_none(data: bytes, reset: bool) -> None:
    behaviours = [cut(data, at, reset=reset) for at in range(len(data))]
    with connect_to(*behaviours, serving(data)) as (server, ours):
        for _ in range(len(data)):
            with pytest.raises(ConnectionFailed, match="connection_closed"):
                ours.exchange(REQUEST)
        assert ours.exchange(REQUEST).status == 200
        assert server.connections == len(data) + 1


@pytest.mark.parametrize("data", [WHOLE, CHUNKED], ids=["whole", "chunked"])
def test_a_response_may_come_byte_by_byte(data: bytes) -> None:
    with connect_to(drip(data, every=0)) as (_, ours), connect_to(serving(data)) as (_, other):
        assert ours.exchange(REQUEST) == other.exchange(REQUEST)


def test_a_chunked_response_is_put_together() -> None:
    with connect_to(serving(CHUNKED, WHOLE)) as (server, ours):
        assert ours.exchange(REQUEST).body == b'{"a":1,"b": [1]}'
        assert ours.exchange(REQUEST).status == 200
        assert server.connections == 1


@settings(max_examples=60)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6))
def test_a_body_is_the_same_in_chunks_and_whole(parts: list[bytes]) -> None:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks
    body = b"".join(parts)
    plain = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    with connect_to(serving(chunked, plain)) as (server, ours):
        assert [ours.exchange(REQUEST).body for _ in range(2)] == [body, body]
        assert server.connections == 1


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}x\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"x" * 200_000,
    ],
    ids=lambda data: data[:48].decode(),
)
def test_what_is_no_response_is_refused(data: bytes) -> None:
    with connect_to(raw(data)) as (_, ours), pytest.raises(ConnectionFailed, match="response_malformed"):
        ours.exchange(REQUEST)


def test_an_interim_response_is_passed_over() -> None:
    with connect_to(serving(b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE)) as (_, ours):
        assert ours.exchange(REQUEST).status == 200


# Kept connections


def test_a_connection_is_kept_for_the_next_request() -> None:
    with connect_to(serving(*[WHOLE] * 20)) as (server, ours):
        for _ in range(20):
            ours.exchange(REQUEST)
        assert server.connections == 1


@pytest.mark.parametrize(("idle", "kept"), [(59, True), (61, False), (8 * 3600, False), (-3600, False)])
def test_a_connection_is_not_used_again_after_a_minute_without_requests(idle: float, kept: bool) -> None:
    """It may have been dropped while Lambda had frozen the process, and a request on it would get no response."""
    time = Clock(1_800_000_000)
    clock.use(lambda: time.now, time.forward)
    try:
        with connect_to(serving(WHOLE, WHOLE)) as (server, ours):
            ours.exchange(REQUEST)
            time.forward(idle)
            ours.exchange(REQUEST)
            assert server.connections == (1 if kept else 2)
    finally:
        clock.use(time_of_system, sleep)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nmore than that",
    ],
)
def test_a_connection_that_cannot_be_kept_is_not(head: bytes) -> None:
    with connect_to(answer_always(lambda _: head)) as (server, ours):
        for _ in range(3):
            assert ours.exchange(REQUEST).body == b""
        assert server.connections == 3


def test_a_kept_connection_that_was_closed_is_replaced() -> None:
    with connect_to(serving(WHOLE)) as (server, ours):
        for number in range(1, 6):
            assert ours.exchange(REQUEST).status == 200
            assert server.connections == number


@pytest.mark.parametrize("ending", [reset_after_request, cut(WHOLE, 0, reset=False)], ids=["reset", "closed"])
def test_a_kept_connection_that_ends_while_a_request_is_sent_is_replaced(ending: Behaviour) -> None:
    def answered_then(exchange: Exchange) -> None:
        exchange.read_request()
        exchange.send(WHOLE)
        ending(exchange)

    with connect_to(answered_then, serving(WHOLE)) as (server, ours):
        assert ours.exchange(REQUEST).status == 200
        assert ours.exchange(REQUEST).status == 200
        assert (server.connections, len(server.requests)) == (2, 3)


def test_a_kept_connection_that_ends_within_a_response_is_not_replaced_in_silence() -> None:
    def answered_then(exchange: Exchange) -> None:
        exchange.read_request()
        exchange.send(WHOLE)
        exchange.read_request()
        exchange.send(WHOLE[:20])

    with connect_to(answered_then, serving(WHOLE)) as (server, ours):
        ours.exchange(REQUEST)
        with pytest.raises(ConnectionFailed, match="connection_closed"):
            ours.exchange(REQUEST)
        assert server.connections == 1


def test_a_request_that_a_kept_connection_sent_does_not_fail_as_unsent() -> None:
    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(65536)
            peer.sendall(WHOLE)
            peer.recv(65536)
            listener.close()

    listener = socket.create_server(("127.0.0.1", 0))
    with ThreadPoolExecutor(1) as server, connections(f"http://127.0.0.1:{listener.getsockname()[1]}") as ours:
        served = server.submit(serve)
        ours.exchange(REQUEST)
        with pytest.raises(ConnectionFailed, match="connection_closed"):
            ours.exchange(REQUEST)
        served.result()


def test_threads_do_not_mix_their_responses() -> None:
    def echo(request: Request) -> bytes:
        return response(200, raw=request.body)

    def send(number: int) -> Callable[[], list[HttpResponse]]:
        body = f"{number:06d}".encode()
        request = b"POST / HTTP/1.1\r\ncontent-length: 6\r\n\r\n" + body
        return lambda: [ours.exchange(request) for _ in range(30)]

    with connect_to(answer_always(echo)) as (server, ours):
        found = run_at_once([send(number) for number in range(12)])
    for number, replies in enumerate(found):
        assert {reply.body for reply in replies} == {f"{number:06d}".encode()}
    assert server.connections <= 12


# Deadlines


@pytest.mark.parametrize("behaviour", [hang_after_request, hang_after_accept, drip(WHOLE, every=0.02)])
def test_a_response_that_takes_too_long_in_all_is_given_up(behaviour: Behaviour) -> None:
    """A slow drip too, each byte of which comes in time."""
    with (
        connect_to(behaviour, respond=0.3) as (_, ours),
        pytest.raises(ConnectionFailed, match="response_timeout"),
    ):
        ours.exchange(REQUEST)


def test_a_connection_that_is_not_accepted_is_given_up() -> None:
    with (
        unaccepting_url() as url,
        connections(url, connect=0.2) as ours,
        pytest.raises(ConnectionFailed, match="connect_timeout"),
    ):
        ours.exchange(REQUEST)


def test_a_connection_that_is_refused_fails() -> None:
    with (
        refusing_url() as url,
        connections(url) as ours,
        pytest.raises(ConnectionFailed, match="connect_failed"),
    ):
        ours.exchange(REQUEST)


def test_a_connection_that_is_reset_fails() -> None:
    with connect_to(reset_at_once) as (_, ours), pytest.raises(ConnectionFailed, match="connect"):
        ours.exchange(REQUEST)


@pytest.mark.parametrize("url", ["ftp://host/", "host:80", "https://", ""])
def test_what_is_no_url_of_an_endpoint_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not the URL"):
        Connections(url, WITHOUT_TLS)


# TLS


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return Certificate("localhost")


def by_name(server: Receiver) -> str:
    return f"https://localhost:{server.port}"


def test_a_certificate_is_trusted_by_the_bundle_that_the_environment_names(
    certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_bytes(certificate.public)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))
    with endpoint(serving(WHOLE, WHOLE), tls=certificate) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", by_name(server))
        with client(DYNAMODB) as ours:
            for _ in range(2):
                assert ours.call("GetItem", {}) == {"Item": {"pk": {"S": "a"}}}
        assert server.connections == 1


@pytest.mark.parametrize("ca_file", [None, "amazon_roots.pem"])
def test_another_certificate_is_not_trusted(certificate: Certificate, ca_file: str | None) -> None:
    from shared.aws import client as aws_client

    path = ca_file and str(Path(aws_client.__file__).with_name(ca_file))
    with endpoint(serving(WHOLE), tls=certificate) as server:
        ours = Connections(by_name(server), lambda: tls_context(path))
        with pytest.raises(ConnectionFailed, match="connect_untrusted"):
            ours.exchange(REQUEST)
        assert server.requests == []


def test_the_certificate_of_another_host_is_not_trusted(certificate: Certificate, tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_bytes(certificate.public)
    with endpoint(serving(WHOLE), tls=certificate) as server:
        ours = Connections(f"https://127.0.0.1:{server.port}", lambda: tls_context(str(bundle)))
        with pytest.raises(ConnectionFailed, match="connect_untrusted"):
            ours.exchange(REQUEST)


def test_a_server_without_tls_is_no_endpoint_with_tls(certificate: Certificate) -> None:
    with endpoint(lambda exchange: exchange.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server:
        ours = Connections(by_name(server), lambda: tls_context(None))
        with pytest.raises(ConnectionFailed, match="connect_failed"):
            ours.exchange(REQUEST)


def test_a_handshake_that_takes_too_long_is_given_up(certificate: Certificate) -> None:
    with endpoint(hang_after_accept) as server:
        ours = Connections(by_name(server), lambda: tls_context(None), connect_seconds=0.3)
        with pytest.raises(ConnectionFailed, match="connect_timeout"):
            ours.exchange(REQUEST)
