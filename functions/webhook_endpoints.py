"""/v1/webhook_endpoints: create, list, retrieve, update and delete endpoints, rotate secrets, send test events."""

from __future__ import annotations

import json

from shared.api import responses
from shared.api.collections import list_operation, retrieve_operation
from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, lambda_handler, service
from shared.core.errors import Code
from shared.resources import fields
from shared.store.commit import Change
from shared.tasks import wake_ups
from shared.webhooks import deliveries, endpoints, queues, signing
from shared.webhooks.deliveries import Delivery
from shared.webhooks.endpoints import (
    WEBHOOK_ENDPOINTS,
    DeletedWebhookEndpoint,
    WebhookEndpoint,
    WebhookEndpointCreate,
    WebhookEndpointPatch,
    WebhookEndpointWithSecret,
)


def create(request: Request[WebhookEndpointCreate]) -> Response:
    """Create a webhook endpoint.

    The response contains the signing secret, which no later response shows. A project has at most 16 endpoints in each
    mode (promises 9).
    """
    values = request.body.model_dump()
    endpoints.check_url(values["url"])
    endpoints.check_filters(values["event_filters"] or [])
    secret = signing.new_secret()
    endpoint = endpoints.new(request.scope, values, secret)
    ciphertext = signing.encrypt(endpoint["id"], secret)

    return request.commit(
        lambda: Change(endpoint, endpoints.insertion(request.scope, endpoint, ciphertext)),
        lambda endpoint: _with_secret(201, endpoint, secret),
    )


def update(request: Request[WebhookEndpointPatch]) -> Response:
    """Update a webhook endpoint.

    A merge patch: an absent field keeps its value, and null clears it. If the endpoint is disabled, its waiting
    deliveries are canceled (promises 3 and 9).
    """
    patch = request.body.model_dump(exclude_unset=True)
    if "url" in patch:
        endpoints.check_url(patch["url"])
    if "event_filters" in patch:
        patch["event_filters"] = patch["event_filters"] or []
        endpoints.check_filters(patch["event_filters"])

    def decide() -> Change[WebhookEndpoint]:
        record = WEBHOOK_ENDPOINTS.find(request.scope, request.id)
        endpoint = endpoints.patched(record.doc, patch)
        if endpoint is None:
            return Change(record.doc)
        return Change(endpoint, [endpoints.update(request.scope, record, endpoint)])

    return request.commit(decide)


def delete(request: Request[None]) -> Response:
    """Delete a webhook endpoint.

    The endpoint no longer exists, and its waiting deliveries are canceled (promises 9).
    """

    def decide() -> Change[DeletedWebhookEndpoint]:
        record = WEBHOOK_ENDPOINTS.find(request.scope, request.id)
        deleted: DeletedWebhookEndpoint = {"id": record.doc["id"], "object": "webhook_endpoint", "deleted": True}
        return Change(deleted, endpoints.deletion(request.scope, record))

    return request.commit(decide)


def rotate_secret(request: Request[fields.Nothing]) -> Response:
    """Rotate the signing secret of a webhook endpoint.

    The response contains the new secret, which no later response shows. The previous secret is invalid immediately
    (promises 9).
    """
    secret = signing.new_secret()

    def decide() -> Change[WebhookEndpoint]:
        record = WEBHOOK_ENDPOINTS.find(request.scope, request.id)
        endpoint = endpoints.with_secret(record.doc, secret)
        ciphertext = signing.encrypt(endpoint["id"], secret)
        write = endpoints.update(request.scope, record, endpoint, secret=ciphertext)
        return Change(endpoint, [write])

    return request.commit(decide, lambda endpoint: _with_secret(200, endpoint, secret))


def test(request: Request[fields.Nothing]) -> Response:
    """Send a test event to a webhook endpoint.

    Queues a synthetic `appointment.created` event to this endpoint only, whatever its filters are, and returns its
    delivery (promises 9).
    """

    def decide() -> Change[Delivery]:
        record = WEBHOOK_ENDPOINTS.find(request.scope, request.id)
        writes, delivery = deliveries.test(request.scope, endpoints.snapshot(record.row))
        wake_up = deliveries.wake_up(delivery)
        return Change(
            json.loads(delivery["doc"]),
            writes,
            after=lambda: wake_ups.send_within(wake_ups.REQUEST_SECONDS, queues.LATER, [wake_up]),
        )

    return request.commit(decide, responses.accepted)


def _with_secret(status: int, endpoint: WebhookEndpoint, secret: str) -> Response:
    location = f"/v1/webhook_endpoints/{endpoint['id']}" if status == 201 else None
    body: WebhookEndpointWithSecret = {**endpoint, "secret": secret}
    return Response(status, fields.to_json(body), location, holds_secret=True)


app = service(
    Route(
        "/v1/webhook_endpoints",
        get=list_operation(WEBHOOK_ENDPOINTS, WebhookEndpoint),
        post=Operation(
            create,
            name="create_webhook_endpoint",
            returns=WebhookEndpointWithSecret,
            status=(201,),
            body=WebhookEndpointCreate,
            errors=(Code.URL_INVALID, Code.EVENT_FILTER_INVALID, Code.WEBHOOK_ENDPOINT_LIMIT),
        ),
    ),
    Route(
        "/v1/webhook_endpoints/{id}",
        get=retrieve_operation(WEBHOOK_ENDPOINTS, WebhookEndpoint),
        patch=Operation(
            update,
            name="update_webhook_endpoint",
            reads=WEBHOOK_ENDPOINTS,
            returns=WebhookEndpoint,
            body=WebhookEndpointPatch,
            errors=(Code.RESOURCE_NOT_FOUND, Code.URL_INVALID, Code.EVENT_FILTER_INVALID),
        ),
        delete=Operation(
            delete,
            name="delete_webhook_endpoint",
            returns=DeletedWebhookEndpoint,
            reads=WEBHOOK_ENDPOINTS,
            errors=(Code.RESOURCE_NOT_FOUND,),
        ),
    ),
    Route(
        "/v1/webhook_endpoints/{id}/rotate_secret",
        post=Operation(
            rotate_secret,
            name="rotate_webhook_endpoint_secret",
            returns=WebhookEndpointWithSecret,
            optional_body=True,
            errors=(Code.RESOURCE_NOT_FOUND,),
        ),
    ),
    Route(
        "/v1/webhook_endpoints/{id}/test",
        post=Operation(
            test,
            name="test_webhook_endpoint",
            returns=Delivery,
            status=(202,),
            optional_body=True,
            errors=(Code.RESOURCE_NOT_FOUND, Code.WEBHOOK_ENDPOINT_DISABLED),
        ),
    ),
)
handler = lambda_handler(app)
