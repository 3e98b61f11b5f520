"""`python -m infra.preflight STAGE [--emergency]`: checks that a stage can be deployed to the account, before it is.

It uses the AWS credentials and region of the environment, like the CDK's command line. It prints one line for each
problem, with what to do about it, and nothing if there is none. It calls the stage's model once, for one token. In an
emergency, trouble with the model or with AWS Backup does not keep a repair from being deployed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from infra import rollback
from infra.app import context
from infra.capacity import UNRESERVED
from infra.stack_names import stack_name
from infra.stage import BadSetting, Stage, parse
from infra.topology import FUNCTIONS
from shared.aws.error_codes import TRANSIENT_MODEL_ERRORS

CONCURRENCY_QUOTA = "L-B99A9384"
NO_PERMISSION = "no identity-based policy allows"
"""In the message of an AccessDeniedException: these credentials lack the permission, which the functions have."""
BACKUP_ACTION = "backup:DescribeRegionSettings"
BACKUP_SETTINGS = "--resource-type-opt-in-preference DynamoDB=true --resource-type-management-preference DynamoDB=true"
SOON = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 3})
"""For services and regions that may be out of order when a repair is deployed."""
MODEL_HELP = "(set `model` in cdk.json to a model or inference profile that the account may use in this region)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the problems. Returns 0 if the stage can be deployed, 1 otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m infra.preflight",
        description="Check that the credentials of the environment can deploy a stage. Print what is missing.",
    )
    parser.add_argument("stage", help="a stage of cdk.json")
    parser.add_argument("--emergency", action="store_true", help="deploy also without the model or backups")
    options = parser.parse_args(arguments)
    name = options.stage
    settings = context()["stages"]
    if name not in settings:
        print(f"infra.preflight: cdk.json has no stage {name!r}", file=sys.stderr)
        return 1
    rollback.use_region_of(name)
    try:
        found = [*refusals(parse(name, settings[name]), emergency=options.emergency)]
    except (BadSetting, BotoCoreError, ClientError) as problem:
        found = [str(problem)]
    for refusal in found:
        print(f"infra.preflight: {refusal}", file=sys.stderr)
    return 1 if found else 0


def refusals(stage: Stage, *, emergency: bool = False) -> Iterator[str]:
    """The reasons why the stage cannot be deployed with the credentials of the environment, one line each."""
    # The AWS and CDK command lines read either variable for the region; boto3 reads only AWS_DEFAULT_REGION.
    region = stage.region or os.environ.get("AWS_REGION") or None
    account = boto3.client("sts", region_name=region).get_caller_identity()["Account"]
    if stage.account not in (None, account):
        yield f"stage {stage.name} belongs to account {stage.account}; these credentials are of account {account}"
        return
    for refusal in (*_of_model(stage, region), *_of_backups(stage, region)):
        if emergency:
            print(f"infra.preflight: {refusal}")
        else:
            yield refusal
    yield from _of_table(stage)
    limits = boto3.client("lambda", region_name=region).get_account_settings()["AccountLimit"]
    # What no function of the account has reserved ("AccountLimit":
    # docs.aws.amazon.com/lambda/latest/api/API_AccountLimit.html), and what the stage itself reserved before.
    free = limits["UnreservedConcurrentExecutions"] + _reserved(stage, region)
    taken = limits["ConcurrentExecutions"] - free
    if stage.reserved_concurrency:
        needed = sum(stage.reserved_concurrency.values()) + UNRESERVED
        if free < needed:
            yield f"stage {stage.name} needs {needed} concurrent executions of Lambda; {_request(free, taken, needed)}"
    elif free < (wanted := _at_once()):
        # The deploy works, but the queues share the executions and slow each other down.
        print(f"infra.preflight: workers use up to {wanted} concurrent executions; {_request(free, taken, wanted)}")


def _of_model(stage: Stage, region: str | None) -> Iterator[str]:
    """Why the stage's model cannot be called, if so: a wrong id, or an account or region without access to it."""
    client = boto3.client("bedrock-runtime", region_name=region, config=SOON)
    named = f"the model {stage.model}"
    try:
        client.converse(
            modelId=stage.model,
            messages=[{"role": "user", "content": [{"text": "Hello"}]}],
            inferenceConfig={"maxTokens": 1},
        )
    except ClientError as error:
        code, message = error.response["Error"]["Code"], error.response["Error"]["Message"]
        if code in TRANSIENT_MODEL_ERRORS:
            print(f"infra.preflight: {named} could not be checked, because Bedrock did not respond: {code}")
        elif NO_PERMISSION in message:
            print(f"infra.preflight: {named} was not checked: these credentials lack bedrock:InvokeModel")
        else:
            yield f"stage {stage.name} cannot use {named} in {client.meta.region_name}: {code}: {message} {MODEL_HELP}"
    except BotoCoreError as error:
        yield f"stage {stage.name} cannot use {named} in {client.meta.region_name}: {error} {MODEL_HELP}"


