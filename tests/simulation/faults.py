"""What goes wrong in a history: kinds of faults, each with a rate that the seed draws."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Fault(StrEnum):
    """A kind of fault."""

    THROTTLED = "throttled"
    """AWS refuses a call because of its rate."""
    BROKEN = "broken"
    """AWS has an internal error, and did nothing."""
    REFUSED = "refused"
    """No connection to AWS."""
    LOST_BEFORE = "lost_before"
    """The connection breaks before AWS gets the call."""
    LOST_AFTER = "lost_after"
    """AWS does what the call asks, and its response is lost."""
    CONFLICT = "conflict"
    """Another transaction is under way on a row of a write."""
    KILLED = "killed"
    """The function is killed at a call, before or after it."""
    STALLED = "stalled"
    """A call takes seconds to minutes."""
    WAKE_UP_LOST = "wake_up_lost"
    WAKE_UP_DOUBLED = "wake_up_doubled"
    WAKE_UP_LATE = "wake_up_late"
    NOT_DELETED = "not_deleted"
    """Lambda does not delete a message that was processed: it comes again."""
    STREAM_AGAIN = "stream_again"
    """A batch of stream records is given again, although it was processed."""
    SWEEP_MISSED = "sweep_missed"
    SWEEP_DOUBLED = "sweep_doubled"
    SWEEP_LATE = "sweep_late"
    INDEX_LAG = "index_lag"
    """An index shows a change only seconds later."""
    TIMER_LOST = "timer_lost"
    """A state machine fails before it sends its wake-up."""
    CLOCK_OFF = "clock_off"
    """The clock of a host is off by up to 300 ms."""
    CLOCK_STEPPED = "clock_stepped"
    """The clock of a host steps, and is off by up to 300 ms afterwards."""
    FROZEN = "frozen"
    """A function stands still at a call until after its time limit. Then the call goes on, and the function ends."""
    DEADLY = "deadly"
    """The answers of a receiver kill the function that reads them, as long as it has its character."""
    CARRIER_FULL = "carrier_full"
    """The carrier of live calls has no capacity."""
    CARRIER_BUSY = "carrier_busy"
    """The carrier of live calls does not respond, before it has done something or after."""
    MODEL_SLOW = "model_slow"
    """The model does not respond in time."""
    MODEL_FAILED = "model_failed"
    """A request to the model fails."""
    MODEL_ODD = "model_odd"
    """The model's answer is cut off, filtered, empty or malformed, or calls tools that there are not."""
    LINES_LOST = "lines_lost"
    LINES_DOUBLED = "lines_doubled"
    """CloudWatch Logs gives lines of the log to their function twice."""
    CANARY_DOUBLED = "canary_doubled"
    """Two runs of the canary begin where one was scheduled."""
    MESSENGER_FAILED = "messenger_failed"
    """WhatsApp refuses a request, or does not respond, before it has done something or after."""


RATES = {
    Fault.THROTTLED: 0.03,
    Fault.BROKEN: 0.02,
    Fault.REFUSED: 0.02,
    Fault.LOST_BEFORE: 0.01,
    Fault.LOST_AFTER: 0.03,
    Fault.CONFLICT: 0.04,
    Fault.KILLED: 0.02,
    Fault.STALLED: 0.005,
    Fault.WAKE_UP_LOST: 0.2,
    Fault.WAKE_UP_DOUBLED: 0.2,
    Fault.WAKE_UP_LATE: 0.2,
    Fault.NOT_DELETED: 0.1,
    Fault.STREAM_AGAIN: 0.2,
    Fault.SWEEP_MISSED: 0.3,
    Fault.SWEEP_DOUBLED: 0.2,
    Fault.SWEEP_LATE: 0.3,
    Fault.INDEX_LAG: 0.1,
    Fault.TIMER_LOST: 0.2,
    Fault.CLOCK_OFF: 0.3,
    Fault.CLOCK_STEPPED: 0.01,
    Fault.FROZEN: 0.01,
    Fault.DEADLY: 0.1,
    Fault.CARRIER_FULL: 0.3,
    Fault.CARRIER_BUSY: 0.1,
    Fault.MODEL_SLOW: 0.2,
    Fault.MODEL_FAILED: 0.2,
    Fault.CANARY_DOUBLED: 0.2,
    Fault.MODEL_ODD: 0.2,
    Fault.LINES_LOST: 0.2,
    Fault.LINES_DOUBLED: 0.2,
    Fault.MESSENGER_FAILED: 0.8,
}
"""The highest rate of each kind: of the calls, messages, batches, runs, hosts or receivers that it can concern."""


def client_error(code: str, status: int, operation: str) -> Exception:
    """What boto3 raises for a response with this error code of AWS."""
    from botocore.exceptions import ClientError

    error: Any = {"Error": {"Code": code, "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(error, operation)


@dataclass
class Faults:
    """The faults of one history. `only` limits the kinds, and `most` their number, to shorten a failing history.

    `rates` are those of the history's focus, if it has any: then no other kinds happen.
    """

    seed: str
    only: Collection[Fault] | None = None
    most: int | None = None
    rates: Mapping[Fault, float] = field(default_factory=dict)
    on: bool = True
    injected: Counter[Fault] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        draw = random.Random(f"{self.seed}/rates")
        # Some histories have few kinds, so that they get far; some have none.
        share = draw.choice((0.0, 0.2, 0.5, 1.0))
        self._rates = {kind: draw.random() ** 2 * rate * (draw.random() < share) for kind, rate in RATES.items()}
        if self.rates:
            self._rates = {kind: self.rates.get(kind, 0.0) for kind in Fault}
        self._draws = {kind: random.Random(f"{self.seed}/{kind}") for kind in Fault}

    def strikes(self, kind: Fault) -> bool:
        """Whether a fault of this kind happens now."""
        # Always drawn, so that a kind that is left out does not change the others.
        strikes = self._draws[kind].random() < self._rates[kind]
        if not strikes or not self.on or (self.only is not None and kind not in self.only):
            return False
        if self.most is not None and self.injected.total() >= self.most:
            return False
        self.injected[kind] += 1
        return True

    def among(self, kind: Fault) -> random.Random:
        """The generator for details of a kind of fault."""
        return self._draws[kind]
