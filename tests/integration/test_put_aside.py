"""Changes that fail for themselves are put aside at once, and processed when they are redriven."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shared.aws import objects, services
from shared.core import metrics
from shared.erasure import stored_batches
from shared.store.keys import Scope
from tests.support import rows
from tests.support.clocks import Clock
from tests.support.resources import create_resource, get_resource
from tests.support.stage import Project, Stage
from tests.support.wire import Fault, Try, answer, throttle, wire

CHANGES = 1_000
EVENT = 2
"""The position of the call that writes the event, after the reads of the customer and the endpoints."""


@pytest.fixture
def bucket() -> Iterator[str]:
    """The bucket of failed batches, empty before and after."""
    name = os.environ["FAILED_BATCHES_BUCKET"]
    yield name
    for stored in list(objects.list_objects(name)):
        objects.erase(name, stored.key)


def stored_records(bucket: str) -> list[Any]:
    """The records in the bucket."""
    payloads = [json.loads(json.loads(batch.content)["payload"]) for batch in stored_batches.in_bucket(bucket)]
    return [record for payload in payloads for record in payload["Records"]]


def test_one_poison_record_among_a_thousand_is_put_aside_with_its_alarm_and_the_others_have_their_events(
    stage: Stage, project: Project, stopped_clock: Clock, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    customers = []
    for _ in range(CHANGES):
        stopped_clock.forward(0.001)
        customers.append(rows.customer(Scope(project.id, False)))
    poison = customers[500] = customers[500] | {"doc": "no JSON"}
    rows.write(customers)
    capsys.readouterr()
    # No batch fails: nothing is retried, and nobody waits.
    records = stage.fan_out()
    assert len(records) == CHANGES
    [aside] = stored_records(bucket)
    assert aside["dynamodb"]["Keys"]["sk"] == {"S": poison["sk"]}
    assert aside in records
    assert capsys.readouterr().out.count(f'"{metrics.PUT_ASIDE}":[1.0]') == 1
    others = {row["sk"] for row in customers if row is not poison}
    found: set[str] = set()
    cursor = ""
    while True:
        page = get_resource(stage, f"/v1/events?limit=100{cursor}")
        found |= {event["data"]["object"]["id"] for event in page["data"]}
        if not page["has_more"]:
            break
        cursor = f"&starting_after={page['next_cursor']}"
    assert found == others


def too_large(attempt: Try) -> Any:
    """DynamoDB refuses an item of more than 400 KB."""
    kind = "com.amazon.coral.validate#ValidationException"
    return answer(400, {"__type": kind, "message": "Item size has exceeded the maximum allowed size"})


def deny(attempt: Try) -> Any:
    """A role lacks a permission, which a deploy mends."""
    return answer(400, {"__type": "com.amazon.coral.service#AccessDeniedException", "message": "not authorized"})


@pytest.mark.parametrize(("trouble", "is_aside"), [(too_large, True), (deny, False), (throttle, False)])
def test_only_what_fails_for_itself_is_put_aside(
    stage: Stage, project: Project, bucket: str, trouble: Callable[[Try], Any], is_aside: bool
) -> None:
    customer = create_resource(stage, "/v1/customers", phone="+15005550006")
    records = stage.stream_records()
    with wire(Fault(EVENT, trouble)):
        found = stage.invoke("fan_out", {"Records": records})
    failures = [{"itemIdentifier": records[0]["dynamodb"]["SequenceNumber"]}]
    assert found == {"batchItemFailures": [] if is_aside else failures}
    assert len(stored_records(bucket)) == is_aside
    # What was put aside fails again as a redriven batch, which stays where it is, until the cause is mended.
    with wire(Fault(EVENT, trouble)):
        again = stage.invoke("fan_out", {"Records": records, "redriven": True})
    assert again == {"batchItemFailures": failures}
    assert len(stored_records(bucket)) == is_aside
    assert stage.invoke("fan_out", {"Records": records, "redriven": True}) == {"batchItemFailures": []}
    [event] = get_resource(stage, f"/v1/events?object_id={customer['id']}")["data"]
    assert event["type"] == "customer.created"


def test_a_change_that_cannot_be_put_aside_is_retried(stage: Stage, project: Project, bucket: str) -> None:
    create_resource(stage, "/v1/customers", phone="+15005550006")
    records = stage.stream_records()
    services.s3().delete_bucket(Bucket=bucket)
    try:
        with wire(Fault(EVENT, too_large)):
            found = stage.invoke("fan_out", {"Records": records})
    finally:
        services.s3().create_bucket(Bucket=bucket)
    assert found == {"batchItemFailures": [{"itemIdentifier": records[0]["dynamodb"]["SequenceNumber"]}]}
