from __future__ import annotations

import json
from typing import Any

import pytest

from shared.telephony.whatsapp import UndeliveredRequest, failures, replies

DIGITS = "15005550006"
REFERENCE = "P#7#live#consent#0123456789abcdef0123456789abcdef 2"
UNDELIVERABLE = {
    "id": "wamid.HBgLMTUwMDU1NTAwMDYVAgARGBI5",
    "status": "failed",
    "timestamp": "1790000000",
    "recipient_id": DIGITS,
    "biz_opaque_callback_data": REFERENCE,
    "errors": [
        {
            "code": 131026,
            "title": "Message undeliverable",
            "message": "Message undeliverable",
            "error_data": {"details": f"Message undeliverable to {DIGITS}."},
            "href": "https://developers.facebook.com/docs/whatsapp/cloud-api/support/error-codes/",
        }
    ],
}


def statuses(*items: Any) -> str:
    """What End User Messaging Social publishes of Meta's statuses."""
    changes = [{"field": "messages", "value": {"messaging_product": "whatsapp", "statuses": list(items)}}]
    return json.dumps(
        {"context": {}, "whatsAppWebhookEntry": json.dumps({"id": "365731266123456", "changes": changes})}
    )


def test_a_request_that_was_not_delivered_is_a_failure_with_its_reference() -> None:
    assert failures(statuses(UNDELIVERABLE)) == [UndeliveredRequest(REFERENCE, 131026)]
    assert replies(statuses(UNDELIVERABLE)) == []


@pytest.mark.parametrize("status", ["sent", "delivered", "read", "warning", "deleted", None])
def test_other_statuses_are_no_failures(status: Any) -> None:
    assert failures(statuses(UNDELIVERABLE | {"status": status})) == []


@pytest.mark.parametrize("reference", [None, "", 7, ["x"], "x" * 513])
def test_a_failure_of_another_message_is_left_out_and_hides_no_other(reference: Any) -> None:
    other = UNDELIVERABLE | {"biz_opaque_callback_data": reference}
    assert failures(statuses(None, other, UNDELIVERABLE)) == [UndeliveredRequest(REFERENCE, 131026)]


@pytest.mark.parametrize("errors", [None, [], [None], [{"code": "131026"}], {}])
def test_a_failure_without_a_code_is_one_all_the_same(errors: Any) -> None:
    assert failures(statuses(UNDELIVERABLE | {"errors": errors})) == [UndeliveredRequest(REFERENCE, 0)]


@pytest.mark.parametrize("text", ["", "{}", '{"whatsAppWebhookEntry": "{"}', statuses(UNDELIVERABLE)[:-1]])
def test_what_cannot_be_read_is_an_error_that_quotes_nothing(text: str) -> None:
    with pytest.raises(ValueError, match=r"^the notification ") as raised:
        failures(text)
    assert DIGITS not in str(raised.value)
