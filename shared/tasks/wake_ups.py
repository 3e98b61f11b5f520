"""Wake-ups: queue messages and timers that start the worker of a task.

A wake-up is the key of the row, `{"pk", "sk"}`, for all kinds of rows. It is best effort. The due time in the row is
the truth: `sweep` sends another wake-up if the work is overdue, so a lost wake-up only causes a delay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from shared.aws import services
from shared.aws.error_codes import ErrorCode
from shared.core import clock, settings, threads
from shared.core.limits import LONGEST_QUEUE_DELAY_S
from shared.core.log import logger
from shared.store.keys import scope_of

Queue = Literal[
    "deliveries",
    "retries",
    "slow_deliveries",
    "hanging_deliveries",
    "manual_deliveries",
    "replays",
    "turns",
    "dials",
    "consents",
]
"""The queues of wake-ups, by their names in `infra/topology.py`."""
REQUEST_S = 1
"""Seconds for which a request of the API waits at most until its wake-ups are sent."""
_BATCH = 10  # the limit of SendMessageBatch


@dataclass(frozen=True)
class WakeUp:
    """The key of a task's row, with the queue, the message group and the delay of its message.

    SQS serves message groups in turn, so that no group waits behind all messages of another. Of the wake-ups of a FIFO
    group with the same `once`, it delivers one (in five minutes); None stands for the row.
    """

    queue: Queue
    pk: str
    sk: str
    group: str
    delay_s: int = 0
    once: str | None = None

    @property
    def message(self) -> dict[str, str]:
        """The body of the queue message."""
        return {"pk": self.pk, "sk": self.sk}


def new(queue: Queue, pk: str, sk: str, at: clock.Instant | None = None) -> WakeUp:
    """The wake-up of a row, now or at about the instant `at`, in the message group of its project and mode."""
    return WakeUp(queue, pk, sk, group=scope_of(pk).pk(queue), delay_s=delay_s(at))


def delay_s(at: clock.Instant | None) -> int:
    """The delay, in whole seconds, of a message for the instant `at` (None: now); at most the longest of SQS."""
    if at is None:
        return 0
    return min(max(0, round((at - clock.now()) / clock.SECOND)), LONGEST_QUEUE_DELAY_S)


def send(wake_ups: Sequence[WakeUp]) -> None:
    """Send wake-ups, those of each queue in order. Best effort: a failure is logged."""
    for queue in dict.fromkeys(wake_up.queue for wake_up in wake_ups):
        _send(queue, [wake_up for wake_up in wake_ups if wake_up.queue == queue])


def _send(queue: Queue, wake_ups: Sequence[WakeUp]) -> None:
    url = settings.queue_url(queue)
    for start in range(0, len(wake_ups), _BATCH):
        batch = wake_ups[start : start + _BATCH]
        entries = [_entry(number, wake_up, url) for number, wake_up in enumerate(batch)]
        if problem := services.call_sqs_batch("SendMessageBatch", url, entries):
            rows = [wake_up.sk for wake_up in batch]
            logger().warning("wake-up lost", extra={"queue": queue, "rows": rows, "error": problem})


def send_within(seconds: float, wake_ups: Sequence[WakeUp]) -> None:
    """Send wake-ups of one queue like `send`, but wait at most `seconds`, for callers that must not wait for SQS.

    What is not sent by then is sent late or, if Lambda stops the container, never: `sweep` finds the work.
    """
    if wake_ups and not threads.run_within(seconds, lambda: send(wake_ups)):
        logger().warning(
            "wake-up late", extra={"queue": wake_ups[0].queue, "rows": [wake_up.sk for wake_up in wake_ups]}
        )


def send_at(machine: str, name: str, due_at: clock.Instant, wake_up: WakeUp) -> None:
    """Start a state machine that sends the wake-up at the instant `due_at`. One for each name at most. Best effort."""
    # A state machine may wait in whole seconds. Rounding up prevents an early wake-up.
    at = due_at + -due_at % clock.SECOND
    execution_input = {"due_at": clock.iso(at), "group": wake_up.group, "message": json.dumps(wake_up.message)}
    start_state_machine(machine, name, execution_input)


def start_state_machine(machine: str, name: str, execution_input: Mapping[str, Any]) -> None:
    """Start a state machine with this input. Each name starts at most one execution. Best effort."""
    try:
        services.stepfunctions().call(
            "StartExecution",
            {
                "stateMachineArn": settings.state_machine_arn(machine),
                "name": name,
                "input": json.dumps(execution_input),
            },
        )
    except (services.AwsError, services.Unavailable) as error:
        if not isinstance(error, services.AwsError) or error.code != ErrorCode.EXECUTION_EXISTS:
            logger().warning("timer lost", extra={"machine": machine, "timer": name, "error": type(error).__name__})


def _entry(number: int, wake_up: WakeUp, url: str) -> Any:
    entry: dict[str, Any] = {
        "Id": str(number),
        "MessageBody": json.dumps(wake_up.message),
        "MessageGroupId": wake_up.group,
    }
    # Only FIFO queues accept a deduplication id, and only standard queues a delay per message.
    if url.endswith(".fifo"):
        entry["MessageDeduplicationId"] = wake_up.once or wake_up.sk
    if wake_up.delay_s:
        entry["DelaySeconds"] = wake_up.delay_s
    return entry
