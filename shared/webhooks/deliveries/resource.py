"""The type of deliveries, their rows, and reads of them (promises 9).

A delivery's row schedules its next attempt (`shared/tasks/tasks.py`), which `functions/deliver.py` makes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum, StrEnum, auto
from typing import Annotated, Literal, NotRequired, TypedDict, cast

from shared.core import clock, event_types, ids
from shared.core.errors import not_found
from shared.core.limits import RETRY_SCHEDULE_S
from shared.resources import fields
from shared.resources.collections import Collection
from shared.resources.filters import ListParameters
from shared.resources.schema import Count, DeliveryId, EventId, Keywords, Time, WebhookEndpointId, one_of
from shared.store import table
from shared.store.keys import Scope, scope_of
from shared.tasks import tasks, wake_ups
from shared.tasks.wake_ups import WakeUp
from shared.webhooks import events, queues
from shared.webhooks.endpoints.resource import EndpointSnapshot
from shared.webhooks.events import EVENTS, NewEvent

DELIVERY_GRACE_S = 60
"""Unscaled seconds after the due time of an attempt from which `sweep` sends another wake-up."""
OVERDUE_MS = 2 * clock.SECOND
"""How long after its time an attempt is usually made at the latest: a state machine waits up to a second
longer."""


class DeliveryStatus(StrEnum):
    """The status of a delivery (promises 9)."""

    ATTEMPTING = "attempting"
    """An attempt is made, or another one follows."""
    SUCCEEDED = "succeeded"
    """The receiver responded with 2xx."""
    FAILED = "failed"
    """No further attempt is made."""
    CANCELED = "canceled"
    """The endpoint was disabled or deleted before the delivery succeeded."""


class DeliveryError(StrEnum):
    """Why an attempt failed, or why a delivery ended without one (promises 9)."""

    TIMEOUT = "timeout"
    """There was no complete response in time."""
    CONNECTION_REFUSED = "connection_refused"
    """There was no connection, or it was lost."""
    DNS_ERROR = "dns_error"
    """The name was not found."""
    TLS_ERROR = "tls_error"
    """The certificate is not trusted, or the handshake failed."""
    REDIRECT = "redirect"
    """The response was a redirect, which is not followed."""
    HTTP_ERROR = "http_error"
    """The response was none of 2xx and 3xx, or not HTTP."""
    URL_BLOCKED = "url_blocked"
    """The URL is not allowed: its name leads to an address that is not public."""
    ENDPOINT_DISABLED = "endpoint_disabled"
    """The endpoint was disabled or deleted."""
    WORKER_LOST = "worker_lost"
    """The service failed during an attempt, repeatedly."""


class DeliveryTrigger(StrEnum):
    """Why a delivery was created: by its event, by a manual retry, or by the test operation."""

    AUTOMATIC = "automatic"
    """The event itself."""
    MANUAL = "manual"
    """A manual retry."""
    TEST = "test"
    """The test of an endpoint."""


HttpStatus = Annotated[int, Keywords(minimum=100, maximum=999)]
"""The HTTP status of a receiver's response."""


class Attempt(TypedDict):
    """One attempt to deliver an event. Never changes."""

    number: Annotated[int, Keywords(minimum=1)]
    """The attempt's number, from 1."""
    at: Time
    """When the request was sent."""
    response_status_code: HttpStatus | None
    """The HTTP status of the receiver's response. Null without a response."""
    error_code: DeliveryError | None
    """Why the attempt failed. Null if it succeeded."""
    duration_ms: Count
    """Milliseconds from the start of the attempt, before the connection is made, to its outcome."""


class Delivery(TypedDict):
    """The delivery of one event to one endpoint (promises 9). Id prefix `whd_`."""

    id: DeliveryId
    """The delivery's id."""
    object: Literal["webhook_delivery"]
    """The type of the object."""
    event_id: EventId
    """The event that is delivered."""
    event_type: Annotated[str, one_of(event_types.EVENT_TYPES, "EventType")]
    """The event's type."""
    webhook_endpoint_id: WebhookEndpointId
    """The endpoint to which it is delivered."""
    url: str
    """The URL of the latest attempt; before the first, the endpoint's URL at the delivery's creation."""
    status: DeliveryStatus
    """`attempting`, then `succeeded`, `failed` or `canceled`, which are final."""
    trigger: DeliveryTrigger
    """Why the delivery was created: by its event, by a manual retry, or by the test operation."""
    retry_of: DeliveryId | None
    """The id of the delivery that a manual retry repeats. Null otherwise."""
    attempt_count: Annotated[int, Keywords(minimum=0)]
    """The number of recorded attempts."""
    max_attempts: Annotated[int, Keywords(minimum=1)]
    """The number of attempts after which the delivery fails."""
    next_attempt_at: Time | None
    """When the next attempt is planned; the present time if it is being made or waits for its turn.

    Null once the delivery has ended.
    """
    last_attempt_at: Time | None
    """When the request of the latest attempt was sent. Null before the first."""
    response_status_code: HttpStatus | None
    """The HTTP status of the latest attempt. Null before the first, and without a response."""
    response_body: str | None
    """The first KiB of the body of the latest response. Null without a response."""
    error_code: DeliveryError | None
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


