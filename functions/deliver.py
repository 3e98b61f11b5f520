"""Queues -> one attempt of a delivery for each wake-up.

The worker claims the delivery, decides what to do about it (`decide`), sends the event, and saves the outcome while it
still has the claim.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from shared.aws.services import Unavailable
from shared.core import clock, limits, metrics, settings, trace
from shared.core.log import logger
from shared.resources import fields
from shared.store import table, transactions
from shared.store.keys import Scope, scope_of
from shared.store.transactions import Change
from shared.tasks import batches, tasks, wake_ups
from shared.tasks.batches import QueueMessage
from shared.webhooks import health, http_client, queues, signing
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.deliveries.resource import (
    DELIVERY_GRACE_S,
    Attempt,
    Delivery,
    DeliveryError,
    DeliveryRow,
    DeliveryStatus,
    DeliveryTrigger,
    Phase,
    phase,
)
from shared.webhooks.endpoints import resource as endpoints
from shared.webhooks.endpoints.resource import WEBHOOK_ENDPOINTS, EndpointSnapshot
from shared.webhooks.events import EVENTS
from shared.webhooks.http_client import AttemptOutcome
from shared.webhooks.queues import Arrival, Destination

LEASE_MS = 60 * clock.SECOND
"""The lease of a worker. An attempt times out after 15 seconds."""
OVERLAP_MS = 100
"""How long a successful attempt takes before the endpoint is read again to save it."""
_reads = table.SharedReads()
"""Attempts of one batch are made concurrently, and often have the endpoint in common."""


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of wake-ups concurrently. First attempts to an endpoint are in order while they are on time."""
    return batches.each_message(event, make_attempt)


def make_attempt(message: QueueMessage) -> None:
    """Make the attempt that is due for the delivery of a wake-up. Does nothing if none is due."""
    arrival = Arrival(message.queue, clock.now() - message.sent_at)
    delivery = claim(*message.task)
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
            _save(delivery, Result(deliveries.cancel_with_endpoint(delivery.claim.row, endpoint), Change(None)))
        case Fail(current):
            _save(delivery, _after_lost_workers(delivery, current))
            logger().error("worker lost", extra={"delivery_id": delivery.doc["id"]})
            metrics.count(metrics.LOST_DELIVERY)
        case Move(destination, put_off_until):
            _release(delivery, until=put_off_until)
            wake_ups.send([deliveries.wake_up(delivery.claim.row, to=destination)])
        case Send(current, queue_class, late_ms):
            metrics.milliseconds(metrics.DELIVERY_LATENESS, late_ms, queue_class=queue_class)
            _send(delivery, current, rows[event_key]["doc"].encode(), arrival)


@dataclass(frozen=True)
class ClaimedDelivery:
    """A delivery that only this worker may send until its lease expires."""

    scope: Scope
    claim: tasks.Claim[DeliveryRow]
    doc: Delivery

    @property
    def number(self) -> int:
        """The attempt's number, from 1."""
        return self.doc["attempt_count"] + 1

    @property
    def by_hand(self) -> bool:
        """Whether a person waits for this attempt: the first one of a manual retry or a test event, or one sent now."""
        first = self.number == 1 and self.doc["trigger"] != DeliveryTrigger.AUTOMATIC
        return first or "by_hand" in self.claim.row

    @property
    def due_at(self) -> clock.Instant:
        """When the attempt is due."""
        return self.claim.row["due_at"]

    def is_closed(self, endpoint: EndpointSnapshot | None) -> bool:
        """Whether the endpoint was disabled or deleted since the delivery's creation, so that nothing may be sent."""
        return phase(self.claim.row, endpoint, self.claim.token) is Phase.CLOSED


def claim(pk: str, sk: str) -> ClaimedDelivery | None:
    """Claim the delivery, if its attempt is due now or in a moment and no other worker has claimed it. None otherwise.

    An attempt that is due later has its own timer, and is found by `sweep`.
    """
    claimed: tasks.Claim[DeliveryRow] | None = tasks.claim_soon(pk, sk, lambda: LEASE_MS)
    if claimed is None:
        return None
    doc: Delivery = json.loads(claimed.row["doc"])
    trace.name(event_id=doc["event_id"])
    return ClaimedDelivery(scope_of(pk), claimed, doc)


@dataclass(frozen=True)
class Cancel:
    """The endpoint was disabled or deleted, or the event was erased: cancel the delivery."""


@dataclass(frozen=True)
class Fail:
    """Too many workers died during this attempt: fail the delivery."""

    endpoint: EndpointSnapshot


