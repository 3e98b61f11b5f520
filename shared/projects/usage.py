"""Usage: what live mode cost, one row for each turn and each call, summed by month when read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.core import clock, table
from shared.core.keys import Scope

COUNTED = ("messages", "input_tokens", "output_tokens", "calls", "call_seconds")


def row(scope: Scope, id: str, at: int, **used: Any) -> table.Row:
    """The row of a turn or a call; the same one however often it is written."""
    return {"pk": _pk(scope, clock.iso(at)[:7]), "sk": id, "kind": "usage"} | used


def of_month(scope: Scope, month: str) -> Mapping[str, int]:
    """The sums of a month (`YYYY-MM`), by the names in `COUNTED`."""
    total = dict.fromkeys(COUNTED, 0)
    for page in table.query(_pk(scope, month), limit=1000, forward=True):
        for used in page:
            for name in COUNTED:
                total[name] += used.get(name, 0)
    return total


def _pk(scope: Scope, month: str) -> str:
    return scope.pk("usage", month)