class DeliveryRow(tasks.TaskRow):
    """A delivery's row. It schedules the next attempt until the delivery has ended (`shared/tasks/tasks.py`)."""

    pk: str
    sk: str
    kind: str
    doc: str
    endpoint: str
    """The endpoint's id."""
    generation: int
    """The endpoint's generation at the delivery's creation."""
    expires_at: clock.UnixSeconds
    cause: NotRequired[str]
    """The API request that caused the event, or that of the manual retry, as far as it is known."""
    put_off_until: NotRequired[clock.Instant]
    """When a put-off attempt is planned, which is due already. Absent if it has not been put off."""
    test: NotRequired[bool]
    """Whether it is a manual retry of a test event. Absent for all others."""
    f2: NotRequired[str]
    """The partition of all deliveries to the endpoint (`endpoint_partition`). Earlier releases did not write it."""
    f1: NotRequired[str]
    """The partition of the list that has the delivery (`list_attributes`). Absent from all others."""
    by_hand: NotRequired[bool]
    """Whether a person has made the next attempt due now (`send_now`)."""


class Phase(Enum):
    """The state of a delivery that decides who may change it."""

    ENDED = auto()
    """The delivery has ended and never changes."""
    UNDER_WAY = auto()
    """A worker, which may be dead, has claimed it. The outcome of its attempt decides."""
    WAITING = auto()
    """Its next attempt is scheduled."""
    CLOSED = auto()
    """Its endpoint was disabled or deleted since, so it must be canceled."""


def phase(row: DeliveryRow, endpoint: EndpointSnapshot | None, token: str | None = None) -> Phase:
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


DELIVERIES: Collection[Delivery, DeliveryRow] = Collection(
    Delivery, kind="delivery", prefix="whd_", parameters=ListParameters(created=None)
)


def partition(scope: Scope, event_id: str) -> str:
    """The partition key of an event's deliveries."""
    return scope.pk(EVENTS.kind, event_id)


def endpoint_partition(scope: Scope, endpoint_id: str) -> str:
    """The index partition of all deliveries to an endpoint."""
    return scope.index(DELIVERIES.kind, "to", endpoint_id)


def failed_partition(scope: Scope, endpoint_id: str) -> str:
    """The index partition of an endpoint's failed deliveries that nobody has retried, test events excepted."""
    return scope.index(DELIVERIES.kind, "failed_to", endpoint_id)


def retrying_partition(scope: Scope, endpoint_id: str) -> str:
    """The index partition of the deliveries to an endpoint that wait for a later attempt, test events excepted.

    An attempt of theirs has failed, or they were put off.
    """
    return scope.index(DELIVERIES.kind, "retrying_to", endpoint_id)


UNLISTED: Mapping[str, None] = {"f1": None}
"""The attribute of a delivery that is in neither list."""


def list_attributes(row: DeliveryRow, status: DeliveryStatus) -> Mapping[str, str | None]:
    """The attribute that puts a delivery into the list of its status, after an attempt or when it is put off."""
    lists = {DeliveryStatus.FAILED: failed_partition, DeliveryStatus.ATTEMPTING: retrying_partition}
    if status not in lists or is_test(row):
        return UNLISTED
    return {"f1": lists[status](scope_of(row["pk"]), row["endpoint"])}


def is_listed(row: DeliveryRow) -> bool:
    """Whether the delivery has failed and nobody has retried it, or it waits for a later attempt."""
    return "f1" in row


