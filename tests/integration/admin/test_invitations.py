"""`infra.manage members` on a deployed stage: a new member gets a user in the stack's own pool."""

from __future__ import annotations

import json
import os

import boto3
import pytest

from infra.local import resources
from infra.manage.__main__ import main
from infra.stack_names import (
    ADMIN_OUTPUT,
    DUE_SHARDS_OUTPUT,
    ERASURES_OUTPUT,
    RECORDINGS_OUTPUT,
    TABLE_OUTPUT,
    USER_POOL_OUTPUT,
)
from shared.admin import audit, members
from shared.aws import services
from tests.support.admin_client import add_member, as_test
from tests.support.canned_aws import answer_always, endpoint, response
from tests.support.receivers import Request
from tests.support.stage import Stage


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command sets these variables of its own process, which here is the tests'."""
    for name in ("TABLE_NAME", "USER_POOL_ID", "DUE_SHARDS", "RECORDINGS_BUCKET", "ERASURES_BUCKET"):
        monkeypatch.setenv(name, os.environ.get(name, ""))


def make_stack(name: str, pool: str | None = None) -> None:
    """A stack with the outputs that the command reads."""
    outputs = {TABLE_OUTPUT: {"Value": resources.TABLE_NAME}, ADMIN_OUTPUT: {"Value": "https://api.example.com/admin"}}
    outputs |= {USER_POOL_OUTPUT: {"Value": pool}} if pool else {}
    outputs |= {name: {"Value": "1"} for name in (DUE_SHARDS_OUTPUT, ERASURES_OUTPUT, RECORDINGS_OUTPUT)}
    template = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}, "Outputs": outputs}
    boto3.client("cloudformation").create_stack(StackName=f"appointments-{name}", TemplateBody=json.dumps(template))


def test_a_new_member_gets_a_user_whose_address_is_verified(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    project = str(stage.project().id)
    cognito = boto3.client("cognito-idp")
    pool = cognito.create_user_pool(PoolName="People", UsernameAttributes=["email"])["UserPool"]["Id"]
    with as_test():
        make_stack("pooled", pool)
        assert main(["--stage", "pooled", "members", "add", project, "ada@example.com"]) == 0
    assert "an e-mail with a password was sent; sign in at https://api.example.com/admin" in capsys.readouterr().out
    (user,) = cognito.list_users(UserPoolId=pool)["Users"]
    attributes = {one["Name"]: one["Value"] for one in user["Attributes"]}
    assert (attributes["email"], attributes["email_verified"]) == ("ada@example.com", "true")

    other = str(stage.project().id)
    with as_test():
        assert main(["--stage", "pooled", "members", "add", other, "ada@example.com", "--role", "viewer"]) == 0
    assert "as before" in capsys.readouterr().out
    assert len(cognito.list_users(UserPoolId=pool)["Users"]) == 1
    with as_test():
        assert [(one.email, one.role) for one in members.of_project(int(other))] == [("ada@example.com", "viewer")]
        assert main(["--stage", "pooled", "members", "link", "ada@example.com"]) == 1
    assert "only the local runner has sign-in links" in capsys.readouterr().err


def test_all_members_of_a_project_are_bound_anew_and_get_users_in_a_new_pool(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    project = stage.project().id
    cognito = boto3.client("cognito-idp")
    pool = cognito.create_user_pool(PoolName="New", UsernameAttributes=["email"])["UserPool"]["Id"]
    bound, waits = "bound@example.com", "grace@example.com"
    of_old_pool = members.Identity("https://old-pool.example.com", "subject", bound)
    with as_test() as operator:
        for email in (bound, waits):
            add_member(project, email, members.OWNER)
        members.join(of_old_pool.person, bound, operator)
        make_stack("moved", pool)
        assert main(["--stage", "moved", "members", "rebind", str(project)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in told] == [bound, waits]
    assert all("an e-mail with a password was sent" in line for line in told)
    assert len(cognito.list_users(UserPoolId=pool)["Users"]) == 2
    with as_test():
        assert [one.joined_at for one in members.of_project(project)] == [None, None]
        assert members.person(of_old_pool.person).memberships == ()
        assert main(["--stage", "moved", "members", "rebind", str(project), bound]) == 0
        assert "as before" in capsys.readouterr().out
        assert main(["--stage", "moved", "members", "rebind", str(project), "nobody@example.com"]) == 1
    assert "no such member" in capsys.readouterr().err


def test_the_operator_sends_an_invitation_again_and_resets_a_second_factor(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, asked = stage.project().id, list[str]()

    def answer(request: Request) -> bytes:
        asked.append(request.headers["x-amz-target"].rpartition(".")[2])
        return response(body={})

    with as_test(), endpoint(answer_always(answer)) as server:
        add_member(project, "helped@example.com", members.VIEWER)
        make_stack("helpful", "eu-central-1_Pool")
        monkeypatch.setenv("AWS_ENDPOINT_URL_COGNITO_IDENTITY_PROVIDER", server.url.removesuffix("/hook"))
        services.cognito.cache_clear()
        for command in ("invite", "reset-second-factor"):
            assert main(["--stage", "helpful", "members", command, str(project), "Helped@example.com"]) == 0
        services.cognito.cache_clear()
        entries, _ = audit.page(project)
        assert main(["--stage", "helpful", "members", "invite", str(project), "bob@example.com"]) == 1
    told = capsys.readouterr()
    assert "gets another e-mail with a password" in told.out
    assert "asks for another authenticator app" in told.out
    assert "has no member bob@example.com" in told.err
    assert asked == ["AdminCreateUser", "AdminDeleteSoftwareToken"]
    assert [(entry.action, entry.target, entry.who) for entry in entries[:2]] == [
        ("member.second_factor_reset_requested", "helped@example.com", "operator"),
        ("member.invitation_requested", "helped@example.com", "operator"),
    ]


@pytest.mark.parametrize("command", ["invite", "reset-second-factor"])
def test_a_stage_without_a_user_pool_has_nobody_to_help(
    stage: Stage, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    project = stage.project().id
    with as_test():
        add_member(project, "helped@example.com", members.VIEWER)
        make_stack(f"alone-{command}")
        assert main(["--stage", f"alone-{command}", "members", command, str(project), "helped@example.com"]) == 1
    assert "its own provider" in capsys.readouterr().err


def test_a_stage_with_its_own_provider_invites_nobody(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    project = str(stage.project().id)
    with as_test():
        make_stack("federated")
        assert main(["--stage", "federated", "members", "add", project, "ada@example.com"]) == 0
    assert "sign in at https://api.example.com/admin with the stage's own provider" in capsys.readouterr().out
