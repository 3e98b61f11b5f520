"""AWS's own sample events, and events that AWS documents where it has no sample.

The samples are those of `sam local generate-event`, in the package that requirements/samples.txt pins. They are
made for: API Gateway's proxy integration, SQS, DynamoDB Streams, a schedule, and a code hook of Lex V2. There is none
for what EventBridge sends of Amazon Connect (the sample "connect" is what a contact flow sends to a function of its
own) and of S3 (the sample "s3" is a notification without EventBridge), nor for what End User Messaging Social
publishes: these follow the examples of their user guides.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import urllib.parse
import uuid
from typing import Any

from tests.deploy.cloud import ROOT

FOLDER = ROOT / ".venv-deploy" / "samples" / "samcli" / "lib" / "generated_sample_events"
ACCOUNT, REGION = "123456789012", "us-east-1"
"""The samples' own."""


def sample(service: str, name: str, **given: str) -> Any:
    """What `sam local generate-event SERVICE NAME --OPTION VALUE …` prints; options that are absent have defaults."""
    assert FOLDER.is_dir(), "AWS's sample events are not installed: `make test-deploy` installs them"
    described = json.loads((FOLDER / "event-mapping.json").read_text())[service][name]
    values: dict[str, Any] = {}
    for option, facts in described["tags"].items():
        tag = option.replace("-", "_")
        text = given.pop(tag, facts["default"])
        values[tag] = json.loads(text) if facts.get("type") == "dict" else _encode(text, facts.get("encoding"))
        for child in facts.get("children", {}):
            values[child] = hashlib.md5(text.encode()).hexdigest()
    assert not given, f"{service} {name} has no option {', '.join(given)}"
    return _fill(json.loads((FOLDER / "events" / service / f"{described['filename']}.json").read_text()), values)


def request(method: str, path: str, key: str | None = None, body: Any = None) -> Any:
    """API Gateway's sample as a request of ours: without the sample's query, with an API key and a JSON body."""
    event = sample(
        "apigateway",
        "aws-proxy",
        method=method,
        path=path.removeprefix("/"),
        body="" if body is None else json.dumps(body),
    )
    event |= {"queryStringParameters": None, "multiValueQueryStringParameters": None}
    added = {"Authorization": f"Bearer {key}"} if key else {}
    added |= {"Content-Type": "application/json"} if body is not None else {}
    event["headers"] |= added
    event["multiValueHeaders"] |= {name: [value] for name, value in added.items()}
    return event


def message(queue: str, body: str, **attributes: str) -> Any:
    """SQS's sample with this message of a queue, by its name in AWS."""
    event = sample("sqs", "receive-message", body=body, queue_name=queue)
    event["Records"][0]["attributes"] |= attributes
    return event


def stream_records(records: list[Any]) -> Any:
    """DynamoDB's sample with these records of a stream, as GetRecords gives them, in the place of its own."""
    event = sample("dynamodb", "update", table="appointments")
    template = event["Records"][0]
    taken = ("Keys", "NewImage", "OldImage", "SequenceNumber", "SizeBytes", "StreamViewType")
    event["Records"] = [
        {
            **template,
            "eventID": record["eventID"],
            "eventName": record["eventName"],
            "dynamodb": {
                "ApproximateCreationDateTime": int(record["dynamodb"]["ApproximateCreationDateTime"].timestamp()),
                **{name: record["dynamodb"][name] for name in taken if name in record["dynamodb"]},
            },
        }
        for record in records
    ]
    return event


def lex_event_saying(said: str, **attributes: str) -> Any:
    """Lex V2's sample in which a customer says this, with the session attributes that our contact flow sets."""
    event = sample("lex-v2", "book-car")
    event["inputTranscript"] = event["transcriptions"][0]["transcription"] = said
    event["sessionState"]["sessionAttributes"] = attributes
    return event


