"""How tests are spread over processes with `--dist loadgroup`, which `make test` does.

A test of no group runs wherever a process is free. A group stays in one process, for the sake of what its tests
share and what is dear to start: a local runner, a synth. Groups that wait a lot begin first, and what keeps the
processors busy fills their waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
RUNNERS = 2
"""How many processes start a local runner for the tests of conformance."""
ALONE = {"test_bundle", "test_kill", "test_killed_calls", "test_manage", "test_properties"}
"""Modules that are groups of their own."""
FIRST = ("test_kill", "test_killed_calls", *(f"runner {number}" for number in range(RUNNERS)), "infra")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Name each test's group, and put the groups that are to begin first in front."""
    conformance = sorted({item.path for item in items if item.path.is_relative_to(TESTS / "conformance")})
    ranks: dict[str, int] = {}
    for item in items:
        if group := _group(item.path, conformance):
            item.add_marker(pytest.mark.xdist_group(group))
        ranks[item.nodeid] = FIRST.index(group) if group in FIRST else len(FIRST)
    items.sort(key=lambda item: ranks[item.nodeid])


def _group(path: Path, conformance: Sequence[Path]) -> str | None:
    """The group of a file's tests; those of conformance take turns with the runners."""
    if path.stem in ALONE:
        return path.stem
    if path in conformance:
        return f"runner {conformance.index(path) % RUNNERS}"
    return "infra" if path.is_relative_to(TESTS / "infra") else None
