"""The queues of deliveries. `first` and `decide_move` decide which one the wake-up of a delivery goes to.

Timers, manual retries, test events and `sweep` send to `retries`; the worker moves what belongs elsewhere.

| queue                | attempts |
|----------------------|----------|
| `deliveries`         | first attempts, in order for each message group |
| `retries`            | later attempts, manual retries, test events, and overdue attempts that `sweep` found |
| `slow_deliveries`    | attempts to slow endpoints |
| `hanging_deliveries` | attempts to hanging endpoints, one at a time for each |
| `manual_deliveries`  | first attempts of manual retries and test events to hanging endpoints |

Marks in an endpoint's row (`health.py`) keep endpoints from delaying each other. It takes several attempts to move an
endpoint to a slower queue.

- An endpoint is *busy* if it has more events than one message group can deliver in time. Its first attempts are spread
  over several groups, so that more of them run concurrently; the events of one object stay in one group.
- It is *slow* if several attempts in a row took long. Slow endpoints share the attempts of `slow_deliveries`.
- It is *hanging* if several attempts in a row timed out. Then one attempt every `PROBE_EVERY_MS` finds out whether it
  responds again, and all other deliveries are put off until a planned time. The first attempt that ends in another
  way makes it slow. The first attempt that a person asks for is made at once. These attempts have executions that no
  others use, so that they delay nothing else, however many there are.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from shared.core import clock
from shared.tasks.wake_ups import Queue
from shared.webhooks.endpoints.resource import EndpointSnapshot

FIRST: Queue = "deliveries"
RETRIES: Queue = "retries"
SLOW: Queue = "slow_deliveries"
HANGING: Queue = "hanging_deliveries"
MANUAL: Queue = "manual_deliveries"

PROBE_EVERY_MS = 20 * clock.SECOND
"""The interval in which a hanging endpoint gets one attempt at most. A timeout takes 15 s."""
PUT_OFF_RANGE_S = (90, 24 * 3600)
"""The shortest and the longest time (unscaled seconds) for which a delivery to a hanging endpoint is put off.
Between them, it is put off for twice the time that it is late, like the waits of the retry schedule. The shortest
leaves `sweep` the time to send the wake-up (`tasks.SWEEP_AHEAD_S`)."""
BUSY_GROUPS = 32
"""The message groups of a busy endpoint."""


@dataclass(frozen=True)
class Destination:
    """Where the wake-up of an attempt goes: a queue and a message group.

    Of the wake-ups of a FIFO group with the same `once`, SQS delivers one, and drops the others for five minutes (SQS
    developer guide, "Exactly-once processing"). None: one for each delivery.
    """

    queue: Queue
    group: str
    once: str | None = None


@dataclass(frozen=True)
class Arrival:
    """How the wake-up of an attempt came."""

    queue: str | None
    """The queue; None for a queue outside of this table."""
    waited_ms: int
    """How long it waited there."""


def first(endpoint: EndpointSnapshot, object_id: str) -> Destination:
    """The destination of a first attempt, for an event about the object with this id."""
    id = endpoint.doc["id"]
    if endpoint.hanging:
        return Destination(HANGING, id, _probe())
    if endpoint.slow:
        return Destination(SLOW, id)
    if endpoint.busy_until <= clock.now():
        return Destination(FIRST, id)
    return Destination(FIRST, f"{id}-{zlib.crc32(object_id.encode()) % BUSY_GROUPS}")


def decide_move(arrival: Arrival, endpoint: EndpointSnapshot, *, by_hand: bool) -> Destination | None:
    """The destination to which an attempt must move; None if it may be made where its wake-up arrived.

    `by_hand` if a person waits for the attempt (`ClaimedDelivery.by_hand`).
    """
    id = endpoint.doc["id"]
    if endpoint.hanging:
        queue, once = (MANUAL, None) if by_hand else (HANGING, _probe())
        return None if arrival.queue == queue else Destination(queue, id, once)
    if endpoint.slow:
        return None if arrival.queue in (SLOW, HANGING, MANUAL) else Destination(SLOW, id)
    return None


def put_off_until(due_at: clock.Instant) -> clock.Instant:
    """The instant until which a delivery to a hanging endpoint is put off that was due at `due_at`."""
    now, (least, most) = clock.now(), map(clock.scaled_ms, PUT_OFF_RANGE_S)
    return now + min(max(least, 2 * (now - due_at)), most)


def _probe() -> str:
    return str(clock.now() // PROBE_EVERY_MS)
