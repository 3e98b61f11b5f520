"""The releases of the service: the present one, which is the tree, and the previous one, as it was recorded.

`make record-release` records the present one as the previous one of later changes.
"""

from __future__ import annotations

import json
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra import topology
from infra.local import names, resources
from tests.simulation.canary import BASE_URL

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).with_name("previous_release.zip")
OURS = ("shared", "functions")
LEFT_OUT = ("shared/docs", "functions/entry", "functions/fallback")
"""Modules that no simulated function uses."""
PAGES = ("functions/admin", "shared/admin", "shared/pages")
"""Modules that are not recorded: the admin pages need templates, too. Those of the present release are always used."""
VERSION, ENVIRONMENT = "version.txt", "environment.json"
RENAMED: Mapping[str, str] = {}
"""Names of the service that the simulation uses (`Host.module`), by the name that the recorded release has instead.

Both are whole names: of a module, or of what is in a module. The table is emptied when a release is recorded.
"""

Replacement = tuple[str, str, str]
"""A module's file, a text in it that occurs once, and the text in its place."""


@dataclass(frozen=True)
class Release:
    """The sources of the modules, by file. `root` is where the files are, and `environment` that of all functions."""

    root: Path
    sources: Mapping[str, str]
    environment: Mapping[str, str]
    version: str
    previous: bool = False


def present(planted: Iterable[Replacement] = ()) -> Release:
    """The tree, with planted faults."""
    files = [path for package in OURS for path in sorted((ROOT / package).rglob("*.py"))]
    sources = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}
    sources = {file: text for file, text in sources.items() if not file.startswith(LEFT_OUT)}
    for file, old, new in planted:
        assert sources[file].count(old) == 1, f"{file} has {sources[file].count(old)} times: {old}"
        sources[file] = sources[file].replace(old, new)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return Release(ROOT, sources, _environment(), project["version"])


def previous(recorded: Path = RECORDED) -> Release:
    """The recorded release."""
    with zipfile.ZipFile(recorded) as archive:
        files = {file: archive.read(file).decode() for file in archive.namelist()}
    environment, version = json.loads(files.pop(ENVIRONMENT)), files.pop(VERSION)
    return Release(recorded, files, environment, version, previous=True)


def record(recorded: Path = RECORDED) -> None:
    """Record the tree. The same tree gives the same file."""
    release = present()
    environment = json.dumps(release.environment, indent=1, sort_keys=True)
    with zipfile.ZipFile(recorded, "w", zipfile.ZIP_DEFLATED) as archive:
        sources = {file: text for file, text in release.sources.items() if not file.startswith(PAGES)}
        for file, text in {VERSION: release.version, ENVIRONMENT: environment, **sources}.items():
            # `ZipInfo` has the same time for each file.
            archive.writestr(zipfile.ZipInfo(file), text, zipfile.ZIP_DEFLATED)


def _environment() -> dict[str, str]:
    """The environment of all functions."""
    found = {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": names.REGION,
        "LOG_LEVEL": "CRITICAL",
        "SPEED": "1",
        "SIMULATE_LIVE": "1",
    }
    queues = {queue.name: names.queue_url(names.queue(queue.name, queue.fifo)) for queue in topology.QUEUES}
    deployment = topology.Deployment(
        table=resources.TABLE_NAME,
        queues=queues,
        machines={machine.name: machine.name for machine in topology.STATE_MACHINES},
        signing_key="key",
        recordings="recordings",
        failed_batches="failed",
        erasures="erasures",
        base_url=BASE_URL,
    )
    for function in topology.FUNCTIONS:
        found |= function.environment(deployment)
    return found | {"SERVICE_NAME": "simulation"}


if __name__ == "__main__":
    record()
    print(f"recorded version {previous().version}: {RECORDED.stat().st_size // 1024} KiB")
