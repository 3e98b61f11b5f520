"""Settings, call limits: which numbers live calls may reach, and how many there may be."""

from __future__ import annotations

import dataclasses

from starlette.responses import Response

from functions.admin import forms
from functions.admin.visits import PROJECT, AdminPage, InProject, View
from shared.admin import audited
from shared.admin.members import OWNER, VIEWER
from shared.calls import project_limits
from shared.calls.project_limits import Limits
from shared.core.errors import ApiError, Code
from shared.store.keys import Scope
from shared.store.transactions import Change

NOTICES = {"saved": "The limits were changed. They apply to calls that have not been dialed yet."}
MOST_PREFIXES = 100


def show(visit: InProject) -> Response:
    """Show the limits of live calls, and the counts now and today."""
    return _form(visit)


def change(visit: InProject) -> Response:
    """Change the limits."""

    def command() -> Change[Limits]:
        before, _ = _read(visit)
        edited, sent = forms.edited(visit, _shown(before)), _sent(visit)
        wanted = dataclasses.replace(before, **{name: getattr(sent, name) for name in edited})
        return audited.change_call_limits(visit.scope.project_id, wanted, before, visit.actor)

    try:
        visit.commit(command)
    except ApiError as error:
        return _form(visit, error)
    return visit.redirect(visit.path("call_limits?notice=saved"))


def _read(visit: InProject) -> tuple[Limits, project_limits.Counts]:
    scope = Scope(visit.scope.project_id, livemode=True)
    return project_limits.of_project(scope)


def _sent(visit: InProject) -> Limits:
    """The limits of the form. Raises ApiError."""
    prefixes = visit.form.get("prefixes", "").replace(",", " ").split()
    if len(prefixes) > MOST_PREFIXES or not all(map(project_limits.is_prefix, prefixes)):
        message = "A prefix is the beginning of a number, such as +1 or +4930."
        raise ApiError(Code.PARAMETER_INVALID, message, param="prefixes")
    at_once, per_day = (
        forms.integer(visit, "at_once", "Calls at once"),
        forms.integer(visit, "per_day", "Calls in a day"),
    )
    for name, value in (("at_once", at_once), ("per_day", per_day)):
        if value is None:
            raise ApiError(Code.PARAMETER_MISSING, "Both limits need a number; 0 allows no live calls.", param=name)
    assert at_once is not None
    assert per_day is not None
    return Limits(tuple(dict.fromkeys(prefixes)), at_once, per_day)


def _shown(allowed: Limits) -> dict[str, str]:
    return {
        "prefixes": "\n".join(allowed.prefixes),
        "at_once": str(allowed.at_once),
        "per_day": str(allowed.per_day),
    }


def _form(visit: InProject, error: ApiError | None = None) -> Response:
    allowed, counts = _read(visit)
    return visit.render(
        "call_limits.html",
        error.status if error else 200,
        section="call_limits",
        allowed=allowed,
        counts=counts,
        form=forms.view(visit, _shown(allowed), error),
        error=error,
        notice=NOTICES.get(visit.query.get("notice", "")),
    )


PAGES = (AdminPage(f"{PROJECT}/call_limits", get=View(show, VIEWER), post=View(change, OWNER)),)
