"""Queue -> the steps of calls that are due: dial, track the call to its end, publish its transcript and recording."""

from __future__ import annotations

import json
from typing import Any

from shared.calls import steps
from shared.work import batches
from shared.work.batches import Message


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of hints. The items are independent."""
    return batches.each_message(event, dial)


def dial(message: Message) -> None:
    """Run the steps of a session that are due."""
    hint = json.loads(message.body)
    steps.run_due_steps(hint["pk"], hint["sk"])
