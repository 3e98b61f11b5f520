"""Backups in the stage's region, and what its owner needs in that of the copies if the stage's region is lost.

Point-in-time recovery is limited to the table's region and account, and ends with the table. The copies of the nightly
backups survive the loss of the region and the deletion of the table. Beside them are a replica of the signing key,
without which no signing secret can be read, and a copy of the ledger of erasures and opt-outs. Recordings are in one
region only (`DECISIONS.md`).
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import ArnFormat, CfnCondition, CfnOutput, CfnParameter, Environment, Fn, RemovalPolicy, Stack, Tags
from aws_cdk import aws_backup as backup
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra import buckets
from infra.stack_names import (
    PRIMARY_KEY,
    RESTORE_ROLE_OUTPUT,
    SERVICE,
    SIGNING_KEY_OUTPUT,
    copies_name,
    ledger_copy_name,
)
from infra.stage import Backup, Stage

EVERY_NIGHT = "cron(0 3 * * ? *)"
STARTS_WITHIN_MINUTES = 60
"""A backup that has not started by then has expired, which is an alarm. AWS Backup's own limit is eight hours."""
# AWS extends them when its service needs a new permission. With policies of our own, backups would fail then.
AWS_POLICY = "service-role/AWSBackupServiceRolePolicyForBackup"
AWS_RESTORE_POLICY = "service-role/AWSBackupServiceRolePolicyForRestores"
LEDGER_RULE = "ledger"


@dataclass(frozen=True)
class Copied:
    """What is backed up and replicated, by the names that its metrics have."""

    vault: str
    copies: str
    ledger: str
    ledger_copy: str


class CopiesStack(Stack):
    """What a stage has in the region of the copies, and therefore in a stack of its own."""

    def __init__(self, scope: Construct, *, stage: Stage, settings: Backup) -> None:
        super().__init__(
            scope,
            copies_name(stage.name),
            description="Copies of the backups of appointments, calls and conversations",
            env=Environment(account=stage.account, region=settings.region),
            termination_protection=stage.keep_data,
        )
        Tags.of(self).add("service", SERVICE)
        Tags.of(self).add("stage", stage.name)
        # Governance mode: without `changeable_for_days`, whoever may delete the lock can do so (AWS Backup developer
        # guide, "AWS Backup Vault Lock": docs.aws.amazon.com/aws-backup/latest/devguide/vault-lock.html).
        lock = backup.CfnBackupVault.LockConfigurationTypeProperty(min_retention_days=settings.days)
        _vault(self, copies_name(stage.name), stage.removal, lock if settings.lock else None)
        buckets.private(
            self,
            "Erasures",
            None,
            RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
            versioned=True,
            name=ledger_copy_name(stage.name, settings.region, self.account),
        )
        self._replicate_signing_key(stage)
        # It exists before it is needed: when a region is lost, it may be impossible to create one.
        role = _role(self, "RestoreRole", AWS_RESTORE_POLICY, "Permissions of AWS Backup to restore the table")
        CfnOutput(self, RESTORE_ROLE_OUTPUT, value=role.role_arn)

    def _replicate_signing_key(self, stage: Stage) -> None:
        """Create the replica of the stage's signing key, once `infra.deploy` passes the key's ARN."""
        primary = CfnParameter(self, PRIMARY_KEY, default="", description="The signing key, once the stage is deployed")
        known = CfnCondition(
            self, "HasPrimaryKey", expression=Fn.condition_not(Fn.condition_equals(primary.value_as_string, ""))
        )
        # Each replica has a key policy of its own. This one is what a key gets that is created without a policy.
        administered = iam.PolicyStatement(
            actions=["kms:*"], resources=["*"], principals=[iam.AccountPrincipal(self.account)]
        )
        replica = kms.CfnReplicaKey(
            self,
            "SigningKey",
            primary_key_arn=primary.value_as_string,
            key_policy=iam.PolicyDocument(statements=[administered]),
            description="Encrypts the webhook endpoints' signing secrets",
        )
        replica.apply_removal_policy(stage.removal)
        replica.cfn_options.condition = known
        CfnOutput(self, SIGNING_KEY_OUTPUT, value=replica.attr_arn, condition=known)