def _of_table(stage: Stage) -> Iterator[str]:
    """Why `replica_region` cannot be set or removed like other settings, if the deployed table is of the other type."""
    types = ["AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable"]
    other, wanted = types if stage.replica_region else reversed(types)
    try:
        deployed = [bool(rollback.resources(stack_name(stage.name), each)) for each in (other, wanted)]
    except rollback.NoStage:
        return
    # With tables of both types, the wanted one was imported: the runbook's procedure ends with this deploy.
    if deployed == [True, False]:
        yield (
            f"a deploy would replace the table of stage {stage.name} by an empty one, because of `replica_region`: "
            "see infra/runbook.md, A replica of the table"
        )


def _of_backups(stage: Stage, region: str | None) -> Iterator[str]:
    """Why nothing would be backed up or copied: AWS Backup's settings of the account, which each region has of its own.

    AWS Backup developer guide, "Advanced DynamoDB backup":
    docs.aws.amazon.com/aws-backup/latest/devguide/advanced-ddb-backup.html.
    """
    for each in (region, stage.backup.region) if stage.backup else ():
        client = boto3.client("backup", region_name=each, config=SOON)
        here = client.meta.region_name
        try:
            settings = client.describe_region_settings()
        except (BotoCoreError, ClientError) as error:
            if NO_PERMISSION in str(error):
                print(f"infra.preflight: AWS Backup was not checked in {here}: these credentials lack {BACKUP_ACTION}")
            else:
                yield f"stage {stage.name} has backups, but AWS Backup did not say its settings in {here}: {error}"
            continue
        preferences = (settings["ResourceTypeOptInPreference"], settings["ResourceTypeManagementPreference"])
        if not all(preference.get("DynamoDB") for preference in preferences):
            yield (
                f"stage {stage.name} has backups, but AWS Backup's settings in {here} exclude DynamoDB or its "
                f"advanced features: aws backup update-region-settings {BACKUP_SETTINGS} --region {here}"
            )


def _at_once() -> int:
    """The concurrent executions that all queues together may start."""
    return sum(source.concurrency for function in FUNCTIONS for source in function.queues)


def _reserved(stage: Stage, region: str | None) -> int:
    """The concurrent executions that the functions of the deployed stage have reserved; 0 before the first deploy."""
    client = boto3.client("lambda", region_name=region)
    try:
        names = rollback.resources(stack_name(stage.name), "AWS::Lambda::Function")
    except rollback.NoStage:
        return 0
    found = (client.get_function_concurrency(FunctionName=name) for name in names)
    return sum(reserved.get("ReservedConcurrentExecutions", 0) for reserved in found)


def _request(free: int, taken: int, wanted: int) -> str:
    quota = f"--service-code lambda --quota-code {CONCURRENCY_QUOTA} --desired-value {max(wanted + taken, 1000)}"
    others = f", and {taken} more that other functions have reserved" if taken else ""
    return f"the account has {free}{others}: aws service-quotas request-service-quota-increase {quota}"


if __name__ == "__main__":
    sys.exit(main())
