"""Tasks: rows that store when their next step is due, and which worker has claimed it.

The row is the truth. Queue messages and timers are wake-ups: a lost wake-up only causes a delay, because `sweep` finds
every row whose work is overdue and sends another. A row with a scheduled step has the attributes of `TaskRow`.

A worker claims the row (`claim_row`), works, and writes the outcome on condition that it still has the claim
(`save_step`). If the worker dies, its lease expires and the next worker takes over the row. A claim does not change
`due`, which would cost two writes to the index; instead `sweep` skips rows whose lease has not expired. `sweep` sends a
wake-up before it counts it: if it dies in between, the row gets one more wake-up.
"""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeGuard, TypeVar, cast

from shared.aws.services import Unavailable
from shared.core import clock, trace
from shared.store import table
from shared.store.keys import due, due_shard

MIN_INTERVAL_S = 60
MAX_INTERVAL_S = 3600
"""Unscaled seconds between two wake-ups of an overdue row. The interval doubles from the first to the second."""
SWEEP_GRACE_S = 30
"""Unscaled seconds after `due_at` from which `sweep` sends another wake-up."""
MIN_GRACE_MS = 2 * clock.SECOND
"""The shortest grace period: a wake-up needs this time to arrive, whatever `SPEED` is."""
SWEEP_AHEAD_S = 75
"""Unscaled seconds before a step that is due much later, from which `sweep`, which runs each minute before
scaling, sends a delayed wake-up."""
EARLY_MS = clock.SECOND
"""How early a wake-up may arrive, because queues delay by whole seconds."""
MAX_LEASE_MS = 10 * clock.MINUTE
"""A lease with more time left than this comes from a host with a wrong clock, and counts as expired."""
MAX_LOST_WORKERS = 3
"""The number of workers lost during one attempt of a delivery, or during a turn, after which it fails for good."""
MAX_STEPS = 20
"""The most steps that one worker takes before it leaves the rest to a new wake-up."""

R = TypeVar("R", bound=Mapping[str, Any])

_UNCLAIMED: table.Attributes = dict.fromkeys(("lease", "lease_until", "lost", "wake_ups"))
NO_WORK: table.Attributes = dict.fromkeys(("due_at", "due", "due_shard", "wake_ups"))
"""The attributes of a row without a scheduled step."""


class TaskRow(TypedDict, total=False):
    """The attributes of a row with a scheduled step. A row without one has no `due_at`."""

    due_at: clock.Instant
    """When the next step is due."""
    due: str
    """Its place in the index `by_due`: the instant from which `sweep` sends wake-ups."""
    due_shard: str
    """Its partition of that index."""
    wake_ups: int
    """The number of wake-ups that `sweep` has sent since the last step."""
    lease: str
    """The token of the worker that has claimed the row."""
    lease_until: clock.Instant
    """When the lease expires."""
    lost: int
    """The number of consecutive workers that failed or let their lease expire."""


@dataclass(frozen=True)
class Claim(Generic[R]):
    """A row whose due step only this worker may record, until another worker takes over after the lease has expired.

    Others may change other attributes of the row meanwhile. `row` is its state when it was claimed.
    """

    row: R
    token: str

    @property
    def lost_workers(self) -> int:
        """The number of consecutive workers that died or failed during the current step."""
        return int(self.row.get("lost", 0))

    @property
    def seconds_left(self) -> float:
        """Seconds until the lease expires."""
        return (int(self.row["lease_until"]) - clock.now()) / clock.SECOND


@dataclass(frozen=True)
class NotDue:
    """The row's step is due in `wait_ms` milliseconds."""

    wait_ms: int


def due_attributes(sk: str, at: clock.Instant, grace_s: int = SWEEP_GRACE_S) -> dict[str, table.Value | None]:
    """The attributes of a row whose next step is due at the instant `at`. `sk` determines the shard of the index.

    `grace_s` is the time after `at`, in unscaled seconds, at which `sweep` sends another wake-up.
    """
    return {"due_at": at, **sweep_attributes(sk, at + max(clock.scaled_ms(grace_s), MIN_GRACE_MS))}


def sweep_attributes(sk: str, at: clock.Instant) -> dict[str, table.Value | None]:
    """The attributes of a row for which `sweep` sends the next wake-up from the instant `at`."""
    return {"due": due(at), "due_shard": due_shard(sk), "wake_ups": None}


