"""Backups of a stage that keeps its data: every night, kept as long as it says, copied into another region."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App

from infra.stack import ServiceStack
from infra.stack_names import copies_name
from tests.support.synth import ACCOUNT, COPIES_REGION, Synthesized, lint_findings
from tests.support.templates import flat


@pytest.fixture(scope="module")
def copies(stacks: dict[str, ServiceStack], stages: dict[str, Synthesized]) -> dict[str, Any]:
    """The template of the stack of prod's second vault."""
    app = stacks["prod"].node.root
    assert isinstance(app, App)
    made = app.synth().get_stack_by_name(copies_name("prod"))
    assert (made.environment.account, made.environment.region) == (ACCOUNT, COPIES_REGION)
    assert made.termination_protection is True
    found: dict[str, Any] = json.loads(Path(made.template_full_path).read_text(encoding="utf-8"))
    return found


def vaults(template: dict[str, Any]) -> list[dict[str, Any]]:
    return [made for made in template["Resources"].values() if made["Type"] == "AWS::Backup::BackupVault"]


def test_the_table_is_backed_up_daily_and_copied_into_the_other_vault(prod: Synthesized, copies: Any) -> None:
    ((plan_id, plan),) = prod.all("AWS::Backup::BackupPlan").items()
    (rule,) = plan["BackupPlan"]["BackupPlanRule"]
    assert rule["ScheduleExpression"].startswith("cron(0 3 * * ? *")
    (vault,) = vaults(prod.template)
    assert rule["TargetBackupVault"]["Fn::GetAtt"][0] in prod.template["Resources"]
    (copy,) = rule["CopyActions"]
    (second,) = vaults(copies)
    name = second["Properties"]["BackupVaultName"]
    expected = f"arn:${{AWS::Partition}}:backup:{COPIES_REGION}:{ACCOUNT}:backup-vault:{name}"
    assert flat(copy["DestinationBackupVaultArn"]) == expected
    assert name != vault["Properties"]["BackupVaultName"]
    assert rule["Lifecycle"] == copy["Lifecycle"] == {"DeleteAfterDays": 35}
    (selection,) = prod.all("AWS::Backup::BackupSelection").values()
    assert selection["BackupPlanId"] == {"Fn::GetAtt": [plan_id, "BackupPlanId"]}
    assert selection["BackupSelection"]["Resources"] == [{"Fn::GetAtt": [prod.table, "Arn"]}]


def test_the_second_vault_outlives_its_stack_too(copies: Any) -> None:
    assert lint_findings(copies) == []
    (vault,) = vaults(copies)
    assert (vault["DeletionPolicy"], vault["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


def test_a_vaults_name_is_one_that_aws_takes() -> None:
    assert len(copies_name("x" * 32)) <= 50


def test_only_a_stage_with_the_setting_has_backups(stages: dict[str, Synthesized]) -> None:
    for name, stage in stages.items():
        assert bool(vaults(stage.template)) is (name in ("prod", "calls"))
