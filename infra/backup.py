"""Daily backups of the table in the stage's vault. Each is copied to a second vault in another region.

Point-in-time recovery is limited to the table's region and account, and ends with the table. The copies survive the
loss of the region and the deletion of the table. Recordings are not backed up.
"""

from __future__ import annotations

from aws_cdk import ArnFormat, Environment, RemovalPolicy, Stack, Tags
from aws_cdk import aws_backup as backup
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.stack_names import SERVICE, copies_name
from infra.stage import Backup, Stage

EVERY_NIGHT = "cron(0 3 * * ? *)"
# AWS extends it when its service needs a new permission. With a policy of our own, backups would fail then.
AWS_POLICY = "service-role/AWSBackupServiceRolePolicyForBackup"


class CopiesStack(Stack):
    """The second vault of a stage. It is in another region, and therefore in its own stack."""

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
        _vault(self, copies_name(stage.name), stage.removal)


def back_up(stack: Stack, stage: Stage, settings: Backup, table: dynamodb.Table) -> str:
    """Back up the table every night, with a copy in the vault of CopiesStack. Returns the name of the first vault."""
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
    role = iam.Role(
        stack,
        "BackupRole",
        assumed_by=iam.ServicePrincipal(
            "backup.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
        ),
        description="Permissions of AWS Backup to back up the table",
        # AWS maintains this policy. If AWS Backup needed a permission that our own policy lacked, backups would fail.
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(AWS_POLICY)],
    )
    backup.CfnBackupSelection(
        stack,
        "BackedUp",
        backup_plan_id=plan.attr_backup_plan_id,
        backup_selection=backup.CfnBackupSelection.BackupSelectionResourceTypeProperty(
            selection_name="table", iam_role_arn=role.role_arn, resources=[table.table_arn]
        ),
    )
    return vault.attr_backup_vault_name


def _vault(stack: Stack, name: str, removal: RemovalPolicy) -> backup.CfnBackupVault:
    """A vault, encrypted with AWS Backup's own key in its region. A vault that is not empty cannot be deleted."""
    vault = backup.CfnBackupVault(stack, "Backups", backup_vault_name=name)
    vault.apply_removal_policy(removal)
    return vault
