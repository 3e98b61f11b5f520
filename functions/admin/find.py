"""The find box: from an id, or from what somebody knows of a customer or an appointment, to its page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import PydanticCustomError
from starlette.responses import Response

from functions.admin import names, words
from functions.admin.visits import PROJECT, AdminPage, InProject, View
from shared.admin.members import VIEWER
from shared.appointments.resource import APPOINTMENTS, Appointment
from shared.calls.sessions import SESSIONS
from shared.conversations import resource as conversations
from shared.conversations.resource import CONVERSATIONS, MESSAGES
from shared.core import ids, settings
from shared.core.errors import Code
from shared.customers.resource import CUSTOMERS, Customer
from shared.projects import api_keys, request_log
from shared.resources import fields, list_pages, queries, search
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
SHOWN = 20
"""The customers, and the appointments, that are listed."""
LONGEST = 255
_LIKE_A_PHONE = re.compile(r"[+(]?[0-9][0-9 ()/.-]{4,}")


@dataclass(frozen=True)
class Found:
    """What a text finds: customers and appointments, the best first, and whether there may be more."""

    customers: list[Customer]
    appointments: list[Appointment]
    has_more: bool


def find(visit: InProject) -> Response:
    """Go to what the text names, or list what it finds, or say what can be found.

    htmx asks for what has been typed so far. It only gets the list.
    """
    text = visit.query.get("q", "").strip()[:LONGEST]
    path = _path(visit, text) if text and not visit.is_fragment else None
    if path is not None:
        return visit.redirect(path)
    result = _found(visit, text) if text else Found([], [], False)
    named = names.of(visit, (one["customer_id"] for one in result.appointments))
    if visit.is_fragment:
        return visit.render("_found.html", text=text, found=result, named=named)
    paths = [visit.path(f"{one['object']}s", one["id"]) for one in (*result.customers, *result.appointments)]
    if len(paths) == 1 and not result.has_more:
        return visit.redirect(paths[0])
    return visit.render(
        "find.html",
        404 if text and not paths else 200,
        section="",
        text=text,
        found=result,
        named=named,
        advice=_advice(text),
        by_words=settings.search_is_on(),
    )


def _found(visit: InProject, text: str) -> Found:
    people, more_people = customers(visit, text, SHOWN)
    ids, more_appointments = search.by_words(visit.scope, APPOINTMENTS.kind, text, newest_first=True)
    read = names.of(visit, ids[:SHOWN])
    appointments = [cast("Appointment", read[id]) for id in ids[:SHOWN] if id in read]
    return Found(people, appointments, more_people or more_appointments or len(ids) > SHOWN)


def customers(visit: InProject, text: str, most: int) -> tuple[list[Customer], bool]:
    """The first customers whom a text finds, the best first, and whether there may be more.

    It is an id, an e-mail address, an external id, the end of a phone number, or the beginnings of words of the name.
    """
    if ids.is_id(CUSTOMERS.prefix, text):
        return [cast("Customer", one) for one in names.of(visit, [text]).values()], False
    by_id = {one["id"]: one for one in _exactly(visit, text, most)}
    by_words, has_more = search.by_words(visit.scope, CUSTOMERS.kind, text)
    known = [*dict.fromkeys((*search.by_digits(visit.scope, CUSTOMERS.kind, text), *by_words))]
    read = names.of(visit, known[:most])
    by_id |= {id: cast("Customer", read[id]) for id in known[:most] if id in read and id not in by_id}
    return [*by_id.values()][:most], has_more or len(by_id) > most or len(known) > most


def _advice(text: str) -> str | None:
    """What to search for instead of a text that names nothing; None if there is nothing to say."""
    if text.startswith(request_log.PREFIX):
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
    if ids.is_id(request_log.PREFIX, text):
        return visit.path(f"requests?id={text}") if request_log.find(visit.scope, text) else None
    if ids.is_id(api_keys.PREFIX, text):
        return visit.path(f"api_keys#{text}") if _is_key(visit, text) else None
    return None


def _exactly(visit: InProject, text: str, most: int) -> list[Customer]:
    """The customers with this phone, e-mail address or external id, newest first."""
    filters = _filter(text)
    if not filters:
        return []
    query = {name: [value] for name, value in filters.items()} | {"limit": [str(most)]}
    rows = list_pages.read(visit.scope, CUSTOMERS, queries.parse(CUSTOMERS, query)).rows
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


PAGES = (AdminPage(f"{PROJECT}/find", get=View(find, VIEWER)),)
