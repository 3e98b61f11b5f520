from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.aws.client import DYNAMODB, AwsError, Unavailable
from shared.aws.credentials import RENEW_BEFORE, NoCredentials, Source
from shared.core import clock
from tests.support.canned_aws import always, client, endpoint, error, response
from tests.support.clocks import Clock
from tests.support.racing import at_once
from tests.support.receivers import Receiver, Request

LASTS = 60 * clock.MINUTE


class Container:
    """A container's endpoint, which gives out a new key at each request."""

    def __init__(self) -> None:
        self.given = 0
        self.failing: bytes | None = None
        self.lasts = LASTS

    def answer(self, request: Request) -> bytes:
        if self.failing is not None:
            return self.failing
        self.given += 1
        found = {
            "AccessKeyId": f"AKID{self.given}",
            "SecretAccessKey": "secret",
            "Token": f"token{self.given}",
            "Expiration": clock.iso(clock.now() + self.lasts),
        }
        return response(200, raw=json.dumps(found).encode())


@pytest.fixture
def container() -> Container:
    return Container()


@pytest.fixture
def server(container: Container, time: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with endpoint(always(container.answer)) as found:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{found.url}?a=b")
        yield found


def test_lambdas_credentials_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source()
    assert source.current().session_token is None
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    found = source.current()
    assert (found.access_key_id, found.session_token, found.expires_at) == ("AKIDEXAMPLE", "token", None)
    assert "wJalr" not in repr(found)
    assert "token'" not in repr(found)


def test_a_containers_credentials_are_kept_until_shortly_before_they_expire(
    server: Receiver, container: Container, time: Clock
) -> None:
    source = Source()
    time.forward(0)
    assert source.current().access_key_id == "AKID1"
    time.forward((LASTS - RENEW_BEFORE) / clock.SECOND - 1)
    assert source.current().session_token == "token1"
    time.forward(1)
    assert source.current().session_token == "token2"
    assert container.given == 2


def test_the_request_for_credentials_has_the_token_and_the_whole_path(
    server: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic abc")
    Source().current()
    file = tmp_path / "token"
    file.write_text("Basic of file")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(file))
    Source().current()
    first, second = server.requests
    assert (first.method, first.target) == ("GET", "/hook?a=b")
    assert (first.headers["authorization"], second.headers["authorization"]) == ("Basic abc", "Basic of file")
    file.write_text("Basic abc\r\nx: y")
    with pytest.raises(NoCredentials):
        Source().current()


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/creds",
        "http://169.254.169.254/latest",
        "http://10.0.0.1/",
        "http://127.0.0.1.example.com/",
        "http://[::2]/",
    ],
)
def test_credentials_are_not_fetched_in_the_clear_from_elsewhere(
    url: str, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
    with pytest.raises(NoCredentials, match="loopback"):
        Source().current()


@pytest.mark.parametrize(
    "failing",
    [
        response(500),
        response(403),
        response(200, raw=b"no"),
        response(200, {"AccessKeyId": "a"}),
        response(200, raw=b"[]"),
        b"HTTP/1.1 ",
    ],
)
def test_a_container_that_fails_gives_no_credentials(server: Receiver, container: Container, failing: bytes) -> None:
    container.failing = failing
    with pytest.raises(NoCredentials):
        Source().current()


def test_credentials_that_cannot_be_renewed_are_used_until_they_expire(
    server: Receiver, container: Container, time: Clock
) -> None:
    source = Source()
    source.current()
    container.failing = response(500)
    time.forward(LASTS / clock.SECOND - 1)
    assert source.current().session_token == "token1"
    time.forward(1)
    with pytest.raises(NoCredentials):
        source.current()
    container.failing = None
    assert source.current().session_token == "token2"


def test_threads_fetch_credentials_once(server: Receiver, container: Container) -> None:
    source = Source()
    works: list[Callable[[], Any]] = [source.current] * 8
    assert {found.session_token for found in at_once(works)} == {"token1"}
    assert container.given == 1


@pytest.mark.parametrize("code", ["ExpiredTokenException", "UnrecognizedClientException"])
def test_a_call_with_expired_credentials_is_repeated_with_new_ones(
    code: str, server: Receiver, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: Request) -> bytes:
        return error(code) if request.headers["x-amz-security-token"] == "token1" else response()

    with endpoint(always(answer)) as dynamodb:
        monkeypatch.setenv("AWS_ENDPOINT_URL", dynamodb.url)
        with client(DYNAMODB) as ours:
            assert ours.call("GetItem", {}) == {}
            assert ours.call("GetItem", {}) == {}
    assert [request.headers["x-amz-security-token"] for request in dynamodb.requests] == ["token1", "token2", "token2"]


def test_credentials_that_stay_expired_are_replaced_once(
    server: Receiver, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint(always(lambda _: error("ExpiredTokenException"))) as dynamodb:
        monkeypatch.setenv("AWS_ENDPOINT_URL", dynamodb.url)
        with client(DYNAMODB) as ours, pytest.raises(AwsError, match="ExpiredTokenException"):
            ours.call("GetItem", {})
    assert len(dynamodb.requests) == 2


def test_expired_credentials_of_the_environment_have_no_successor(time: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(always(lambda _: error("ExpiredTokenException"))) as dynamodb:
        monkeypatch.setenv("AWS_ENDPOINT_URL", dynamodb.url)
        with client(DYNAMODB) as ours, pytest.raises(AwsError, match="ExpiredTokenException"):
            ours.call("GetItem", {})
    assert len(dynamodb.requests) == 1


def test_a_call_whose_credentials_cannot_be_had_is_unavailable(
    server: Receiver, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    container.failing = response(500)
    with client(DYNAMODB) as ours, pytest.raises(Unavailable, match="no credentials"):
        ours.call("GetItem", {})


def test_a_persons_profile_is_read_by_boto3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "credentials"
    file.write_text("[ada]\naws_access_key_id = AKIDADA\naws_secret_access_key = hidden\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "ada")
    assert Source().current().access_key_id == "AKIDADA"
