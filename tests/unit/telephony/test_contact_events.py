from __future__ import annotations

from typing import Any

import pytest

from shared.core import clock
from shared.telephony.amazon_connect import ContactEvent, contact_event

CONTACT = "11111111-1111-1111-1111-111111111111"
INSTANCE = "12345678-1234-1234-1234-123456789012"


def disconnected_event(**changes: Any) -> dict[str, Any]:
    """The sample of the administrator guide: a voice call is disconnected."""
    event = {
        "version": "0",
        "id": "abcabcab-abca-abca-abca-abcabcabcabc",
        "detail-type": "Amazon Connect Contact Event",
        "source": "aws.connect",
        "account": "111122223333",
        "time": "2021-08-04T17:43:48Z",
        "region": "eu-central-1",
        "resources": ["arn:aws:...", "contactArn", "instanceArn"],
        "detail": {
            "eventType": "DISCONNECTED",
            "contactId": CONTACT,
            "initialContactId": "11111111-2222-3333-4444-555555555555",
            "previousContactId": "11111111-2222-3333-4444-555555555555",
            "channel": "Voice",
            "instanceArn": f"arn:aws::connect:eu-central-1:123456789012:instance/{INSTANCE}",
            "initiationMethod": "OUTBOUND",
            "initiationTimestamp": "2021-08-04T17:17:53.000Z",
            "connectedToSystemTimestamp": "2021-08-04T17:17:55.000Z",
            "disconnectTimestamp": "2021-08-04T17:18:37.000Z",
            "tags": {"aws:connect:instanceId": INSTANCE, "Dept": "Finance"},
        },
    }
    return event | changes


def instant(text: str) -> clock.Instant:
    return clock.parse(text)


def test_an_event_tells_contact_type_and_instants() -> None:
    assert contact_event(disconnected_event()) == ContactEvent(
        contact_id=CONTACT,
        event_type="DISCONNECTED",
        by_api=False,
        initiated_at=instant("2021-08-04T17:17:53Z"),
        answered_at=instant("2021-08-04T17:17:55Z"),
        ended_at=instant("2021-08-04T17:18:37Z"),
    )


def test_the_other_detail_type_is_taken_as_well() -> None:
    assert contact_event(disconnected_event(**{"detail-type": "Contact Event"})) == contact_event(disconnected_event())


def test_names_may_begin_with_a_capital() -> None:
    detail = {"ContactId": CONTACT, "Channel": "VOICE", "InitiationMethod": "API", "EventType": "CONNECTED_TO_SYSTEM"}
    happened = contact_event(disconnected_event(detail=detail))
    assert happened == ContactEvent(CONTACT, "CONNECTED_TO_SYSTEM", True, None, None, None)


@pytest.mark.parametrize("unset", ["1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00Z", "", "soon", None, 0, []])
def test_an_instant_that_is_unset_or_malformed_is_none(unset: object) -> None:
    detail = disconnected_event()["detail"] | {"connectedToSystemTimestamp": unset, "eventType": "CONTACT_DATA_UPDATED"}
    happened = contact_event(disconnected_event(detail=detail))
    assert happened is not None
    assert (happened.event_type, happened.answered_at) == ("CONTACT_DATA_UPDATED", None)


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        "event",
        {},
        disconnected_event(source="aws.s3"),
        disconnected_event(**{"detail-type": "Contact Lens Analysis State Change"}),
        disconnected_event(**{"detail-type": ["Contact Event"]}),
        disconnected_event(detail=None),
        disconnected_event(detail=[]),
        disconnected_event(detail={}),
        disconnected_event(detail={"contactId": CONTACT}),
        disconnected_event(detail={"contactId": CONTACT, "eventType": ""}),
        disconnected_event(detail={"contactId": CONTACT, "eventType": {}}),
        disconnected_event(detail={"contactId": "", "eventType": "INITIATED"}),
        disconnected_event(detail={"contactId": 7, "eventType": "INITIATED"}),
    ],
)
def test_other_events_and_malformed_ones_are_none(event: Any) -> None:
    assert contact_event(event) is None


@pytest.mark.parametrize(
    ("detail", "by_api"),
    [
        ({"initiationMethod": "API", "channel": "Voice"}, True),
        ({"initiationMethod": "API", "channel": "VOICE"}, True),
        ({"initiationMethod": "API", "channel": "CHAT"}, False),
        ({"initiationMethod": "INBOUND", "channel": "VOICE"}, False),
        ({"channel": "VOICE"}, False),
        ({"initiationMethod": "API"}, False),
    ],
)
def test_a_call_that_a_request_started_is_told_from_others(detail: dict[str, Any], by_api: bool) -> None:
    event = contact_event(disconnected_event(detail={"contactId": CONTACT, "eventType": "INITIATED", **detail}))
    assert event is not None
    assert event.by_api is by_api
