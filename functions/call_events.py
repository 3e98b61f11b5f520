"""Queue -> what Amazon Connect tells of calls: that something happened, or where a recording or transcript lies.

An event is only a hint: the `dial` worker asks Connect what has become of the call.
"""

from __future__ import annotations

import json
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from shared.calls import live as live_calls
from shared.calls import sessions
from shared.core import aws
from shared.core.keys import Scope
from shared.telephony import amazon_connect, contact_lens
from shared.work import batches, hints


def handler(event: dict[str, Any], context: Any) -> Any:
    """A batch of events; each is independent of the others."""
    return batches.each_message(event, context, take)


def take(record: SQSRecord) -> None:
    """Note what an event says, and wake the worker of the call that it concerns, if it is one of ours."""
    event = json.loads(record.body)
    found = _kept(event["detail"]) if event.get("source") == "aws.s3" else _happened(event)
    if found is not None:
        hints.send("dials", [sessions.hint(*found)])


def _happened(event: Any) -> tuple[Scope, str] | None:
    happened = amazon_connect.contact_event(event)
    found = None if happened is None else live_calls.of_contact(happened.contact_id)
    if found is not None:
        live_calls.wake(*found)
    return found


def _kept(detail: Any) -> tuple[Scope, str] | None:
    bucket, key = detail["bucket"]["name"], detail["object"]["key"]
    named = contact_lens.object_of(key)
    found = None if named is None else live_calls.of_contact(named[1])
    if named is None or found is None:
        return None
    if named[0] == "recording":
        live_calls.wake(*found, {"recording_key": key})
        return found
    content = aws.answered(aws.s3().get_object, Bucket=bucket, Key=key)["Body"].read()
    live_calls.keep_transcript(*found, contact_lens.lines(json.loads(content)))
    return found
