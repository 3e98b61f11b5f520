"""Deliveries: an event on its way to one endpoint (specification, "Retry behavior"; contract 9).

A delivery's row owes its next attempt (`shared/work/owed.py`). A worker claims it, sends, and records the attempt on
condition that its claim still holds. The next step is a pure function of the attempt's number and outcome
(`next_step`). What may become of a row is a pure function of the row and its endpoint (`phase`), which reads, manual
retries and workers all ask.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

from shared import appointments
from shared.core import clock, facts, ids, table
from shared.core.errors import ApiError, not_found
from shared.core.keys import Scope
from shared.resources import fields
from shared.resources.collections import Collection
from shared.webhooks import endpoints, events
from shared.webhooks.events import EVENTS, NewEvent
from shared.work import hints, owed
from shared.work.hints import Hint

if TYPE_CHECKING:
    # Only the worker that sends pays for the import of the HTTP client.
    from shared.webhooks.http_client import Outcome

WAITS = (0, 5, 30, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 24 * 3600)
"""The retry schedule: seconds from the end of one attempt to the next, by the number of attempts made
(specification, "Retry behavior"; contract 0)."""
LEASE = 60 * clock.SECOND
"""How long a worker may take for an attempt; the attempt itself is cut after 15 seconds."""
LOST_WORKERS = 3
"""After so many dead workers on one attempt the delivery fails with `worker_lost` (contract 9)."""
GRACE = 60
"""Seconds, scaled, after which `sweep` takes the hint at an attempt for lost."""
ATTEMPTING, SUCCEEDED, FAILED, CANCELED = "attempting", "succeeded", "failed", "canceled"


class Attempt(TypedDict):
    """One attempt to deliver an event. Never changes."""

    number: int
    """From 1."""
    at: str
    """When the attempt began."""
    response_status_code: int | None
    """The receiver's HTTP status. Null if it sent none."""
    error_code: str | None
    """Why the attempt failed (contract 9 lists the values). Null if it succeeded."""
    duration_ms: int
    """Milliseconds from the attempt's start to its outcome."""


class Delivery(TypedDict):
    """An event on its way to one endpoint (specification, "Retry behavior"; contract 9). Id prefix `whd_`."""

    id: str
    object: str
    """`webhook_delivery`."""
    event_id: str
    event_type: str
    webhook_endpoint_id: str
    url: str
    """Where the latest attempt was sent; before the first, the endpoint's URL when the delivery was created."""
    status: str
    """`attempting`, then `succeeded`, `failed` or `canceled`, which never change."""
    trigger: str
    """`automatic`, `manual` (a retry) or `test`."""
    retry_of: str | None
    """The delivery that a manual retry repeats. Null otherwise."""
    attempt_count: int
    """Recorded attempts."""
    max_attempts: int
    """9."""
    next_attempt_at: str | None
    """When the next attempt is due. Null once the delivery has ended."""
    last_attempt_at: str | None
    """When the latest attempt began. Null before the first."""
    response_status_code: int | None
    """Of the latest attempt; null before the first and if the receiver sent none."""
    response_body: str | None
    """The first KiB of the latest response's body. Null if there was none."""
    error_code: str | None
    """Why the latest attempt failed, or why the delivery ended without one. Null if it succeeded."""
    duration_ms: int | None
    """Of the latest attempt, in milliseconds. Null before the first."""
    attempts: list[Attempt]
    """Every recorded attempt, oldest first."""
    livemode: bool
    created_at: str
    completed_at: str | None
    """When the delivery ended. Null while it is attempting."""


class DeliveryRow(TypedDict):
    """A delivery's row. While it waits, it owes its next attempt, too (`shared/work/owed.py`)."""

    pk: str
    sk: str
    kind: str
    doc: str
    endpoint: str
    """The endpoint's id."""
    generation: int
    """The endpoint's generation when the delivery was created."""
    expires_at: int
    due_at: NotRequired[int]
    """When the next attempt is due (milliseconds). Absent once the delivery has ended."""


DELIVERIES: Collection[Delivery, DeliveryRow] = Collection(kind="delivery", prefix="whd_", created=None)


@dataclass(frozen=True)
class Retry:
    """Another attempt, `wait` seconds (unscaled) after the end of this one."""

    wait: int


@dataclass(frozen=True)
class Ended:
    """No further attempt. `gone`: the receiver answered that it will never take one."""

    status: str
    gone: bool = False


