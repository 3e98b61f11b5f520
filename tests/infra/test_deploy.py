"""`make deploy` of a stage with copies: their stack has a replica of the signing key. The account is moto's."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from infra import deploy
from infra.stack_names import PRIMARY_KEY, SIGNING_KEY_OUTPUT, copies_name, stack_name
from tests.support.synth import COPIES_REGION, REGION

STAGE = "moved"
COPIES = copies_name(STAGE)
RESOURCES = {"Topic": {"Type": "AWS::SNS::Topic"}}
NPX = """#!{python}
import json, sys
with open({calls!r}, "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
"""
"""In place of npx: it writes down its arguments."""


@pytest.fixture(autouse=True)
def _account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_REGION", REGION)
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "test")
    with mock_aws():
        yield


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the arguments of each run of the CDK."""
    script, calls = tmp_path / "npx", tmp_path / "calls"
    script.write_text(NPX.format(python=sys.executable, calls=str(calls)))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return calls


def client(service: str, region: str = REGION) -> Any:
    sdk: Any = boto3
    return sdk.client(service, region_name=region)


def key(region: str = REGION) -> str:
    """The ARN of a new multi-Region key."""
    return str(client("kms", region).create_key(MultiRegion=True)["KeyMetadata"]["Arn"])


def make_stacks(signing_key: str, replicated: str) -> None:
    """The stage with its signing key, and the stack of its copies with the key of which it has a replica."""
    outputs = {SIGNING_KEY_OUTPUT: {"Value": signing_key}}
    client("cloudformation").create_stack(
        StackName=stack_name(STAGE), TemplateBody=json.dumps({"Resources": RESOURCES, "Outputs": outputs})
    )
    parameters = {PRIMARY_KEY: {"Type": "String", "Default": ""}}
    client("cloudformation", COPIES_REGION).create_stack(
        StackName=COPIES,
        TemplateBody=json.dumps({"Resources": RESOURCES, "Parameters": parameters}),
        Parameters=[{"ParameterKey": PRIMARY_KEY, "ParameterValue": replicated}],
    )


def test_after_the_first_deploy_the_copies_get_a_replica_of_the_key(calls: Path) -> None:
    made = key()
    make_stacks(made, replicated="")
    deploy.replicate_key(STAGE, COPIES_REGION, "--context", f"stage={STAGE}")
    assert json.loads(calls.read_text()) == [
        *("--no-install", "cdk", "deploy", "--exclusively", COPIES),
        *("--parameters", f"{COPIES}:{PRIMARY_KEY}={made}", "--context", f"stage={STAGE}"),
    ]


def test_a_key_that_has_its_replica_needs_no_further_deploy(calls: Path) -> None:
    made = key()
    make_stacks(made, replicated=made)
    deploy.replicate_key(STAGE, COPIES_REGION)
    assert not calls.exists()


def test_a_replica_is_not_replicated_and_the_operator_is_told(calls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    primary = key("us-east-1")
    id = primary.rpartition("/")[2]
    replica = client("kms", "us-east-1").replicate_key(KeyId=id, ReplicaRegion=REGION)["ReplicaKeyMetadata"]["Arn"]
    make_stacks(replica, replicated="")
    deploy.replicate_key(STAGE, COPIES_REGION)
    assert not calls.exists()
    assert "its primary key is in us-east-1" in capsys.readouterr().out
