import contextlib
import functools
import gzip
import os
import socket
import ssl
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.webhooks import http_client
from shared.webhooks.http_client import BODY_KEPT, BODY_READ, DEADLINE, USER_AGENT, Client, Outcome
from tests.support import receivers
from tests.support.receivers import Behaviour, Certificate, Receiver, answer, raw

BODY = b'{"id":"evt_1"}'
HEADERS = {"Content-Type": "application/json", "webhook-id": "evt_1"}
PLENTY = 60.0
"""A deadline for exchanges that are to end in another way; none waits for it."""


@pytest.fixture
def client() -> Iterator[Client]:
    made = Client()
    yield made
    made.close()


@pytest.fixture
def client_with() -> Iterator[Callable[..., Client]]:
    made: list[Client] = []

    def make(addresses: Sequence[str] | Callable[[str], Sequence[str]], trust: ssl.SSLContext | None = None) -> Client:
        made.append(Client(lookup=addresses if callable(addresses) else lambda _: addresses, trust=trust))
        return made[-1]

    yield make
    for one in made:
        one.close()


def send(client: Client, url: str, *, deadline: float = PLENTY, allow_loopback: bool = True) -> Outcome:
    return client.post(url, HEADERS, BODY, allow_loopback=allow_loopback, deadline=deadline)


# A friendly receiver


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_a_success(client: Client, status: int) -> None:
    with Receiver(answer(status)) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error, outcome.body) == (status, None, "")
    assert outcome.duration_ms >= 0


def test_the_body_arrives_byte_for_byte_with_our_headers_and_no_others_that_matter(client: Client) -> None:
    with Receiver(answer(200, b"thank you")) as receiver:
        outcome = send(client, f"{receiver.url}/%2e%2F?t=a%2Bb+c")

    (request,) = receiver.requests
    assert outcome.body == "thank you"
    assert (request.method, request.target, request.body) == ("POST", "/hook/%2e%2F?t=a%2Bb+c", BODY)
    assert dict(request.headers) == {
        "host": f"127.0.0.1:{receiver.port}",
        "content-type": "application/json",
        "content-length": str(len(BODY)),
        "webhook-id": "evt_1",
        "user-agent": USER_AGENT,
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "close",
    }


def test_a_header_of_ours_cannot_be_sent_twice_or_replaced(client: Client) -> None:
    with Receiver() as receiver:
        client.post(receiver.url, {"user-agent": "x", "ACCEPT-ENCODING": "gzip"}, BODY, allow_loopback=True)

    assert receiver.requests[0].headers["user-agent"] == USER_AGENT
    assert receiver.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "whole",
    [
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\n\r\nok",
        b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: \xff=\x80;;;=\r\n\r\nok",
    ],
    ids=["interim responses", "chunked", "to the end", "HTTP/1.0", "no reason", "odd cookie"],
)
def test_an_answer_in_any_lawful_form_is_understood(client: Client, whole: bytes) -> None:
    with Receiver(raw(whole)) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error, outcome.body) == (200, None, "ok")


@pytest.mark.parametrize("status", [400, 401, 404, 410, 429, 500, 503, 599])
def test_a_status_beyond_3xx_is_an_http_error(client: Client, status: int) -> None:
    with Receiver(answer(status, b"no")) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error, outcome.body) == (status, "http_error", "no")


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_a_redirect_is_a_failure_and_is_not_followed(client: Client, status: int) -> None:
    with Receiver() as elsewhere, Receiver(receivers.redirect(elsewhere.url, status)) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error) == (status, "redirect")
    assert elsewhere.connections == 0


def test_a_cookie_is_not_sent_back(client: Client) -> None:
    with Receiver(answer(headers={"Set-Cookie": "id=1; Path=/"})) as receiver:
        url = receiver.url.replace("127.0.0.1", "localhost")
        send(client, url)
        send(client, url)

    assert all("cookie" not in request.headers for request in receiver.wait_for(2))