def next_step(number: int, outcome: Outcome, *, closed: bool = False) -> Retry | Ended:
    """What follows attempt `number` (from 1); `closed` if its endpoint was disabled or deleted during it."""
    if outcome.error is None:
        return Ended(SUCCEEDED)
    if closed:
        return Ended(CANCELED)
    if outcome.status is not None and 400 <= outcome.status < 500 and outcome.status not in (408, 429):
        return Ended(FAILED, gone=outcome.status == 410)
    return Retry(WAITS[number]) if number < len(WAITS) else Ended(FAILED)


class Phase(Enum):
    """What may become of a delivery."""

    ENDED = "It never changes again."
    UNDER_WAY = "A worker has it, alive or dead; what is recorded of the attempt decides."
    WAITING = "Its next attempt is owed."
    CLOSED = "It waits for an endpoint that was disabled or deleted since, and is to be canceled."


def phase(row: table.Row, endpoint: endpoints.State | None, token: str | None = None) -> Phase:
    """The phase of a delivery's row for everybody, or for the worker whose claim has this token."""
    if "due_at" not in row:
        return Phase.ENDED
    # An expired lease counts too: its worker may have sent the event.
    if "lease" in row and row["lease"] != token:
        return Phase.UNDER_WAY
    # The row may be newer than what was read of its endpoint.
    if endpoint is None or endpoint.generation > row["generation"]:
        return Phase.CLOSED
    return Phase.WAITING


@dataclass(frozen=True)
class Claim:
    """A delivery that this worker, and until its lease expires no other, may send."""

    scope: Scope
    work: owed.Claim
    doc: Delivery

    @property
    def number(self) -> int:
        """The attempt's number, from 1."""
        return self.doc["attempt_count"] + 1

    @property
    def due_at(self) -> int:
        """When the attempt was due (milliseconds)."""
        return int(self.work.row["due_at"])

    @property
    def lost_workers(self) -> int:
        """How many workers died over this attempt."""
        return self.work.lost_workers

    def is_closed(self, endpoint: endpoints.State | None) -> bool:
        """Whether the endpoint was disabled or deleted since the delivery was created, so that nothing is sent."""
        return phase(self.work.row, endpoint, self.work.token) is Phase.CLOSED


def partition(scope: Scope, event_id: str) -> str:
    """The partition of an event's deliveries."""
    return scope.pk(EVENTS.kind, event_id)


def new_row(
    event: NewEvent, endpoint: endpoints.State, *, trigger: str = "automatic", retry_of: str | None = None
) -> table.Row:
    """The row of a new delivery, due now; `canceled` from the start if the endpoint is disabled.

    The automatic delivery of an event to an endpoint always has the same id.
    """
    now, endpoint_id = clock.now(), endpoint.doc["id"]
    automatic = trigger == "automatic"
    prefix = DELIVERIES.prefix
    id = ids.derived(prefix, event.instant, event.id, endpoint_id) if automatic else ids.new(prefix, now)
    doc: Delivery = {
        "id": id,
        "object": "webhook_delivery",
        "event_id": event.id,
        "event_type": event.type,
        "webhook_endpoint_id": endpoint_id,
        "url": endpoint.doc["url"],
        "status": ATTEMPTING,
        "trigger": trigger,
        "retry_of": retry_of,
        "attempt_count": 0,
        "max_attempts": len(WAITS),
        "next_attempt_at": clock.iso(now),
        "last_attempt_at": None,
        "response_status_code": None,
        "response_body": None,
        "error_code": None,
        "duration_ms": None,
        "attempts": [],
        "livemode": event.scope.livemode,
        "created_at": clock.iso(now),
        "completed_at": None,
    }
    row: table.Row = {
        "pk": partition(event.scope, event.id),
        "sk": id,
        "kind": DELIVERIES.kind,
        "endpoint": endpoint_id,
        "generation": endpoint.generation,
        "expires_at": (now + events.RETENTION) // clock.SECOND,
    }
    if not endpoint.doc["enabled"]:
        return row | {"doc": fields.to_json(_canceled(doc, clock.iso(now)))}
    return row | {"doc": fields.to_json(doc)} | owed.owed(id, now, GRACE)


def hint(scope: Scope, event_id: str, delivery_id: str, endpoint_id: str, delay: int = 0) -> Hint:
    """The message that tells a worker of a delivery, `delay` seconds from now."""
    message = {
        "project_id": scope.project_id,
        "livemode": scope.livemode,
        "event_id": event_id,
        "delivery_id": delivery_id,
    }
    return Hint(message, group=endpoint_id, once=delivery_id, delay=delay)


def hint_of(scope: Scope, delivery: Delivery, delay: int = 0) -> Hint:
    """The message that tells a worker of this delivery, `delay` seconds from now."""
    return hint(scope, delivery["event_id"], delivery["id"], delivery["webhook_endpoint_id"], delay)


