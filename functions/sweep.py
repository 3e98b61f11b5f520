"""Each minute: send another hint for work that is overdue, for each row less often the longer it waits."""

from __future__ import annotations

import json
from typing import Any

from shared.calls import consents, sessions
from shared.conversations import conversations
from shared.core import clock, keys, table
from shared.core.log import logger
from shared.webhooks import deliveries
from shared.work import hints, owed

SOONEST = 60
LATEST = 3600
"""Seconds, scaled, between the hints of a row: doubled from the first to the second figure."""
PAGE = 100
TIME_KEPT = 10 * clock.SECOND
"""Milliseconds of the function's time that are kept for the last page."""


def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    """Go through all that is overdue, or as far as the time allows; returns how many rows were hinted at."""
    hinted = 0
    for shard in keys.due_shards():
        pages = table.query(shard, index="due", at_most=keys.due(clock.now()), limit=PAGE, forward=True)
        for page in pages:
            rows = [row for row in map(_put_off, page) if row is not None]
            for kind, (queue, hint) in LANES.items():
                hints.send(queue, [hint(row) for row in rows if row["kind"] == kind])
            hinted += len(rows)
            if context.get_remaining_time_in_millis() < TIME_KEPT:
                break
    if hinted:
        logger().warning("overdue", extra={"rows": hinted})
    return {"hinted": hinted}


def _put_off(entry: table.Row) -> table.Row | None:
    """Move the row's next hint further away; None if the row has moved on, or a worker has it."""
    row = table.get(entry["pk"], entry["sk"])
    if row is None or row.get("due") != entry["due"]:
        return None
    wait = clock.scaled(min(SOONEST * 2 ** row.get("hints", 0), LATEST))
    return owed.postpone_hint(entry["pk"], entry["sk"], entry["due"], wait)


def _delivery(row: table.Row) -> hints.Hint:
    return deliveries.hint_of(keys.scope_of(row["pk"]), json.loads(row["doc"]))


def _turn(row: table.Row) -> hints.Hint:
    return conversations.hints_of(keys.scope_of(row["pk"]), row)[0]


def _session(row: table.Row) -> hints.Hint:
    return sessions.hint(keys.scope_of(row["pk"]), row["sk"])


def _consent(row: table.Row) -> hints.Hint:
    return consents.hint(keys.scope_of(row["pk"]), row["pk"])


LANES = {
    "delivery": ("retries", _delivery),
    "message": ("turns", _turn),
    "session": ("dials", _session),
    "consent": ("consents", _consent),
}
"""By the kind of a row: the queue of the worker that it owes work to, and the hint for it."""
