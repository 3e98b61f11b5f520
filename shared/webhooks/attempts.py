"""Attempts: what the delivery worker does about a wake-up. `decide` holds the rules; `make` carries them out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from shared.aws.services import Unavailable
from shared.core import clock, facts, metrics
from shared.core.log import logger
from shared.store import commit, table
from shared.tasks import wake_ups
from shared.webhooks import deliveries, endpoints, health, http_client, queues, signing
from shared.webhooks.deliveries import Claim
from shared.webhooks.endpoints import WEBHOOK_ENDPOINTS, Snapshot
from shared.webhooks.events import EVENTS
from shared.webhooks.queues import Arrival, Destination

OVERLAP = 100
"""How long a successful attempt takes (milliseconds) before the endpoint is read again to record it."""
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
    """The attempt belongs to another queue. If it is put off, it is planned for that instant (milliseconds)."""

    destination: Destination
    put_off: int | None


@dataclass(frozen=True)
class Send:
    """Send the event. `queue_class` and `late` (milliseconds) are for the lateness metric."""

    queue_class: str
    late: int


Decision = Cancel | Fail | Move | Send


def decide(claim: Claim, endpoint: Snapshot | None, arrival: Arrival) -> Decision:
    """What to do about the attempt of a claimed delivery. `endpoint` is None if there is nothing to send any more."""
    if endpoint is None or claim.is_closed(endpoint):
        return Cancel()
    if claim.lost_workers >= deliveries.MAX_LOST_WORKERS:
        return Fail()
    destination = queues.another(arrival, endpoint, by_hand=claim.by_hand)
    if destination is not None:
        return Move(destination, queues.put_off(claim.due_at) if destination.queue == queues.HANGING else None)
    late = clock.now() - claim.due_at
    # These endpoints cause their lateness themselves. That of the wake-ups shows whether the queue has room for all.
    if arrival.queue in (queues.HANGING, queues.MANUAL):
        return Send(facts.HANGING_ENDPOINTS, arrival.waited)
    if arrival.queue == queues.SLOW:
        return Send(facts.SLOW_ENDPOINTS, late)
    return Send(facts.FIRST_ATTEMPTS if claim.number == 1 else facts.LATER_ATTEMPTS, late)


def make(pk: str, sk: str, arrival: Arrival) -> None:
    """Make the attempt that is due for a delivery. Does nothing if none is due."""
    claim = deliveries.claim(pk, sk)
    if claim is None:
        return
    scope, endpoint_id = claim.scope, claim.doc["webhook_endpoint_id"]
    endpoint_keys = WEBHOOK_ENDPOINTS.row_keys(scope, endpoint_id)
    event_key = (scope.pk(EVENTS.kind), claim.doc["event_id"])
    with _released_on_failure(claim):
        rows = _reads.get_many([event_key, *endpoint_keys])
    endpoint = next((endpoints.snapshot(rows[key]) for key in endpoint_keys if key in rows), None)
    # The event of an erased customer is gone, and its deliveries with it.
    match decide(claim, endpoint if event_key in rows else None, arrival):
        case Cancel():
            deliveries.cancel(claim, endpoint)
        case Fail():
            assert endpoint is not None
            deliveries.fail_lost(claim, endpoint)
            logger().error("worker lost", extra={"delivery_id": claim.doc["id"]})
            metrics.count(facts.LOST_DELIVERY)
        case Move(destination, put_off):
            deliveries.release(claim, until=put_off)
            wake_ups.send(destination.queue, [deliveries.wake_up(claim.work.row, destination=destination)])
        case Send(queue_class, late):
            assert endpoint is not None
            metrics.milliseconds(facts.DELIVERY_LATENESS, late, queue_class=queue_class)
            _send(claim, endpoint, rows[event_key]["doc"].encode(), arrival)


@contextlib.contextmanager
def _released_on_failure(claim: Claim) -> Iterator[None]:
    """Release the claim if the block fails: nothing was sent yet, so the worker does not count as lost."""
    try:
        yield
    except Exception:
        deliveries.release(claim)
        raise


def _send(claim: Claim, endpoint: Snapshot, body: bytes, arrival: Arrival) -> None:
    """Send the event and record the outcome.

    If the outcome cannot be recorded, the claim is kept, because the event may have arrived. The wake-up that comes
    again finds the row claimed, and `sweep` starts the next worker once the lease has expired.
    """
    url, endpoint_id = endpoint.doc["url"], endpoint.doc["id"]
    with _released_on_failure(claim):
        secret = signing.decrypt(endpoint_id, endpoint.secret)
    sent_at, headers = clock.now(), {"Content-Type": "application/json"}
    headers |= signing.headers(secret, claim.doc["event_id"], body, sent_at // clock.SECOND)
    outcome = http_client.post(url, headers, body, allow_loopback=endpoints.loopback_allowed())

    def record(current: Snapshot | None) -> None:
        # The endpoint may be changed or deleted during the attempt.
        step = deliveries.next_step(claim.number, outcome, closed=claim.is_closed(current))
        also = health.writes(claim.scope, current, url, step, outcome, arrival)
        if deliveries.record(claim, url, sent_at, outcome, step, also) and current is not None:
            health.announce(claim.scope, current, also)

    def latest() -> Snapshot | None:
        return endpoints.read(claim.scope, [endpoint_id]).get(endpoint_id)

    current: Snapshot | None = endpoint
    if outcome.error is None and outcome.duration_ms >= OVERLAP:
        # Another attempt may have failed meanwhile, and marked the endpoint as failing. This success ends that. If the
        # read fails, the attempt is recorded all the same.
        with contextlib.suppress(Unavailable):
            current = latest()
    commit.retry_with_latest([current], latest, record)
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
