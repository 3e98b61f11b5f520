"""/v1/webhook_endpoints: create, list, retrieve, update and delete endpoints, rotate secrets, send test events."""

from __future__ import annotations

from shared.api import responses
from shared.api.collection_operations import list_operation, retrieve_operation
from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, Service, lambda_handler
from shared.core.errors import Code
from shared.resources import fields
from shared.webhooks.deliveries import commands as delivery_commands
from shared.webhooks.deliveries.resource import Delivery
from shared.webhooks.endpoints import commands as endpoint_commands
from shared.webhooks.endpoints.resource import (
    WEBHOOK_ENDPOINTS,
    DeletedWebhookEndpoint,
    SecretRotation,
    WebhookEndpoint,
    WebhookEndpointCreate,
    WebhookEndpointPatch,
    WebhookEndpointWithSecret,
)


def create(request: Request[WebhookEndpointCreate]) -> Response[WebhookEndpointWithSecret]:
    """Create a webhook endpoint.

    The response contains the signing secret, which no later response shows. A project has at most 16 endpoints in each
    mode (promises 9).
    """
    return request.commit(
        lambda: endpoint_commands.create(request.scope, request.body),
        lambda endpoint: _with_secret(201, endpoint),
    )


def update(request: Request[WebhookEndpointPatch]) -> Response[WebhookEndpoint]:
    """Update a webhook endpoint.

    A merge patch: an absent field keeps its value, and null clears it. If the endpoint is disabled, its waiting
    deliveries are canceled (promises 3 and 9).
    """
    return request.commit(
        lambda: endpoint_commands.update(request.scope, request.find(WEBHOOK_ENDPOINTS), request.body)
    )


def delete(request: Request[None]) -> Response[DeletedWebhookEndpoint]:
    """Delete a webhook endpoint.

    The endpoint no longer exists, and its waiting deliveries are canceled (promises 9).
    """
    return request.commit(lambda: endpoint_commands.delete(request.scope, request.find(WEBHOOK_ENDPOINTS)))


def rotate_secret(request: Request[SecretRotation]) -> Response[WebhookEndpointWithSecret]:
    """Rotate the signing secret of a webhook endpoint.

    The response contains the new secret, which no later response shows. The previous secret is invalid immediately
    (promises 9), unless the request says how long deliveries are signed with both (promises 11).
    """
    return request.commit(
        lambda: endpoint_commands.rotate_secret(request.scope, request.id, request.body),
        lambda endpoint: _with_secret(200, endpoint),
    )


def test(request: Request[fields.Nothing]) -> Response[Delivery]:
    """Send a test event to a webhook endpoint.

    Queues a synthetic `appointment.created` event to this endpoint only, whatever its filters are, and returns its
    delivery (promises 9).
    """
    return request.commit(lambda: delivery_commands.test(request.scope, request.id), responses.accepted)


def _with_secret(status: int, endpoint: WebhookEndpointWithSecret) -> Response[WebhookEndpointWithSecret]:
    location = f"/v1/webhook_endpoints/{endpoint['id']}" if status == 201 else None
    return Response(status, fields.to_json(endpoint), location, holds_secret=True)


app = Service(
    Route(
        "/v1/webhook_endpoints",
        get=list_operation(WEBHOOK_ENDPOINTS),
        post=Operation(
            create,
            name="create_webhook_endpoint",
            status=(201,),
            errors=(Code.URL_INVALID, Code.EVENT_FILTER_INVALID, Code.WEBHOOK_ENDPOINT_LIMIT),
        ),
    ),
    Route(
        "/v1/webhook_endpoints/{id}",
        get=retrieve_operation(WEBHOOK_ENDPOINTS),
        patch=Operation(
            update,
            name="update_webhook_endpoint",
            reads=WEBHOOK_ENDPOINTS,
            errors=(Code.RESOURCE_NOT_FOUND, Code.URL_INVALID, Code.EVENT_FILTER_INVALID),
        ),
        delete=Operation(
            delete,
            name="delete_webhook_endpoint",
            reads=WEBHOOK_ENDPOINTS,
            errors=(Code.RESOURCE_NOT_FOUND,),
        ),
    ),
    Route(
        "/v1/webhook_endpoints/{id}/rotate_secret",
        post=Operation(
            rotate_secret,
            name="rotate_webhook_endpoint_secret",
            optional_body=True,
            errors=(Code.RESOURCE_NOT_FOUND,),
        ),
    ),
    Route(
        "/v1/webhook_endpoints/{id}/test",
        post=Operation(
            test,
            name="test_webhook_endpoint",
            status=(202,),
            optional_body=True,
            errors=(Code.RESOURCE_NOT_FOUND, Code.WEBHOOK_ENDPOINT_DISABLED),
        ),
    ),
)
handler = lambda_handler(app)