def claim(scope: Scope, event_id: str, delivery_id: str) -> Claim | owed.NotDue | None:
    """Claim the delivery, if its attempt is due and no other worker has it. None if there is nothing to do."""
    work = owed.claim(partition(scope, event_id), delivery_id, clock.now() + LEASE)
    return Claim(scope, work, json.loads(work.row["doc"])) if isinstance(work, owed.Claim) else work


def record(claim: Claim, url: str, outcome: Outcome, step: Retry | Ended, also: Sequence[table.Operation] = ()) -> None:
    """Write down the attempt, what follows, and what it says of the endpoint (`also`), in one transaction.

    Then the next attempt's timer is set. Does nothing if the claim has expired and another worker has the delivery.
    Raises ConditionFailed or Contended if the endpoint was changed: read it again.
    """
    now = clock.now()
    attempt: Attempt = {
        "number": claim.number,
        "at": clock.iso(now - outcome.duration_ms),
        "response_status_code": outcome.status,
        "error_code": outcome.error,
        "duration_ms": outcome.duration_ms,
    }
    doc: Delivery = {
        **claim.doc,
        "url": url,
        "attempt_count": claim.number,
        "last_attempt_at": attempt["at"],
        "response_status_code": outcome.status,
        "response_body": outcome.body,
        "error_code": outcome.error,
        "duration_ms": outcome.duration_ms,
        "attempts": [*claim.doc["attempts"], attempt],
    }
    if isinstance(step, Ended):
        _save(claim, _ended(doc, step.status, clock.iso(now)), owed.NOTHING, also)
        return
    at = now + clock.scaled(step.wait)
    waiting: Delivery = {**doc, "next_attempt_at": clock.iso(at)}
    if _save(claim, waiting, owed.owed(doc["id"], at, GRACE), also):
        _set_timer(claim, step.wait, now, at)


def cancel(claim: Claim, endpoint: endpoints.State | None) -> None:
    """End the delivery because its endpoint was disabled or deleted."""
    _save(claim, _canceled_doc(claim.work.row, endpoint), owed.NOTHING)


def fail_lost(claim: Claim, endpoint: endpoints.State) -> None:
    """End the delivery because worker after worker died over the same attempt.

    Raises ConditionFailed or Contended if the endpoint was changed meanwhile: nothing was written.
    """
    doc: Delivery = {**_ended(claim.doc, FAILED, clock.iso(clock.now())), "error_code": "worker_lost"}
    _save(claim, doc, owed.NOTHING, [endpoints.unchanged(claim.scope, endpoint)])


def release(claim: Claim) -> None:
    """Give the delivery back, still due, for another worker."""
    owed.release(claim.work)


def shown(scope: Scope, rows: list[table.Row]) -> list[Delivery]:
    """Deliveries as clients see them. One that waits for a closed endpoint is canceled for good first."""
    endpoint_ids = [row["endpoint"] for row in rows if "due_at" in row]
    states = endpoints.states(scope, endpoint_ids) if endpoint_ids else {}
    return [_shown(row, states.get(row["endpoint"])) for row in rows]


def find(scope: Scope, event_id: str, delivery_id: str) -> table.Row:
    """The delivery's row. Raises `resource_not_found`."""
    well_formed = ids.is_id(EVENTS.prefix, event_id) and ids.is_id(DELIVERIES.prefix, delivery_id)
    row = table.get(partition(scope, event_id), delivery_id) if well_formed else None
    if row is None:
        raise not_found("webhook delivery", delivery_id)
    return row


def of_event(scope: Scope, event_id: str) -> list[table.Row]:
    """All deliveries of an event, newest first."""
    return [row for page in table.query(partition(scope, event_id), limit=100) for row in page]


def retry(scope: Scope, event_id: str, delivery_id: str) -> tuple[list[table.Operation], Delivery]:
    """The writes of a manual retry, and the new delivery. Raises ApiError."""
    old = find(scope, event_id, delivery_id)
    event_row = events.find(scope, event_id)
    endpoint = endpoints.states(scope, [old["endpoint"]]).get(old["endpoint"])
    if endpoint is None or endpoint.deleted:
        raise not_found("webhook endpoint", old["endpoint"])
    to_endpoint = [row for row in of_event(scope, event_id) if row["endpoint"] == old["endpoint"]]
    if any(_shown(row, endpoint)["status"] == ATTEMPTING for row in to_endpoint):
        raise ApiError("delivery_in_progress")
    if not endpoint.doc["enabled"]:
        raise ApiError("webhook_endpoint_disabled")
    new = new_row(events.of_row(scope, event_row), endpoint, trigger="manual", retry_of=delivery_id)
    retries = event_row.get("retries", 0)
    # Two retries at once meet on the event's row: the later one is decided again and finds the first.
    meeting = table.Update(
        event_row["pk"],
        event_row["sk"],
        set={"retries": retries + 1, "expires_at": new["expires_at"]},
        condition="retries = :retries" if retries else "attribute_exists(pk) AND attribute_not_exists(retries)",
        values={":retries": retries} if retries else {},
    )
    return [meeting, table.Put(new), endpoints.unchanged(scope, endpoint)], json.loads(new["doc"])


