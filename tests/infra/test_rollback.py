"""`make rollback` and `make deploy` after it: where requests go, and which versions are kept. Lambda is moto's."""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import boto3
import pytest
from moto import mock_aws

from infra import deploy, rollback
from infra.stack_names import LIVE
from tests.support import moto_server
from tests.support.canned_aws import answer_always, endpoint, response
from tests.support.receivers import Request

STAGE, STACK, REGION = "trial", "appointments-trial", "eu-central-1"
NAMES = ("ping", "customers", "sweep")
CDK = """#!{python}
import json, os, sys
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if os.environ.get("FAILS"):
    sys.exit(3)
if os.environ.get("CODE") and not any(each.startswith("held=") for each in sys.argv):
    from tests.infra.test_rollback import Account
    Account().release(os.environ["CODE"])
"""
"""In place of npx: it writes down its arguments, and does what a deploy does to the functions."""


class Account:
    """A stack of three functions. Each deploy publishes a version of each, and moves its alias to it."""

    def __init__(self) -> None:
        sdk: Any = boto3
        self.functions = sdk.client("lambda")

    def create(self) -> None:
        sdk: Any = boto3
        role = sdk.client("iam").create_role(RoleName="role", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
        for name in NAMES:
            self.functions.create_function(
                FunctionName=f"{STACK}-{name}",
                Runtime="python3.13",
                Role=role,
                Handler="functions.entry.handler",
                Code={"ZipFile": zip_of("first")},
                Environment={"Variables": {"SERVICE_NAME": name}},
            )
            self.functions.publish_version(FunctionName=f"{STACK}-{name}")
            self.functions.create_alias(FunctionName=f"{STACK}-{name}", Name=LIVE, FunctionVersion="1")

    def release(self, code: str, *names: str) -> None:
        for name in names or NAMES:
            self.functions.update_function_code(FunctionName=f"{STACK}-{name}", ZipFile=zip_of(code))
            self._publish(name)

    def change_settings(self, name: str) -> None:
        variables = {"SERVICE_NAME": name, "LOG_LEVEL": "DEBUG"}
        self.functions.update_function_configuration(
            FunctionName=f"{STACK}-{name}", Environment={"Variables": variables}
        )
        self._publish(name)

    def _publish(self, name: str) -> None:
        version = self.functions.publish_version(FunctionName=f"{STACK}-{name}")["Version"]
        self.functions.update_alias(FunctionName=f"{STACK}-{name}", Name=LIVE, FunctionVersion=version)

    def begin_to_shift(self, *names: str) -> None:
        """Take the aliases back by one version, and send a tenth of the requests to the newest, as CodeDeploy does."""
        for name in names:
            newest = max(self.versions(name))
            self.functions.update_alias(
                FunctionName=f"{STACK}-{name}",
                Name=LIVE,
                FunctionVersion=str(newest - 1),
                RoutingConfig={"AdditionalVersionWeights": {str(newest): 0.1}},
            )

    def live(self) -> list[str]:
        """The versions that receive requests, of each function."""
        found = []
        for name in NAMES:
            alias = self.functions.get_alias(FunctionName=f"{STACK}-{name}", Name=LIVE)
            weights = (alias.get("RoutingConfig") or {}).get("AdditionalVersionWeights") or {}
            found.append("+".join((alias["FunctionVersion"], *weights)))
        return found

    def versions(self, name: str) -> list[int]:
        found = self.functions.list_versions_by_function(FunctionName=f"{STACK}-{name}")["Versions"]
        return sorted(int(each["Version"]) for each in found if each["Version"] != "$LATEST")


def zip_of(content: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo("code.py"), content)
    return packed.getvalue()


@pytest.fixture
def stopped_deployments() -> list[str]:
    """The ids of deployments that were stopped."""
    return []


@pytest.fixture
def ended_deployments() -> set[str]:
    """The ids of deployments that have ended when they are stopped."""
    return set()


@pytest.fixture
def account(
    monkeypatch: pytest.MonkeyPatch, stopped_deployments: list[str], ended_deployments: set[str]
) -> Iterator[Account]:
    """An account in which CloudFormation lists the stack, and CodeDeploy two deployments that are under way."""

    def answer(request: Request) -> bytes:
        if "x-amz-target" in request.headers:
            if json.loads(request.body).get("deploymentId") in ended_deployments:
                return response(400, {"__type": "DeploymentAlreadyCompletedException", "message": "ended_deployments"})
            return response(body=_codedeploy(request, stopped_deployments))
        return _cloudformation(parse_qs(request.body.decode()))

    with mock_aws(), moto_server.serving() as urls, endpoint(answer_always(answer)) as other:
        for name in ("CLOUDFORMATION", "CODEDEPLOY"):
            monkeypatch.setenv(f"AWS_ENDPOINT_URL_{name}", other.url.removesuffix("/hook"))
        monkeypatch.setenv("AWS_ENDPOINT_URL", next(iter(urls.values())))
        for name, value in {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "DEFAULT_REGION": REGION}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        made = Account()
        made.create()
        yield made


def _cloudformation(asked: dict[str, list[str]]) -> bytes:
    if asked["StackName"] != [STACK]:
        message = f"<Message>Stack with id {asked['StackName'][0]} does not exist</Message>"
        error = f"<ErrorResponse><Error><Code>ValidationError</Code>{message}</Error></ErrorResponse>"
        return response(400, headers={"Content-Type": "text/xml"}, raw=error.encode())
    arn = f"arn:aws:lambda:{REGION}:123456789012:function:{STACK}"
    listed = [(f"{arn}-{name}:{LIVE}", "AWS::Lambda::Alias") for name in NAMES]
    listed += [(f"{STACK}-releases", "AWS::CodeDeploy::Application"), (f"{STACK}-ping", "AWS::Lambda::Function")]
    members = "".join(
        f"<member><PhysicalResourceId>{name}</PhysicalResourceId><ResourceType>{kind}</ResourceType></member>"
        for name, kind in listed
    )
    result = f"<StackResourceSummaries>{members}</StackResourceSummaries>"
    page = f"<R><ListStackResourcesResult>{result}</ListStackResourcesResult></R>"
    return response(headers={"Content-Type": "text/xml"}, raw=page.encode())


def _codedeploy(request: Request, stopped: list[str]) -> dict[str, Any]:
    asked = json.loads(request.body)
    operation = request.headers["x-amz-target"].rpartition(".")[2]
    if operation == "ListDeployments":
        assert {"InProgress", "Queued"} <= {*asked["includeOnlyStatuses"]}
        return {"deployments": ["d-OURS", "d-OTHER"]}
    if operation == "BatchGetDeployments":
        names = {"d-OURS": f"{STACK}-releases", "d-OTHER": "another-service"}
        found = [{"deploymentId": each, "applicationName": names[each]} for each in asked["deploymentIds"]]
        return {"deploymentsInfo": [each | {"deploymentGroupName": "group"} for each in found]}
    assert operation == "StopDeployment"
    stopped.append(asked["deploymentId"])
    return {"status": "Succeeded"}


@pytest.fixture
def cdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a script in the place of npx. Returns the file to which it writes its arguments, a line for each run."""
    script = tmp_path / "npx"
    script.write_text(CDK.format(python=sys.executable))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return tmp_path / "calls"


def calls(cdk: Path) -> list[list[str]]:
    return [json.loads(line) for line in cdk.read_text().splitlines()] if cdk.exists() else []


def test_every_alias_goes_back_to_the_previous_version_and_each_function_has_a_line(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    account.release("second")
    account.release("third")
    assert rollback.main([STAGE]) == 0
    assert account.live() == ["2", "2", "2"]
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "deployment" not in line] == [f"{name}: version 3 -> 2" for name in NAMES]


def test_a_repeated_rollback_changes_nothing_and_an_earlier_release_is_asked_for(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    account.release("second")
    account.release("third")
    assert rollback.main([STAGE]) == 0
    capsys.readouterr()
    assert rollback.main([STAGE]) == 0
    assert account.live() == ["2", "2", "2"]
    assert "ping: stays at version 2" in capsys.readouterr().out
    assert rollback.main([STAGE, "--releases", "2"]) == 0
    assert account.live() == ["1", "1", "1"]


def test_a_release_of_settings_is_rolled_back_for_the_functions_that_it_changed(account: Account) -> None:
    account.release("second")
    account.change_settings("customers")
    assert account.live() == ["2", "3", "2"]
    assert rollback.main([STAGE]) == 0
    assert account.live() == ["2", "2", "2"]
    assert rollback.main([STAGE, "--releases", "2"]) == 0
    assert account.live() == ["1", "1", "1"]


def test_a_function_without_an_earlier_version_stays(account: Account) -> None:
    account.release("second", "ping", "customers")
    account.release("second", "sweep")
    account.functions.delete_function(FunctionName=f"{STACK}-sweep", Qualifier="1")
    assert rollback.main([STAGE]) == 0
    assert account.live() == ["1", "1", "2"]


def test_a_deploy_that_is_under_way_is_stopped_and_all_requests_go_to_the_previous_version(
    account: Account, stopped_deployments: list[str]
) -> None:
    account.release("second", "ping", "customers")  # it has not reached `sweep` yet
    account.begin_to_shift("ping")
    assert account.live() == ["1+2", "2", "1"]
    assert rollback.main([STAGE]) == 0
    assert account.live() == ["1", "1", "1"]
    assert stopped_deployments == ["d-OURS"], (
        "CodeDeploy would go on to shift requests, or another service's deploy was stopped"
    )


def test_a_deploy_that_ends_before_it_is_stopped_is_rolled_back_as_well(
    account: Account, ended_deployments: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    account.release("second")
    ended_deployments.add("d-OURS")
    assert rollback.main([STAGE]) == 0
    assert account.live() == ["1", "1", "1"]
    assert "too late to stop deployment d-OURS" in capsys.readouterr().out


def test_a_stage_that_is_not_deployed_is_named(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    assert rollback.main(["other"]) == 1
    assert "the stack appointments-other does not exist" in capsys.readouterr().err


def test_the_region_is_the_stages_as_it_is_the_cdks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    settings = tmp_path / "cdk.json"
    settings.write_text(json.dumps({"context": {"stages": {"dev": {}, STAGE: {"region": REGION}}}}))
    for stage in ("dev", "other"):
        rollback.use_region_of(stage, settings)
        assert os.environ["AWS_REGION"] == "us-east-1"
    rollback.use_region_of(STAGE, settings)
    assert os.environ["AWS_REGION"] == os.environ["AWS_DEFAULT_REGION"] == REGION


def test_a_deploy_is_one_run_of_the_cdk_and_keeps_the_previous_two_versions(
    account: Account, cdk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for code in ("second", "third", "fourth"):
        monkeypatch.setenv("CODE", code)
        assert deploy.main([STAGE]) == 0
    assert calls(cdk) == 3 * [["--no-install", "cdk", "deploy", "--all", "--context", f"stage={STAGE}"]]
    assert account.live() == ["4", "4", "4"]
    assert [account.versions(name) for name in NAMES] == 3 * [[2, 3, 4]]


def test_versions_that_differ_in_settings_count_as_one_release(
    account: Account, cdk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.release("second")
    account.change_settings("ping")
    monkeypatch.setenv("CODE", "third")
    assert deploy.main([STAGE]) == 0
    assert [account.versions(name) for name in NAMES] == [[1, 2, 3, 4], [1, 2, 3], [1, 2, 3]]


def test_a_deploy_after_a_rollback_says_so_and_first_tells_the_stack_where_the_aliases_are(
    account: Account, cdk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    account.release("second")
    account.release("bad")
    assert rollback.main([STAGE]) == 0
    monkeypatch.setenv("CODE", "repaired")
    assert deploy.main([STAGE]) == 0
    assert "infra.deploy: ping was moved to version 2, from 3" in capsys.readouterr().out
    first, second = calls(cdk)
    assert json.loads(first[-1].removeprefix("held=")) == dict.fromkeys(NAMES, "2")
    assert [*first[:-2]] == second
    assert account.live() == ["4", "4", "4"]
    assert account.versions("ping") == [1, 2, 4], "a later rollback would go to the version that was rolled back"
    assert rollback.main([STAGE]) == 0
    assert account.live() == ["2", "2", "2"]


def test_a_deploy_of_the_same_template_also_puts_the_aliases_right(account: Account, cdk: Path) -> None:
    account.release("second")
    assert rollback.main([STAGE]) == 0
    assert deploy.main([STAGE]) == 0
    first, second = calls(cdk)
    assert first[-1].startswith("held=")
    assert not [each for each in second if each.startswith("held=")]


def test_a_deploy_that_fails_deletes_no_version(account: Account, cdk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for code in ("second", "third", "fourth"):
        account.release(code)
    monkeypatch.setenv("FAILS", "1")
    assert deploy.main([STAGE]) == 3
    assert account.versions("ping") == [1, 2, 3, 4]


def test_a_rollback_after_a_failed_repair_does_not_go_to_the_version_that_was_rolled_back(account: Account) -> None:
    account.release("second")
    account.release("bad")
    account.release("repaired")
    for name in NAMES:  # the repair failed, and CodeDeploy moved the aliases back to where they were
        account.functions.update_alias(FunctionName=f"{STACK}-{name}", Name=LIVE, FunctionVersion="2")
    assert rollback.main([STAGE]) == 0
    assert account.live() == ["2", "2", "2"]


def test_no_deploy_begins_while_requests_go_to_two_versions(
    account: Account, cdk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    account.release("second")
    account.begin_to_shift("ping")
    assert deploy.main([STAGE]) == 1
    assert "make rollback" in capsys.readouterr().err
    assert calls(cdk) == []


def test_the_first_deploy_needs_no_stack(account: Account, cdk: Path) -> None:
    assert deploy.main(["other"]) == 0
    assert len(calls(cdk)) == 1


@pytest.mark.parametrize("answer", ["yes\n", "", f"{STAGE}\n"])
def test_an_emergency_deploys_only_if_the_stages_name_confirms_it(
    account: Account, cdk: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    assert deploy.main([STAGE, "--emergency"]) == (0 if answer.strip() == STAGE else 1)
    alone = ["--exclusively", STACK]
    confirmed = [["--no-install", "cdk", "deploy", *alone, "--context", f"stage={STAGE}", "--context", "emergency=1"]]
    assert calls(cdk) == (confirmed if answer.strip() == STAGE else [])
