"""Promises 9: webhook endpoints, their addresses, filters and secrets."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from tests.support.client import Client, assert_error
from tests.support.client_actions import (
    UNKNOWN,
    Subscribe,
    create_customer,
    delivery_has_ended,
    delivery_when,
    event_about,
    settle,
    unique,
)
from tests.support.receivers import answer
from tests.support.signed_receiver import (
    Receiver,
    service_signature_is_valid,
    standard_signature_is_valid,
)

URL = "https://hooks.example.com/in?tenant=1"


def without_secret(endpoint: Any) -> Any:
    return {name: value for name, value in endpoint.items() if name != "secret"}


def test_an_endpoint_is_created_with_all_its_fields(client: Client, subscribe: Subscribe) -> None:
    endpoint = subscribe(client, URL, "appointment.*", label="CRM", description="Sync", enabled=False)
    assert endpoint["url"] == URL
    assert endpoint["event_filters"] == ["appointment.*"]
    assert (endpoint["label"], endpoint["description"]) == ("CRM", "Sync")
    assert endpoint["enabled"] is False
    assert endpoint["livemode"] is False
    assert client.get(f"/v1/webhook_endpoints/{endpoint['id']}").ok() == without_secret(endpoint)


def test_only_the_url_is_required(client: Client, receiver: Receiver) -> None:
    endpoint = client.post("/v1/webhook_endpoints", {"url": receiver.hook().url}).ok(201)
    client.delete(f"/v1/webhook_endpoints/{endpoint['id']}").ok()
    assert endpoint["enabled"] is True
    assert endpoint["event_filters"] == []
    for name in ("label", "description", "disabled_at", "disabled_reason"):
        assert endpoint[name] is None


def test_a_live_key_makes_live_endpoints(live: Client, subscribe: Subscribe) -> None:
    assert subscribe(live, URL, enabled=False)["livemode"] is True


# Addresses


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "https://example.com/",
        "https://example.com:8443/a/b?c=d&e=%20",
        "HTTPS://EXAMPLE.COM/x",
        "https://93.184.216.34/hook",
        "https://[2606:2800:220:1:248:1893:25c8:1946]/hook",
        "https://bücher.example.com/",
        "https://example.com/" + "x" * (2048 - 20),
    ],
)
def test_a_public_https_address_is_accepted(client: Client, subscribe: Subscribe, url: str) -> None:
    assert subscribe(client, url, enabled=False)["url"]


REFUSED = [
    "",
    "nonsense",
    "example.com/hook",
    "//example.com/hook",
    "https://",
    "https:///hook",
    "https:example.com",
    "http://example.com/hook",
    "ftp://example.com/hook",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "https://user:secret@example.com/",
    "https://user@example.com/",
    "https://example.com/#part",
    "https://exa mple.com/",
    "https://example.com/a b",
    "https://example.com/\n",
    "https://example.com:0/",
    "https://example.com:99999/",
    "https://example.com:abc/",
    "https://example.com/" + "x" * (2049 - 20),
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.168.1.1/",
    "https://169.254.169.254/latest/meta-data",
    "https://100.64.0.1/",
    "https://0.0.0.0/",
    "https://192.0.2.1/",
    "https://198.18.0.1/",
    "https://224.0.0.1/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    "https://[::]/",
    "https://[fe80::1]/",
    "https://[fc00::1]/",
    "https://[fd12:3456:789a::1]/",
    "https://[ff02::1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://[64:ff9b::a00:1]/",
    "https://[2001:db8::1]/",
    "https://167772161/",
    "https://0x0a000001/",
    "https://10.1/",
    "https://012.0.0.1/",
    "https://10.0.0.1./",
    "http://10.0.0.1/",
    "http://192.168.1.1:8080/",
    "https://hooks.invalid/",
    "https://printer.local/",
]


@pytest.mark.parametrize("url", REFUSED)
def test_any_other_address_is_refused(client: Client, subscribe: Subscribe, url: str) -> None:
    response = client.post("/v1/webhook_endpoints", {"url": url, "enabled": False})
    if response.status == 201:
        client.delete(f"/v1/webhook_endpoints/{response.json['id']}")
    error = assert_error(response, 400, {"url_invalid", "parameter_invalid"}, param="url")
    assert error["code"] == "url_invalid" or not url.isprintable()


def test_a_patch_judges_the_address_too(client: Client, subscribe: Subscribe) -> None:
    path = f"/v1/webhook_endpoints/{subscribe(client, URL, enabled=False)['id']}"
    for url in ("https://10.0.0.1/", "http://example.com/", "https://example.com/#x", "https://[fc00::1]/"):
        assert_error(client.patch(path, {"url": url}), 400, "url_invalid", param="url")
    assert client.get(path).ok()["url"] == URL


@pytest.mark.parametrize("url", [1, True, ["https://example.com/"]])
def test_an_address_that_is_no_string_is_refused(client: Client, url: object) -> None:
    response = client.post("/v1/webhook_endpoints", {"url": url})
    assert_error(response, 400, {"url_invalid", "parameter_invalid"}, param="url")


# Filters


KNOWN_FILTERS = [
    *(f"appointment.{kind}" for kind in ("created", "confirmed", "rescheduled", "cancelled", "failed", "*")),
    *(f"customer.{kind}" for kind in ("created", "updated", "deleted", "*")),
    "session.*",
]


def test_known_types_and_wildcards_are_accepted(client: Client, subscribe: Subscribe) -> None:
    endpoint = subscribe(client, URL, *KNOWN_FILTERS, enabled=False)
    assert endpoint["event_filters"] == KNOWN_FILTERS


@pytest.mark.parametrize(
    "event_filter",
    [
        "",
        "*",
        "appointment",
        "appointment.",
        "appointment*",
        "appointment.done",
        "Appointment.*",
        "message.*",
        "a.b.*",
    ],
)
def test_another_filter_is_refused(client: Client, event_filter: str) -> None:
    body = {"url": URL, "enabled": False, "event_filters": ["customer.*", event_filter]}
    assert_error(client.post("/v1/webhook_endpoints", body), 400, "event_filter_invalid", param="event_filters[1]")


def test_filters_must_be_a_list_of_strings(client: Client) -> None:
    for filters in ("appointment.*", {"0": "appointment.*"}, [1], [["appointment.*"]]):
        body = {"url": URL, "enabled": False, "event_filters": filters}
        response = client.post("/v1/webhook_endpoints", body)
        assert_error(response, 400, {"event_filter_invalid", "parameter_invalid"})


# Changes


def test_a_patch_changes_what_it_names_and_keeps_the_rest(client: Client, subscribe: Subscribe) -> None:
    before = without_secret(subscribe(client, URL, "customer.*", label="CRM", enabled=False))
    path = f"/v1/webhook_endpoints/{before['id']}"
    changes: list[dict[str, object]] = [
        {"label": "ERP"},
        {"label": None},
        {"description": "d"},
        {"url": "https://example.org/new"},
        {"event_filters": ["appointment.confirmed"]},
        {"event_filters": []},
    ]
    for change in changes:
        after = client.patch(path, change).ok()
        assert after == before | change | {"updated_at": after["updated_at"]}
        assert after["updated_at"] > before["updated_at"]
        assert client.get(path).ok() == after
        before = after
    assert client.patch(path, {}).ok() == before
    assert client.patch(path, {"description": "d"}).ok() == before


def test_null_clears_the_filters(client: Client, subscribe: Subscribe) -> None:
    path = f"/v1/webhook_endpoints/{subscribe(client, URL, 'customer.*', enabled=False)['id']}"
    assert client.patch(path, {"event_filters": None}).ok()["event_filters"] == []


def test_disabling_by_hand_is_shown_and_undone(client: Client, subscribe: Subscribe, receiver: Receiver) -> None:
    endpoint = subscribe(client, receiver.hook(), "session.*")
    path = f"/v1/webhook_endpoints/{endpoint['id']}"
    disabled = client.patch(path, {"enabled": False}).ok()
    assert disabled["enabled"] is False
    assert disabled["disabled_at"] is not None
    assert disabled["disabled_reason"] == "manual"
    enabled = client.patch(path, {"enabled": True}).ok()
    assert enabled["enabled"] is True
    assert enabled["disabled_at"] is enabled["disabled_reason"] is None


@pytest.mark.parametrize("value", ["true", 1, "yes"])
def test_enabled_is_a_boolean(client: Client, value: object) -> None:
    response = client.post("/v1/webhook_endpoints", {"url": URL, "enabled": value})
    assert_error(response, 400, "parameter_invalid", param="enabled")


def test_a_deleted_endpoint_is_gone(client: Client, subscribe: Subscribe) -> None:
    endpoint = subscribe(client, URL, enabled=False)
    path = f"/v1/webhook_endpoints/{endpoint['id']}"
    answer = client.delete(path).ok()
    assert answer == {"id": endpoint["id"], "object": "webhook_endpoint", "deleted": True}
    for response in (
        client.get(path),
        client.patch(path, {"label": "x"}),
        client.delete(path),
        client.post(f"{path}/test"),
        client.post(f"{path}/rotate_secret"),
    ):
        assert_error(response, 404, "resource_not_found")
    listed = client.get("/v1/webhook_endpoints", {"limit": 100}).ok()["data"]
    assert endpoint["id"] not in [item["id"] for item in listed]


def test_there_are_at_most_16_endpoints_in_a_project_and_mode(
    other: Client, other_live: Client, subscribe: Subscribe
) -> None:
    before = len(other_live.get("/v1/webhook_endpoints", {"limit": 100}).ok()["data"])
    made = [subscribe(other_live, URL, enabled=False) for _ in range(16 - before)]
    body = {"url": URL, "enabled": False}
    for _ in range(2):
        error = assert_error(other_live.post("/v1/webhook_endpoints", body), 409, "webhook_endpoint_limit")
        assert error["type"] == "conflict_error"
    assert len(other_live.get("/v1/webhook_endpoints", {"limit": 100}).ok()["data"]) == 16
    subscribe(other, URL, enabled=False)
    other_live.delete(f"/v1/webhook_endpoints/{made[0]['id']}").ok()
    key = unique()
    first = other_live.post("/v1/webhook_endpoints", body, idempotency_key=key)
    try:
        # The sixteenth is made again, and its retry replays although the limit is reached now.
        again = other_live.post("/v1/webhook_endpoints", body, idempotency_key=key)
        assert (again.status, again.body, again.replayed) == (201, first.body, True)
        assert_error(other_live.post("/v1/webhook_endpoints", body), 409, "webhook_endpoint_limit")
    finally:
        other_live.delete(f"/v1/webhook_endpoints/{first.ok(201)['id']}")


# Secrets


def test_a_secret_has_its_shape_and_is_shown_once(client: Client, subscribe: Subscribe) -> None:
    endpoint = subscribe(client, URL, enabled=False)
    secret = endpoint["secret"]
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", secret)
    assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 32
    assert endpoint["secret_prefix"] == secret[:13]
    path = f"/v1/webhook_endpoints/{endpoint['id']}"
    for response in (
        client.get(path),
        client.patch(path, {"label": "x"}),
        client.get("/v1/webhook_endpoints", {"limit": 100}),
    ):
        response.ok()
        assert secret.encode() not in response.body
        assert b'"secret"' not in response.body


def test_no_two_endpoints_share_a_secret(client: Client, subscribe: Subscribe) -> None:
    secrets = {subscribe(client, URL, enabled=False)["secret"] for _ in range(3)}
    assert len(secrets) == 3


def test_rotating_gives_a_new_secret_once(client: Client, subscribe: Subscribe) -> None:
    endpoint = subscribe(client, URL, enabled=False)
    path = f"/v1/webhook_endpoints/{endpoint['id']}"
    response = client.post(f"{path}/rotate_secret")
    rotated = response.ok()
    assert rotated["secret"] != endpoint["secret"]
    assert rotated["secret_prefix"] == rotated["secret"][:13]
    changed = {name: rotated[name] for name in ("secret", "secret_prefix", "updated_at")}
    assert rotated == endpoint | changed
    assert client.get(path).ok() == without_secret(rotated)


def test_rotating_the_secret_of_an_unknown_endpoint_is_not_found(client: Client) -> None:
    for endpoint_id in (f"whk_{UNKNOWN}", "nonsense"):
        response = client.post(f"/v1/webhook_endpoints/{endpoint_id}/rotate_secret")
        assert_error(response, 404, "resource_not_found")


def test_after_rotating_only_the_new_secret_signs(client: Client, subscribe: Subscribe, receiver: Receiver) -> None:
    hook = receiver.hook()
    endpoint = subscribe(client, hook, "customer.created")
    before = hook.wait_about(create_customer(client)["id"])[0]
    assert service_signature_is_valid(before, endpoint["secret"])
    rotated = client.post(f"/v1/webhook_endpoints/{endpoint['id']}/rotate_secret").ok()
    after = hook.wait_about(create_customer(client)["id"])[0]
    for valid in (service_signature_is_valid, standard_signature_is_valid):
        assert valid(after, rotated["secret"])
        assert not valid(after, endpoint["secret"])


def test_an_attempt_after_a_rotation_is_signed_with_the_new_secret(
    client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    hook = receiver.hook(500)
    endpoint = subscribe(client, hook, "customer.created")
    customer_id = create_customer(client)["id"]
    hook.wait_about(customer_id)
    rotated = client.post(f"/v1/webhook_endpoints/{endpoint['id']}/rotate_secret").ok()
    later = hook.wait_about(customer_id, 4, timeout=30)
    assert service_signature_is_valid(later[0], endpoint["secret"])
    assert service_signature_is_valid(later[-1], rotated["secret"])
    assert not service_signature_is_valid(later[-1], endpoint["secret"])


@pytest.mark.parametrize("seconds", [-1, 86_401, "60", 1.5, True, []])
def test_a_previous_secret_is_valid_for_a_day_at_most(client: Client, subscribe: Subscribe, seconds: Any) -> None:
    code = "parameter_invalid" if seconds in (-1, 86_401) else "parameter_invalid_integer"
    path = f"/v1/webhook_endpoints/{subscribe(client, URL, enabled=False)['id']}"
    before = client.get(path).ok()
    response = client.post(f"{path}/rotate_secret", {"previous_secret_valid_seconds": seconds})
    assert_error(response, 400, code, param="previous_secret_valid_seconds")
    assert client.get(path).ok() == before


def test_a_rotation_under_traffic_loses_no_event(client: Client, subscribe: Subscribe, receiver: Receiver) -> None:
    hook = receiver.hook()
    endpoint = subscribe(client, hook, "customer.created")
    path = f"/v1/webhook_endpoints/{endpoint['id']}"
    customers = [create_customer(client)["id"] for _ in range(3)]
    rotated = client.post(f"{path}/rotate_secret", {"previous_secret_valid_seconds": 86_400}).ok()
    assert client.get(path).ok() == without_secret(rotated)
    customers += [create_customer(client)["id"] for _ in range(3)]
    received = [hook.wait_about(customer_id)[0] for customer_id in customers]
    for valid in (service_signature_is_valid, standard_signature_is_valid):
        assert all(valid(one, endpoint["secret"]) for one in received), "a receiver that has the previous secret"
        assert all(valid(one, rotated["secret"]) for one in received[3:]), "a receiver that has the new secret"


def test_deliveries_of_an_endpoint_that_was_deleted_while_two_secrets_were_valid_are_shown(
    client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    endpoint = subscribe(client, receiver.hook(answer(503)))
    path = f"/v1/webhook_endpoints/{endpoint['id']}"
    delivery = client.post(f"{path}/test").ok(202)
    client.post(f"{path}/rotate_secret", {"previous_secret_valid_seconds": 86_400}).ok()
    client.delete(path).ok()
    shown = client.get(f"/v1/events/{delivery['event_id']}/deliveries").ok()["data"]
    assert [one["id"] for one in shown] == [delivery["id"]]
    retried = client.post(f"/v1/events/{delivery['event_id']}/deliveries/{delivery['id']}/retry")
    assert_error(retried, 404, "resource_not_found")


# The synthetic event


def test_the_test_operation_delivers_a_synthetic_event(
    client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    hook, bystander = receiver.hook(), receiver.hook()
    # Filters don't matter to it, and nobody else hears of it.
    endpoint = subscribe(client, hook, "session.*")
    subscribe(client, bystander)
    delivery = client.post(f"/v1/webhook_endpoints/{endpoint['id']}/test").ok(202)
    assert delivery["trigger"] == "test"
    assert delivery["status"] == "attempting"
    assert delivery["event_type"] == "appointment.created"
    assert delivery["webhook_endpoint_id"] == endpoint["id"]
    assert delivery["livemode"] is False
    (received,) = hook.wait()
    assert service_signature_is_valid(received, endpoint["secret"])
    assert received.event["id"] == delivery["event_id"]
    assert received.event["type"] == "appointment.created"
    assert set(received.event["data"]) == {"object"}
    appointment = received.event["data"]["object"]
    assert_error(client.get(f"/v1/appointments/{appointment['id']}"), 404, "resource_not_found")
    assert client.get(f"/v1/events/{delivery['event_id']}").ok() == received.event
    listed = client.get("/v1/events", {"limit": 20}).ok()["data"]
    assert received.event in listed
    done = delivery_when(client, delivery, delivery_has_ended)
    assert (done["status"], done["attempt_count"]) == ("succeeded", 1)
    last = create_customer(client)
    bystander.wait_about(last["id"])
    assert bystander.about(appointment["id"]) == []


def test_the_test_operation_needs_an_enabled_endpoint(client: Client, subscribe: Subscribe) -> None:
    endpoint = subscribe(client, URL, enabled=False)
    response = client.post(f"/v1/webhook_endpoints/{endpoint['id']}/test")
    error = assert_error(response, 409, "webhook_endpoint_disabled")
    assert error["type"] == "conflict_error"


def test_the_test_operation_on_an_unknown_endpoint_is_not_found(client: Client) -> None:
    response = client.post(f"/v1/webhook_endpoints/whk_{UNKNOWN}/test")
    assert_error(response, 404, "resource_not_found")


def test_events_of_before_an_endpoint_do_not_reach_it(client: Client, subscribe: Subscribe, receiver: Receiver) -> None:
    earlier = create_customer(client)
    settle(client, "customer")
    hook = receiver.hook()
    subscribe(client, hook, "customer.*")
    later = create_customer(client)
    event_about(client, later["id"], "customer.created")
    hook.wait_about(later["id"])
    assert hook.about(earlier["id"]) == []
