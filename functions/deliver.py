"""Queues -> one attempt to deliver an event to an endpoint: claim, send, record, set the next timer."""

from __future__ import annotations

import json
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from shared.core import clock, metrics, table
from shared.core.keys import Scope
from shared.core.log import logger
from shared.webhooks import deliveries, endpoints, http_client, signing
from shared.webhooks.deliveries import Claim, Ended, Retry
from shared.webhooks.endpoints import State
from shared.work import batches, hints

FIRST_ATTEMPTS = "deliveries.fifo"
BEHIND = 10 * clock.SECOND
"""A first attempt that waited this long in its endpoint's line means that the endpoint has fallen behind."""
SLOW = 5 * clock.SECOND
"""A receiver that takes this long holds up its line."""
EARLY = clock.SECOND
"""A hint may come this much before its time, as queues count whole seconds."""


def handler(event: dict[str, Any], context: Any) -> Any:
    """A batch of hints; each is independent of the others."""
    return batches.each_message(event, context, deliver)


def deliver(record: SQSRecord) -> None:
    """Carry out what a hint says is owed, if it still is."""
    message = json.loads(record.body)
    scope = Scope(message["project_id"], message["livemode"])
    claimed = _claim(scope, message["event_id"], message["delivery_id"])
    if claimed is None:
        return
    endpoint_id = claimed.doc["webhook_endpoint_id"]
    event_key = (scope.pk("event"), claimed.doc["event_id"])
    rows = table.get_many([event_key, *endpoints.row_keys(scope, endpoint_id)])
    endpoint = endpoints.state(scope, endpoint_id, rows)
    if endpoint is None or claimed.is_closed(endpoint):
        deliveries.cancel(claimed, endpoint)
    elif claimed.lost_workers >= deliveries.LOST_WORKERS:
        if deliveries.fail_lost(claimed, endpoint):
            logger().error("worker lost", extra={"delivery_id": message["delivery_id"]})
            metrics.count(metrics.LOST)
    elif _first_in_line(record) and endpoint.slow_until > clock.now():
        # Out of the line, so that what waits behind it gets past.
        deliveries.release(claimed)
        hints.send("slow_deliveries", [deliveries.hint_of(scope, claimed.doc)])
    else:
        behind = _first_in_line(record) and clock.now() - int(record.attributes.sent_timestamp) > BEHIND
        _attempt(claimed, endpoint, rows[event_key]["doc"].encode(), behind)


def _claim(scope: Scope, event_id: str, delivery_id: str) -> Claim | None:
    found = deliveries.claim(scope, event_id, delivery_id)
    if isinstance(found, int) and found <= EARLY:
        clock.sleep((found + 1) / clock.SECOND)
        found = deliveries.claim(scope, event_id, delivery_id)
    # What is due later has its own timer, and `sweep`.
    return None if isinstance(found, int) else found


def _first_in_line(record: SQSRecord) -> bool:
    return str(record.queue_url or record.event_source_arn).endswith(FIRST_ATTEMPTS)


def _lane(claimed: Claim, endpoint: State) -> str:
    """What an attempt's lateness is counted with: an endpoint that is known to be slow makes its own wait."""
    if endpoint.slow_until > clock.now():
        return "slow_endpoints"
    return "first_attempts" if claimed.number == 1 else "later_attempts"


def _attempt(claimed: Claim, endpoint: State, body: bytes, behind: bool) -> None:
    url, endpoint_id, event_id = endpoint.doc["url"], endpoint.doc["id"], claimed.doc["event_id"]
    secret = signing.opened(endpoint_id, endpoint.secret)
    headers = {"Content-Type": "application/json"}
    headers |= signing.headers(secret, event_id, body, clock.now() // clock.SECOND)
    metrics.milliseconds(
        metrics.LATENESS, clock.now() - int(claimed.row["next_attempt"]), lane=_lane(claimed, endpoint)
    )
    outcome = http_client.post(url, headers, body, allow_loopback=endpoints.loopback_allowed())
    slow = behind or outcome.duration_ms >= SLOW
    present: State | None = endpoint
    for _ in range(deliveries.TRIES):
        step = deliveries.next_step(claimed.number, outcome, closed=claimed.is_closed(present))
        writes = _endpoint_writes(claimed.scope, present, url, step, outcome, slow)
        if deliveries.record(claimed, url, outcome, step, writes):
            break
        # The endpoint was changed, or deleted, while the receiver was answering.
        present = endpoints.states(claimed.scope, [endpoint_id]).get(endpoint_id)
    logger().info(
        "attempt",
        extra={
            "delivery_id": claimed.doc["id"],
            "number": claimed.number,
            "status": outcome.status,
            "error": outcome.error,
            "duration_ms": outcome.duration_ms,
        },
    )


def _endpoint_writes(
    scope: Scope, present: State | None, url: str, step: Retry | Ended, outcome: http_client.Outcome, slow: bool
) -> list[table.Operation]:
    """The operations on the endpoint's row that an attempt is recorded with; most attempts have none.

    An attempt fails for good only if the endpoint is unchanged: closed meanwhile, it ends the delivery as canceled.
    """
    if present is None or present.deleted or step == Ended(deliveries.CANCELED):
        return []
    # What the receiver at one URL did says nothing of the one at another.
    writes = _health(scope, present, step, outcome, slow) if present.doc["url"] == url else []
    if not writes and isinstance(step, Ended) and step.status == deliveries.FAILED:
        return [deliveries.unchanged(scope, present)]
    return writes


def _health(
    scope: Scope, endpoint: State, step: Retry | Ended, outcome: http_client.Outcome, slow: bool
) -> list[table.Operation]:
    """What the attempt changes of what is known of the endpoint's receiver."""
    now, since = clock.now(), endpoint.failing_since
    if isinstance(step, Ended) and step.gone:
        return endpoints.disabling(scope, endpoint, "gone")
    if outcome.error and since is not None and now - since >= clock.scaled(endpoints.GIVES_UP_AFTER):
        return endpoints.disabling(scope, endpoint, "failing")
    changes: dict[str, table.Value | None] = {}
    if outcome.error and since is None:
        changes["failing_since"] = now
    if not outcome.error and since is not None:
        changes["failing_since"] = None
    if slow and endpoint.slow_until < now:
        changes["slow_until"] = now + endpoints.STAYS_SLOW
    return [endpoints.noted(scope, endpoint, **changes)] if changes else []
