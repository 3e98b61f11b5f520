"""Claims of deliveries: a worker claims a delivery, and saves what has become of it while it still has the claim."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from shared.core import clock, limits, trace
from shared.resources import fields
from shared.store import table
from shared.store.keys import Scope, scope_of
from shared.tasks import tasks, wake_ups
from shared.webhooks import queues
from shared.webhooks.deliveries import resource
from shared.webhooks.deliveries.resource import (
    DELIVERY_GRACE_S,
    Attempt,
    Delivery,
    DeliveryRow,
    DeliveryTrigger,
    Phase,
    phase,
)
from shared.webhooks.deliveries.rules import DeliveryError, DeliveryStatus, Ended, Outcome, Retry
from shared.webhooks.endpoints.resource import Snapshot, unchanged

LEASE_MS = 60 * clock.SECOND
"""The lease of a worker (milliseconds). An attempt times out after 15 seconds."""


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
    def due_at_ms(self) -> int:
        """When the attempt is due (milliseconds)."""
        return self.claim.row["due_at"]

    def is_closed(self, endpoint: Snapshot | None) -> bool:
        """Whether the endpoint was disabled or deleted since the delivery's creation, so that nothing may be sent."""
        return phase(self.claim.row, endpoint, self.claim.token) is Phase.CLOSED


def claim(pk: str, sk: str) -> ClaimedDelivery | None:
    """Claim the delivery, if its attempt is due now or in a moment and no other worker has claimed it. None otherwise.

    An attempt that is due later has its own timer, and is found by `sweep`.
    """
    claim: tasks.Claim[DeliveryRow] | None = tasks.claim_soon(pk, sk, lambda: clock.now() + LEASE_MS)
    if claim is None:
        return None
    doc: Delivery = json.loads(claim.row["doc"])
    trace.name(event_id=doc["event_id"])
    return ClaimedDelivery(scope_of(pk), claim, doc)


def save_attempt(
    delivery: ClaimedDelivery,
    url: str,
    sent_at_ms: int,
    outcome: Outcome,
    step: Retry | Ended,
    also: Sequence[table.Write] = (),
) -> bool:
    """Save the attempt, its next step, and the writes to the endpoint (`also`) in one transaction.

    `sent_at_ms` is the instant at which the request was sent. Then sets the timer of the next attempt. Writes nothing
    and returns False if another worker has taken over. Raises ConditionFailed or Contended if the endpoint was modified
    concurrently: read it again.
    """
    now = clock.now()
    attempt: Attempt = {
        "number": delivery.number,
        "at": clock.iso(sent_at_ms),
        "response_status_code": outcome.status,
        "error_code": outcome.error,
        "duration_ms": outcome.duration_ms,
    }
    doc: Delivery = {
        **delivery.doc,
        "url": url,
        "attempt_count": delivery.number,
        "last_attempt_at": attempt["at"],
        "response_status_code": outcome.status,
        "response_body": outcome.body,
        "error_code": outcome.error,
        "duration_ms": outcome.duration_ms,
        "attempts": [*delivery.doc["attempts"], attempt],
    }
    if isinstance(step, Ended):
        return _save(delivery, resource.end(doc, step.status, clock.iso(now)), tasks.NO_WORK, also)
    at = now + clock.scaled(step.wait_s)
    waiting: Delivery = {**doc, "next_attempt_at": clock.iso(at)}
    saved = _save(delivery, waiting, tasks.due_attributes(doc["id"], at, DELIVERY_GRACE_S), also)
    if saved:
        _set_timer(delivery, step.wait_s, now, at)
    return saved


def cancel(delivery: ClaimedDelivery, endpoint: Snapshot | None) -> None:
    """Cancel the delivery because its endpoint was disabled or deleted."""
    _save(delivery, resource.close(delivery.claim.row, endpoint), tasks.NO_WORK)


def fail_lost(delivery: ClaimedDelivery, endpoint: Snapshot) -> None:
    """Fail the delivery because too many workers were lost during one attempt.

    Raises ConditionFailed or Contended if the endpoint was modified concurrently; nothing is written then.
    """
    failed = resource.end(delivery.doc, DeliveryStatus.FAILED, clock.iso(clock.now()))
    doc: Delivery = {**failed, "error_code": DeliveryError.WORKER_LOST}
    _save(delivery, doc, tasks.NO_WORK, [unchanged(delivery.scope, endpoint)])


def release(delivery: ClaimedDelivery, *, until_ms: int | None = None) -> None:
    """End the claim. The attempt stays due. If it is put off, its next wake-up comes at the instant `until_ms`."""
    row = delivery.claim.row
    tasks.release(delivery.claim, None if until_ms is None else resource.put_off(delivery.scope, row, until_ms))


def _save(
    delivery: ClaimedDelivery, doc: Delivery, schedule: tasks.Attributes, also: Sequence[table.Write] = ()
) -> bool:
    """Write the delivery and end the claim. False if another worker has taken over the delivery.

    Raises ConditionFailed or Contended if a write in `also` fails.
    """
    row = delivery.claim.row
    key = (row["pk"], row["sk"])
    changes: dict[str, table.Value | None] = {**schedule, "doc": fields.to_json(doc), "put_off_until": None}
    changes |= dict.fromkeys({"f1", "by_hand"} & row.keys())
    lists = {
        DeliveryStatus.FAILED: resource.failed_partition,
        DeliveryStatus.ATTEMPTING: resource.retrying_partition,
    }
    partition = lists.get(doc["status"])
    if partition and not resource.is_test(row):
        changes["f1"] = partition(delivery.scope, doc["webhook_endpoint_id"])
    try:
        tasks.save_step(delivery.claim, [table.Update(*key, set=changes), *also])
    except table.ConditionFailed as failed:
        if isinstance(failed.op, table.Update) and (failed.op.pk, failed.op.sk) == key:
            return False
        raise
    return True


def _set_timer(delivery: ClaimedDelivery, wait_s: int, now_ms: int, at_ms: int) -> None:
    row = delivery.claim.row
    # The unscaled wait decides between queue and state machine, so that a fast local run uses both.
    if wait_s <= limits.LONGEST_QUEUE_DELAY_S:
        wake_ups.send(queues.LATER, [resource.wake_up(row, (at_ms - now_ms) // clock.SECOND)])
    else:
        name = f"{delivery.doc['id']}-{delivery.number + 1}"
        wake_ups.wait("delayed_delivery", name, at_ms, resource.wake_up(row))
