"""Deliveries: the sending of one event to one endpoint (promises 9).

A delivery's row schedules its next attempt (`shared/tasks/tasks.py`). A worker claims the row, sends the event, and
records the attempt on condition that it still has the claim. Pure functions hold the rules: `attempts.decide` before an
attempt; `next_step` after it, by its number and outcome; `phase` by a row and its endpoint, for workers, reads and
manual retries.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired, TypedDict

from shared.appointments import commands as appointments
from shared.core import clock, facts, ids, trace
from shared.core.errors import ApiError, Code, not_found
from shared.resources import fields
from shared.resources.collections import Collection
from shared.resources.schema import Count, DeliveryId, EventId, Keywords, Time, WebhookEndpointId, one_of
from shared.store import commit, table
from shared.store.keys import Scope, scope_of
from shared.tasks import tasks, wake_ups
from shared.tasks.wake_ups import WakeUp
from shared.webhooks import endpoints, events, queues
from shared.webhooks.events import EVENTS, NewEvent

if TYPE_CHECKING:
    # Only the delivery worker imports the HTTP client.
    from shared.webhooks.http_client import Outcome

RETRY_SCHEDULE = (0, 5, 30, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 24 * 3600)
"""The retry schedule: seconds before each attempt, from the end of the previous one (the table of
promise 0.6)."""
LEASE = 60 * clock.SECOND
"""The lease of a worker (milliseconds). An attempt times out after 15 seconds."""
MAX_LOST_WORKERS = 3
"""The number of workers lost during one attempt after which the delivery fails with `worker_lost` (promises 9)."""
SWEEP_GRACE = 60
"""Seconds, scaled, after the due time of an attempt from which `sweep` sends another wake-up."""
SWEEP_AHEAD = 75
"""Seconds, scaled, before the planned time of a delivery that was put off from which `sweep`, which runs each minute,
sends its wake-up. The wake-up has the delay until that time."""
OVERDUE = 2 * clock.SECOND
"""How long after its time (milliseconds) an attempt is usually made at the latest: a state machine waits up to a second
longer."""
ATTEMPTING, SUCCEEDED, FAILED, CANCELED = STATUSES = ("attempting", "succeeded", "failed", "canceled")
ERROR_CODES = (
    "timeout",
    "connection_refused",
    "dns_error",
    "tls_error",
    "redirect",
    "http_error",
    "url_blocked",
    "endpoint_disabled",
    "worker_lost",
)
"""Why an attempt failed, or why a delivery ended without one (promises 9)."""
Status = Annotated[int, Keywords(minimum=100, maximum=999)]
"""The HTTP status of a receiver's response."""


class Attempt(TypedDict):
    """One attempt to deliver an event. Never changes."""

    number: Annotated[int, Keywords(minimum=1)]
    """The attempt's number, from 1."""
    at: Time
    """When the request was sent."""
    response_status_code: Status | None
    """The HTTP status of the receiver's response. Null without a response."""
    error_code: Annotated[str, one_of(ERROR_CODES, "DeliveryError")] | None
    """Why the attempt failed. Null if it succeeded."""
    duration_ms: Count
    """Milliseconds from the sending of the request to the attempt's outcome."""


