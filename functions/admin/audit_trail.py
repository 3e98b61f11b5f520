"""The audit trail of a project: every change made on these pages, and the operator's of keys and members."""

from __future__ import annotations

from starlette.responses import Response

from functions.admin.visits import PROJECT, InProject, Page, View
from shared.admin import audit
from shared.admin.members import VIEWER


def show(visit: InProject) -> Response:
    """List the changes, newest first."""
    entries, cursor = audit.page(visit.scope.project_id, visit.query.get("starting_after"))
    return visit.render("audit_trail.html", section="audit_trail", entries=entries, cursor=cursor)


PAGES = (Page(f"{PROJECT}/audit_trail", get=View(show, VIEWER)),)
