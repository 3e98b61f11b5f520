"""/v1/events: the audit log of events, their deliveries, and manual retries."""

from __future__ import annotations

from shared.api import responses
from shared.api.collections import list_operation
from shared.api.requests import Decision, Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, lambda_handler, service
from shared.resources import fields
from shared.resources.lists import Page
from shared.webhooks import deliveries, events
from shared.webhooks.deliveries import DELIVERIES, Delivery
from shared.webhooks.events import EVENTS, Event
from shared.work import hints


def retrieve(request: Request[None]) -> Response:
    """Return an event exactly as it was sent to receivers (contract 9). An unknown id is 404 `resource_not_found`."""
    return responses.ok(events.find(request.scope, request.id)["doc"])


def list_deliveries(request: Request[None]) -> Response:
    """Return a page of an event's deliveries, newest first (contract 9).

    An unknown event is 404 `resource_not_found`.
    """
    query = DELIVERIES.query(request.query)
    partition = deliveries.partition(request.scope, events.validate_id(request.id))
    page = DELIVERIES.page(request.scope, query, partition=partition, seconds_left=request.seconds_left)
    if not page.rows:
        # The event has no deliveries, or it does not exist.
        events.find(request.scope, request.id)
    views = deliveries.views(request.scope, page.rows)
    return responses.ok(page.envelope(request.path, [fields.to_json(delivery) for delivery in views]))


def retrieve_delivery(request: Request[None]) -> Response:
    """Return a delivery with all of its attempts (contract 9). An unknown id is 404 `resource_not_found`."""
    row = deliveries.find(request.scope, request.id, request.params["delivery_id"])
    return responses.ok(deliveries.views(request.scope, [row])[0])


def retry_delivery(request: Request[fields.Nothing]) -> Response:
    """Queue a new delivery of the event to the same endpoint, with the full retry schedule, and return it (contract 9).

    An unknown delivery or a deleted endpoint is 404 `resource_not_found`; an earlier delivery that has not ended is 409
    `delivery_in_progress`; a disabled endpoint is 409 `webhook_endpoint_disabled`.
    """

    def decide() -> Decision:
        writes, delivery = deliveries.retry(request.scope, request.id, request.params["delivery_id"])
        hint = deliveries.hint(delivery)
        return Decision(writes, responses.accepted(delivery["doc"]), after=lambda: hints.send("retries", [hint]))

    return request.commit(decide)


app = service(
    Route("/v1/events", get=list_operation(EVENTS, Event)),
    Route("/v1/events/{id}", get=Operation(retrieve, returns=Event, errors=("resource_not_found",))),
    Route(
        "/v1/events/{id}/deliveries",
        get=Operation(
            list_deliveries, returns=Page[Delivery], query=DELIVERIES.parameters, errors=("resource_not_found",)
        ),
    ),
    Route(
        "/v1/events/{id}/deliveries/{delivery_id}",
        get=Operation(retrieve_delivery, returns=Delivery, errors=("resource_not_found",)),
    ),
    Route(
        "/v1/events/{id}/deliveries/{delivery_id}/retry",
        post=Operation(
            retry_delivery,
            returns=Delivery,
            status=(202,),
            optional_body=True,
            errors=("resource_not_found", "delivery_in_progress", "webhook_endpoint_disabled"),
        ),
    ),
)
handler = lambda_handler(app)
