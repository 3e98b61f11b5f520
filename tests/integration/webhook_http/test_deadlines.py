"""Receivers that hang or drip are left at the deadline and hold up nobody; the process with its client."""

import contextlib
import functools
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.webhooks import http_client
from shared.webhooks.http_client import DEADLINE_S, WebhookClient
from tests.support import receivers
from tests.support.receivers import Behaviour, Receiver, answer
from tests.support.webhook_posts import BODY, HEADERS, send

# Hanging and dripping


def drip_head(exchange: receivers.Exchange) -> None:
    receivers.drip(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000)(exchange)


def endless_interim(exchange: receivers.Exchange) -> None:
    exchange.read_request()
    while not exchange.closing.wait(0.05):
        exchange.send(b"HTTP/1.1 102 Processing\r\n\r\n")


def endless_chunk_extension(exchange: receivers.Exchange) -> None:
    exchange.read_request()
    exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x=")
    while not exchange.closing.wait(0.05):
        exchange.send(b"x")


@pytest.mark.parametrize(
    ("behaviour", "status", "body"),
    [
        (receivers.hang_after_accept, None, None),
        (receivers.hang_after_request, None, None),
        (receivers.hang_after_head, 200, "abc"),
        (drip_head, None, None),
        (endless_interim, None, None),
        (receivers.drip_body, 200, ""),
        (endless_chunk_extension, 200, ""),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_receiver_that_hangs_or_drips_is_left_at_the_deadline(
    client: WebhookClient, behaviour: Behaviour, status: int | None, body: str | None
) -> None:
    with Receiver(behaviour) as receiver:
        outcome = send(client, receiver.url, deadline=0.6)

    assert (outcome.status, outcome.error, outcome.body) == (status, "timeout", body)
    assert outcome.duration_ms >= 599


def test_a_receiver_that_hangs_before_accepting_is_left_at_the_deadline(client: WebhookClient) -> None:
    with receivers.unaccepting_url() as url:
        outcome = send(client, url, deadline=0.6)

    assert (outcome.status, outcome.error) == (None, "timeout")


def test_a_receiver_that_hangs_in_the_tls_handshake_is_left_at_the_deadline(client: WebhookClient) -> None:
    with Receiver(receivers.hang_after_accept) as receiver:
        outcome = send(client, receiver.url.replace("http:", "https:"), deadline=0.6)

    assert (outcome.status, outcome.error) == (None, "timeout")


@pytest.mark.filterwarnings("ignore:Sending a large body")
def test_a_receiver_that_does_not_read_is_left_and_its_connection_given_up(client: WebhookClient) -> None:
    given_up = threading.Event()
    connection_ended = threading.Event()
    size = 50_000_000
    received = 0

    def behave(exchange: receivers.Exchange) -> None:
        nonlocal received
        given_up.wait(receivers.PATIENCE)
        with contextlib.suppress(ConnectionError):
            while data := exchange.connection.recv(1 << 20):
                received += len(data)
        connection_ended.set()

    with Receiver(behave) as receiver:
        outcome = client.post(receiver.url, {}, bytes(size), allow_loopback=True, deadline_s=0.6)
        given_up.set()
        assert connection_ended.wait(receivers.PATIENCE)

    assert outcome.error == "timeout"
    assert received < size


def test_a_name_server_that_hangs_is_left_at_the_deadline(client_with: Callable[..., WebhookClient]) -> None:
    release = threading.Event()

    def lookup(name: str) -> list[str]:
        release.wait()
        return ["127.0.0.1"]

    try:
        outcome = send(client_with(lookup), "https://slow.example.com/", deadline=0.3)
    finally:
        release.set()

    assert (outcome.status, outcome.error) == (None, "timeout")


def test_an_error_whose_body_hangs_is_still_the_error(client: WebhookClient) -> None:
    with Receiver(functools.partial(receivers.hang_after_head, status=503)) as receiver:
        outcome = send(client, receiver.url, deadline=0.3)

    assert (outcome.status, outcome.error, outcome.body) == (503, "http_error", "abc")


def test_forty_that_hang_do_not_hold_up_a_healthy_one(client: WebhookClient) -> None:
    with ThreadPoolExecutor(40) as pool:
        with Receiver(receivers.hang_after_request) as hanging, Receiver() as healthy:
            hung = [pool.submit(send, client, hanging.url) for _ in range(40)]
            hanging.wait_for(40)

            assert send(client, healthy.url).status == 200
            assert not any(one.done() for one in hung)

        assert {one.result().error for one in hung} == {"connection_refused"}


def test_forty_name_servers_that_hang_do_not_hold_up_a_healthy_one(
    client_with: Callable[..., WebhookClient],
) -> None:
    release = threading.Event()
    started = threading.Semaphore(0)

    def lookup(name: str) -> list[str]:
        if name.startswith("slow"):
            started.release()
            release.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "gave up")
        return ["127.0.0.1"]

    client = client_with(lookup)
    with ThreadPoolExecutor(40) as pool, Receiver() as healthy:
        try:
            hung = [pool.submit(send, client, f"https://slow{n}.example.com/") for n in range(40)]
            for _ in hung:
                assert started.acquire(timeout=receivers.PATIENCE)

            assert send(client, f"http://healthy.localhost:{healthy.port}/").status == 200
            assert not any(one.done() for one in hung)
        finally:
            release.set()

        assert {one.result().error for one in hung} == {"dns_error"}


def test_every_caller_gets_its_own_outcome(client: WebhookClient) -> None:
    def echo(exchange: receivers.Exchange) -> None:
        request = exchange.read_request()
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(request.body) + request.body)

    with Receiver(echo) as receiver, ThreadPoolExecutor(16) as pool:
        bodies = [str(n) for n in range(200)]
        outcomes = pool.map(lambda body: client.post(receiver.url, {}, body.encode(), allow_loopback=True), bodies)

        assert [outcome.body for outcome in outcomes] == bodies


# The process


def test_the_deadline_is_the_contracts() -> None:
    assert DEADLINE_S == 15.0


def test_the_processes_client_serves_all_threads() -> None:
    with Receiver() as receiver, ThreadPoolExecutor(8) as pool:
        outcomes = pool.map(lambda _: http_client.post(receiver.url, HEADERS, BODY, allow_loopback=True), range(16))

        assert {outcome.status for outcome in outcomes} == {200}
    assert [thread.name for thread in threading.enumerate()].count("webhook-http") == 1


@pytest.mark.parametrize("hung", [0, 1, 5])
def test_a_process_ends_at_once_and_quietly_though_receivers_hang(hung: int) -> None:
    with Receiver(answer(), receivers.hang_after_request) as receiver:
        program = f"""
import threading
from shared.webhooks import http_client
def post():
    return http_client.post({receiver.url!r}, {{}}, b"", allow_loopback=True, deadline_s=600)
assert post().status == 200
for _ in range({hung}):
    threading.Thread(target=post, daemon=True).start()
input()
"""
        with subprocess.Popen(
            [sys.executable, "-W", "always", "-c", program],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            receiver.wait_for(1 + hung)
            _, complaints = process.communicate("\n", timeout=receivers.PATIENCE)

    assert (process.returncode, complaints) == (0, "")


def test_judging_a_url_needs_no_aiohttp_and_importing_starts_nothing() -> None:
    program = """
import sys, threading
from shared.webhooks.urls import refuse_url
assert refuse_url("https://example.com/", allow_loopback=False) is None
assert "aiohttp" not in sys.modules and "idna" not in sys.modules
import shared.webhooks.http_client
assert threading.active_count() == 1
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
