"""Queue -> the steps of calls that are due: dial, track the call to its end, publish its transcript and recording."""

from __future__ import annotations

import json
from typing import Any

from shared.calls import steps
from shared.tasks import batches
from shared.tasks.batches import Message


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of wake-ups. The items are independent."""
    return batches.each_message(event, dial)


def dial(message: Message) -> None:
    """Run the steps of a session that are due."""
    wake_up = json.loads(message.body)
    steps.run_due_steps(wake_up["pk"], wake_up["sk"])