class Delivery(TypedDict):
    """The delivery of one event to one endpoint (promises 9). Id prefix `whd_`."""

    id: DeliveryId
    """The delivery's id."""
    object: Literal["webhook_delivery"]
    """The type of the object."""
    event_id: EventId
    """The event that is delivered."""
    event_type: Annotated[str, one_of(facts.EVENT_TYPES, "EventType")]
    """The event's type."""
    webhook_endpoint_id: WebhookEndpointId
    """The endpoint to which it is delivered."""
    url: str
    """The URL of the latest attempt; before the first, the endpoint's URL at the delivery's creation."""
    status: Annotated[str, one_of(STATUSES, "DeliveryStatus")]
    """`attempting`, then `succeeded`, `failed` or `canceled`, which are final."""
    trigger: Annotated[str, one_of(("automatic", "manual", "test"))]
    """Why the delivery was created: by its event, by a manual retry, or by the test operation."""
    retry_of: DeliveryId | None
    """The id of the delivery that a manual retry repeats. Null otherwise."""
    attempt_count: Annotated[int, Keywords(minimum=0, maximum=len(RETRY_SCHEDULE))]
    """The number of recorded attempts."""
    max_attempts: Annotated[int, Keywords(const=len(RETRY_SCHEDULE))]
    """The number of attempts after which the delivery fails."""
    next_attempt_at: Time | None
    """When the next attempt is planned; the present time if it is being made or waits for its turn.

    Null once the delivery has ended.
    """
    last_attempt_at: Time | None
    """When the request of the latest attempt was sent. Null before the first."""
    response_status_code: Status | None
    """The HTTP status of the latest attempt. Null before the first, and without a response."""
    response_body: str | None
    """The first KiB of the body of the latest response. Null without a response."""
    error_code: Annotated[str, one_of(ERROR_CODES, "DeliveryError")] | None
    """Why the latest attempt failed, or why the delivery ended without an attempt. Null after a success."""
    duration_ms: Count | None
    """The duration of the latest attempt in milliseconds. Null before the first."""
    attempts: list[Attempt]
    """Every recorded attempt, oldest first."""
    livemode: bool
    """False for a delivery of test mode."""
    created_at: Time
    """When the delivery was created."""
    completed_at: Time | None
    """When the delivery ended. Null while its status is `attempting`."""


class DeliveryRow(TypedDict):
    """A delivery's row. It schedules the next attempt until the delivery has ended (`shared/tasks/tasks.py`)."""

    pk: str
    sk: str
    kind: str
    doc: str
    endpoint: str
    """The endpoint's id."""
    generation: int
    """The endpoint's generation at the delivery's creation."""
    expires_at: int
    due_at: NotRequired[int]
    """When the next attempt is due (milliseconds). Absent after the delivery has ended."""
    put_off_until: NotRequired[int]
    """When a put-off attempt is planned (milliseconds), which is due already. Absent if it has not been put off."""
    test: NotRequired[bool]
    """Whether it is a manual retry of a test event. Absent for all others."""
    f1: NotRequired[str]
    """The partition of failed deliveries (`failed_partition`) or, while a failed attempt is to be retried, of these
    (`retrying_partition`). Absent from all others, and once a failed delivery was retried."""
    by_hand: NotRequired[bool]
    """Whether a person has made the next attempt due now (`send_now`)."""


DELIVERIES: Collection[Delivery, DeliveryRow] = Collection(kind="delivery", prefix="whd_", created=None)


@dataclass(frozen=True)
class Retry:
    """There is another attempt, `wait` seconds (not scaled) after the end of this one."""

    wait: int


@dataclass(frozen=True)
class Ended:
    """There is no other attempt. `gone` if the receiver responded with 410."""

    status: str
    gone: bool = False


def next_step(number: int, outcome: Outcome, *, closed: bool = False) -> Retry | Ended:
    """The step after attempt `number` (from 1). `closed` if the endpoint was disabled or deleted during the attempt."""
    if outcome.error is None:
        return Ended(SUCCEEDED)
    if closed:
        return Ended(CANCELED)
    if outcome.status is not None and 400 <= outcome.status < 500 and outcome.status not in (408, 429):
        return Ended(FAILED, gone=outcome.status == 410)
    return Retry(RETRY_SCHEDULE[number]) if number < len(RETRY_SCHEDULE) else Ended(FAILED)


class Phase(Enum):
    """The state of a delivery that decides who may change it."""

    ENDED = "The delivery has ended and never changes."
    UNDER_WAY = "A worker, which may be dead, has claimed it. The outcome of its attempt decides."
    WAITING = "Its next attempt is scheduled."
    CLOSED = "Its endpoint was disabled or deleted since, so it must be canceled."


def phase(row: table.Row, endpoint: endpoints.Snapshot | None, token: str | None = None) -> Phase:
    """The phase of a delivery's row, or its phase for the worker whose claim has this token."""
    if "due_at" not in row:
        return Phase.ENDED
    # A claim with an expired lease counts too: its worker may have sent the event.
    if "lease" in row and row["lease"] != token:
        return Phase.UNDER_WAY
    # The row may be newer than the snapshot of the endpoint, so the generations need not be equal.
    if endpoint is None or endpoint.generation > row["generation"]:
        return Phase.CLOSED
    return Phase.WAITING


