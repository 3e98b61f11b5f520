"""Settings, API keys: create, list and revoke (promises 0)."""

from __future__ import annotations

import secrets
from typing import Annotated, Literal

from starlette.responses import Response

from functions.admin.visits import MODES, PROJECT, InProject, Page, View, not_found
from shared.admin import audited_keys
from shared.admin.members import OWNER, VIEWER
from shared.core.errors import ApiError
from shared.projects import api_keys
from shared.resources import fields
from shared.store import table

NOTICES = {
    "revoked": "The key was revoked. Requests with it are refused from now on.",
    "created": "This form was sent before and created one key, which was shown then and cannot be shown again.",
}


class NewKey(fields.Input):
    """The form of a new key."""

    label: Annotated[str, fields.text(100, least=1)]
    mode: Literal["test", "live"]


def show(visit: InProject) -> Response:
    """List the project's keys, newest first, with the form of a new one."""
    return _list(visit, visit.mode)


def create(visit: InProject) -> Response:
    """Create a key, and show its plaintext in this response and never again.

    The form has a token, so that a browser that sends it again creates no second key.
    """
    sent = {"label": visit.form.get("label", "").strip(), "mode": visit.form.get("mode", "")}
    try:
        wanted = fields.validate(NewKey, sent)
    except ApiError as error:
        return _list(visit, sent["mode"], error=error, label=sent["label"])
    once = visit.once()
    try:
        made = audited_keys.create(visit.scope.project_id, MODES[wanted.mode], wanted.label, visit.actor, also=[once])
    except table.ConditionFailed as failed:
        if failed.op is not once:
            raise
        return visit.redirect(visit.path("api_keys?notice=created"))
    return visit.render("api_key_created.html", 201, section="api_keys", made=made, mode_of_key=wanted.mode)


def ask_to_revoke(visit: InProject) -> Response:
    """Ask for confirmation, with what is known about the use of the key."""
    return visit.render("api_key_revoke.html", section="api_keys", key=_find(visit))


def revoke(visit: InProject) -> Response:
    """Revoke a key."""
    audited_keys.revoke(visit.scope.project_id, _find(visit).id, visit.actor)
    return visit.redirect(visit.path("api_keys?notice=revoked"))


def _list(visit: InProject, mode: str, error: ApiError | None = None, label: str = "") -> Response:
    keys = api_keys.of_project(visit.scope.project_id)
    return visit.render(
        "api_keys.html",
        400 if error else 200,
        section="api_keys",
        keys=[*reversed(keys)],
        form={"label": label, "mode": mode, "once": secrets.token_urlsafe(16)},
        error=error,
        notice=NOTICES.get(visit.query.get("notice", "")),
    )


def _find(visit: InProject) -> api_keys.Key:
    try:
        return api_keys.find(visit.scope.project_id, visit.params["id"])
    except LookupError:
        raise not_found() from None


PAGES = (
    Page(f"{PROJECT}/api_keys", get=View(show, VIEWER), post=View(create, OWNER)),
    Page(f"{PROJECT}/api_keys/{{id}}/revoke", get=View(ask_to_revoke, OWNER), post=View(revoke, OWNER)),
)
