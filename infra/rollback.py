"""`python -m infra.rollback STAGE [--releases 2]`: sends all requests to the functions' previous versions.

It moves each function's alias, without a deploy, and prints one line for each function. Which versions there are,
Lambda says. All functions have the same code, so versions with the same code are of one release; those that differ only
in settings are of a release of settings. Running the command again changes nothing, and the next `make deploy` moves
the aliases forward again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from infra.stack_names import KEPT, LIVE, stack_name

UNDER_WAY = ("Created", "Queued", "InProgress", "Baking", "Ready")
"""The statuses of a deployment of CodeDeploy that may still move an alias."""
AT_ONCE = 25
"""The most deployments that one call describes."""
SETTINGS = Path(__file__).parents[1] / "cdk.json"


class NoStage(Exception):
    """The stage is not deployed in the account and region of the environment."""


@dataclass(frozen=True, eq=False)
class Deployed:
    """A function and its alias. `name` is the topology's, `function` Lambda's.

    `version` receives the requests, all of them unless `shifting`. `code` has the hash of each version's code, newest
    first.
    """

    function: str
    name: str
    version: int
    shifting: bool
    code: Mapping[int, str]

    @property
    def newest(self) -> int:
        """The version that the last deploy published."""
        return next(iter(self.code))

    def first_with_code(self, version: int) -> int:
        """The earliest version, going back from this one, that has its code."""
        with_other = (each for each in self.code if each < version and self.code[each] != self.code[version])
        last = next(with_other, 0)
        return min(each for each in self.code if last < each <= version)

    def before(self, version: int) -> int:
        """The version before this one; this one if there is none."""
        return next((each for each in self.code if each < version), version)


def main(arguments: Sequence[str] | None = None) -> int:
    """Roll a stage back. Returns 0, or 1 with one line on standard error if that fails."""
    parser = argparse.ArgumentParser(
        prog="python -m infra.rollback",
        description="Send all requests of a stage to the functions' previous versions, within a minute.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("stage", help="a stage of cdk.json")
    parser.add_argument("--releases", type=int, choices=range(1, KEPT + 1), default=1, help="how many releases back")
    options = parser.parse_args(arguments)
    use_region_of(options.stage)
    try:
        _stop_shifts(stack_name(options.stage))
        functions = deployed(stack_name(options.stage))
        client = _client("lambda")
        for function, version in before(functions, options.releases):
            print(f"{function.name}: {_move(client, function, version)}")
    except (NoStage, BotoCoreError, ClientError) as problem:
        print(f"infra.rollback: {problem}", file=sys.stderr)
        return 1
    return 0


def use_region_of(stage: str, settings: Path = SETTINGS) -> None:
    """From now on, use the region of the stage in cdk.json, as the CDK does; without one, that of the environment."""
    if region := settings_of(stage, settings).get("region"):
        # boto3 reads only the second one.
        os.environ["AWS_REGION"] = os.environ["AWS_DEFAULT_REGION"] = region


def settings_of(stage: str, settings: Path = SETTINGS) -> Mapping[str, Any]:
    """The settings of the stage in cdk.json; none if it is not there."""
    found: Mapping[str, Any] = json.loads(settings.read_text(encoding="utf-8"))["context"]["stages"].get(stage, {})
    return found


def deployed(stack: str) -> list[Deployed]:
    """The functions of a stack, as Lambda has them now. Raises NoStage."""
    found = []
    client = _client("lambda")
    for arn in resources(stack, "AWS::Lambda::Alias"):
        function = arn.split(":")[6]
        alias = client.get_alias(FunctionName=function, Name=LIVE)
        pages = client.get_paginator("list_versions_by_function").paginate(FunctionName=function)
        versions = {int(v["Version"]): v for page in pages for v in page["Versions"] if v["Version"] != "$LATEST"}
        found.append(
            Deployed(
                function=function,
                name=versions[int(alias["FunctionVersion"])]["Environment"]["Variables"]["SERVICE_NAME"],
                version=int(alias["FunctionVersion"]),
                shifting=bool((alias.get("RoutingConfig") or {}).get("AdditionalVersionWeights")),
                code={each: versions[each]["CodeSha256"] for each in sorted(versions, reverse=True)},
            )
        )
    return found


def before(functions: Sequence[Deployed], releases: int) -> list[tuple[Deployed, int]]:
    """Each function's version before the last releases: first without their settings, then without their code.

    It is never later than the version that the alias names: what was rolled back before stays so.
    """
    versions = {function: function.newest for function in functions}
    for _ in range(releases):
        first = {function: function.first_with_code(version) for function, version in versions.items()}
        versions = first if versions != first else _before_code(versions)
    return [(function, min(version, function.version)) for function, version in versions.items()]


def _before_code(versions: Mapping[Deployed, int]) -> dict[Deployed, int]:
    """The versions before this code. While a deploy is under way, functions that it has not reached have other code."""
    older = {function.code[each] for function, version in versions.items() for each in function.code if each < version}
    reached = {function.code[version] for function, version in versions.items()}
    waiting = older if len(reached) > 1 else set()
    return {
        function: version if function.code[version] in waiting else function.before(version)
        for function, version in versions.items()
    }


def prune(stack: str, served: Mapping[str, int]) -> None:
    """Delete the versions that no rollback needs. `served` has the version of each function before this deploy.

    The versions with that code and with the code before it are kept. A version that was rolled back is deleted.
    """
    client = _client("lambda")
    for function in deployed(stack):
        earlier = [each for each in function.code if each <= served.get(function.function, 0)]
        codes = {*list(dict.fromkeys(function.code[each] for each in [function.version, *earlier]))[: KEPT + 1]}
        kept = {function.version, *(each for each in earlier if function.code[each] in codes)}
        for version in function.code.keys() - kept:
            client.delete_function(FunctionName=function.function, Qualifier=str(version))


def _move(client: Any, function: Deployed, version: int) -> str:
    """Let the alias name the version. Returns what became of it, in words."""
    if function.version == version and not function.shifting:
        return f"stays at version {version}"
    client.update_alias(
        FunctionName=function.function,
        Name=LIVE,
        FunctionVersion=str(version),
        RoutingConfig={"AdditionalVersionWeights": {}},
    )
    return f"version {function.newest if function.shifting else function.version} -> {version}"


def _stop_shifts(stack: str) -> None:
    """Stop CodeDeploy, which would otherwise go on to shift requests to the new versions."""
    applications = resources(stack, "AWS::CodeDeploy::Application")
    if not applications:
        return
    codedeploy = _client("codedeploy")
    pages = codedeploy.get_paginator("list_deployments").paginate(includeOnlyStatuses=[*UNDER_WAY])
    ids = [each for page in pages for each in page["deployments"]]
    for start in range(0, len(ids), AT_ONCE):
        described = codedeploy.batch_get_deployments(deploymentIds=ids[start : start + AT_ONCE])["deploymentsInfo"]
        for deployment in described:
            if deployment["applicationName"] in applications:
                what = "stopped" if _stops(codedeploy, deployment["deploymentId"]) else "too late to stop"
                print(f"{what} deployment {deployment['deploymentId']} of {deployment['deploymentGroupName']}")


def _stops(codedeploy: Any, id: str) -> bool:
    """Stop a deployment. False if it has ended meanwhile, which must not keep the aliases from being moved."""
    try:
        codedeploy.stop_deployment(deploymentId=id, autoRollbackEnabled=False)
    except ClientError as error:
        if error.response["Error"]["Code"] != "DeploymentAlreadyCompletedException":
            raise
        return False
    return True


def resources(stack: str, kind: str) -> list[str]:
    """The names or ARNs of a stack's resources of a type. Raises NoStage."""
    pages = _client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
    try:
        return [
            each["PhysicalResourceId"]
            for page in pages
            for each in page["StackResourceSummaries"]
            if each["ResourceType"] == kind and each.get("PhysicalResourceId")
        ]
    except ClientError as error:
        if "does not exist" in error.response["Error"]["Message"]:
            raise NoStage(f"the stack {stack} does not exist in the account and region of these credentials") from None
        raise


def _client(service: str) -> Any:
    # The AWS and CDK command lines read either variable for the region; boto3 reads only AWS_DEFAULT_REGION.
    sdk: Any = boto3
    # Lambda accepts 15 requests per second of its API but for Invoke and GetFunction (Lambda developer guide, "Lambda
    # quotas": docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html).
    retries = Config(retries={"mode": "adaptive", "total_max_attempts": 10})
    return sdk.client(service, region_name=os.environ.get("AWS_REGION") or None, config=retries)


if __name__ == "__main__":
    sys.exit(main())
