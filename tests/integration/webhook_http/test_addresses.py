"""Which address the webhook client connects to, and whom it trusts there."""

import socket
from collections.abc import Callable

import pytest

from shared.webhooks.http_client import WebhookClient
from tests.support import receivers
from tests.support.receivers import Behaviour, Certificate, Receiver, answer
from tests.support.webhook_posts import send

# Names and addresses


def test_a_name_without_an_address_is_a_dns_error(client_with: Callable[..., WebhookClient]) -> None:
    def lookup(name: str) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    outcome = send(client_with(lookup), "https://gone.example.com/")

    assert (outcome.status, outcome.error, outcome.body) == (None, "dns_error", None)
    assert send(client_with([]), "https://empty.example.com/").error == "dns_error"


def test_the_systems_resolver_is_asked(client: WebhookClient) -> None:
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
def test_a_name_that_leads_into_a_private_network_is_blocked(
    client_with: Callable[..., WebhookClient], address: str
) -> None:
    with Receiver() as receiver:
        url = f"https://rebound.example.com:{receiver.port}/"
        outcome = send(client_with([address]), url, allow_loopback=False)

    assert (outcome.status, outcome.error, outcome.body) == (None, "url_blocked", None)
    assert receiver.connections == 0


@pytest.mark.parametrize("address", ["10.0.0.1", "169.254.169.254", "0.0.0.0", "fd00::1", "::ffff:127.0.0.1"])
def test_allowing_loopback_allows_no_other_private_address(
    client_with: Callable[..., WebhookClient], address: str
) -> None:
    assert send(client_with([address]), "http://rebound.localhost/").error == "url_blocked"


def test_a_name_is_judged_anew_at_each_send(client_with: Callable[..., WebhookClient]) -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    client = client_with(lambda name: next(answers))
    with Receiver() as receiver:
        url = f"http://rebinding.localhost:{receiver.port}/"

        assert send(client, url).error is None
        assert send(client, url).error == "url_blocked"
    assert receiver.connections == 1


def test_of_several_addresses_only_the_allowed_ones_are_dialled(client_with: Callable[..., WebhookClient]) -> None:
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
def test_a_url_that_could_not_be_registered_is_not_sent_to(client: WebhookClient, url: str) -> None:
    with Receiver() as receiver:
        outcome = send(client, url.format(receiver.port), allow_loopback=False)

    assert (outcome.status, outcome.error) == (None, "url_blocked")
    assert receiver.connections == 0


# TLS


def test_a_receiver_is_verified_by_the_name_in_its_url(client_with: Callable[..., WebhookClient]) -> None:
    certificate = Certificate("hooks.example.com")
    client = client_with(["127.0.0.1"], certificate.trust())
    with Receiver(answer(200, b"ok"), tls=certificate) as receiver:
        right = send(client, f"https://hooks.example.com:{receiver.port}/")
        wrong = send(client, f"https://other.example.com:{receiver.port}/")

    assert (right.status, right.error, right.body) == (200, None, "ok")
    assert (wrong.status, wrong.error) == (None, "tls_error")
    assert [request.headers["host"] for request in receiver.requests] == [f"hooks.example.com:{receiver.port}"]


def test_a_self_signed_certificate_is_a_tls_error(client: WebhookClient) -> None:
    with Receiver(tls=Certificate("127.0.0.1", "localhost")) as receiver:
        outcome = send(client, receiver.url)

    assert (outcome.status, outcome.error) == (None, "tls_error")
    assert receiver.requests == []


def test_a_receiver_that_speaks_no_tls_is_a_tls_error(client: WebhookClient) -> None:
    def behave(exchange: receivers.Exchange) -> None:
        exchange.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        exchange.hang()

    with Receiver(behave) as receiver:
        outcome = send(client, receiver.url.replace("http:", "https:"))

    assert outcome.error == "tls_error"


def test_a_receiver_that_closes_in_the_handshake_is_connection_refused(client: WebhookClient) -> None:
    with Receiver(receivers.close_at_once) as receiver:
        outcome = send(client, receiver.url.replace("http:", "https:"))

    assert outcome.error == "connection_refused"


@pytest.mark.parametrize("behaviour", [receivers.hang_after_request, receivers.hang_after_head])
def test_a_hang_behind_tls_ends_at_the_deadline(
    client_with: Callable[..., WebhookClient], behaviour: Behaviour
) -> None:
    certificate = Certificate("127.0.0.1")
    client = client_with([], certificate.trust())
    with Receiver(behaviour, tls=certificate) as receiver:
        assert send(client, receiver.url, deadline=0.6).error == "timeout"
