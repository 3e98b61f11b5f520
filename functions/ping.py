"""/v1/ping: the project and mode of an API key."""

from __future__ import annotations

from typing import TypedDict

from shared.api import responses
from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, lambda_handler, service


class Ping(TypedDict):
    """The project and mode of an API key (specification, "Ping")."""

    object: str
    """`ping`."""
    project_id: int
    """The project's number."""
    project_name: str
    livemode: bool
    """False for a test key."""
    request_id: str
    """The value of the `Service-Request-Id` header."""


def ping(request: Request[None]) -> Response:
    """Return the project and mode of the API key (specification, "GET /v1/ping")."""
    body: Ping = {
        "object": "ping",
        "project_id": request.scope.project_id,
        "project_name": request.project_name,
        "livemode": request.scope.livemode,
        "request_id": request.request_id,
    }
    return responses.ok(body)


app = service(Route("/v1/ping", get=Operation(ping, returns=Ping)))
handler = lambda_handler(app)
