"""The webhook client, closed after its test."""

import ssl
from collections.abc import Callable, Iterator, Sequence

import pytest

from shared.webhooks.http_client import WebhookClient


@pytest.fixture
def client() -> Iterator[WebhookClient]:
    made = WebhookClient()
    yield made
    made.close()


@pytest.fixture
def client_with() -> Iterator[Callable[..., WebhookClient]]:
    made: list[WebhookClient] = []

    def make(
        addresses: Sequence[str] | Callable[[str], Sequence[str]], trust: ssl.SSLContext | None = None
    ) -> WebhookClient:
        made.append(WebhookClient(lookup=addresses if callable(addresses) else lambda _: addresses, trust=trust))
        return made[-1]

    yield make
    for one in made:
        one.close()