def contact_event(contact_id: str) -> Any:
    """A call has ended. Source: "Amazon Connect contact events" of the administrator guide."""
    instance = f"arn:aws:connect:{REGION}:{ACCOUNT}:instance/{uuid.uuid4()}"
    detail = {
        "eventType": "DISCONNECTED",
        "contactId": contact_id,
        "initialContactId": contact_id,
        "previousContactId": contact_id,
        "channel": "VOICE",
        "instanceArn": instance,
        "initiationMethod": "API",
        "initiationTimestamp": "2026-11-21T10:00:00.000Z",
        "connectedToSystemTimestamp": "2026-11-21T10:00:05.000Z",
        "disconnectTimestamp": "2026-11-21T10:01:00.000Z",
    }
    resources = [instance, f"{instance}/contact/{contact_id}"]
    return _from_event_bridge("aws.connect", "Amazon Connect Contact Event", resources, detail)


def object_created(bucket: str, key: str) -> Any:
    """An object was put. Source: "EventBridge event message structure" of the S3 user guide."""
    detail = {
        "version": "0",
        "bucket": {"name": bucket},
        "object": {"key": key, "size": 5, "etag": "b1946ac92492d2347c6235b4d2611184", "sequencer": "617f08299329d189"},
        "request-id": "N4N7GDK58NMKJ12R",
        "requester": ACCOUNT,
        "source-ip-address": "1.2.3.4",
        "reason": "PutObject",
    }
    return _from_event_bridge("aws.s3", "Object Created", [f"arn:aws:s3:::{bucket}"], detail)


def permission_given(phone: str, at: int) -> Any:
    """A customer accepts to be called, at a Unix second, as an SNS topic with raw delivery passes it on.

    Sources: "Message and event format" of the End User Messaging Social user guide for what surrounds the entry;
    "Obtain user call permissions" of Meta's WhatsApp Business Calling API for the entry.
    """
    said = {
        "from": phone.removeprefix("+"),
        "id": "wamid.HBgLMTQyNTU1NTAxNTAVAgASGCBDNzBD",
        "timestamp": str(at),
        "type": "interactive",
        "interactive": {
            "type": "call_permission_reply",
            "call_permission_reply": {"response": "accept", "is_permanent": True, "response_source": "user_action"},
        },
    }
    value = {
        "messaging_product": "whatsapp",
        "metadata": {"display_phone_number": "12065550100", "phone_number_id": "321010217760100"},
        "contacts": [{"profile": {"name": "Diego"}, "wa_id": said["from"]}],
        "messages": [said],
    }
    arn = f"arn:aws:social-messaging:{REGION}:{ACCOUNT}"
    return {
        "context": {
            "MetaWabaIds": [{"wabaId": "1234567890abcde", "arn": f"{arn}:waba/fb2594b8a7974770b128a409e2example"}],
            "MetaPhoneNumberIds": [
                {
                    "metaPhoneNumberId": "abcde1234567890",
                    "arn": f"{arn}:phone-number-id/976c72a700aac43eaf573ae050example",
                }
            ],
        },
        "whatsAppWebhookEntry": json.dumps(
            {"id": "365731266123456", "changes": [{"value": value, "field": "messages"}]}
        ),
        "aws_account_id": ACCOUNT,
        "message_timestamp": "2026-11-21T10:00:00.271279391Z",
        "messageId": str(uuid.uuid4()),
    }


def _from_event_bridge(source: str, kind: str, resources: list[str], detail: Any) -> Any:
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": kind,
        "source": source,
        "account": ACCOUNT,
        "time": "2026-11-21T10:01:00Z",
        "region": REGION,
        "resources": resources,
        "detail": detail,
    }


def _encode(text: str, encoding: str | None) -> str:
    if encoding == "base64":
        return base64.b64encode(text.encode()).decode()
    return urllib.parse.quote(text) if encoding == "url" else text


def _fill(template: Any, values: dict[str, Any]) -> Any:
    """The template with `{{{tag}}}` replaced in every text; a text that is a tag alone becomes the tag's value."""
    if isinstance(template, dict):
        return {name: _fill(value, values) for name, value in template.items()}
    if isinstance(template, list):
        return [_fill(value, values) for value in template]
    if not isinstance(template, str):
        return template
    if alone := re.fullmatch(r"\{\{\{(\w+)\}\}\}", template):
        return values[alone[1]]
    return re.sub(r"\{\{\{(\w+)\}\}\}", lambda tag: str(values[tag[1]]), template)
