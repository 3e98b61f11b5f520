"""Queue -> the steps of consent requests, and what WhatsApp reports of them (promises 7).

The messages are wake-ups of the service, wake-ups of the `call_consent` state machine (the first has its task token),
and notifications of WhatsApp.
"""

from __future__ import annotations

import json
from typing import Any

from shared.calls.consent import consent_requests
from shared.tasks import batches
from shared.tasks.batches import QueueMessage
from shared.telephony import whatsapp


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of messages. The items are independent."""
    return batches.each_message(event, process)


def process(received: QueueMessage) -> None:
    """Run the steps of a consent request that are due, or store a customer's reply or a failure from WhatsApp."""
    message = json.loads(received.body)
    if "whatsAppWebhookEntry" in message:
        for reply in whatsapp.replies(received.body):
            consent_requests.store_reply(reply)
        for failure in whatsapp.failures(received.body):
            consent_requests.end_undelivered(failure)
        return
    if "task_token" in message:
        consent_requests.keep_task_token(message["pk"], message["task_token"])
    consent_requests.run_due_steps(message["pk"])
