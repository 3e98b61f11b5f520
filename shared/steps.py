"""Rows with steps owed: take those that are due, and say when the next one is.

`next_step` on a row is the instant of what is to be done next with it. Whoever does it writes on condition of the
row's version, so of two workers one is refused and looks again.
"""

from __future__ import annotations

from collections.abc import Callable

from shared import clock, table

MOST = 20
"""Steps that one worker takes in a row, and races that it loses, before it leaves the rest to `sweep`."""
EARLY = clock.SECOND
"""A hint may come this much before its time, as queues count whole seconds."""


def take(pk: str, sk: str, step: Callable[[table.Row], None]) -> int | None:
    """Take all steps that are due; the instant of the next one, for which somebody has to set a timer.

    None where no step is owed any more, or it has its timer already. Raises what `step` raises.
    """
    stepped = False
    for _ in range(MOST):
        row = table.get(pk, sk)
        at = None if row is None else row.get("next_step")
        if row is None or at is None:
            return None
        wait = int(at) - clock.now()
        if wait > EARLY:
            return int(at) if stepped else None
        if wait > EARLY // 2 and stepped:
            return int(at)
        if wait > 0:
            clock.sleep(wait / clock.SECOND)
        try:
            step(row)
        except (table.Refused, table.Contended):
            continue
        stepped = True
    raise RuntimeError("the row was being changed by others all the while")
