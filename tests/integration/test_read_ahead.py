"""Operations on one resource read it while the key is checked, if the container knows the key's project."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from shared.aws import client as aws_client
from shared.projects import api_keys
from shared.store.keys import Scope
from tests.support import rows
from tests.support.resources import created
from tests.support.stage import Stage

PHONE = "+15005550006"


class Gate(aws_client.Hook):
    """Lets the check of a key pass only after the read of a resource has begun, or the other way round."""

    def __init__(self, first: str) -> None:
        self._first = first
        self.passed = threading.Event()
        self.calls: list[str] = []

    def call(self, call: aws_client.Call, proceed: Callable[[aws_client.Call], Any]) -> Any:
        """Make the call when it is its turn."""
        self.calls.append(call.operation)
        if call.operation == self._first:
            self.passed.set()
        elif len(self.calls) <= 2:
            assert self.passed.wait(10), f"{call.operation} waits for {self._first}"
        return proceed(call)


@pytest.fixture
def customer(stage: Stage) -> str:
    """The path of a customer whose project's key this container knows."""
    return f"/v1/customers/{created(stage, '/v1/customers', phone=PHONE)['id']}"


@pytest.mark.parametrize("first", ["GetItem", "UpdateItem"])
@pytest.mark.parametrize(("method", "body"), [("GET", None), ("PATCH", {"name": "Ada"}), ("DELETE", None)])
def test_the_key_is_checked_and_the_resource_read_at_the_same_time(
    stage: Stage, customer: str, first: str, method: str, body: Any
) -> None:
    gate = Gate(first)
    with aws_client.hooked(gate):
        found = stage.call(method, customer, body)
    assert found.status == 200, found.body
    assert found.json["id"] in customer
    assert sorted(gate.calls[:2]) == ["GetItem", "UpdateItem"]


def test_the_first_request_with_a_key_checks_it_before_it_reads(stage: Stage) -> None:
    row = rows.customer(Scope(stage.project().id, False))
    rows.write([row])
    gate = Gate("UpdateItem")
    with aws_client.hooked(gate):
        assert stage.call("GET", f"/v1/customers/{row['sk']}").status == 200
    assert gate.calls == ["UpdateItem", "GetItem"]


def test_a_revoked_key_gets_nothing_of_what_was_read(stage: Stage, customer: str) -> None:
    project = stage.project()
    path = f"/v1/customers/{created(stage, '/v1/customers', phone=PHONE)['id']}"
    (key,) = [key for key in api_keys.of_project(project.id) if not key.livemode]
    api_keys.revoke(project.id, key.id)
    gate = Gate("GetItem")
    with aws_client.hooked(gate):
        refused = stage.call("GET", path)
    assert (refused.status, refused.code) == (401, "api_key_revoked")
    assert PHONE not in refused.body.decode()
    # Now the refusal is known.
    with aws_client.hooked(gate := Gate("GetItem")):
        assert stage.call("GET", path).code == "api_key_revoked"
    assert gate.calls == []


def test_a_key_reads_nothing_of_another_project(stage: Stage, customer: str) -> None:
    stage.project()
    created(stage, "/v1/customers", phone=PHONE)
    assert stage.call("GET", customer).code == "resource_not_found"


def test_an_id_that_is_none_is_not_read(stage: Stage, customer: str) -> None:
    with aws_client.hooked(gate := Gate("UpdateItem")):
        assert stage.call("GET", "/v1/customers/nobody").status == 404
    assert gate.calls == ["UpdateItem"]


def test_a_read_that_fails_is_the_error_of_the_request(stage: Stage, customer: str) -> None:
    class Broken(aws_client.Hook):
        def call(self, call: aws_client.Call, proceed: Callable[[aws_client.Call], Any]) -> Any:
            if call.operation == "GetItem":
                raise aws_client.Unavailable("throttled")
            return proceed(call)

    with aws_client.hooked(Broken()):
        found = stage.call("GET", customer)
    assert (found.status, found.code) == (503, "service_unavailable")
    assert stage.call("GET", customer).status == 200
