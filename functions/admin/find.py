"""The find box: from an id, a phone number, an e-mail address or an external id to its page."""

from __future__ import annotations

import re
import urllib.parse
from typing import Any

from pydantic_core import PydanticCustomError
from starlette.responses import Response

from functions.admin import words
from functions.admin.visits import PROJECT, InProject, Page, View
from shared.admin.members import VIEWER
from shared.appointments.resource import APPOINTMENTS
from shared.calls.sessions import SESSIONS
from shared.conversations import resource as conversations
from shared.conversations.resource import CONVERSATIONS, MESSAGES
from shared.core import ids
from shared.core.errors import Code
from shared.customers.resource import CUSTOMERS, Customer
from shared.projects import api_keys, requests
from shared.resources import fields, pages, queries
from shared.resources.collections import Collection
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.deliveries.resource import DELIVERIES
from shared.webhooks.endpoints.resource import WEBHOOK_ENDPOINTS
from shared.webhooks.events import EVENTS

_SECTIONS: tuple[tuple[Collection[Any, Any], str], ...] = (
    (CUSTOMERS, "customers"),
    (APPOINTMENTS, "appointments"),
    (SESSIONS, "sessions"),
    (CONVERSATIONS, "conversations"),
    (WEBHOOK_ENDPOINTS, "webhook_endpoints"),
    (EVENTS, "events"),
)
_REQUEST = "No request with this id is stored: only those of the last day are, on stages with the setting request_log."
_LONGEST = 255
_LIKE_A_PHONE = re.compile(r"[+(]?[0-9][0-9 ()/.-]{4,}")


def find(visit: InProject) -> Response:
    """Go to what the text names, or say what can be found."""
    text = visit.query.get("q", "").strip()[:_LONGEST]
    path = _path(visit, text) if text else None
    if path is not None:
        return visit.redirect(path)
    return visit.render("not_found.html", 404 if text else 200, section="", text=text, advice=_advice(text))


def _advice(text: str) -> str | None:
    """What to search for instead of a text that names nothing; None if there is nothing to say."""
    if text.startswith(requests.PREFIX):
        return _REQUEST
    return words.ERROR[Code.PHONE_INVALID_FORMAT] if _LIKE_A_PHONE.fullmatch(text) and _phone(text) is None else None


def page_of(visit: InProject, id: str) -> str | None:
    """The path of the page of a resource, whether it exists or not; None if its type has no pages."""
    sections = (section for collection, section in _SECTIONS if ids.is_id(collection.prefix, id))
    section = next(sections, None)
    return None if section is None else visit.path(section, id)


def _path(visit: InProject, text: str) -> str | None:
    """The path of the page of what the text names in this project and mode; None if there is no such thing."""
    for collection, section in _SECTIONS:
        if ids.is_id(collection.prefix, text):
            return visit.path(section, text) if collection.row(visit.scope, text) else None
    if ids.is_id(DELIVERIES.prefix, text):
        event_id = deliveries.event_of(visit.scope, text)
        return None if event_id is None else visit.path("events", f"{event_id}#{text}")
    if ids.is_id(MESSAGES.prefix, text):
        conversation_id = conversations.conversation_of(visit.scope, text)
        return None if conversation_id is None else visit.path("conversations", f"{conversation_id}#{text}")
    if ids.is_id(requests.PREFIX, text):
        return visit.path(f"requests?id={text}") if requests.find(visit.scope, text) else None
    if ids.is_id(api_keys.PREFIX, text):
        return visit.path(f"api_keys#{text}") if _is_key(visit, text) else None
    return _customers(visit, text)


def _customers(visit: InProject, text: str) -> str | None:
    """The page of the only customer with this phone, e-mail address or external id, or the list of several."""
    found = customers(visit, text, 2)
    if len(found) == 1:
        return visit.path("customers", found[0]["id"])
    return visit.path(f"customers?{urllib.parse.urlencode(_filter(text))}") if found else None


def customers(visit: InProject, text: str, most: int) -> list[Customer]:
    """The customers with this phone, e-mail address or external id, newest first."""
    filters = _filter(text)
    if not filters:
        return []
    query = {name: [value] for name, value in filters.items()} | {"limit": [str(most)]}
    rows = pages.read(visit.scope, CUSTOMERS, queries.parse(CUSTOMERS, query)).rows
    return [CUSTOMERS.record(row).doc for row in rows]


def _filter(text: str) -> dict[str, str]:
    """The API's filter of customers for a text; `{}` for a phone number that cannot be one."""
    if not text.startswith("+"):
        return {"email" if "@" in text else "external_id": text}
    phone = _phone(text)
    return {} if phone is None else {"phone": phone}


def _phone(text: str) -> str | None:
    """The phone number in E.164; None for other formats."""
    try:
        return fields.phone(text)
    except PydanticCustomError:
        return None


def _is_key(visit: InProject, id: str) -> bool:
    try:
        return bool(api_keys.find(visit.scope.project_id, id))
    except LookupError:
        return False


PAGES = (Page(f"{PROJECT}/find", get=View(find, VIEWER)),)
