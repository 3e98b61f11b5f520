"""Events and their deliveries, whose wake-ups a test hands to the worker."""

from __future__ import annotations

import json
from typing import Any

from functions import deliver
from shared.core import clock
from shared.store import table
from shared.store.keys import Scope
from shared.webhooks import health
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.endpoints import resource as endpoints
from tests.support import privileges
from tests.support.resources import create_and_get_path, list_resources
from tests.support.stage import Stage, sqs_record

PHONE = "+15005550006"


def new_event(stage: Stage) -> str:
    """Create a customer; the path of the deliveries of its event."""
    customer = create_and_get_path(stage, "customers", phone=PHONE).rpartition("/")[2]
    stage.fan_out()
    [event] = stage.call("GET", f"/v1/events?object_id={customer}").json["data"]
    return f"/v1/events/{event['id']}/deliveries"


def fan_out_customers(stage: Stage, url: str, count: int) -> None:
    """Create an endpoint and then so many customers, and fan out their events."""
    create_and_get_path(stage, "webhook_endpoints", url=url)
    for _ in range(count):
        create_and_get_path(stage, "customers", phone=PHONE)
    stage.fan_out()


def only_delivery_at(stage: Stage, deliveries: str) -> Any:
    """The one delivery of an event."""
    [delivery] = list_resources(stage, deliveries)
    return delivery


def wake_up(stage: Stage, delivery: Any, queue: str = "retries", sent: float | None = None) -> None:
    """Give the worker the delivery's wake-up, from this queue."""
    project = stage.call("GET", "/v1/ping").json
    scope = Scope(project["project_id"], project["livemode"])
    message = {"pk": deliveries.partition(scope, delivery["event_id"]), "sk": delivery["id"]}
    at = {"SentTimestamp": str(clock.now() if sent is None else int(sent * 1000))}
    stage.invoke("deliver", {"Records": [sqs_record(json.dumps(message), stage.queues[queue].arn, at)]})


def disable(stage: Stage, endpoint: str) -> None:
    assert stage.call("PATCH", endpoint, {"enabled": False}).status == 200


def delete(stage: Stage, endpoint: str) -> None:
    assert stage.call("DELETE", endpoint).status == 200


def mark(stage: Stage, endpoint: str, **marks: int) -> None:
    """Earlier attempts have marked the endpoint slow or busy until these instants (milliseconds)."""
    scope = Scope(stage.call("GET", "/v1/ping").json["project_id"], False)
    id = endpoint.rpartition("/")[2]
    with privileges.running(None):
        table.write([health.attributes_write(scope, endpoints.read(scope, [id])[id], **marks)])


def lose_worker(stage: Stage, delivery: Any) -> None:
    """A worker claims the delivery, and dies."""
    project = stage.call("GET", "/v1/ping").json["project_id"]
    claimed = deliver.claim(deliveries.partition(Scope(project, False), delivery["event_id"]), delivery["id"])
    assert isinstance(claimed, deliver.ClaimedDelivery)
