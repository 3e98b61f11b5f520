"""/admin: the pages on which people look after a project (promises 0)."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from functions.admin import (
    agent_settings,
    api_keys,
    appointments,
    attention,
    audit_trail,
    call_limits,
    conversations,
    customers,
    delivery_log,
    events,
    failed_deliveries,
    find,
    people,
    rendering,
    request_log,
    sessions,
    sign_in,
    today,
    usage,
    webhook_endpoints,
)
from functions.admin.visits import AdminPage, Refused, Visit, not_found
from shared.api.routes import Service, api_error, lambda_handler
from shared.core.errors import Code

PAGES: tuple[AdminPage, ...] = (
    *sign_in.PAGES,
    *today.PAGES,
    *attention.PAGES,
    *events.PAGES,
    *failed_deliveries.PAGES,
    *webhook_endpoints.PAGES,
    *delivery_log.PAGES,
    *sessions.PAGES,
    *conversations.PAGES,
    *customers.PAGES,
    *appointments.PAGES,
    *api_keys.PAGES,
    *request_log.PAGES,
    *usage.PAGES,
    *agent_settings.PAGES,
    *call_limits.PAGES,
    *people.PAGES,
    *audit_trail.PAGES,
    *find.PAGES,
)


class Admin:
    """The ASGI app of all pages. Every exception becomes a page that says what to do."""

    def __init__(self) -> None:
        assets = Route("/admin/assets/{hash}/{name}", _Assets())
        self._router = Router([*PAGES, assets], redirect_slashes=False, default=_no_page)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            await self._router(scope, receive, send)
        except Exception as error:  # noqa: BLE001  # any error has a page
            await _error_page(_refused(error, scope), scope)(scope, receive, send)


class _Assets:
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["context"].route = "/admin/assets/{hash}/{name}"
        response = rendering.assets().response(scope["path"], Headers(scope=scope))
        if response is None:
            raise not_found()
        await response(scope, receive, send)


async def _no_page(scope: Scope, receive: Receive, send: Send) -> None:
    raise not_found()


def _refused(error: Exception, scope: Scope) -> Refused:
    """The page for an exception. It does not expose details of internal errors."""
    if isinstance(error, Refused):
        return error
    failure = api_error(error)
    scope["context"].error_code = failure.code
    if failure.code == Code.SERVICE_UNAVAILABLE:
        text = "The service is busy. Reload the page in a moment."
        return Refused(failure.status, "Try again", text, failure.headers)
    if failure.code == Code.INTERNAL_ERROR:
        text = "This is our fault. Try again. If it persists, contact support."
        return Refused(failure.status, "Something went wrong", text)
    return not_found() if failure.status == 404 else Refused(failure.status, "This did not work", failure.message)


def _error_page(refused: Refused, scope: Scope) -> Response:
    context = scope["context"]
    response = rendering.render(
        "error.html", refused.status, refused=refused, context=context, url=lambda path: context.prefix + path
    )
    response.headers.update(refused.headers)
    return response


_admin = Admin()
app = Service(Route("/admin", _admin), Route("/admin/{path:path}", _admin))
handler = lambda_handler(app)

__all__ = ["PAGES", "Visit", "app", "handler"]
