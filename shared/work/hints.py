"""Hints: queue messages and timers that say where work is owed.

A hint is best effort. The row's due time is the truth, and `sweep` hints again at what is overdue, so a
lost hint costs time and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shared.core import aws, clock
from shared.core.facts import LONGEST_QUEUE_DELAY
from shared.core.log import logger

_BATCH = 10  # messages a call; what SQS takes


@dataclass(frozen=True)
class Hint:
    """A message: `group` is the endpoint, for order and fairness; `once` deduplicates in a FIFO queue."""

    message: Mapping[str, Any]
    group: str
    once: str | None = None
    delay: int = 0


def delay_until(at: int) -> int:
    """The whole seconds that a message waits which is wanted about `at`, as many as a queue can."""
    return min(max(0, round((at - clock.now()) / clock.SECOND)), LONGEST_QUEUE_DELAY)


def send(queue: str, hints: Sequence[Hint]) -> None:
    """Put hints into a queue, in order."""
    url = aws.queue_url(queue) if hints else ""
    for start in range(0, len(hints), _BATCH):
        entries = [_entry(number, hint, url) for number, hint in enumerate(hints[start : start + _BATCH])]
        try:
            answer = aws.sqs().send_message_batch(QueueUrl=url, Entries=entries)
        except (ClientError, BotoCoreError) as error:
            logger().warning("hint lost", extra={"queue": queue, "error": type(error).__name__})
            continue
        if answer.get("Failed"):
            logger().warning("hint lost", extra={"queue": queue, "error": answer["Failed"][0]["Code"]})


def wait(machine: str, name: str, due: int, hint: Hint) -> None:
    """Start a state machine that sends the hint at `due`, once for each name."""
    # A state machine's clock may count whole seconds: rounded up, no hint is early.
    at = -(-due // clock.SECOND) * clock.SECOND
    given = {"due_at": clock.iso(at), "group": hint.group, "message": json.dumps(hint.message)}
    start(machine, name, given)


def start(machine: str, name: str, given: Mapping[str, Any]) -> None:
    """Start a state machine with this input, once for each name."""
    try:
        aws.stepfunctions().start_execution(
            stateMachineArn=aws.state_machine_arn(machine), name=name, input=json.dumps(given)
        )
    except (ClientError, BotoCoreError) as error:
        if not isinstance(error, ClientError) or error.response["Error"]["Code"] != "ExecutionAlreadyExists":
            logger().warning("timer lost", extra={"machine": machine, "error": type(error).__name__})


def _entry(number: int, hint: Hint, url: str) -> Any:
    entry: dict[str, Any] = {"Id": str(number), "MessageBody": json.dumps(hint.message), "MessageGroupId": hint.group}
    # Only a FIFO queue takes the one, and only a standard queue the other.
    if hint.once and url.endswith(".fifo"):
        entry["MessageDeduplicationId"] = hint.once
    if hint.delay:
        entry["DelaySeconds"] = hint.delay
    return entry
