"""Usage in live mode: one row for each turn and each call, summed by month when read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.core import clock, table
from shared.core.keys import Scope

COUNTERS = ("messages", "input_tokens", "output_tokens", "calls", "call_seconds")


def row(scope: Scope, id: str, at: int, **amounts: Any) -> table.Row:
    """The row of a turn or a call at the instant `at` (milliseconds). Its key is the `id`, so it counts once."""
    return {"pk": _pk(scope, clock.iso(at)[:7]), "sk": id, "kind": "usage"} | amounts


def of_month(scope: Scope, month: str) -> Mapping[str, int]:
    """The totals of a month (`YYYY-MM`), by the names in `COUNTERS`."""
    total = dict.fromkeys(COUNTERS, 0)
    for page in table.query(_pk(scope, month), limit=1000, forward=True):
        for amounts in page:
            for name in COUNTERS:
                total[name] += amounts.get(name, 0)
    return total


def _pk(scope: Scope, month: str) -> str:
    return scope.pk("usage", month)
