"""Unknown paths, the API description, and /docs/errors, the page to which the `doc_url` of every error links."""

from __future__ import annotations

import functools
import json
import os
from html import escape
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from shared.api.routes import lambda_handler, service
from shared.core.errors import ERRORS, TRANSIENT, ApiError, Kind
from shared.core.facts import API_DESCRIPTION, DESCRIBED_SERVER

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Errors of the Appointment and Conversation Service API</title>
<style>
  :root {{ color-scheme: light dark; --line: #8885; --quiet: #777; --mark: #fd06; }}
  body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }}
  h1 {{ font-size: 1.6rem; }} h2 {{ font-size: 1.2rem; margin-top: 2.5rem; }}
  section {{ border-top: 1px solid var(--line); padding: .75rem .5rem; scroll-margin-top: 1rem; }}
  section:target {{ background: var(--mark); }}
  h3 {{ font: 600 1rem ui-monospace, monospace; margin: 0; }} h3 a {{ color: inherit; text-decoration: none; }}
  h3 a:hover {{ text-decoration: underline; }}
  p {{ margin: .25rem 0; }} .quiet {{ color: var(--quiet); font-size: .9rem; }}
  code, pre {{ font-family: ui-monospace, monospace; font-size: .9em; }}
  pre {{ border: 1px solid var(--line); border-radius: .4rem; padding: .75rem; overflow-x: auto; }}
</style>
</head>
<body>
<h1>Errors</h1>
<p>Every error response has one key, <code>error</code>. Its <code>doc_url</code> links to the code's entry on this
page. If you contact support, include the <code>request_id</code>, which is also the <code>Service-Request-Id</code>
header.</p>
<pre>{{"error": {{"type": "invalid_request_error", "code": "phone_invalid_format", "message": "…",
  "param": "phone", "request_id": "req_…", "doc_url": "…/docs/errors#phone_invalid_format"}}}}</pre>
<p>The header <code>Service-Should-Retry</code> says whether a retry of the same request may succeed.</p>
{entries}
</body>
</html>
"""
_SECURITY = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
}


def page() -> str:
    """The HTML page of all errors, grouped by status."""
    statuses = sorted({kind.status for kind in ERRORS.values()})
    return _PAGE.format(entries="\n".join(_of_status(status) for status in statuses))


def _of_status(status: int) -> str:
    entries = [_entry(code, kind) for code, kind in ERRORS.items() if kind.status == status]
    return f"<h2>HTTP {status}</h2>\n" + "\n".join(entries)


def _entry(code: str, kind: Kind) -> str:
    note = ". Temporary; never saved for an Idempotency-Key" if code in TRANSIENT else ""
    return (
        f'<section id="{code}"><h3><a href="#{code}">{code}</a></h3>'
        f"<p>{_prose(kind.meaning)} {_prose(kind.remedy)}</p>"
        f'<p class="quiet">HTTP {kind.status}, <code>{kind.type}</code>{note}</p></section>'
    )


def _prose(text: str) -> str:
    """The text as HTML. Text between backticks is code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


class Errors:
    """The ASGI app of GET /docs/errors."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Return the HTML page of all errors (contract 2). Other methods are 405 `method_not_allowed`."""
        request = Request(scope, receive)
        if request.method not in ("GET", "HEAD"):
            raise ApiError("method_not_allowed", "Use one of GET, HEAD.", headers={"Allow": "GET, HEAD"})
        scope["context"].route = "/docs/errors"
        response: Response = HTMLResponse(page(), headers=_SECURITY)
        await response(scope, receive, send)


class ApiDescription:
    """The ASGI app of GET /openapi.json."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Return the API in OpenAPI 3.1, with the address of this stage. Other methods are 405 `method_not_allowed`."""
        request = Request(scope, receive)
        if request.method not in ("GET", "HEAD"):
            raise ApiError("method_not_allowed", "Use one of GET, HEAD.", headers={"Allow": "GET, HEAD"})
        scope["context"].route = "/openapi.json"
        server = json.dumps(scope["context"].base_url)[1:-1]
        body = _description().replace(DESCRIBED_SERVER, server)
        await Response(body, media_type="application/json")(scope, receive, send)


@functools.cache
def _description() -> str:
    path = os.environ.get("OPENAPI_FILE") or Path(__file__).with_name(API_DESCRIPTION)
    return Path(path).read_text(encoding="utf-8")


app = service(Route("/docs/errors", Errors()), Route("/openapi.json", ApiDescription()))
handler = lambda_handler(app)
