"""`python -m infra.deploy STAGE [--emergency]`: deploys a stage, as `make deploy` does after `infra.preflight`.

CloudFormation compares a template with the previous one, and not with the aliases. If `make rollback` moved these, it
would leave them there when the template names the same versions, and CodeDeploy would refuse a deployment whose
`CurrentVersion` is not the version of the alias (CodeDeploy user guide, "AppSpec 'resources' section":
docs.aws.amazon.com/codedeploy/latest/userguide/reference-appspec-file-structure-resources.html). So the aliases are
first deployed as they are, which moves no requests, and then as the template says.

The stack of the copies is deployed before the stage's own, which copies into it, and has a replica of the signing key,
which is in the stage's own. So that stack is deployed once more when the key is new. An emergency deploys the
stage's own stack alone, once it exists: the region of the copies may be out of order.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from infra import rollback
from infra.rollback import Deployed
from infra.stack_names import EMERGENCY, HELD, PRIMARY_KEY, SIGNING_KEY_OUTPUT, copies_name, stack_name


class Refused(Exception):
    """The stage is not deployed. The message says why and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Deploy a stage. Returns 0, or the exit status of what failed."""
    parser = argparse.ArgumentParser(
        prog="python -m infra.deploy",
        description="Deploy a stage to its AWS account, as `make deploy` does after infra.preflight.",
    )
    parser.add_argument("stage", help="a stage of cdk.json")
    parser.add_argument("--emergency", action="store_true", help="all at once, without release alarms")
    options = parser.parse_args(arguments)
    stack = stack_name(options.stage)
    context = ["--context", f"stage={options.stage}"]
    if options.emergency:
        context += ["--context", f"{EMERGENCY}=1"]
    rollback.use_region_of(options.stage)
    try:
        if options.emergency:
            _confirm(options.stage)
        functions = _deployed(stack)
        alone = options.emergency and bool(functions)
        stacks = ["--exclusively", stack] if alone else ["--all"]
        if _any_was_moved(functions):
            held = {function.name: str(function.version) for function in functions}
            _cdk(*stacks, *context, "--context", f"{HELD}={json.dumps(held)}")
        _cdk(*stacks, *context)
        region = (rollback.settings_of(options.stage).get("backup") or {}).get("region")
        if region and not alone:
            replicate_key(options.stage, region, *context)
        if functions:
            rollback.prune(stack, {function.function: function.version for function in functions})
    except subprocess.CalledProcessError as failed:
        return failed.returncode
    except (Refused, BotoCoreError, ClientError) as problem:
        print(f"infra.deploy: {problem}", file=sys.stderr)
        return 1
    return 0


def _confirm(stage: str) -> None:
    print(f"infra.deploy: all requests of {stage} go to the new versions at once, and no alarm rolls them back.")
    print(f"Type {stage} to deploy: ", end="", flush=True)
    if sys.stdin.readline().strip() != stage:
        raise Refused("not confirmed, so nothing was deployed")


def _deployed(stack: str) -> list[Deployed]:
    """The functions as they are before the deploy; none before the first one."""
    try:
        return rollback.deployed(stack)
    except rollback.NoStage:
        return []


def _any_was_moved(functions: Sequence[Deployed]) -> bool:
    """Whether an alias does not name the version that was deployed last. Says so for each one."""
    for function in functions:
        if function.shifting:
            raise Refused(
                f"requests of {function.name} go to two versions: wait for the deploy, or run `make rollback`"
            )
    moved = [function for function in functions if function.version != function.newest]
    for function in moved:
        print(f"infra.deploy: {function.name} was moved to version {function.version}, from {function.newest}")
    return bool(moved)


def replicate_key(stage: str, copies_region: str, *options: str) -> None:
    """Let the stack of the copies replicate the signing key, unless it does. Later deploys keep the parameter."""
    sdk: Any = boto3
    region = os.environ.get("AWS_REGION") or None
    (made,) = sdk.client("cloudformation", region_name=region).describe_stacks(StackName=stack_name(stage))["Stacks"]
    key = next(each["OutputValue"] for each in made["Outputs"] if each["OutputKey"] == SIGNING_KEY_OUTPUT)
    copies = copies_name(stage)
    formation = sdk.client("cloudformation", region_name=copies_region)
    (made,) = formation.describe_stacks(StackName=copies)["Stacks"]
    if {"ParameterKey": PRIMARY_KEY, "ParameterValue": key} in made.get("Parameters", []):
        return
    of_region = sdk.client("kms", region_name=region).describe_key(KeyId=key)["KeyMetadata"]["MultiRegionConfiguration"]
    if of_region["MultiRegionKeyType"] != "PRIMARY":
        primary = of_region["PrimaryKey"]["Region"]
        print(f"infra.deploy: the copies have no signing key, because its primary key is in {primary}: see runbook.md")
        return
    print(f"infra.deploy: {copies} gets a replica of the signing key")
    _cdk("--exclusively", copies, "--parameters", f"{copies}:{PRIMARY_KEY}={key}", *options)


def _cdk(*options: str) -> None:
    subprocess.run(["npx", "--no-install", "cdk", "deploy", *options], check=True)


if __name__ == "__main__":
    sys.exit(main())
