"""The deployed stack, its projects' keys and a client of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from infra.stack_names import API_OUTPUT, stack_name
from tests.deploy.cloud import Cloud
from tests.support.client import Client, Promises

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
