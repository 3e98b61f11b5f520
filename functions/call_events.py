"""Queue -> events of live calls: contact events of Amazon Connect, and its recordings and transcripts in S3.

A contact event is only a wake-up: the steps of the call read its state from Connect. The keys of
recordings and transcripts are stored first.
"""

from __future__ import annotations

import json
from typing import Any

from shared.aws import services
from shared.calls import sessions
from shared.calls.live import contacts
from shared.store.keys import Scope
from shared.tasks import batches, wake_ups
from shared.tasks.batches import QueueMessage
from shared.telephony import amazon_connect, contact_lens


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of events. The items are independent."""
    return batches.each_message(event, process)


def process(message: QueueMessage) -> None:
    """Store the data of an event and send a wake-up for its call. Events of unknown calls are ignored."""
    event = json.loads(message.body)
    call = _object_created(event["detail"]) if event.get("source") == "aws.s3" else _contact_changed(event)
    if call is not None:
        wake_ups.send([sessions.wake_up(*call)])


def _contact_changed(event: Any) -> tuple[Scope, str] | None:
    contact = amazon_connect.contact_event(event)
    if contact is None:
        return None
    call = contacts.find(contact.contact_id)
    if call is not None:
        contacts.make_step_due(*call)
    elif contact.by_api and contact.event_type in amazon_connect.BEGINNINGS:
        call = contacts.adopt(contact.contact_id)
    return call


def _object_created(detail: Any) -> tuple[Scope, str] | None:
    bucket, key = detail["bucket"]["name"], detail["object"]["key"]
    file = contact_lens.file_of(key)
    if file is None:
        return None
    call = contacts.find(file.contact_id)
    if call is None:
        return None
    if file.kind == "recording":
        contacts.keep_recording(*call, key, redacted=file.redacted)
    else:
        content = services.call(services.s3().get_object, Bucket=bucket, Key=key)["Body"].read()
        lines = contact_lens.lines(json.loads(content))
        contacts.keep_transcript(*call, lines, redacted=file.redacted)
    return call