def test_a_proxy_from_the_environment_is_ignored(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as proxy, Receiver() as receiver:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
            monkeypatch.setenv(name.upper(), proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        outcome = send(client, receiver.url)

    assert outcome.status == 200
    assert proxy.connections == 0


def test_an_ipv6_receiver_is_reached(client: Client) -> None:
    with Receiver(address="::1") as receiver:
        assert send(client, receiver.url).status == 200


# What is kept of an answer


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"x" * 1024, "x" * 1024),
        (b"x" * 1025, "x" * 1024),
        (b"x" * 1023 + "ä".encode(), "x" * 1023),
        (b"xx" + "€".encode() * 400, "xx" + "€" * 340),
        (b"caf\xe9!", "caf\ufffd!"),
        (b"\xff" * 1024, "\ufffd" * 341),
        (b"a\x00b\x1b[31mc\x7fd\xc2\x85e\tf\r\n", "a\ufffdb\ufffd[31mc\ufffdd\ufffde\tf\r\n"),
        (b"\xc3", "\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
    ],
    ids=["fits", "one more", "cut", "cut wide", "latin", "binary", "controls", "half", "surrogate"],
)
def test_at_most_one_kib_is_kept_as_harmless_text(client: Client, body: bytes, kept: str) -> None:
    with Receiver(answer(500, body)) as receiver:
        outcome = send(client, receiver.url)

    assert outcome.body == kept
    assert len(kept.encode()) <= BODY_KEPT


def test_a_success_with_a_huge_body_is_a_success_and_is_not_read(client: Client) -> None:
    with Receiver(receivers.flood(200_000_000)) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error, outcome.body) == (200, None, "x" * BODY_KEPT)
    assert receiver.bytes_sent < 50_000_000  # what the kernels on both sides took, not what we read


def test_a_body_of_exactly_what_is_read_is_a_success_without_waiting_for_its_end(client: Client) -> None:
    def behave(exchange: receivers.Exchange) -> None:
        exchange.read_request()
        exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % BODY_READ)
        exchange.send(b"x" * BODY_READ)
        exchange.hang()

    with Receiver(behave) as receiver:
        assert send(client, receiver.url).error is None


def test_a_gzip_bomb_is_not_unpacked(client: Client) -> None:
    packed = answer(200, gzip.compress(b"hello" * 10), {"Content-Encoding": "gzip"})
    with Receiver(packed, receivers.gzip_bomb(200_000_000)) as receiver:
        small = send(client, receiver.url)
        tracemalloc.start()
        try:
            outcome = send(client, receiver.url)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert outcome.error is None
    assert small.body is not None
    assert small.body.startswith("\ufffd\ufffd")  # gzip's first two bytes, 1f 8b
    assert peak < 5_000_000


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
    client: Client, behaviour: Behaviour, status: int | None, body: str | None
) -> None:
    with Receiver(behaviour) as receiver:
        outcome = send(client, receiver.url, deadline=0.6)

    assert (outcome.status, outcome.error, outcome.body) == (status, "timeout", body)
    assert outcome.duration_ms >= 599


def test_a_receiver_that_hangs_before_accepting_is_left_at_the_deadline(client: Client) -> None:
    with receivers.unaccepting_url() as url:
        outcome = send(client, url, deadline=0.6)

    assert (outcome.status, outcome.error) == (None, "timeout")


def test_a_receiver_that_hangs_in_the_tls_handshake_is_left_at_the_deadline(client: Client) -> None:
    with Receiver(receivers.hang_after_accept) as receiver:
        outcome = send(client, receiver.url.replace("http:", "https:"), deadline=0.6)

    assert (outcome.status, outcome.error) == (None, "timeout")


@pytest.mark.filterwarnings("ignore:Sending a large body")
def test_a_receiver_that_does_not_read_is_left_and_its_connection_given_up(client: Client) -> None:
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
        outcome = client.post(receiver.url, {}, bytes(size), allow_loopback=True, deadline=0.6)
        given_up.set()
        assert connection_ended.wait(receivers.PATIENCE)

    assert outcome.error == "timeout"
    assert received < size


def test_a_name_server_that_hangs_is_left_at_the_deadline(client_with: Callable[..., Client]) -> None:
    release = threading.Event()

    def lookup(name: str) -> list[str]:
        release.wait()
        return ["127.0.0.1"]

    try:
        outcome = send(client_with(lookup), "https://slow.example.com/", deadline=0.3)
    finally:
        release.set()

    assert (outcome.status, outcome.error) == (None, "timeout")


def test_an_error_whose_body_hangs_is_still_the_error(client: Client) -> None:
    with Receiver(functools.partial(receivers.hang_after_head, status=503)) as receiver:
        outcome = send(client, receiver.url, deadline=0.3)

    assert (outcome.status, outcome.error, outcome.body) == (503, "http_error", "abc")


def test_forty_that_hang_do_not_hold_up_a_healthy_one(client: Client) -> None:
    with ThreadPoolExecutor(40) as pool:
        with Receiver(receivers.hang_after_request) as hanging, Receiver() as healthy:
            hung = [pool.submit(send, client, hanging.url) for _ in range(40)]
            hanging.wait_for(40)

            assert send(client, healthy.url).status == 200
            assert not any(one.done() for one in hung)

        assert {one.result().error for one in hung} == {"connection_refused"}


