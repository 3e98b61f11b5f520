"""Usage in live mode: one row for each turn and each call, summed by month when read.

Each turn of the agent has one (`_usage` in `shared/conversations/replies.py`), also one that ends with an apology or
only says that a person will reply. The rows of an erased person become part of one row of their month, which has no id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.core import clock
from shared.store import table
from shared.store.keys import Scope

COUNTERS = ("messages", "input_tokens", "output_tokens", "calls", "call_seconds")

_ERASED = "erased"
"""The sort key of the sum of a month's rows of erased persons."""
_MERGED = 50
"""The most rows that one transaction adds to the sum."""


def row(scope: Scope, id: str, at: clock.Instant, **amounts: Any) -> table.Row:
    """The row of a turn or a call at the instant `at`. Its key is the `id`, so it counts once."""
    return {"pk": _pk(scope, clock.iso(at)[:7]), "sk": id, "kind": "usage"} | amounts


def of_month(scope: Scope, month: str) -> Mapping[str, int]:
    """The totals of a month (`YYYY-MM`), by the names in `COUNTERS`."""
    total = dict.fromkeys(COUNTERS, 0)
    for page in table.query(_pk(scope, month), limit=1000, forward=True):
        for amounts in page:
            for name in COUNTERS:
                total[name] += amounts.get(name, 0)
    return total


def merge(scope: Scope, month: str, ids: Sequence[str]) -> int:
    """Replace the rows of these turns and calls by their sum, so that the month's totals stay. Returns their number.

    Each row is counted in the same transaction that deletes it. Raises ConditionFailed or Contended if rows are erased
    concurrently: the call can be repeated.
    """
    pk = _pk(scope, month)
    rows = [*table.get_many([(pk, id) for id in ids]).values()]
    for start in range(0, len(rows), _MERGED):
        chunk = rows[start : start + _MERGED]
        total = {name: sum(row.get(name, 0) for row in chunk) for name in COUNTERS}
        merged = table.Update(
            pk,
            _ERASED,
            set={"kind": "usage"},
            add=total,
            condition=table.ALWAYS,
        )
        table.write([*(table.Delete(pk, row["sk"]) for row in chunk), merged])
    return len(rows)


def _pk(scope: Scope, month: str) -> str:
    return scope.pk("usage", month)
