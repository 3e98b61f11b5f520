"""The queues of deliveries under a virtual clock: minutes of traffic in seconds.

Queues, their concurrency and batch sizes are the topology's. The code of the service decides which queue and message
group a wake-up goes to, which marks an endpoint gets, how long a message waits for the one before it, and when a failed
attempt is repeated. What is simulated here is Lambda's pollers, the worker's time, `sweep`, and the receivers.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from infra import topology
from infra.costs import CALL_MS, CPU_MS, MEMORY_MB, WHOLE_CORE_MB
from infra.local import resources
from infra.local.sqs import Draft, Engine, Queue, Received
from infra.topology import QueueSource
from shared.core import clock, limits
from shared.core.limits import LONGEST_QUEUE_DELAY_S
from shared.tasks import batches, tasks
from shared.webhooks import health, queues
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.deliveries.resource import DeliveryError
from shared.webhooks.endpoints import resource as endpoints
from shared.webhooks.http_client import AttemptOutcome
from shared.webhooks.queues import Arrival, Destination
from tests.support.clocks import Clock
from tests.support.snapshots import snapshot

DELIVER = next(function for function in topology.FUNCTIONS if function.name == "deliver")
SOURCES = {source.queue: source for source in DELIVER.queues}
CPU = CPU_MS["deliver"] / 1000 * WHOLE_CORE_MB / MEMORY_MB
"""Seconds that a delivery takes of the share of a core that an execution has."""
CALLS = 2 * CALL_MS / 1000
"""Seconds of AWS calls before an attempt: the claim, and the read of event and endpoint."""
RECORD = CALL_MS / 1000
"""Seconds of the write that records it."""
POLL = 0.05
"""Seconds between two receives of the pollers, and from a function's end to the deletion of its messages."""
TIMEOUT = 15.0
SWEEP = 60
"""Seconds between two runs of `sweep`."""
ROWS_PER_SECOND = 700
"""The wake-ups that `sweep` sends in a second (`tests/unit/test_sweep.py`)."""


@dataclass
class Receiver:
    """An endpoint and its receiver, which responds after `seconds`; TIMEOUT never responds."""

    id: str
    seconds: float
    snapshot: endpoints.EndpointSnapshot = field(init=False)
    late: list[float] = field(default_factory=list)
    """Seconds from when the first attempt for each event was due to its start."""
    others_late: list[float] = field(default_factory=list)
    """The same for all other attempts."""
    off_plan: list[float] = field(default_factory=list)
    """Seconds from when a delivery that was put off was planned to its wake-up from `sweep`."""
    ended: int = 0
    """The deliveries that have ended."""
    in_flight: int = 0
    most_in_flight: int = 0
    order: list[tuple[str, int]] = field(default_factory=list)
    """The object and number of each first attempt, as they started."""

    def __post_init__(self) -> None:
        self.snapshot = snapshot(self.id)

    def mark(self, marks: Mapping[str, Any]) -> None:
        """Change the marks in the endpoint's row."""
        absent = {"slow_attempts": 0, "timeouts": 0, "busy_until": 0}
        values: dict[str, Any] = {name: absent.get(name) if value is None else value for name, value in marks.items()}
        self.snapshot = replace(self.snapshot, **values)


@dataclass(eq=False)
class _Row:
    """A delivery's row."""

    receiver: Receiver
    due_at: float
    wake_up_at: float
    """When `sweep` sends the next wake-up."""
    planned: float
    """When the next attempt is planned."""
    attempt: int = 1
    about: tuple[str, int] | None = None
    """The object and number of an event; None for a test event."""
    wake_ups: int = 0
    claimed: bool = False
    ended: bool = False


@dataclass
class _Invocation:
    """A running call of `deliver` with a batch."""

    source: QueueSource
    messages: dict[str, Received]
    cpu_free_at: float
    ended: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)


