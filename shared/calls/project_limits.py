"""Limits of a project's live calls: which numbers it may call, and how often. They guard against toll fraud.

An operator sets a project's limits (`infra.manage calls limit`); they apply to live keys. A counter row is written
together with each session that begins to dial, and with its end, so the counts are exact. The limits of the
carrier, for all projects together, are in `shared/calls/capacity.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

from shared.core import clock
from shared.projects import projects
from shared.projects.projects import CallLimits
from shared.store import table
from shared.store.keys import Scope

AT_ONCE = 50
PER_DAY = 1000
"""The limits of a project for which no operator has set any. It may call every number."""


@dataclass(frozen=True)
class Limits:
    """`prefixes` are the beginnings of E.164 numbers that may be called, none for all numbers. A day is UTC's."""

    prefixes: tuple[str, ...] = ()
    at_once: int = AT_ONCE
    per_day: int = PER_DAY

    @property
    def facts(self) -> dict[str, Any]:
        """The limits as the audit trail shows them."""
        prefixes = ", ".join(self.prefixes) or "all numbers"
        return {"prefixes": prefixes, "at_once": self.at_once, "per_day": self.per_day}

    def allows(self, to: str) -> bool:
        """Whether the number may be called at all."""
        return not self.prefixes or to.startswith(self.prefixes)


@dataclass(frozen=True)
class ReachedLimit:
    """A limit that another call would exceed now, in words."""

    what: str
    until_tomorrow: bool

    @property
    def text(self) -> str:
        """What a client reads about it."""
        return f"This project has reached its limit of {self.what}."


@dataclass(frozen=True)
class Counts:
    """How many live calls a project has now, and has dialed today."""

    at_once: int
    today: int
    version: int

    def reached(self, limits: Limits) -> ReachedLimit | None:
        """The limit that another call would exceed; None if there is room."""
        if self.today >= limits.per_day:
            return ReachedLimit(f"{limits.per_day} live calls a day", until_tomorrow=True)
        if self.at_once >= limits.at_once:
            return ReachedLimit(f"{limits.at_once} live calls at once", until_tomorrow=False)
        return None


def is_prefix(text: str) -> bool:
    """Whether the text is the beginning of an E.164 number: all of it, or at least its first digit."""
    return re.fullmatch(r"\+[1-9][0-9]{0,14}", text) is not None


def keys(scope: Scope) -> list[table.Key]:
    """The keys of the rows with limits and counts; empty in test mode, where calls cost nothing."""
    return [projects.row_key(scope.project_id), _key(scope)] if scope.livemode else []


def of_rows(scope: Scope, rows: table.Rows) -> tuple[Limits, Counts]:
    """Limits and counts from the rows of `keys`. In test mode, nothing is limited."""
    if not scope.livemode:
        return Limits(), Counts(0, 0, 0)
    stored = cast("CallLimits", rows.get(projects.row_key(scope.project_id), {}))
    counter = rows.get(_key(scope), {})
    prefixes = tuple(stored["call_prefixes"].split(",")) if stored.get("call_prefixes") else ()
    limits = Limits(prefixes, stored.get("calls_at_once", AT_ONCE), stored.get("calls_per_day", PER_DAY))
    today = counter.get("calls_today", 0) if counter.get("counted_day") == _day() else 0
    return limits, Counts(counter.get("calls_now", 0), today, counter.get("v", 0))


def increment_write(scope: Scope, counts: Counts) -> table.Put:
    """The write that counts a call that begins to dial, on condition that the counts did not change."""
    pk, sk = _key(scope)
    row = {"pk": pk, "sk": sk, "kind": "count", "calls_now": counts.at_once + 1}
    return table.versioned_write(row | {"counted_day": _day(), "calls_today": counts.today + 1}, counts.version)


def decrement_write(scope: Scope) -> table.Update:
    """The write that counts the end of such a call."""
    pk, sk = _key(scope)
    return table.Update(pk, sk, add={"calls_now": -1, "v": 1})


def undo_write(scope: Scope) -> table.Update:
    """The write that takes back `increment_write` for a call that was not dialed after all."""
    pk, sk = _key(scope)
    return table.Update(pk, sk, add={"calls_now": -1, "calls_today": -1, "v": 1})


def of_project(scope: Scope) -> tuple[Limits, Counts]:
    """Limits and counts of a project in live mode."""
    return of_rows(scope, table.get_many(keys(scope)))


def limits_write(project_id: int, limits: Limits, before: Limits) -> table.Update:
    """The write that sets those limits of a project that differ from `before`.

    It fails for an unknown project, and if one of these limits has changed since `before` was read.
    """
    pk, sk = projects.row_key(project_id)
    stored, default, wanted = _attributes(before), _attributes(Limits()), _attributes(limits)
    changes = {name: value for name, value in wanted.items() if value != stored[name]}
    condition = table.PRESENT
    for name in changes:
        same = table.equals(name, stored[name])
        # A limit that nobody has set is absent.
        condition &= same | table.equals(name, None) if stored[name] == default[name] else same
    return table.Update(pk, sk, set=changes, condition=condition)


def _attributes(limits: Limits) -> dict[str, table.Value | None]:
    return {
        "call_prefixes": ",".join(limits.prefixes) or None,
        "calls_at_once": limits.at_once,
        "calls_per_day": limits.per_day,
    }


def _key(scope: Scope) -> table.Key:
    return scope.pk("count"), "call"


def _day() -> str:
    return clock.iso(clock.now())[:10]
