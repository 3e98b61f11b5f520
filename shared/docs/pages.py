"""The responses of /docs: pages, search results, the reference, and the files that they load."""

from __future__ import annotations

import functools
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from shared.api.responses import RequestContext
from shared.api.routes import no_route
from shared.docs import markdown, search
from shared.docs.contents import MENU, PAGES, Page, neighbors
from shared.pages import SECURITY, templates
from shared.pages.assets import Assets, vendored

_HERE = Path(__file__).parent
_OWN = ("docs.css", "docs.js", "reference.css", "reference.js")
_VENDORED = (
    "@picocss/pico/css/pico.min.css",
    "swagger-ui-dist/swagger-ui-bundle.js",
    "swagger-ui-dist/swagger-ui.css",
)


def respond(request: Request, context: RequestContext, description: Callable[[], str]) -> Response:
    """The response to a GET of a path below /docs, or of /docs itself. Raises `route_not_found`.

    A browser gets a page with the menu instead of that error. `description` returns the OpenAPI document.
    """
    path = request.url.path
    name = path.removeprefix("/docs").removeprefix("/")
    if name.startswith("assets/"):
        context.route = "/docs/assets/{hash}/{name}"
        asset = assets().response(path, request.headers.get("accept-encoding", ""))
        if asset is None:
            raise no_route(path)
        return asset
    context.route = "/docs/{page}"
    match name:
        case "" if path == "/docs":
            return _render("home.html", context)
        case "api":
            return _render("reference.html", context)
        case "search":
            query = request.query_params.get("q", "")[: search.MOST_CHARACTERS]
            return _render("search.html", context, query=query, results=search.find(query, description()))
    page = PAGES.get(name)
    if page is not None:
        return _page(page, context)
    if "text/html" not in request.headers.get("accept", ""):
        raise no_route(path)
    context.error_code = "route_not_found"
    missing = _render("missing.html", context, status=404)
    missing.headers["Service-Should-Retry"] = "false"
    return missing


@functools.cache
def assets() -> Assets:
    """The files that the pages load."""
    return Assets("/docs/assets", [*(_HERE / "assets" / name for name in _OWN), *map(vendored, _VENDORED)])


def _page(page: Page, context: RequestContext) -> Response:
    document = markdown.document(page.name)
    html = document.html.replace(markdown.BASE_URL, escape(context.base_url))
    before, after = neighbors(page.name)
    return _render(
        "page.html",
        context,
        page=page,
        html=Markup(html.replace(markdown.PREFIX, escape(context.prefix))),
        headings=[section for section in document.sections if section.level == 2],
        before=before,
        after=after,
    )


def _render(template: str, context: RequestContext, status: int = 200, **values: Any) -> Response:
    html = (
        _templates()
        .get_template(template)
        .render(
            menu=MENU, url=lambda path: context.prefix + path, base_url=context.base_url, **({"page": None} | values)
        )
    )
    return HTMLResponse(html, status, SECURITY)


@functools.cache
def _templates() -> Environment:
    return templates.environment(_HERE / "templates", assets())
