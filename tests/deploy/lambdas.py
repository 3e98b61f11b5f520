"""The topology's functions on one machine, each a process on the one bundle, with AWS on loopback behind them.

The table is DynamoDB Local's; queues, machines, keys and recordings are moto's, as in `make run`. Nothing moves
by itself: a test takes messages and stream records, and hands them to a function as Lambda would.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from infra import bundle as bundles
from infra import topology
from infra.bundle import Bundle
from infra.local import processes, resources, sqs_endpoint
from infra.local.data_dir import DataDir
from infra.local.sqs import Engine
from infra.topology import Function
from shared.core.event_types import STREAM_KINDS
from tests.deploy import providers, samples
from tests.deploy.cloud import ROOT
from tests.deploy.providers import Providers
from tests.deploy.runtime_api import FunctionProcess, Invocation, Program, make_support

MODEL = "amazon.nova-lite-v1:0"
CARRIER = {
    "CONNECT_INSTANCE_ID": str(uuid.uuid4()),
    "CONNECT_CONTACT_FLOW_ID": str(uuid.uuid4()),
    "CONNECT_SOURCE_PHONE_NUMBER": "+15005550001",
}
MESSENGER = {"WHATSAPP_PHONE_NUMBER_ID": "phone-number-id-976c72a700aac43eaf573ae050example"}
"""What functions are told of Bedrock, Amazon Connect and WhatsApp."""

SPEED = 1000
"""Divides the waits of simulated calls and retries."""

PATIENCE = 10
"""Seconds to wait for a message."""


@dataclass(frozen=True)
class Measured:
    """What a function took: seconds until it was imported, and the most bytes in memory, where that can be known."""

    name: str
    init: float
    peak: int | None
    memory: int


@dataclass(frozen=True)
class Keys:
    """API keys of a project."""

    project_id: int
    test: str
    live: str


class Functions:
    """Functions start when first called, and stay."""

    def __init__(self, folder: Path, bundle: Bundle, providers: Providers, backend: Mapping[str, str]) -> None:
        """`backend` is what `infra.local.backend` prints; the queues, machines and the table are made here."""
        self.bundle = bundle
        self.providers = providers
        self._folder = folder
        self._python = _python()
        self._support = make_support(folder / "support", _site_packages())
        (folder / "functions").mkdir()
        self._running: dict[str, FunctionProcess] = {}
        self._dynamodb_url, self._aws_url = backend["dynamodb_url"], backend["aws_url"]
        self.stream_arn = resources.ensure_table(self.client("dynamodb"), folder)
        self.queues = resources.create_queues(self.client("sqs"))
        self._deployment = topology.Deployment(
            table=resources.TABLE_NAME,
            queues={name: address.url for name, address in self.queues.items()},
            machines=resources.create_state_machines(self.client("stepfunctions"), self.queues),
            signing_key=backend["signing_key"],
            recordings=resources.create_bucket(self.client("s3")),
            failed_batches="failed-batches",
            erasures="erasures",
            model=MODEL,
            carrier=CARRIER,
            messenger=MESSENGER,
            base_url="http://127.0.0.1:1",
        )
        self.keys = self._project()

    def client(self, service: str) -> Any:
        """A boto3 client of what is behind the functions."""
        sdk: Any = boto3
        url = self._dynamodb_url if service.startswith("dynamodb") else self._aws_url
        return sdk.client(
            service,
            endpoint_url=url,
            region_name=samples.REGION,
            aws_access_key_id="local",
            aws_secret_access_key="local",
        )

    def start(self, name: str) -> FunctionProcess:
        """The function's process, its module imported. Raises InitError."""
        if name not in self._running:
            function = _function(name)
            program = Program(
                self._python, self._support, self.bundle.folder, topology.ENTRY_POINT, timeout=function.timeout_s
            )
            running = FunctionProcess(
                program, self._environment(function), self._log(name), in_child=processes.die_with_parent()
            )
            self._running[name] = running
            running.await_ready()
        return self._running[name]

    def invoke(self, name: str, event: Any) -> tuple[bool, Any]:
        """Whether the function failed, and what it answered."""
        arn = f"arn:aws:lambda:{samples.REGION}:{samples.ACCOUNT}:function:{name}"
        failed, answer = self.start(name).invoke(Invocation(str(uuid.uuid4()), arn, json.dumps(event).encode()))
        return failed, json.loads(answer)

    def call(self, name: str, event: Any) -> Any:
        """What the function answered, which must not be a failure."""
        failed, answer = self.invoke(name, event)
        assert not failed, f"{name} failed: {answer}\n{self._log(name).read_text()[-3000:]}"
        return answer

    def take(self, queue: str) -> list[Any]:
        """What a queue has by now, or the first that comes, as events of one message each. Fails if none comes."""
        sqs, url = self.client("sqs"), self.queues[queue].url
        answer = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=PATIENCE, MessageSystemAttributeNames=["All"]
        )
        taken = answer.get("Messages", [])
        assert taken, f"nothing came to the queue {queue}"
        for message in taken:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        name = url.rpartition("/")[2]
        return [samples.message(name, message["Body"], **message["Attributes"]) for message in taken]

    def work(self, name: str, queue: str) -> None:
        """Have the function do what a queue has by now, or the first that comes."""
        for event in self.take(queue):
            assert self.call(name, event) == {"batchItemFailures": []}

    def changes(self) -> list[Any]:
        """All records of the table's stream that Lambda's filter lets through."""
        streams, found = self.client("dynamodbstreams"), list[Any]()
        for shard in streams.describe_stream(StreamArn=self.stream_arn)["StreamDescription"]["Shards"]:
            iterator = streams.get_shard_iterator(
                StreamArn=self.stream_arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            while iterator:
                answer = streams.get_records(ShardIterator=iterator)
                found += answer["Records"]
                iterator = answer.get("NextShardIterator") if answer["Records"] else None
        return [record for record in found if _kind(record) in STREAM_KINDS]

    def measured(self) -> list[Measured]:
        """What the functions have taken that have run."""
        return [
            Measured(function.name, running.await_ready(), running.peak_memory, function.memory)
            for function in topology.FUNCTIONS
            if (running := self._running.get(function.name))
        ]

    def stop(self) -> None:
        """End all of them."""
        for running in self._running.values():
            running.stop()

    def _log(self, name: str) -> Path:
        return self._folder / "functions" / f"{name}.log"

    def _environment(self, function: Function) -> dict[str, str]:
        ours = function.environment(self._deployment)
        of_lambda = {
            "AWS_EXECUTION_ENV": f"AWS_Lambda_python{bundles.PYTHON}",
            "AWS_LAMBDA_FUNCTION_NAME": function.name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory),
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
        }
        here = _aws_environment() | {
            "AWS_ENDPOINT_URL": self._aws_url,
            "AWS_ENDPOINT_URL_DYNAMODB": self._dynamodb_url,
            "AWS_ENDPOINT_URL_CONNECT": self.providers.url,
            "AWS_ENDPOINT_URL_SOCIALMESSAGING": self.providers.url,
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": self.providers.url,
            "ALLOW_LOOPBACK_RECEIVERS": "1",
            "SPEED": str(SPEED),
        }
        return of_lambda | here | ours | {"LOG_LEVEL": "INFO"}

    def _project(self) -> Keys:
        """A project with its keys, made by the service's own functions."""
        from shared.aws import services
        from shared.projects import projects
        from tests.support.keys import new_key

        settings = {"AWS_ENDPOINT_URL_DYNAMODB": self._dynamodb_url, "TABLE_NAME": resources.TABLE_NAME}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (_aws_environment() | settings).items():
                patch.setenv(name, value)
            services.dynamodb.cache_clear()
            try:
                id = projects.create("Blue Clinic").id
                return Keys(id, *(new_key(id, livemode=mode) for mode in (False, True)))
            finally:
                services.dynamodb().close()
                services.dynamodb.cache_clear()


