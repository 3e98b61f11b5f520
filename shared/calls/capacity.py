"""Capacity: how many live calls the stage has at once and starts in a second, for all projects together.

Amazon Connect allows 10 active calls in an instance and 2 requests of StartOutboundVoiceContact a second, unless the
quotas are raised (Connect administrator guide, "Service quotas"). Calls beyond that stay `queued` and wait here.

All rows are in one partition, which belongs to no project:

| sk              | meaning |
|-----------------|---------|
| `call#sess_…`   | a call that is being placed or under way. Expires, in case it is never released |
| `pace`          | the instant from which the next call may start |
| `waits#sess_…`  | a queued call that waits. Expires if the call does not come back when it is due |

The next call is that of the project with the fewest calls under way, so that one project's calls do not delay those of
all others. The calls of a project start in the order in which they were requested. A start writes `pace` on condition
of its version, so two workers never start a call at the same instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from shared.core import clock, settings
from shared.store import table
from shared.store.keys import Scope

HELD_MS = 30 * clock.MINUTE
"""How long a call that is not released counts: longer than a call may take."""
CHECK_SOON_MS = 5 * clock.SECOND
"""How often the first waiting call checks for capacity. The calls further back check less often."""
CHECK_WITHIN_MS = 60 * clock.SECOND
"""The longest wait before a call checks again."""
MIN_WAIT_MS = clock.SECOND
"""The shortest wait, because queues delay by whole seconds."""
LATE_MS = 5 * clock.SECOND
"""How late a waiting call may come back and still keep its order."""
BACK_OFF_MS = 5 * clock.SECOND
"""How long no call starts after the carrier refused one for lack of capacity."""
WAITING_READ = 200
"""How many waiting calls a worker sees: those that wait longest."""

_PK = "CARRIER"
_CALL, _PACE, _WAITS = "call#", "pace", "waits#"


@dataclass(frozen=True)
class Start:
    """The call may start now, in one transaction with these writes."""

    writes: Sequence[table.Write]


@dataclass(frozen=True)
class Wait:
    """The call waits until this instant, with these writes."""

    until: clock.Instant
    writes: Sequence[table.Write]


def admit(scope: Scope, session_id: str) -> Start | Wait:
    """Whether a queued call may start now, or until when it waits."""
    now, at_once = clock.now(), settings.connect_active_calls()
    # Twice the calls, because expired ones may not be deleted yet.
    rows = next(table.query(_PK, limit=2 * at_once + WAITING_READ, forward=True))
    expired = [row for row in rows if table.is_expired(row)]
    calls, waiting, pace = _read([row for row in rows if not table.is_expired(row)])
    ahead = _calls_ahead(calls, {**waiting, session_id: scope.project_id}, session_id)
    free = at_once - len(calls) - ahead
    interval = round(clock.SECOND / settings.connect_starts_per_second())
    # A host with a wrong clock must not stop all calls.
    next_start = min(max(now, pace.get("next_start", 0)), now + BACK_OFF_MS + interval)
    at = next_start + ahead * interval
    if free <= 0:
        soon_ms = CHECK_SOON_MS + CHECK_SOON_MS * ahead // at_once
        return wait(scope, session_id, now + min(soon_ms, CHECK_WITHIN_MS))
    if at > now:
        return wait(scope, session_id, max(at, now + MIN_WAIT_MS))
    row = {"pk": _PK, "sk": _PACE, "kind": "pace", "next_start": now + interval}
    return Start(
        [
            table.versioned_write(row, pace.get("v", 0)),
            table.Put(_row(_CALL, scope, session_id, now + HELD_MS), table.ALWAYS),
            table.Delete(_PK, _WAITS + session_id, table.ALWAYS),
            *(table.Delete(_PK, row["sk"], table.ALWAYS) for row in expired[:20] if session_id not in row["sk"]),
        ]
    )


def wait(scope: Scope, session_id: str, until: clock.Instant) -> Wait:
    """Let a queued call wait until the instant `until`. It keeps its place in the order."""
    return Wait(until, [table.Put(_row(_WAITS, scope, session_id, until + LATE_MS), table.ALWAYS)])


def back_off(scope: Scope, session_id: str) -> Wait:
    """Let a call wait that the carrier had no capacity for. No other call starts meanwhile."""
    waits = wait(scope, session_id, clock.now() + BACK_OFF_MS)
    pace = table.Update(_PK, _PACE, set={"next_start": waits.until}, add={"v": 1})
    return Wait(waits.until, [*waits.writes, release_write(session_id), pace])


def release_write(session_id: str) -> table.Delete:
    """The write after which a call counts no more."""
    return table.Delete(_PK, _CALL + session_id, table.ALWAYS)


def _read(rows: Sequence[table.Row]) -> tuple[dict[str, int], dict[str, int], table.Row]:
    """The projects of the calls under way and of those that wait, by session, and the row of the pace."""
    projects = {row["sk"]: row["project_id"] for row in rows if row["sk"] != _PACE}
    calls = {sk.removeprefix(_CALL): project for sk, project in projects.items() if sk.startswith(_CALL)}
    waiting = {sk.removeprefix(_WAITS): project for sk, project in projects.items() if sk.startswith(_WAITS)}
    return calls, waiting, next((row for row in rows if row["sk"] == _PACE), {})


def _calls_ahead(calls: dict[str, int], waiting: dict[str, int], session_id: str) -> int:
    """How many of the calls that wait start before this one."""
    under_way = Counter(calls.values())
    ranks: dict[str, tuple[int, str]] = {}
    for id in sorted(waiting):
        ranks[id] = (under_way[waiting[id]], id)
        under_way[waiting[id]] += 1
    return sum(rank < ranks[session_id] for rank in ranks.values())


def _row(prefix: str, scope: Scope, session_id: str, until: clock.Instant) -> table.Row:
    expires_at = -(-until // clock.SECOND)
    return {
        "pk": _PK,
        "sk": prefix + session_id,
        "kind": "pace",
        "project_id": scope.project_id,
        "expires_at": expires_at,
    }