def new_row(
    event: NewEvent,
    endpoint: EndpointSnapshot,
    *,
    trigger: DeliveryTrigger = DeliveryTrigger.AUTOMATIC,
    retry_of: str | None = None,
) -> DeliveryRow:
    """The row of a new delivery, due now; already `canceled` if the endpoint is disabled (promises 9).

    The id of an automatic delivery is derived from the event and the endpoint, so that it is created only once.
    """
    now, endpoint_id = clock.now(), endpoint.doc["id"]
    automatic, prefix = trigger is DeliveryTrigger.AUTOMATIC, DELIVERIES.prefix
    id = _automatic_id(event.instant, event.id, endpoint_id) if automatic else ids.new(prefix, now)
    doc: Delivery = {
        "id": id,
        "object": "webhook_delivery",
        "event_id": event.id,
        "event_type": event.type,
        "webhook_endpoint_id": endpoint_id,
        "url": endpoint.doc["url"],
        "status": DeliveryStatus.ATTEMPTING,
        "trigger": trigger,
        "retry_of": retry_of,
        "attempt_count": 0,
        "max_attempts": len(RETRY_SCHEDULE_S),
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
    row: DeliveryRow = {
        "pk": partition(event.scope, event.id),
        "sk": id,
        "kind": DELIVERIES.kind,
        "doc": fields.to_json(doc),
        "endpoint": endpoint_id,
        "f2": endpoint_partition(event.scope, endpoint_id),
        "generation": endpoint.generation,
        "expires_at": table.expiry(now + events.RETENTION_MS),
    }
    if not endpoint.doc["enabled"]:
        return {**row, "doc": fields.to_json(end(doc, DeliveryStatus.CANCELED, clock.iso(now)))}
    due = tasks.due_attributes(id, now, DELIVERY_GRACE_S)
    if automatic and endpoint.hanging:
        due |= put_off(row, queues.put_off_until(now))
    return cast("DeliveryRow", {**row, **due})


def wake_up(row: DeliveryRow, at: clock.Instant | None = None, to: queues.Destination | None = None) -> WakeUp:
    """The wake-up for a delivery, now or at about the instant `at`; to `retries` if no other destination is given."""
    to = to or queues.Destination(queues.RETRIES, row["endpoint"])
    return WakeUp(to.queue, row["pk"], row["sk"], to.group, wake_ups.delay_s(at), to.once)


def find(scope: Scope, event_id: str, delivery_id: str) -> DeliveryRow:
    """The delivery's row. Raises `resource_not_found`."""
    well_formed = ids.is_id(EVENTS.prefix, event_id) and ids.is_id(DELIVERIES.prefix, delivery_id)
    row = table.get(partition(scope, event_id), delivery_id) if well_formed else None
    if row is None:
        raise not_found("webhook delivery", delivery_id)
    return cast("DeliveryRow", row)


def of_event(scope: Scope, event_id: str) -> list[DeliveryRow]:
    """All deliveries of an event, newest first."""
    pages = table.query(partition(scope, event_id), limit=100)
    return cast("list[DeliveryRow]", [row for page in pages for row in page])


def view(row: DeliveryRow) -> Delivery:
    """The delivery as clients see it: with the time of its next attempt as planned now.

    An attempt that is under way or overdue has the present time. The row must be one of `commands.cancel_closed`.
    """
    doc: Delivery = json.loads(row["doc"])
    if "due_at" not in row:
        return doc
    now = clock.now()
    at = row["due_at"] if "lease" in row else planned_at(row)
    return {**doc, "next_attempt_at": clock.iso(now if at < now - OVERDUE_MS else at)}


def event_of(scope: Scope, delivery_id: str) -> str | None:
    """The event of an automatic delivery, which has the event's time; None for other deliveries and unknown ids."""
    instant = ids.created_at(DELIVERIES.prefix, delivery_id)
    least = ids.first_of(EVENTS.prefix, instant)
    most = ids.before(EVENTS.prefix, ids.first_of(EVENTS.prefix, instant + 1))
    rows = next(table.query(scope.pk(EVENTS.kind), at_least=least, at_most=most, limit=100), [])
    by_key = table.get_many([(partition(scope, row["sk"]), delivery_id) for row in rows])
    return next((json.loads(row["doc"])["event_id"] for row in by_key.values()), None)


def _automatic_id(instant: clock.Instant, event_id: str, endpoint_id: str) -> str:
    return ids.deterministic(DELIVERIES.prefix, instant, event_id, endpoint_id)


def end(doc: Delivery, status: DeliveryStatus, at: str) -> Delivery:
    """The delivery after its end with this status. A canceled delivery has an error code."""
    ended: Delivery = {**doc, "status": status, "next_attempt_at": None, "completed_at": at}
    return {**ended, "error_code": DeliveryError.ENDPOINT_DISABLED} if status == DeliveryStatus.CANCELED else ended


def put_off(row: DeliveryRow, until: clock.Instant) -> dict[str, table.Value | None]:
    """The attributes of a delivery that is put off until the instant `until`."""
    return {
        "put_off_until": until,
        **tasks.sweep_ahead_attributes(row["sk"], until),
        **list_attributes(row, DeliveryStatus.ATTEMPTING),
    }


def is_test(row: DeliveryRow) -> bool:
    """Whether the delivery is of a test event."""
    return "test" in row or json.loads(row["doc"])["trigger"] == DeliveryTrigger.TEST


def cancel_with_endpoint(row: DeliveryRow, endpoint: EndpointSnapshot | None) -> Delivery:
    """The delivery, canceled when its endpoint was disabled or deleted, but not before its latest attempt."""
    doc: Delivery = json.loads(row["doc"])
    closed_at = endpoint.closed_at(row["generation"]) if endpoint else None
    # A delivery with lost workers had the status `attempting` until now.
    if closed_at is None or "lost" in row:
        return end(doc, DeliveryStatus.CANCELED, clock.iso(clock.now()))
    # The current wait began when the latest attempt was recorded, or at the creation.
    wait_began = row["due_at"] - clock.scaled_ms(RETRY_SCHEDULE_S[doc["attempt_count"]])
    return end(doc, DeliveryStatus.CANCELED, max(closed_at, clock.iso(wait_began)))


def planned_at(row: DeliveryRow) -> clock.Instant:
    """When the next attempt of a delivery is planned."""
    return row["put_off_until"] if "put_off_until" in row else row["due_at"]
