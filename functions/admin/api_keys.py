"""Settings, API keys: create, list, rotate and revoke (promises 0)."""

from __future__ import annotations

import secrets
from typing import Annotated, Literal

from starlette.responses import Response

from functions.admin import lists, times
from functions.admin.visits import MODES, PROJECT, AdminPage, InProject, SentBefore, View, not_found
from shared.admin import audited
from shared.admin.members import OWNER, VIEWER
from shared.core import clock
from shared.core.errors import ApiError, Code
from shared.projects import api_keys
from shared.resources import fields

NOTICES = {
    "revoked": "The key was revoked. Requests with it are refused from now on.",
    "created": "This form was sent before and created one key, which was shown then and cannot be shown again.",
}
VALID_FOR = {
    "0": ("Not at all: it expires now", 0),
    "hour": ("1 hour", clock.HOUR),
    "day": ("1 day", clock.DAY),
    "week": ("7 days", 7 * clock.DAY),
    "month": ("30 days", 30 * clock.DAY),
}
"""How long a key is valid after its rotation."""


class NewKey(fields.Input):
    """The form of a new key."""

    label: Annotated[str, fields.text(100, least=1)]
    mode: Literal["test", "live"]
    access: Literal["write", "read"]


class Rotation(fields.Input):
    """The form of a rotation."""

    valid_for: Literal["0", "hour", "day", "week", "month"]


def show(visit: InProject) -> Response:
    """List the project's keys, newest first, with the form of a new one."""
    return _list(visit, {"mode": visit.mode})


def create(visit: InProject) -> Response:
    """Create a key, and show its plaintext in this response and never again.

    The form has a token, so that a browser that sends it again creates no second key.
    """
    sent = {name: visit.form.get(name, "").strip() for name in ("label", "mode", "access")}
    try:
        wanted = fields.validate(NewKey, sent)
        valid_until = _end(visit)
    except ApiError as error:
        return _list(visit, sent | {"expires_on": visit.form.get("expires_on", "")}, error)
    try:
        new = visit.commit(
            lambda: audited.create_key(
                visit.scope.project_id,
                MODES[wanted.mode],
                wanted.label,
                visit.actor,
                read_only=wanted.access == "read",
                valid_until=valid_until,
            ),
            lambda _: visit.once(),
        )
    except SentBefore:
        return visit.redirect(visit.path("api_keys?notice=created"))
    return visit.render("api_key_created.html", 201, section="api_keys", made=new, old=None)


def ask_to_rotate(visit: InProject) -> Response:
    """Ask how long the key stays valid, and when the new one expires."""
    return _rotation(visit, {"valid_for": "day"})


def rotate(visit: InProject) -> Response:
    """Create a key in place of another one, and show its plaintext in this response and never again."""
    old = _find(visit)
    sent = {"valid_for": visit.form.get("valid_for", "")}
    try:
        _, valid_ms = VALID_FOR[fields.validate(Rotation, sent).valid_for]
        valid_until = _end(visit)
        new = visit.commit(
            lambda: audited.rotate_key(visit.scope.project_id, old.id, valid_ms, valid_until, visit.actor),
            lambda _: visit.once(),
        )
    except SentBefore:
        return visit.redirect(visit.path("api_keys?notice=created"))
    except ApiError as error:
        return _rotation(visit, sent | {"expires_on": visit.form.get("expires_on", "")}, error)
    return visit.render("api_key_created.html", 201, section="api_keys", made=new, old=_find(visit))


def ask_to_revoke(visit: InProject) -> Response:
    """Ask for confirmation, with what is known about the use of the key."""
    return visit.render("api_key_revoke.html", section="api_keys", key=_find(visit))


def revoke(visit: InProject) -> Response:
    """Revoke a key."""
    key = _find(visit)
    visit.commit(lambda: audited.revoke_key(visit.scope.project_id, key.id, visit.actor))
    return visit.redirect(visit.path("api_keys?notice=revoked"))


def _list(visit: InProject, form: dict[str, str], error: ApiError | None = None) -> Response:
    keys = api_keys.of_project(visit.scope.project_id)
    return visit.render(
        "api_keys.html",
        400 if error else 200,
        section="api_keys",
        keys=[*reversed(keys)],
        replacements={key.replaces: key for key in keys if key.replaces},
        form={"label": "", "access": "write", "expires_on": "", **form, "once": secrets.token_urlsafe(16)},
        error=error,
        notice=NOTICES.get(visit.query.get("notice", "")),
    )


def _rotation(visit: InProject, form: dict[str, str], error: ApiError | None = None) -> Response:
    return visit.render(
        "api_key_rotate.html",
        error.status if error else 200,
        section="api_keys",
        key=_find(visit),
        valid_for={name: text for name, (text, _) in VALID_FOR.items()},
        form={"expires_on": "", **form, "once": secrets.token_urlsafe(16)},
        error=error,
    )


def _end(visit: InProject) -> clock.Instant | None:
    """The end of the day on which a new key expires; None if it does not. Raises ApiError."""
    text = visit.form.get("expires_on", "").strip()
    if not text:
        return None
    ends_at = min(times.end_of_day(lists.day_of(text, "expires_on"), visit.zone), clock.LAST)
    if ends_at <= clock.now():
        raise ApiError(Code.PARAMETER_INVALID, "The day on which the key expires has passed.", param="expires_on")
    return ends_at


def _find(visit: InProject) -> api_keys.ApiKey:
    try:
        return api_keys.find(visit.scope.project_id, visit.params["id"])
    except LookupError:
        raise not_found() from None


PAGES = (
    AdminPage(f"{PROJECT}/api_keys", get=View(show, VIEWER), post=View(create, OWNER)),
    AdminPage(f"{PROJECT}/api_keys/{{id}}/rotate", get=View(ask_to_rotate, OWNER), post=View(rotate, OWNER)),
    AdminPage(f"{PROJECT}/api_keys/{{id}}/revoke", get=View(ask_to_revoke, OWNER), post=View(revoke, OWNER)),
)
