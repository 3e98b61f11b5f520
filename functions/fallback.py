"""Unknown paths, the API description, the command line for clients, and the documentation, /docs.

Every error's `doc_url` leads to /docs/errors.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from shared.api.routes import Service, lambda_handler
from shared.core import settings
from shared.core.api_description import API_DESCRIPTION, CLI_ARCHIVE, DESCRIBED_SERVER, of_operator
from shared.core.errors import ApiError, Code


class Docs:
    """The ASGI app of the documentation."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Return a page of the documentation, a file that it loads, or a list of the pages.

        Other methods are 405 `method_not_allowed`.
        """
        request = _reading(scope, receive)
        # Only a request for a page pays for this import.
        from shared.docs import pages

        response = pages.respond(request, scope["context"], _description)
        await response(scope, receive, send)


class ApiDescription:
    """The ASGI app of GET /openapi.json."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Return the API in OpenAPI 3.1, with the address, contact and terms of this stage.

        Other methods are 405 `method_not_allowed`.
        """
        request = _reading(scope, receive)
        # As for pages: other requests do not pay for it.
        from shared.pages import documents

        scope["context"].route = "/openapi.json"
        server = json.dumps(scope["context"].base_url)[1:-1]
        body = _description().replace(DESCRIBED_SERVER, server)
        if added := of_operator():
            body = body.replace('"license":', f'{json.dumps(added)[1:-1]},"license":', 1)
        await documents.respond(request, body, "application/json")(scope, receive, send)


class CommandLine:
    """The ASGI app of GET /docs/appt.zip."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Return the command line for clients, as an archive that pip installs.

        Other methods are 405 `method_not_allowed`.
        """
        _reading(scope, receive)
        scope["context"].route = f"/docs/{CLI_ARCHIVE}"
        await Response(_command_line(), media_type="application/zip")(scope, receive, send)


def _reading(scope: Scope, receive: Receive) -> Request:
    """The request, which may only read. Raises `method_not_allowed`."""
    request = Request(scope, receive)
    if request.method not in ("GET", "HEAD"):
        raise ApiError(Code.METHOD_NOT_ALLOWED, "Use one of GET, HEAD.", headers={"Allow": "GET, HEAD"})
    return request


@functools.cache
def _description() -> str:
    path = settings.openapi_file() or Path(__file__).with_name(API_DESCRIPTION)
    return Path(path).read_text(encoding="utf-8")


@functools.cache
def _command_line() -> bytes:
    path = settings.cli_file() or Path(__file__).with_name(CLI_ARCHIVE)
    return Path(path).read_bytes()


_docs = Docs()
_PATHS = ("/docs", "/docs.md", "/docs/{path:path}", "/llms.txt", "/llms-full.txt", "/robots.txt", "/sitemap.xml")
app = Service(
    Route(f"/docs/{CLI_ARCHIVE}", CommandLine()),
    *(Route(path, _docs) for path in _PATHS),
    Route("/openapi.json", ApiDescription()),
)
handler = lambda_handler(app)
