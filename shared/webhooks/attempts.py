"""Attempts: what the delivery worker does about a wake-up. `decide` holds the rules; `make` carries them out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from shared.aws import services
from shared.aws.services import Unavailable
from shared.core import clock, metrics
from shared.core.log import logger
from shared.store import commit, table
from shared.tasks import tasks, wake_ups
from shared.tasks.batches import QueueMessage
from shared.webhooks import health, http_client, queues, signing
from shared.webhooks.deliveries import claims
from shared.webhooks.deliveries.claims import ClaimedDelivery
from shared.webhooks.deliveries.resource import wake_up
from shared.webhooks.deliveries.rules import next_step
from shared.webhooks.endpoints import resource as endpoints
from shared.webhooks.endpoints.resource import WEBHOOK_ENDPOINTS, Snapshot
from shared.webhooks.events import EVENTS
from shared.webhooks.queues import Arrival, Destination

OVERLAP_MS = 100
"""How long a successful attempt takes (milliseconds) before the endpoint is read again to save it."""
_reads = table.SharedReads()
"""Attempts of one batch are made concurrently, and often have the endpoint in common."""


@dataclass(frozen=True)
class Cancel:
    """The endpoint was disabled or deleted, or the event was erased: cancel the delivery."""


@dataclass(frozen=True)
class Fail:
    """Too many workers died during this attempt: fail the delivery."""


@dataclass(frozen=True)
class Move:
    """The attempt belongs to another queue. If it is put off, it is planned for that instant."""

    destination: Destination
    put_off_until_ms: int | None


@dataclass(frozen=True)
class Send:
    """Send the event. `queue_class` and `late_ms` are for the lateness metric."""

    queue_class: str
    late_ms: int


Decision = Cancel | Fail | Move | Send


def decide(delivery: ClaimedDelivery, endpoint: Snapshot | None, arrival: Arrival) -> Decision:
    """What to do about the attempt of a claimed delivery. `endpoint` is None if there is nothing to send any more."""
    if endpoint is None or delivery.is_closed(endpoint):
        return Cancel()
    if delivery.claim.lost_workers >= tasks.MAX_LOST_WORKERS:
        return Fail()
    destination = queues.another(arrival, endpoint, by_hand=delivery.by_hand)
    if destination is not None:
        return Move(
            destination, queues.put_off_until(delivery.due_at_ms) if destination.queue == queues.HANGING else None
        )
    late_ms = clock.now() - delivery.due_at_ms
    # These endpoints cause their lateness themselves. That of the wake-ups shows whether the queue has room for all.
    if arrival.queue in (queues.HANGING, queues.MANUAL):
        return Send(metrics.HANGING_ENDPOINTS, arrival.waited_ms)
    if arrival.queue == queues.SLOW:
        return Send(metrics.SLOW_ENDPOINTS, late_ms)
    return Send(metrics.FIRST_ATTEMPTS if delivery.number == 1 else metrics.LATER_ATTEMPTS, late_ms)


def make(message: QueueMessage) -> None:
    """Make the attempt that is due for the delivery of a wake-up. Does nothing if none is due."""
    arrival = Arrival(services.queue_of(message.queue), clock.now() - message.sent_at)
    delivery = claims.claim(*message.task)
    if delivery is None:
        return
    scope, endpoint_id = delivery.scope, delivery.doc["webhook_endpoint_id"]
    endpoint_keys = WEBHOOK_ENDPOINTS.row_keys(scope, endpoint_id)
    event_key = (scope.pk(EVENTS.kind), delivery.doc["event_id"])
    with _released_on_failure(delivery):
        rows = _reads.get_many([event_key, *endpoint_keys])
    endpoint = next((endpoints.snapshot(rows[key]) for key in endpoint_keys if key in rows), None)
    # The event of an erased customer is gone, and its deliveries with it.
    match decide(delivery, endpoint if event_key in rows else None, arrival):
        case Cancel():
            claims.cancel(delivery, endpoint)
        case Fail():
            assert endpoint is not None
            claims.fail_lost(delivery, endpoint)
            logger().error("worker lost", extra={"delivery_id": delivery.doc["id"]})
            metrics.count(metrics.LOST_DELIVERY)
        case Move(destination, put_off_until_ms):
            claims.release(delivery, until_ms=put_off_until_ms)
            wake_ups.send(destination.queue, [wake_up(delivery.claim.row, destination=destination)])
        case Send(queue_class, late_ms):
            assert endpoint is not None
            metrics.milliseconds(metrics.DELIVERY_LATENESS, late_ms, queue_class=queue_class)
            _send(delivery, endpoint, rows[event_key]["doc"].encode(), arrival)


@contextlib.contextmanager
def _released_on_failure(delivery: ClaimedDelivery) -> Iterator[None]:
    """Release the claim if the block fails: nothing was sent yet, so the worker does not count as lost."""
    try:
        yield
    except Exception:
        claims.release(delivery)
        raise


def _send(delivery: ClaimedDelivery, endpoint: Snapshot, body: bytes, arrival: Arrival) -> None:
    """Send the event and save the outcome.

    If the outcome cannot be saved, the claim is kept, because the event may have arrived. The wake-up that comes
    again finds the row claimed, and `sweep` starts the next worker once the lease has expired.
    """
    url, endpoint_id = endpoint.doc["url"], endpoint.doc["id"]
    with _released_on_failure(delivery):
        secrets = [signing.decrypt(endpoint_id, ciphertext) for ciphertext in endpoint.secrets]
    sent_at_ms, headers = clock.now(), {"Content-Type": "application/json"}
    headers |= signing.headers(secrets, delivery.doc["event_id"], body, sent_at_ms // clock.SECOND)
    outcome = http_client.post(url, headers, body, allow_loopback=endpoints.loopback_allowed())

    def save(current: Snapshot | None) -> None:
        # The endpoint may be changed or deleted during the attempt.
        step = next_step(delivery.number, outcome, closed=delivery.is_closed(current))
        change = health.change(delivery.scope, current, url, step, outcome, arrival)
        saved = claims.save_attempt(delivery, url, sent_at_ms, outcome, step, change.writes)
        if saved and change.after is not None:
            change.after()

    def latest() -> Snapshot | None:
        return endpoints.read(delivery.scope, [endpoint_id]).get(endpoint_id)

    current: Snapshot | None = endpoint
    if outcome.error is None and outcome.duration_ms >= OVERLAP_MS:
        # Another attempt may have failed meanwhile, and marked the endpoint as failing. This success ends that. If the
        # read fails, the attempt is saved all the same.
        with contextlib.suppress(Unavailable):
            current = latest()
    commit.retry_with_latest([current], latest, save)
    logger().info(
        "attempt",
        extra={
            "delivery_id": delivery.doc["id"],
            "number": delivery.number,
            "status": outcome.status,
            "error": outcome.error,
            "duration_ms": outcome.duration_ms,
        },
    )
