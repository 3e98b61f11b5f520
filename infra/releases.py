"""Releases: how a function's new version replaces the previous one, all at once or gradually.

Every function has published versions and the alias `live`. Everything that starts the function uses the alias. In a
stage with `traffic_shift`, CodeDeploy moves the alias: it first shifts a share of the requests and batches, then all.
If the alarm of the new version goes off, it moves the alias back to the previous version.

A release alarm looks at the new version only. Lambda has metrics of an alias and a version, by the dimension
`ExecutedVersion` (Lambda developer guide, "Viewing metrics for Lambda functions":
docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-view.html). CodeDeploy stops a deployment while one of its
alarms is in ALARM (CodeDeploy user guide, "Monitoring deployments with CloudWatch alarms in CodeDeploy":
docs.aws.amazon.com/codedeploy/latest/userguide/monitoring-create-alarms.html). An alarm keeps its state when its metric
is changed (CloudWatch API reference, "PutMetricAlarm":
docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html). So the alarm's name contains the
version: each release has new alarms, and what happened before cannot stop it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

from infra import topology
from infra.stack_names import LIVE, construct_id
from shared.core import metrics

FEWEST_INVOCATIONS, FAILED_PERCENT = 20, 10
"""A release is rolled back if a new version fails this share of at least so many invocations in five minutes."""
MOVES = ("lambda:GetAlias", "lambda:UpdateAlias", "lambda:GetProvisionedConcurrencyConfig")


def shift_gradually(
    stack: Stack,
    how: str,
    *,
    functions: Mapping[str, lambda_.Function],
    aliases: Mapping[str, lambda_.Alias],
    table: dynamodb.ITable,
) -> None:
    """Let CodeDeploy move the aliases, by the configuration `how`. The mappings have the topology's names as keys."""
    application = codedeploy.LambdaApplication(stack, "Releases")
    # The construct would add AWS's managed policy, which covers every function of the account.
    role = _role(stack, functions.values()).without_policy_updates()
    config = codedeploy.LambdaDeploymentConfig.from_lambda_deployment_config_name(
        stack, "TrafficShift", f"CodeDeployDefault.Lambda{how}"
    )
    # What runs on a schedule has too few invocations for an alarm, and a shift without one could not be rolled back.
    for name in (function.name for function in topology.FUNCTIONS if not function.every_s):
        codedeploy.LambdaDeploymentGroup(
            stack,
            f"{construct_id(name)}Release",
            application=application,
            alias=aliases[name],
            role=role,
            deployment_config=config,
            alarms=[_alarm(stack, name, functions[name], table)],
            auto_rollback=codedeploy.AutoRollbackConfig(
                deployment_in_alarm=True, failed_deployment=True, stopped_deployment=True
            ),
        )


def _alarm(stack: Stack, name: str, function: lambda_.Function, table: dynamodb.ITable) -> cloudwatch.Alarm:
    """Goes off if the version that this deploy publishes fails too many of its invocations."""
    version = function.current_version.version
    dimensions = {
        "FunctionName": function.function_name,
        "Resource": f"{function.function_name}:{LIVE}",
        "ExecutedVersion": version,
    }
    counted = {
        metric.lower(): cloudwatch.Metric(
            namespace="AWS/Lambda", metric_name=metric, dimensions_map=dimensions, statistic="Sum"
        )
        for metric in ("Invocations", "Errors")
    }
    # A handler reports these in its response, so that Lambda does not count them as errors.
    counted["failed"] = cloudwatch.Metric(
        namespace=metrics.NAMESPACE,
        metric_name=metrics.FAILED_INVOCATIONS,
        dimensions_map={"service": name, "table": table.table_name, "version": version},
        statistic="Sum",
    )
    return cloudwatch.Alarm(
        stack,
        f"{construct_id(name)}ReleaseAlarm",
        alarm_name=f"{stack.stack_name}-{name}-{version}-Release",
        alarm_description=f"Version {version} of {name} fails, and CodeDeploy rolls it back.",
        metric=cloudwatch.MathExpression(
            expression=f"IF(invocations >= {FEWEST_INVOCATIONS}, 100 * (errors + FILL(failed, 0)) / invocations, 0)",
            using_metrics=counted,
            label="failed invocations (percent)",
            period=Duration.minutes(5),
        ),
        threshold=FAILED_PERCENT,
        evaluation_periods=1,
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
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
