"""Queue -> the next steps of a replay: retries some of an endpoint's failed deliveries, and sends the next hint."""

from __future__ import annotations

import json
from typing import Any

from shared.core import clock
from shared.webhooks import replays
from shared.work import batches, hints, owed
from shared.work.batches import Message


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of hints. The items are independent."""
    return batches.each_message(event, replay)


def replay(message: Message) -> None:
    """Run the steps of a replay that are due, and send the hint for the next one."""
    hint = json.loads(message.body)
    at = owed.run_due_steps(hint["pk"], hint["sk"], replays.LEASE, replays.step)
    if at is not None:
        delay = max(0, -(-(at - clock.now()) // clock.SECOND))
        hints.send(replays.QUEUE, [replays.hint(hint, delay)])