@dataclass(frozen=True)
class Move:
    """The attempt belongs to another queue. If it is put off, it is planned for that instant."""

    destination: Destination
    put_off_until: clock.Instant | None


@dataclass(frozen=True)
class Send:
    """Send the event. `queue_class` and `late_ms` are for the lateness metric."""

    endpoint: EndpointSnapshot
    queue_class: str
    late_ms: int


Decision = Cancel | Fail | Move | Send


def decide(delivery: ClaimedDelivery, endpoint: EndpointSnapshot | None, arrival: Arrival) -> Decision:
    """What to do about the attempt of a claimed delivery. `endpoint` is None if there is nothing to send any more."""
    if endpoint is None or delivery.is_closed(endpoint):
        return Cancel()
    if delivery.claim.lost_workers >= tasks.MAX_LOST_WORKERS:
        return Fail(endpoint)
    destination = queues.decide_move(arrival, endpoint, by_hand=delivery.by_hand)
    if destination is not None:
        return Move(destination, queues.put_off_until(delivery.due_at) if destination.queue == queues.HANGING else None)
    late_ms = clock.now() - delivery.due_at
    # These endpoints cause their lateness themselves. That of the wake-ups shows whether the queue has room for all.
    if arrival.queue in (queues.HANGING, queues.MANUAL):
        return Send(endpoint, metrics.HANGING_ENDPOINTS, arrival.waited_ms)
    if arrival.queue == queues.SLOW:
        return Send(endpoint, metrics.SLOW_ENDPOINTS, late_ms)
    return Send(endpoint, metrics.FIRST_ATTEMPTS if delivery.number == 1 else metrics.LATER_ATTEMPTS, late_ms)


@contextlib.contextmanager
def _released_on_failure(delivery: ClaimedDelivery) -> Iterator[None]:
    """Release the claim if the block fails: nothing was sent yet, so the worker does not count as lost."""
    try:
        yield
    except Exception:
        _release(delivery)
        raise


@dataclass(frozen=True)
class SentEvent:
    """One POST of the event, and what came of it."""

    url: str
    at: clock.Instant
    """When the request was sent."""
    outcome: AttemptOutcome
    arrival: Arrival
    """The wake-up that caused the attempt."""


def _send(delivery: ClaimedDelivery, endpoint: EndpointSnapshot, body: bytes, arrival: Arrival) -> None:
    """Send the event and save the outcome.

    If the outcome cannot be saved, the claim is kept, because the event may have arrived. The wake-up that comes
    again finds the row claimed, and `sweep` starts the next worker once the lease has expired.
    """
    sent = _post(delivery, endpoint, body, arrival)
    outcome = sent.outcome
    read_endpoint = partial(_read_endpoint, delivery)
    current: EndpointSnapshot | None = endpoint
    if outcome.error is None and outcome.duration_ms >= OVERLAP_MS:
        # Another attempt may have failed meanwhile, and marked the endpoint as failing. This success ends that. If the
        # read fails, the attempt is saved all the same.
        with contextlib.suppress(Unavailable):
            current = read_endpoint()
    # If the endpoint was modified meanwhile, the outcome is decided again.
    transactions.retry_with_latest(
        current, read_endpoint, lambda latest: _save(delivery, _after_attempt(delivery, sent, latest))
    )
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


def _post(delivery: ClaimedDelivery, endpoint: EndpointSnapshot, body: bytes, arrival: Arrival) -> SentEvent:
    """Sign the event and send it."""
    with _released_on_failure(delivery):
        secrets = [signing.decrypt(endpoint.doc["id"], ciphertext) for ciphertext in endpoint.secrets]
    url, at, headers = endpoint.doc["url"], clock.now(), {"Content-Type": "application/json"}
    headers |= signing.headers(secrets, delivery.doc["event_id"], body, clock.to_unix(at))
    outcome = http_client.post(url, headers, body, allow_loopback=settings.allows_loopback_receivers())
    return SentEvent(url, at, outcome, arrival)


def _read_endpoint(delivery: ClaimedDelivery) -> EndpointSnapshot | None:
    endpoint_id = delivery.doc["webhook_endpoint_id"]
    return endpoints.read(delivery.scope, [endpoint_id]).get(endpoint_id)


@dataclass(frozen=True)
class Timer:
    """The timer of a retry, which is due at `at`: `wait_s` unscaled seconds after the attempt."""

    at: clock.Instant
    wait_s: int


@dataclass(frozen=True)
class Result:
    """What a worker saves of a delivery, in one transaction."""

    doc: Delivery
    endpoint_change: Change[None]
    timer: Timer | None = None
    """None if the delivery has ended."""


