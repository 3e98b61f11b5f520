"""Operations on one resource read it while the key is checked, if the container knows the key's project.

That both are under way at once is tested in `tests/unit/aws_client/test_begun_calls.py`. Here a hook makes them follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shared.aws import client as aws_client
from shared.projects import api_keys
from shared.store import transactions
from shared.store.keys import Scope
from tests.support import rows
from tests.support.resources import create_resource
from tests.support.stage import Stage
from tests.support.wire import wire

PHONE = "+15005550006"


@pytest.fixture
def customer(stage: Stage) -> str:
    """The path of a customer whose project's key this container knows."""
    return f"/v1/customers/{create_resource(stage, '/v1/customers', phone=PHONE)['id']}"


def test_the_first_request_with_a_key_checks_it_before_it_reads(stage: Stage) -> None:
    row = rows.customer(Scope(stage.project().id, False))
    rows.write([row])
    with wire() as line:
        assert stage.call("GET", f"/v1/customers/{row['sk']}").status == 200
    assert line.operations() == ["UpdateItem", "GetItem"]


def test_a_revoked_key_gets_nothing_of_what_was_read(stage: Stage, customer: str) -> None:
    project = stage.project()
    path = f"/v1/customers/{create_resource(stage, '/v1/customers', phone=PHONE)['id']}"
    (key,) = [key for key in api_keys.of_project(project.id) if not key.livemode]
    transactions.commit(lambda: api_keys.revoke(project.id, key.id))
    refused = stage.call("GET", path)
    assert (refused.status, refused.code) == (401, "api_key_revoked")
    assert PHONE not in refused.body.decode()
    # Now the refusal is known.
    with wire() as line:
        assert stage.call("GET", path).code == "api_key_revoked"
    assert line.operations() == []


def test_a_key_reads_nothing_of_another_project(stage: Stage, customer: str) -> None:
    stage.project()
    create_resource(stage, "/v1/customers", phone=PHONE)
    assert stage.call("GET", customer).code == "resource_not_found"


def test_an_id_that_is_none_is_not_read(stage: Stage, customer: str) -> None:
    with wire() as line:
        assert stage.call("GET", "/v1/customers/nobody").status == 404
    assert line.operations() == ["UpdateItem"]


def test_a_read_that_fails_is_the_error_of_the_request(stage: Stage, customer: str) -> None:
    class Broken(aws_client.Hook):
        def call(self, call: aws_client.AwsCall, proceed: Callable[[aws_client.AwsCall], Any]) -> Any:
            if call.operation == "GetItem":
                raise aws_client.Unavailable("throttled")
            return proceed(call)

    with aws_client.hooked(Broken()):
        response = stage.call("GET", customer)
    assert (response.status, response.code) == (503, "service_unavailable")
    assert stage.call("GET", customer).status == 200
