"""Queue -> one turn: the agent replies to a message, and the reply is committed together with its changes.

The request that sends a message claims its turn first (`shared/conversations/reply_window.py`). This worker claims the
turns that no request has finished.
"""

from __future__ import annotations

from typing import Any

from shared.conversations import replies, turns
from shared.core import clock
from shared.tasks import batches, wake_ups
from shared.tasks.batches import QueueMessage

RETRY_S = 5
"""Seconds before a turn is retried after the agent or the table was unavailable."""


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of wake-ups. The items are independent."""
    return batches.each_message(event, take_turn)


def take_turn(message: QueueMessage) -> None:
    """Reply to the message of a wake-up, if its reply is still pending and nobody else has claimed it."""
    turn = turns.claim(*message.task)
    if turn is None:
        return
    try:
        replies.run_turn(turn)
    except replies.RETRYABLE:
        # Fail, so that SQS delivers the message again and moves it to the dead-letter queue in the end.
        if turn.is_too_old:
            raise
        wake_ups.send([wake_ups.new("turns", *message.task, clock.now() + RETRY_S * clock.SECOND)])
