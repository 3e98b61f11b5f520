"""Lanes: the queues of deliveries, and which one the hint of a delivery goes to.

| queue             | attempts |
|-------------------|----------|
| `deliveries`      | first attempts, in order for each endpoint |
| `retries`         | later attempts, manual retries, test events, and overdue attempts that `sweep` found |
| `slow_deliveries` | all attempts to slow endpoints |

Two marks in an endpoint's row keep endpoints from delaying each other. An endpoint is *slow* if its receiver takes long
to respond or hangs. All slow endpoints share the few concurrent attempts of `slow_deliveries`, and use no other queue.
An endpoint is *busy* if it has more events than one message group can deliver in time. Its first attempts are spread
over several groups, so that more of them run concurrently; the events of one object stay in one group.
"""

from __future__ import annotations

import zlib

from shared.core import clock, table
from shared.webhooks.endpoints import Snapshot

FIRST, LATER, SLOW = "deliveries", "retries", "slow_deliveries"

SLOW_ATTEMPT = 5 * clock.SECOND
"""The duration of an attempt from which its endpoint counts as slow (milliseconds)."""
SLOW_FOR = 60 * clock.SECOND
"""How long an endpoint counts as slow at least, after its last slow attempt (milliseconds)."""
BEHIND = clock.SECOND // 2
"""How long a first attempt waits in its queue (milliseconds) before its endpoint counts as busy."""
BUSY_FOR = 10 * clock.MINUTE
"""How long an endpoint counts as busy after a first attempt that waited (milliseconds)."""
BUSY_GROUPS = 32
"""The message groups of a busy endpoint."""


def first(endpoint: Snapshot) -> str:
    """The queue of a first attempt."""
    return SLOW if endpoint.slow else FIRST


def group(endpoint: Snapshot, object_id: str) -> str:
    """The message group of a first attempt, for an event about the object with this id."""
    id = endpoint.doc["id"]
    if endpoint.busy_until <= clock.now():
        return id
    return f"{id}-{zlib.crc32(object_id.encode()) % BUSY_GROUPS}"


def is_misplaced(queue: str | None, endpoint: Snapshot) -> bool:
    """Whether an attempt whose hint came from this queue must move to `slow_deliveries`."""
    return endpoint.slow and queue != SLOW


def marks(endpoint: Snapshot, duration: int, waited: int) -> dict[str, table.Value | None]:
    """The changes to the endpoint's marks after an attempt that took `duration` milliseconds.

    `waited` is how long a first attempt waited in `deliveries` (milliseconds); 0 for all others.
    """
    now = clock.now()
    if duration >= SLOW_ATTEMPT:
        # Renewed early, so that the mark does not end between two slow attempts.
        expiring = endpoint.slow_until is None or endpoint.slow_until - now < SLOW_FOR // 2
        return {"slow_until": now + SLOW_FOR} if expiring else {}
    changes: dict[str, table.Value | None] = {}
    if endpoint.slow_until is not None and endpoint.slow_until <= now:
        changes["slow_until"] = None
    if waited > BEHIND and endpoint.busy_until - now < BUSY_FOR // 2:
        changes["busy_until"] = now + BUSY_FOR
    return changes
