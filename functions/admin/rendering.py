"""Templates, assets and the headers of every admin page. Templates escape every value."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from functions.admin import words
from shared.core import clock
from shared.core.facts import ADMIN_VENDORED

_HERE = Path(__file__).parent
_OWN = ("admin.css", "admin.js")
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
SECURITY = {
    # `data:` is for the icons in Pico's stylesheet. `connect-src` is for htmx.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    # With `no-referrer`, browsers would send `Origin: null` with forms.
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
HTMX = json.dumps({"includeIndicatorStyles": False, "allowEval": False, "selfRequestsOnly": True})
"""htmx's configuration under this policy: no inline styles, no `eval`, no requests to other hosts."""


@dataclass(frozen=True)
class Asset:
    """A file that the pages load. Its path contains its hash, so browsers may keep it for ever."""

    path: str
    content: bytes = field(repr=False)
    compressed: bytes = field(repr=False)
    media_type: str


def render(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The response with this template."""
    return HTMLResponse(_environment().get_template(template).render(values), status, SECURITY)


def asset_response(path: str, accepts: str) -> Response | None:
    """The response with the asset of this path; None if there is none. `accepts` is the Accept-Encoding header."""
    asset = next((one for one in assets().values() if one.path == path), None)
    if asset is None:
        return None
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    headers |= {"X-Content-Type-Options": "nosniff"}
    if "gzip" in accepts:
        return Response(asset.compressed, 200, headers | {"Content-Encoding": "gzip"}, asset.media_type)
    return Response(asset.content, 200, headers, asset.media_type)


@functools.cache
def assets() -> Mapping[str, Asset]:
    """The assets by file name."""
    vendored = Path(os.environ.get("ADMIN_VENDORED") or _HERE / "vendored")
    files = [_HERE / "assets" / name for name in _OWN] + [vendored / path for path in ADMIN_VENDORED]
    return {file.name: _asset(file) for file in files}


def _asset(file: Path) -> Asset:
    content = file.read_bytes()
    path = f"/admin/assets/{hashlib.sha256(content).hexdigest()[:16]}/{file.name}"
    return Asset(path, content, gzip.compress(content, mtime=0), _TYPES[file.suffix])


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {"pretty": _pretty, "minute": _minute, "from_now": words.from_now}
    environment.globals |= {"htmx_config": HTMX, "words": words, "asset": lambda name: assets()[name].path}
    return environment


def _pretty(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def _minute(iso: str) -> str:
    """A time as shown without JavaScript, which shows it in the viewer's time zone."""
    return f"{clock.iso(clock.parse(iso))[:16].replace('T', ' ')} UTC"
