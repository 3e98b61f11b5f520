"""Queues -> one attempt of a delivery: claim the delivery, send the event, record the attempt, set the next timer."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from shared.core import aws, clock, facts, metrics, table
from shared.core.log import logger
from shared.webhooks import deliveries, endpoints, health, http_client, lanes, signing
from shared.webhooks.deliveries import Claim
from shared.webhooks.endpoints import WEBHOOK_ENDPOINTS, Snapshot
from shared.webhooks.events import EVENTS
from shared.work import batches, hints, owed


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of hints concurrently. The first attempts of an endpoint are in order while they are on time."""
    return batches.each_message(event, deliver)


def deliver(record: SQSRecord) -> None:
    """Make the attempt that is due for the delivery of a hint. Does nothing if none is due."""
    hint, queue = json.loads(record.body), aws.queue_of(record.event_source_arn)
    claim = deliveries.claim(hint["pk"], hint["sk"])
    if claim is None:
        return
    scope, endpoint_id = claim.scope, claim.doc["webhook_endpoint_id"]
    endpoint_keys = WEBHOOK_ENDPOINTS.row_keys(scope, endpoint_id)
    event_key = (scope.pk(EVENTS.kind), claim.doc["event_id"])
    with _released_on_failure(claim):
        rows = table.get_many([event_key, *endpoint_keys])
    endpoint = next((endpoints.snapshot(rows[key]) for key in endpoint_keys if key in rows), None)
    # The event of an erased customer is gone, and its deliveries with it.
    if event_key not in rows or endpoint is None or claim.is_closed(endpoint):
        deliveries.cancel(claim, endpoint)
    elif claim.lost_workers >= deliveries.MAX_LOST_WORKERS:
        deliveries.fail_lost(claim, endpoint)
        logger().error("worker lost", extra={"delivery_id": claim.doc["id"]})
        metrics.count(facts.LOST_DELIVERY)
    elif lanes.is_misplaced(queue, endpoint):
        deliveries.release(claim)
        hints.send(lanes.SLOW, [deliveries.hint(claim.work.row)])
    else:
        waited = clock.now() - int(record.attributes.sent_timestamp) if queue == lanes.FIRST else 0
        _attempt(claim, endpoint, rows[event_key]["doc"].encode(), _lane(claim, queue), waited)


@contextlib.contextmanager
def _released_on_failure(claim: Claim) -> Iterator[None]:
    """Release the claim if the block fails: nothing was sent yet, so the worker does not count as lost."""
    try:
        yield
    except Exception:
        deliveries.release(claim)
        raise


def _lane(claim: Claim, queue: str | None) -> str:
    """The `lane` of an attempt's lateness metric. A slow endpoint causes its own lateness, so it has its own lane."""
    if queue == lanes.SLOW:
        return facts.SLOW_ENDPOINTS
    return facts.FIRST_ATTEMPTS if claim.number == 1 else facts.LATER_ATTEMPTS


def _attempt(claim: Claim, endpoint: Snapshot, body: bytes, lane: str, waited: int) -> None:
    """Send the event and record the outcome."""
    url, endpoint_id = endpoint.doc["url"], endpoint.doc["id"]
    with _released_on_failure(claim):
        secret = signing.decrypt(endpoint_id, endpoint.secret)
    headers = {"Content-Type": "application/json"}
    headers |= signing.headers(secret, claim.doc["event_id"], body, clock.now() // clock.SECOND)
    metrics.milliseconds(facts.DELIVERY_LATENESS, clock.now() - claim.due_at, lane=lane)
    outcome = http_client.post(url, headers, body, allow_loopback=endpoints.loopback_allowed())
    unread: list[Snapshot | None] = [endpoint]

    def record() -> None:
        # The endpoint may be changed or deleted during the attempt.
        current = unread.pop() if unread else endpoints.read(claim.scope, [endpoint_id]).get(endpoint_id)
        step = deliveries.next_step(claim.number, outcome, closed=claim.is_closed(current))
        also = health.writes(claim.scope, current, url, step, outcome, waited=waited)
        deliveries.record(claim, url, outcome, step, also)

    owed.retry_on_conflict(record)
    logger().info(
        "attempt",
        extra={
            "delivery_id": claim.doc["id"],
            "number": claim.number,
            "status": outcome.status,
            "error": outcome.error,
            "duration_ms": outcome.duration_ms,
        },
    )