def _after_attempt(delivery: ClaimedDelivery, sent: SentEvent, endpoint: EndpointSnapshot | None) -> Result:
    """The delivery after the attempt, its retry, and what the outcome changes about the endpoint.

    `endpoint` is its current state: it may have been changed or deleted during the attempt.
    """
    outcome = sent.outcome
    status = status_after(delivery.number, outcome, closed=delivery.is_closed(endpoint))
    change = health.after_attempt(delivery.scope, endpoint, sent.url, status, outcome, sent.arrival)
    now = clock.now()
    attempt: Attempt = {
        "number": delivery.number,
        "at": clock.iso(sent.at),
        "response_status_code": outcome.status,
        "error_code": outcome.error,
        "duration_ms": outcome.duration_ms,
    }
    doc: Delivery = {
        **delivery.doc,
        "url": sent.url,
        "attempt_count": delivery.number,
        "last_attempt_at": attempt["at"],
        "response_status_code": outcome.status,
        "response_body": outcome.body,
        "error_code": outcome.error,
        "duration_ms": outcome.duration_ms,
        "attempts": [*delivery.doc["attempts"], attempt],
    }
    if status != DeliveryStatus.ATTEMPTING:
        return Result(deliveries.end(doc, status, clock.iso(now)), change)
    wait_s = limits.RETRY_SCHEDULE_S[delivery.number]
    timer = Timer(now + clock.scaled_ms(wait_s), wait_s)
    return Result({**doc, "next_attempt_at": clock.iso(timer.at)}, change, timer)


def status_after(number: int, outcome: AttemptOutcome, *, closed: bool = False) -> DeliveryStatus:
    """The delivery's status after attempt `number` (from 1): `attempting` if it is retried.

    `closed` if the endpoint was disabled or deleted during the attempt.
    """
    if outcome.error is None:
        return DeliveryStatus.SUCCEEDED
    if closed:
        return DeliveryStatus.CANCELED
    if outcome.status is not None and 400 <= outcome.status < 500 and outcome.status not in (408, 429):
        return DeliveryStatus.FAILED
    return DeliveryStatus.ATTEMPTING if number < len(limits.RETRY_SCHEDULE_S) else DeliveryStatus.FAILED


def _after_lost_workers(delivery: ClaimedDelivery, endpoint: EndpointSnapshot) -> Result:
    """The delivery, failed because too many workers were lost during one attempt, if the endpoint has not changed."""
    failed = deliveries.end(delivery.doc, DeliveryStatus.FAILED, clock.iso(clock.now()))
    doc: Delivery = {**failed, "error_code": DeliveryError.WORKER_LOST}
    return Result(doc, Change(None, [endpoints.unchanged_check(delivery.scope, endpoint)]))


def _save(delivery: ClaimedDelivery, result: Result) -> None:
    """Write the result and end the claim. Then set the timer, and send what the endpoint's change sends.

    Does nothing if another worker has taken over the delivery. Raises ConditionFailed or Contended if the endpoint was
    modified since it was read; nothing is written then.
    """
    row, doc, timer = delivery.claim.row, result.doc, result.timer
    key = (row["pk"], row["sk"])
    schedule = tasks.NO_WORK if timer is None else tasks.due_attributes(doc["id"], timer.at, DELIVERY_GRACE_S)
    changes: dict[str, table.Value | None] = {
        **schedule,
        **deliveries.list_attributes(row, doc["status"]),
        "doc": fields.to_json(doc),
        "put_off_until": None,
        "by_hand": None,
    }
    try:
        tasks.save_step(delivery.claim, [table.Update(*key, set=changes), *result.endpoint_change.writes])
    except table.ConditionFailed as failed:
        if isinstance(failed.op, table.Update) and (failed.op.pk, failed.op.sk) == key:
            return
        raise
    if timer is not None:
        _set_timer(delivery, timer)
    result.endpoint_change.after_commit()


def _set_timer(delivery: ClaimedDelivery, timer: Timer) -> None:
    row = delivery.claim.row
    # The unscaled wait decides between queue and state machine, so that a fast local run uses both.
    if timer.wait_s <= limits.LONGEST_QUEUE_DELAY_S:
        wake_ups.send([deliveries.wake_up(row, timer.at)])
    else:
        name = f"{delivery.doc['id']}-{delivery.number + 1}"
        wake_ups.send_at("delayed_delivery", name, timer.at, deliveries.wake_up(row))


def _release(delivery: ClaimedDelivery, *, until: clock.Instant | None = None) -> None:
    """End the claim. The attempt stays due. If it is put off, its next wake-up comes at the instant `until`."""
    row = delivery.claim.row
    tasks.release(delivery.claim, None if until is None else deliveries.put_off(row, until))
