"""Queue -> one turn: the agent replies to a message, and the reply is committed together with its changes."""

from __future__ import annotations

import json
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from shared.conversations import answering
from shared.work import batches


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of hints. The items are independent."""
    return batches.each_message(event, context, take_turn)


def take_turn(record: SQSRecord) -> None:
    """Reply to the message of a hint, if its reply is still owed."""
    hint = json.loads(record.body)
    answering.take_turn(hint["pk"], hint["sk"])
