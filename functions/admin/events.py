"""Events with their deliveries: what was sent, what receivers responded, and sending it again."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from functions.admin import lists, names
from functions.admin.find import page_of
from functions.admin.visits import PROJECT, AdminPage, InProject, View
from shared.admin.members import MEMBER, VIEWER
from shared.core import clock
from shared.projects import request_log
from shared.webhooks import events
from shared.webhooks.deliveries import commands as delivery_commands
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.deliveries.resource import Delivery, DeliveryStatus, DeliveryTrigger
from shared.webhooks.endpoints import resource as endpoints
from shared.webhooks.events import EVENTS, FAMILIES, EventRow

FILTERS = tuple(one for family, types in FAMILIES.items() for one in (family, *types))
"""The wildcards and types by which events are chosen, by kind of resource."""
SECTION_OF_ENDPOINTS = "webhook_endpoints"
SOON_MS = 2 * clock.MINUTE
"""A page looks often for an attempt that is due within this time."""
NOTICES = {
    "replayed": "The event is being sent again. The new delivery is the first one below.",
    "sent_now": "The event is being sent now. The result appears below.",
    "tested": "The test event is being sent. The result appears below.",
}


def show_all(visit: InProject) -> Response:
    """List the events of the project, newest first, by the filters of the API."""
    wanted = lists.wanted(visit, "type", "object_id", "since", "until")
    return lists.show(
        visit,
        "events",
        wanted,
        lambda: lists.read(visit, EVENTS, _parameters(visit, wanted)),
        lambda event: event["data"]["object"],
        types=FILTERS,
    )


def show(visit: InProject) -> Response:
    """Show an event with its payload and deliveries."""
    row = events.find(visit.scope, visit.params["id"])
    event = json.loads(row["doc"])
    notice = NOTICES.get(visit.query.get("notice", ""))
    parts = _deliveries(visit, row)
    return visit.render(
        "event.html",
        section="events",
        is_test=any(one["doc"]["trigger"] == DeliveryTrigger.TEST for one in parts["deliveries"]),
        event=event,
        cause=row.get("cause"),
        named=names.of(visit, [event["data"]["object"].get("customer_id")]),
        page_of_object=page_of(visit, event["data"]["object"]["id"]),
        notice=notice,
        **parts,
    )


def show_deliveries(visit: InProject) -> Response:
    """The deliveries of an event, which the event's page loads again while one is in progress."""
    row = events.find(visit.scope, visit.params["id"])
    if not visit.is_fragment:
        return visit.redirect(visit.path("events", row["sk"]))
    return visit.render("_deliveries.html", event={"id": row["sk"]}, **_deliveries(visit, row))


def retry(visit: InProject) -> Response:
    """Send an event to the endpoint of a delivery again, as the API's retry does."""
    event_id = visit.params["id"]
    send_again(visit, event_id, visit.params["delivery"])
    return visit.redirect(visit.path("events", f"{event_id}?notice=replayed"))


def send_again(visit: InProject, event_id: str, delivery_id: str) -> None:
    """Retry a delivery, with an entry in the audit trail. Raises ApiError."""
    visit.commit(
        lambda: delivery_commands.retry(visit.scope, event_id, delivery_id),
        lambda new: visit.entry("delivery.replayed", delivery_id, after={"event": event_id, "delivery": new["id"]}),
    )


def send_now(visit: InProject) -> Response:
    """Make the next attempt of a delivery that waits for it, instead of at its time."""
    event_id, delivery_id = visit.params["id"], visit.params["delivery"]
    visit.commit(
        lambda: delivery_commands.send_now(visit.scope, event_id, delivery_id),
        lambda _: visit.entry("delivery.sent_now", delivery_id, after={"event": event_id}),
    )
    return visit.redirect(visit.path("events", f"{event_id}?notice=sent_now"))


def _deliveries(visit: InProject, event: EventRow) -> dict[str, Any]:
    """The deliveries as the template shows them, and after how many seconds to look again (None: never).

    `causes` are the requests that made them, by the delivery's id, and `requests` those that are in the log.
    """
    rows = delivery_commands.cancel_closed(visit.scope, deliveries.of_event(visit.scope, event["sk"]))
    docs = [deliveries.view(row) for row in rows]
    causes = {row["sk"]: row.get("cause", "") for row in rows}
    requests = request_log.with_ids(visit.scope, filter(None, {event.get("cause", ""), *causes.values()}))
    snapshots = endpoints.read(visit.scope, [one["webhook_endpoint_id"] for one in docs]) if docs else {}
    # An id is the time of the event, so several of an event sort by the time of the delivery instead.
    docs.sort(key=lambda one: (one["created_at"], one["id"]), reverse=True)
    return {
        "deliveries": [
            {
                "doc": one,
                "refusal": _refusal(visit, one, docs, snapshots.get(one["webhook_endpoint_id"])),
                "may_send_now": may_send_now(visit, one),
            }
            for one in docs
        ],
        "causes": causes,
        "requests": requests,
        "endpoints": snapshots,
        "look_again": _look_again_s(docs),
    }


def _refusal(
    visit: InProject, one: Delivery, deliveries: list[Delivery], endpoint: endpoints.EndpointSnapshot | None
) -> str | None:
    """Why this delivery cannot be replayed now; None if it can."""
    if not visit.membership.may(MEMBER):
        return "Viewers cannot replay deliveries."
    if endpoint is None or endpoint.deleted:
        return "The endpoint was deleted, so the event cannot be sent to it again."
    same = [other for other in deliveries if other["webhook_endpoint_id"] == one["webhook_endpoint_id"]]
    if any(other["status"] == DeliveryStatus.ATTEMPTING for other in same):
        return "A delivery to this endpoint is still in progress."
    return None if endpoint.doc["enabled"] else "The endpoint is disabled. Enable it first."


def may_send_now(visit: InProject, one: Delivery) -> bool:
    """Whether the person may make the next attempt of a delivery now, because it waits for a later one.

    The first attempt is made at once, unless it was put off.
    """
    at = one["next_attempt_at"]
    waits = at is not None and (one["attempt_count"] > 0 or clock.parse(at) > clock.now())
    return visit.may_change and waits


def _look_again_s(found: list[Delivery]) -> int | None:
    due = [clock.parse(one["next_attempt_at"]) for one in found if one["next_attempt_at"]]
    if not due:
        return None
    return 2 if min(due) - clock.now() < SOON_MS else 60


def _parameters(visit: InProject, wanted: dict[str, str]) -> dict[str, list[str]]:
    """The API's query parameters for those of the page."""
    parameters = lists.parameters(visit, {name: wanted[name] for name in ("type", "object_id")})
    return parameters | lists.days(wanted, "created", visit.zone, lambda instant: str(clock.to_unix(instant)))


PAGES = (
    AdminPage(f"{PROJECT}/events", get=View(show_all, VIEWER)),
    AdminPage(f"{PROJECT}/events/{{id}}", get=View(show, VIEWER)),
    AdminPage(f"{PROJECT}/events/{{id}}/deliveries", get=View(show_deliveries, VIEWER)),
    AdminPage(f"{PROJECT}/events/{{id}}/deliveries/{{delivery}}/replay", post=View(retry, MEMBER)),
    AdminPage(f"{PROJECT}/events/{{id}}/deliveries/{{delivery}}/send_now", post=View(send_now, MEMBER)),
)
