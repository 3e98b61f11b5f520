"""What `make deploy` asks of the account first, against an account on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest

from infra import preflight
from infra.app import context
from infra.stage import parse
from tests.support.synth import ACCOUNT, COPIES_REGION, OWNED, REGION

REGIONS = (REGION, COPIES_REGION)
OTHER_ACCOUNT = "111122223333"
NEEDED = sum(context()["stages"]["prod"]["reserved_concurrency"].values()) + 100

Account = Callable[..., None]


@pytest.fixture
def model() -> dict[str, str]:
    """What Bedrock has against the model: `status`, `code` and `message`; nothing as long as it is empty."""
    return {}


@pytest.fixture
def excluded_regions() -> dict[str, str]:
    """By region, the setting of AWS Backup that excludes DynamoDB, or the message with which it refuses to tell."""
    return {}


@pytest.fixture
def account(
    monkeypatch: pytest.MonkeyPatch, model: dict[str, str], excluded_regions: dict[str, str]
) -> Iterator[Account]:
    """Says whose the credentials are, how many executions the account may have at once, and who has reserved some.

    `others` are reserved by functions of other stacks, `stage` by the one function that the deployed stage has.
    """
    limits: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/account-settings":
                self._answer(*settings_of_backups(self.headers["Authorization"], excluded_regions))
                return
            assert f"/{REGION}/lambda/" in self.headers["Authorization"]
            if self.path.endswith("/functions/stage-deliver/concurrency"):
                self._answer(json.dumps({"ReservedConcurrentExecutions": limits["stage"]}))
                return
            assert self.path == "/2016-08-19/account-settings"
            free = limits["allowed"] - limits["others"] - (limits["stage"] or 0)
            found = {"ConcurrentExecutions": limits["allowed"], "UnreservedConcurrentExecutions": free}
            self._answer(json.dumps({"AccountLimit": found}))

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.endswith("/converse"):
                self._converse(json.loads(sent))
                return
            if "ListStackResources" in parse_qs(sent.decode())["Action"]:
                self._answer(*resources_response(limits["table"], deployed=limits["stage"] is not None))
                return
            result = f"<GetCallerIdentityResult><Account>{limits['account']}</Account></GetCallerIdentityResult>"
            self._answer(f"<GetCallerIdentityResponse>{result}</GetCallerIdentityResponse>")

        def _converse(self, asked: Any) -> None:
            assert f"/{REGION}/bedrock/" in self.headers["Authorization"]
            assert unquote(self.path) == f"/model/{PROD.model}/converse"
            assert asked["inferenceConfig"] == {"maxTokens": 1}
            self._answer(*reply_of(model))

        def _answer(self, body: str, status: int = 200, headers: Mapping[str, str] = MappingProxyType({})) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.delenv("AWS_PROFILE", raising=False)

    def tell(
        account: str, allowed: int, *, others: int = 0, stage: int | None = None, table: str = "AWS::DynamoDB::Table"
    ) -> None:
        limits.update(account=account, allowed=allowed, others=others, stage=stage, table=table)

    yield tell
    server.shutdown()
    server.server_close()


def reply_of(model: Mapping[str, str]) -> tuple[str, int, dict[str, str]]:
    """Bedrock's response to a conversation with the model, its status and headers."""
    if "code" in model:
        return json.dumps({"message": model["message"]}), int(model["status"]), {"x-amzn-ErrorType": model["code"]}
    reply = {"message": {"role": "assistant", "content": [{"text": "Hi"}]}}
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    return (
        json.dumps({"output": reply, "stopReason": "max_tokens", "usage": usage, "metrics": {"latencyMs": 1}}),
        200,
        {},
    )


def settings_of_backups(authorization: str, excluded: Mapping[str, str]) -> tuple[str, int, dict[str, str]]:
    """AWS Backup's response to a request for the settings of a region, its status and headers."""
    (region,) = [each for each in REGIONS if f"/{each}/backup/" in authorization]
    wrong = excluded.get(region, "")
    if " " in wrong:
        return json.dumps({"Message": wrong}), 403, {"x-amzn-ErrorType": "AccessDeniedException"}
    names = ("ResourceTypeOptInPreference", "ResourceTypeManagementPreference")
    return json.dumps({name: {"DynamoDB": name != wrong} for name in names}), 200, {}


