"""Backups of a stage that keeps its data: every night, kept as long as it says, copied into another region."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App

from infra.stack import ServiceStack
from infra.stack_names import PRIMARY_KEY, RESTORE_ROLE_OUTPUT, SIGNING_KEY_OUTPUT, copies_name, ledger_copy_name
from infra.stage import LONGEST_NAME_WITH_BACKUP
from tests.support.synth import ACCOUNT, COPIES_REGION, REGION, REPLICA, Synthesized, lint_findings
from tests.support.templates import allowed_pairs, flatten

INDEXES = "GlobalSecondaryIndexes"


@pytest.fixture(scope="module")
def copies(stacks: dict[str, ServiceStack], stages: dict[str, Synthesized]) -> dict[str, Any]:
    """The template of the stack of prod's copies."""
    return copies_of(stacks, "prod")


def copies_of(stacks: dict[str, ServiceStack], stage: str) -> dict[str, Any]:
    app = stacks[stage].node.root
    assert isinstance(app, App)
    made = app.synth().get_stack_by_name(copies_name(stage))
    assert (made.environment.account, made.environment.region) == (ACCOUNT, COPIES_REGION)
    assert made.termination_protection is True
    found: dict[str, Any] = json.loads(Path(made.template_full_path).read_text(encoding="utf-8"))
    return found


def resource(template: dict[str, Any], kind: str) -> dict[str, Any]:
    """The one resource of a type."""
    (found,) = [made for made in template["Resources"].values() if made["Type"] == kind]
    return dict(found)


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
    assert flatten(copy["DestinationBackupVaultArn"]) == expected
    assert name != vault["Properties"]["BackupVaultName"]
    assert rule["Lifecycle"] == copy["Lifecycle"] == {"DeleteAfterDays": 35}
    (selection,) = prod.all("AWS::Backup::BackupSelection").values()
    assert selection["BackupPlanId"] == {"Fn::GetAtt": [plan_id, "BackupPlanId"]}
    assert selection["BackupSelection"]["Resources"] == [{"Fn::GetAtt": [prod.table, "Arn"]}]


def test_a_backup_that_has_not_started_within_an_hour_has_failed(prod: Synthesized) -> None:
    (plan,) = prod.all("AWS::Backup::BackupPlan").values()
    (rule,) = plan["BackupPlan"]["BackupPlanRule"]
    assert rule["StartWindowMinutes"] == 60


def test_copies_are_locked_in_governance_mode_where_the_stage_says_so(stacks: dict[str, ServiceStack]) -> None:
    assert "LockConfiguration" not in vaults(copies_of(stacks, "prod"))[0]["Properties"]
    # A date from which nobody could change it is what makes compliance mode.
    assert vaults(copies_of(stacks, "calls"))[0]["Properties"]["LockConfiguration"] == {"MinRetentionDays": 35}