def test(scope: Scope, endpoint: endpoints.State) -> tuple[list[table.Operation], Delivery]:
    """The writes of a synthetic `appointment.created` for this endpoint alone, and its delivery. Raises ApiError."""
    if not endpoint.doc["enabled"]:
        raise ApiError("webhook_endpoint_disabled")
    appointment = appointments.sample(scope)
    instant = clock.parse(appointment["created_at"])
    event = events.build(scope, ids.new(EVENTS.prefix, instant), "appointment.created", instant, appointment, None)
    new = new_row(event, endpoint, trigger="test")
    return [table.Put(event.row()), table.Put(new), endpoints.unchanged(scope, endpoint)], json.loads(new["doc"])


def _ended(doc: Delivery, status: str, at: str) -> Delivery:
    """The delivery, ended with this status; a canceled one shows why."""
    ended: Delivery = {**doc, "status": status, "next_attempt_at": None, "completed_at": at}
    return {**ended, "error_code": "endpoint_disabled"} if status == CANCELED else ended


def _canceled(doc: Delivery, at: str) -> Delivery:
    return _ended(doc, CANCELED, at)


def _canceled_doc(row: table.Row, endpoint: endpoints.State | None) -> Delivery:
    """The delivery, canceled as of when its endpoint was closed, but not before what is known to have come later."""
    doc: Delivery = json.loads(row["doc"])
    closed_at = endpoint.closed_at(row["generation"]) if endpoint else None
    # While workers died over it, it was shown as under way.
    known = [doc["created_at"], clock.iso(clock.now()) if closed_at is None or "lost" in row else closed_at]
    if doc["last_attempt_at"] is not None:
        known.append(clock.iso(clock.parse(doc["last_attempt_at"]) + (doc["duration_ms"] or 0)))
    return _canceled(doc, max(known))


def _shown(row: table.Row, endpoint: endpoints.State | None) -> Delivery:
    """The delivery as clients see it. Raises ConditionFailed or Contended if the row keeps changing.

    It is shown as canceled only once its row is: otherwise a worker could claim it after that, and the delivery
    would be under way again.
    """
    if phase(row, endpoint) is not Phase.CLOSED:
        return cast("Delivery", json.loads(row["doc"]))

    read = [row]

    def cancel_unless_claimed() -> Delivery:
        latest = read.pop() if read else table.get(row["pk"], row["sk"]) or row
        if phase(latest, endpoint) is not Phase.CLOSED:
            return cast("Delivery", json.loads(latest["doc"]))
        doc = _canceled_doc(latest, endpoint)
        cancellation = table.Update(
            row["pk"],
            row["sk"],
            set={**owed.NOTHING, "doc": fields.to_json(doc)},
            condition="doc = :doc AND attribute_not_exists(lease)",
            values={":doc": latest["doc"]},
        )
        table.write([cancellation], uuid.uuid4().hex)
        return doc

    return owed.retry_on_conflict(cancel_unless_claimed)


def _save(claim: Claim, doc: Delivery, owing: owed.Attributes, also: Sequence[table.Operation] = ()) -> bool:
    """Write the delivery and give up the claim. False if the claim no longer holds: the next worker has the delivery.

    Raises ConditionFailed or Contended if a write in `also` cannot be made.
    """
    row = claim.work.row
    update = owed.held(claim.work, table.Update(row["pk"], row["sk"], set={**owing, "doc": fields.to_json(doc)}))
    try:
        table.write([update, *also], claim.work.token)
    except table.ConditionFailed as failed:
        if failed.op is update:
            return False
        raise
    return True


def _set_timer(claim: Claim, wait: int, now: int, at: int) -> None:
    # The way of a wait is chosen by its unscaled length, so that a quick local run takes both.
    if wait <= facts.LONGEST_QUEUE_DELAY:
        hints.send("retries", [hint_of(claim.scope, claim.doc, (at - now) // clock.SECOND)])
    else:
        name = f"{claim.doc['id']}-{claim.number + 1}"
        hints.wait("delayed_delivery", name, at, hint_of(claim.scope, claim.doc))
