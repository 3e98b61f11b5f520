"""Problems that need a person now. An empty page means that all is well."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from functions.admin import lists, names
from functions.admin.visits import PROJECT, AdminPage, InProject, View
from shared.admin.members import VIEWER
from shared.calls.sessions import SESSIONS
from shared.core import clock
from shared.core.call_statuses import EndedReason
from shared.projects import api_keys
from shared.projects.api_keys import ApiKey
from shared.resources import list_pages, queries
from shared.webhooks import failures, replays
from shared.webhooks.endpoints import resource as endpoints

SECTION = "attention"
SHOWN = 10
"""Calls that the page shows; a link leads to the others."""
MOST_COUNTED = 100
"""Failed deliveries are counted up to this number."""
CALLS_SINCE_MS = 7 * clock.DAY
"""Failed calls are shown for this long."""
_MEANT = (
    EndedReason.CANCELED,
    EndedReason.OPTED_OUT,
    EndedReason.APPOINTMENT_CANCELLED,
    EndedReason.CUSTOMER_DELETED,
)
"""The reasons of failed calls that need no person, because somebody decided against the call."""
UNUSED_FOR_MS = clock.DAY
"""The age from which a key that was never used is shown."""


def show(visit: InProject) -> Response:
    """Show what needs a person, and what to do first in a new project."""
    scope, now = visit.scope, clock.now()
    known = endpoints.of_project(scope)
    keys = [key for key in api_keys.of_project(scope.project_id) if key.livemode == scope.livemode]
    active = [key for key in keys if key.revoked_at is None]
    failed = {one.doc["id"]: failures.count(scope, one.doc["id"], MOST_COUNTED) for one in known}
    retrying = {one.doc["id"]: failures.count_retrying(scope, one, MOST_COUNTED) for one in known}
    since = clock.iso(now - CALLS_SINCE_MS)
    parameters = {"call_status": ["failed"], "created_at[gte]": [since], "limit": [str(lists.PAGE)]}
    page = list_pages.read(scope, SESSIONS, queries.parse(SESSIONS, parameters))
    calls = [one for one in map(lists.document, page.rows) if one["ended_reason"] not in _MEANT]
    found: dict[str, Any] = {
        "unhealthy": [one for one in known if one.needs_attention],
        "failed": [(one, failed[one.doc["id"]]) for one in known if failed[one.doc["id"]]],
        "retrying": [(one, retrying[one.doc["id"]]) for one in known if retrying[one.doc["id"]]],
        "calls": calls[:SHOWN],
        "unused": [key for key in active if _is_unused(key, now)],
    }
    named = names.of(visit, (one["customer_id"] for one in found["calls"]))
    running = [one for one in replays.find(scope, [*failed]).values() if one.ended_as is None]
    return visit.render(
        "attention.html",
        section=SECTION,
        all_is_well=not any(found.values()),
        is_new=not active,
        is_unused=all(key.last_used_at is None for key in active),
        endpoints={one.doc["id"]: one for one in known},
        running=running,
        named=named,
        more_calls=len(calls) > SHOWN or page.next_cursor is not None,
        shown=SHOWN,
        most=MOST_COUNTED,
        **found,
    )


def _is_unused(key: ApiKey, now: clock.Instant) -> bool:
    return key.last_used_at is None and now - clock.parse(key.created_at) >= UNUSED_FOR_MS


PAGES = (AdminPage(f"{PROJECT}/{SECTION}", get=View(show, VIEWER)),)
