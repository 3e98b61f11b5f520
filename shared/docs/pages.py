"""The responses of /docs: pages, search results, the reference, and the files that they load."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from shared.api.responses import RequestContext
from shared.api.routes import no_route
from shared.core import settings
from shared.docs import markdown, plain, reference, search
from shared.docs.contents import MENU, PAGES, GuidePage, guided, neighbors
from shared.pages import SECURITY, documents, templates
from shared.pages.assets import Assets, vendored

_HERE = Path(__file__).parent
_ACCEPTED = re.compile(r"([\w+.*/-]+)\s*(?:;\s*q=([01](?:\.[0-9]{0,3})?))?")
_OWN = ("docs.css", "docs.js", "reference.js")
_VENDORED = ("@picocss/pico/css/pico.min.css",)


def respond(request: Request, context: RequestContext, description: Callable[[], str]) -> Response:
    """The response to a GET of a path below /docs, of /docs itself, or of one of `_FILES`. Raises `route_not_found`.

    A browser gets a page with the menu instead of that error. `description` returns the OpenAPI document.
    """
    path = request.url.path
    if path in _FILES:
        context.route = path
        return documents.respond(request, _FILES[path](context.base_url, description), _media_type(path))
    page = path.removesuffix(".md")
    name = page.removeprefix("/docs").removeprefix("/")
    if name.startswith("assets/"):
        context.route = "/docs/assets/{hash}/{name}"
        asset = assets().response(path, request.headers)
        if asset is None:
            raise no_route(path)
        return asset
    context.route = "/docs/{page}"
    if path == "/docs/search":
        query = request.query_params.get("q", "")[: search.MOST_CHARACTERS]
        html = _render("search.html", context, query=query, results=search.find(query, description))
        return HTMLResponse(html, headers=SECURITY)
    accepted = request.headers.get("accept", "")
    if name not in (*PAGES, "api") and page != "/docs":
        if "text/html" not in accepted:
            raise no_route(path)
        context.error_code = "route_not_found"
        return HTMLResponse(_render("missing.html", context), 404, SECURITY | {"Service-Should-Retry": "false"})
    if page != path or _prefers_markdown(accepted):
        return documents.respond(request, _markdown(name, context.base_url, description), _media_type(".md"))
    return documents.respond(request, _html(name, context, description), "text/html", SECURITY)


@functools.cache
def assets() -> Assets:
    """The files that the pages load."""
    return Assets("/docs/assets", [*(_HERE / "assets" / name for name in _OWN), *map(vendored, _VENDORED)])


_FILES: Mapping[str, Callable[[str, Callable[[], str]], str]] = {
    "/llms.txt": lambda base_url, _: plain.contents(base_url),
    "/llms-full.txt": lambda base_url, description: plain.everything(base_url, description()),
    "/robots.txt": lambda base_url, _: plain.robots(base_url),
    "/sitemap.xml": lambda base_url, _: plain.sitemap(base_url),
}
"""The documents for programs that read the documentation, by path."""


def _media_type(path: str) -> str:
    return {"md": "text/markdown; charset=utf-8", "xml": "application/xml"}.get(path.rpartition(".")[2], "text/plain")


def _prefers_markdown(accepted: str) -> bool:
    """Whether the header Accept names Markdown, and HTML not with a greater weight. Browsers do not name it."""
    weights = {name: float(weight or 1) for name, weight in _ACCEPTED.findall(accepted.lower())}
    markdown, html = weights.get("text/markdown", 0), weights.get("text/html", 0)
    return markdown > 0 and markdown >= html


def _markdown(name: str, base_url: str, description: Callable[[], str]) -> str:
    match name:
        case "":
            return plain.contents(base_url)
        case "api":
            return plain.reference(base_url, description())
    return plain.page(PAGES[name], base_url, description())


def _html(name: str, context: RequestContext, description: Callable[[], str]) -> str:
    match name:
        case "":
            return _render("home.html", context)
        case "api":
            html = _render("reference.html", context, reference=reference.read(description()))
            return html.replace(markdown.PREFIX, escape(context.prefix))
    return _page(PAGES[name], context, description())


def _page(page: GuidePage, context: RequestContext, description: str) -> str:
    document = markdown.document(page.name)
    html = document.html.replace(markdown.BASE_URL, escape(context.base_url))
    html = html.replace(markdown.SUPPORT, plain.support(_support_link()))
    before, after = neighbors(page.name)
    return _render(
        "page.html",
        context,
        page=page,
        html=Markup(html.replace(markdown.PREFIX, escape(context.prefix))),  # noqa: S704  # our own pages
        headings=[section for section in document.sections if section.level == 2],
        operations=guided(page, description),
        before=before,
        after=after,
    )


def _render(template: str, context: RequestContext, **values: Any) -> str:
    return (
        _templates()
        .get_template(template)
        .render(
            menu=MENU,
            url=lambda path: context.prefix + path,
            base_url=context.base_url,
            support=_support_link(),
            **({"page": None} | values),
        )
    )


def _support_link() -> Markup:
    """A link to where readers reach the operator; empty if the stage does not say."""
    contact = settings.support_contact()
    target = contact if contact.startswith("https://") else f"mailto:{contact}"
    return Markup('<a href="{}">{}</a>').format(target, contact) if contact else Markup("")


@functools.cache
def _templates() -> Environment:
    return templates.environment(_HERE / "templates", assets())