def test_forty_name_servers_that_hang_do_not_hold_up_a_healthy_one(
    client_with: Callable[..., Client],
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


def test_every_caller_gets_its_own_outcome(client: Client) -> None:
    def echo(exchange: receivers.Exchange) -> None:
        request = exchange.read_request()
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(request.body) + request.body)

    with Receiver(echo) as receiver, ThreadPoolExecutor(16) as pool:
        bodies = [str(n) for n in range(200)]
        outcomes = pool.map(lambda body: client.post(receiver.url, {}, body.encode(), allow_loopback=True), bodies)

        assert [outcome.body for outcome in outcomes] == bodies


# Broken connections and broken HTTP


@pytest.mark.parametrize(
    "behaviour",
    [
        receivers.close_at_once,
        receivers.close_after_request,
        receivers.reset_at_once,
        receivers.reset_after_request,
        raw(b"HTTP/1.1 200 OK\r\nContent-Le"),
    ],
    ids=["closed", "closed after request", "reset", "reset after request", "closed in the head"],
)
def test_a_connection_that_ends_without_an_answer_is_connection_refused(client: Client, behaviour: Behaviour) -> None:
    with Receiver(behaviour) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error, outcome.body) == (None, "connection_refused", None)


def test_a_refused_connection_is_connection_refused(client: Client) -> None:
    with receivers.refusing_url() as url:
        outcome = send(client, url)

    assert (outcome.status, outcome.error) == (None, "connection_refused")


@pytest.mark.parametrize(
    "behaviour",
    [
        receivers.break_off_body,
        receivers.reset_in_body,
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
    ],
    ids=["closed", "reset", "chunks without end"],
)
def test_a_success_whose_body_breaks_off_is_none(client: Client, behaviour: Behaviour) -> None:
    with Receiver(behaviour) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error) == (200, "connection_refused")


@pytest.mark.parametrize("pause", [0.0, 0.3])
def test_a_success_whose_body_is_garbled_is_none(client: Client, pause: float) -> None:
    def behave(exchange: receivers.Exchange) -> None:
        exchange.read_request()
        exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        exchange.closing.wait(pause)
        exchange.send(b"nonsense\r\n")
        exchange.hang()

    with Receiver(behave) as receiver:
        assert send(client, receiver.url, deadline=0.6).error is not None


@pytest.mark.parametrize(
    "nonsense",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"220 mail.example.com ESMTP\r\n",
        b"\x00" * 100,
        b"\x16\x03\x01\x02\x00\x01",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 99999 OK\r\n\r\n",
        b"HTTP/9.9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1e9\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 10_000 + b"\r\n",
        b"HTTP/1.1 200 " + b"x" * 100_000 + b"\r\n\r\n",
    ],
    ids=lambda value: repr(value[:24]),
)
def test_an_answer_that_is_no_http_is_an_http_error_without_a_status(client: Client, nonsense: bytes) -> None:
    with Receiver(raw(nonsense)) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error, outcome.body) == (None, "http_error", None)


@pytest.mark.parametrize(
    ("strange", "status"),
    [
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nabc", 101),
        (b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n", 999),
        (b"HTTP/1.1 500 \xff\xfe\r\nContent-Length: 0\r\n\r\n", 500),
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 500),
    ],
    ids=["upgrade", "999", "odd reason", "two answers"],
)
def test_a_strange_answer_is_judged_by_its_first_status(client: Client, strange: bytes, status: int) -> None:
    with Receiver(raw(strange)) as receiver:
        outcome = send(client, receiver.url, deadline=1.0)

    assert (outcome.status, outcome.error) == (status, "http_error")


def test_random_bytes_never_make_it_raise(client: Client) -> None:
    starts = (
        b"",
        b"HTTP/1.1 ",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    )
    noise = [start + os.urandom(300) for start in starts for _ in range(25)]
    with Receiver(*(raw(one) for one in noise)) as receiver:
        outcomes = [send(client, receiver.url, deadline=2.0) for _ in noise]

    assert {outcome.error for outcome in outcomes} <= {None, "http_error", "connection_refused", "timeout"}


# Names and addresses


def test_a_name_without_an_address_is_a_dns_error(client_with: Callable[..., Client]) -> None:
    def lookup(name: str) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    outcome = send(client_with(lookup), "https://gone.example.com/")

    assert (outcome.status, outcome.error, outcome.body) == (None, "dns_error", None)
    assert send(client_with([]), "https://empty.example.com/").error == "dns_error"