def sweep_ahead_attributes(sk: str, at: clock.Instant) -> dict[str, table.Value | None]:
    """The attributes of a row for which `sweep` sends a delayed wake-up shortly before the instant `at`."""
    return sweep_attributes(sk, at - clock.scaled_ms(SWEEP_AHEAD_S))


def new_claim(row: R, lease_ms: int) -> Claim[R]:
    """A claim on a new row, for `lease_ms` milliseconds. The caller inserts the claim's `row`, which has the lease."""
    token = uuid.uuid4().hex
    return Claim(cast("R", {**row, "lease": token, "lease_until": clock.now() + lease_ms}), token)


def is_free(row: Mapping[str, Any]) -> bool:
    """Whether the row's work is due and no other worker has claimed it, so that `claim_row` would succeed."""
    return "due_at" in row and row["due_at"] <= clock.now() and not _is_leased(row)


def claim_row(pk: str, sk: str, lease_ms: int) -> Claim[R] | NotDue | None:
    """Claim the row for `lease_ms` milliseconds, if its work is due and no worker has a lease that has not expired.

    A claim with an expired lease is taken over, and its worker counts as lost. NotDue if the work is due later; None if
    the row has no scheduled step, or another worker's lease has not expired. Makes one write in the common case.
    From then on, log lines and writes name the API request that caused the work.
    """
    now, token = clock.now(), uuid.uuid4().hex
    lease: dict[str, table.Value | None] = {"lease": token, "lease_until": now + lease_ms}
    free = table.at_most("due_at", now) & table.equals("lease", None)
    claimed: Claim[R] | None
    claimed, old = _try_to_claim(table.Update(pk, sk, set=lease, condition=free), token)
    if claimed is None and old is not None and "due_at" in old:
        if old["due_at"] > now:
            return NotDue(old["due_at"] - now)
        if not _is_leased(old):
            expired = table.equals("lease", old.get("lease"))
            lease["lost"] = old.get("lost", 0) + 1
            claimed, _ = _try_to_claim(table.Update(pk, sk, set=lease, condition=expired), token)
    if claimed is not None:
        trace.follow(claimed.row)
    return claimed


def _try_to_claim(write: table.Update, token: str) -> tuple[Claim[R] | None, table.Row | None]:
    """The claim that the write makes; None if its condition failed, with the row as it is."""
    try:
        return Claim(cast("R", table.write_and_get(write)), token), None
    except table.ConditionFailed as failed:
        if failed.old is None or failed.old.get("lease") != token:
            return None, failed.old
        # An earlier attempt of this write took effect, but its response was lost.
        return Claim(cast("R", failed.old), token), None


def claim_soon(pk: str, sk: str, choose_lease_ms: Callable[[], int]) -> Claim[R] | None:
    """Claim the row like `claim_row`; if its wake-up arrived a little early, wait until the work is due.

    `choose_lease_ms` is called after the wait. None if the row's work is not due soon either.
    """
    result: Claim[R] | NotDue | None = claim_row(pk, sk, choose_lease_ms())
    if isinstance(result, NotDue) and result.wait_ms <= EARLY_MS:
        clock.sleep(result.wait_ms / clock.SECOND)
        result = claim_row(pk, sk, choose_lease_ms())
    return result if isinstance(result, Claim) else None


def if_waiting_write(row: Mapping[str, Any], changes: table.Attributes) -> table.Update:
    """The write of these attributes, on condition that the step is due as in `row` and no worker has claimed it."""
    # A worker that records a step changes `due_at`.
    condition = table.equals("due_at", row["due_at"]) & table.equals("lease", None)
    return table.Update(row["pk"], row["sk"], set=changes, condition=condition)


def save_step(claim: Claim[Any], writes: Sequence[table.Write], *, keep: bool = False) -> None:
    """Execute the writes of a step, all or none, on condition that the worker still has the claim.

    One of them must update the claimed row. That ends the claim and resets the counts of lost workers and of wake-ups,
    unless `keep` is set. Raises ConditionFailed or Contended.
    """
    assert any(_updates_claimed_row(write, claim) for write in writes), "a step must update the claimed row"
    table.write([_claimed_write(claim, write, keep=keep) for write in writes])


