"""All deliveries to a webhook endpoint, by status, event type and time, and the replay of chosen ones."""

from __future__ import annotations

from starlette.responses import Response

from functions.admin import lists
from functions.admin.events import FILTERS, SECTION_OF_ENDPOINTS, may_send_now, send_again
from functions.admin.visits import PROJECT, AdminPage, InProject, View
from shared.admin.members import MEMBER, VIEWER
from shared.core.errors import ApiError, Code
from shared.webhooks import delivery_log, failures
from shared.webhooks.deliveries.resource import DeliveryStatus
from shared.webhooks.delivery_log import DeliveryFilter

NOTICES = {
    "replayed": "The chosen deliveries are being sent again. The new deliveries are at the top of the list.",
    "partly": "Some of the chosen deliveries are being sent again. Others were not: their events are gone, being "
    "delivered already, or the endpoint is disabled.",
    "none": "Nothing is sent again. Choose deliveries that have ended, to an endpoint that is enabled.",
}


def show(visit: InProject) -> Response:
    """List the deliveries to an endpoint, newest first."""
    endpoint = visit.endpoint()
    wanted, error, page = lists.wanted(visit, "status", "type", "since", "until"), None, failures.DeliveryPage([], None)
    try:
        starting_after = visit.query.get("starting_after")
        page = delivery_log.page(visit.scope, endpoint.doc["id"], lists.PAGE, _filter(visit, wanted), starting_after)
    except ApiError as refused:
        error = refused
    return visit.render(
        "delivery_log.html",
        400 if error else 200,
        section=SECTION_OF_ENDPOINTS,
        endpoint=endpoint,
        deliveries=[(one, may_send_now(visit, one)) for one in page.deliveries],
        cursor=page.cursor,
        can_replay=visit.may_change and endpoint.doc["enabled"],
        wanted=wanted,
        error=error,
        statuses=[*DeliveryStatus],
        types=FILTERS,
        notice=NOTICES.get(visit.query.get("notice", "")),
    )


def replay(visit: InProject) -> Response:
    """Send the events of the chosen deliveries to the endpoint again, each as one replay does."""
    visit.endpoint()
    chosen = visit.form.get("delivery", "").split()[: lists.PAGE]
    sent = sum(_is_sent_again(visit, one) for one in chosen)
    notice = "replayed" if chosen and sent == len(chosen) else "partly" if sent else "none"
    return visit.redirect(visit.path(SECTION_OF_ENDPOINTS, visit.params["id"], f"deliveries?notice={notice}"))


def _is_sent_again(visit: InProject, chosen: str) -> bool:
    event_id, _, delivery_id = chosen.partition("/")
    try:
        send_again(visit, event_id, delivery_id)
    except ApiError:
        return False
    return True


def _filter(visit: InProject, wanted: dict[str, str]) -> DeliveryFilter:
    """The filter of the page. Raises `parameter_invalid` or `datetime_invalid`."""
    if wanted["status"] not in ("", *DeliveryStatus) or wanted["type"] not in ("", *FILTERS):
        raise ApiError(Code.PARAMETER_INVALID, "Choose a status and a type from the lists.")
    return DeliveryFilter(wanted["status"], wanted["type"], **lists.bounds(wanted, visit.zone))


_LOG = f"{PROJECT}/{SECTION_OF_ENDPOINTS}/{{id}}/deliveries"
PAGES = (
    AdminPage(_LOG, get=View(show, VIEWER)),
    AdminPage(f"{_LOG}/replay", post=View(replay, MEMBER)),
)
