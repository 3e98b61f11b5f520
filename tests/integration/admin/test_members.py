"""The members page: who is one, adding, other roles, removing; a project keeps an owner."""

from __future__ import annotations

import boto3
import pytest

from shared.admin import audit, members
from shared.store import table
from tests.support.browsing import STAFF, Browser, Story, as_test, signed_in
from tests.support.stage import Stage

OWNER = "owner@example.com"


@pytest.fixture
def owner(stage: Stage, story: Story) -> Browser:
    return signed_in(stage, OWNER, {story.project.id: members.OWNER})


def people(story: Story) -> dict[str, str]:
    with as_test():
        return {one.email: one.role for one in members.of_project(story.project.id)}


def id_of(story: Story, email: str) -> str:
    with as_test():
        (id,) = (one.id for one in members.of_project(story.project.id) if one.email == email)
    return id


def changes(story: Story) -> list[tuple[str, str, str]]:
    """The latest changes of members that the owner made, newest first."""
    with as_test():
        entries, _ = audit.page(story.project.id)
    return [(one.action, one.target, one.who) for one in entries if one.who == OWNER and "joined" not in one.action]


def test_an_owner_adds_a_viewer_who_signs_in(stage: Stage, story: Story, owner: Browser) -> None:
    path = f"{story.path}/members"
    shown = owner.submit(path, path, email=" Ada@example.com ", role="viewer")
    assert shown.location == f"{path}?notice=added"
    assert "Ada@example.com" in owner.get(path).page.text
    assert changes(story) == [("member.added", "Ada@example.com", OWNER)]
    ada = signed_in(stage, "ada@example.com")
    assert ada.get(path).status == 200
    assert "Add a member" not in ada.get(path).text
    assert "Only owners change members" in ada.get(path).text


def test_a_person_who_is_signed_in_already_finds_the_new_project(stage: Stage, story: Story, owner: Browser) -> None:
    grace = signed_in(stage, "grace@example.com")
    assert "not a member of any project" in grace.get("/admin").text
    path = f"{story.path}/members"
    owner.submit(path, path, email="grace@example.com", role="viewer")
    assert grace.get("/admin").location == story.path
    assert grace.get(f"{story.path}/events").status == 200


@pytest.mark.parametrize(
    ("email", "role", "says"),
    [
        (STAFF.upper(), "viewer", "a member already"),
        ("ada", "viewer", "email address"),
        ("a@example.com", "king", "role"),
    ],
)
def test_a_member_who_cannot_be_added_is_said(story: Story, owner: Browser, email: str, role: str, says: str) -> None:
    path = f"{story.path}/members"
    before = people(story)
    shown = owner.submit(path, path, email=email, role=role)
    assert shown.status == 400
    assert says in shown.text
    assert [found.get("value") for tag, found in shown.page.tags if found.get("id") == "email"] == [email]
    assert people(story) == before


def test_another_role_holds_from_the_next_request_on(stage: Stage, story: Story, owner: Browser) -> None:
    staff = signed_in(stage, STAFF)
    assert staff.get(f"{story.path}/members/{id_of(story, STAFF)}").status == 403
    path = f"{story.path}/members/{id_of(story, STAFF)}"
    assert owner.submit(path, path, role="owner").location == f"{story.path}/members?notice=changed"
    assert staff.get(path).status == 200
    assert changes(story) == [("member.role_changed", STAFF, OWNER)]
    assert owner.submit(path, path, role="owner").status == 303
    assert len(changes(story)) == 1, "it was the role already: nothing has changed"


def test_who_is_removed_sees_nothing_any_more(stage: Stage, story: Story, owner: Browser) -> None:
    staff = signed_in(stage, STAFF)
    assert staff.get(f"{story.path}/events").status == 200
    path = f"{story.path}/members/{id_of(story, STAFF)}"
    assert owner.submit(path, path, action="remove").location == f"{story.path}/members?notice=removed"
    assert staff.get(f"{story.path}/events").status == 404
    assert STAFF not in people(story)
    assert changes(story) == [("member.removed", STAFF, OWNER)]


@pytest.mark.parametrize("form", [{"action": "remove"}, {"role": "viewer"}])
def test_a_project_keeps_an_owner(story: Story, owner: Browser, form: dict[str, str]) -> None:
    path = f"{story.path}/members/{id_of(story, OWNER)}"
    refused = owner.submit(path, path, **form)
    assert refused.status == 409
    assert "Make somebody else an owner first" in refused.text
    assert people(story)[OWNER] == "owner"
    assert changes(story) == []


def test_two_owners_who_remove_each_other_at_once_leave_one(
    stage: Stage, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in(stage, OWNER, {story.project.id: members.OWNER})
    signed_in(stage, "other@example.com", {story.project.id: members.OWNER})
    write, first, second = table.write, id_of(story, OWNER), id_of(story, "other@example.com")
    raced: list[str] = []

    def interrupted(ops: list[table.Write], request: str) -> None:
        if not raced:
            raced.append("once")
            members.remove_by_id(story.project.id, second, audit.operator())
        write(ops, request)

    monkeypatch.setattr(table, "write", interrupted)
    with as_test() as operator, pytest.raises(members.LastOwner):
        members.remove_by_id(story.project.id, first, operator)
    assert [email for email, role in people(story).items() if role == "owner"] == [OWNER]


def test_a_new_member_of_a_stage_with_a_user_pool_is_invited(
    story: Story, owner: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    cognito = boto3.client("cognito-idp")
    with as_test():
        pool = cognito.create_user_pool(PoolName="People", UsernameAttributes=["email"])["UserPool"]["Id"]
    monkeypatch.setenv("USER_POOL_ID", pool)
    path = f"{story.path}/members"
    shown = owner.submit(path, path, email="ada@example.com", role="member")
    assert "e-mail with a password" in owner.get(shown.location).text
    (user,) = cognito.list_users(UserPoolId=pool)["Users"]
    assert {"Name": "email_verified", "Value": "true"} in user["Attributes"]
    owner.submit(
        f"{path}/{id_of(story, 'ada@example.com')}", f"{path}/{id_of(story, 'ada@example.com')}", action="remove"
    )
    again = owner.submit(path, path, email="ada@example.com", role="member")
    assert again.location.endswith("notice=added"), "the user exists"