def test_the_ledger_is_replicated_to_the_region_of_the_copies_and_nothing_is_deleted_there(
    prod: Synthesized, copies: Any
) -> None:
    (rule,) = prod[prod.erasures]["ReplicationConfiguration"]["Rules"]
    assert (rule["Status"], rule["Filter"], rule["DeleteMarkerReplication"]) == (
        "Enabled",
        {"Prefix": ""},
        {"Status": "Disabled"},
    )
    bucket = resource(copies, "AWS::S3::Bucket")
    name = bucket["Properties"]["BucketName"]
    assert flatten(rule["Destination"]["Bucket"]) == f"arn:${{AWS::Partition}}:s3:::{name}"
    assert bucket["Properties"]["VersioningConfiguration"] == {"Status": "Enabled"}
    assert bucket["DeletionPolicy"] == "RetainExceptOnCreate"
    (encryption,) = bucket["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    role = prod[prod.erasures]["ReplicationConfiguration"]["Role"]["Fn::GetAtt"][0]
    assert {action for action, _ in allowed_pairs(prod.statements(role))} == {
        "s3:GetReplicationConfiguration",
        "s3:ListBucket",
        "s3:GetObjectVersionForReplication",
        "s3:GetObjectVersionAcl",
        "s3:GetObjectVersionTagging",
        "s3:ReplicateObject",
        "s3:ReplicateTags",
    }


def test_the_name_of_the_ledgers_copy_is_one_that_s3_takes() -> None:
    longest = ledger_copy_name("X" * LONGEST_NAME_WITH_BACKUP, "ap-southeast-1", ACCOUNT)
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", longest)


def test_the_signing_key_has_a_replica_in_the_region_of_the_copies(prod: Synthesized, copies: Any) -> None:
    assert prod[prod.key]["MultiRegion"] is True
    replica = resource(copies, "AWS::KMS::ReplicaKey")
    assert replica["Properties"]["PrimaryKeyArn"] == {"Ref": PRIMARY_KEY}
    # The key exists only after the first deploy of the stage's own stack, which needs this one.
    assert copies["Parameters"][PRIMARY_KEY]["Default"] == ""
    assert copies["Conditions"][replica["Condition"]] == {"Fn::Not": [{"Fn::Equals": [{"Ref": PRIMARY_KEY}, ""]}]}
    assert (replica["DeletionPolicy"], replica["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    assert copies["Outputs"][SIGNING_KEY_OUTPUT]["Condition"] == replica["Condition"]


def test_a_stage_whose_region_was_lost_uses_the_replica(stages: dict[str, Synthesized]) -> None:
    stage = stages["calls"]
    keys = [key["Description"] for key in stage.all("AWS::KMS::Key").values()]
    assert not any("signing secrets" in description for description in keys)
    for name in ("deliver", "webhook_endpoints"):
        assert stage[stage.functions[name]]["Environment"]["Variables"]["SIGNING_KEY"] == REPLICA
        rights = allowed_pairs(stage.statements(stage.role_of(name)))
        assert {resource for action, resource in rights if action.startswith("kms:")} == {json.dumps(REPLICA)}


def test_a_role_that_restores_is_there_before_it_is_needed(copies: Any) -> None:
    role = resource(copies, "AWS::IAM::Role")
    assert "AWSBackupServiceRolePolicyForRestores" in flatten(role["Properties"]["ManagedPolicyArns"][0])
    assert RESTORE_ROLE_OUTPUT in copies["Outputs"]


def test_a_replica_of_the_table_is_in_the_region_of_the_copies_and_as_well_protected(
    stages: dict[str, Synthesized],
) -> None:
    plain, replicated = (stages[name] for name in ("prod", "calls"))
    assert not replicated.all("AWS::DynamoDB::Table")
    (table,) = replicated.all("AWS::DynamoDB::GlobalTable").values()
    other = plain[plain.table]
    assert {replica["Region"] for replica in table["Replicas"]} == {REGION, COPIES_REGION}
    for replica in table["Replicas"]:
        assert replica["DeletionProtectionEnabled"] is other["DeletionProtectionEnabled"] is True
        assert replica["PointInTimeRecoverySpecification"] == other["PointInTimeRecoverySpecification"]
    # In all else, it is the table that every stage has.
    for name in ("KeySchema", "BillingMode", "StreamSpecification", "TimeToLiveSpecification"):
        assert table[name] == other[name]
    indexes = [{key: index[key] for key in ("IndexName", "KeySchema", "Projection")} for index in other[INDEXES]]
    assert [{key: index[key] for key in indexes[0]} for index in table[INDEXES]] == indexes
    made = replicated.template["Resources"][replicated.table]
    assert (made["DeletionPolicy"], made["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


def test_the_second_vault_outlives_its_stack_too(copies: Any) -> None:
    assert lint_findings(copies) == []
    (vault,) = vaults(copies)
    assert (vault["DeletionPolicy"], vault["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


def test_a_vaults_name_is_one_that_aws_takes() -> None:
    assert len(copies_name("x" * 32)) <= 50


def test_only_a_stage_with_the_setting_has_backups(stages: dict[str, Synthesized]) -> None:
    for name, stage in stages.items():
        assert bool(vaults(stage.template)) is (name in ("prod", "calls"))
