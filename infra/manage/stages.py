"""What a command runs on: the local runner or a deployed stage.

What only some commands need is imported by them: boto3 takes longer to import than most of them run.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra import stack_names, topology
from infra.local.data_dir import STREAM_FAILURES, write_json
from shared.aws.services import AwsError, Unavailable

if TYPE_CHECKING:
    from shared.erasure.stored_batches import StoredBatch


class CommandFailed(Exception):
    """A command could not do its work on the stage, or not all of it. The message says why and what to do."""


class LocalStage:
    """The runner on this machine that uses a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        try:
            facts = json.loads((data_dir / "runner.json").read_text())
        except FileNotFoundError:
            raise CommandFailed(f"no runner is running on {data_dir}: start one with `make run`") from None
        os.environ |= {
            "AWS_ENDPOINT_URL": facts["aws_url"],
            "AWS_ENDPOINT_URL_DYNAMODB": facts["dynamodb_url"],
            "AWS_ACCESS_KEY_ID": facts["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_DEFAULT_REGION": facts["region"],
            "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
            "TABLE_NAME": facts["table_name"],
            "DUE_SHARDS": str(topology.DUE_SHARDS),
            "RECORDINGS_BUCKET": facts["recordings"],
            "ERASURES_BUCKET": facts["erasures"],
            "SPEED": facts["speed"],
            # The functions log to the standard output, which is for the command's own lines.
            "LOG_LEVEL": "WARNING",
        }
        self._queues: dict[str, str] = facts["queues"]
        self._failed_batches: str = facts["failed_batches"]
        self._base_url: str = facts["base_url"]
        os.environ.pop("AWS_PROFILE", None)
        os.environ.pop("AWS_SESSION_TOKEN", None)

    def failures(self) -> Iterator[StoredBatch]:
        """The failed batches of the table's stream."""
        from shared.erasure.stored_batches import StoredBatch, in_bucket

        for path in sorted((self.data_dir / STREAM_FAILURES).glob("*.json")):

            def replace(content: str | None, path: Path = path) -> None:
                if content is None:
                    path.unlink()
                else:
                    write_json(path, json.loads(content))

            yield StoredBatch(path.name, path.read_text(), replace)
        yield from in_bucket(self._failed_batches)

    def fan_out(self, event: Any) -> Any:
        """Call the function with a batch, in this process."""
        for name, url in self._queues.items():
            os.environ[f"QUEUE_{name.upper()}"] = url
        os.environ.setdefault("SERVICE_NAME", "fan_out")
        (function,) = (function for function in topology.FUNCTIONS if function.stream)
        return importlib.import_module(function.module).handler(event, None)

    def invite(self, email: str) -> str:
        """Say how a new member signs in."""
        return f"sign in with the link that `members link {email}` prints"

    def use_user_pool(self) -> None:
        """The local runner has no users."""
        raise CommandFailed("the local runner has no user pool: people sign in with a link")

    def sign_in_url(self, email: str) -> str:
        """A link that signs this person in once."""
        from shared.admin import sign_in

        return f"{self._base_url}/admin/sign-in/link?token={sign_in.new_link(email)}"


class DeployedStage:
    """A deployed stage in the AWS account of the environment's credentials."""

    def __init__(self, stage: str) -> None:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError

        from infra.rollback import use_region_of

        use_region_of(stage)
        # The AWS and CDK command lines read either variable for the region; boto3 reads only AWS_DEFAULT_REGION and
        # the profile, and the service's own client only the variables.
        if region := boto3.Session().region_name or os.environ.get("AWS_REGION"):
            os.environ["AWS_DEFAULT_REGION"] = region
        name = stack_names.stack_name(stage)
        try:
            stacks = boto3.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        except (BotoCoreError, ClientError) as error:
            raise CommandFailed(f"stack {name} cannot be read: {error}") from None
        self.outputs = {output["OutputKey"]: output["OutputValue"] for output in stacks[0].get("Outputs", [])}
        os.environ |= {
            "TABLE_NAME": self.outputs[stack_names.TABLE_OUTPUT],
            "DUE_SHARDS": self.outputs[stack_names.DUE_SHARDS_OUTPUT],
            "RECORDINGS_BUCKET": self.outputs[stack_names.RECORDINGS_OUTPUT],
            "ERASURES_BUCKET": self.outputs[stack_names.ERASURES_OUTPUT],
        }

    def invite(self, email: str) -> str:
        """Create the user in the stack's user pool, which sends an e-mail with a password. Say how to sign in."""
        from shared.admin import user_pool

        pages = self.outputs.get(stack_names.ADMIN_OUTPUT, "the admin pages")
        if stack_names.USER_POOL_OUTPUT not in self.outputs:
            return f"sign in at {pages} with the stage's own provider"
        self.use_user_pool()
        try:
            invited = user_pool.invite(email)
        except (Unavailable, AwsError) as error:
            raise CommandFailed(f"the member was added, but the user pool has no user for them: {error}") from None
        if not invited:
            return f"sign in at {pages}, as before"
        return f"an e-mail with a password was sent; sign in at {pages}"

    def use_user_pool(self) -> None:
        """Let the commands that follow use the stack's user pool."""
        if stack_names.USER_POOL_OUTPUT not in self.outputs:
            raise CommandFailed("the stage has no user pool: people sign in at its own provider")
        os.environ["USER_POOL_ID"] = self.outputs[stack_names.USER_POOL_OUTPUT]

    def sign_in_url(self, email: str) -> str:
        """Links sign nobody in on a deployed stage."""
        raise CommandFailed("only the local runner has sign-in links; on a deployed stage people sign in at a provider")

    def failures(self) -> Iterator[StoredBatch]:
        """The failed batches of the table's stream, oldest first."""
        from shared.erasure import stored_batches

        return stored_batches.in_bucket(self.outputs[stack_names.FAILURES_OUTPUT])

    def fan_out(self, event: Any) -> Any:
        """Invoke the function with a batch."""
        import boto3

        name = self.outputs[stack_names.FAN_OUT_OUTPUT]
        answer = boto3.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event).encode())
        result = json.loads(answer["Payload"].read())
        if "FunctionError" in answer:
            raise CommandFailed(f"fan_out failed again: {result.get('errorMessage')}")
        return result


Stage = LocalStage | DeployedStage
