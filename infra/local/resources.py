"""Creates the topology's table, queues, state machines and bucket in the local services (`names`)."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from infra.local import names
from infra.local.console import StartError
from infra.stack_names import construct_id
from infra.topology import QUEUES, STATE_MACHINES, TABLE, Index, Queue

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_stepfunctions.client import SFNClient

TABLE_NAME = names.table()
RECORDINGS = names.bucket("Recordings")
ERASURES = names.bucket("Erasures")
FAILED_BATCHES = names.bucket("FailedBatches")
FIFO = {"FifoQueue": "true", "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
"""The attributes of a FIFO queue, as the stack sets them."""
_DEFINITIONS = Path(__file__).parents[1] / "state_machines"


@dataclass(frozen=True)
class QueueAddress:
    """A queue's URL and ARN."""

    url: str
    arn: str

    @property
    def name(self) -> str:
        """The queue's physical name."""
        return self.arn.rpartition(":")[2]


def ensure_table(dynamodb: DynamoDBClient, folder: Path) -> str:
    """Create the table if it does not exist, and its missing indexes. Returns the ARN of its stream.

    Raises StartError if the database in `folder` is damaged, or belongs to another version of the service.
    """
    try:
        found: Any = dynamodb.describe_table(TableName=TABLE_NAME)["Table"]
    except dynamodb.exceptions.ResourceNotFoundException:
        if others := dynamodb.list_tables()["TableNames"]:
            raise _of_another_version(folder, ", ".join(others)) from None
        dynamodb.create_table(
            TableName=TABLE_NAME,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=_keys(TABLE.hash_key, TABLE.range_key),  # type: ignore[arg-type]
            AttributeDefinitions=_attributes(),  # type: ignore[arg-type]
            GlobalSecondaryIndexes=[_index(index) for index in TABLE.indexes],  # type: ignore[misc]
            StreamSpecification={"StreamEnabled": True, "StreamViewType": TABLE.stream},  # type: ignore[typeddict-item]
        )
        found = dynamodb.describe_table(TableName=TABLE_NAME)["Table"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "InternalFailure":
            raise
        raise StartError(f"the database in {folder} is damaged: restore it, or use another DATA_DIR") from None
    kept = {index["IndexName"]: index["KeySchema"] for index in found.get("GlobalSecondaryIndexes", [])}
    wanted = {index.name: _keys(index.hash_key, index.range_key) for index in TABLE.indexes}
    changed = [name for name, keys in kept.items() if wanted.get(name) != keys]
    if changed or found["KeySchema"] != _keys(TABLE.hash_key, TABLE.range_key):
        raise _of_another_version(folder, ", ".join(changed) or "its keys")
    for index in TABLE.indexes:
        if index.name not in kept:
            dynamodb.update_table(
                TableName=TABLE_NAME,
                AttributeDefinitions=_attributes(),  # type: ignore[arg-type]
                GlobalSecondaryIndexUpdates=[{"Create": _index(index)}],  # type: ignore[typeddict-item]
            )
            _await_indexes(dynamodb)
    return str(found["LatestStreamArn"])


def create_bucket(s3: S3Client, name: str = RECORDINGS) -> str:
    """Create a bucket, by default that of recordings. Returns its name."""
    s3.create_bucket(Bucket=name)
    return name


def create_queues(sqs: SQSClient) -> dict[str, QueueAddress]:
    """Create all queues, each with a dead-letter queue. The result has the topology's names as keys."""
    addresses = {}
    for queue in QUEUES:
        dead = _create_queue(sqs, queue, names.dead_letters(queue.name, queue.fifo), {})
        redrive = {"deadLetterTargetArn": dead.arn, "maxReceiveCount": queue.max_receives}
        more = {"VisibilityTimeout": str(queue.visibility_s), "RedrivePolicy": json.dumps(redrive)}
        if queue.retention_s:
            more["MessageRetentionPeriod"] = str(queue.retention_s)
        addresses[queue.name] = _create_queue(sqs, queue, names.queue(queue.name, queue.fifo), more)
    return addresses


def create_state_machines(stepfunctions: SFNClient, queues: dict[str, QueueAddress]) -> dict[str, str]:
    """Create all state machines. The result maps the topology's names to ARNs."""
    arns = {}
    for machine in STATE_MACHINES:
        definition = (_DEFINITIONS / machine.definition).read_text()
        for name, queue in queues.items():
            definition = definition.replace(f"${{queue.{name}}}", queue.url)
        created = stepfunctions.create_state_machine(
            name=names.state_machine(machine.name),
            definition=definition,
            roleArn=names.arn("iam", f"role/{names.role(construct_id(machine.name))}"),
        )
        arns[machine.name] = created["stateMachineArn"]
    return arns


def _create_queue(sqs: SQSClient, queue: Queue, name: str, attributes: dict[str, str]) -> QueueAddress:
    if queue.fifo:
        attributes = attributes | FIFO
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]  # type: ignore[arg-type]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return QueueAddress(url, arn)


def _of_another_version(folder: Path, what: str) -> StartError:
    return StartError(f"the table in {folder} belongs to another version of the service ({what}): use another DATA_DIR")


def _keys(hash_key: str, range_key: str) -> list[dict[str, str]]:
    return [{"AttributeName": hash_key, "KeyType": "HASH"}, {"AttributeName": range_key, "KeyType": "RANGE"}]


def _attributes() -> list[dict[str, str]]:
    keys = {TABLE.hash_key, TABLE.range_key}
    for index in TABLE.indexes:
        keys |= {index.hash_key, index.range_key}
    return [{"AttributeName": name, "AttributeType": "S"} for name in sorted(keys)]


def _index(index: Index) -> dict[str, Any]:
    return {
        "IndexName": index.name,
        "KeySchema": _keys(index.hash_key, index.range_key),
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }


def _await_indexes(dynamodb: DynamoDBClient) -> None:
    while any(
        index.get("IndexStatus") != "ACTIVE"
        for index in dynamodb.describe_table(TableName=TABLE_NAME)["Table"]["GlobalSecondaryIndexes"]
    ):
        time.sleep(0.2)
