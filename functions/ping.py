"""/v1/ping: the project and mode of an API key."""

from __future__ import annotations

from typing import Literal, TypedDict

from shared.api import responses
from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, Service, lambda_handler
from shared.resources.schema import RequestId


class Ping(TypedDict):
    """The project and the mode of an API key (promise 0.1)."""

    object: Literal["ping"]
    """The type of the object."""
    project_id: int
    """The project's number."""
    project_name: str
    """The project's name."""
    livemode: bool
    """False for a test key."""
    request_id: RequestId
    """The value of the `Service-Request-Id` header."""


def ping(request: Request[None]) -> Response[Ping]:
    """Check an API key.

    Returns the project and the mode of the key (promise 0.1).
    """
    body: Ping = {
        "object": "ping",
        "project_id": request.scope.project_id,
        "project_name": request.project_name,
        "livemode": request.scope.livemode,
        "request_id": request.request_id,
    }
    return responses.ok(body)


app = Service(Route("/v1/ping", get=Operation(ping, name="ping")))
handler = lambda_handler(app)
