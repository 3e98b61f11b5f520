"""The members of a project: add, change the role, remove, help with the sign-in."""

from __future__ import annotations

from typing import Literal

from starlette.responses import Response

from functions.admin import forms
from functions.admin.visits import PROJECT, AdminPage, InProject, Refused, View, not_found
from shared.admin import members, user_pool
from shared.admin.members import OWNER, VIEWER, Member
from shared.core import settings
from shared.core.errors import ApiError
from shared.resources import fields

NOTICES = {
    "added": "The member was added.",
    "invited": "The member was added. They get an e-mail with a password for the first sign-in.",
    "changed": "The role was changed.",
    "invited_again": "The invitation was sent again, with a new password. It is valid for seven days.",
    "reset": "The second factor was reset. The next sign-in asks for an authenticator app, after the password.",
    "removed": "The member was removed, and has no access any more.",
}
_NOT_YOURS = (
    "They have not signed in to this project yet, or belong to a project that is not yours. The operator of the service"
    " resets their second factor."
)
_LAST_OWNER = "This is the only owner, and a project must have one. Make somebody else an owner first."


class NewMember(fields.Input):
    """The form of a new member."""

    email: fields.Email
    role: Literal["viewer", "member", "owner"]


def show(visit: InProject) -> Response:
    """List the members, with the form of a new one."""
    return _list(visit)


def add(visit: InProject) -> Response:
    """Add a member by e-mail address; on a stage with a user pool, they are invited by e-mail."""
    sent = {"email": visit.form.get("email", "").strip(), "role": visit.form.get("role", "")}
    try:
        wanted = fields.validate(NewMember, sent)
    except ApiError as error:
        return _list(visit, problem=error.message, **sent)
    # First the user: a user without a membership can see nothing, but a member without a user could not sign in.
    invited = user_pool.invite(wanted.email)
    try:
        visit.commit(lambda: members.add(visit.scope.project_id, wanted.email, wanted.role, visit.actor))
    except ValueError:
        return _list(visit, problem="This address belongs to a member already.", **sent)
    return visit.redirect(visit.path(f"members?notice={'invited' if invited else 'added'}"))


def show_one(visit: InProject) -> Response:
    """Show a member, with the forms that change the role, help with the sign-in and remove them."""
    return _form(visit, _find(visit))


def change(visit: InProject) -> Response:
    """Change a member's role, help with the sign-in, or remove them."""
    member, role = _find(visit), visit.form.get("role", "")
    try:
        if notice := _act(visit, member, visit.form.get("action", "")):
            return visit.redirect(visit.path(f"members?notice={notice}"))
        if forms.edited(visit, {"role": member.role}):
            visit.commit(lambda: members.change_role(visit.scope.project_id, member.id, role, visit.actor))
    except forms.ChangedMeanwhile as error:
        return _form(visit, member, error)
    except members.LastOwner:
        raise Refused(409, "The project needs an owner", _LAST_OWNER) from None
    except (LookupError, ValueError):
        raise not_found() from None
    return visit.redirect(visit.path("members?notice=changed"))


def _act(visit: InProject, member: Member, action: str) -> str:
    """Do what a form without fields asks for. Returns the notice; empty for another form."""
    if action == "remove":
        visit.commit(lambda: members.remove_by_id(visit.scope.project_id, member.id, visit.actor))
        return "removed"
    if action not in ("invite", "reset"):
        return ""
    if not settings.user_pool_id():
        raise not_found()
    try:
        if action == "invite":
            user_pool.send_again(member, visit.actor)
            return "invited_again"
        if not members.is_only_with(visit.person, member):
            raise user_pool.NotPossible(_NOT_YOURS)
        user_pool.reset_second_factor(member, visit.actor)
        return "reset"
    except user_pool.NotPossible as error:
        raise Refused(409, "This was not done", str(error)) from None


def _form(visit: InProject, member: Member, error: ApiError | None = None) -> Response:
    return visit.render(
        "member.html",
        error.status if error else 200,
        section="members",
        member=member,
        user_pool=settings.user_pool_id(),
        resettable=settings.user_pool_id() and members.is_only_with(visit.person, member),
        roles=members.ROLES,
        form=forms.view(visit, {"role": member.role}, error),
        error=error,
    )


def _list(visit: InProject, problem: str | None = None, email: str = "", role: str = VIEWER) -> Response:
    return visit.render(
        "members.html",
        400 if problem else 200,
        section="members",
        members=members.of_project(visit.scope.project_id),
        roles=members.ROLES,
        form={"email": email, "role": role},
        problem=problem,
        links=settings.has_sign_in_links(),
        notice=NOTICES.get(visit.query.get("notice", "")),
    )


def _find(visit: InProject) -> Member:
    try:
        return members.find(visit.scope.project_id, visit.params["id"])
    except LookupError:
        raise not_found() from None


PAGES = (
    AdminPage(f"{PROJECT}/members", get=View(show, VIEWER), post=View(add, OWNER)),
    AdminPage(f"{PROJECT}/members/{{id}}", get=View(show_one, OWNER), post=View(change, OWNER)),
)
