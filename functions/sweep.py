"""Schedule, each minute -> hints for overdue work. The interval between the hints of a row doubles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared.calls import consents, sessions
from shared.conversations import conversations
from shared.core import clock, keys, table
from shared.core.log import logger
from shared.webhooks import deliveries
from shared.work import hints, owed

MIN_INTERVAL = 60
MAX_INTERVAL = 3600
"""Seconds, scaled, between two hints of a row. The interval doubles from the first value to the second."""
PAGE = 100
"""Index entries in a page."""
PAGE_TIME = 10 * clock.SECOND
"""Milliseconds that must remain of the function's time for another page."""


def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    """Send hints for all overdue rows, as far as the time allows. Returns the number of rows."""
    overdue = 0
    for shard in keys.due_shards():
        pages = table.query(shard, index="due", at_most=keys.due(clock.now()), limit=PAGE, forward=True)
        for page in pages:
            rows = [row for row in map(_postpone, page) if row is not None]
            for kind, (queue, hint) in LANES.items():
                hints.send(queue, [hint(row) for row in rows if row["kind"] == kind])
            overdue += len(rows)
            if context.get_remaining_time_in_millis() < PAGE_TIME:
                return _report(overdue)
    return _report(overdue)


def _report(overdue: int) -> dict[str, int]:
    if overdue:
        logger().warning("overdue", extra={"rows": overdue})
    return {"hinted": overdue}


def _postpone(entry: table.Row) -> table.Row | None:
    """Postpone the row's next hint. Returns the row; None if it has changed or a worker has claimed it."""
    row = table.get(entry["pk"], entry["sk"])
    if row is None or row.get("due") != entry["due"]:
        return None
    wait = clock.scaled(min(MIN_INTERVAL * 2 ** row.get("hints", 0), MAX_INTERVAL))
    return owed.postpone_hint(entry["pk"], entry["sk"], entry["due"], wait)


LANES: dict[str, tuple[str, Callable[[table.Row], hints.Hint]]] = {
    "delivery": ("retries", deliveries.hint),
    "message": ("turns", conversations.turn_hint),
    "session": ("dials", lambda row: sessions.hint(keys.scope_of(row["pk"]), row["sk"])),
    "consent": ("consents", lambda row: consents.hint(row["pk"])),
}
"""By the kind of a row: the queue of its worker, and the function that returns its hint."""
