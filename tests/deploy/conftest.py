"""One LocalStack and one deployed stack for all tests of this folder, which run in the order of their file."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.rehearse.rehearsal import copy
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
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is deployed from, for the platform of this machine."""
    folder = tmp_path_factory.mktemp("rehearsal") / "checkout"
    copy(clouds.ROOT, folder, ())
    settings = json.loads((folder / "cdk.json").read_text())
    settings["context"]["bundle_platform"] = clouds.own_platform()
    (folder / "cdk.json").write_text(json.dumps(settings))
    return folder


Rehearse = Callable[..., str]


@pytest.fixture(scope="session")
def rehearse(cloud: Cloud, checkout: Path) -> Rehearse:
    """Run `infra.rehearse` with these options, and return what it wrote."""
    options = ("--stage", "dev", "--account", clouds.ACCOUNT, "--connect-to", f"127.0.0.1:{cloud.port}")
    return lambda *more: cloud.run("infra.rehearse", *options, *more, checkout=checkout)


@pytest.fixture(scope="session")
def deployed(bootstrapped: Cloud, before_deploy: set[str], rehearse: Rehearse) -> Deployed:
    report("cdk deploy, the first step of the rehearsal")
    rehearse("--only", "first_release")
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
