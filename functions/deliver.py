"""Queues -> one attempt of a delivery: claim the delivery, send the event, record the attempt, set the next timer."""

from __future__ import annotations

import json
from typing import Any

from shared.aws import services
from shared.core import clock
from shared.tasks import batches
from shared.tasks.batches import QueueMessage
from shared.webhooks import attempts
from shared.webhooks.queues import Arrival


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of wake-ups concurrently. First attempts to an endpoint are in order while they are on time."""
    return batches.each_message(event, deliver)


def deliver(message: QueueMessage) -> None:
    """Make the attempt that is due for the delivery of a wake-up. Does nothing if none is due."""
    wake_up = json.loads(message.body)
    waited = clock.now() - message.sent_at
    attempts.make(wake_up["pk"], wake_up["sk"], Arrival(services.queue_of(message.queue), waited))
