"""schemathesis sends every operation requests that are as described, and requests that are not.

It fails for a status, a header, a content type or a body that is not described, for a request that is as described and
refused, for one that is not and accepted, for a 5xx, and more: all of its checks are on. `hooks.py` names the
exceptions. The seed is fixed, so that a run tests what the last one did. `make fuzz` takes as long as it needs, with
another seed each time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.runner import ROOT, Service

CONFIG = Path(__file__).with_name("schemathesis.toml")
FULL = os.environ.get("FUZZ") == "full"
SEED = 20261122
SECONDS = 170
EXAMPLES = 300


def test_every_operation_does_what_the_description_says(service: Service) -> None:
    command: list[str | Path] = [
        Path(sys.executable).parent / "st",
        "--config-file",
        CONFIG,
        "run",
        f"{service.base_url}/openapi.json",
    ]
    extent = ["--max-examples", str(EXAMPLES)] if FULL else ["--max-time", str(SECONDS), "--seed", str(SEED)]
    environment = os.environ | {"BEARER": service.projects[0].test_key, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, "--no-color", *extent], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-30_000:] + done.stderr
    if FULL:
        sys.stdout.write(done.stdout[-3_000:])
