"""Hints: queue messages and timers that start the worker of a row that owes work.

A hint is the key of the row, `{"pk", "sk"}`, for all kinds of rows. It is best effort. The due time in the row is the
truth: `sweep` sends another hint if the work is overdue, so a lost hint only causes a delay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.core import aws, clock, threads
from shared.core.facts import LONGEST_QUEUE_DELAY
from shared.core.log import logger

REQUEST_SECONDS = 1
"""Seconds for which a request of the API waits at most until its hints are sent."""
_BATCH = 10  # the limit of SendMessageBatch


@dataclass(frozen=True)
class Hint:
    """The key of a row that owes work, with the message group of its queue message and the delay in seconds.

    SQS serves message groups in turn, so that no group waits behind all messages of another. Of the hints of a FIFO
    group with the same `once`, it delivers one (in five minutes); None stands for the row.
    """

    pk: str
    sk: str
    group: str
    delay: int = 0
    once: str | None = None

    @property
    def message(self) -> dict[str, str]:
        """The body of the queue message."""
        return {"pk": self.pk, "sk": self.sk}


def delay_until(at: int) -> int:
    """The delay, in whole seconds, of a message for the instant `at`; at most the longest that SQS supports."""
    return min(max(0, round((at - clock.now()) / clock.SECOND)), LONGEST_QUEUE_DELAY)


def send(queue: str, hints: Sequence[Hint]) -> None:
    """Send hints to a queue, in order. Best effort: a failure is logged."""
    url = aws.queue_url(queue) if hints else ""
    for start in range(0, len(hints), _BATCH):
        batch = hints[start : start + _BATCH]
        entries = [_entry(number, hint, url) for number, hint in enumerate(batch)]
        about = {"queue": queue, "rows": [hint.sk for hint in batch]}
        try:
            response = aws.sqs().call("SendMessageBatch", {"QueueUrl": url, "Entries": entries})
        except (aws.AwsError, aws.Unavailable) as error:
            logger().warning("hint lost", extra=about | {"error": type(error).__name__})
            continue
        if response.get("Failed"):
            logger().warning("hint lost", extra=about | {"error": response["Failed"][0]["Code"]})


def send_within(seconds: float, queue: str, hints: Sequence[Hint]) -> None:
    """Send hints like `send`, but wait at most `seconds`, for callers that must not wait for SQS.

    What is not sent by then is sent late or, if Lambda stops the container, never: `sweep` finds the work.
    """
    if hints and not threads.run_within(seconds, lambda: send(queue, hints)):
        logger().warning("hint late", extra={"queue": queue, "rows": [hint.sk for hint in hints]})


def wait(machine: str, name: str, due: int, hint: Hint) -> None:
    """Start a state machine that sends the hint at the instant `due`. Each name starts at most one. Best effort."""
    # A state machine may wait in whole seconds. Rounding up prevents an early hint.
    at = -(-due // clock.SECOND) * clock.SECOND
    execution_input = {"due_at": clock.iso(at), "group": hint.group, "message": json.dumps(hint.message)}
    start(machine, name, execution_input)


def start(machine: str, name: str, execution_input: Mapping[str, Any]) -> None:
    """Start a state machine with this input. Each name starts at most one execution. Best effort."""
    try:
        aws.stepfunctions().call(
            "StartExecution",
            {"stateMachineArn": aws.state_machine_arn(machine), "name": name, "input": json.dumps(execution_input)},
        )
    except (aws.AwsError, aws.Unavailable) as error:
        if not isinstance(error, aws.AwsError) or error.code != "ExecutionAlreadyExists":
            logger().warning("timer lost", extra={"machine": machine, "timer": name, "error": type(error).__name__})


def _entry(number: int, hint: Hint, url: str) -> Any:
    entry: dict[str, Any] = {"Id": str(number), "MessageBody": json.dumps(hint.message), "MessageGroupId": hint.group}
    # Only FIFO queues accept a deduplication id, and only standard queues a delay per message.
    if url.endswith(".fifo"):
        entry["MessageDeduplicationId"] = hint.once or hint.sk
    if hint.delay:
        entry["DelaySeconds"] = hint.delay
    return entry
