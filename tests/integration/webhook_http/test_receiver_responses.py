"""What a receiver answers to the webhook client, friendly or broken, and what is kept of it."""

import gzip
import os
import tracemalloc

import pytest

from shared.webhooks.http_client import BODY_KEPT, BODY_READ, USER_AGENT, WebhookClient
from tests.support import receivers
from tests.support.receivers import Behaviour, Exchange, Receiver, _head, answer, raw
from tests.support.webhook_posts import BODY, send

# A friendly receiver


def gzip_bomb(size: int) -> Behaviour:
    """A small answer that calls itself gzip and unpacks to `size` bytes."""
    packed = gzip.compress(bytes(size))
    return answer(200, packed, {"Content-Encoding": "gzip"})


def flood(size: int, *, status: int = 200) -> Behaviour:
    """Answer with a body of `size` bytes; `Receiver.bytes_sent` tells how much of it was taken."""

    def behave(exchange: Exchange) -> None:
        exchange.read_request()
        exchange.send(_head(status, {"Content-Length": str(size)}))
        block = b"x" * 65536
        for _ in range(size // len(block)):
            exchange.send(block)

    return behave


def reset_in_body(exchange: Exchange) -> None:
    """Announce ten bytes, send three, reset."""
    exchange.read_request()
    exchange.send(_head(200, {"Content-Length": "10"}) + b"abc")
    exchange.reset()


def break_off_body(exchange: Exchange) -> None:
    """Announce ten bytes, send three, close."""
    exchange.read_request()
    exchange.send(_head(200, {"Content-Length": "10"}) + b"abc")


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_a_success(client: WebhookClient, status: int) -> None:
    with Receiver(answer(status)) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error, outcome.body) == (status, None, "")
    assert outcome.duration_ms >= 0


def test_the_body_arrives_byte_for_byte_with_our_headers_and_no_others_that_matter(client: WebhookClient) -> None:
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


def test_a_header_of_ours_cannot_be_sent_twice_or_replaced(client: WebhookClient) -> None:
    with Receiver() as receiver:
        client.post(receiver.url, {"user-agent": "x", "ACCEPT-ENCODING": "gzip"}, BODY, allow_loopback=True)

    assert receiver.requests[0].headers["user-agent"] == USER_AGENT
    assert receiver.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "whole",
    [
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Wake-ups\r\nLink: </x>\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\n\r\nok",
        b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: \xff=\x80;;;=\r\n\r\nok",
    ],
    ids=["interim responses", "chunked", "to the end", "HTTP/1.0", "no reason", "odd cookie"],
)
def test_an_answer_in_any_lawful_form_is_understood(client: WebhookClient, whole: bytes) -> None:
    with Receiver(raw(whole)) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error, outcome.body) == (200, None, "ok")


@pytest.mark.parametrize("status", [400, 401, 404, 410, 429, 500, 503, 599])
def test_a_status_beyond_3xx_is_an_http_error(client: WebhookClient, status: int) -> None:
    with Receiver(answer(status, b"no")) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error, outcome.body) == (status, "http_error", "no")


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_a_redirect_is_a_failure_and_is_not_followed(client: WebhookClient, status: int) -> None:
    with Receiver() as elsewhere, Receiver(receivers.redirect(elsewhere.url, status)) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error) == (status, "redirect")
    assert elsewhere.connections == 0


def test_a_cookie_is_not_sent_back(client: WebhookClient) -> None:
    with Receiver(answer(headers={"Set-Cookie": "id=1; Path=/"})) as receiver:
        url = receiver.url.replace("127.0.0.1", "localhost")
        send(client, url)
        send(client, url)

    assert all("cookie" not in request.headers for request in receiver.wait_for(2))


def test_a_proxy_from_the_environment_is_ignored(client: WebhookClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as proxy, Receiver() as receiver:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
            monkeypatch.setenv(name.upper(), proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        outcome = send(client, receiver.url)

    assert outcome.status == 200
    assert proxy.connections == 0


def test_an_ipv6_receiver_is_reached(client: WebhookClient) -> None:
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
def test_at_most_one_kib_is_kept_as_harmless_text(client: WebhookClient, body: bytes, kept: str) -> None:
    with Receiver(answer(500, body)) as receiver:
        outcome = send(client, receiver.url)

    assert outcome.body == kept
    assert len(kept.encode()) <= BODY_KEPT


def test_a_success_with_a_huge_body_is_a_success_and_is_not_read(client: WebhookClient) -> None:
    with Receiver(flood(200_000_000)) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error, outcome.body) == (200, None, "x" * BODY_KEPT)
    assert receiver.bytes_sent < 50_000_000  # what the kernels on both sides took, not what we read


def test_a_body_of_exactly_what_is_read_is_a_success_without_waiting_for_its_end(client: WebhookClient) -> None:
    def behave(exchange: receivers.Exchange) -> None:
        exchange.read_request()
        exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % BODY_READ)
        exchange.send(b"x" * BODY_READ)
        exchange.hang()

    with Receiver(behave) as receiver:
        assert send(client, receiver.url).error is None


def test_a_gzip_bomb_is_not_unpacked(client: WebhookClient) -> None:
    packed = answer(200, gzip.compress(b"hello" * 10), {"Content-Encoding": "gzip"})
    with Receiver(packed, gzip_bomb(200_000_000)) as receiver:
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
def test_a_connection_that_ends_without_an_answer_is_connection_refused(
    client: WebhookClient, behaviour: Behaviour
) -> None:
    with Receiver(behaviour) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error, outcome.body) == (None, "connection_refused", None)


def test_a_refused_connection_is_connection_refused(client: WebhookClient) -> None:
    with receivers.refusing_url() as url:
        outcome = send(client, url)

    assert (outcome.status, outcome.error) == (None, "connection_refused")


@pytest.mark.parametrize(
    "behaviour",
    [
        break_off_body,
        reset_in_body,
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
    ],
    ids=["closed", "reset", "chunks without end"],
)
def test_a_success_whose_body_breaks_off_is_none(client: WebhookClient, behaviour: Behaviour) -> None:
    with Receiver(behaviour) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error) == (200, "connection_refused")


@pytest.mark.parametrize("pause", [0.0, 0.3])
def test_a_success_whose_body_is_garbled_is_none(client: WebhookClient, pause: float) -> None:
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
        b"HTTP/1.1 000 No\r\nContent-Length: 2\r\n\r\nno",
        b"HTTP/1.1 0 No\r\nContent-Length: 2\r\n\r\nno",
        b"HTTP/1.1 099 No\r\nContent-Length: 2\r\n\r\nno",
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
def test_an_answer_that_is_no_http_is_an_http_error_without_a_status(client: WebhookClient, nonsense: bytes) -> None:
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
def test_a_strange_answer_is_judged_by_its_first_status(client: WebhookClient, strange: bytes, status: int) -> None:
    with Receiver(raw(strange)) as receiver:
        outcome = send(client, receiver.url, deadline=1.0)

    assert (outcome.status, outcome.error) == (status, "http_error")


def test_random_bytes_never_make_it_raise(client: WebhookClient) -> None:
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
