"""/v1/events: events, their deliveries, and manual retries."""

from __future__ import annotations

from typing import cast

from shared.api import responses
from shared.api.collection_operations import list_operation
from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, Service, lambda_handler
from shared.core.errors import Code
from shared.resources import fields, list_pages, queries
from shared.resources.queries import Page
from shared.webhooks import events
from shared.webhooks.deliveries import commands as delivery_commands
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.deliveries.resource import DELIVERIES, Delivery, DeliveryRow
from shared.webhooks.events import EVENTS, Event


def retrieve(request: Request[None]) -> Response[Event]:
    """Retrieve an event.

    Returns the event exactly as it is sent to receivers. Events can be retrieved for 30 days (promises 9).
    """
    return Response(200, events.find(request.scope, request.id)["doc"])


def list_deliveries(request: Request[None]) -> Response[Page[Delivery]]:
    """List the deliveries of an event.

    Newest first (promises 9).
    """
    query = queries.parse(DELIVERIES, request.query)
    partition = deliveries.partition(request.scope, events.validate_id(request.id))
    page = list_pages.read(request.scope, DELIVERIES, query, partition=partition, seconds_left=request.seconds_left)
    if not page.rows:
        # The event has no deliveries, or it does not exist.
        events.find(request.scope, request.id)
    rows = delivery_commands.cancel_closed(request.scope, cast("list[DeliveryRow]", page.rows))
    return responses.page(page, request.path, [fields.to_json(deliveries.view(row)) for row in rows])


def retrieve_delivery(request: Request[None]) -> Response[Delivery]:
    """Retrieve a delivery of an event.

    Returns the delivery with all of its attempts (promises 9).
    """
    stored = deliveries.find(request.scope, request.id, request.params["delivery_id"])
    [row] = delivery_commands.cancel_closed(request.scope, [stored])
    return responses.ok(deliveries.view(row))


def retry_delivery(request: Request[fields.Nothing]) -> Response[Delivery]:
    """Retry a delivery.

    Queues a new delivery of the event to the same endpoint, with the full retry schedule, and returns it. If the
    endpoint was deleted, the response is a 404 (promises 9).
    """
    delivery_id = request.params["delivery_id"]
    return request.commit(lambda: delivery_commands.retry(request.scope, request.id, delivery_id), responses.accepted)


app = Service(
    Route("/v1/events", get=list_operation(EVENTS)),
    Route(
        "/v1/events/{id}",
        get=Operation(retrieve, name="retrieve_event", errors=(Code.RESOURCE_NOT_FOUND,)),
    ),
    Route(
        "/v1/events/{id}/deliveries",
        get=Operation(
            list_deliveries,
            name="list_deliveries",
            lists=DELIVERIES,
            errors=(Code.RESOURCE_NOT_FOUND,),
        ),
    ),
    Route(
        "/v1/events/{id}/deliveries/{delivery_id}",
        get=Operation(retrieve_delivery, name="retrieve_delivery", errors=(Code.RESOURCE_NOT_FOUND,)),
    ),
    Route(
        "/v1/events/{id}/deliveries/{delivery_id}/retry",
        post=Operation(
            retry_delivery,
            name="retry_delivery",
            status=(202,),
            optional_body=True,
            errors=(Code.RESOURCE_NOT_FOUND, Code.DELIVERY_IN_PROGRESS, Code.WEBHOOK_ENDPOINT_DISABLED),
        ),
    ),
)
handler = lambda_handler(app)