def release(claim: Claim[Any], changes: table.Attributes | None = None, *, failed: bool = False) -> None:
    """End the claim. The work stays due, so that the next wake-up can claim it. Best effort: the lease expires anyway.

    Only a recorded step resets the counts of lost workers and of wake-ups. If `failed` is set, the worker counts as
    lost, like one that died. `changes` are changes to other attributes.
    """
    lost = claim.lost_workers + (1 if failed else 0)
    end = {**(changes or {}), "lease": None, "lease_until": None, "lost": lost or None}
    with contextlib.suppress(table.ConditionFailed, table.Contended, Unavailable):
        # `keep`, because `sweep` may have counted a wake-up during the claim.
        save_step(claim, [table.Update(claim.row["pk"], claim.row["sk"], set=end)], keep=True)


def run_due_steps(pk: str, sk: str, lease_ms: int, step: Callable[[Claim[R]], None]) -> clock.Instant | None:
    """Run all steps of a row that are due, each under a claim of `lease_ms` milliseconds.

    Returns the instant of the next step, for which the caller sends a wake-up; None if the row has no step, or the
    wake-up for the next one is already sent. A step that raises ConditionFailed or Contended runs again on the current
    row. Any other exception of `step` releases the claim and is raised.
    """
    stepped = False
    for _ in range(MAX_STEPS):
        result: Claim[R] | NotDue | None = claim_row(pk, sk, lease_ms)
        if result is None:
            return None
        if isinstance(result, NotDue):
            # Wait only for a step whose wake-up arrived a little early.
            if result.wait_ms > (EARLY_MS // 2 if stepped else EARLY_MS):
                return clock.now() + result.wait_ms if stepped else None
            clock.sleep(result.wait_ms / clock.SECOND)
            continue
        try:
            step(result)
        except (table.ConditionFailed, table.Contended):
            release(result)
        except Exception:
            release(result, failed=True)
            raise
        stepped = True
    return clock.now()


def overdue(entries: Sequence[table.Row]) -> list[table.Row]:
    """The rows of these entries of the index `by_due`, in their order, for which a wake-up may be sent.

    Omits rows that have changed since the entries were read, and rows that a worker has claimed.
    """
    rows = table.get_many([(entry["pk"], entry["sk"]) for entry in entries])
    current = ((entry, rows.get((entry["pk"], entry["sk"]))) for entry in entries)
    return [row for entry, row in current if row and row.get("due") == entry["due"] and not _is_leased(row)]


def count_wake_up(row: table.Row) -> None:
    """Count a wake-up that was sent for the overdue row. It determines when the next one is sent: intervals double.

    Does nothing if another step has become due since the row was read. A claim does not matter: the worker that the
    wake-up has started may be the one that holds it.
    """
    interval_ms = clock.scaled_ms(min(MIN_INTERVAL_S * 2 ** row.get("wake_ups", 0), MAX_INTERVAL_S))
    update = table.Update(
        row["pk"],
        row["sk"],
        # The shard, too: the stage may have another number of shards than when the row was written.
        set={"due": due(clock.now() + interval_ms), "due_shard": due_shard(row["sk"])},
        add={"wake_ups": 1},
        condition=table.equals("due", row["due"]),
    )
    with contextlib.suppress(table.ConditionFailed, table.Contended):
        table.write_and_get(update)


def _is_leased(row: Mapping[str, Any]) -> bool:
    """Whether a worker has claimed the row and its lease has not expired."""
    now = clock.now()
    return bool(now < row.get("lease_until", 0) <= now + MAX_LEASE_MS)


def _updates_claimed_row(write: table.Write, claim: Claim[Any]) -> TypeGuard[table.Update]:
    return isinstance(write, table.Update) and (write.pk, write.sk) == (claim.row["pk"], claim.row["sk"])


def _claimed_write(claim: Claim[Any], write: table.Write, *, keep: bool) -> table.Write:
    """`write`; if it updates the claimed row, on condition of the claim, which it ends unless `keep` is set."""
    if _updates_claimed_row(write, claim):
        changes = write.set if keep else {**_UNCLAIMED, **write.set}
        write = dataclasses.replace(write, set=changes, condition=write.condition & table.equals("lease", claim.token))
    return write
