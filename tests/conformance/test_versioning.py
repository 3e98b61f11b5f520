"""Promises 1: the dated revision of a request."""

from __future__ import annotations

import pytest

from tests.support.client import REVISIONS, Client, assert_error
from tests.support.client_actions import create_customer, event_about


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_known_revision_is_echoed(client: Client, revision: str) -> None:
    response = client.get("/v1/ping", headers={"Service-Version": revision})
    response.ok()
    assert response.headers["Service-Version"] == revision


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_error_echoes_the_revision_too(client: Client, revision: str) -> None:
    response = client.post("/v1/customers", {}, headers={"Service-Version": revision})
    assert_error(response, 400, "parameter_missing")
    assert response.headers["Service-Version"] == revision


def test_without_the_header_the_newest_revision_applies(client: Client) -> None:
    assert client.get("/v1/ping").headers["Service-Version"] == REVISIONS[-1]


@pytest.mark.parametrize("revision", ["2026-06-02", "2027-01-01", "latest", "2026-6-1", "v1", "2026-08-22 x"])
def test_an_unknown_revision_is_refused(client: Client, revision: str) -> None:
    assert_error(client.get("/v1/ping", headers={"Service-Version": revision}), 400, "api_version_invalid")


def test_all_revisions_render_alike(client: Client) -> None:
    path = f"/v1/customers/{create_customer(client)['id']}"
    bodies = [client.get(path, headers={"Service-Version": revision}).body for revision in REVISIONS]
    assert bodies[0] == bodies[1] == bodies[2]


def test_an_event_carries_the_newest_revision_whatever_the_request_asked_for(client: Client) -> None:
    response = client.post("/v1/customers", {"phone": "+14155550111"}, headers={"Service-Version": REVISIONS[0]})
    assert event_about(client, response.ok(201)["id"], "customer.created")["api_version"] == REVISIONS[-1]
