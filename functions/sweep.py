"""Schedule, each minute -> wake-ups for overdue work. The interval between the wake-ups of a row doubles.

A delivery that was put off, and a call that is dialed later, are found shortly before their time. The wake-up has the
delay until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from shared.aws import services
from shared.core import clock, threads
from shared.core.log import logger
from shared.store import keys, table
from shared.tasks import tasks, wake_ups
from shared.webhooks import queues, replays
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.deliveries.resource import DeliveryRow

PAGE = 100
"""Index entries in a page: as many rows as one call reads."""
GROUP = 10
"""Rows that are woken before their wake-ups are counted: as many messages as one call sends."""
QUEUES: dict[str, wake_ups.Queue] = {
    "delivery": queues.RETRIES,
    "message": "turns",
    "session": "dials",
    "consent": "consents",
    "replay": replays.QUEUE,
}
"""By the kind of a row: the queue of its worker."""


def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    """Send wake-ups for overdue rows, as far as the time allows. Returns the number of rows.

    Each shard of the index has its own thread, so that all progress equally. In a shard, the oldest row comes first.
    """

    def has_time() -> bool:
        return bool(context.get_remaining_time_in_millis() >= services.LONGEST_CALL_S * clock.SECOND)

    shards = _shards()
    overdue = sum(threads.run_all(lambda shard: _sweep(shard, has_time), shards, at_once=len(shards)))
    if overdue:
        logger().warning("sent wake-ups for overdue rows", extra={"rows": overdue})
    return {"woken": overdue}


def _shards() -> list[str]:
    """All shards, and in turn one of those that contain rows only if the stage's number of shards was once higher."""
    former = keys.former_due_shards()
    position = clock.now() // clock.MINUTE % max(1, len(former))
    return keys.due_shards() + former[position : position + 1]


def _sweep(shard: str, has_time: Callable[[], bool]) -> int:
    """Send wake-ups for the overdue rows of a shard while there is time. Returns their number."""
    overdue = 0
    pages = table.query(shard, index="due", at_most=keys.due(clock.now()), limit=PAGE, forward=True)
    while has_time() and (page := next(pages, None)) is not None:
        for group in _groups(tasks.overdue(page) if has_time() else []):
            _send_wake_ups(group, has_time)
            # If the time is over, wake-ups may be unsent. They are not counted then, and the next run begins here.
            for row in group:
                if not has_time():
                    return overdue
                tasks.count_wake_up(row)
                overdue += 1
    return overdue


def _groups(rows: Sequence[table.Row]) -> Iterator[Sequence[table.Row]]:
    return (rows[start : start + GROUP] for start in range(0, len(rows), GROUP))


def _send_wake_ups(rows: Sequence[table.Row], has_time: Callable[[], bool]) -> None:
    # A later release may have written kinds that this one does not know.
    for kind in dict.fromkeys(row["kind"] for row in rows if row["kind"] in QUEUES):
        if has_time():
            wake_ups.send([_wake_up(row) for row in rows if row["kind"] == kind])


def _wake_up(row: table.Row) -> wake_ups.WakeUp:
    """The wake-up for when the step is planned: `sweep` finds the steps that are due much later a little ahead."""
    if row["kind"] == "delivery":
        delivery = cast("DeliveryRow", row)
        return deliveries.wake_up(delivery, deliveries.planned_at(delivery))
    return wake_ups.new(QUEUES[row["kind"]], row["pk"], row["sk"], row["due_at"])
