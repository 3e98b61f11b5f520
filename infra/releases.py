"""Releases: how a function's new version replaces the previous one, all at once or gradually.

Every function has published versions and the alias `live`. Everything that starts the function uses the alias. In a
stage with `traffic_shift`, CodeDeploy moves the alias: it first shifts a share of the requests and batches, then all.
If one of the function's alarms goes off, it moves the alias back to the previous version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

from infra.stack_names import construct_id

LIVE = "live"
"""The alias of every function."""
KEPT = 2
"""The previous releases whose versions are kept, so that `make rollback` can go back to them."""
MOVES = ("lambda:GetAlias", "lambda:UpdateAlias", "lambda:GetProvisionedConcurrencyConfig")


def shift_gradually(
    stack: Stack,
    how: str,
    *,
    functions: Mapping[str, lambda_.Function],
    aliases: Mapping[str, lambda_.Alias],
    alarms: Mapping[str, Iterable[cloudwatch.Alarm]],
) -> None:
    """Let CodeDeploy move every alias, by the configuration `how`. The mappings have the topology's names as keys."""
    application = codedeploy.LambdaApplication(stack, "Releases")
    # The construct would add AWS's managed policy, which covers every function of the account.
    role = _role(stack, functions.values()).without_policy_updates()
    config = codedeploy.LambdaDeploymentConfig.from_lambda_deployment_config_name(
        stack, "TrafficShift", f"CodeDeployDefault.Lambda{how}"
    )
    for name, alias in aliases.items():
        codedeploy.LambdaDeploymentGroup(
            stack,
            f"{construct_id(name)}Release",
            application=application,
            alias=alias,
            role=role,
            deployment_config=config,
            alarms=[*alarms[name]],
            auto_rollback=codedeploy.AutoRollbackConfig(
                deployment_in_alarm=True, failed_deployment=True, stopped_deployment=True
            ),
        )


def move_at_once(aliases: Mapping[str, lambda_.Alias]) -> None:
    """Let CloudFormation move the aliases itself, all at once, without CodeDeploy and its alarms."""
    for alias in aliases.values():
        _resource(alias).cfn_options.update_policy = None


def hold(aliases: Mapping[str, lambda_.Alias], versions: Mapping[str, str]) -> None:
    """Let aliases stay at these versions, by the topology's names. What they are at already, nobody has to shift."""
    for name, version in versions.items():
        if name in aliases:
            _resource(aliases[name]).add_property_override("FunctionVersion", version)
            _resource(aliases[name]).cfn_options.update_policy = None


def _resource(alias: lambda_.Alias) -> lambda_.CfnAlias:
    made = alias.node.default_child
    assert isinstance(made, lambda_.CfnAlias)
    return made


def _role(stack: Stack, functions: Iterable[lambda_.Function]) -> iam.Role:
    """CodeDeploy's role: it may move these aliases and read alarms."""
    arns = [arn for made in functions for arn in (made.function_arn, f"{made.function_arn}:{LIVE}")]
    role = iam.Role(
        stack,
        "ReleaseRole",
        assumed_by=iam.ServicePrincipal(
            "codedeploy.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
        ),
        description="Permissions of CodeDeploy to move the functions' aliases",
    )
    # A separate policy, not an inline one: otherwise a function that depends on another alias would depend on itself.
    role.add_to_policy(iam.PolicyStatement(actions=[*MOVES], resources=arns))
    role.add_to_policy(iam.PolicyStatement(actions=["cloudwatch:DescribeAlarms"], resources=["*"]))
    return role
