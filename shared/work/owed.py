"""Owed work: rows that say what is still to be done, when, and who is doing it.

The row is the truth. Queue messages and timers are hints: a lost one costs time and nothing else, because `sweep`
finds every row whose work is overdue and sends another. A row that owes work has these attributes:

| attribute           | meaning |
|---------------------|---------|
| `due_at`            | the instant (milliseconds) at which the next step is due |
| `due`, `due_shard`  | its place in the index `by_due`: the instant from which `sweep` sends hints |
| `hints`             | how many hints `sweep` has sent since the last step was recorded |
| `lease`             | the token of the worker that has claimed the row |
| `lease_until`       | when the claim expires |
| `lost`              | how many workers in a row died, their lease expired, or failed |

A worker claims the row (`claim`), works, and writes the outcome on condition that its claim still holds (`held`).
A worker that dies leaves a lease that expires, and the next worker takes the row over. A claim does not move `due`,
which would cost two writes to the index: `sweep` leaves a row with a live lease alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from shared.core import clock, table
from shared.core.keys import due, due_shard

GRACE = 30
"""Seconds, scaled, after `due_at` from which `sweep` takes the hint for lost."""
LEAST_GRACE = 2 * clock.SECOND
"""The time that a hint needs to arrive, however small a local run's waits are."""
EARLY = clock.SECOND
"""A hint may arrive this long before its time, because queues count whole seconds."""
LONGEST_LEASE = 10 * clock.MINUTE
"""A lease that ends later than this from now was given by a clock that ran ahead, and counts as expired."""
STEPS = 20
"""Steps that one worker takes in a row before it leaves the rest to a new hint."""
CONFLICTS = 100
"""How often a write that loses races is decided again, at the most."""
CONFLICT_SECONDS = 15
"""How long a write that loses races is decided again."""

T = TypeVar("T")
Write = TypeVar("Write", table.Put, table.Update)
Attributes = Mapping[str, table.Value | None]

_UNCLAIMED: Attributes = dict.fromkeys(("lease", "lease_until", "lost", "hints"))
NOTHING: Attributes = dict.fromkeys(("due_at", "due", "due_shard", "hints"))
"""The attributes of a row that owes nothing."""


@dataclass(frozen=True)
class Claim:
    """A row that this worker alone may work on until its lease expires. `row` is as it was when it was claimed."""

    row: table.Row
    token: str

    @property
    def lost_workers(self) -> int:
        """How many workers in a row died over the present step, or failed at it."""
        return int(self.row.get("lost", 0))

    @property
    def seconds_left(self) -> float:
        """Seconds until the lease expires."""
        return (int(self.row["lease_until"]) - clock.now()) / clock.SECOND


@dataclass(frozen=True)
class NotDue:
    """There is work, but not yet: it is due in `wait` milliseconds."""

    wait: int


def owed(sk: str, at: int, grace: int = GRACE) -> dict[str, table.Value | None]:
    """The attributes of a row whose next step is due at the instant `at`; `sk` chooses the shard of the index.

    `grace` is the time in seconds, scaled, that a hint may take before `sweep` sends another.
    """
    late = at + max(clock.scaled(grace), LEAST_GRACE)
    return {"due_at": at, "due": due(late), "due_shard": due_shard(sk), "hints": None}


def claim(pk: str, sk: str, until: int) -> Claim | NotDue | None:
    """Claim the row until the instant `until`, if its work is due and no other worker has it.

    None if nothing is owed, or another worker's lease has not expired. One write in the common case.
    """
    now, token = clock.now(), uuid.uuid4().hex
    lease: dict[str, table.Value | None] = {"lease": token, "lease_until": until}
    free = table.Update(
        pk, sk, set=lease, condition="due_at <= :now AND attribute_not_exists(lease)", values={":now": now}
    )
    try:
        return Claim(table.update(free), token)
    except table.ConditionFailed as failed:
        old = failed.old
    if old is None or "due_at" not in old:
        return None
    if old.get("lease") == token:
        # An earlier try of this very write took effect, and its response was lost.
        return Claim(old, token)
    if old["due_at"] > now:
        return NotDue(int(old["due_at"]) - now)
    alive = now < old.get("lease_until", 0) <= now + LONGEST_LEASE
    return None if alive else _take_over(pk, sk, lease, old)


def held(claim: Claim, write: Write, *, keep: bool = False) -> Write:
    """`write`, a write of the claimed row, on condition that the claim still holds.

    The write ends the claim, unless `keep`.
    """
    condition = f"({write.condition}) AND lease = :lease" if write.condition else "lease = :lease"
    values = {**write.values, ":lease": claim.token}
    if isinstance(write, table.Put):
        assert not isinstance(write, table.Update)
        lease = {name: claim.row[name] for name in ("lease", "lease_until")} if keep else {}
        unclaimed = {name: value for name, value in write.row.items() if name not in _UNCLAIMED}
        return dataclasses.replace(write, row=unclaimed | lease, condition=condition, values=values)
    changes = write.set if keep else {**_UNCLAIMED, **write.set}
    return dataclasses.replace(write, set=changes, condition=condition, values=values)


