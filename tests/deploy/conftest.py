"""One LocalStack and one deployed stack for all tests of this folder, which run in the order of their file."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy import cloud as clouds
from tests.deploy.cloud import Cloud, report
from tests.deploy.deployed import Deployed, client_of, make_keys, outputs_of
from tests.deploy.inventory import inventory
from tests.support.client import Client
from tests.support.signed_receiver import Receiver


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
    with Receiver() as started:
        yield started


@pytest.fixture
def changed_checkout(tmp_path: Path) -> Path:
    """A copy of what is deployed from, with a ping that answers something else."""
    for name in ("functions", "infra", "requirements", "shared"):
        shutil.copytree(clouds.ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    settings = json.loads((clouds.ROOT / "cdk.json").read_text())
    settings |= {"requireApproval": "never", "progress": "events", "notices": False}
    settings["context"]["bundle_platform"] = clouds.own_platform()
    (tmp_path / "cdk.json").write_text(json.dumps(settings))
    shutil.copy(clouds.ROOT / "package.json", tmp_path)
    # The bundle contains files of npm packages.
    (tmp_path / "node_modules").symlink_to(clouds.ROOT / "node_modules")
    ping = tmp_path / "functions" / "ping.py"
    source = ping.read_text()
    assert '"object": "ping"' in source
    ping.write_text(source.replace('"object": "ping"', '"object": "second ping"'))
    return tmp_path
