"""The members page: who is one, adding, other roles, removing; a project keeps an owner."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from shared.admin import audit, members
from shared.aws import services
from shared.store import transactions
from tests.support.admin_client import STAFF, Browser, Shown, Story, add_member, as_test, signed_in
from tests.support.canned_aws import answer_always, endpoint, response
from tests.support.concurrency import just_before
from tests.support.receivers import Request
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
    email = f"{uuid.uuid4().hex}@example.com"  # A member of nothing: all tests of a process share the people.
    grace = signed_in(stage, email)
    assert "not a member of any project" in grace.get("/admin").text
    path = f"{story.path}/members"
    owner.submit(path, path, email=email, role="viewer")
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


def test_two_owners_who_remove_each_other_at_once_leave_one(stage: Stage, story: Story) -> None:
    signed_in(stage, OWNER, {story.project.id: members.OWNER})
    signed_in(stage, "other@example.com", {story.project.id: members.OWNER})
    first, second = id_of(story, OWNER), id_of(story, "other@example.com")

    def remove(id: str) -> None:
        with as_test() as operator:
            transactions.commit(lambda: members.remove_by_id(story.project.id, id, operator))

    with just_before("TransactWriteItems", lambda: remove(second)), pytest.raises(members.LastOwner):
        remove(first)
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


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """A user pool that does whatever it is asked, and the operations that it was asked for."""
    asked: list[tuple[str, dict[str, Any]]] = []

    def answer(request: Request) -> bytes:
        operation, parameters = request.headers["x-amz-target"].rpartition(".")[2], json.loads(request.body)
        asked.append((operation, parameters))
        if refused := REFUSALS.get(parameters["Username"]):
            return response(400, {"__type": refused, "message": "no"})
        return response(body={})

    with endpoint(answer_always(answer)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_COGNITO_IDENTITY_PROVIDER", server.url.removesuffix("/hook"))
        monkeypatch.setenv("USER_POOL_ID", "eu-central-1_Pool")
        services.cognito.cache_clear()
        yield asked
    services.cognito.cache_clear()


SIGNED_IN, DELETED = "signed-in@example.com", "deleted@example.com"
REFUSALS = {SIGNED_IN: "UnsupportedUserStateException", DELETED: "UserNotFoundException"}


@pytest.fixture
def colleague(story: Story) -> str:
    """The address of a new member who is in no other test's project."""
    email = f"{uuid.uuid4().hex}@example.com"
    add_member(story.project.id, email, members.MEMBER)
    return email


def send(owner: Browser, story: Story, email: str, action: str) -> Shown:
    path = f"{story.path}/members/{id_of(story, email)}"
    return owner.submit(path, path, action=action)


def test_an_invitation_is_sent_again_and_the_trail_says_so(
    story: Story, owner: Browser, pool: list[tuple[str, dict[str, Any]]]
) -> None:
    shown = send(owner, story, STAFF, "invite")
    assert "valid for seven days" in owner.get(shown.location).text
    user = {"UserPoolId": "eu-central-1_Pool", "Username": STAFF}
    assert pool == [("AdminCreateUser", user | {"MessageAction": "RESEND", "DesiredDeliveryMediums": ["EMAIL"]})]
    assert changes(story) == [("member.invitation_requested", STAFF, OWNER)]
    assert "Requested another invitation" in owner.get(f"{story.path}/audit_trail").text


def test_who_has_a_password_already_is_not_invited_again(
    story: Story, owner: Browser, pool: list[tuple[str, dict[str, Any]]]
) -> None:
    add_member(story.project.id, SIGNED_IN, members.VIEWER)
    refused = send(owner, story, SIGNED_IN, "invite")
    assert refused.status == 409
    assert "on the sign-in page" in refused.text


def test_a_user_who_was_deleted_in_the_pool_is_invited_anew(
    story: Story, owner: Browser, pool: list[tuple[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_member(story.project.id, DELETED, members.VIEWER)
    send(owner, story, DELETED, "invite")
    assert [(operation, "MessageAction" in asked) for operation, asked in pool] == [
        ("AdminCreateUser", True),
        ("AdminCreateUser", False),
    ]


def test_a_lost_second_factor_is_reset_by_an_owner_and_the_trail_says_so(
    stage: Stage, story: Story, owner: Browser, colleague: str, pool: list[tuple[str, dict[str, Any]]]
) -> None:
    refused = send(owner, story, colleague, "reset")
    assert (refused.status, pool) == (409, []), "they have not signed in"
    signed_in(stage, colleague)
    shown = send(owner, story, colleague, "reset")
    assert "asks for an authenticator app" in owner.get(shown.location).text
    assert pool == [("AdminDeleteSoftwareToken", {"UserPoolId": "eu-central-1_Pool", "Username": colleague})]
    assert changes(story) == [("member.second_factor_reset_requested", colleague, OWNER)]


@pytest.mark.parametrize("joined", [True, False])
def test_an_owner_cannot_weaken_the_sign_in_of_a_person_of_another_project(
    stage: Stage,
    story: Story,
    owner: Browser,
    colleague: str,
    pool: list[tuple[str, dict[str, Any]]],
    joined: bool,
) -> None:
    """Whoever knows a person's password could otherwise add them to a project of one's own, and reset the rest."""
    signed_in(stage, colleague)
    others = stage.project("Another clinic").id
    if joined:
        signed_in(stage, colleague, {others: members.OWNER})
    else:
        add_member(others, colleague, members.OWNER)
    refused = send(owner, story, colleague, "reset")
    assert refused.status == 409
    assert "operator" in refused.text
    assert "Reset second factor" not in owner.get(f"{story.path}/members/{id_of(story, colleague)}").text
    assert (pool, changes(story)) == ([], [])
    # The owner of both may.
    signed_in(stage, OWNER, {others: members.OWNER})
    assert send(owner, story, colleague, "reset").status == 303


@pytest.mark.parametrize("action", ["invite", "reset"])
def test_only_owners_help_with_sign_ins_and_only_in_a_stage_with_a_user_pool(
    stage: Stage, story: Story, owner: Browser, action: str
) -> None:
    page = owner.get(f"{story.path}/members/{id_of(story, STAFF)}").text
    assert "Send again" not in page
    assert send(owner, story, STAFF, action).status == 404
    path = f"{story.path}/members/{id_of(story, STAFF)}"
    assert signed_in(stage, STAFF).post(path, {"action": action}).status == 403
