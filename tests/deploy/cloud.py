"""AWS on this machine: LocalStack with DynamoDB Local beside it, for as long as the tests run."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from infra.local import database, processes

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-deploy" / "bin" / "python"
"""The interpreter that LocalStack is installed for; functions run on the Python that it was made from."""

ACCOUNT, REGION = "000000000000", "eu-central-1"
SPEED = 50
"""Divides the deployed functions' waits: a fifth attempt comes 36 s after the fourth, not half an hour."""

START_PATIENCE = 120
COMMAND_PATIENCE = 300
_SETTINGS = {
    "DNS_ADDRESS": "0",
    "SKIP_SSL_CERT_DOWNLOAD": "1",
    "DISABLE_EVENTS": "1",
    # The variants that work on DynamoDB Local's own streams.
    "PROVIDER_OVERRIDE_DYNAMODB": "v2",
    "PROVIDER_OVERRIDE_DYNAMODBSTREAMS": "v2",
    # Addresses that need no name service.
    "SQS_ENDPOINT_STRATEGY": "path",
    # A queue is served one message at a time, the stream is looked into without pause but for this one.
    "LAMBDA_EVENT_SOURCE_MAPPING_POLL_INTERVAL_SEC": "0.2",
    # An empty queue.
    "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC": "0.5",
    # Imports may be slow while others use the machine.
    "LAMBDA_RUNTIME_ENVIRONMENT_TIMEOUT": "60",
}
_FUNCTION_ENVIRONMENT = {
    # Not in the stack: a deployed service knows neither receivers on loopback nor simulated live calls nor hurry.
    "ALLOW_LOOPBACK_RECEIVERS": "1",
    "SIMULATE_LIVE": "1",
    "SPEED": str(SPEED),
    # The database has the tables under this key.
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_SESSION_TOKEN": "",
}
_STARTED = time.monotonic()


def report(text: str) -> None:
    """A line of progress: the whole takes minutes."""
    print(f"\n  {time.monotonic() - _STARTED:4.0f} s  {text}", end="", flush=True)


@dataclass(frozen=True)
class Cloud:
    """Where LocalStack listens; `folder` holds its files and the functions' logs, `functions/NAME.log`."""

    port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @functools.cached_property
    def environment(self) -> dict[str, str]:
        """What makes the CDK, `infra.manage` and any other AWS client talk to it and to nothing else."""
        return _environment_without_aws() | {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "CI": "1",
        }

    def client(self, service: str) -> Any:
        """A boto3 client of this cloud."""
        sdk: Any = boto3
        return sdk.client(
            service,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def cdk(self, *arguments: str, checkout: Path = ROOT) -> str:
        """Run the CDK's command line on the app of a checkout as `make deploy` does, and return what it wrote."""
        command = [str(ROOT / "node_modules" / ".bin" / "cdk"), *arguments, "--progress", "events", "--no-notices"]
        command += [
            "--output",
            str(self.folder / "cdk.out"),
            "--context",
            "stage=dev",
            "--context",
            f"bundle_platform={own_platform()}",
        ]
        return _run(command, checkout, self.environment)

    def manage(self, *arguments: str) -> str:
        """What `python -m infra.manage --stage dev` answers."""
        return self.run("infra.manage", "--stage", "dev", *arguments)

    def run(self, module: str, *arguments: str, checkout: Path = ROOT) -> str:
        """Run a module of a checkout, and return what it wrote. What it waits for itself is scaled."""
        environment = self.environment | {"SPEED": str(SPEED)}
        return _run([sys.executable, "-m", module, *arguments], checkout, environment)

    def pretended(self) -> set[str]:
        """The resource types that LocalStack does not know, and so has not made, whatever it says."""
        log = (self.folder / "localstack.log").read_text(errors="replace")
        return set(re.findall(r"Deployment of resource type (\S+) succeeded, but", log))

    def logs(self) -> Iterator[tuple[str, str]]:
        """The name of each function that has run, and each line it wrote."""
        for path in sorted((self.folder / "functions").glob("*.log")):
            for line in path.read_text(errors="replace").splitlines():
                yield path.stem, line


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Cloud]:
    """LocalStack with its database in `folder`; both end with the block, or with this process."""
    assert PYTHON.exists(), "LocalStack is not installed: `make test-deploy` installs it"
    cloud = Cloud(database.free_port(), folder)
    database_port = database.free_port()
    java = database.start(folder / "dynamodb", folder / "dynamodb.log", database_port, keep_open=())
    try:
        database.await_ready(java, folder / "dynamodb.log", database_port)
        with _localstack(cloud, database_port):
            yield cloud
    finally:
        processes.stop(java, patience=5)


@contextlib.contextmanager
def _localstack(cloud: Cloud, database_port: int) -> Iterator[None]:
    for name in ("functions", "tmp"):
        (cloud.folder / name).mkdir()
    environment = _environment_without_aws() | _SETTINGS
    environment |= {
        "GATEWAY_LISTEN": f"127.0.0.1:{cloud.port}",
        "LOCALSTACK_HOST": f"127.0.0.1:{cloud.port}",
        "DYNAMODB_LOCAL_PORT": str(database_port),
        "FILESYSTEM_ROOT": str(cloud.folder / "filesystem"),
        "TMPDIR": str(cloud.folder / "tmp"),
        "FUNCTION_LOGS": str(cloud.folder / "functions"),
        "FUNCTION_SUPPORT": str(cloud.folder / "support"),
        # Functions speak to the database themselves: LocalStack would take 20 ms to hand on what takes 2.
        "FUNCTION_ENVIRONMENT": json.dumps(
            _FUNCTION_ENVIRONMENT | {"AWS_ENDPOINT_URL_DYNAMODB": f"http://127.0.0.1:{database_port}"}
        ),
    }
    with (cloud.folder / "localstack.log").open("wb") as log:
        process = subprocess.Popen(
            [str(PYTHON), "-m", "tests.deploy.launcher"],
            cwd=ROOT,
            env=environment,
            # It ends when this pipe closes, which no end of this process can prevent.
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )
    try:
        deadline = time.monotonic() + START_PATIENCE
        while not _answers(cloud.url):
            tail = (cloud.folder / "localstack.log").read_text(errors="replace")[-3000:]
            assert process.poll() is None, f"LocalStack ended:\n{tail}"
            assert time.monotonic() < deadline, f"LocalStack is not ready:\n{tail}"
            time.sleep(0.2)
        yield
    finally:
        assert process.stdin
        process.stdin.close()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/_localstack/health", timeout=5):
            return True
    except (OSError, urllib.error.URLError):
        return False


def own_platform() -> str:
    """By uv's name, what wheels must be for to run here: the one thing that differs from a deployment to AWS."""
    machine = {"arm64": "aarch64"}.get(platform.machine(), platform.machine())
    return f"{machine}-apple-darwin" if sys.platform == "darwin" else f"{machine}-manylinux_2_28"


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """What a command wrote; resources done are reported as they are counted. Fails the test with its last lines."""
    written: list[str] = []
    reported = 0
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=processes.die_with_parent(),
    ) as process:
        assert process.stdout
        for line in process.stdout:
            written.append(line)
            if (count := re.search(r"\| +(\d+)/(\d+) \|", line)) and int(count[1]) >= reported + 25:
                reported = int(count[1])
                report(f"{count[1]} of {count[2]} resources")
        code = process.wait(COMMAND_PATIENCE)
    assert code == 0, f"{' '.join(command)} ended with {code}:\n{''.join(written[-40:])}"
    return "".join(written)


def _environment_without_aws() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))}
