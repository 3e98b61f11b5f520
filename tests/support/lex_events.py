"""What Lex V2 sends to a bot's function, and what it takes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.validate import validate_parameters

from shared.telephony.lex import LONGEST

SESSION = "sess_01jd3v7k2m9q8r5t6w0x1y2z3a"
ATTRIBUTES = {"session_id": SESSION, "project_id": "7", "livemode": "true", "greeting": "formal"}


def event(text: Any = "  can we move it to Tuesday ", **changes: Any) -> dict[str, Any]:
    """What Lex V2 sends for a call of Amazon Connect, nulls included."""
    intent = {"name": "FallbackIntent", "slots": {}, "state": "ReadyForFulfillment", "confirmationState": "None"}
    sent = {
        "messageVersion": "1.0",
        "invocationSource": "FulfillmentCodeHook",
        "inputMode": "Speech",
        "responseContentType": "audio/pcm",
        "sessionId": "11111111-1111-1111-1111-111111111111",
        "inputTranscript": text,
        "invocationLabel": None,
        "bot": {"id": "BOT", "name": "calls", "localeId": "en_US", "version": "1", "aliasId": "A", "aliasName": "live"},
        "interpretations": [{"intent": intent, "interpretationSource": "Lex", "nluConfidence": None}],
        "proposedNextState": None,
        "requestAttributes": {
            "x-amz-lex:accept-content-types": "PlainText,SSML",
            "x-amz-lex:channels:platform": "Connect",
        },
        "sessionState": {
            "activeContexts": None,
            "sessionAttributes": dict(ATTRIBUTES),
            "runtimeHints": None,
            "dialogAction": None,
            "intent": intent,
            "originatingRequestId": "33b39120-ccaf-4ca4-b5d0-4e4bc1c7b86d",
        },
        "transcriptions": [{"transcription": text, "transcriptionConfidence": 0.92, "resolvedSlots": {}}],
    }
    return copy.deepcopy(sent | changes)


def valid(response: Mapping[str, Any]) -> None:
    """Session state and messages of a response are those of the Lex V2 runtime's own model."""
    client: Any = boto3.client(
        "lexv2-runtime", region_name="eu-central-1", aws_access_key_id="none", aws_secret_access_key="none"
    )
    model = client.meta.service_model
    validate_parameters(response["sessionState"], model.shape_for("SessionState"))
    validate_parameters(response["messages"], model.shape_for("Messages"))
    text = model.shape_for("Text").metadata
    assert all(text["min"] <= len(one["content"]) <= text["max"] == LONGEST for one in response["messages"])