@dataclass(frozen=True)
class Claim:
    """A delivery that only this worker may send until its lease expires."""

    scope: Scope
    work: tasks.Claim
    doc: Delivery

    @property
    def number(self) -> int:
        """The attempt's number, from 1."""
        return self.doc["attempt_count"] + 1

    @property
    def by_hand(self) -> bool:
        """Whether a person waits for this attempt: the first one of a manual retry or a test event, or one sent now."""
        return (self.number == 1 and self.doc["trigger"] != "automatic") or "by_hand" in self.work.row

    @property
    def due_at(self) -> int:
        """When the attempt is due (milliseconds)."""
        return int(self.work.row["due_at"])

    @property
    def lost_workers(self) -> int:
        """The number of workers lost during this attempt."""
        return self.work.lost_workers

    def is_closed(self, endpoint: endpoints.Snapshot | None) -> bool:
        """Whether the endpoint was disabled or deleted since the delivery's creation, so that nothing may be sent."""
        return phase(self.work.row, endpoint, self.work.token) is Phase.CLOSED


def partition(scope: Scope, event_id: str) -> str:
    """The partition key of an event's deliveries."""
    return scope.pk(EVENTS.kind, event_id)


def automatic_key(scope: Scope, event_id: str, endpoint_id: str) -> tuple[str, str]:
    """The key of an event's automatic delivery to an endpoint, which exists if the event matched its filters."""
    return partition(scope, event_id), _automatic_id(ids.instant(EVENTS.prefix, event_id), event_id, endpoint_id)


def failed_partition(scope: Scope, endpoint_id: str) -> str:
    """The index partition of an endpoint's failed deliveries that nobody has retried, test events excepted."""
    return scope.index(DELIVERIES.kind, "failed_to", endpoint_id)


def retrying_partition(scope: Scope, endpoint_id: str) -> str:
    """The index partition of the deliveries to an endpoint that wait for another attempt, test events excepted."""
    return scope.index(DELIVERIES.kind, "retrying_to", endpoint_id)


def new_row(
    event: NewEvent, endpoint: endpoints.Snapshot, *, trigger: str = "automatic", retry_of: str | None = None
) -> table.Row:
    """The row of a new delivery, due now; already `canceled` if the endpoint is disabled (promises 9).

    The id of an automatic delivery is derived from the event and the endpoint, so that it is created only once.
    """
    now, endpoint_id = clock.now(), endpoint.doc["id"]
    automatic, prefix = trigger == "automatic", DELIVERIES.prefix
    id = _automatic_id(event.instant, event.id, endpoint_id) if automatic else ids.new(prefix, now)
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
        "max_attempts": len(RETRY_SCHEDULE),
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
        return row | {"doc": fields.to_json(_ended(doc, CANCELED, clock.iso(now)))}
    put_off = _put_off(id, queues.put_off(now)) if automatic and endpoint.hanging else {}
    return row | {"doc": fields.to_json(doc)} | tasks.due_attributes(id, now, SWEEP_GRACE) | put_off


def wake_up(row: table.Row, delay: int = 0, destination: queues.Destination | None = None) -> WakeUp:
    """The wake-up for a delivery, `delay` seconds from now, in the message group of its endpoint.

    With a `destination`, it has the group and `once` of the destination, and no delay.
    """
    if destination is None:
        return WakeUp(row["pk"], row["sk"], group=row["endpoint"], delay=delay)
    return WakeUp(row["pk"], row["sk"], group=destination.group, once=destination.once)


def planned_wake_up(row: table.Row) -> WakeUp:
    """The wake-up of `sweep` for a delivery. If the delivery was put off, the wake-up has the delay until its time."""
    return wake_up(row, wake_ups.delay_until(row.get("put_off_until", 0)))


def claim(pk: str, sk: str) -> Claim | None:
    """Claim the delivery, if its attempt is due now or in a moment and no other worker has claimed it. None otherwise.

    An attempt that is due later has its own timer, and is found by `sweep`.
    """
    work = tasks.claim_soon(pk, sk, lambda: clock.now() + LEASE)
    if work is None:
        return None
    claim = Claim(scope_of(pk), work, json.loads(work.row["doc"]))
    trace.name(event_id=claim.doc["event_id"])
    return claim


