"""Queue -> the steps of requests for consent, and what WhatsApp publishes of customers' answers (contract 7).

Messages are hints of the service and of the `call_consent` state machine, whose first one brings its task token, and
notifications of WhatsApp.
"""

from __future__ import annotations

import json
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from shared.calls import asking
from shared.core.keys import Scope
from shared.telephony import whatsapp
from shared.work import batches


def handler(event: dict[str, Any], context: Any) -> Any:
    """A batch of messages; each is independent of the others."""
    return batches.each_message(event, context, take)


def take(record: SQSRecord) -> None:
    """Take the steps that are due, or store an answer from WhatsApp."""
    message = json.loads(record.body)
    if "whatsAppWebhookEntry" in message:
        for reply in whatsapp.replies(record.body):
            asking.take_reply(reply)
        return
    scope = Scope(message["project_id"], message["livemode"])
    if "task_token" in message:
        asking.keep_task_token(scope, message["consent"], message["task_token"])
    asking.work_off(scope, message["consent"])
