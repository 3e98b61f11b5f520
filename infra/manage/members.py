"""The people who may use the admin pages, and how they sign in."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from infra.manage.command import PROJECT, Argument, Run, command
from infra.manage.stages import CommandFailed
from shared.admin import audit, members, sign_in, user_pool
from shared.admin.audit import Actor
from shared.admin.members import Member
from shared.resources import fields
from shared.store import transactions


def _email(text: str) -> str:
    try:
        return fields.email(text.strip())
    except ValueError as error:
        raise argparse.ArgumentTypeError("an e-mail address has the form ada@example.com") from error


EMAIL = Argument("email", type=_email)


@command(
    "members add",
    PROJECT,
    EMAIL,
    Argument("--role", choices=("owner", "member", "viewer"), default="viewer", help="what the person may do"),
    help="add a member by e-mail address",
)
def _add(run: Run, project: int, email: str, role: str) -> None:
    member = transactions.commit(lambda: members.add(project, email, role, audit.operator())).doc
    print(f"{member.email} is now {member.role} of project {project}: {run.stage.invite(member.email)}")


@command("members list", PROJECT)
def _list(run: Run, project: int) -> None:
    found = members.of_project(project)
    run.show_all(found, lambda one: {"role": one.role, "joined": one.joined_at or "not yet", "email": one.email})


@command(
    "members remove",
    PROJECT,
    EMAIL,
    Argument("--force", action="store_true", help="remove the only owner, too"),
    help="remove a member, who loses access immediately",
)
def _remove(run: Run, project: int, email: str, force: bool) -> None:
    try:
        member = transactions.commit(
            lambda: members.remove(project, email, audit.operator(), keep_an_owner=not force)
        ).doc
    except members.LastOwner:
        problem = f"{email} is the only owner of project {project}: add another owner first, or use --force"
        raise CommandFailed(problem) from None
    print(f"{member.email} is no longer a member of project {project}")


@command(
    "members rebind",
    PROJECT,
    Argument("email", type=_email, nargs="?"),
    help="let members sign in with new identities: one, or all of a project",
)
def _rebind(run: Run, project: int, email: str | None) -> None:
    for each in [email] if email else [one.email for one in members.of_project(project)]:
        member = transactions.commit(partial(members.rebind, project, each, audit.operator())).doc
        print(f"{member.email} joins project {project} with the next sign-in: {run.stage.invite(member.email)}")


@command("members invite", PROJECT, EMAIL, help="send the invitation again")
def _invite(run: Run, project: int, email: str) -> None:
    member = _in_user_pool(run, project, email, user_pool.send_again)
    print(f"{member.email} gets another e-mail with a password, which is valid for seven days")


@command("members reset-second-factor", PROJECT, EMAIL, help="remove a lost authenticator app")
def _reset_second_factor(run: Run, project: int, email: str) -> None:
    member = _in_user_pool(run, project, email, user_pool.reset_second_factor)
    print(f"the next sign-in of {member.email} asks for another authenticator app, after the password")


def _in_user_pool(run: Run, project: int, email: str, act: Callable[[Member, Actor], None]) -> Member:
    """Do this for a member in the stage's user pool. Returns the member."""
    member = members.with_email(project, email)
    run.stage.use_user_pool()
    try:
        act(member, audit.operator())
    except user_pool.NotPossible as problem:
        raise CommandFailed(str(problem)) from None
    return member


@command("members link", EMAIL, help="print a link that signs a member in once (local runner)")
def _link(run: Run, email: str) -> None:
    identity = sign_in.link_identity(email)
    if not members.is_invited(email) and not members.person(identity.person).memberships:
        raise LookupError(f"{email} is not a member of any project: add them first with `members add`")
    print(run.stage.sign_in_url(email))