def record(
    claim: Claim, url: str, sent_at: int, outcome: Outcome, step: Retry | Ended, also: Sequence[table.Write] = ()
) -> bool:
    """Record the attempt, its next step, and the writes to the endpoint (`also`) in one transaction.

    `sent_at` is the instant at which the request was sent. Then sets the timer of the next attempt. Writes nothing and
    returns False if another worker has taken over. Raises ConditionFailed or Contended if the endpoint was modified
    concurrently: read it again.
    """
    now = clock.now()
    attempt: Attempt = {
        "number": claim.number,
        "at": clock.iso(sent_at),
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
        return _save(claim, _ended(doc, step.status, clock.iso(now)), tasks.NO_WORK, also)
    at = now + clock.scaled(step.wait)
    waiting: Delivery = {**doc, "next_attempt_at": clock.iso(at)}
    saved = _save(claim, waiting, tasks.due_attributes(doc["id"], at, SWEEP_GRACE), also)
    if saved:
        _set_timer(claim, step.wait, now, at)
    return saved


def cancel(claim: Claim, endpoint: endpoints.Snapshot | None) -> None:
    """Cancel the delivery because its endpoint was disabled or deleted."""
    _save(claim, _canceled_doc(claim.work.row, endpoint), tasks.NO_WORK)


def fail_lost(claim: Claim, endpoint: endpoints.Snapshot) -> None:
    """Fail the delivery because too many workers were lost during one attempt.

    Raises ConditionFailed or Contended if the endpoint was modified concurrently; nothing is written then.
    """
    doc: Delivery = {**_ended(claim.doc, FAILED, clock.iso(clock.now())), "error_code": "worker_lost"}
    _save(claim, doc, tasks.NO_WORK, [endpoints.unchanged(claim.scope, endpoint)])


def release(claim: Claim, *, until: int | None = None) -> None:
    """Release the claim. The attempt stays due. If it is put off, its next wake-up comes at the instant `until`."""
    tasks.release(claim.work, None if until is None else _put_off(claim.doc["id"], until))


def views(scope: Scope, rows: list[table.Row]) -> list[Delivery]:
    """The deliveries as clients see them. First cancels, in the table, those that wait for a closed endpoint."""
    endpoint_ids = [row["endpoint"] for row in rows if "due_at" in row]
    known = endpoints.read(scope, endpoint_ids) if endpoint_ids else {}
    return [_view(row, known.get(row["endpoint"])) for row in rows]


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


def event_of(scope: Scope, delivery_id: str) -> str | None:
    """The event of an automatic delivery, which has the event's time; None for other deliveries and unknown ids."""
    instant = ids.instant(DELIVERIES.prefix, delivery_id)
    least = ids.first_of(EVENTS.prefix, instant)
    most = ids.before(EVENTS.prefix, ids.first_of(EVENTS.prefix, instant + 1))
    rows = next(table.query(scope.pk(EVENTS.kind), at_least=least, at_most=most, limit=100), [])
    found = table.get_many([(partition(scope, row["sk"]), delivery_id) for row in rows])
    return next((json.loads(row["doc"])["event_id"] for row in found.values()), None)


def retry(
    scope: Scope, event_id: str, delivery_id: str, *, unless_retried: bool = False
) -> tuple[list[table.Write], table.Row]:
    """The writes of a manual retry, and the row of the new delivery (promises 9).

    With `unless_retried`, a failed delivery that somebody has retried already counts as being in progress. Raises
    `resource_not_found`, `delivery_in_progress` or `webhook_endpoint_disabled`, checked in this order.
    """
    old = find(scope, event_id, delivery_id)
    event_row = events.find(scope, event_id)
    endpoint = endpoints.read(scope, [old["endpoint"]]).get(old["endpoint"])
    if endpoint is None or endpoint.deleted:
        raise not_found("webhook endpoint", old["endpoint"])
    to_endpoint = [row for row in of_event(scope, event_id) if row["endpoint"] == old["endpoint"]]
    if any(_view(row, endpoint)["status"] == ATTEMPTING for row in to_endpoint):
        raise ApiError(Code.DELIVERY_IN_PROGRESS)
    if unless_retried and not any("f1" in row for row in to_endpoint):
        raise ApiError(Code.DELIVERY_IN_PROGRESS)
    if not endpoint.doc["enabled"]:
        raise ApiError(Code.WEBHOOK_ENDPOINT_DISABLED)
    new = new_row(events.of_row(scope, event_row), endpoint, trigger="manual", retry_of=delivery_id)
    if _is_test(old):
        new["test"] = True
    retries = event_row.get("retries", 0)
    # Concurrent retries conflict on the event's row: the later one runs again and finds the delivery of the first.
    count_retry = table.Update(
        event_row["pk"],
        event_row["sk"],
        set={"retries": retries + 1, "expires_at": new["expires_at"]},
        condition="retries = :retries" if retries else "attribute_exists(pk) AND attribute_not_exists(retries)",
        values={":retries": retries} if retries else {},
    )
    retried = [table.Update(row["pk"], row["sk"], set={"f1": None}) for row in to_endpoint if "f1" in row]
    return [count_retry, table.Put(new), *retried, endpoints.unchanged(scope, endpoint)], new


def send_now(scope: Scope, event_id: str, delivery_id: str) -> tuple[list[table.Write], table.Row]:
    """The write that makes the next attempt of a waiting delivery due now, and its row.

    The retry schedule goes on after that attempt. There is nothing to write if an attempt is due already or under way.
    Raises `resource_not_found`, or `invalid_status_transition` if the delivery has ended.
    """
    row = find(scope, event_id, delivery_id)
    [doc] = views(scope, [row])
    if doc["status"] != ATTEMPTING:
        raise ApiError(Code.INVALID_STATUS_TRANSITION, "The delivery has ended, so there is no other attempt.")
    now = clock.now()
    if "lease" in row or _planned_at(row) <= now:
        return [], row
    due = tasks.due_attributes(delivery_id, now, SWEEP_GRACE)
    sent: Delivery = {**doc, "next_attempt_at": clock.iso(now)}
    update = table.Update(
        row["pk"],
        row["sk"],
        set={**due, "doc": fields.to_json(sent), "by_hand": True, "put_off_until": None},
        condition="due_at = :due_at AND attribute_not_exists(lease)",
        values={":due_at": row["due_at"]},
    )
    return [update], row


def test(scope: Scope, endpoint: endpoints.Snapshot) -> tuple[list[table.Write], table.Row]:
    """The writes of a synthetic `appointment.created` event for this endpoint only, and its delivery's row.

    Raises `webhook_endpoint_disabled`.
    """
    if not endpoint.doc["enabled"]:
        raise ApiError(Code.WEBHOOK_ENDPOINT_DISABLED)
    appointment = appointments.sample(scope)
    instant = clock.parse(appointment["created_at"])
    event = events.build(scope, ids.new(EVENTS.prefix, instant), "appointment.created", instant, appointment, None)
    new = new_row(event, endpoint, trigger="test")
    return [table.Put(event.row()), table.Put(new), endpoints.unchanged(scope, endpoint)], new


def _automatic_id(instant: int, event_id: str, endpoint_id: str) -> str:
    return ids.derived(DELIVERIES.prefix, instant, event_id, endpoint_id)


def _ended(doc: Delivery, status: str, at: str) -> Delivery:
    """The delivery after its end with this status. A canceled delivery has an error code."""
    ended: Delivery = {**doc, "status": status, "next_attempt_at": None, "completed_at": at}
    return {**ended, "error_code": "endpoint_disabled"} if status == CANCELED else ended


def _canceled_doc(row: table.Row, endpoint: endpoints.Snapshot | None) -> Delivery:
    """The delivery, canceled when its endpoint was disabled or deleted, but not before its last known activity."""
    doc: Delivery = json.loads(row["doc"])
    closed_at = endpoint.closed_at(row["generation"]) if endpoint else None
    # A delivery with lost workers had the status `attempting` until now.
    if closed_at is None or "lost" in row:
        return _ended(doc, CANCELED, clock.iso(clock.now()))
    # The current wait began when the latest attempt was recorded, or at the creation.
    waits_since = row["due_at"] - clock.scaled(RETRY_SCHEDULE[doc["attempt_count"]])
    return _ended(doc, CANCELED, max(closed_at, clock.iso(waits_since)))


def _view(row: table.Row, endpoint: endpoints.Snapshot | None) -> Delivery:
    """The delivery as clients see it. Raises ConditionFailed or Contended if the row is modified concurrently.

    A delivery is canceled in the table before clients see it as canceled. Otherwise a worker could claim it afterwards,
    and its status would go back to `attempting`.
    """
    if phase(row, endpoint) is not Phase.CLOSED:
        return _as_planned(row)

    def cancel_unless_claimed(latest: table.Row) -> Delivery:
        if phase(latest, endpoint) is not Phase.CLOSED:
            return _as_planned(latest)
        doc = _canceled_doc(latest, endpoint)
        cancellation = table.Update(
            row["pk"],
            row["sk"],
            set={**tasks.NO_WORK, "doc": fields.to_json(doc), "f1": None},
            # Each attempt that is recorded changes `due_at`.
            condition="due_at = :due_at AND attribute_not_exists(lease)",
            values={":due_at": latest["due_at"]},
        )
        table.write([cancellation], uuid.uuid4().hex)
        return doc

    return commit.retry_with_latest([row], lambda: table.get(row["pk"], row["sk"]) or row, cancel_unless_claimed)


def _as_planned(row: table.Row) -> Delivery:
    """The delivery with the time of its next attempt as planned now.

    An attempt that is under way or overdue has the present time.
    """
    doc: Delivery = json.loads(row["doc"])
    if "due_at" not in row:
        return doc
    now = clock.now()
    planned = row["due_at"] if "lease" in row else _planned_at(row)
    return {**doc, "next_attempt_at": clock.iso(now if planned < now - OVERDUE else planned)}


def _planned_at(row: table.Row) -> int:
    """When the next attempt of a delivery is planned (milliseconds)."""
    return int(row["put_off_until"] if "put_off_until" in row else row["due_at"])


def _put_off(id: str, until: int) -> dict[str, table.Value | None]:
    """The attributes of a delivery that is put off until the instant `until`."""
    return {"put_off_until": until, **tasks.woken_from(id, until - clock.scaled(SWEEP_AHEAD))}


def _save(claim: Claim, doc: Delivery, schedule: tasks.Attributes, also: Sequence[table.Write] = ()) -> bool:
    """Write the delivery and end the claim. False if another worker has taken over the delivery.

    Raises ConditionFailed or Contended if a write in `also` fails.
    """
    key = (claim.work.row["pk"], claim.work.row["sk"])
    changes: dict[str, table.Value | None] = {**schedule, "doc": fields.to_json(doc), "put_off_until": None}
    changes |= dict.fromkeys({"f1", "by_hand"} & claim.work.row.keys())
    listed = {FAILED: failed_partition, ATTEMPTING: retrying_partition}.get(doc["status"])
    if listed and not _is_test(claim.work.row):
        changes["f1"] = listed(claim.scope, doc["webhook_endpoint_id"])
    update = table.Update(*key, set=changes)
    try:
        tasks.commit(claim.work, [update, *also])
    except table.ConditionFailed as failed:
        if isinstance(failed.op, table.Update) and (failed.op.pk, failed.op.sk) == key:
            return False
        raise
    return True


def _is_test(row: table.Row) -> bool:
    """Whether the delivery is of a test event."""
    return "test" in row or json.loads(row["doc"])["trigger"] == "test"


def _set_timer(claim: Claim, wait: int, now: int, at: int) -> None:
    # The unscaled wait decides between queue and state machine, so that a fast local run uses both.
    if wait <= facts.LONGEST_QUEUE_DELAY:
        wake_ups.send(queues.LATER, [wake_up(claim.work.row, (at - now) // clock.SECOND)])
    else:
        name = f"{claim.doc['id']}-{claim.number + 1}"
        wake_ups.wait("delayed_delivery", name, at, wake_up(claim.work.row))
