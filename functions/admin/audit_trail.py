"""The audit trail of a project: every change made on these pages, and the operator's of keys and members."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from functions.admin import exports, lists, names, words
from functions.admin.find import page_of
from functions.admin.visits import PROJECT, AdminPage, InProject, View
from shared.admin import audit, members
from shared.admin.audit import AuditEntry, AuditFilter
from shared.admin.members import OWNER, VIEWER
from shared.core.errors import ApiError
from shared.projects import api_keys
from shared.store.keys import Scope
from shared.store.transactions import Change
from shared.webhooks.endpoints import resource as endpoints

SECTION = "audit_trail"
KINDS = tuple(dict.fromkeys(action.partition(".")[0] for action in words.ACTION))
_FILTERS = ("who", "kind", "since", "until")
_COLUMNS = ("id", "at", "who", "ip", "request_id", "action", "target", "livemode", "before", "after")
_SETTINGS = {"agent_settings": "Agent settings", "call_limits": "Call limits"}
"""What has a page of its own in each project, by the kind of an entry."""


@dataclass(frozen=True)
class TrailLine:
    """An entry, what the page calls that which was changed, and the pages of the ids in it."""

    entry: AuditEntry
    name: str | None
    paths: dict[str, str]


def show(visit: InProject) -> Response:
    """List the changes, newest first, by person, kind and time."""
    wanted, error, lines, cursor = lists.wanted(visit, *_FILTERS), None, list[TrailLine](), None
    people = members.of_project(visit.scope.project_id)
    try:
        entries, cursor = audit.page(visit.scope.project_id, visit.query.get("starting_after"), _filter(visit, wanted))
        lines = _lines(visit, entries, people)
    except ApiError as refused:
        error = refused
    return visit.render(
        "audit_trail.html",
        400 if error else 200,
        section=SECTION,
        lines=lines,
        cursor=cursor,
        wanted=wanted,
        error=error,
        kinds=KINDS,
        people=[*(one.email for one in people), audit.OPERATOR],
        most=exports.MOST,
    )


def export(visit: InProject) -> Response:
    """The entries that the filters let through, newest first, as CSV. The trail says who has exported it."""
    wanted = {name: visit.form.get(name, "").strip() for name in _FILTERS}
    chosen = _filter(visit, wanted)
    facts = {name: value for name, value in wanted.items() if value}
    entry = visit.entry("audit_trail.exported", str(visit.scope.project_id), livemode=None, after=facts)
    visit.commit(lambda: Change(None, [entry]))
    entries, _ = audit.page(visit.scope.project_id, None, chosen, exports.MOST)
    return exports.csv_file("audit-trail", _COLUMNS, ([getattr(one, name) for name in _COLUMNS] for one in entries))


def _filter(visit: InProject, wanted: dict[str, str]) -> AuditFilter:
    """The filter of a form. Raises `datetime_invalid`."""
    return AuditFilter(wanted["who"], wanted["kind"], **lists.bounds(wanted, visit.zone))


def _lines(visit: InProject, entries: Sequence[AuditEntry], people: Sequence[members.Member]) -> list[TrailLine]:
    """The entries with names and links. Makes a fixed number of reads."""
    project_id = visit.scope.project_id
    keys = api_keys.of_project(project_id) if any(one.action.startswith("api_key.") for one in entries) else []
    named = {key.id: words.api_key(key) for key in keys}
    paths = {key.id: visit.path(f"api_keys#{key.id}") for key in keys}
    paths |= {one.email: visit.path("members", one.id) for one in people}
    for livemode in dict.fromkeys(one.livemode for one in entries if one.livemode is not None):
        there = dataclasses.replace(visit, scope=Scope(project_id, livemode))
        ids = [id for one in entries if one.livemode == livemode for id in _ids(one)]
        named |= _names(there, ids)
        paths |= {id: path for id in ids if (path := page_of(there, id))}
    return [_line(visit, one, named, paths) for one in entries]


def _line(visit: InProject, entry: AuditEntry, named: dict[str, str], paths: dict[str, str]) -> TrailLine:
    kind = entry.action.partition(".")[0]
    if kind in _SETTINGS:
        return TrailLine(entry, _SETTINGS[kind], {entry.target: visit.path(kind)})
    pages = {id: paths[id] for id in _ids(entry) if id in paths}
    if kind == "delivery" and entry.after.get("event") in pages:
        pages[entry.target] = f"{pages[entry.after['event']]}#{entry.target}"
    return TrailLine(entry, "Delivery" if kind == "delivery" else named.get(entry.target), pages)


def _ids(entry: AuditEntry) -> list[str]:
    return [entry.target, *(value for value in entry.after.values() if isinstance(value, str))]


def _names(visit: InProject, ids: Iterable[str]) -> dict[str, str]:
    """What the page calls the resources with these ids. Webhook endpoints have their labels or URLs."""
    wanted = [*ids]
    resources = names.of(visit, wanted)
    people = resources | names.of(visit, {one.get("customer_id") for one in resources.values()} - resources.keys())
    chosen = [id for id in wanted if id.startswith(endpoints.WEBHOOK_ENDPOINTS.prefix)]
    known = endpoints.read(visit.scope, chosen) if chosen else {}
    labels = {id: one.doc["label"] or one.doc["url"] for id, one in known.items()}
    return {id: words.subject(one, people) for id, one in resources.items()} | labels


PAGES = (
    AdminPage(f"{PROJECT}/{SECTION}", get=View(show, VIEWER)),
    AdminPage(f"{PROJECT}/{SECTION}/export", post=View(export, OWNER)),
)
