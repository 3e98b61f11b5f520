"""Rows with steps owed: take those that are due, and say when the next one is.

`next_step` on a row is the instant of what is to be done next with it. Whoever does it writes on condition of the
row's version, so of two workers one is refused and looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shared.core import clock, table
from shared.core.keys import due, due_shard

MOST = 20
"""Steps that one worker takes in a row, and races that it loses, before it leaves the rest to `sweep`."""
EARLY = clock.SECOND
"""A hint may come this much before its time, as queues count whole seconds."""
GRACE = 30
"""Seconds, scaled, after which `sweep` takes the hint at a step for lost."""
LEAST_GRACE = 2 * clock.SECOND
"""What a hint needs on its way, however quick a local run's waits are."""
NOTHING_OWED: Mapping[str, table.Value | None] = dict.fromkeys(("next_step", "due", "due_shard", "hints"))


def owed(spread: str, at: int) -> dict[str, table.Value | None]:
    """The attributes of a row whose next step is due at this instant; `spread` chooses its shard."""
    return {"next_step": at, "due": overdue(at, GRACE), "due_shard": due_shard(spread), "hints": None}


def overdue(at: int, grace: int) -> str:
    """From when `sweep` hints at what is due at an instant: `grace` in seconds, scaled."""
    return due(at + max(clock.scaled(grace), LEAST_GRACE))


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
        except (table.ConditionFailed, table.Contended):
            continue
        stepped = True
    raise RuntimeError("the row was being changed by others all the while")
