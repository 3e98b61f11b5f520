from __future__ import annotations

import base64
import json
import random
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError
from botocore.stub import Stubber

from shared.core import clock
from shared.telephony import Busy, NotConfigured
from shared.telephony.whatsapp import META_API_VERSION, CannotAsk, PermissionReply, WhatsApp, replies

PHONE, DIGITS = "+15005550006", "15005550006"
PHONE_NUMBER_ID = "phone-number-id-976c72a700aac43eaf573ae050example"
BUSINESS = "“Blue” Clinic"
AT, UNTIL = clock.UnixSeconds(1_790_000_000), clock.UnixSeconds(1_790_604_000)
REQUEST, ANSWER = "wamid.HBgLMTUwMDU1NTAwMDYVAgARGBI5", "wamid.HBgLMTUwMDU1NTAwMDYVAgASGBQz"


@pytest.fixture
def client() -> Any:
    return boto3.client(
        "socialmessaging",
        region_name="eu-central-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=Config(retries={"mode": "standard", "total_max_attempts": 1}),
    )


@pytest.fixture
def stubber(client: Any) -> Iterator[Stubber]:
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


class SameJson:
    """Equal to bytes that are this as JSON."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, bytes) and bool(json.loads(other) == self.value)

    __hash__ = None  # type: ignore[assignment]


def expected_request(
    message: Any, phone_number_id: str = PHONE_NUMBER_ID, version: str = META_API_VERSION
) -> dict[str, Any]:
    return {
        "originationPhoneNumberId": phone_number_id,
        "metaApiVersion": version,
        "message": SameJson(message),
    }


REFERENCE = "P#7#live#consent#0123456789abcdef0123456789abcdef 2"
FREE_FORM = {
    "messaging_product": "whatsapp",
    "recipient_type": "individual",
    "to": PHONE,
    "biz_opaque_callback_data": REFERENCE,
    "type": "interactive",
    "interactive": {
        "type": "call_permission_request",
        "action": {"name": "call_permission_request"},
        "body": {"text": "May “Blue” Clinic call you on WhatsApp?"},
    },
}
FROM_TEMPLATE = {
    "messaging_product": "whatsapp",
    "recipient_type": "individual",
    "to": PHONE,
    "biz_opaque_callback_data": REFERENCE,
    "type": "template",
    "template": {"name": "call_permission", "language": {"code": "en_US"}},
}


# Settings


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("WHATSAPP_PHONE_NUMBER_ID", "WHATSAPP_TEMPLATE", "WHATSAPP_META_API_VERSION", "WHATSAPP_DIAL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    return monkeypatch


def test_the_phone_number_is_the_one_setting_that_must_be_there(settings: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotConfigured, match=r"`phone_number_id`.*`whatsapp` settings in cdk\.json"):
        WhatsApp.from_environment()
    settings.setenv("WHATSAPP_PHONE_NUMBER_ID", PHONE_NUMBER_ID)
    settings.setenv("WHATSAPP_TEMPLATE", "")
    settings.setenv("WHATSAPP_META_API_VERSION", "")
    found = WhatsApp.from_environment()
    assert (found.phone_number_id, found.template, found.meta_api_version) == (PHONE_NUMBER_ID, None, META_API_VERSION)


def test_all_settings_are_read(settings: pytest.MonkeyPatch) -> None:
    settings.setenv("WHATSAPP_PHONE_NUMBER_ID", PHONE_NUMBER_ID)
    settings.setenv("WHATSAPP_TEMPLATE", "call_permission/en_US")
    settings.setenv("WHATSAPP_META_API_VERSION", "v26.0")
    found = WhatsApp.from_environment()
    assert (found.template, found.meta_api_version) == (("call_permission", "en_US"), "v26.0")
    assert not found.by_phone
    settings.setenv("WHATSAPP_DIAL", "phone")
    assert WhatsApp.from_environment().by_phone
    settings.delenv("WHATSAPP_TEMPLATE")
    with pytest.raises(NotConfigured, match=r"`dial`.*`whatsapp` settings in cdk\.json"):
        WhatsApp.from_environment()


@pytest.mark.parametrize("setting", ["call_permission", "call_permission/", "/en_US", "/"])
def test_half_a_template_is_named(settings: pytest.MonkeyPatch, setting: str) -> None:
    settings.setenv("WHATSAPP_PHONE_NUMBER_ID", PHONE_NUMBER_ID)
    settings.setenv("WHATSAPP_TEMPLATE", setting)
    with pytest.raises(NotConfigured, match=r"`template`.*`whatsapp` settings in cdk\.json"):
        WhatsApp.from_environment()


# Requests for consent


def test_a_request_is_asked_in_free_form(client: Any, stubber: Stubber) -> None:
    stubber.add_response("send_whatsapp_message", {"messageId": REQUEST}, expected_request(FREE_FORM))
    assert WhatsApp(client, PHONE_NUMBER_ID).ask(PHONE, BUSINESS, REFERENCE) == REQUEST


def test_a_request_is_asked_by_the_template_where_there_is_one(client: Any, stubber: Stubber) -> None:
    arn = "arn:aws:social-messaging:eu-central-1:123456789012:phone-number-id/976c72a700aac43eaf573ae050example"
    stubber.add_response("send_whatsapp_message", {"messageId": REQUEST}, expected_request(FROM_TEMPLATE, arn, "v26.0"))
    assert WhatsApp(client, arn, ("call_permission", "en_US"), "v26.0").ask(PHONE, BUSINESS, REFERENCE) == REQUEST


def test_a_request_to_call_by_phone_names_the_business_and_has_two_buttons(client: Any, stubber: Stubber) -> None:
    def button(index: str, payload: str) -> dict[str, Any]:
        parameters = [{"type": "payload", "payload": payload}]
        return {"type": "button", "sub_type": "quick_reply", "index": index, "parameters": parameters}

    components = [
        {"type": "body", "parameters": [{"type": "text", "text": BUSINESS}]},
        button("0", "phone_call_accepted"),
        button("1", "phone_call_refused"),
    ]
    template = {"name": "phone_call", "language": {"code": "en_US"}, "components": components}
    stubber.add_response(
        "send_whatsapp_message", {"messageId": REQUEST}, expected_request(FROM_TEMPLATE | {"template": template})
    )
    by_phone = WhatsApp(client, PHONE_NUMBER_ID, ("phone_call", "en_US"), by_phone=True)
    assert by_phone.ask(PHONE, BUSINESS, REFERENCE) == REQUEST
    # Meta would be asked for a permission to call on WhatsApp.
    assert by_phone.is_permitted(PHONE) is False


@pytest.mark.parametrize(
    ("permission", "may"),
    [
        ({"status": "permanent"}, True),
        ({"status": "temporary", "expirationTime": UNTIL}, True),
        ({"status": "no_permission"}, False),
        ({"status": "something new"}, False),
    ],
)
def test_meta_is_asked_whether_a_phone_may_be_called(
    client: Any, stubber: Stubber, permission: dict[str, Any], may: bool
) -> None:
    asked = {"originationPhoneNumberId": PHONE_NUMBER_ID, "destinationPhoneNumber": PHONE}
    stubber.add_response("get_whatsapp_call_permission", {"permission": permission, "actions": []}, asked)
    assert WhatsApp(client, PHONE_NUMBER_ID).is_permitted(PHONE) is may


ASKED: list[tuple[str, Callable[[WhatsApp], object]]] = [
    ("send_whatsapp_message", lambda whatsapp: whatsapp.ask(PHONE, BUSINESS, REFERENCE)),
    ("get_whatsapp_call_permission", lambda whatsapp: whatsapp.is_permitted(PHONE)),
]
PASSING = [
    ("ThrottledRequestException", 429),
    ("TooManyRequestsException", 429),
    ("ThrottlingException", 400),
    ("InternalServiceException", 500),
    ("DependencyException", 502),
    ("ServiceUnavailable", 503),
    ("504", 504),
]
FINAL = [
    ("ValidationException", 400),
    ("InvalidParametersException", 400),
    ("AccessDeniedException", 403),
    ("AccessDeniedByMetaException", 403),
    ("ResourceNotFoundException", 404),
]


@pytest.mark.parametrize(("operation", "ask"), ASKED)
@pytest.mark.parametrize(("code", "status"), PASSING)
def test_trouble_that_passes_is_busy(
    client: Any, stubber: Stubber, operation: str, ask: Callable[[WhatsApp], object], code: str, status: int
) -> None:
    stubber.add_client_error(operation, code, f"not now for {PHONE}", http_status_code=status)
    with pytest.raises(Busy) as raised:
        ask(WhatsApp(client, PHONE_NUMBER_ID))
    assert str(raised.value) == code
    assert DIGITS not in traceback_of(raised.value)


@pytest.mark.parametrize(("operation", "ask"), ASKED)
@pytest.mark.parametrize(("code", "status"), FINAL)
def test_a_refusal_is_final_and_quotes_no_phone(
    client: Any, stubber: Stubber, operation: str, ask: Callable[[WhatsApp], object], code: str, status: int
) -> None:
    stubber.add_client_error(operation, code, f"no messages to {PHONE}", http_status_code=status)
    with pytest.raises(CannotAsk) as raised:
        ask(WhatsApp(client, PHONE_NUMBER_ID))
    assert str(raised.value) == code
    assert DIGITS not in traceback_of(raised.value)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (ReadTimeoutError(endpoint_url="https://example.com"), Busy),
        (ConnectTimeoutError(endpoint_url="https://example.com"), Busy),
        (EndpointConnectionError(endpoint_url="https://example.com"), Busy),
        (NoCredentialsError(), CannotAsk),
    ],
)
def test_silence_is_busy_and_a_request_that_cannot_be_made_is_not(
    client: Any, failure: Exception, kind: type[Exception]
) -> None:
    tries = []

    def fail(**_: Any) -> None:
        tries.append(1)
        raise failure

    client.meta.events.register("before-send.socialmessaging", fail)
    with pytest.raises(kind, match=f"^{type(failure).__name__}$"):
        WhatsApp(client, PHONE_NUMBER_ID).ask(PHONE, BUSINESS, REFERENCE)
    assert len(tries) == 1


def test_the_clients_own_settings_send_once_and_reach_aws_with_the_message_in_base64(
    settings: pytest.MonkeyPatch,
) -> None:
    settings.setenv("WHATSAPP_PHONE_NUMBER_ID", PHONE_NUMBER_ID)
    settings.setenv("AWS_ACCESS_KEY_ID", "none")
    settings.setenv("AWS_SECRET_ACCESS_KEY", "none")
    whatsapp, requests = WhatsApp.from_environment(), list[Any]()

    def fail(request: Any, **_: Any) -> AWSResponse:
        requests.append(request)
        return response(500, b'{"__type": "InternalServiceException"}')

    whatsapp.client.meta.events.register("before-send.socialmessaging", fail)
    with pytest.raises(Busy):
        whatsapp.ask(PHONE, BUSINESS, REFERENCE)
    [request] = requests
    assert request.url.endswith("/v1/whatsapp/send")
    assert json.loads(base64.b64decode(json.loads(request.body)["message"])) == FREE_FORM


def response(status: int, body: bytes) -> AWSResponse:
    class Raw:
        def stream(self) -> Iterator[bytes]:
            yield body

    return AWSResponse("https://example.com", status, HTTPHeaders(), Raw())


def traceback_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


# Answers


def permission(response: str = "accept", **more: Any) -> dict[str, Any]:
    return {"response": response, "response_source": "user_action", **more}


def message(given: Any, **more: Any) -> dict[str, Any]:
    return {
        "from": DIGITS,
        "id": ANSWER,
        "timestamp": str(AT),
        "context": {"from": "15005550100", "id": REQUEST},
        "type": "interactive",
        "interactive": {"type": "call_permission_reply", "call_permission_reply": given},
        **more,
    }


def change(*messages: Any, field: str = "messages", **more: Any) -> dict[str, Any]:
    value = {
        "messaging_product": "whatsapp",
        "metadata": {"display_phone_number": "15005550100", "phone_number_id": "321010217760100"},
        "contacts": [{"profile": {"name": "Ada"}, "wa_id": DIGITS}],
        "messages": list(messages),
    }
    return {"value": value | more, "field": field}


def entry(*changes: Any) -> dict[str, Any]:
    return {"id": "365731266123456", "changes": list(changes)}


def published_message(decoded: Any) -> str:
    """What End User Messaging Social publishes of an entry."""
    arn = "arn:aws:social-messaging:eu-central-1:123456789012"
    return json.dumps(
        {
            "context": {
                "MetaWabaIds": [{"wabaId": "365731266123456", "arn": f"{arn}:waba/fb2594b8a7974770b128a409e2example"}],
                "MetaPhoneNumberIds": [
                    {
                        "metaPhoneNumberId": "321010217760100",
                        "arn": f"{arn}:phone-number-id/976c72a700aac43eaf573ae050example",
                    }
                ],
            },
            "whatsAppWebhookEntry": json.dumps(decoded),
            "aws_account_id": "123456789012",
            "message_timestamp": "2026-09-21T14:13:21.271279391Z",
            "messageId": "6d69f07a-c317-4278-9d5c-6a84078419ec",
        }
    )


def replies_to(*messages: Any) -> list[PermissionReply]:
    return replies(published_message(entry(change(*messages))))


GRANTED = message(permission(is_permanent=False, expiration_timestamp=str(UNTIL)))
REPLY = PermissionReply(PHONE, True, clock.of_unix(AT), clock.of_unix(UNTIL), ANSWER, REQUEST)


def test_a_permission_with_an_end_is_read() -> None:
    assert replies_to(GRANTED) == [REPLY]


def button_reply(payload: Any) -> dict[str, Any]:
    """A tap on a quick reply button of a template."""
    button = {"payload": payload, "text": "Yes, phone me"}
    return {name: value for name, value in message({}).items() if name != "interactive"} | {
        "type": "button",
        "button": button,
    }


def test_a_tap_on_a_button_decides_about_calls_by_phone() -> None:
    assert replies_to(button_reply("phone_call_accepted")) == [
        PermissionReply(PHONE, True, clock.of_unix(AT), None, ANSWER, REQUEST)
    ]
    assert replies_to(button_reply("phone_call_refused")) == [
        PermissionReply(PHONE, False, clock.of_unix(AT), None, ANSWER, REQUEST)
    ]


@pytest.mark.parametrize("payload", ["Yes", "accept", "", None, 1, ["phone_call_accepted"]])
def test_a_tap_on_another_button_decides_nothing(payload: Any) -> None:
    assert replies_to(button_reply(payload)) == []


def test_a_permanent_permission_has_no_end() -> None:
    [reply] = replies_to(message(permission(is_permanent=True)))
    assert (reply.accepted, reply.until) == (True, None)
    [reply] = replies_to(message(permission(is_permanent=True, expiration_timestamp=0)))
    assert (reply.accepted, reply.until) == (True, None)


@pytest.mark.parametrize("more", [{}, {"is_permanent": False}, {"expiration_timestamp": str(UNTIL)}])
def test_a_refusal_is_read_and_has_no_end(more: dict[str, Any]) -> None:
    [reply] = replies_to(message(permission("reject", **more)))
    assert reply == PermissionReply(PHONE, False, clock.of_unix(AT), None, ANSWER, REQUEST)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"is_permanent": False},
        {"is_permanent": None},
        {"is_permanent": "true"},
        {"is_permanent": 1},
        {"expiration_timestamp": None},
        {"expiration_timestamp": 0},
        {"expiration_timestamp": -5},
        {"expiration_timestamp": True},
        {"expiration_timestamp": 1.5},
        {"expiration_timestamp": "soon"},
        {"expiration_timestamp": ""},
        {"expiration_timestamp": clock.of_unix(UNTIL)},
        {"expiration_timestamp": [UNTIL]},
    ],
)
def test_a_permission_that_names_no_end_and_is_not_plainly_permanent_lasts_seven_days(more: dict[str, Any]) -> None:
    [reply] = replies_to(message(permission(**more)))
    assert reply.until == clock.of_unix(AT) + 7 * 24 * 3600 * 1000


def test_seven_days_do_not_leave_the_calendar() -> None:
    [reply] = replies_to(message(permission(), timestamp=str(clock.LAST // 1000)))
    assert reply.until == clock.LAST


@pytest.mark.parametrize("end", [UNTIL, str(UNTIL)])
def test_times_are_numbers_or_their_text(end: int | str) -> None:
    assert replies_to(message(permission(expiration_timestamp=end), timestamp=AT)) == [REPLY]


def test_a_phone_may_have_its_plus() -> None:
    assert replies_to(GRANTED | {"from": PHONE}) == [REPLY]


@pytest.mark.parametrize("context", [None, {}, {"id": None}, {"id": 5}, {"id": ""}, {"id": "ä"}, "wamid", [REQUEST]])
def test_a_decision_needs_no_request(context: Any) -> None:
    [reply] = replies_to(GRANTED | {"context": context})
    assert reply.context_id is None
    [reply] = replies_to({name: value for name, value in GRANTED.items() if name != "context"})
    assert reply.context_id is None


def test_metas_own_sample_names_no_type_of_the_message() -> None:
    assert replies_to({name: value for name, value in GRANTED.items() if name != "type"}) == [REPLY]


def test_the_phone_is_not_shown() -> None:
    assert DIGITS not in repr(replies_to(GRANTED))


def test_several_decisions_keep_their_order_among_what_else_is_told() -> None:
    text = {"from": DIGITS, "id": "wamid.A", "timestamp": str(AT), "type": "text", "text": {"body": "Hi"}}
    button = GRANTED | {"interactive": {"type": "button_reply", "button_reply": {"id": "y", "title": "Yes"}}}
    status = {"id": REQUEST, "status": "delivered", "timestamp": str(AT), "recipient_id": DIGITS}
    decisions = [
        GRANTED | {"id": f"wamid.{number}", "from": f"1500555000{number}", "timestamp": AT - number}
        for number in range(4)
    ]
    first = entry(
        change(text, decisions[0], None, button, decisions[1]),
        change(statuses=[status]),
        {"field": "messages", "value": {"statuses": [status]}},
        {"field": "account_update", "value": {"event": "VERIFIED_ACCOUNT"}},
        change(GRANTED, field="message_echoes"),
        change(decisions[2]),
    )
    second = entry(change(decisions[3]))
    expected = [f"wamid.{number}" for number in range(4)]
    assert [reply.message_id for reply in replies(published_message(first))] == expected[:3]
    assert [reply.message_id for reply in replies(published_message([first, second]))] == expected
    webhook = {"object": "whatsapp_business_account", "entry": [first, second]}
    assert [reply.message_id for reply in replies(published_message(webhook))] == expected


def test_the_same_decision_told_twice_is_two_for_the_caller_to_tell_apart() -> None:
    assert replies_to(GRANTED, GRANTED) == [REPLY, REPLY]


MALFORMED: list[Any] = [
    None,
    7,
    "call_permission_reply",
    [],
    {},
    {"interactive": GRANTED["interactive"]},
    *({name: value for name, value in GRANTED.items() if name != left_out} for left_out in ("from", "id", "timestamp")),
    GRANTED | {"from": None},
    GRANTED | {"from": 15005550006},
    GRANTED | {"from": ""},
    GRANTED | {"from": "+"},
    GRANTED | {"from": "BE.1234567890"},
    GRANTED | {"from": "05005550006"},
    GRANTED | {"from": "1500555"[:6]},
    GRANTED | {"from": "1" * 16},
    GRANTED | {"from": "15005550006\n"},
    GRANTED | {"from": "١٥٠٠٥٥٥٠٠٠٦"},
    GRANTED | {"id": None},
    GRANTED | {"id": ""},
    GRANTED | {"id": {"wamid": 1}},
    GRANTED | {"id": "wamid.\ud800"},
    GRANTED | {"id": "w" * 256},
    GRANTED | {"timestamp": None},
    GRANTED | {"timestamp": "yesterday"},
    GRANTED | {"timestamp": "2026-09-21T14:13:20Z"},
    GRANTED | {"timestamp": "-5"},
    GRANTED | {"timestamp": 0},
    GRANTED | {"timestamp": float(AT)},
    GRANTED | {"timestamp": float("nan")},
    GRANTED | {"timestamp": True},
    GRANTED | {"timestamp": 10**400},
    GRANTED | {"timestamp": str(clock.of_unix(AT))},
    GRANTED | {"interactive": None},
    GRANTED | {"interactive": "call_permission_reply"},
    GRANTED | {"interactive": []},
    GRANTED | {"interactive": {"type": "call_permission_reply"}},
    GRANTED | {"interactive": {"type": "nfm_reply", "call_permission_reply": permission()}},
    GRANTED | {"interactive": {"call_permission_reply": permission()}},
    message(None),
    message("accept"),
    message(["accept"]),
    message({}),
    message(permission("ACCEPT")),
    message(permission("")),
    message(permission("maybe")),
    message({"response": None}),
    message({"response": True}),
    message({"response": ["accept"]}),
    message({"response": {"accept": True}}),
]


@pytest.mark.parametrize("number", range(len(MALFORMED)))
def test_a_malformed_reply_is_left_out_and_hides_no_other(number: int) -> None:
    assert replies_to(MALFORMED[number], GRANTED, MALFORMED[number]) == [REPLY]


@pytest.mark.parametrize(
    "decoded",
    [
        None,
        5,
        "text",
        [],
        {},
        [[GRANTED]],
        {"changes": None},
        {"changes": {"field": "messages"}},
        {"entry": "none"},
        entry(None, 1, "messages", [], {}),
        entry({"field": "messages"}),
        entry({"field": "messages", "value": None}),
        entry({"field": "messages", "value": [GRANTED]}),
        entry({"field": "messages", "value": {"messages": None}}),
        entry({"field": "messages", "value": {"messages": GRANTED}}),
        entry({"field": ["messages"], "value": {"messages": [GRANTED]}}),
        entry({"value": {"messages": [GRANTED]}}),
    ],
)
def test_an_entry_of_another_shape_has_no_replies(decoded: Any) -> None:
    assert replies(published_message(decoded)) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Successfully validated the topic",
        "null",
        "[]",
        '"text"',
        "{",
        "{}",
        '{"whatsAppWebhookEntry": null}',
        '{"whatsAppWebhookEntry": ""}',
        '{"whatsAppWebhookEntry": "{"}',
        json.dumps({"whatsAppWebhookEntry": entry(change(GRANTED))}),
        json.dumps({"whatsAppWebhookEntry": json.dumps(entry(change(GRANTED)))[:-1]}),
        published_message(entry(change(GRANTED)))[:-1],
        "[" * 100_000,
        json.dumps({"whatsAppWebhookEntry": '{"id":' * 100_000}),
    ],
    ids=range(15),
)
def test_what_cannot_be_read_is_an_error_that_quotes_nothing(text: str) -> None:
    with pytest.raises(ValueError, match=r"^the notification ") as raised:
        replies(text)
    assert DIGITS not in traceback_of(raised.value)


def test_no_payload_with_a_part_replaced_raises() -> None:
    chance = random.Random(1)
    strange: list[Any] = [None, True, 0, -1, 1e300, "", "x", [], {}, [[]], {"a": 1}]

    def spoil(value: Any) -> Any:
        if chance.random() < 0.06:
            return chance.choice(strange)
        if isinstance(value, dict):
            return {name: spoil(part) for name, part in value.items() if chance.random() > 0.03}
        return [spoil(part) for part in value] if isinstance(value, list) else value

    whole = {"object": "whatsapp_business_account", "entry": [entry(change(GRANTED, GRANTED), change(GRANTED))]}
    counts = {len(replies(published_message(spoil(whole)))) for _ in range(2_000)}
    assert counts == {0, 1, 2, 3}