def commit(claim: Claim, writes: Sequence[table.Operation], *, keep: bool = False) -> None:
    """Carry out the writes of a step, all or none; among them is one of the claimed row, which is `held`.

    Raises ConditionFailed or Contended.
    """
    row = (claim.row["pk"], claim.row["sk"])
    # A request id for each commit: with one for both of a worker's commits, a second one that fails would pass for the
    # first one, repeated.
    table.write([_held_if_of(row, claim, write, keep) for write in writes], uuid.uuid4().hex)


def release(claim: Claim, *, failed: bool = False) -> None:
    """Give the row back, its work still due, so that the next hint finds it free. Best effort: the lease expires.

    A worker that `failed` counts like one that died, and `sweep` goes on to send its hints less and less often.
    """
    counted = {"lost": claim.lost_workers + 1, "hints": claim.row.get("hints")} if failed else {}
    write = held(claim, table.Update(claim.row["pk"], claim.row["sk"], set=counted))
    try:
        table.write([write], claim.token)
    except (table.ConditionFailed, table.Contended):
        return


def work_off(pk: str, sk: str, lease: int, step: Callable[[Claim], None]) -> int | None:
    """Take all steps of a row that are due, each under a claim of `lease` milliseconds.

    Returns the instant of the next step, for which the caller sends a hint; None if no step is owed, or the next one
    has its hint already. A step that loses a race (ConditionFailed, Contended) is taken again on the row as it is
    then. Raises what `step` raises, after the row was given back.
    """
    stepped = False
    for _ in range(STEPS):
        claimed = claim(pk, sk, clock.now() + lease)
        if claimed is None:
            return None
        if isinstance(claimed, NotDue):
            # A row is waited for only if its hint has arrived, a little early.
            if claimed.wait > (EARLY // 2 if stepped else EARLY):
                return clock.now() + claimed.wait if stepped else None
            clock.sleep(claimed.wait / clock.SECOND)
            continue
        try:
            step(claimed)
        except (table.ConditionFailed, table.Contended):
            release(claimed)
        except Exception:
            release(claimed, failed=True)
            raise
        stepped = True
    return clock.now()


def retry_on_conflict(attempt: Callable[[], T], tries: int = CONFLICTS, seconds: float = CONFLICT_SECONDS) -> T:
    """What `attempt` returns, tried again while it raises ConditionFailed or Contended.

    `attempt` reads what it needs and writes on condition that it did not change. Raises the last conflict after
    `tries`, or `seconds`.
    """
    give_up = clock.now() + int(seconds * clock.SECOND)
    for conflicts in itertools.count(1):
        try:
            return attempt()
        except (table.ConditionFailed, table.Contended):
            if conflicts == tries or clock.now() >= give_up:
                raise
        pause(conflicts)
    raise AssertionError("the loop ends only by returning or raising")


def pause(conflicts: int) -> None:
    """Wait before a write that has lost `conflicts` races is decided again; longer, the more writers there are."""
    clock.sleep(random.uniform(0, 0.02 * min(conflicts, 25)))


def put_off(pk: str, sk: str, entry_due: str, wait: int) -> table.Row | None:
    """Move the row's next hint to `wait` milliseconds from now, and count it; the row as it is then.

    None if the row has moved on since `entry_due` was read from the index, or a worker has it.
    """
    now = clock.now()
    update = table.Update(
        pk,
        sk,
        set={"due": due(now + wait)},
        expressions=("hints = if_not_exists(hints, :none) + :one",),
        condition="due = :seen AND (attribute_not_exists(lease_until) OR NOT lease_until BETWEEN :now AND :longest)",
        values={":seen": entry_due, ":now": now + 1, ":longest": now + LONGEST_LEASE, ":none": 0, ":one": 1},
    )
    try:
        return table.update(update)
    except (table.ConditionFailed, table.Contended):
        return None


def _held_if_of(row: tuple[str, str], claim: Claim, write: table.Operation, keep: bool) -> table.Operation:
    """`write`, held if it is a write of the claimed row."""
    if isinstance(write, table.Update) and (write.pk, write.sk) == row:
        return held(claim, write, keep=keep)
    if isinstance(write, table.Put) and (write.row["pk"], write.row["sk"]) == row:
        return held(claim, write, keep=keep)
    return write


def _take_over(pk: str, sk: str, lease: Attributes, old: table.Row) -> Claim | None:
    """Claim a row whose worker let its lease expire."""
    update = table.Update(
        pk,
        sk,
        set={**lease, "lost": old.get("lost", 0) + 1},
        condition="lease = :expired" if "lease" in old else "attribute_not_exists(lease)",
        values={":expired": old["lease"]} if "lease" in old else {},
    )
    token = str(lease["lease"])
    try:
        return Claim(table.update(update), token)
    except table.ConditionFailed as failed:
        return Claim(failed.old, token) if failed.old and failed.old.get("lease") == token else None
