"""What can be done with a delivery: retry it, send it now, or send a test event (promises 9).

A command returns the delivery afterwards and the writes of one transaction, which the caller commits. A
delivery whose endpoint was closed is first canceled in the table (`cancel_closed`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from shared.appointments import commands as appointment_commands
from shared.core import clock, ids
from shared.core.errors import ApiError, Code, not_found
from shared.resources import fields
from shared.store import table, transactions
from shared.store.keys import Scope
from shared.store.transactions import Change
from shared.tasks import tasks, wake_ups
from shared.webhooks import events
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.deliveries.resource import (
    DELIVERY_GRACE_S,
    Delivery,
    DeliveryRow,
    DeliveryStatus,
    DeliveryTrigger,
    Phase,
    phase,
)
from shared.webhooks.endpoints import resource as endpoints
from shared.webhooks.endpoints.resource import WEBHOOK_ENDPOINTS, EndpointSnapshot
from shared.webhooks.events import EVENTS, EventRow


def retry(scope: Scope, event_id: str, delivery_id: str) -> Change[Delivery]:
    """Retry a delivery: another delivery of its event to its endpoint.

    Raises `resource_not_found`, `delivery_in_progress` or `webhook_endpoint_disabled`, checked in this order.
    """
    new, writes = plan_retry(scope, event_id, delivery_id)
    return _change(new, json.loads(new["doc"]), writes)


def plan_retry(
    scope: Scope, event_id: str, delivery_id: str, *, unless_retried: bool = False
) -> tuple[DeliveryRow, Sequence[table.Write]]:
    """The row of the delivery that retries another one, and the writes of the retry. Raises like `retry`.

    With `unless_retried`, a failed delivery that somebody has retried already counts as being in progress.
    """
    old = deliveries.find(scope, event_id, delivery_id)
    event_row = events.find(scope, event_id)
    endpoint = endpoints.read(scope, [old["endpoint"]]).get(old["endpoint"])
    if endpoint is None or endpoint.deleted:
        raise not_found("webhook endpoint", old["endpoint"])
    all_rows = deliveries.of_event(scope, event_id)
    to_endpoint = [_cancel_if_closed(row, endpoint) for row in all_rows if row["endpoint"] == old["endpoint"]]
    if any("due_at" in row for row in to_endpoint):
        raise ApiError(Code.DELIVERY_IN_PROGRESS)
    # All have ended, so a listed one has failed, and nobody has retried it.
    listed = [row for row in to_endpoint if deliveries.is_listed(row)]
    if unless_retried and not listed:
        raise ApiError(Code.DELIVERY_IN_PROGRESS)
    if not endpoint.doc["enabled"]:
        raise ApiError(Code.WEBHOOK_ENDPOINT_DISABLED)
    event = events.of_row(scope, event_row)
    new = deliveries.new_row(event, endpoint, trigger=DeliveryTrigger.MANUAL, retry_of=delivery_id)
    if deliveries.is_test(old):
        new["test"] = True
    retries = event_row.get("retries", 0)
    # Concurrent retries conflict on the event's row: the later one runs again and finds the delivery of the first.
    count_retry = table.Update(
        event_row["pk"],
        event_row["sk"],
        set={"retries": retries + 1, "expires_at": new["expires_at"], **_cause(event_row)},
        condition=table.equals("retries", retries) if retries else table.PRESENT & table.equals("retries", None),
    )
    unlist = [table.Update(row["pk"], row["sk"], set={**deliveries.UNLISTED, **_cause(row)}) for row in listed]
    return new, [count_retry, table.Put(dict(new)), *unlist, endpoints.unchanged_check(scope, endpoint)]


def send_now(scope: Scope, event_id: str, delivery_id: str) -> Change[Delivery]:
    """Make the next attempt of a waiting delivery due now. The retry schedule goes on after that attempt.

    Nothing changes if an attempt is due already or under way. Raises `resource_not_found`, or
    `invalid_status_transition` if the delivery has ended.
    """
    [row] = cancel_closed(scope, [deliveries.find(scope, event_id, delivery_id)])
    doc = deliveries.view(row)
    if doc["status"] != DeliveryStatus.ATTEMPTING:
        raise ApiError(Code.INVALID_STATUS_TRANSITION, "The delivery has ended, so there is no other attempt.")
    now = clock.now()
    if "lease" in row or deliveries.planned_at(row) <= now:
        return _change(row, doc, [])
    sent: Delivery = {**doc, "next_attempt_at": clock.iso(now)}
    due = tasks.due_attributes(delivery_id, now, DELIVERY_GRACE_S)
    changes = {**due, "doc": fields.to_json(sent), "by_hand": True, "put_off_until": None, **_cause(row)}
    return _change(row, sent, [tasks.if_waiting_write(row, changes)])


def test(scope: Scope, endpoint_id: str) -> Change[Delivery]:
    """Send a synthetic `appointment.created` event to this endpoint only.

    Raises `resource_not_found` or `webhook_endpoint_disabled`.
    """
    return send_sample(scope, endpoint_id, "appointment.created", appointment_commands.sample(scope))


def send_sample(
    scope: Scope, endpoint_id: str, type: str, after: Mapping[str, Any], before: Mapping[str, Any] | None = None
) -> Change[Delivery]:
    """Send a synthetic event of any type to this endpoint only, about a resource that changed from `before` to `after`.

    Raises `resource_not_found` or `webhook_endpoint_disabled`.
    """
    endpoint = endpoints.snapshot(WEBHOOK_ENDPOINTS.find(scope, endpoint_id).row)
    if not endpoint.doc["enabled"]:
        raise ApiError(Code.WEBHOOK_ENDPOINT_DISABLED)
    now = clock.now()
    event = events.build(scope, ids.new(EVENTS.prefix, now), type, now, after, before)
    new = deliveries.new_row(event, endpoint, trigger=DeliveryTrigger.TEST)
    writes: list[table.Write] = [
        table.Put(event.row()),
        table.Put(dict(new)),
        endpoints.unchanged_check(scope, endpoint),
    ]
    return _change(new, json.loads(new["doc"]), writes)


def cancel_closed(scope: Scope, rows: Sequence[DeliveryRow]) -> list[DeliveryRow]:
    """The rows, after those that wait for a closed endpoint were canceled in the table.

    A delivery is canceled in the table before clients see it as canceled. Otherwise a worker could claim it afterwards,
    and its status would go back to `attempting`. Raises ConditionFailed or Contended if a row is modified concurrently.
    """
    endpoint_ids = [row["endpoint"] for row in rows if "due_at" in row]
    known = endpoints.read(scope, endpoint_ids) if endpoint_ids else {}
    return [_cancel_if_closed(row, known.get(row["endpoint"])) for row in rows]


def _cancel_if_closed(row: DeliveryRow, endpoint: EndpointSnapshot | None) -> DeliveryRow:
    def cancel(latest: DeliveryRow) -> DeliveryRow:
        if phase(latest, endpoint) is not Phase.CLOSED:
            return latest
        canceled = fields.to_json(deliveries.cancel_with_endpoint(latest, endpoint))
        changes = {**tasks.NO_WORK, "doc": canceled, **deliveries.UNLISTED}
        return cast("DeliveryRow", table.write_and_get(tasks.if_waiting_write(latest, changes)))

    def read() -> DeliveryRow:
        return cast("DeliveryRow", table.get(row["pk"], row["sk"])) or row

    return transactions.retry_with_latest(row, read, cancel)


def _cause(row: DeliveryRow | EventRow) -> dict[str, str | None]:
    """The row's attribute `cause` as it is: the request that made the event or the delivery stays its cause."""
    return {"cause": row.get("cause")}


def _change(row: DeliveryRow, delivery: Delivery, writes: Sequence[table.Write]) -> Change[Delivery]:
    """The change of a delivery whose attempt is due now: its wake-up is sent afterwards."""
    wake_up = deliveries.wake_up(row)
    return Change(delivery, writes, after_commit=lambda: wake_ups.send_within(wake_ups.REQUEST_S, [wake_up]))
