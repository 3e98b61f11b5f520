"""Queues -> one attempt of a delivery: claim the delivery, send the event, record the attempt, set the next timer."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from shared.core import aws, clock, facts, metrics, table
from shared.core.log import logger
from shared.webhooks import deliveries, endpoints, health, http_client, signing
from shared.webhooks.deliveries import Claim
from shared.webhooks.endpoints import State
from shared.webhooks.events import EVENTS
from shared.work import batches, hints, owed

BEHIND = 10 * clock.SECOND
"""How long a first attempt may wait in the queue (milliseconds) before its endpoint counts as slow."""


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of hints. The items are independent."""
    return batches.each_message(event, context, deliver)


def deliver(record: SQSRecord) -> None:
    """Make the attempt that is due for the delivery of a hint. Does nothing if none is due."""
    hint = json.loads(record.body)
    claim = _claim(hint["pk"], hint["sk"])
    if claim is None:
        return
    scope, endpoint_id = claim.scope, claim.doc["webhook_endpoint_id"]
    event_key = (scope.pk(EVENTS.kind), claim.doc["event_id"])
    with _released_on_failure(claim):
        rows = table.get_many([event_key, *endpoints.row_keys(scope, endpoint_id)])
    endpoint = endpoints.state(scope, endpoint_id, rows)
    # The event of an erased customer is gone, and its deliveries with it.
    if event_key not in rows or endpoint is None or claim.is_closed(endpoint):
        deliveries.cancel(claim, endpoint)
    elif claim.lost_workers >= deliveries.LOST_WORKERS:
        deliveries.fail_lost(claim, endpoint)
        logger().error("worker lost", extra={"delivery_id": claim.doc["id"]})
        metrics.count(facts.LOST_DELIVERY)
    elif _is_first_attempt(record) and endpoint.slow_until > clock.now():
        # Move it off the FIFO queue, so that it does not block its message group.
        deliveries.release(claim)
        hints.send("slow_deliveries", [deliveries.hint(claim.work.row)])
    else:
        behind = _is_first_attempt(record) and clock.now() - int(record.attributes.sent_timestamp) > BEHIND
        _attempt(claim, endpoint, rows[event_key]["doc"].encode(), behind)


def _claim(pk: str, sk: str) -> Claim | None:
    claim = deliveries.claim(pk, sk)
    if isinstance(claim, owed.NotDue) and claim.wait <= owed.EARLY:
        clock.sleep((claim.wait + 1) / clock.SECOND)
        claim = deliveries.claim(pk, sk)
    # An attempt that is due later has its own timer and is found by `sweep`.
    return claim if isinstance(claim, Claim) else None


@contextlib.contextmanager
def _released_on_failure(claim: Claim) -> Iterator[None]:
    """Release the claim if the block fails: nothing was sent yet, so the worker does not count as lost."""
    try:
        yield
    except Exception:
        deliveries.release(claim)
        raise


def _is_first_attempt(record: SQSRecord) -> bool:
    """Whether the message comes from the FIFO queue of first attempts, whose generated name is in the environment."""
    return aws.queue_name("deliveries") == record.event_source_arn.rpartition(":")[2]


def _lane(claim: Claim, endpoint: State) -> str:
    """The `lane` of an attempt's lateness metric. A slow endpoint causes its own lateness, so it has its own lane."""
    if endpoint.slow_until > clock.now():
        return facts.SLOW_ENDPOINTS
    return facts.FIRST_ATTEMPTS if claim.number == 1 else facts.LATER_ATTEMPTS


def _attempt(claim: Claim, endpoint: State, body: bytes, behind: bool) -> None:
    """Send the event and record the outcome."""
    url, endpoint_id = endpoint.doc["url"], endpoint.doc["id"]
    with _released_on_failure(claim):
        secret = signing.decrypt(endpoint_id, endpoint.secret)
    headers = {"Content-Type": "application/json"}
    headers |= signing.headers(secret, claim.doc["event_id"], body, clock.now() // clock.SECOND)
    metrics.milliseconds(facts.DELIVERY_LATENESS, clock.now() - claim.due_at, lane=_lane(claim, endpoint))
    outcome = http_client.post(url, headers, body, allow_loopback=endpoints.loopback_allowed())
    unread: list[State | None] = [endpoint]

    def record() -> None:
        # The endpoint may be changed or deleted during the attempt.
        current = unread.pop() if unread else endpoints.states(claim.scope, [endpoint_id]).get(endpoint_id)
        step = deliveries.next_step(claim.number, outcome, closed=claim.is_closed(current))
        also = health.writes(claim.scope, current, url, step, outcome, behind=behind)
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