def back_up(stack: Stack, stage: Stage, settings: Backup, table: dynamodb.ITable, ledger: s3.Bucket) -> Copied:
    """Back up the table every night, with a copy in the vault of CopiesStack. Returns what is backed up and copied."""
    vault = _vault(stack, stack.stack_name, stage.removal)
    kept = backup.CfnBackupPlan.LifecycleResourceTypeProperty(delete_after_days=settings.days)
    copies = stack.format_arn(
        service="backup",
        region=settings.region,
        resource="backup-vault",
        resource_name=copies_name(stage.name),
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    plan = backup.CfnBackupPlan(
        stack,
        "BackupPlan",
        backup_plan=backup.CfnBackupPlan.BackupPlanResourceTypeProperty(
            backup_plan_name=stack.stack_name,
            backup_plan_rule=[
                backup.CfnBackupPlan.BackupRuleResourceTypeProperty(
                    rule_name="nightly",
                    schedule_expression=EVERY_NIGHT,
                    start_window_minutes=STARTS_WITHIN_MINUTES,
                    target_backup_vault=vault.attr_backup_vault_name,
                    lifecycle=kept,
                    copy_actions=[
                        backup.CfnBackupPlan.CopyActionResourceTypeProperty(
                            destination_backup_vault_arn=copies, lifecycle=kept
                        )
                    ],
                )
            ],
        ),
    )
    role = _role(stack, "BackupRole", AWS_POLICY, "Permissions of AWS Backup to back up the table")
    backup.CfnBackupSelection(
        stack,
        "BackedUp",
        backup_plan_id=plan.attr_backup_plan_id,
        backup_selection=backup.CfnBackupSelection.BackupSelectionResourceTypeProperty(
            selection_name="table", iam_role_arn=role.role_arn, resources=[table.table_arn]
        ),
    )
    return Copied(
        vault=vault.attr_backup_vault_name,
        copies=copies_name(stage.name),
        ledger=ledger.bucket_name,
        ledger_copy=ledger_copy_name(stage.name, settings.region, stack.account),
    )


def replicate_ledger(stack: Stack, stage: Stage, settings: Backup, ledger: s3.Bucket) -> None:
    """Replicate the ledger to its copy in CopiesStack, from then on. What is deleted in the ledger stays in the copy.

    The permissions are those of the S3 user guide, "Setting up permissions for live replication":
    docs.aws.amazon.com/AmazonS3/latest/userguide/setting-repl-config-perm-overview.html.
    """
    name = ledger_copy_name(stage.name, settings.region, stack.account)
    copy = f"arn:{stack.partition}:s3:::{name}"
    role = iam.Role(
        stack,
        "ReplicationRole",
        # As that page has it, without a condition. IAM lets nobody pass a role to a service of another account.
        assumed_by=iam.ServicePrincipal("s3.amazonaws.com"),
        description="Permissions of S3 to replicate the ledger",
    )
    objects = ledger.arn_for_objects("*")
    for actions, resource in (
        (("s3:GetReplicationConfiguration", "s3:ListBucket"), ledger.bucket_arn),
        (("s3:GetObjectVersionForReplication", "s3:GetObjectVersionAcl", "s3:GetObjectVersionTagging"), objects),
        (("s3:ReplicateObject", "s3:ReplicateTags"), f"{copy}/*"),
    ):
        role.add_to_policy(iam.PolicyStatement(actions=[*actions], resources=[resource]))
    made = ledger.node.default_child
    assert isinstance(made, s3.CfnBucket)
    made.replication_configuration = s3.CfnBucket.ReplicationConfigurationProperty(
        role=role.role_arn,
        rules=[
            s3.CfnBucket.ReplicationRuleProperty(
                id=LEDGER_RULE,
                status="Enabled",
                priority=1,
                filter=s3.CfnBucket.ReplicationRuleFilterProperty(prefix=""),
                delete_marker_replication=s3.CfnBucket.DeleteMarkerReplicationProperty(status="Disabled"),
                destination=s3.CfnBucket.ReplicationDestinationProperty(
                    bucket=copy, metrics=s3.CfnBucket.MetricsProperty(status="Enabled")
                ),
            )
        ],
    )


def _role(stack: Stack, id: str, policy: str, description: str) -> iam.Role:
    return iam.Role(
        stack,
        id,
        assumed_by=iam.ServicePrincipal("backup.amazonaws.com"),
        description=description,
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(policy)],
    )


def _vault(
    stack: Stack,
    name: str,
    removal: RemovalPolicy,
    lock: backup.CfnBackupVault.LockConfigurationTypeProperty | None = None,
) -> backup.CfnBackupVault:
    """A vault, encrypted with AWS Backup's own key in its region. A vault that is not empty cannot be deleted."""
    vault = backup.CfnBackupVault(stack, "Backups", backup_vault_name=name, lock_configuration=lock)
    vault.apply_removal_policy(removal)
    return vault