class DeliveryQueues:
    """The queues and their worker. `send` produces traffic, `run` lets time pass."""

    def __init__(self, time: Clock) -> None:
        self._time = time
        self._numbers, self._random = itertools.count(), random.Random(1)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._engine = Engine(lambda: time.now)
        self._queues = {queue.name: self._create(queue) for queue in topology.QUEUES if queue.name in SOURCES}
        self._ticks: set[tuple[str, float]] = set()
        self._free = {name: source.concurrency for name, source in SOURCES.items()}
        self._rows: dict[str, _Row] = {}
        self.receivers: dict[str, Receiver] = {}
        self.most_running: Counter[str] = Counter()
        self._at(time.now + SWEEP, self._sweep)

    def receiver(self, id: str, seconds: float) -> Receiver:
        """A new endpoint, whose receiver responds after `seconds`."""
        self.receivers[id] = Receiver(id, seconds)
        return self.receivers[id]

    def send(self, receiver: Receiver, rate: float, seconds: float, objects: int = 100) -> None:
        """Events at `rate` per second for the next `seconds`, about this many objects in turn."""
        for number in range(int(rate * seconds)):
            self._at(self._moment(number, rate), self._fan_out, receiver, f"object_{number % objects}", number)

    def send_test_events(self, receiver: Receiver, rate: float, seconds: float) -> None:
        """Test events or manual retries at `rate` per second for the next `seconds`."""
        for number in range(int(rate * seconds)):
            self._at(self._moment(number, rate), self._test, receiver)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self._time.now + seconds
        while self._events and self._events[0][0] <= end:
            self._time.now, _, act = heapq.heappop(self._events)
            act()
        self._time.now = end

    def length(self, queue: str) -> int:
        """The messages in a queue."""
        return int(self._queues[queue].attributes()["ApproximateNumberOfMessages"])

    def _moment(self, number: int, rate: float) -> float:
        return self._time.now + (number + self._random.random()) / rate

    def _at(self, at: float, act: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._events, (at, next(self._numbers), lambda: act(*arguments)))

    def _create(self, queue: topology.Queue) -> Queue:
        attributes = {"VisibilityTimeout": str(queue.visibility_s)} | (resources.FIFO if queue.fifo else {})
        return self._engine.create(f"{queue.name}{'.fifo' if queue.fifo else ''}", attributes)

    def _fan_out(self, receiver: Receiver, object_id: str, number: int) -> None:
        id = self._new(receiver, (object_id, number))
        if receiver.snapshot.hanging:
            self._put_off(self._rows[id])
        self._wake_up(id, queues.first(receiver.snapshot, object_id))

    def _test(self, receiver: Receiver) -> None:
        self._wake_up(self._new(receiver, None), Destination(queues.RETRIES, receiver.id))

    def _new(self, receiver: Receiver, about: tuple[str, int] | None) -> str:
        id, now = str(next(self._numbers)), self._time.now
        self._rows[id] = _Row(receiver, now, now + deliveries.DELIVERY_GRACE_S, now, about=about)
        return id

    def _sweep(self) -> None:
        """Each minute: wake-ups for the rows that are overdue, one after another."""
        open_rows = {id: row for id, row in self._rows.items() if not row.ended}
        overdue = [id for id, row in open_rows.items() if not row.claimed and row.wake_up_at <= self._time.now]
        for number, id in enumerate(overdue):
            row, at = open_rows[id], self._time.now + number / ROWS_PER_SECOND
            delay = max(0, round(row.planned - at))
            self._at(at, self._wake_up, id, Destination(queues.RETRIES, row.receiver.id), delay)
            row.wake_up_at = at + min(tasks.MIN_INTERVAL_S * 2**row.wake_ups, tasks.MAX_INTERVAL_S)
            row.wake_ups += 1
        self._at(self._time.now + SWEEP, self._sweep)

    def _wake_up(self, id: str, destination: Destination, delay: int = 0) -> None:
        queue = destination.queue
        once = (destination.once or f"{id}-{self._rows[id].attempt}") if self._queues[queue].fifo else None
        self._queues[queue].send(Draft(id, delay or None, destination.group, once))
        tick = (self._time.now + delay) // POLL + 1
        if (queue, tick) not in self._ticks:
            self._ticks.add((queue, tick))
            self._at(tick * POLL, self._poll, queue)

    def _poll(self, name: str) -> None:
        source, queue = SOURCES[name], self._queues[name]
        while self._free[name] and (messages := queue.receive(source.batch_size, wait=0)):
            self._free[name] -= 1
            running = source.concurrency - self._free[name]
            self.most_running[name] = max(self.most_running[name], running)
            invocation = _Invocation(source, {each["MessageId"]: each for each in messages}, self._time.now)
            self._start(invocation)

    def _start(self, invocation: _Invocation) -> None:
        """Start the messages of a batch; those of a group after each other, for as long as they wait."""
        fifo = self._queues[invocation.source.queue].fifo
        chains: dict[str, list[str]] = {}
        for id, message in invocation.messages.items():
            chains.setdefault(message["Attributes"]["MessageGroupId"] if fifo else id, []).append(id)
        for chain in chains.values():
            self._start_next(invocation, chain, 0)
        self._at(self._time.now + batches.DELETE_EVERY_S, self._settle, invocation)

    def _start_next(self, invocation: _Invocation, chain: list[str], position: int) -> None:
        """Start the message at this position, and later the ones after it. Does nothing if it was started before."""
        if position == len(chain) or "started" in invocation.messages[chain[position]]:
            return
        message = invocation.messages[chain[position]]
        message["started"] = True
        after = partial(self._start_next, invocation, chain, position + 1)
        if position + 1 < len(chain):
            sent = clock.Instant(invocation.messages[chain[position + 1]]["Attributes"]["SentTimestamp"])
            self._at(self._time.now + batches.in_order_for_s(sent), after)
        self._at(self._cpu(invocation, CPU / 2) + CALLS, self._claimed, invocation, message, after)

    def _cpu(self, invocation: _Invocation, seconds: float) -> float:
        """When the execution's core has done `seconds` more of work."""
        invocation.cpu_free_at = max(invocation.cpu_free_at, self._time.now) + seconds
        return invocation.cpu_free_at

    def _claimed(self, invocation: _Invocation, message: Received, after: Callable[[], None]) -> None:
        id, queue = message["Body"], invocation.source.queue
        row, now = self._rows[id], self._time.now
        receiver, arrival = row.receiver, Arrival(queue, clock.now() - int(message["Attributes"]["SentTimestamp"]))
        if queue == queues.RETRIES and row.planned > row.due_at and not row.ended and not row.claimed:
            receiver.off_plan.append(now - row.planned)
        by_hand = row.about is None and row.attempt == 1
        destination = queues.decide_move(arrival, receiver.snapshot, by_hand=by_hand)
        if row.ended or row.claimed or row.due_at > now or destination is not None:
            if destination is not None and not row.ended and not row.claimed:
                self._move(id, row, destination)
            self._at(self._cpu(invocation, CPU / 2) + RECORD, self._ended, invocation, message, after)
            return
        if row.attempt == 1:
            (receiver.late if row.about else receiver.others_late).append(now - row.due_at)
            receiver.order += [row.about] if row.about else []
        row.claimed = True
        receiver.in_flight += 1
        receiver.most_in_flight = max(receiver.most_in_flight, receiver.in_flight)
        seconds = receiver.seconds

        def recorded() -> None:
            self._record(id, row, arrival, seconds)
            self._at(self._cpu(invocation, CPU / 2) + RECORD, self._ended, invocation, message, after)

        self._at(now + seconds, recorded)

    def _move(self, id: str, row: _Row, destination: Destination) -> None:
        if destination.queue == queues.HANGING:
            self._put_off(row)
        self._wake_up(id, destination)

    def _put_off(self, row: _Row) -> None:
        row.planned = queues.put_off_until(clock.Instant(row.due_at * 1000)) / 1000
        row.wake_up_at, row.wake_ups = row.planned - tasks.SWEEP_AHEAD_S, 0

    def _record(self, id: str, row: _Row, arrival: Arrival, seconds: float) -> None:
        receiver, timed_out = row.receiver, seconds >= TIMEOUT
        receiver.in_flight -= 1
        outcome = AttemptOutcome(
            None if timed_out else 200, DeliveryError.TIMEOUT if timed_out else None, None, int(seconds * 1000)
        )
        # The row as it is after the attempts that were recorded meanwhile.
        receiver.mark(health.mark(receiver.snapshot, outcome, arrival))
        row.claimed, row.ended = False, not timed_out or row.attempt == len(limits.RETRY_SCHEDULE_S)
        if row.ended:
            receiver.ended += 1
            return
        wait = limits.RETRY_SCHEDULE_S[row.attempt]
        row.attempt, row.due_at, row.wake_ups = row.attempt + 1, self._time.now + wait, 0
        row.wake_up_at, row.planned = row.due_at + deliveries.DELIVERY_GRACE_S, row.due_at
        if wait <= LONGEST_QUEUE_DELAY_S:
            self._wake_up(id, Destination(queues.RETRIES, receiver.id), wait)
        else:
            self._at(row.due_at, self._wake_up, id, Destination(queues.RETRIES, receiver.id))

    def _ended(self, invocation: _Invocation, message: Received, after: Callable[[], None]) -> None:
        invocation.ended.add(message["MessageId"])
        after()
        if len(invocation.ended) == len(invocation.messages):
            self._at(self._time.now + POLL, self._returned, invocation)

    def _settle(self, invocation: _Invocation) -> None:
        """What the worker does each second while an attempt is under way: release the groups of the others."""
        if len(invocation.ended) < len(invocation.messages):
            if self._queues[invocation.source.queue].fifo:
                self._delete(invocation)
            self._at(self._time.now + batches.DELETE_EVERY_S, self._settle, invocation)

    def _returned(self, invocation: _Invocation) -> None:
        self._delete(invocation)
        self._free[invocation.source.queue] += 1
        self._poll(invocation.source.queue)

    def _delete(self, invocation: _Invocation) -> None:
        for id in invocation.ended - invocation.deleted:
            self._queues[invocation.source.queue].delete(invocation.messages[id]["ReceiptHandle"])
        invocation.deleted |= invocation.ended
        self._poll(invocation.source.queue)


@contextmanager
def virtual_queues() -> Iterator[DeliveryQueues]:
    """Queues with the service's clock stopped, and moved by `DeliveryQueues.run`."""
    import time

    stopped = Clock(1_800_000_000.0)
    clock.use(lambda: stopped.now, stopped.forward)
    try:
        yield DeliveryQueues(stopped)
    finally:
        clock.use(time.time, time.sleep)
