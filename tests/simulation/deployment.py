"""A deployment in the middle of a history: the previous release is replaced by the present one, and may come back.

As on a stage (`infra/releases.py`), each function has an alias of its own, at its own time. All invocations go to the
new version at once, or first a share of them; a rollback moves the aliases back. An invocation ends where it began.
"""

from __future__ import annotations

import random

DEPLOYED = 1 / 6
"""The share of histories with a deployment."""
CANARY_S = 600
"""Seconds in which only a share of the invocations goes to the new version."""


class Deployment:
    """When which share of the invocations goes to the present release. Times are seconds since the history began."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._spread = draw.choice((0, 60, 300))
        self._late: dict[str, float] = {}
        """By function: how much later than others its alias moves."""
        self.shifts: list[tuple[float, float]] = []
        """The time and the share of each move of the aliases."""
        self._deploy(10 ** draw.uniform(0, 4))
        if draw.random() < 0.4:
            self.shifts.append((self.shifts[-1][0] + 10 ** draw.uniform(1, 4), 0.0))
            if draw.random() < 0.5:
                self._deploy(self.shifts[-1][0] + 10 ** draw.uniform(2, 4))

    @property
    def ends(self) -> float:
        """When all aliases have moved for the last time."""
        return self.shifts[-1][0] + self._spread

    def is_new(self, function: str, now: float) -> bool:
        """Whether an invocation goes to the present release."""
        if function not in self._late:
            self._late[function] = self._draw.uniform(0, self._spread)
        share = 0.0
        for at, more in self.shifts:
            if at + self._late[function] <= now:
                share = more
        return self._draw.random() < share

    def _deploy(self, at: float) -> None:
        if self._draw.random() < 0.5:
            self.shifts.append((at, self._draw.choice((0.1, 0.5))))
            at += CANARY_S
        self.shifts.append((at, 1.0))


def drawn(seed: str, share: float) -> Deployment | None:
    """The deployment of a history, if it has one."""
    draw = random.Random(f"{seed}/deployment")
    return Deployment(draw) if draw.random() < share else None
