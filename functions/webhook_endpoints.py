"""/v1/webhook_endpoints: register receivers, rotate their secrets, send them a test event."""

from __future__ import annotations

from typing import Annotated

from shared.api import http
from shared.api.http import Answer, Call, Decision
from shared.resources import fields, lists, records
from shared.resources.records import Document
from shared.webhooks import deliveries, endpoints, signing
from shared.work import hints

LISTED = endpoints.LISTED


class WebhookEndpointIn(fields.Input):
    """A new endpoint; `url` is required, no filters mean all events (contract 9)."""

    url: str
    event_filters: list[str] | None = None
    label: Annotated[str, fields.text(200)] | None = None
    description: Annotated[str, fields.text(500)] | None = None
    enabled: bool = True


class WebhookEndpointPatch(fields.Input):
    """A merge patch; what is absent stays, null clears."""

    url: str = ""
    event_filters: list[str] | None = None
    label: Annotated[str, fields.text(200)] | None = None
    description: Annotated[str, fields.text(500)] | None = None
    enabled: bool = True


def create(call: Call) -> Answer:
    given = call.body(WebhookEndpointIn).model_dump()
    endpoints.check_url(given["url"])
    endpoints.check_filters(given["event_filters"] or [])
    secret = signing.new_secret()
    endpoint = endpoints.new(call.scope, given, secret)
    sealed = signing.sealed(endpoint["id"], secret)

    def decide() -> Decision:
        writes = endpoints.insertion(call.scope, endpoint, sealed)
        return writes, _with_secret(201, endpoint, secret)

    return call.commit(decide)


def list_webhook_endpoints(call: Call) -> Answer:
    query = lists.read(LISTED, call.query)
    page = lists.page(call.scope, LISTED, query, seconds_left=call.seconds_left)
    return Answer(200, page.envelope(call.path))


def retrieve(call: Call) -> Answer:
    return Answer(200, records.find(LISTED, call.scope, call.params["id"]).row["doc"])


def update(call: Call) -> Answer:
    patch = call.body(WebhookEndpointPatch).model_dump(exclude_unset=True)
    if "url" in patch:
        endpoints.check_url(patch["url"])
    if "event_filters" in patch:
        patch["event_filters"] = patch["event_filters"] or []
        endpoints.check_filters(patch["event_filters"])

    def decide() -> Decision:
        found = records.find(LISTED, call.scope, call.params["id"])
        changes = dict(patch)
        if "enabled" in changes:
            changes |= endpoints.enabled(found.doc, changes["enabled"])
        endpoint = records.touched(found.doc, changes)
        changed = endpoint is not found.doc
        writes = [endpoints.change(call.scope, found, endpoint)] if changed else []
        return writes, Answer(200, fields.compact(endpoint))

    return call.commit(decide)


def delete(call: Call) -> Answer:
    def decide() -> Decision:
        found = records.find(LISTED, call.scope, call.params["id"])
        gone = {"id": found.doc["id"], "object": LISTED.kind, "deleted": True}
        return endpoints.deletion(call.scope, found), Answer(200, fields.compact(gone))

    return call.commit(decide)


def rotate_secret(call: Call) -> Answer:
    call.body(fields.Nothing)
    secret = signing.new_secret()

    def decide() -> Decision:
        found = records.find(LISTED, call.scope, call.params["id"])
        endpoint = records.touched(found.doc, {"secret_prefix": secret[: signing.SHOWN_CHARACTERS]})
        sealed = signing.sealed(endpoint["id"], secret)
        write = endpoints.change(call.scope, found, endpoint, secret=sealed)
        return [write], _with_secret(200, endpoint, secret)

    return call.commit(decide)


def test(call: Call) -> Answer:
    call.body(fields.Nothing)
    delivery: Document = {}

    def decide() -> Decision:
        nonlocal delivery
        found = records.find(LISTED, call.scope, call.params["id"])
        writes, delivery = deliveries.tested(call.scope, endpoints.state_of(found.row))
        return writes, Answer(202, fields.compact(delivery))

    answer = call.commit(decide)
    hints.send("retries", [deliveries.hint_of(call.scope, delivery)])
    return answer


def _with_secret(status: int, endpoint: Document, secret: str) -> Answer:
    location = f"/v1/webhook_endpoints/{endpoint['id']}" if status == 201 else None
    return Answer(status, fields.compact(endpoint | {"secret": secret}), location, secret=True)


app = http.service(
    http.Resource("/v1/webhook_endpoints", get=list_webhook_endpoints, post=create, query=LISTED.parameters),
    http.Resource("/v1/webhook_endpoints/{id}", get=retrieve, patch=update, delete=delete),
    http.Resource("/v1/webhook_endpoints/{id}/rotate_secret", post=rotate_secret, action=True),
    http.Resource("/v1/webhook_endpoints/{id}/test", post=test, action=True),
)
handler = http.lambda_handler(app)
