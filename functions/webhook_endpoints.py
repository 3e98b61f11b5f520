"""/v1/webhook_endpoints: create, list, retrieve, update and delete endpoints, rotate secrets, send test events."""

from __future__ import annotations

from typing import Annotated

from shared.api import responses
from shared.api.collections import list_operation, retrieve_operation
from shared.api.requests import Decision, Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, lambda_handler, service
from shared.resources import fields
from shared.webhooks import deliveries, endpoints, signing
from shared.webhooks.deliveries import Delivery
from shared.webhooks.endpoints import WEBHOOK_ENDPOINTS, DeletedWebhookEndpoint, WebhookEndpoint
from shared.work import hints


class WebhookEndpointCreate(fields.Input):
    """A new endpoint; `url` is required. Without filters it receives all events (contract 9)."""

    url: str
    event_filters: list[str] | None = None
    label: Annotated[str, fields.text(200)] | None = None
    description: Annotated[str, fields.text(500)] | None = None
    enabled: bool = True


class WebhookEndpointPatch(fields.Input):
    """A merge patch: an absent field keeps its value, null clears it."""

    url: str = fields.ABSENT
    event_filters: list[str] | None = None
    label: Annotated[str, fields.text(200)] | None = None
    description: Annotated[str, fields.text(500)] | None = None
    enabled: bool = fields.ABSENT


def create(request: Request[WebhookEndpointCreate]) -> Response:
    """Create an endpoint and return it with its signing secret, which no later response shows (contract 9).

    A URL that cannot receive webhooks is 400 `url_invalid`; an unknown filter is 400 `event_filter_invalid`; a 17th
    endpoint is 409 `webhook_endpoint_limit`.
    """
    values = request.body.model_dump()
    endpoints.check_url(values["url"])
    endpoints.check_filters(values["event_filters"] or [])
    secret = signing.new_secret()
    endpoint = endpoints.new(request.scope, values, secret)
    ciphertext = signing.encrypt(endpoint["id"], secret)

    def decide() -> Decision:
        return Decision(endpoints.insertion(request.scope, endpoint, ciphertext), _with_secret(201, endpoint, secret))

    return request.commit(decide)


def update(request: Request[WebhookEndpointPatch]) -> Response:
    """Change an endpoint by a merge patch and return it (contract 3 and 9).

    Disabling it cancels its waiting deliveries. The errors are those of create, without the limit; an unknown id is 404
    `resource_not_found`.
    """
    patch = request.body.model_dump(exclude_unset=True)
    if "url" in patch:
        endpoints.check_url(patch["url"])
    if "event_filters" in patch:
        patch["event_filters"] = patch["event_filters"] or []
        endpoints.check_filters(patch["event_filters"])

    def decide() -> Decision:
        record = WEBHOOK_ENDPOINTS.find(request.scope, request.id)
        endpoint = endpoints.patched(record.doc, patch)
        if endpoint is None:
            return Decision([], responses.ok(record.json))
        return Decision([endpoints.update(request.scope, record, endpoint)], responses.ok(endpoint))

    return request.commit(decide)


def delete(request: Request[None]) -> Response:
    """Delete an endpoint permanently and return `{id, object, deleted: true}` (contract 9).

    Its waiting deliveries are canceled. An unknown id is 404 `resource_not_found`.
    """

    def decide() -> Decision:
        record = WEBHOOK_ENDPOINTS.find(request.scope, request.id)
        deleted: DeletedWebhookEndpoint = {"id": record.doc["id"], "object": "webhook_endpoint", "deleted": True}
        return Decision(endpoints.deletion(request.scope, record), responses.ok(deleted))

    return request.commit(decide)


def rotate_secret(request: Request[fields.Nothing]) -> Response:
    """Replace the signing secret and return the endpoint with the new one, which no later response shows (contract 9).

    The previous secret is invalid immediately. An unknown id is 404 `resource_not_found`.
    """
    secret = signing.new_secret()

    def decide() -> Decision:
        record = WEBHOOK_ENDPOINTS.find(request.scope, request.id)
        endpoint = endpoints.with_secret(record.doc, secret)
        ciphertext = signing.encrypt(endpoint["id"], secret)
        write = endpoints.update(request.scope, record, endpoint, secret=ciphertext)
        return Decision([write], _with_secret(200, endpoint, secret))

    return request.commit(decide)


def test(request: Request[fields.Nothing]) -> Response:
    """Queue a test event, `appointment.created`, to this endpoint only and return its delivery (contract 9).

    The endpoint's filters do not apply. A disabled endpoint is 409 `webhook_endpoint_disabled`; an unknown id is 404
    `resource_not_found`.
    """

    def decide() -> Decision:
        record = WEBHOOK_ENDPOINTS.find(request.scope, request.id)
        writes, delivery = deliveries.test(request.scope, endpoints.snapshot(record.row))
        hint = deliveries.hint(delivery)
        return Decision(writes, responses.accepted(delivery["doc"]), after=lambda: hints.send("retries", [hint]))

    return request.commit(decide)


def _with_secret(status: int, endpoint: WebhookEndpoint, secret: str) -> Response:
    location = f"/v1/webhook_endpoints/{endpoint['id']}" if status == 201 else None
    body: WebhookEndpoint = {**endpoint, "secret": secret}
    return Response(status, fields.to_json(body), location, holds_secret=True)


app = service(
    Route(
        "/v1/webhook_endpoints",
        get=list_operation(WEBHOOK_ENDPOINTS, WebhookEndpoint),
        post=Operation(
            create,
            returns=WebhookEndpoint,
            status=(201,),
            body=WebhookEndpointCreate,
            errors=("url_invalid", "event_filter_invalid", "webhook_endpoint_limit"),
        ),
    ),
    Route(
        "/v1/webhook_endpoints/{id}",
        get=retrieve_operation(WEBHOOK_ENDPOINTS, WebhookEndpoint),
        patch=Operation(
            update,
            returns=WebhookEndpoint,
            body=WebhookEndpointPatch,
            errors=("resource_not_found", "url_invalid", "event_filter_invalid"),
        ),
        delete=Operation(delete, returns=DeletedWebhookEndpoint, errors=("resource_not_found",)),
    ),
    Route(
        "/v1/webhook_endpoints/{id}/rotate_secret",
        post=Operation(rotate_secret, returns=WebhookEndpoint, optional_body=True, errors=("resource_not_found",)),
    ),
    Route(
        "/v1/webhook_endpoints/{id}/test",
        post=Operation(
            test,
            returns=Delivery,
            status=(202,),
            optional_body=True,
            errors=("resource_not_found", "webhook_endpoint_disabled"),
        ),
    ),
)
handler = lambda_handler(app)
