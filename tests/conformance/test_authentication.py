"""Promises 0: API keys, and ping."""

from __future__ import annotations

import pytest

from tests.support.client import Client, assert_error
from tests.support.runner import Service


@pytest.mark.smoke
def test_ping_tells_the_project_and_mode_behind_each_key(service: Service) -> None:
    for project in service.projects:
        for key, livemode in ((project.test_key, False), (project.live_key, True)):
            if not key:
                continue
            response = service.client(key).get("/v1/ping")
            assert response.ok() == {
                "object": "ping",
                "project_id": project.project_id,
                "project_name": project.name,
                "livemode": livemode,
                "request_id": response.request_id,
            }


def test_a_project_id_is_an_integer(client: Client) -> None:
    assert type(client.get("/v1/ping").ok()["project_id"]) is int


def test_keys_show_their_mode_in_their_prefix(service: Service) -> None:
    for project in service.projects:
        assert project.test_key.startswith("sk_test_")
        assert project.live_key.startswith("sk_live_")


@pytest.mark.smoke
@pytest.mark.parametrize("path", ["/v1/ping", "/v1/customers", "/v1/appointments", "/v1/webhook_endpoints"])
def test_without_a_key_nothing_is_answered(anonymous: Client, path: str) -> None:
    response = anonymous.get(path)
    error = assert_error(response, 401, "api_key_missing")
    assert error["type"] == "authentication_error"
    assert response.challenge == "Bearer"


@pytest.mark.smoke
@pytest.mark.parametrize(
    "key",
    [
        "sk_test_0000000000000000000000000000000000000000",
        "sk_live_0000000000000000000000000000000000000000",
        "sk_test_",
        "nonsense",
        "sk_test_" + "a" * 4000,
        "sk_test_\xe9\xe9\xe9",
    ],
)
def test_an_unknown_key_is_refused(service: Service, key: str) -> None:
    response = service.client(key).get("/v1/ping")
    error = assert_error(response, 401, "api_key_invalid")
    assert error["type"] == "authentication_error"
    assert response.challenge == "Bearer"


def test_a_test_key_with_a_live_prefix_is_refused(service: Service) -> None:
    swapped = service.projects[0].test_key.replace("sk_test_", "sk_live_")
    assert_error(service.client(swapped).get("/v1/ping"), 401, "api_key_invalid")


def test_a_key_cut_short_or_longer_is_refused(service: Service) -> None:
    key = service.projects[0].test_key
    for changed in (key[:-1], key + "0", key.upper()):
        assert_error(service.client(changed).get("/v1/ping"), 401, "api_key_invalid")


@pytest.mark.parametrize("header", ["Basic c2tfdGVzdF86", "Bearer", "Bearer ", "Token {key}", "{key}"])
def test_only_the_bearer_scheme_carries_a_key(service: Service, anonymous: Client, header: str) -> None:
    value = header.replace("{key}", service.projects[0].test_key)
    response = anonymous.get("/v1/ping", headers={"Authorization": value})
    assert_error(response, 401, {"api_key_missing", "api_key_invalid"})


def test_the_scheme_name_is_case_insensitive(service: Service, anonymous: Client) -> None:
    value = f"bearer {service.projects[0].test_key}"
    anonymous.get("/v1/ping", headers={"Authorization": value}).ok()


def test_a_key_in_the_query_does_not_authenticate(service: Service, anonymous: Client) -> None:
    for name in ("api_key", "key", "access_token"):
        assert anonymous.get("/v1/ping", {name: service.projects[0].test_key}).status == 401


def test_a_refusal_does_not_repeat_the_key(service: Service) -> None:
    key = "sk_test_thisisnotakeyofanyproject"
    assert key.encode() not in service.client(key).get("/v1/ping").body
