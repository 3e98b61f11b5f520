"""Promises 1: what belongs to another project or mode does not exist for a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.client import Client, Response, assert_error
from tests.support.client_actions import UNKNOWN, create_appointment, create_customer, event_about, unique
from tests.support.runner import subscriptions

STRANGERS = ["live", "other", "other_live"]


@pytest.fixture(scope="module")
def own_resources(client: Client) -> Iterator[dict[str, Any]]:
    """One resource of each kind in the first project's test mode."""
    external_id = unique()
    customer = create_customer(client, external_id=external_id)
    appointment = create_appointment(client, customer["id"], external_id=external_id)
    with subscriptions() as subscribe:
        endpoint = subscribe(client, "https://example.com/", enabled=False, label=external_id)
        event = event_about(client, customer["id"], "customer.created")
        yield {"cust": customer, "appt": appointment, "whk": endpoint, "evt": event}


@pytest.fixture(params=STRANGERS)
def stranger(request: pytest.FixtureRequest) -> Client:
    found: Client = request.getfixturevalue(request.param)
    return found


REQUESTS = [
    ("GET", "/v1/customers/{cust}", None),
    ("PATCH", "/v1/customers/{cust}", {"name": "Eve"}),
    ("DELETE", "/v1/customers/{cust}", None),
    ("GET", "/v1/appointments/{appt}", None),
    ("PATCH", "/v1/appointments/{appt}", {"status": "cancelled"}),
    ("DELETE", "/v1/appointments/{appt}", None),
    ("GET", "/v1/webhook_endpoints/{whk}", None),
    ("PATCH", "/v1/webhook_endpoints/{whk}", {"label": "Eve"}),
    ("POST", "/v1/webhook_endpoints/{whk}/test", None),
    ("POST", "/v1/webhook_endpoints/{whk}/rotate_secret", None),
    ("DELETE", "/v1/webhook_endpoints/{whk}", None),
    ("GET", "/v1/events/{evt}", None),
    ("GET", "/v1/events/{evt}/deliveries", None),
]


@pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
def test_a_foreign_resource_answers_as_an_unknown_one(
    own_resources: dict[str, Any], stranger: Client, method: str, path: str, body: object
) -> None:
    def ask(ids: dict[str, str]) -> tuple[int, Any, Response]:
        response = stranger.request(method, path.format(**ids), json_body=body)
        assert_error(response, 404, "resource_not_found")
        text = response.body.decode().replace(response.request_id, "<request>")
        for name in ids:
            text = text.replace(ids[name], f"<{name}>")
        return response.status, text, response

    foreign = ask({name: resource["id"] for name, resource in own_resources.items()})
    unknown = ask({name: f"{name}_{UNKNOWN}" for name in own_resources})
    assert foreign[:2] == unknown[:2]
    names = {"service-request-id", "ratelimit", "date", "content-length"}
    for response in (foreign[2], unknown[2]):
        assert "Service-Request-Id" in response.headers
    kept = [
        {
            name.lower(): value
            for name, value in response.headers.items()
            # API Gateway adds ids of its own.
            if name.lower() not in names and not name.lower().startswith("x-amz")
        }
        for response in (foreign[2], unknown[2])
    ]
    assert kept[0] == kept[1]


def test_what_strangers_tried_changed_nothing(client: Client, own_resources: dict[str, Any], stranger: Client) -> None:
    for method, path, body in REQUESTS:
        stranger.request(
            method, path.format(**{name: one["id"] for name, one in own_resources.items()}), json_body=body
        )
    for path, name in (
        ("customers", "cust"),
        ("appointments", "appt"),
        ("webhook_endpoints", "whk"),
        ("events", "evt"),
    ):
        found = client.get(f"/v1/{path}/{own_resources[name]['id']}").ok()
        assert found == {key: value for key, value in own_resources[name].items() if key != "secret"}


@pytest.mark.parametrize("path", ["/v1/customers", "/v1/appointments", "/v1/webhook_endpoints", "/v1/events"])
def test_a_list_shows_only_its_own(own_resources: dict[str, Any], stranger: Client, path: str) -> None:
    found = {item["id"] for item in stranger.get(path, {"limit": 100}).ok()["data"]}
    assert not found & {resource["id"] for resource in own_resources.values()}


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/v1/customers", {"external_id": "{external_id}"}),
        ("/v1/customers", {"phone": "{phone}"}),
        ("/v1/appointments", {"external_id": "{external_id}"}),
        ("/v1/appointments", {"customer_id": "{customer_id}"}),
        ("/v1/events", {"object_id": "{customer_id}"}),
    ],
)
def test_a_filter_finds_only_its_own(
    client: Client, own_resources: dict[str, Any], stranger: Client, path: str, params: dict[str, str]
) -> None:
    customer = own_resources["cust"]
    values = {
        "external_id": customer["external_id"],
        "phone": customer["phone"],
        "customer_id": customer["id"],
    }
    filled = {name: value.format(**values) for name, value in params.items()}
    assert client.get(path, filled).ok()["data"]
    assert stranger.get(path, filled).ok()["data"] == []


def test_a_foreign_cursor_shows_nothing_foreign(own_resources: dict[str, Any], stranger: Client) -> None:
    params = {"starting_after": own_resources["appt"]["id"]}
    found = {item["id"] for item in stranger.get("/v1/appointments", params).ok()["data"]}
    assert own_resources["appt"]["id"] not in found


def test_an_appointment_cannot_be_made_for_a_foreign_customer(own_resources: dict[str, Any], stranger: Client) -> None:
    body = {"customer_id": own_resources["cust"]["id"], "appointment_at": "2030-01-01T00:00:00Z"}
    foreign = stranger.post("/v1/appointments", body)
    assert_error(foreign, 400, "resource_not_found", param="customer_id")
    unknown = stranger.post("/v1/appointments", body | {"customer_id": f"cust_{UNKNOWN}"})
    texts = [
        response.body.decode().replace(response.request_id, "").replace(customer_id, "")
        for response, customer_id in ((foreign, own_resources["cust"]["id"]), (unknown, f"cust_{UNKNOWN}"))
    ]
    assert texts[0] == texts[1]


def test_each_mode_and_project_keeps_its_own_list(
    client: Client, live: Client, other: Client, other_live: Client
) -> None:
    made = {caller: create_customer(caller)["id"] for caller in (client, live, other, other_live)}
    for caller, customer_id in made.items():
        listed = {item["id"] for item in caller.get("/v1/customers", {"limit": 100}).ok()["data"]}
        assert listed & set(made.values()) == {customer_id}
