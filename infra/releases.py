"""How a new version of a function takes over: at once, or bit by bit with a way back.

Every function has published versions and the alias `live`, which is what everything that starts the function names.
A stage with `traffic_shift` lets CodeDeploy move the alias: a share of the requests and batches first, then all, and
back to the former version as soon as one of the function's alarms rings.
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
MOVES = ("lambda:GetAlias", "lambda:UpdateAlias", "lambda:GetProvisionedConcurrencyConfig")


def shift_gradually(
    stack: Stack,
    how: str,
    *,
    functions: Mapping[str, lambda_.Function],
    aliases: Mapping[str, lambda_.Alias],
    alarms: Mapping[str, Iterable[cloudwatch.Alarm]],
) -> None:
    """Let CodeDeploy move every alias, in the way of that name; the mappings are by name in the topology."""
    application = codedeploy.LambdaApplication(stack, "Releases")
    # The construct would add AWS's own policy, which is about every function of the account.
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


def _role(stack: Stack, functions: Iterable[lambda_.Function]) -> iam.Role:
    """What CodeDeploy may do: move these aliases, and look at alarms."""
    arns = [arn for made in functions for arn in (made.function_arn, f"{made.function_arn}:{LIVE}")]
    role = iam.Role(
        stack,
        "ReleaseRole",
        assumed_by=iam.ServicePrincipal(
            "codedeploy.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
        ),
        description="What CodeDeploy may do to move the functions' aliases",
    )
    # In a policy beside the role: a function that needs another one's alias would otherwise need itself.
    role.add_to_policy(iam.PolicyStatement(actions=[*MOVES], resources=arns))
    role.add_to_policy(iam.PolicyStatement(actions=["cloudwatch:DescribeAlarms"], resources=["*"]))
    return role