def resources_response(tables: str, *, deployed: bool) -> tuple[str, int]:
    """CloudFormation's response to a request for the resources of the stack, and its status.

    `tables` are the types of its tables, with spaces in between.
    """
    if not deployed:
        error = "<Code>ValidationError</Code><Message>Stack with id appointments-prod does not exist</Message>"
        return f"<ErrorResponse><Error>{error}</Error></ErrorResponse>", 400
    members = "".join(
        f"<member><ResourceType>{kind}</ResourceType><PhysicalResourceId>{id}</PhysicalResourceId></member>"
        for kind, id in (
            ("AWS::Lambda::Function", "stage-deliver"),
            *((each, "stage-table") for each in tables.split()),
        )
    )
    page = f"<StackResourceSummaries>{members}</StackResourceSummaries>"
    return f"<R><ListStackResourcesResult>{page}</ListStackResourcesResult></R>", 200


PROD = parse("prod", context()["stages"]["prod"] | OWNED)


def test_an_account_with_room_takes_the_stage(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account(ACCOUNT, NEEDED)
    assert [*preflight.refusals(PROD)] == []
    assert capsys.readouterr() == ("", "")


def test_another_account_is_refused_in_one_line(account: Account) -> None:
    account(OTHER_ACCOUNT, 10_000)
    (line,) = preflight.refusals(PROD)
    assert line == f"stage prod belongs to account {ACCOUNT}; these credentials are of account {OTHER_ACCOUNT}"


def test_too_small_an_account_is_refused_with_what_to_request(account: Account) -> None:
    account(ACCOUNT, NEEDED - 1)
    (line,) = preflight.refusals(PROD)
    assert f"needs {NEEDED} concurrent executions" in line
    assert "aws service-quotas request-service-quota-increase --service-code lambda" in line


def test_a_second_stage_in_the_account_is_refused_before_its_deploy_fails(account: Account) -> None:
    account(ACCOUNT, 2 * NEEDED - 101, others=NEEDED - 100)
    (line,) = preflight.refusals(PROD)
    assert f"needs {NEEDED} concurrent executions" in line
    assert f"the account has {NEEDED - 1}, and {NEEDED - 100} more that other functions have reserved" in line
    assert line.endswith(f"--desired-value {2 * NEEDED - 100}")


def test_what_the_stage_itself_has_reserved_counts_as_free(account: Account) -> None:
    account(ACCOUNT, NEEDED, stage=NEEDED - 100)
    assert [*preflight.refusals(PROD)] == []


WRONG_ID = ("400", "ValidationException", "The provided model identifier is invalid.")
ON_DEMAND = ("400", "ValidationException", "Invocation of model ID with on-demand throughput isn\u2019t supported.")
NO_ACCESS = ("403", "AccessDeniedException", "You don't have access to the model with the specified model ID.")
FORBIDDEN = ("403", "AccessDeniedException", "not authorized, with an explicit deny in a service control policy")
RETIRED = ("404", "ResourceNotFoundException", "This model version has reached the end of its life.")


@pytest.mark.parametrize("trouble", [WRONG_ID, ON_DEMAND, NO_ACCESS, FORBIDDEN, RETIRED])
def test_a_model_that_the_account_cannot_call_is_refused_with_what_bedrock_says(
    account: Account, model: dict[str, str], trouble: tuple[str, str, str]
) -> None:
    account(ACCOUNT, NEEDED)
    status, code, message = trouble
    model.update(status=status, code=code, message=message)
    (line,) = preflight.refusals(PROD)
    assert line.startswith(f"stage prod cannot use the model {PROD.model} in {REGION}: {code}: {message}")
    assert "`model` in cdk.json" in line


def test_trouble_with_the_model_does_not_keep_a_repair_from_being_deployed(
    account: Account, model: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    account(ACCOUNT, NEEDED)
    status, code, message = RETIRED
    model.update(status=status, code=code, message=message)
    assert [*preflight.refusals(PROD, emergency=True)] == []
    assert f"cannot use the model {PROD.model}" in capsys.readouterr().out


def test_credentials_that_may_not_call_models_deploy_without_the_check_and_are_told(
    account: Account, model: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    account(ACCOUNT, NEEDED)
    message = "User is not authorized to perform: bedrock:InvokeModel because no identity-based policy allows it"
    model.update(status="403", code="AccessDeniedException", message=message)
    assert [*preflight.refusals(PROD)] == []
    assert "was not checked: these credentials lack bedrock:InvokeModel" in capsys.readouterr().out


def test_a_model_that_is_busy_does_not_keep_a_stage_from_being_deployed(
    account: Account, model: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    account(ACCOUNT, NEEDED)
    model.update(status="429", code="ThrottlingException", message="Too many requests")
    assert [*preflight.refusals(PROD)] == []
    assert "Bedrock did not respond: ThrottlingException" in capsys.readouterr().out


def test_a_stage_that_lacks_what_its_owner_knows_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert preflight.main(["prod"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    lacked = "account, region, alarm_topic or alarm_email, backup"
    assert line == f"infra.preflight: stage prod: it keeps data and lacks {lacked}"


def test_a_stage_that_reserves_nothing_is_deployed_to_a_new_account_with_a_word_of_advice(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    account(OTHER_ACCOUNT, 10)
    assert preflight.main(["dev"]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "the account has 10" in told.out


@pytest.mark.parametrize("deployed", ["Table", "GlobalTable"])
@pytest.mark.parametrize("wanted", ["Table", "GlobalTable"])
def test_a_deploy_that_would_replace_the_table_by_an_empty_one_is_refused(
    account: Account, deployed: str, wanted: str
) -> None:
    account(ACCOUNT, NEEDED, stage=0, table=f"AWS::DynamoDB::{deployed}")
    replica = {"replica_region": OWNED["backup"]["region"]} if wanted == "GlobalTable" else {}
    refusals = [*preflight.refusals(parse("prod", context()["stages"]["prod"] | OWNED | replica))]
    assert [("empty one" in line, "A replica of the table" in line) for line in refusals] == (
        [] if deployed == wanted else [(True, True)]
    )


@pytest.mark.parametrize("replica", [{}, {"replica_region": OWNED["backup"]["region"]}])
def test_the_deploy_after_the_import_of_a_table_of_the_other_type_is_allowed(
    account: Account, replica: dict[str, str]
) -> None:
    account(ACCOUNT, NEEDED, stage=0, table="AWS::DynamoDB::Table AWS::DynamoDB::GlobalTable")
    assert [*preflight.refusals(parse("prod", context()["stages"]["prod"] | OWNED | replica))] == []


@pytest.mark.parametrize("setting", ["ResourceTypeOptInPreference", "ResourceTypeManagementPreference"])
@pytest.mark.parametrize("region", REGIONS)
def test_a_region_whose_settings_exclude_backups_of_dynamodb_is_refused_with_the_command(
    account: Account, excluded_regions: dict[str, str], region: str, setting: str
) -> None:
    account(ACCOUNT, NEEDED)
    excluded_regions[region] = setting
    (line,) = preflight.refusals(PROD)
    assert f"AWS Backup's settings in {region} exclude DynamoDB" in line
    assert line.endswith(f"--resource-type-management-preference DynamoDB=true --region {region}")


@pytest.mark.parametrize(
    ("trouble", "says"),
    [
        ("ResourceTypeManagementPreference", f"settings in {COPIES_REGION} exclude DynamoDB"),
        ("explicit deny in a service control policy", f"AWS Backup did not say its settings in {COPIES_REGION}: "),
    ],
)
def test_trouble_with_backups_does_not_keep_a_repair_from_being_deployed(
    account: Account, excluded_regions: dict[str, str], capsys: pytest.CaptureFixture[str], trouble: str, says: str
) -> None:
    account(ACCOUNT, NEEDED)
    excluded_regions[COPIES_REGION] = trouble
    (line,) = preflight.refusals(PROD)
    assert says in line
    assert [*preflight.refusals(PROD, emergency=True)] == []
    assert line in capsys.readouterr().out


def test_credentials_that_may_not_read_the_settings_of_backups_deploy_without_the_check_and_are_told(
    account: Account, excluded_regions: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    account(ACCOUNT, NEEDED)
    excluded_regions[COPIES_REGION] = "no identity-based policy allows the backup:DescribeRegionSettings action"
    assert [*preflight.refusals(PROD)] == []
    assert f"AWS Backup was not checked in {COPIES_REGION}" in capsys.readouterr().out


def test_a_stage_that_nobody_described_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert preflight.main(["live"]) == 1
    assert "no stage 'live'" in capsys.readouterr().err
