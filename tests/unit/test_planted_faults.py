"""The planted faults of the simulation change lines that the service has."""

from __future__ import annotations

import pytest

from tests.simulation import releases
from tests.simulation.planted import PLANTED, Planted


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.name)
def test_the_lines_that_a_fault_changes_are_there(fault: Planted) -> None:
    for file, old, new in (fault.change, *fault.more):
        assert (releases.ROOT / file).read_text(encoding="utf-8").count(old) == 1
        assert old != new
