"""One LocalStack and one deployed stack for all tests of this folder, which run in the order of their file."""

from __future__ import annotations

import http.client
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from infra.stack_names import API_OUTPUT, stack_name
from tests.conformance.client import Client, Promises, Response
from tests.conformance.receiver import Receiver
from tests.deploy import cloud as clouds
from tests.deploy.cloud import Cloud, report
from tests.deploy.inventory import inventory

STACK = stack_name("dev")


@dataclass(frozen=True)
class Deployed:
    """The stack's outputs."""

    outputs: Mapping[str, str]

    @property
    def api_url(self) -> str:
        return self.outputs[API_OUTPUT]

    @property
    def host(self) -> str:
        return urlsplit(self.api_url).netloc

    @property
    def api_id(self) -> str:
        return self.host.partition(".")[0]


class StageClient(Client):
    """Requests for the API's own host and stage, which LocalStack serves on its one address without TLS."""

    def __init__(self, cloud: Cloud, deployed: Deployed, key: str | None) -> None:
        # LocalStack names the scheme to a function in capitals.
        super().__init__(deployed.api_url, key, Promises(deployed.api_url.replace("https:", "HTTP:")))
        self._port = cloud.port
        self._host = deployed.host

    def _exchange(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> Response:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, target, body, {**headers, "Host": self._host})
            answer = connection.getresponse()
            return Response(answer.status, answer.headers, answer.read())
        finally:
            connection.close()


@pytest.fixture(scope="session")
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    folder = Path(tempfile.mkdtemp(prefix="deploy-"))
    report("starting LocalStack")
    try:
        with clouds.running(folder) as started:
            yield started
    finally:
        if request.session.testsfailed:
            report(f"the logs are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def bootstrapped(cloud: Cloud) -> Cloud:
    report("cdk bootstrap")
    # Away from the app, which would be synthesized for nothing.
    cloud.cdk("bootstrap", f"aws://{clouds.ACCOUNT}/{clouds.REGION}", checkout=cloud.folder)
    return cloud


@pytest.fixture(scope="session")
def before_deploy(bootstrapped: Cloud) -> set[str]:
    """All that is in the account before the stack."""
    return inventory(bootstrapped)


@pytest.fixture(scope="session")
def deployed(bootstrapped: Cloud, before_deploy: set[str]) -> Deployed:
    report("cdk deploy: making the bundle and the templates")
    bootstrapped.cdk("deploy", "--all", "--require-approval", "never")
    return outputs_of(bootstrapped)


@pytest.fixture(scope="session")
def client(cloud: Cloud, deployed: Deployed) -> StageClient:
    """Test mode of a project that the operator's tool has made."""
    project = re.search(r"project (\d+)", cloud.manage("projects", "create", "Blue Clinic"))
    assert project
    key = re.search(r"sk_test_\w+", cloud.manage("keys", "create", project[1], "--mode", "test", "--label", "trial"))
    assert key
    return StageClient(cloud, deployed, key[0])


@pytest.fixture(scope="session")
def receiver() -> Iterator[Receiver]:
    started = Receiver()
    yield started
    started.close()


@pytest.fixture
def changed_checkout(tmp_path: Path) -> Path:
    """A copy of what is deployed from, with a ping that answers something else."""
    for name in ("functions", "infra", "requirements", "shared"):
        shutil.copytree(clouds.ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(clouds.ROOT / "cdk.json", tmp_path)
    ping = tmp_path / "functions" / "ping.py"
    source = ping.read_text()
    assert '"object": "ping"' in source
    ping.write_text(source.replace('"object": "ping"', '"object": "second ping"'))
    return tmp_path


def outputs_of(cloud: Cloud) -> Deployed:
    """What the stack says of itself now."""
    (stack,) = cloud.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    return Deployed({output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]})