@contextlib.contextmanager
def running(folder: Path, bundle: Bundle) -> Iterator[Functions]:
    """The functions and what is behind them, with their files in `folder`; all end with the block or this process."""
    with providers.running() as there, _backend(folder) as backend:
        functions = Functions(folder, bundle, there, backend)
        try:
            yield functions
        finally:
            functions.stop()


@contextlib.contextmanager
def _backend(folder: Path) -> Iterator[Mapping[str, str]]:
    data = DataDir(folder / "data")
    data.save("kms.json", {"key_id": str(uuid.uuid4()), "key_material": secrets.token_hex(32)})
    own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with (folder / "backend.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "infra.local.backend", str(data.path)],
            cwd=ROOT,
            # moto compares a state machine's times, in UTC, with the local clock.
            env=own | _aws_environment() | {"TZ": "UTC", "AWS_ENDPOINT_URL_SQS": sqs_endpoint.serve(Engine())},
            # It ends when this pipe closes, which no end of this process can prevent.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    with process:
        assert process.stdin
        assert process.stdout
        try:
            answer = json.loads(process.stdout.readline() or '{"error": "it ended"}')
            assert "error" not in answer, f"{answer['error']}\n{(folder / 'backend.log').read_text()[-3000:]}"
            yield answer
        finally:
            process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            data.close()


def machine_code() -> bytes:
    """What an ELF file for this machine has at offset 18."""
    return {"x86_64": 62, "aarch64": 183, "arm64": 183}[platform.machine()].to_bytes(2, "little")


def _python() -> Path:
    found = bundles.find_python()
    assert found, f"the functions need Python {bundles.PYTHON} on this machine"
    return Path(shutil.which(found) or found).resolve()


def _site_packages() -> Path:
    found = next((ROOT / ".venv-deploy" / "lib").glob("python*/site-packages"), None)
    assert found, "awslambdaric is not installed: `make test-deploy` installs it"
    return found


def _aws_environment() -> dict[str, str]:
    """So that no client reaches for the person's own AWS account, or for a proxy."""
    return {
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_REGION": samples.REGION,
        "AWS_DEFAULT_REGION": samples.REGION,
        "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }


def _function(name: str) -> Function:
    return next(function for function in topology.FUNCTIONS if function.name == name)


def _kind(record: Mapping[str, Any]) -> str:
    images = record["dynamodb"]
    image = images.get("NewImage") or images["OldImage"]
    return str(image.get("kind", {}).get("S"))
