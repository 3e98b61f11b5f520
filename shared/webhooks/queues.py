"""The queues of deliveries. `first` and `another` decide which one the wake-up of a delivery goes to.

Timers, manual retries, test events and `sweep` send to `retries` (`LATER`); the worker moves what belongs elsewhere.

| queue                | attempts |
|----------------------|----------|
| `deliveries`         | first attempts, in order for each message group |
| `retries`            | later attempts, manual retries, test events, and overdue attempts that `sweep` found |
| `slow_deliveries`    | attempts to slow endpoints |
| `hanging_deliveries` | attempts to hanging endpoints, one at a time for each |
| `manual_deliveries`  | first attempts of manual retries and test events to hanging endpoints |

Marks in an endpoint's row keep endpoints from delaying each other. It takes several attempts to move an endpoint to a
slower queue.

- An endpoint is *busy* if it has more events than one message group can deliver in time. Its first attempts are spread
  over several groups, so that more of them run concurrently; the events of one object stay in one group.
- It is *slow* if several attempts in a row took long. Slow endpoints share the attempts of `slow_deliveries`.
- It is *hanging* if several attempts in a row timed out. Then one attempt every `PROBE_EVERY` finds out whether it
  responds again, and all other deliveries are put off until a planned time. The first attempt that ends in another
  way makes it slow. The first attempt that a person asks for is made at once. These attempts have executions that no
  others use, so that they delay nothing else, however many there are.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.core import clock
from shared.store import table
from shared.webhooks.endpoints import HANGING_FROM, Snapshot

if TYPE_CHECKING:
    # Only the delivery worker imports the HTTP client.
    from shared.webhooks.http_client import Outcome

FIRST, LATER, SLOW, HANGING = "deliveries", "retries", "slow_deliveries", "hanging_deliveries"
MANUAL = "manual_deliveries"

SLOW_ATTEMPT = 5 * clock.SECOND
"""The duration from which an attempt counts as slow (milliseconds)."""
SLOW_ATTEMPTS = 3
"""The slow attempts in a row after which an endpoint is slow."""
SLOW_FOR = 60 * clock.SECOND
"""How long the mark of a slow endpoint lasts (milliseconds). A slow attempt renews it if less than half is left."""
PROBE_EVERY = 20 * clock.SECOND
"""The interval (milliseconds) in which a hanging endpoint gets one attempt at most. A timeout takes 15 s."""
PUT_OFF = (90, 24 * 3600)
"""The shortest and the longest time (seconds, scaled) for which a delivery to a hanging endpoint is put off. Between
them, it is put off for twice the time that it is late, like the waits of the retry schedule. The shortest leaves
`sweep` the time to send the wake-up (`deliveries.SWEEP_AHEAD`)."""
BEHIND = clock.SECOND // 2
"""How long a first attempt waits in its queue (milliseconds) before its endpoint counts as busy."""
BUSY_FOR = 10 * clock.MINUTE
"""How long the mark of a busy endpoint lasts (milliseconds). A first attempt that waited renews it if less than half is
left."""
BUSY_GROUPS = 32
"""The message groups of a busy endpoint."""


@dataclass(frozen=True)
class Destination:
    """Where the wake-up of an attempt goes: a queue and a message group.

    Of the wake-ups of a FIFO group with the same `once`, SQS delivers one, and drops the others for five minutes (SQS
    developer guide, "Exactly-once processing"). None: one for each delivery.
    """

    queue: str
    group: str
    once: str | None = None


@dataclass(frozen=True)
class Arrival:
    """How the wake-up of an attempt came."""

    queue: str | None
    """The queue; None for one that is none of these."""
    waited: int
    """How long it waited there (milliseconds)."""


def first(endpoint: Snapshot, object_id: str) -> Destination:
    """The destination of a first attempt, for an event about the object with this id."""
    id = endpoint.doc["id"]
    if endpoint.hanging:
        return Destination(HANGING, id, _probe())
    if endpoint.slow:
        return Destination(SLOW, id)
    if endpoint.busy_until <= clock.now():
        return Destination(FIRST, id)
    return Destination(FIRST, f"{id}-{zlib.crc32(object_id.encode()) % BUSY_GROUPS}")


def another(arrival: Arrival, endpoint: Snapshot, *, by_hand: bool) -> Destination | None:
    """The destination to which an attempt must move; None if it may be made where its wake-up arrived.

    `by_hand` if a person waits for the attempt (`Claim.by_hand`).
    """
    id = endpoint.doc["id"]
    if endpoint.hanging:
        queue, once = (MANUAL, None) if by_hand else (HANGING, _probe())
        return None if arrival.queue == queue else Destination(queue, id, once)
    if endpoint.slow:
        return None if arrival.queue in (SLOW, HANGING, MANUAL) else Destination(SLOW, id)
    return None


def put_off(due_at: int) -> int:
    """The instant until which a delivery to a hanging endpoint is put off that was due at `due_at` (milliseconds)."""
    now, (least, most) = clock.now(), map(clock.scaled, PUT_OFF)
    return now + min(max(least, 2 * (now - due_at)), most)


def marks(endpoint: Snapshot, outcome: Outcome, arrival: Arrival) -> dict[str, table.Value | None]:
    """The changes to the endpoint's marks after an attempt. Most attempts have none."""
    now = clock.now()
    if outcome.duration_ms < SLOW_ATTEMPT:
        return _after_quick(endpoint, arrival, now)
    slow = min(endpoint.slow_attempts + 1, SLOW_ATTEMPTS)
    timeouts = min(endpoint.timeouts + 1, HANGING_FROM) if outcome.error == "timeout" else 0
    changes: dict[str, table.Value | None] = {}
    if slow != endpoint.slow_attempts:
        changes["slow_attempts"] = slow
    if timeouts != endpoint.timeouts:
        changes["timeouts"] = timeouts or None
    # Renewed early, so that the mark does not end between two slow attempts.
    if slow == SLOW_ATTEMPTS and (endpoint.slow_until is None or endpoint.slow_until - now < SLOW_FOR // 2):
        changes["slow_until"] = now + SLOW_FOR
    return changes


def _after_quick(endpoint: Snapshot, arrival: Arrival, now: int) -> dict[str, table.Value | None]:
    if endpoint.hanging:
        return {"timeouts": None, "slow_until": now + SLOW_FOR}
    changes: dict[str, table.Value | None] = {}
    if endpoint.timeouts:
        changes["timeouts"] = None
    if endpoint.slow_until is None or endpoint.slow_until <= now:
        ended = {"slow_attempts": endpoint.slow_attempts, "slow_until": endpoint.slow_until}
        changes |= {name: None for name, value in ended.items() if value}
    waited = arrival.waited if arrival.queue == FIRST else 0
    if waited > BEHIND and endpoint.busy_until - now < BUSY_FOR // 2:
        changes["busy_until"] = now + BUSY_FOR
    return changes


def _probe() -> str:
    return str(clock.now() // PROBE_EVERY)
