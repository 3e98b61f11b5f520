"""/canary/{token}: the receiver of the canary's webhooks. It is internal: any other request gets a 404."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from shared.api.routes import Service, lambda_handler, no_route
from shared.canary import receipts
from shared.canary.receipts import Received


class Receiver:
    """The ASGI app of the route."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Return 204 if a run of the canary expects this webhook and its signature is valid; otherwise 404."""
        request = Request(scope, receive)
        webhook = Received(request.headers.get("Service-Signature", ""), await request.body())
        if request.method != "POST" or not receipts.submit(request.path_params["token"], webhook):
            raise no_route(request.url.path)
        scope["context"].route = "/canary/{token}"
        await Response(status_code=204)(scope, receive, send)


app = Service(Route("/canary/{token}", Receiver()))
handler = lambda_handler(app)
