"""Both stages' templates from one synth; starting the CDK takes most of its time, so nobody does it twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from aws_cdk import App
from aws_cdk import aws_lambda as lambda_

from infra.app import context, create_stacks
from infra.stack import ServiceStack
from infra.stage import parse
from tests.support.synth import CALLS, GUARDED, NAMED, OWNED, Synthesized, read_templates


@pytest.fixture(scope="session")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ServiceStack]:
    """The stack by its stage's name, in one app, and those that have what the stages of cdk.json lack.

    `prod` has the settings that only its owner knows, `calls` is prod with live calls, a replica of the table and the
    signing key of another region, `guarded` dev with a host name in a hosted zone, firewall, warm throughput, notified
    alarms and its own sign-in provider, `named` dev with a host name, a certificate and a cross-region model. The asset
    is an empty stand-in.
    """
    asset = tmp_path_factory.mktemp("asset")
    (asset / "empty.py").touch()
    app = App(
        context=context(),
        outdir=str(tmp_path_factory.mktemp("cdk.out")),
        analytics_reporting=False,
    )
    described = context()["stages"]
    described["prod"] |= OWNED
    described |= {
        "calls": described["prod"] | CALLS,
        "guarded": described["dev"] | GUARDED,
        "named": described["dev"] | NAMED,
    }
    return {
        name: create_stacks(app, parse(name, settings), lambda_.Code.from_asset(str(asset)))
        for name, settings in described.items()
    }


@pytest.fixture(scope="session")
def stages(stacks: dict[str, ServiceStack]) -> dict[str, Synthesized]:
    """The synthesized stage by its name."""
    app = stacks["dev"].node.root
    assert isinstance(app, App)
    out = Path(app.synth().directory)
    return {name: read_templates(stack, out) for name, stack in stacks.items()}


@pytest.fixture
def prod(stages: dict[str, Synthesized]) -> Synthesized:
    return stages["prod"]
