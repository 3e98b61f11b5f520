"""The webhook client, closed after its test."""

import ssl
from collections.abc import Callable, Iterator, Sequence

import pytest

from shared.webhooks.http_client import Client


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
