"""How `--dist loadgroup` spreads the tests over processes, as `make test` asks it to.

A test of no group runs wherever a process is free. A group stays in one process, for the sake of what its tests
share and what is dear to start: a local runner, a synth. Groups that wait a lot begin first, and what keeps the
processors busy fills their waits.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

pytest.register_assert_rewrite("tests.support")
# As the Makefile does: the CDK takes the first Node of the path, and the machine's may be too old.
os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
# Four processes share two cores: how long an example takes says nothing.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

TESTS = Path(__file__).parent
RUNNERS = 2
"""How many processes start a local runner for the tests of conformance, whose modules take turns with them."""
CONFORMANCE = sorted(path.stem for path in (TESTS / "conformance").glob("test_*.py"))
ALONE = {"test_bundle", "test_kill", "test_killed_calls", "test_killed_responses", "test_manage"}
"""Modules that are groups of their own."""
FOLDERS = {"infra", "properties"}
"""Folders whose modules are one group."""
WHOLE_TABLE = {"test_counted_units", "test_erased_calls", "test_erasure", "test_erasure_ledger"}
"""Modules that read and empty the whole table of their process. They run early, while it has few rows of others."""
RUNNER_GROUPS = [f"runner {number}" for number in range(RUNNERS)]
FIRST = [
    # Before any integration test of its process, because both use moto, whose state is that of the process.
    "infra",
    "test_kill",
    *RUNNER_GROUPS,
    "test_killed_calls",
    "test_killed_responses",
    "whole table",
    "properties",
    "test_manage",
    "test_bundle",
]


class Groups(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """xdist's scheduler of scopes, each group being one."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid) or nodeid


def group(nodeid: str) -> str | None:
    """The group of a test."""
    *_, folder, module = Path(nodeid.partition("::")[0]).with_suffix("").parts
    if module in ALONE:
        return module
    if module in WHOLE_TABLE:
        return "whole table"
    if folder == "conformance":
        return f"runner {CONFORMANCE.index(module) % RUNNERS}"
    return folder if folder in FOLDERS else None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups | None:
    """Ours in place of xdist's own for groups, which goes by marks."""
    return Groups(config, log) if config.getoption("dist") == "loadgroup" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the groups that are to begin first in front."""

    def rank(item: pytest.Item) -> int:
        found = group(item.nodeid)
        return FIRST.index(found) if found in FIRST else len(FIRST)

    items.sort(key=rank)
