"""Transactions: decide on writes, commit them together, and decide again if a row was modified concurrently.

A command is a function that reads the rows it needs and returns a `Change`. API requests, admin pages and the
operator's command commit it here, together with writes of their own in the same transaction. Workers write it with
`tasks.save_step`, on condition of their claim, and then call its `after_commit` themselves.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from shared.aws.services import AwsError, Unavailable
from shared.core import clock
from shared.store import table

MAX_TRIES = 100
"""The most attempts of a write whose rows are modified concurrently."""
CONFLICT_S = 15
"""Seconds after which such a write is not attempted again."""

D = TypeVar("D")
D_co = TypeVar("D_co", covariant=True)
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True)
class Change(Generic[D_co]):
    """The result of a command: the document afterwards, and the writes of one transaction; none if nothing changes."""

    doc: D_co
    writes: Sequence[table.Write] = ()
    after_commit: Callable[[], None] = lambda: None
    """What follows from the writes: wake-ups, notices, or the end of calls that the change forbids.

    It is called once the writes are committed, also if there are none. Nothing may depend on it: a task that is due is
    found by `sweep`, and a call that is forbidden fails when it is dialed.
    """

    def with_writes(self, *writes: table.Write) -> Change[D_co]:
        """The change with further writes in its transaction. Nothing changes if it has none of its own."""
        return dataclasses.replace(self, writes=[*self.writes, *writes]) if self.writes else self


Command = Callable[[], Change[D]]
"""A command with its arguments. It reads the rows it needs, and runs again if they are modified concurrently."""


def commit(command: Command[D], *, seconds: float = CONFLICT_S) -> Change[D]:
    """`execute` a command, and then what follows from its change. Returns the change."""
    change = execute(command, seconds=seconds)
    change.after_commit()
    return change


def execute(command: Command[D], *, seconds: float = CONFLICT_S) -> Change[D]:
    """Execute the writes of a command's change. Returns the change, whose `after_commit` the caller calls.

    The command runs again, for up to `seconds`, if a row was modified since it was read. Raises the error of a write
    that is refused, ConditionFailed, Contended, or AwsError or Unavailable, whose `uncertain` says whether the writes
    may have taken effect.
    """

    def attempt() -> Change[D]:
        try:
            change = command()
        except (AwsError, Unavailable) as failure:
            failure.uncertain = False
            raise
        try:
            if change.writes:
                table.write(change.writes)
        except table.ConditionFailed as failed:
            if failed.op.refusal is not None:
                raise failed.op.refusal.error(failed.old or {}) from None
            raise
        except table.Contended as contended:
            if contended.op.refusal is not None and contended.op.refusal.contended is not None:
                raise contended.op.refusal.contended() from None
            raise
        return change

    return retry_on_conflict(attempt, seconds=seconds)


def retry_on_conflict(attempt: Callable[[], T], tries: int = MAX_TRIES, seconds: float = CONFLICT_S) -> T:
    """Return the result of `attempt`; run it again while it raises ConditionFailed or Contended.

    `attempt` reads rows and writes on condition that they have not changed. Raises the last conflict after `tries`
    attempts or `seconds`.
    """
    give_up = clock.now() + int(seconds * clock.SECOND)
    for conflicts in itertools.count(1):
        try:
            return attempt()
        except (table.ConditionFailed, table.Contended):
            if conflicts == tries or clock.now() >= give_up:
                raise
        _pause(conflicts)
    raise AssertionError("the loop ends only by returning or raising")


def retry_with_latest(
    first: R,
    read: Callable[[], R],
    attempt: Callable[[R], T],
    tries: int = MAX_TRIES,
    seconds: float = CONFLICT_S,
) -> T:
    """As `retry_on_conflict`, with an argument for `attempt`: `first`, and what `read` returns when it runs again."""
    unused = [first]
    return retry_on_conflict(lambda: attempt(unused.pop() if unused else read()), tries, seconds)


def _pause(conflicts: int) -> None:
    """Wait a random time before the next attempt of a write; the more `conflicts` it had, the longer."""
    clock.sleep(random.uniform(0, 0.02 * min(conflicts, 25)))
