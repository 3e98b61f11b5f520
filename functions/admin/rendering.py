"""Templates, assets and the headers of every admin page. Templates escape every value."""

from __future__ import annotations

import functools
import json
from datetime import UTC
from pathlib import Path
from typing import Any

from jinja2 import Environment, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.responses import HTMLResponse

from functions.admin import markdown, times, words
from shared.core import clock
from shared.pages import SECURITY, templates
from shared.pages.assets import Assets, vendored

_HERE = Path(__file__).parent
_OWN = ("admin.css", "admin.js")
_VENDORED = ("@picocss/pico/css/pico.min.css", "htmx.org/dist/htmx.min.js")
HTMX = json.dumps({"includeIndicatorStyles": False, "allowEval": False, "selfRequestsOnly": True})
"""htmx's configuration under this policy: no inline styles, no `eval`, no requests to other hosts."""


def render(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The response with this template."""
    return HTMLResponse(_environment().get_template(template).render({"zone": UTC} | values), status, SECURITY)


@functools.cache
def assets() -> Assets:
    """The files that the pages load."""
    own = [_HERE / "assets" / name for name in _OWN]
    return Assets("/admin/assets", [*own, *(vendored(name) for name in _VENDORED)])


@functools.cache
def _environment() -> Environment:
    environment = templates.environment(_HERE / "templates", assets())
    environment.filters |= {"pretty": _pretty, "time": _time, "span": _span, "minute": _minute, "hour": _hour}
    environment.filters |= {"field": _field, "as_day": times.day, "markdown": markdown.html, "elsewhere": _elsewhere}
    environment.globals |= {"htmx_config": HTMX, "words": words}
    return environment


def _pretty(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


# `zone` is the time zone of the page: the project's.


@pass_context
def _time(context: Context, iso: str, to: str = "minutes") -> Markup:
    return _element(iso, f"{iso[:10]} {iso[11:19]} UTC", times.shown(iso, context["zone"], to))


@pass_context
def _span(context: Context, iso: str) -> Markup:
    return _element(iso, times.shown(iso, context["zone"]), words.from_now(iso))


def _element(iso: str, title: str, text: str) -> Markup:
    return Markup('<time datetime="{}" title="{}">{}</time>').format(iso, title, text)


@pass_context
def _minute(context: Context, iso: str) -> str:
    return times.shown(iso, context["zone"])


@pass_context
def _hour(context: Context, iso: str) -> str:
    return times.shown(iso, context["zone"])[-5:]


@pass_context
def _field(context: Context, iso: str) -> str:
    """A time as the value of a field."""
    return times.local(clock.parse(iso), context["zone"]).isoformat(timespec="seconds")


@pass_context
def _elsewhere(context: Context, appointment: Any) -> str | None:
    return times.elsewhere(appointment, context["zone"])
