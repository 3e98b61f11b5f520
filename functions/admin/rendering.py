"""Templates, assets and the headers of every admin page. Templates escape every value."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from jinja2 import Environment
from starlette.responses import HTMLResponse

from functions.admin import words
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
    return HTMLResponse(_environment().get_template(template).render(values), status, SECURITY)


@functools.cache
def assets() -> Assets:
    """The files that the pages load."""
    own = [_HERE / "assets" / name for name in _OWN]
    return Assets("/admin/assets", [*own, *(vendored(name) for name in _VENDORED)])


@functools.cache
def _environment() -> Environment:
    environment = templates.environment(_HERE / "templates", assets())
    times = {"minute": functools.partial(_utc, to=16), "second": functools.partial(_utc, to=19)}
    environment.filters |= {"pretty": _pretty, "from_now": words.from_now} | times
    environment.globals |= {"htmx_config": HTMX, "words": words}
    return environment


def _pretty(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def _utc(iso: str, to: int) -> str:
    """A time as shown without JavaScript, which shows it in the viewer's time zone: its first `to` characters."""
    return f"{clock.iso(clock.parse(iso))[:to].replace('T', ' ')} UTC"
