"""The service in this process: the very handlers on DynamoDB Local, with moto for queues, machines and keys.

The topology says what there is; `Stage` does what API Gateway and Lambda's event source mappings do, one step at
a time, so that a test decides what runs when.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra import topology
from infra.local import database, names, resources
from infra.local.lambdas import Context
from infra.local.routes import Routes
from infra.local.stream import STREAMS, stream_record
from shared.aws import client as aws_client
from shared.aws import credentials, services
from shared.core.event_types import STREAM_KINDS
from tests.support import gateway_events, moto_server, privileges
from tests.support.wire import forget_clients

if TYPE_CHECKING:
    from moto.sqs.models import Queue

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Answer:
    """An HTTP response; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error code."""
        return str(self.json["error"]["code"])


@dataclass(frozen=True)
class Project:
    """A project of a test's own, so that tests do not see each other's rows."""

    id: int
    test_key: str
    live_key: str


class Stage:
    """A running service whose queues and stream move when told to."""

    def __init__(self, stream_arn: str, queues: Mapping[str, resources.QueueAddress]) -> None:
        import boto3

        self.queues = queues
        self._stream_arn = stream_arn
        self._streams = aws_client.AwsClient(STREAMS, credentials.Source())
        self._sqs = boto3.client("sqs")
        self._iterators: dict[str, str | None] = {}
        self._handlers = {
            function.name: importlib.import_module(function.module).handler for function in topology.FUNCTIONS
        }
        self._key: str | None = None
        # Tests may create projects of their own, whose numbers follow the last one. With long numbers rows are larger:
        # what rows cost is then what they cost in any project.
        self._project_ids = itertools.count(1_000_000, 100)

    def close(self) -> None:
        """Close the connections to the stream."""
        self._streams.close()

    def project(self, name: str = "Test") -> Project:
        """A new project with a key of each mode; `call` uses the test key from now on."""
        from shared.projects import api_keys, projects
        from shared.store import table
        from tests.support import rows

        with privileges.running(None):
            # `projects.create` reads all projects to find the next number, and here there are thousands.
            id = next(self._project_ids)
            projects.ensure(id, name)
            test, live = (api_keys.create(id, livemode, "test") for livemode in (False, True))
            # Not in a transaction, which takes DynamoDB Local four times as long: there is a project for each test.
            rows.write([put.row for put in (*test.writes, *live.writes) if isinstance(put, table.Put)])
        self._key = test.doc.plaintext
        return Project(id, test.doc.plaintext, live.doc.plaintext)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        raw: str | bytes | None = None,
    ) -> Answer:
        """An API request, its query in `path`; `body` goes as JSON, `raw` as it is, the key is the project's."""
        event = self.request(method, path, body, key=key, headers=headers, raw=raw)
        found = self.invoke(_function_of(method, path.partition("?")[0]), event)
        return Answer(found["statusCode"], found["headers"], found["body"].encode())

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        raw: str | bytes | None = None,
    ) -> dict[str, Any]:
        """An API request as the gateway gives it to a function."""
        key = self._key if key is None else key
        return gateway_events.request(
            method, path, body, key=key, headers=headers, raw=raw, request_id=str(uuid.uuid4())
        )

    def invoke(self, function: str, event: Any, seconds: float = 60) -> Any:
        """Call a function as Lambda does, `seconds` before its time is over."""
        arn = names.arn("lambda", f"function:{names.function(function)}")
        with privileges.running(function):
            return self._handlers[function](event, Context(function, "512", arn, time.monotonic() + seconds))

    def stream_records(self) -> list[dict[str, Any]]:
        """The changes since the last look that the stream filter lets through, as Lambda's records."""
        found: list[Any] = []
        if not any(self._iterators.values()):
            self._find_shards()
        for id in self._iterators:
            while iterator := self._iterators[id]:
                answer = self._streams.call("GetRecords", {"ShardIterator": iterator, "Limit": 1000})
                self._iterators[id] = answer.get("NextShardIterator")
                found += answer["Records"]
                if not answer["Records"]:
                    break
        return [stream_record(record, self._stream_arn) for record in found if _kind(record) in STREAM_KINDS]

    def _find_shards(self) -> None:
        """Begin with the shards that are new: the first of all, and the one after a shard that ended."""
        for shard in self._streams.call("DescribeStream", {"StreamArn": self._stream_arn})["StreamDescription"][
            "Shards"
        ]:
            if (id := shard["ShardId"]) not in self._iterators:
                place = {"StreamArn": self._stream_arn, "ShardId": id, "ShardIteratorType": "TRIM_HORIZON"}
                self._iterators[id] = self._streams.call("GetShardIterator", place)["ShardIterator"]

    def fan_out(self, records: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
        """Give fan_out the records, or all that are new; returns them."""
        records = self.stream_records() if records is None else records
        for start in range(0, len(records), 100):
            answer = self.invoke("fan_out", {"Records": records[start : start + 100]})
            assert answer == {"batchItemFailures": []}, answer
        return records

    def messages(self, queue: str) -> list[dict[str, Any]]:
        """Take what a queue has to give right now, as Lambda's records; the messages are gone from it."""
        address, stored, found = self.queues[queue], self._stored(queue), []
        # A function that a test interrupts does not do this.
        with privileges.running(None):
            # moto is in this process: a queue that has nothing to give is not asked.
            while stored.messages and (
                batch := self._sqs.receive_message(
                    QueueUrl=address.url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
                ).get("Messages")
            ):
                for message in batch:
                    self._sqs.delete_message(QueueUrl=address.url, ReceiptHandle=message["ReceiptHandle"])
                    found.append(sqs_record(message["Body"], address.arn, message["Attributes"]))
        return found

    def _stored(self, queue: str) -> Queue:
        """moto's own picture of a queue."""
        from moto.sqs.models import sqs_backends

        return sqs_backends[names.ACCOUNT][names.REGION].get_queue(self.queues[queue].name)

    def empty_storage(self) -> None:
        """Delete all rows and recordings; keys and projects of before are gone.

        The table stays: once DynamoDB Local has deleted a table with a stream, each call takes twenty times as long.
        """
        import boto3

        boto3.resource("s3").Bucket(os.environ["RECORDINGS_BUCKET"]).objects.all().delete()
        table = boto3.resource("dynamodb").Table(resources.TABLE_NAME)
        names = {"#pk": topology.TABLE.hash_key, "#sk": topology.TABLE.range_key}
        read: dict[str, Any] = {"ProjectionExpression": ",".join(names), "ExpressionAttributeNames": names}
        while page := table.scan(**read):
            with table.batch_writer() as writer:
                for key in page["Items"]:
                    writer.delete_item(Key=key)
            if "LastEvaluatedKey" not in page:
                break
            read["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def empty_queues(self) -> None:
        """Take away all messages, those that are delayed or in flight, too."""
        from moto.sqs.models import sqs_backends

        backend = sqs_backends[names.ACCOUNT][names.REGION]
        for stored in map(self._stored, self.queues):
            stored.last_purged_at = None  # SQS, and moto, purge a queue once a minute.
            backend.purge_queue(stored.name)

    def deliver(self, *queues: str) -> int:
        """Give deliver what these queues (all of its own, if none is named) have to give; how many messages."""
        reads = next(function.queues for function in topology.FUNCTIONS if function.name == "deliver")
        records = [record for queue in queues or [source.queue for source in reads] for record in self.messages(queue)]
        for record in records:
            self.invoke("deliver", {"Records": [record]})
        return len(records)

    def nudge(self, function: str, queue: str, message: Mapping[str, Any]) -> None:
        """Give a function the message as if its queue had handed it out."""
        answer = self.invoke(function, {"Records": [sqs_record(json.dumps(message), self.queues[queue].arn)]})
        assert answer == {"batchItemFailures": []}, answer

    def settle(self) -> None:
        """Fan out and deliver until nothing moves that is due now."""
        while self.fan_out() or self.deliver():
            pass


def queue_name(address: str) -> str:
    """The topology's name of the queue with this URL or ARN."""
    physical = re.split("[/:]", address)[-1]
    return next(queue.name for queue in topology.QUEUES if names.queue(queue.name, queue.fifo) == physical)


def sqs_record(body: str, arn: str, attributes: Mapping[Any, Any] | None = None) -> dict[str, Any]:
    """A message as Lambda gives it to a function."""
    given = {"SentTimestamp": str(int(time.time() * 1000)), "ApproximateReceiveCount": "1", "MessageGroupId": "g"}
    return {
        "messageId": str(uuid.uuid4()),
        "receiptHandle": "r",
        "body": body,
        "attributes": given | dict(attributes or {}),
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": names.REGION,
    }


def wake_up_record(stage: Stage, queue: str, pk: str, sk: str, **also: str) -> dict[str, Any]:
    """The wake-up for a row as Lambda gives it to the worker that reads the queue."""
    return sqs_record(json.dumps({"pk": pk, "sk": sk, **also}), stage.queues[queue].arn)


@contextmanager
def running_database(folder: Path) -> Iterator[int]:
    """DynamoDB Local with its data in memory, which logs to `folder`; ends with the context. Yields its port."""
    port, log = database.free_port(), folder / "dynamodb.log"
    process = database.start(None, log, port, (), optimize=True)
    try:
        database.await_ready(process, log, port)
        yield port
    finally:
        process.kill()
        process.wait()


@contextmanager
def running(database_port: int, folder: Path, recorder: privileges.Recorder, owner: str = "local") -> Iterator[Stage]:
    """A stage that ends with the context. `recorder` sees what its functions ask of AWS.

    Stages of different owners can share a database: `owner` is the access key id, and it separates their data.
    """
    import boto3
    from moto import mock_aws

    environment = {
        "AWS_ACCESS_KEY_ID": owner,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": names.REGION,
        "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
        "AWS_EC2_METADATA_DISABLED": "true",
        "ALLOW_LOOPBACK_RECEIVERS": "1",
        "VENDORED": str(ROOT / "node_modules"),
        "OPENAPI_FILE": str(ROOT / "tests/openapi.json"),
        "SPEED": "1",
        "LOG_LEVEL": os.environ.get("LOG_LEVEL", "CRITICAL"),
        "SERVICE_NAME": "test",
    }
    before = dict(os.environ)
    try:
        url = f"http://127.0.0.1:{database_port}"
        os.environ |= environment | {"AWS_ENDPOINT_URL_DYNAMODB": url, "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": url}
        with (
            mock_aws(config={"stepfunctions": {"execute_state_machine": True}, "core": {"mock_credentials": False}}),
            moto_server.serving() as endpoints,
            aws_client.hooked(_Refusal()),
        ):
            os.environ |= endpoints
            stream_arn = resources.ensure_table(boto3.client("dynamodb"), folder)
            queues = resources.create_queues(boto3.client("sqs"))
            machines = resources.create_state_machines(boto3.client("stepfunctions"), queues)
            signing_key = boto3.client("kms").create_key()["KeyMetadata"]["KeyId"]
            recordings = resources.create_bucket(boto3.client("s3"))
            failed_batches = resources.create_bucket(boto3.client("s3"), resources.FAILED_BATCHES)
            erasures = resources.create_bucket(boto3.client("s3"), resources.ERASURES)
            notices_topic = boto3.client("sns").create_topic(Name="notices")["TopicArn"]
            deployment = topology.Deployment(
                table=resources.TABLE_NAME,
                queues={name: address.url for name, address in queues.items()},
                machines=machines,
                signing_key=signing_key,
                recordings=recordings,
                failed_batches=failed_batches,
                erasures=erasures,
                notices_topic=notices_topic,
            )
            for function in topology.FUNCTIONS:
                os.environ |= function.environment(deployment)
            places = privileges.Places(
                table=resources.TABLE_NAME,
                queues={address.url: name for name, address in queues.items()},
                machines={arn: name for name, arn in machines.items()},
                signing_key=signing_key,
                recordings=recordings,
                failed_batches=failed_batches,
                erasures=erasures,
            )
            assert boto3.DEFAULT_SESSION is not None
            with recorder.watching(boto3.DEFAULT_SESSION.events, places):
                stage = Stage(stream_arn, queues)
                yield stage
                stage.close()
    finally:
        forget_clients()
        for client in (services.s3, services.secretsmanager, services.cognito, services.sns):
            client.cache_clear()
        asyncio.get_event_loop().close()
        os.environ.clear()
        os.environ.update(before)


class _Refusal(aws_client.Hook):
    """What the real service does not take of a message, and moto does."""

    def call(self, call: aws_client.AwsCall, proceed: Callable[[aws_client.AwsCall], Any]) -> Any:
        if call.operation == "SendMessageBatch":
            fifo = call.parameters["QueueUrl"].endswith(".fifo")
            for entry in call.parameters["Entries"]:
                refused = "DelaySeconds" if fifo else "MessageDeduplicationId"
                assert refused not in entry, f"{refused} is invalid for this queue type"
        return proceed(call)


def _function_of(method: str, path: str) -> str:
    match = Routes(topology.FUNCTIONS).match(method, path)
    assert match is not None, "fallback takes every path"
    return match.function.name


def _kind(record: Any) -> str:
    images = record["dynamodb"]
    image = images.get("NewImage") or images.get("OldImage") or {}
    return str(image.get("kind", {}).get("S"))
