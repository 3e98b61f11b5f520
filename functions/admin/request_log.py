"""The API requests of the last day, by id, status, key, route and time."""

from __future__ import annotations

from starlette.responses import Response

from functions.admin import lists, times, words
from functions.admin.visits import PROJECT, AdminPage, InProject, View
from shared.admin.members import VIEWER
from shared.core import clock
from shared.core.errors import ERRORS, ApiError, Code
from shared.projects import api_keys, request_log
from shared.projects.request_log import LoggedRequest

SECTION = "requests"
STATUSES = {"2xx": (200, 299), "errors": (400, 599), "4xx": (400, 499), "5xx": (500, 599)}
"""By the name of a choice: the first and the last status."""


def show(visit: InProject) -> Response:
    """List the requests, newest first."""
    wanted = lists.wanted(visit, "id", "status", "key", "route", "since", "until")
    error, page = None, request_log.RequestPage([], None)
    try:
        page = _page(visit, wanted)
    except ApiError as refused:
        error = refused
    keys = [key for key in api_keys.of_project(visit.scope.project_id) if key.livemode == visit.scope.livemode]
    return visit.render(
        "requests.html",
        400 if error else 200,
        section=SECTION,
        requests=page.requests,
        cursor=page.cursor,
        wanted=wanted,
        error=error,
        keys={key.id: words.api_key(key) for key in keys},
        statuses=[*STATUSES],
        messages={code: f"{kind.meaning} {kind.remedy}" for code, kind in ERRORS.items()},
    )


def _page(visit: InProject, wanted: dict[str, str]) -> request_log.RequestPage:
    """The requested page. Raises ApiError."""
    if wanted["id"]:
        request = request_log.find(visit.scope, wanted["id"])
        return request_log.RequestPage([request] if request else [], None)
    if wanted["status"] not in ("", *STATUSES):
        raise ApiError(Code.PARAMETER_INVALID, "Choose a status from the list.", param="status")
    least, most = STATUSES.get(wanted["status"], (0, 999))

    def passes(one: LoggedRequest) -> bool:
        return (
            least <= one.status <= most
            and wanted["key"] in ("", one.key_id)
            and wanted["route"] in f"{one.method} {one.route}"
        )

    since, until = (_instant(visit, wanted, name) for name in ("since", "until"))
    return request_log.page(
        visit.scope,
        lists.PAGE,
        passes if wanted["status"] or wanted["key"] or wanted["route"] else None,
        clock.EPOCH if since is None else since,
        clock.now() + clock.MINUTE if until is None else until,
        visit.query.get("starting_after"),
        refused=least >= STATUSES["errors"][0],
    )


def _instant(visit: InProject, wanted: dict[str, str], name: str) -> clock.Instant | None:
    """The instant of a local time of the form; None without one. Raises `datetime_invalid`."""
    try:
        return times.instant(wanted[name], visit.zone) if wanted[name] else None
    except ValueError:
        raise ApiError(Code.DATETIME_INVALID, "Times have the form 2027-03-04T15:00.", param=name) from None


PAGES = (AdminPage(f"{PROJECT}/{SECTION}", get=View(show, VIEWER)),)
