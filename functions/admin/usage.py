"""Usage of live mode by month."""

from __future__ import annotations

import re

from starlette.responses import Response

from functions.admin.visits import PROJECT, InProject, Page, View, not_found
from shared.admin.members import VIEWER
from shared.core import clock
from shared.projects import usage
from shared.store.keys import Scope

_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")


def show(visit: InProject) -> Response:
    """Show the totals of a month (UTC), the present one by default."""
    present = clock.iso(clock.now())[:7]
    month = visit.query.get("month", "") or present
    if not _MONTH.fullmatch(month):
        raise not_found()
    return visit.render(
        "usage.html",
        section="usage",
        month=month,
        totals=usage.of_month(Scope(visit.scope.project_id, livemode=True), month),
        previous=_month_beside(month, -1),
        next=_month_beside(month, 1) if month < present else None,
    )


def _month_beside(month: str, distance: int) -> str:
    number = int(month[:4]) * 12 + int(month[5:]) - 1 + distance
    return f"{number // 12:04d}-{number % 12 + 1:02d}"


PAGES = (Page(f"{PROJECT}/usage", get=View(show, VIEWER)),)
