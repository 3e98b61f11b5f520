"""The find box: from an id or a phone number to its page."""

from __future__ import annotations

import urllib.parse

from pydantic_core import PydanticCustomError
from starlette.responses import Response

from functions.admin.visits import PROJECT, InProject, Page, View
from shared.admin.members import VIEWER
from shared.appointments import APPOINTMENTS
from shared.calls.sessions import SESSIONS
from shared.core import ids, table
from shared.customers import CUSTOMERS
from shared.projects import api_keys
from shared.resources import fields
from shared.webhooks.events import EVENTS

_WITH_EVENTS = (CUSTOMERS, APPOINTMENTS, SESSIONS)


def find(visit: InProject) -> Response:
    """Go to what the text names, or say what can be found."""
    text = visit.query.get("q", "").strip()
    path = _path(visit, text)
    if path is not None:
        return visit.redirect(path)
    return visit.render("not_found.html", 404 if text else 200, section="", text=text)


def _path(visit: InProject, text: str) -> str | None:
    """The path of the page of an id or phone number in this project and mode; None if there is no such thing."""
    if ids.is_id(EVENTS.prefix, text):
        return visit.path("events", text) if table.get(visit.scope.pk(EVENTS.kind), text) else None
    if ids.is_id(api_keys.PREFIX, text):
        return visit.path(f"api_keys#{text}") if _is_key(visit, text) else None
    for collection in _WITH_EVENTS:
        if ids.is_id(collection.prefix, text):
            return _events_of(visit, text) if collection.row(visit.scope, text) else None
    if not text.startswith("+"):
        return None
    try:
        phone = fields.phone(text)
    except PydanticCustomError:
        return None
    rows = CUSTOMERS.page(visit.scope, CUSTOMERS.query({"phone": [phone], "limit": ["1"]})).rows
    return _events_of(visit, rows[0]["sk"]) if rows else None


def _is_key(visit: InProject, id: str) -> bool:
    try:
        return bool(api_keys.find(visit.scope.project_id, id))
    except LookupError:
        return False


def _events_of(visit: InProject, id: str) -> str:
    """The events of a resource, which show it at the time of each change."""
    return visit.path(f"events?{urllib.parse.urlencode({'object_id': id})}")


PAGES = (Page(f"{PROJECT}/find", get=View(find, VIEWER)),)
