"""Queue -> one turn: the agent answers a message, and the reply and all that it changes are committed together."""

from __future__ import annotations

import json
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from shared.conversations import answering
from shared.core.keys import Scope
from shared.work import batches


def handler(event: dict[str, Any], context: Any) -> Any:
    """A batch of hints; each is independent of the others."""
    return batches.each_message(event, context, take_turn)


def take_turn(record: SQSRecord) -> None:
    """Answer the message that a hint names, if it is still owed an answer."""
    message = json.loads(record.body)
    scope = Scope(message["project_id"], message["livemode"])
    answering.take_turn(scope, message["conversation_id"], message["message_id"])
