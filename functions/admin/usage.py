"""Usage of live mode by month."""

from __future__ import annotations

import re

from starlette.responses import Response

from functions.admin.visits import PROJECT, AdminPage, InProject, View, not_found
from shared.admin.members import VIEWER
from shared.core import clock
from shared.projects import projects, usage
from shared.store.keys import Scope

_MONTH = re.compile(r"(?!0000)[0-9]{4}-(0[1-9]|1[0-2])")


def show(visit: InProject) -> Response:
    """Show the totals of a month (UTC), the present one by default."""
    present = clock.iso(clock.now())[:7]
    month = visit.query.get("month", "") or present
    if not _MONTH.fullmatch(month):
        raise not_found()
    totals = usage.of_month(Scope(visit.scope.project_id, livemode=True), month)
    # Before the project existed, only imported usage is of interest.
    has_previous = any(totals.values()) or month > projects.find(visit.scope.project_id)["created_at"][:7]
    return visit.render(
        "usage.html",
        section="usage",
        month=month,
        totals=totals,
        previous=_month_beside(month, -1) if has_previous else None,
        next=_month_beside(month, 1) if month < present else None,
    )


def _month_beside(month: str, distance: int) -> str:
    number = int(month[:4]) * 12 + int(month[5:]) - 1 + distance
    return f"{number // 12:04d}-{number % 12 + 1:02d}"


PAGES = (AdminPage(f"{PROJECT}/usage", get=View(show, VIEWER)),)
