"""One module reads the environment, and a deployment sets what it reads."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

from infra import topology
from infra.stage import Firewall, parse

ROOT = Path(__file__).parents[2]
SETTINGS = "shared/core/settings.py"
OF_AWS = ("shared/aws/client.py", "shared/aws/credentials.py")
"""Modules that read AWS's own variables."""
READERS = {"environ", "environb", "getenv", "getenvb"}
FAMILIES = ("QUEUE_", "STATE_MACHINE_")
"""The beginnings of variables that end with the name of a resource."""
OF_PYDANTIC = {"PYDANTIC_DISABLE_PLUGINS"}
OF_LAMBDA = {"_X_AMZN_TRACE_ID"}
SET_ELSEWHERE = {
    "infra/stack.py": {"LOG_LEVEL", "USER_POOL_ID"},
    "infra/local/runner.py": {
        "SPEED",
        "SIMULATE_LIVE",
        "ALLOW_LOOPBACK_RECEIVERS",
        "SIGN_IN_LINKS",
        "VENDORED",
        "OPENAPI_FILE",
        "CLI_FILE",
    },
}
"""Variables that the topology gives to no function, by the module that sets them."""


def reads(source: str) -> Iterator[int]:
    """The lines in which a module reads the environment."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name) if name in READERS:
                yield node.lineno
            case ast.ImportFrom(module="os", names=names) if READERS & {each.name for each in names}:
                yield node.lineno


def variables() -> set[str]:
    """The variables that the settings read; of a family, their beginning."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / SETTINGS).read_text("utf-8"))):
        match node:
            case (
                ast.Subscript(value=ast.Attribute(attr="environ"), slice=name)
                | ast.Call(func=ast.Attribute(value=ast.Attribute(attr="environ")), args=[name, *_])
            ):
                first = name.values[0] if isinstance(name, ast.JoinedStr) else name
                if isinstance(first, ast.Constant):
                    found.add(str(first.value))
    return found


def given() -> set[str]:
    """The variables that the topology gives to the functions of a stage that has everything; of a family, the same."""
    stage = parse(
        "trial",
        json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"]["stages"]["dev"]
        | {
            "connect": {"instance_id": "1", "contact_flow_id": "2", "queue_id": "3", "source_phone_number": "+4"},
            "whatsapp": {"phone_number_id": "1", "template": "a/en", "meta_api_version": "v25.0", "dial": "phone"},
            "oidc": {
                "issuer": "https://example.com",
                "client_id": "1",
                "client_secret_arn": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:client-abcdef",
            },
        },
    )
    deployment = topology.Deployment(
        table="table",
        queues={queue.name: queue.name for queue in topology.QUEUES},
        machines={machine.name: machine.name for machine in topology.STATE_MACHINES},
        signing_key="key",
        recordings="recordings",
        failed_batches="failed",
        erasures="erasures",
        model="model",
        carrier=stage.carrier,
        messenger=stage.messenger,
        sign_in=stage.sign_in,
        notices_topic="topic",
        base_url="https://example.com",
        support_contact="help@example.com",
        terms_url="https://example.com/terms",
        requests_per_second=2,
        messages_per_second=1,
        firewall=Firewall().model_dump(),
    )
    names = {name for function in topology.FUNCTIONS for name in function.environment(deployment)}
    return {next((family for family in FAMILIES if name.startswith(family)), name) for name in names}


def test_no_other_module_reads_the_environment() -> None:
    paths = [path for folder in ("functions", "shared") for path in (ROOT / folder).rglob("*.py")]
    sources = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}
    found = {f"{file}:{line}" for file, source in sources.items() for line in reads(source) if file != SETTINGS}
    assert {each.partition(":")[0] for each in found} == {*OF_AWS}, f"use {SETTINGS}: {sorted(found)}"


def test_every_way_to_read_the_environment_is_seen() -> None:
    for source in ("import os\nos.environ['A']", "import os as it\nit.getenv('A')", "from os import environ as env"):
        assert [*reads(source)], source
    assert not [*reads("import os\nos.urandom(1)")]


def test_the_settings_read_what_a_function_is_given_and_what_is_set_elsewhere() -> None:
    elsewhere = {name for names in SET_ELSEWHERE.values() for name in names}
    assert variables() == (given() - OF_PYDANTIC) | elsewhere | OF_LAMBDA
    for file, names in SET_ELSEWHERE.items():
        text = (ROOT / file).read_text("utf-8")
        assert not [name for name in names if f'"{name}"' not in text], file
