"""Promises 9: the envelope, the log, and where deliveries are found."""

from __future__ import annotations

import time

import pytest

from tests.support.client import REVISIONS, Client, assert_error, wait_for
from tests.support.client_actions import (
    UNKNOWN,
    Subscribe,
    create_appointment,
    create_customer,
    deliveries_of,
    delivery_to,
    event_about,
)
from tests.support.signed_receiver import Receiver


def test_an_event_has_exactly_the_envelope(client: Client) -> None:
    before = int(time.time())
    made = create_appointment(client)
    client.patch(f"/v1/appointments/{made['id']}", {"status": "confirmed"}).ok()
    for type_ in ("appointment.created", "appointment.confirmed"):
        event = event_about(client, made["id"], type_)
        assert before <= event["created"] <= time.time()
        assert event["api_version"] == REVISIONS[-1]
        assert event["livemode"] is False
    assert event_about(client, made["id"], "appointment.created")["data"] == {"object": made}


def test_a_live_change_makes_a_live_event(live: Client) -> None:
    made = create_customer(live)
    event = event_about(live, made["id"], "customer.created")
    assert event["livemode"] is True
    assert event["data"]["object"]["livemode"] is True


@pytest.mark.smoke
def test_an_event_is_retrieved_as_it_is_listed(client: Client) -> None:
    event = event_about(client, create_customer(client)["id"], "customer.created")
    assert client.get(f"/v1/events/{event['id']}").ok() == event


def test_an_event_without_a_listener_is_in_the_log_and_has_no_deliveries(client: Client) -> None:
    event = event_about(client, create_customer(client)["id"], "customer.created")
    page = client.get(f"/v1/events/{event['id']}/deliveries").ok()
    assert page["data"] == []


def test_an_event_appears_soon_after_its_change(client: Client) -> None:
    made = create_customer(client)
    since = time.monotonic()
    event_about(client, made["id"], "customer.created")
    assert time.monotonic() - since < 3


def test_unknown_events_and_deliveries_are_not_found(client: Client) -> None:
    event = event_about(client, create_customer(client)["id"], "customer.created")
    for path in (
        f"/v1/events/evt_{UNKNOWN}",
        f"/v1/events/evt_{UNKNOWN}/deliveries",
        f"/v1/events/evt_{UNKNOWN}/deliveries/whd_{UNKNOWN}",
        f"/v1/events/{event['id']}/deliveries/whd_{UNKNOWN}",
    ):
        assert_error(client.get(path), 404, "resource_not_found")
    response = client.post(f"/v1/events/{event['id']}/deliveries/whd_{UNKNOWN}/retry")
    assert_error(response, 404, "resource_not_found")


def test_each_matching_endpoint_has_its_delivery_in_the_list(
    client: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    endpoints = {subscribe(client, receiver.hook(), "customer.*")["id"] for _ in range(2)}
    deaf = subscribe(client, receiver.hook(), "appointment.*")["id"]
    event = event_about(client, create_customer(client)["id"], "customer.created")
    path = f"/v1/events/{event['id']}/deliveries"
    found = wait_for(lambda: len(deliveries_of(client, event["id"])) == 2 and deliveries_of(client, event["id"]))
    assert {delivery["webhook_endpoint_id"] for delivery in found} == endpoints
    assert deaf not in {delivery["webhook_endpoint_id"] for delivery in found}
    first = client.get(path, {"limit": 1}).ok()
    assert first["has_more"] is True
    second = client.get(path, {"limit": 1, "starting_after": first["next_cursor"]}).ok()
    assert second["has_more"] is False
    listed = {item["id"] for item in first["data"] + second["data"]}
    assert listed == {delivery["id"] for delivery in found}
    assert_error(client.get(path, {"starting_after": event["id"]}), 400, "cursor_invalid")
    assert_error(client.get(path, {"status": "failed"}), 400, "parameter_unknown", param="status")


def test_a_delivery_is_found_only_under_its_own_event(client: Client, subscribe: Subscribe, receiver: Receiver) -> None:
    endpoint = subscribe(client, receiver.hook(), "customer.*")
    one = event_about(client, create_customer(client)["id"], "customer.created")
    two = event_about(client, create_customer(client)["id"], "customer.created")
    delivery = delivery_to(client, one["id"], endpoint["id"])
    assert client.get(f"/v1/events/{one['id']}/deliveries/{delivery['id']}").ok()["id"] == delivery["id"]
    path = f"/v1/events/{two['id']}/deliveries/{delivery['id']}"
    assert_error(client.get(path), 404, "resource_not_found")
    assert_error(client.post(f"{path}/retry"), 404, "resource_not_found")


def test_the_deliveries_of_a_foreign_event_are_not_found(
    client: Client, live: Client, other: Client, subscribe: Subscribe, receiver: Receiver
) -> None:
    endpoint = subscribe(client, receiver.hook(), "customer.*")
    event = event_about(client, create_customer(client)["id"], "customer.created")
    delivery = delivery_to(client, event["id"], endpoint["id"])
    path = f"/v1/events/{event['id']}/deliveries/{delivery['id']}"
    for stranger in (live, other):
        assert_error(stranger.get(path), 404, "resource_not_found")
        assert_error(stranger.post(f"{path}/retry"), 404, "resource_not_found")
