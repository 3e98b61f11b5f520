"""Queue -> what Amazon Connect tells of calls: that something happened, or where a recording or transcript lies.

An event is only a hint: the `dial` worker asks Connect what has become of the call.
"""

from __future__ import annotations

import json
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from shared import aws, batches, hints, live_calls, sessions
from shared.keys import Scope
from shared.telephony import amazon_connect, contact_lens


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
    return None if happened is None else live_calls.happened(happened.contact_id)


def _kept(detail: Any) -> tuple[Scope, str] | None:
    bucket, key = detail["bucket"]["name"], detail["object"]["key"]
    named = contact_lens.object_of(key)
    if named is None:
        return None
    kind, contact_id = named
    if kind == "recording":
        return live_calls.kept_recording(contact_id, key)
    content = aws.answered(aws.s3().get_object, Bucket=bucket, Key=key)["Body"].read()
    return live_calls.kept_transcript(contact_id, contact_lens.lines(json.loads(content)))
