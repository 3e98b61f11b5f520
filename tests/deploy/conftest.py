"""One LocalStack and one deployed stack for all tests of this folder, which run in the order of their file."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from infra.stack_names import API_OUTPUT, stack_name
from tests.conformance.client import Client, Promises
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
    def base_url(self) -> str:
        """The API's address as LocalStack serves it, without TLS; it names the scheme to functions in capitals."""
        return self.api_url.replace("https:", "HTTP:")

    @property
    def api_id(self) -> str:
        return urlsplit(self.api_url).netloc.partition(".")[0]


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
def stage(cloud: Cloud, deployed: Deployed) -> dict[str, str]:
    """What tells another process where the stage is, as tests/conformance reads it: nobody resolves its host name."""
    return {"BASE_URL": deployed.base_url, "CONNECT_TO": f"127.0.0.1:{cloud.port}"}


@pytest.fixture(scope="session")
def client(cloud: Cloud, deployed: Deployed) -> Client:
    """Test mode of a project of its own."""
    return client_of(cloud, deployed, make_keys(cloud, "Blue Clinic")["TEST_KEY"])


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


def make_keys(cloud: Cloud, project_name: str) -> dict[str, str]:
    """`TEST_KEY` and `LIVE_KEY` of a project that the operator's tool makes."""
    project = re.search(r"project (\d+)", cloud.manage("projects", "create", project_name))
    assert project
    keys = {}
    for mode in ("test", "live"):
        made = cloud.manage("keys", "create", project[1], "--mode", mode, "--label", "trial")
        key = re.search(rf"sk_{mode}_\w+", made)
        assert key
        keys[f"{mode.upper()}_KEY"] = key[0]
    return keys


def client_of(cloud: Cloud, deployed: Deployed, key: str | None) -> Client:
    return Client(deployed.base_url, key, Promises(deployed.base_url), connect_to=("127.0.0.1", cloud.port))


def outputs_of(cloud: Cloud) -> Deployed:
    """What the stack says of itself now."""
    (stack,) = cloud.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    return Deployed({output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]})
