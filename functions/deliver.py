"""Queues -> one attempt of a delivery for each wake-up."""

from __future__ import annotations

from typing import Any

from shared.tasks import batches
from shared.webhooks import attempts


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of wake-ups concurrently. First attempts to an endpoint are in order while they are on time."""
    return batches.each_message(event, attempts.make)
