"""Queue -> the next steps of a replay: retries some of an endpoint's failed deliveries, and sends the next wake-up."""

from __future__ import annotations

from typing import Any

from shared.tasks import batches, tasks, wake_ups
from shared.tasks.batches import QueueMessage
from shared.webhooks import replays


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of wake-ups. The items are independent."""
    return batches.each_message(event, replay)


def replay(message: QueueMessage) -> None:
    """Run the steps of a replay that are due, and send the wake-up for the next one."""
    pk, sk = message.task
    at = tasks.run_due_steps(pk, sk, replays.LEASE_MS, replays.step)
    if at is not None:
        wake_ups.send([wake_ups.new(replays.QUEUE, pk, sk, at)])
