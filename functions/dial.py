"""Queue -> the steps of calls that are due: dial, track the call to its end, publish its transcript and recording."""

from __future__ import annotations

import json
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from shared.calls import steps
from shared.work import batches


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of hints. The items are independent."""
    return batches.each_message(event, dial)


def dial(record: SQSRecord) -> None:
    """Run the steps of a session that are due."""
    hint = json.loads(record.body)
    steps.run_due_steps(hint["pk"], hint["sk"])
