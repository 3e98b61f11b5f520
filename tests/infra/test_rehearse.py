"""The rehearsal: what it refuses and asks, what it deletes, and what a dry run prints. AWS is moto's.

`tests/deploy` carries out the steps that LocalStack has.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from moto import mock_aws

from infra import topology
from infra.app import context
from infra.bundle import ROOT
from infra.rehearse.__main__ import main, price
from infra.rehearse.rehearsal import RELEASES, Failed, Rehearsal, copy
from infra.rehearse.steps import CLEAN_UP, STEPS
from infra.stack_names import API_OUTPUT, DUE_SHARDS_OUTPUT, ERASURES_OUTPUT, RECORDINGS_OUTPUT, TABLE_OUTPUT
from infra.stage import parse
from tests.support import moto_server
from tests.support.canned_aws import answer_always, endpoint, response
from tests.support.receivers import Request
from tests.support.synth import CALLS, Synthesized

ACCOUNT, REGION, STACK = "123456789012", "eu-central-1", "appointments-dev"
BY_NAME = {step.name: step for step in (*STEPS, CLEAN_UP)}
TEMPLATE = {
    "Resources": {
        "Recordings": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain", "Properties": {"BucketName": "ours"}}
    }
}
LIVE: dict[str, Any] = {
    "Resources": {
        "Table": {
            "Type": "AWS::DynamoDB::Table",
            "Properties": {
                "TableName": "previous",
                "KeySchema": [
                    {"AttributeName": "pk", "KeyType": "HASH"},
                    {"AttributeName": "sk", "KeyType": "RANGE"},
                ],
                "AttributeDefinitions": [
                    {"AttributeName": "pk", "AttributeType": "S"},
                    {"AttributeName": "sk", "AttributeType": "S"},
                ],
                "BillingMode": "PAY_PER_REQUEST",
            },
        },
        "Queue": {"Type": "AWS::SQS::Queue"},
        "VoiceTurn": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Handler": "functions.entry.handler",
                "Role": f"arn:aws:iam::{ACCOUNT}:role/role",
                "Runtime": "python3.13",
                "Code": {"ZipFile": "x"},
            },
        },
        "VoiceTurnFromQueue": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "FunctionName": {"Ref": "VoiceTurn"},
                "EventSourceArn": {"Fn::GetAtt": ["Queue", "Arn"]},
            },
        },
        "SweepSchedule": {"Type": "AWS::Events::Rule", "Properties": {"ScheduleExpression": "rate(1 minute)"}},
        "Api": {"Type": "AWS::ApiGateway::RestApi", "Properties": {"Name": "api"}},
        "ApiGet": {
            "Type": "AWS::ApiGateway::Method",
            "Properties": {
                "RestApiId": {"Ref": "Api"},
                "ResourceId": {"Fn::GetAtt": ["Api", "RootResourceId"]},
                "HttpMethod": "GET",
                "AuthorizationType": "NONE",
                "Integration": {"Type": "HTTP", "IntegrationHttpMethod": "GET", "Uri": "http://api.test"},
            },
        },
        "ApiStage": {
            "Type": "AWS::ApiGateway::Deployment",
            "DependsOn": ["ApiGet"],
            "Properties": {"RestApiId": {"Ref": "Api"}, "StageName": "dev"},
        },
    },
    "Outputs": {
        TABLE_OUTPUT: {"Value": "previous"},
        API_OUTPUT: {"Value": "https://api.test"},
        DUE_SHARDS_OUTPUT: {"Value": "8"},
        RECORDINGS_OUTPUT: {"Value": "recordings"},
        ERASURES_OUTPUT: {"Value": "erasures"},
    },
}
"""What of a stage a restore touches."""
CDK = """#!{python}
import boto3, os, pathlib, sys
STACK, templates = "appointments-dev", pathlib.Path(__file__).parent
formation, s3 = boto3.client("cloudformation"), boto3.client("s3")
with open(os.environ["CALLS"], "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
if "synth" in sys.argv:
    pathlib.Path("cdk.out").mkdir(exist_ok=True)
    pathlib.Path(f"cdk.out/{{STACK}}.template.json").write_text('''
        {{"Resources": {{"RestoredTable1A2B3C4D": {{"Metadata": {{"aws:cdk:path": "dev/RestoredTable/Resource"}}}}}}}}
    ''')
elif "import" in sys.argv:
    sys.exit("the import failed" if os.environ.get("FAILS") else 0)
elif "deploy" in sys.argv and "RESTORED" in os.environ:
    text = (templates / "live.json").read_text()
    formation.update_stack(StackName=STACK, TemplateBody=text.replace('"Value": "previous"', os.environ["RESTORED"]))
elif "deploy" in sys.argv:
    formation.create_stack(StackName=STACK, TemplateBody=(templates / "first.json").read_text())
    s3.put_bucket_versioning(Bucket="ours", VersioningConfiguration={{"Status": "Enabled"}})
    for body in (b"1", b"2"):
        s3.put_object(Bucket="ours", Key="object", Body=body)
    sys.exit("the deploy failed")
else:
    formation.delete_stack(StackName=STACK)
"""
"""In place of npx: a first deploy that creates the stack and then fails, what a restore needs, and a destroy."""

Rehearse = Callable[..., int]


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """An account with a bucket of somebody else. Gives a function that creates clients."""
    npx = tmp_path / "npx"
    npx.write_text(CDK.format(python=sys.executable))
    npx.chmod(0o755)
    (tmp_path / "first.json").write_text(json.dumps(TEMPLATE))
    (tmp_path / "live.json").write_text(json.dumps(LIVE))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    for name, value in {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "DEFAULT_REGION": REGION}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with mock_aws(), moto_server.serving() as urls:
        monkeypatch.setenv("AWS_ENDPOINT_URL", next(iter(urls.values())))
        sdk: Any = boto3
        sdk.client("s3").create_bucket(Bucket="theirs", CreateBucketConfiguration={"LocationConstraint": REGION})
        yield sdk.client


@pytest.fixture
def rehearse(tmp_path: Path) -> Rehearse:
    """Run the command, with its files in a folder of the test's."""
    return lambda *options: main([*options, "--folder", str(tmp_path / "rehearsal")])


def buckets(account: Any) -> set[str]:
    return {each["Name"] for each in account("s3").list_buckets()["Buckets"]}


def entry() -> dict[str, Any]:
    """The stage that infra/README.md describes."""
    text = (ROOT / "infra" / "README.md").read_text(encoding="utf-8").partition("## The rehearsal\n")[2]
    block = text.partition("```json\n")[2].partition("```")[0]
    found: dict[str, Any] = json.loads(f"{{{block}}}")
    return found


@pytest.mark.parametrize(
    ("stage", "words"),
    [("other", "cdk.json has no stage 'other'"), ("prod", "prod may not be rehearsed on")],
)
def test_a_stage_that_is_unknown_or_keeps_data_is_refused(
    account: Any, rehearse: Rehearse, capsys: pytest.CaptureFixture[str], stage: str, words: str
) -> None:
    assert rehearse("--stage", stage, "--account", ACCOUNT) == 1
    assert words in capsys.readouterr().err


def test_a_stage_that_exists_already_is_refused(
    account: Any, rehearse: Rehearse, capsys: pytest.CaptureFixture[str]
) -> None:
    account("cloudformation").create_stack(StackName=STACK, TemplateBody=json.dumps(TEMPLATE))
    for options in ((), ("--clean-up",)):
        assert rehearse("--stage", "dev", "--account", ACCOUNT, *options) == 1
        assert f"the stack {STACK} is CREATE_COMPLETE, and not from a rehearsal" in capsys.readouterr().err
    assert buckets(account) == {"ours", "theirs"}


@pytest.mark.parametrize("answer", ["yes\n", "\n", "210987654321\n"])
def test_nothing_is_done_unless_the_accounts_number_confirms_account_and_price(
    account: Any,
    rehearse: Rehearse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    assert rehearse("--stage", "dev") == 1
    said = capsys.readouterr()
    assert f"in account {ACCOUNT}, region {REGION}" in said.out
    assert f"costs less than ${price(STEPS)} " in said.out
    assert "not confirmed" in said.err
    assert not (tmp_path / "rehearsal").exists()
    assert not (tmp_path / "calls").exists()


def test_a_rehearsal_that_fails_is_reported_continued_and_cleaned_up(
    account: Any, rehearse: Rehearse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--stage", "dev", "--account", ACCOUNT)
    folder = tmp_path / "rehearsal" / "dev"
    assert rehearse(*options, "--only", "first_release") == 1
    said = capsys.readouterr().out
    assert re.search(r"^first_release: FAILED, .* ended with 1:$", said, re.MULTILINE), said
    assert "Continue with `python -m infra.rehearse --stage dev`, or delete it" in said
    assert "| first_release | FAILED |" in (folder / "report.md").read_text()
    assert "the deploy failed" in (folder / "log.txt").read_text()
    assert buckets(account) == {"ours", "theirs"}

    assert rehearse(*options, "--clean-up") == 0
    assert "clean_up: ok" in capsys.readouterr().out
    assert buckets(account) == {"theirs"}
    assert not account("cloudformation").list_stacks(StackStatusFilter=["CREATE_COMPLETE"])["StackSummaries"]
    assert {each.name for each in folder.iterdir()} == {"report.md", "log.txt"}
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [
        "--no-install cdk deploy --all --context stage=dev",
        "--no-install cdk destroy --all --force --context stage=dev",
    ]
    assert rehearse(*options, "--clean-up") == 1
    assert "there is nothing to clean up" in capsys.readouterr().err


def test_a_rehearsal_is_continued_only_where_it_began(
    account: Any,
    rehearse: Rehearse,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert rehearse("--stage", "dev", "--account", ACCOUNT, "--only", "first_release") == 1
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert rehearse("--stage", "dev", "--account", ACCOUNT, "--clean-up") == 1
    assert f"the rehearsal began in {ACCOUNT}, {REGION}" in capsys.readouterr().err
    assert "ours" in buckets(account)


def test_a_restore_that_was_interrupted_goes_on_and_leaves_a_table_as_the_template_has_it(
    account: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account("iam").create_role(RoleName="role", AssumeRolePolicyDocument="{}")
    account("cloudformation").create_stack(StackName=STACK, TemplateBody=json.dumps(LIVE))
    gateway, dynamodb, functions = account("apigateway"), account("dynamodb"), account("lambda")
    (api,) = (each["id"] for each in gateway.get_rest_apis()["items"])

    def respond(_: Request) -> bytes:
        methods = gateway.get_stage(restApiId=api, stageName="dev")["methodSettings"]
        rates = {each["throttlingRateLimit"] for each in methods.values()}
        return response(429) if rates == {0} else response(body={"object": "second ping"})

    recovery = {"PointInTimeRecoveryEnabled": True}
    dynamodb.update_continuous_backups(TableName="previous", PointInTimeRecoverySpecification=recovery)
    instant = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=1)
    new = "appointments-dev-restored-1"
    with endpoint(answer_always(respond)) as served:
        address = urlsplit(served.url).netloc
        made = Rehearsal(parse("dev", context()["stages"]["dev"]), REGION, tmp_path, dry=False, connect_to=address)
        made.state = {"instant": instant.isoformat()}
        monkeypatch.setenv("RESTORED", f'"Value": "{new}"')
        monkeypatch.setenv("FAILS", "1")
        with pytest.raises(Failed, match="the import failed"):
            BY_NAME["restore"].act(made)
        monkeypatch.delenv("FAILS")
        again = Rehearsal(made.stage, REGION, tmp_path, dry=False, connect_to=address)
        again.state = json.loads((tmp_path / "state.json").read_text())
        assert BY_NAME["restore"].act(again).startswith(f"{new} has the state of {instant.isoformat()}")

    found = dynamodb.describe_table(TableName=new)["Table"]
    assert found["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": topology.TABLE.stream}
    expiry = dynamodb.describe_time_to_live(TableName=new)["TimeToLiveDescription"]
    assert expiry == {"TimeToLiveStatus": "ENABLED", "AttributeName": topology.TABLE.ttl}
    backups = dynamodb.describe_continuous_backups(TableName=new)["ContinuousBackupsDescription"]
    assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
    tags = dynamodb.list_tags_of_resource(ResourceArn=found["TableArn"])["Tags"]
    assert {each["Key"]: each["Value"] for each in tags} == {"service": "appointments", "stage": "dev"}
    assert [each["State"] for each in account("events").list_rules()["Rules"]] == ["DISABLED"]
    (mapping,) = functions.list_event_source_mappings()["EventSourceMappings"]
    assert mapping["State"] == "Disabled"
    (function,) = (each["FunctionName"] for each in functions.list_functions()["Functions"])
    assert functions.get_function_concurrency(FunctionName=function)["ReservedConcurrentExecutions"] == 0
    mapping_of_ids = '--resource-mapping-inline {"RestoredTable1A2B3C4D": {"TableName": "' + new + '"}}'
    imported = f"--no-install cdk import {STACK} --force {mapping_of_ids} --context stage=dev"
    synth = "--no-install cdk synth --quiet --context stage=dev"
    deploy = "--no-install cdk deploy --all --context stage=dev"
    assert (tmp_path / "calls").read_text().splitlines() == [synth, imported, synth, imported, deploy]


def test_the_stage_that_the_readme_describes_is_like_prod_but_keeps_nothing() -> None:
    ((name, settings),) = entry().items()
    stage, prod = parse(name, settings), context()["stages"]["prod"]
    assert not stage.keep_data
    assert (stage.canary, stage.traffic_shift) == (prod["canary"], prod["traffic_shift"])


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_can_be_made_from_the_repository(tmp_path: Path, release: str) -> None:
    copy(ROOT, tmp_path / release, RELEASES[release])
    for edit in RELEASES[release]:
        text = (tmp_path / release / edit.path).read_text()
        assert edit.after in text
        compile(text, edit.path, "exec")
    assert json.loads((tmp_path / release / "cdk.json").read_text())["requireApproval"] == "never"


PRINTED = {
    "preflight": ["python -m infra.preflight rehearsal"],
    "first_release": ["first && python -m infra.deploy rehearsal", "GET <ApiUrl>/v1/ping"],
    "canary": [
        'lambda Invoke {"FunctionName": "<CanaryLive>", "Payload": "{}"}',
        'cloudwatch DescribeAlarms {"AlarmNames": ["appointments-rehearsal-canary-CanaryFailed"]}',
    ],
    "sign_in": [
        "python -m infra.manage --stage rehearsal members add '<project>' ada@example.com --role owner",
        "Sign in at <AdminUrl>",
    ],
    "failing_endpoint": ['POST <ApiUrl>/v1/webhook_endpoints {"url": "<ApiUrl>/v1/ping"', "lambda Invoke"],
    "second_release": ["five times a second GET /v1/ping", "second && python -m infra.deploy rehearsal"],
    "rollback": ["python -m infra.rollback rehearsal", "second && python -m infra.deploy rehearsal"],
    "bad_release": ['raise RuntimeError("rehearsed")', "bad && python -m infra.deploy rehearsal"],
    "live_call": ["calls limit '<project>' --prefix +1 ", "POST <ApiUrl>/v1/customers/<id>/call {}"],
    "erase": ["python -m infra.manage --stage rehearsal customers erase '<project>' '<id>' --mode test"],
    "restore": [
        '"path": "/*/*/throttling/rateLimit", "value": "0"',
        '"path": "/~1v1~1conversations~1{id}~1messages/POST/throttling/burstLimit", "value": "0"',
        'events DisableRule {"Name": "<SweepSchedule>"}',
        'events DisableRule {"Name": "<CanarySchedule>"}',
        'lambda UpdateEventSourceMapping {"UUID": "each-AWS-Lambda-EventSourceMapping-of-the-stack", "Enabled": false}',
        'lambda PutFunctionConcurrency {"FunctionName": "<VoiceTurn>", "ReservedConcurrentExecutions": 0}',
        'dynamodb RestoreTableToPointInTime {"SourceTableName": "<TableName>", "TargetTableName": '
        '"appointments-rehearsal-restored-1", "RestoreDateTime": "2026-11-21T10:15:00+00:00"}',
        'dynamodb UpdateTable {"TableName": "appointments-rehearsal-restored-1", "StreamSpecification": '
        '{"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"}}',
        "dynamodb UpdateTimeToLive",
        "dynamodb UpdateContinuousBackups",
        "dynamodb TagResource",
        'self, "Table", -> self, "RestoredTable",',
        "npx --no-install cdk import appointments-rehearsal --force --resource-mapping-inline "
        """'{"RestoredTable": {"TableName": "appointments-rehearsal-restored-1"}}' --context stage=rehearsal""",
        "restored && python -m infra.deploy rehearsal",
    ],
    "erase_from_ledger": [
        "python -m infra.manage --stage rehearsal opt-outs apply",
        "python -m infra.manage --stage rehearsal customers erase --from-ledger",
        '"Enabled": true}',
        'lambda DeleteFunctionConcurrency {"FunctionName": "<VoiceTurn>"}',
        'events EnableRule {"Name": "<CanarySchedule>"}',
        '"path": "/*/*/throttling/rateLimit", "value": "500"',
    ],
    "clean_up": [
        "s3 ListObjectVersions",
        "s3 DeleteObjects",
        "npx --no-install cdk destroy --all --force --context stage=rehearsal",
        "s3 DeleteBucket",
        'dynamodb DeleteTable {"TableName": "new"}',
    ],
}
"""What a dry run prints of each step, in this order."""


def dry() -> Rehearsal:
    """A dry run on the stage that infra/README.md describes, with live calls."""
    ((stage, settings),) = entry().items()
    state = {"instant": "2026-11-21T10:15:00Z", "kept": "k", "lost": "l", "forgotten": "f", "new_table": "new"}
    made = Rehearsal(
        parse(stage, settings | {"connect": CALLS["connect"]}), REGION, ROOT / ".rehearsal", dry=True, state=state
    )
    made.email, made.phone = "ada@example.com", "+1"
    return made


@pytest.mark.parametrize("name", BY_NAME)
def test_a_dry_run_prints_the_commands_and_calls_in_order_and_uses_no_network(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable, raising=False)
    # Nobody listens there.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    made = dry()
    assert BY_NAME[name].skipped(made) == ""
    BY_NAME[name].act(made)
    said = capsys.readouterr().out
    at = 0
    for line in PRINTED[name]:
        assert line in said[at:], f"{line} is not in\n{said[at:]}"
        at += said[at:].index(line)


def test_a_dry_run_of_the_command_prints_every_step(rehearse: Rehearse, capsys: pytest.CaptureFixture[str]) -> None:
    assert rehearse("--stage", "dev", "--dry-run") == 0
    said = capsys.readouterr().out
    for step in BY_NAME.values():
        assert f"{step.name}: {step.does}" in said
        assert f"# must be seen: {step.sees}" in said


def test_what_the_steps_ask_the_stack_for_by_name_is_one_thing(
    prod: Synthesized, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("canary", "restore"):
        BY_NAME[name].act(dry())
    said = capsys.readouterr().out
    asked = set(re.findall(r'(\w+) \{"(?:FunctionName|Name|restApiId)": "<(\w+)>"', said))
    kinds = {
        "Invoke": "AWS::Lambda::Alias",
        "PutFunctionConcurrency": "AWS::Lambda::Function",
        "DisableRule": "AWS::Events::Rule",
        "UpdateStage": "AWS::ApiGateway::RestApi",
    }
    assert {operation for operation, _ in asked} == kinds.keys()
    for operation, name in asked:
        assert len([found for found in prod.all(kinds[operation]) if found.startswith(name)]) == 1, name
    assert "appointments-prod-canary-CanaryFailed" in {alarm["AlarmName"] for alarm in prod.alarms.values()}
