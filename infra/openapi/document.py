"""The whole document."""

from __future__ import annotations

import json
from typing import Any

from functions import (
    agent_settings,
    appointments,
    conversations,
    customers,
    events,
    messages,
    ping,
    sessions,
    webhook_endpoints,
)
from infra.openapi import errors, examples, headers, links, operations, values, webhooks
from infra.openapi.schemas import Schemas
from shared.api import idempotency
from shared.api.routes import Route
from shared.core import api_description, clock

_TAGS = (
    ("Account", "The project and the mode behind an API key.", (ping,)),
    ("Agent", "What the agent knows, what it may change, and when it may call.", (agent_settings,)),
    ("Customers", "People to be contacted by phone.", (customers,)),
    (
        "Appointments",
        "Appointments of customers. Each change emits an event.",
        (appointments,),
    ),
    ("Calls", "Calls to customers. Each is a session, with a transcript and a recording.", (sessions,)),
    ("Conversations", "Threads of messages, in which the agent replies.", (conversations, messages)),
    ("Webhook endpoints", "Where events are sent.", (webhook_endpoints,)),
    ("Events", "Events, their deliveries, and manual retries.", (events,)),
)
_WEBHOOKS_TAG = {"name": "Webhooks", "description": "What is sent to webhook endpoints."}
_DESCRIPTION = f"""\
Customers, appointments, calls, conversations and signed webhooks, as JSON over HTTPS.

- Every request carries `Authorization: Bearer <API_KEY>`. The key determines the project and the mode, test or live.
- Bodies are JSON objects. Unknown fields and unknown query parameters are refused.
- Times are RFC 3339. Times in responses are UTC with milliseconds. Times in requests need a UTC offset.
- Lists have pages: send `next_cursor` as `starting_after` until `has_more` is false.
- A POST or PATCH with an `Idempotency-Key` can be retried safely for {idempotency.SAVED_MS // clock.HOUR} hours.
- Errors have one envelope. `doc_url` links to a page that explains the code.
- Every path with GET supports HEAD, too.
- Dated revisions of the API only add to it. Ignore fields and values that you do not know.
"""


def document() -> dict[str, Any]:
    """The API description in OpenAPI 3.1."""
    schemas = Schemas()
    schemas.named |= errors.schemas()
    routes = [(tag, route) for tag, _, modules in _TAGS for module in modules for route in module.app.routes]
    # The resource that GET returns at a path has the id with which the path ends.
    id_types = {
        route.path: route.operations["GET"].returns
        for _, route in routes
        if isinstance(route, Route) and route.path.endswith("}") and "GET" in route.operations
    }
    described = [
        operations.describe(schemas, tag, method, route.path, operation, id_types)
        for tag, route in routes
        if isinstance(route, Route)
        for method, operation in route.operations.items()
        if method != "HEAD"
    ]
    links.add(described, schemas.named)
    values.describe(schemas.named)
    paths: dict[str, Any] = {}
    for each in described:
        for status in each.operation.status:
            media = each.document["responses"][str(status)]["content"]["application/json"]
            name = media["schema"]["$ref"].rpartition("/")[2]
            media["example"] = examples.response(each.operation.name, status, each.path, name)
        paths.setdefault(each.path, {})[each.method.lower()] = each.document
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Appointment and Conversation Service API",
            "version": api_description.NEWEST_REVISION,
            "summary": "Customers, appointments, calls, conversations and signed webhooks.",
            "description": _DESCRIPTION,
            # As in pyproject.toml. Contact and terms are a stage's: the function that serves the document adds them.
            "license": {"name": "All rights reserved", "identifier": "LicenseRef-All-Rights-Reserved"},
        },
        "externalDocs": {
            "description": "Guides: webhooks, retries, idempotency, test mode and more.",
            "url": f"{api_description.DESCRIBED_SERVER}/docs",
        },
        "servers": [{"url": api_description.DESCRIBED_SERVER}],
        "security": [{"api_key": []}],
        "tags": [*({"name": name, "description": text} for name, text, _ in _TAGS), _WEBHOOKS_TAG],
        "paths": paths,
        "webhooks": webhooks.webhooks(),
        "components": {
            "securitySchemes": {
                "api_key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key of a project: `sk_test_…` or `sk_live_…`.",
                }
            },
            "parameters": operations.PARAMETERS,
            "headers": headers.HEADERS,
            "responses": errors.shared_responses(each.codes for each in described),
            "examples": errors.examples(each.codes for each in described),
            "schemas": dict(sorted(schemas.named.items())),
        },
    }


def readable() -> str:
    """The document as JSON text with one keyword a line, for people and for comparisons."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def compact() -> str:
    """The document as JSON text without line breaks, as it is served."""
    return json.dumps(document(), separators=(",", ":"), ensure_ascii=False)
