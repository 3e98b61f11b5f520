"""What the runner makes in the local services."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from infra import topology
from infra.local import resources
from infra.local.console import StartError


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with mock_aws():
        yield lambda service: boto3.client(service)


def test_no_resource_has_the_name_that_the_topology_gives_it(aws: Any) -> None:
    queues = resources.create_queues(aws("sqs"))
    machines = resources.create_state_machines(aws("stepfunctions"), queues)
    assert {*queues} == {queue.name for queue in topology.QUEUES}
    for name, address in queues.items():
        assert address.arn == f"arn:aws:sqs:us-east-1:123456789012:{address.name}"
        assert address.url.endswith(f"/123456789012/{address.name}")
        assert name not in address.name
    assert all(not arn.endswith(f":{name}") for name, arn in machines.items())


@pytest.mark.parametrize("queue", topology.QUEUES, ids=lambda queue: queue.name)
def test_a_queue_has_the_attributes_of_the_stacks(aws: Any, queue: topology.Queue) -> None:
    sqs = aws("sqs")
    address = resources.create_queues(sqs)[queue.name]
    found = sqs.get_queue_attributes(QueueUrl=address.url, AttributeNames=["All"])["Attributes"]
    assert found["VisibilityTimeout"] == str(queue.visibility_s)
    assert (found.get("FifoQueue"), found.get("DeduplicationScope"), found.get("FifoThroughputLimit")) == (
        ("true", "messageGroup", "perMessageGroupId") if queue.fifo else (None, None, None)
    )
    redrive = json.loads(found["RedrivePolicy"])
    assert int(redrive["maxReceiveCount"]) == queue.max_receives
    assert redrive["deadLetterTargetArn"].endswith(".fifo") is queue.fifo


def test_a_database_that_holds_another_table_is_refused(aws: Any, tmp_path: Path) -> None:
    dynamodb = aws("dynamodb")
    key: Any = {"AttributeName": "pk", "KeyType": "HASH"}
    dynamodb.create_table(
        TableName="appointments-local",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[key],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
    )
    with pytest.raises(StartError, match="another version"):
        resources.ensure_table(dynamodb, tmp_path)