def test_the_systems_resolver_is_asked(client: Client) -> None:
    with Receiver() as receiver:
        assert send(client, f"http://localhost:{receiver.port}/").status == 200
        assert send(client, f"http://any.localhost:{receiver.port}/").status == 200


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.168.1.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "::",
        "fd00::1",
        "fe80::1",
        "fe80::1%1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::1",
    ],
)
def test_a_name_that_leads_into_a_private_network_is_blocked(client_with: Callable[..., Client], address: str) -> None:
    with Receiver() as receiver:
        url = f"https://rebound.example.com:{receiver.port}/"
        outcome = send(client_with([address]), url, allow_loopback=False)

    assert (outcome.status, outcome.error, outcome.body) == (None, "url_blocked", None)
    assert receiver.connections == 0


@pytest.mark.parametrize("address", ["10.0.0.1", "169.254.169.254", "0.0.0.0", "fd00::1", "::ffff:127.0.0.1"])
def test_allowing_loopback_allows_no_other_private_address(client_with: Callable[..., Client], address: str) -> None:
    assert send(client_with([address]), "http://rebound.localhost/").error == "url_blocked"


def test_a_name_is_judged_anew_at_each_send(client_with: Callable[..., Client]) -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    client = client_with(lambda name: next(answers))
    with Receiver() as receiver:
        url = f"http://rebinding.localhost:{receiver.port}/"

        assert send(client, url).error is None
        assert send(client, url).error == "url_blocked"
    assert receiver.connections == 1


def test_of_several_addresses_only_the_allowed_ones_are_dialled(client_with: Callable[..., Client]) -> None:
    client = client_with(["10.0.0.1", "fd00::1", "127.0.0.1"])
    with Receiver() as receiver, receivers.refusing_url() as refusing:
        assert send(client, receiver.url.replace("127.0.0.1", "mixed.localhost")).error is None
        refused = send(client, refusing.replace("127.0.0.1", "mixed.localhost"))

    assert refused.error == "connection_refused"


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:{}/",
        "https://localhost:{}/",
        "https://[::ffff:127.0.0.1]:{}/",
        "https://2130706433:{}/",
        "https://0x7f.1:{}/",
        "https://127.1:{}/",
        "http://example.com:{}/",
        "https://user:pw@example.com:{}/",
    ],
)
def test_a_url_that_could_not_be_registered_is_not_sent_to(client: Client, url: str) -> None:
    with Receiver() as receiver:
        outcome = send(client, url.format(receiver.port), allow_loopback=False)

    assert (outcome.status, outcome.error) == (None, "url_blocked")
    assert receiver.connections == 0


# TLS


def test_a_receiver_is_verified_by_the_name_in_its_url(client_with: Callable[..., Client]) -> None:
    certificate = Certificate("hooks.example.com")
    client = client_with(["127.0.0.1"], certificate.trust())
    with Receiver(answer(200, b"ok"), tls=certificate) as receiver:
        right = send(client, f"https://hooks.example.com:{receiver.port}/")
        wrong = send(client, f"https://other.example.com:{receiver.port}/")

    assert (right.status, right.error, right.body) == (200, None, "ok")
    assert (wrong.status, wrong.error) == (None, "tls_error")
    assert [request.headers["host"] for request in receiver.requests] == [f"hooks.example.com:{receiver.port}"]


def test_a_self_signed_certificate_is_a_tls_error(client: Client) -> None:
    with Receiver(tls=Certificate("127.0.0.1", "localhost")) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error) == (None, "tls_error")
    assert receiver.requests == []


def test_a_receiver_that_speaks_no_tls_is_a_tls_error(client: Client) -> None:
    def behave(exchange: receivers.Exchange) -> None:
        exchange.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        exchange.hang()

    with Receiver(behave) as receiver:
        outcome = send(client, receiver.url.replace("http:", "https:"))

    assert outcome.error == "tls_error"


def test_a_receiver_that_closes_in_the_handshake_is_connection_refused(client: Client) -> None:
    with Receiver(receivers.close_at_once) as receiver:
        outcome = send(client, receiver.url.replace("http:", "https:"))

    assert outcome.error == "connection_refused"


@pytest.mark.parametrize("behaviour", [receivers.hang_after_request, receivers.hang_after_head])
def test_a_hang_behind_tls_ends_at_the_deadline(client_with: Callable[..., Client], behaviour: Behaviour) -> None:
    certificate = Certificate("127.0.0.1")
    client = client_with([], certificate.trust())
    with Receiver(behaviour, tls=certificate) as receiver:
        assert send(client, receiver.url, deadline=0.6).error == "timeout"


# The process


def test_the_deadline_is_the_contracts() -> None:
    assert DEADLINE == 15.0


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
    return http_client.post({receiver.url!r}, {{}}, b"", allow_loopback=True, deadline=600)
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
