"""`python -m infra.preflight STAGE`: whether the account can take the stage, asked before anything is deployed.

With the AWS credentials and region of the environment, as the CDK's command line has them. Prints nothing if all is
well, one line for each thing that is not, and what to do about it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from infra.app import context
from infra.stage import BadSetting, Stage, described
from infra.topology import FUNCTIONS

UNRESERVED = 100
"""What Lambda keeps for functions without reserved concurrency (Lambda developer guide, "Reserved concurrency")."""
CONCURRENCY_QUOTA = "L-B99A9384"


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if the stage can be deployed."""
    (name,) = sys.argv[1:] if arguments is None else arguments
    settings = context()["stages"]
    if name not in settings:
        print(f"infra.preflight: cdk.json has no stage {name!r}", file=sys.stderr)
        return 1
    try:
        found = [*refusals(described(name, settings[name]))]
    except (BadSetting, BotoCoreError, ClientError) as problem:
        found = [str(problem)]
    for refusal in found:
        print(f"infra.preflight: {refusal}", file=sys.stderr)
    return 1 if found else 0


def refusals(stage: Stage) -> Iterator[str]:
    """Why the stage cannot be deployed with the credentials of the environment, each in one line."""
    # The AWS and CDK command lines take either name of the region, boto3 but one.
    region = stage.region or os.environ.get("AWS_REGION") or None
    account = boto3.client("sts", region_name=region).get_caller_identity()["Account"]
    if stage.account not in (None, account):
        yield f"stage {stage.name} belongs to account {stage.account}; these credentials are of account {account}"
        return
    limits = boto3.client("lambda", region_name=region).get_account_settings()["AccountLimit"]
    allowed = limits["ConcurrentExecutions"]
    if stage.reserved_concurrency:
        needed = sum(stage.reserved_concurrency.values()) + UNRESERVED
        if allowed < needed:
            yield f"stage {stage.name} needs {needed} concurrent executions of Lambda; {_request(allowed, needed)}"
    elif allowed < (wanted := _at_once()):
        # Nothing fails, but the queues take turns.
        print(f"infra.preflight: workers take up to {wanted} executions at once; {_request(allowed, wanted)}")


def _at_once() -> int:
    """What all queues together may start at once."""
    return sum(source.concurrency for function in FUNCTIONS for source in function.queues)


def _request(allowed: int, wanted: int) -> str:
    quota = f"--service-code lambda --quota-code {CONCURRENCY_QUOTA} --desired-value {max(wanted, 1000)}"
    return f"the account has {allowed}: aws service-quotas request-service-quota-increase {quota}"


if __name__ == "__main__":
    sys.exit(main())
