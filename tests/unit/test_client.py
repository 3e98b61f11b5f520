"""The client of the conformance suite."""

import http.client

import pytest

from tests.support.client import Response


@pytest.mark.parametrize("name", ["WWW-Authenticate", "www-authenticate", "x-amzn-Remapped-WWW-Authenticate"])
def test_a_challenge_counts_under_the_name_that_the_gateway_gives_it(name: str) -> None:
    headers = http.client.HTTPMessage()
    headers[name] = "Bearer"
    assert Response(401, headers, b"").challenge == "Bearer"


def test_a_response_without_a_challenge_has_none() -> None:
    assert Response(401, http.client.HTTPMessage(), b"").challenge is None
