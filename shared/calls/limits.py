"""What a project's live calls may reach and how many they may be: the guard against toll fraud.

An operator sets the limits of a project (`infra.manage calls limit`); they hold for live keys. A counter row is
written together with each session that begins to dial and each that ends, so the counts are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.core import clock, table
from shared.core.keys import Scope
from shared.projects import projects

AT_ONCE = 50
PER_DAY = 1000
"""What a project may do that nobody has set limits for; any destination is allowed to it."""


@dataclass(frozen=True)
class Limits:
    """`prefixes` are beginnings of E.164 numbers, none for all; days are UTC's."""

    prefixes: tuple[str, ...] = ()
    at_once: int = AT_ONCE
    per_day: int = PER_DAY

    def allows(self, to: str) -> bool:
        """Whether the number may be called at all."""
        return not self.prefixes or to.startswith(self.prefixes)


@dataclass(frozen=True)
class Counts:
    """The calls of a project right now and today."""

    at_once: int
    today: int
    version: int

    def full(self, limits: Limits) -> str | None:
        """The limit that another call would break, in words; None if there is room."""
        if self.at_once >= limits.at_once:
            return f"{limits.at_once} live calls at once"
        return f"{limits.per_day} live calls a day" if self.today >= limits.per_day else None


def keys(scope: Scope) -> list[tuple[str, str]]:
    """The rows that limits and counts are read from; none in test mode, which costs nothing."""
    return [projects.row_key(scope.project_id), _key(scope)] if scope.livemode else []


def read(scope: Scope, rows: Mapping[tuple[str, str], table.Row]) -> tuple[Limits, Counts]:
    """Limits and counts from the rows of `keys`."""
    project = rows.get(projects.row_key(scope.project_id), {})
    counted = rows.get(_key(scope), {})
    prefixes = tuple(project["call_prefixes"].split(",")) if project.get("call_prefixes") else ()
    limits = Limits(prefixes, project.get("calls_at_once", AT_ONCE), project.get("calls_per_day", PER_DAY))
    today = counted.get("calls_today", 0) if counted.get("counted_day") == _day() else 0
    return limits, Counts(counted.get("calls_now", 0), today, counted.get("v", 0))


def taken(scope: Scope, counts: Counts) -> table.Put:
    """The write that counts a call which begins to dial, unless another came between."""
    pk, sk = _key(scope)
    row = {"pk": pk, "sk": sk, "kind": "count", "calls_now": counts.at_once + 1}
    return table.versioned(row | {"counted_day": _day(), "calls_today": counts.today + 1}, counts.version)


def given_back(scope: Scope) -> table.Update:
    """The write that counts a dialed call which has ended."""
    pk, sk = _key(scope)
    return table.Update(pk, sk, expressions=("calls_now = calls_now - :one", "v = v + :one"), values={":one": 1})


def set_limits(project_id: int, limits: Limits) -> None:
    """Set a project's limits. Raises LookupError."""
    pk, sk = projects.row_key(project_id)
    values: dict[str, table.Value | None] = {
        "call_prefixes": ",".join(limits.prefixes) or None,
        "calls_at_once": limits.at_once,
        "calls_per_day": limits.per_day,
    }
    try:
        table.update(table.Update(pk, sk, set=values))
    except table.ConditionFailed:
        raise LookupError(f"there is no project {project_id}") from None


def _key(scope: Scope) -> tuple[str, str]:
    return scope.pk("count"), "call"


def _day() -> str:
    return clock.iso(clock.now())[:10]
