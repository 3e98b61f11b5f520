"""What a key may do and how long: keys with an end, and read-only keys."""

from __future__ import annotations

import pytest

from shared.core import clock
from shared.projects import api_keys
from tests.support import privileges
from tests.support.clocks import Clock
from tests.support.keys import new_key
from tests.support.resources import create_resource
from tests.support.stage import Stage


def key(project: int, *, read_only: bool = False, valid_s: int | None = None) -> str:
    """The plaintext of a new test key of the project."""
    with privileges.running(None):
        ends_at_ms = None if valid_s is None else clock.now() + valid_s * clock.SECOND
        return new_key(project, read_only=read_only, valid_until=ends_at_ms)


def test_a_key_is_refused_from_its_end_on(stage: Stage, stopped_clock: Clock) -> None:
    ending = key(stage.project().id, valid_s=60)
    assert stage.call("GET", "/v1/ping", key=ending).status == 200
    stopped_clock.forward(59.9)
    assert stage.call("GET", "/v1/ping", key=ending).status == 200
    stopped_clock.forward(0.1)
    for _ in range(2):  # The second refusal is from memory.
        refused = stage.call("GET", "/v1/ping", key=ending)
        assert (refused.status, refused.code) == (401, "api_key_expired")
        assert refused.headers["www-authenticate"] == "Bearer"


def test_the_last_use_is_that_before_the_end(stage: Stage, stopped_clock: Clock) -> None:
    project = stage.project().id
    ending = key(project, valid_s=60)
    stage.call("GET", "/v1/ping", key=ending)
    with privileges.running(None):
        [used] = [one.last_used_at for one in api_keys.of_project(project) if one.expires_at]
    stopped_clock.forward(600)
    assert stage.call("GET", "/v1/ping", key=ending).status == 401
    with privileges.running(None):
        [last] = [one for one in api_keys.of_project(project) if one.expires_at]
    assert (last.last_used_at, last.has_expired) == (used, True)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/customers"),
        ("PATCH", "/v1/customers/{id}"),
        ("DELETE", "/v1/customers/{id}"),
        ("POST", "/v1/customers/{id}/opt_in"),
    ],
)
def test_a_read_only_key_gets_and_changes_nothing(stage: Stage, method: str, path: str) -> None:
    project = stage.project()
    customer = create_resource(stage, "/v1/customers", phone="+15005550006", name="Ada")
    reading = key(project.id, read_only=True)
    assert stage.call("GET", f"/v1/customers/{customer['id']}", key=reading).json == customer
    assert stage.call("GET", "/v1/customers", key=reading).status == 200
    assert stage.call("HEAD", "/v1/customers", key=reading).status == 200
    refused = stage.call(method, path.replace("{id}", customer["id"]), {"name": "Bob"}, key=reading)
    assert (refused.status, refused.code) == (403, "permission_denied")
    assert "ratelimit" in refused.headers
    assert stage.call("GET", "/v1/customers").json["data"] == [customer]


def test_that_a_key_is_read_only_is_said_before_what_else_is_wrong(stage: Stage) -> None:
    reading = key(stage.project().id, read_only=True)
    wrong = {"Service-Version": "1999-01-01", "Idempotency-Key": "", "Content-Type": "text/plain"}
    refused = stage.call("POST", "/v1/customers", key=reading, raw="{", headers=wrong)
    assert (refused.status, refused.code) == (403, "permission_denied")
    assert stage.call("PUT", "/v1/customers", key=reading).status == 405, "the route comes first"
