"""Queue -> events of live calls: contact events of Amazon Connect, and its recordings and transcripts in S3."""

from __future__ import annotations

import json
from typing import Any

from shared.calls.live import events
from shared.tasks import batches
from shared.tasks.batches import QueueMessage


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of events. The items are independent."""
    return batches.each_message(event, process)


def process(message: QueueMessage) -> None:
    """Store the data of an event and send a wake-up for its call. Events of unknown calls are ignored."""
    events.store(json.loads(message.body))
