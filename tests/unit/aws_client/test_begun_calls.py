"""Calls that are begun before another one, and whose responses are read after it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from functions import customers
from shared.aws import services
from shared.aws.client import DYNAMODB, AwsError, Hook, hooked
from tests.bench import canned_dynamodb, subjects
from tests.support.canned_aws import answer_always, client, endpoint, error, response, serving
from tests.support.concurrency import run_at_once
from tests.support.receivers import Behaviour, Exchange, Request, close_after_request, hang_after_request
from tests.support.wire import forget_clients

Use = Callable[[str], None]
GET = {"TableName": "table", "Key": {"pk": {"S": "a"}}}
FOUND = {"Item": {"pk": {"S": "a"}}}


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    return lambda url: monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", url)


def test_a_begun_call_has_its_response_while_another_has_been_made(use: Use) -> None:
    answers = {"GetItem": FOUND, "UpdateItem": {"Attributes": {}}}
    behaviour = answer_always(
        lambda request: response(200, answers[request.headers["x-amz-target"].rpartition(".")[2]])
    )
    with endpoint(behaviour) as server:
        use(server.url)
        with client(DYNAMODB) as ours:
            for _ in range(3):
                begun = ours.begin("GetItem", GET)
                assert ours.call("UpdateItem", {}) == {"Attributes": {}}
                assert begun.response() == FOUND
            assert server.connections == 2


@pytest.mark.parametrize("failure", [serving(error("InternalServerError", 500)), close_after_request])
def test_a_begun_call_is_retried(use: Use, failure: Behaviour) -> None:
    with endpoint(failure, serving(response(200, FOUND))) as server:
        use(server.url)
        with client(DYNAMODB) as ours:
            assert ours.begin("GetItem", GET).response() == FOUND


def test_a_begun_call_on_a_kept_connection_that_has_closed_is_sent_again(use: Use) -> None:
    with endpoint(serving(response(200, FOUND)), serving(response(200, FOUND))) as server:
        use(server.url)
        with client(DYNAMODB) as ours:
            assert ours.call("GetItem", GET) == FOUND
            assert ours.begin("GetItem", GET).response() == FOUND


def test_a_begun_call_that_is_refused_raises_what_a_call_raises(use: Use) -> None:
    with endpoint(serving(error("ValidationException"))) as server:
        use(server.url)
        with client(DYNAMODB) as ours, pytest.raises(AwsError) as failed:
            ours.begin("GetItem", GET).response()
    assert failed.value.code == "ValidationException"


def test_an_endpoint_that_refuses_connections_fails_when_the_response_is_read(use: Use) -> None:
    with endpoint(serving(response(200, FOUND))) as server:
        url = server.url
    use(url)
    with client(DYNAMODB) as ours:
        begun = ours.begin("GetItem", GET)
        with pytest.raises(services.Unavailable, match="connect_failed"):
            begun.response()


def test_the_end_of_an_unread_call_keeps_the_connection_if_its_response_is_there(use: Use) -> None:
    sent = threading.Event()

    def behave(exchange: Exchange) -> None:
        while True:
            exchange.read_request()
            exchange.send(response(200, FOUND))
            sent.set()

    with endpoint(behave) as server:
        use(server.url)
        with client(DYNAMODB) as ours:
            begun = ours.begin("GetItem", GET)
            assert sent.wait(10)
            begun.end()
            assert ours.call("GetItem", GET) == FOUND
            assert server.connections == 1


def test_the_end_of_an_unread_call_waits_for_nothing(use: Use) -> None:
    with endpoint(hang_after_request, serving(response(200, FOUND))) as server:
        use(server.url)
        with client(DYNAMODB) as ours:
            ours.begin("GetItem", GET).end()
            assert ours.call("GetItem", GET) == FOUND
            assert server.connections == 2


@pytest.mark.parametrize("follows", [True, False])
def test_with_a_hook_a_begun_call_is_sent_later_unless_the_hook_need_not_see_one_after_another(
    use: Use, follows: bool
) -> None:
    sent = threading.Event()

    def answer(request: Request) -> bytes:
        sent.set()
        return response(200, FOUND)

    class Watching(Hook):
        one_at_a_time = follows

    with endpoint(answer_always(answer)) as server, hooked(Watching()):
        use(server.url)
        with client(DYNAMODB) as ours:
            begun = ours.begin("GetItem", GET)
            assert not sent.is_set() if follows else sent.wait(10)
            assert begun.response() == FOUND


@pytest.mark.parametrize("task", ["GET", "PATCH"])
def test_the_key_is_checked_and_the_resource_read_at_the_same_time(
    use: Use, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    both_sent = threading.Barrier(2)
    together = False

    def answer(request: Request) -> bytes:
        operation = request.headers["x-amz-target"].rpartition(".")[2]
        if together and (operation == "GetItem" or b"KEY#" in request.body):
            both_sent.wait(10)
        return canned_dynamodb.answer(request)

    def send() -> Any:
        method, path, body, key, _ = subjects.TASKS[task]
        return customers.handler(subjects.event(method, path, body, key), subjects.Context())

    monkeypatch.setenv("TABLE_NAME", "table")
    with endpoint(answer_always(answer)) as server:
        use(server.url)
        forget_clients()
        # Only a container that knows the key's project reads ahead.
        assert run_at_once([send])[0]["statusCode"] == 200
        together = True
        assert run_at_once([send])[0]["statusCode"] == 200
        forget_clients()
