"""Queues -> one attempt of a delivery: claim the delivery, send the event, record the attempt, set the next timer."""

from __future__ import annotations

import json
from typing import Any

from shared.core import aws, clock
from shared.webhooks import attempts
from shared.webhooks.lanes import Arrival
from shared.work import batches
from shared.work.batches import Message


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of hints concurrently. The first attempts of an endpoint are in order while they are on time."""
    return batches.each_message(event, deliver)


def deliver(message: Message) -> None:
    """Make the attempt that is due for the delivery of a hint. Does nothing if none is due."""
    hint = json.loads(message.body)
    waited = clock.now() - message.sent_at
    attempts.make(hint["pk"], hint["sk"], Arrival(aws.queue_of(message.queue), waited))
