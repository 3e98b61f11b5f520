"""Live consent on WhatsApp: requests for a user's call permission, and the replies.

AWS End User Messaging Social carries Meta's own JSON both ways. What Meta documents of call permissions ("Obtain
user call permissions", WhatsApp Business Calling API):

- A request is a message of its own type. Later than 24 hours after a user's last message, only an approved template is
  delivered. A business may send a user one request in 24 hours and two in 7 days.
- The answer is a message of the user with the `interactive.type` `call_permission_reply`. A permission is permanent, or
  lasts 7 days (168 hours) from the approval; the user may withdraw or change it at any time.
- Nothing is sent when a request or a permission expires.

Meta's permission is for calls on WhatsApp. A stage that calls by phone instead (`whatsapp.dial` is `phone`) asks with a
template of its own, whose two quick reply buttons are yes and no. The answer is a message of type `button` with the
payload that the request gave to the button (Meta, "Button messages webhook reference").

AWS queues a message and responds at once. What Meta refuses later (no template outside the 24 hours, the limits above,
a phone without WhatsApp) arrives as a `failed` status at the event destination, not from `ask`. A status has the
`biz_opaque_callback_data` of its message (Meta, "Status messages webhook reference"), by which the request is found:
AWS does not document how the id that it returned relates to Meta's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as AwsConnectionError

from shared.aws import services
from shared.aws.error_codes import TOO_MANY_REQUESTS, ErrorCode
from shared.core import clock, settings
from shared.telephony import Busy, NotConfigured

META_API_VERSION = "v25.0"
"""Meta supports it until 2028-07-29; AWS accepts every version from 20 on."""
CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 2, 10
"""Seconds for one request."""
TEMPORARY_MS = 7 * clock.DAY
"""How long a permission lasts that is not permanent (see above)."""
YES, NO = "phone_call_accepted", "phone_call_refused"
"""The payloads of the buttons of a request to call by phone."""

_SERVER_ERRORS = 500
"""AWS's transient errors have this status or a higher one, except throttling, which has 400 or 429."""
_PHONE = re.compile(r"\+?[1-9][0-9]{6,14}")
_SECONDS = re.compile(r"[0-9]{1,12}")
_ID = re.compile(r"[!-~]{1,255}")
_LONGEST_REFERENCE = 512


class CannotAsk(Exception):
    """AWS refused the request; repeating it does not help. The text is the error's code and has no data of a user."""


@dataclass(frozen=True)
class PermissionReply:
    """What a user decided; times in milliseconds, of whole seconds."""

    phone: str = field(repr=False)
    """E.164, from Meta's id of the user. In Brazil and Mexico its digits can differ from the phone that was asked."""
    accepted: bool
    at: clock.Instant
    """When the user decided, by Meta's clock."""
    until: clock.Instant | None
    """When an accepted permission ends. None for a permanent one, and for a refusal."""
    message_id: str
    context_id: str | None
    """Meta's id of the request that is answered, or of a call, if the user granted the permission by calling. None if
    the user decided without a request."""


@dataclass(frozen=True)
class UndeliveredRequest:
    """A request that did not reach the user. `code` is Meta's error code, 0 if unknown."""

    reference: str
    code: int


@dataclass(frozen=True)
class WhatsApp:
    """One phone number of the business.

    `client` is boto3's `socialmessaging` client, `phone_number_id` is AWS's id (`phone-number-id-…`) or ARN, not
    Meta's, and `template` is a name and a language. The template has a `call_permission_request` component and no
    variables. With `by_phone`, it has one variable in its body, the business, and two quick reply buttons, first yes.
    """

    client: Any
    phone_number_id: str
    template: tuple[str, str] | None = None
    meta_api_version: str = META_API_VERSION
    by_phone: bool = False
    """Whether the permission is to call by phone."""

    @classmethod
    def from_environment(cls) -> WhatsApp:
        """The stage's number (`whatsapp` in cdk.json). To dial by phone, it needs a template. Raises NotConfigured."""
        phone_number_id = settings.whatsapp_phone_number_id()
        if not phone_number_id:
            raise NotConfigured("`phone_number_id` is missing in the stage's `whatsapp` settings in cdk.json.")
        version = settings.whatsapp_meta_api_version() or META_API_VERSION
        template = _template(settings.whatsapp_template())
        by_phone = settings.dials_whatsapp_by_phone()
        if by_phone and template is None:
            raise NotConfigured("`dial` in the stage's `whatsapp` settings in cdk.json needs a `template`.")
        return cls(_client(), phone_number_id, template, version, by_phone)

    def ask(self, to: str, business: str, reference: str) -> str:
        """Ask a phone (E.164) to permit calls of a business; returns AWS's id of the message. Raises Busy, CannotAsk.

        `reference` (at most 512 characters, no personal data) returns in the `UndeliveredRequest` of this request.
        `business` has at most 200 characters. AWS has no idempotency token: after Busy the request may have been sent,
        and the user can see a repeated one. AWS does not promise that its id is the `context_id` of the reply: find the
        request by the phone.
        """
        response = _call(
            self.client.send_whatsapp_message,
            originationPhoneNumberId=self.phone_number_id,
            metaApiVersion=self.meta_api_version,
            message=json.dumps(self._request(to, business, reference)).encode(),
        )
        return str(response["messageId"])

    def is_permitted(self, to: str) -> bool:
        """Return whether Meta permits calls to a phone (E.164) now. Raises Busy, CannotAsk.

        Meta takes withdrawn permissions into account, and allows five of these requests a second. It knows nothing of
        permissions to call by phone.
        """
        if self.by_phone:
            return False
        response = _call(
            self.client.get_whatsapp_call_permission,
            originationPhoneNumberId=self.phone_number_id,
            destinationPhoneNumber=to,
        )
        return response["permission"]["status"] in ("temporary", "permanent")

    def _request(self, to: str, business: str, reference: str) -> dict[str, Any]:
        message = {
            "messaging_product": "whatsapp",
            "recipient_type": "individual",
            "to": to,
            "biz_opaque_callback_data": reference,
        }
        if self.template is not None:
            name, language = self.template
            template: dict[str, Any] = {"name": name, "language": {"code": language}}
            if self.by_phone:
                template["components"] = _components(business)
            return message | {"type": "template", "template": template}
        kind = "call_permission_request"
        return message | {
            "type": "interactive",
            "interactive": {
                "type": kind,
                "action": {"name": kind},
                "body": {"text": f"May {business} call you on WhatsApp?"},
            },
        }


def replies(sns_message: str) -> list[PermissionReply]:
    """The decisions in a message that the event destination published, the `Message` of an SNS notification, in order.

    A tap on a button of a request to call by phone is a decision that does not end.

    The message is a JSON object whose `whatsAppWebhookEntry` is the JSON text of an entry of Meta's webhook. Raises
    ValueError if one of the two cannot be parsed. Everything else in it is ignored: statuses, other messages, and
    replies without a phone, a time, an id, or `accept` or `reject`.

    An acceptance with `is_permanent` true does not end. Any other acceptance is temporary and ends at its
    `expiration_timestamp`, or 7 days after the decision if that is missing or malformed.

    SNS delivers more than once and in any order. The caller stores the `at` of the decision that holds and drops a
    reply that is not later; of two in the same second, the refusal wins. The caller stores decisions by the phone, not
    by `context_id`, because a user may decide without a request.
    """
    return [reply for message in _items(sns_message, "messages") if (reply := _reply(message)) is not None]


def failures(sns_message: str) -> list[UndeliveredRequest]:
    """The requests that were not sent or delivered, by a message as in `replies`. Raises ValueError as `replies` does.

    Everything else in it is ignored, such as other statuses, and failures of messages that have no reference.
    """
    statuses = [status for status in _items(sns_message, "statuses") if _of(status, "status") == "failed"]
    return [failure for status in statuses if (failure := _failure(status)) is not None]


def _items(sns_message: str, name: str) -> Iterator[Any]:
    """The items of the `messages` or `statuses` in a message that the event destination published."""
    envelope = _parsed(sns_message)
    if not isinstance(envelope, dict):
        raise ValueError("the notification is not an object")
    text = envelope.get("whatsAppWebhookEntry")
    if not isinstance(text, str):
        raise ValueError("the notification has no whatsAppWebhookEntry")
    entry = _parsed(text)
    # One entry, several entries, or the whole body of Meta's webhook.
    entries = entry if isinstance(entry, list) else [entry, *_list(entry, "entry")]
    for each in entries:
        for change in _list(each, "changes"):
            if _of(change, "field") == "messages":
                yield from _list(_of(change, "value"), name)


def _failure(status: Any) -> UndeliveredRequest | None:
    reference = _of(status, "biz_opaque_callback_data")
    if not isinstance(reference, str) or not 0 < len(reference) <= _LONGEST_REFERENCE:
        return None
    codes = [code for error in _list(status, "errors") if type(code := _of(error, "code")) is int]
    return UndeliveredRequest(reference, codes[0] if codes else 0)


def _reply(message: Any) -> PermissionReply | None:
    permission, response = _permission(message)
    phone = _matched(_PHONE, _of(message, "from"))
    at = _instant(_of(message, "timestamp"))
    id = _matched(_ID, _of(message, "id"))
    if phone is None or at is None or id is None or response not in ("accept", "reject"):
        return None
    accepted = response == "accept"
    until = None
    if accepted and permission is not None and _of(permission, "is_permanent") is not True:
        until = _instant(_of(permission, "expiration_timestamp")) or min(at + TEMPORARY_MS, clock.LAST)
    return PermissionReply(
        phone="+" + phone.removeprefix("+"),
        accepted=accepted,
        at=at,
        until=until,
        message_id=id,
        context_id=_matched(_ID, _of(_of(message, "context"), "id")),
    )


def _permission(message: Any) -> tuple[Any, Any]:
    """Meta's permission in a message, None for one to call by phone, and `accept` or `reject`, if it is a decision."""
    button = _of(message, "button")
    if button is not None:
        payload = _matched(_ID, _of(button, "payload"))
        return None, {YES: "accept", NO: "reject"}.get(payload or "")
    interactive = _of(message, "interactive")
    permission = (
        _of(interactive, "call_permission_reply") if _of(interactive, "type") == "call_permission_reply" else None
    )
    return permission, _of(permission, "response")


def _components(business: str) -> list[dict[str, Any]]:
    """The variables of a template that asks for a permission to call by phone."""
    buttons = [
        {
            "type": "button",
            "sub_type": "quick_reply",
            "index": str(index),
            "parameters": [{"type": "payload", "payload": payload}],
        }
        for index, payload in enumerate((YES, NO))
    ]
    return [{"type": "body", "parameters": [{"type": "text", "text": business}]}, *buttons]


def _of(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _list(value: Any, name: str) -> list[Any]:
    items = _of(value, name)
    return items if isinstance(items, list) else []


def _matched(pattern: re.Pattern[str], value: Any) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def _instant(value: Any) -> clock.Instant | None:
    """Unix seconds, a number or its text, as milliseconds; None for anything else, and for times up to 1970."""
    if type(value) is not int and _matched(_SECONDS, value) is None:
        return None
    instant = clock.of_unix(clock.UnixSeconds(int(value)))
    return instant if 0 < instant <= clock.LAST else None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the notification is nested too deeply") from None
    except ValueError:
        # The error would quote the text, which has a phone.
        raise ValueError("the notification is not JSON") from None


def _template(setting: str) -> tuple[str, str] | None:
    if not setting:
        return None
    name, _, language = setting.partition("/")
    if not name or not language:
        raise NotConfigured(
            "`template` in the stage's `whatsapp` settings in cdk.json must be the name and the language of a template,"
            " such as call_permission/en_US."
        )
    return name, language


def _call(method: Callable[..., Any], **parameters: Any) -> Any:
    """The response of a method of the client. Raises Busy, CannotAsk."""
    # Errors can quote the phone, so their texts are not passed on, not even as a cause.
    try:
        return method(**parameters)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        if code == ErrorCode.THROTTLED or status == TOO_MANY_REQUESTS or status >= _SERVER_ERRORS:
            raise Busy(code) from None
        raise CannotAsk(code) from None
    except (AwsConnectionError, HTTPClientError) as error:
        raise Busy(type(error).__name__) from None
    except BotoCoreError as error:
        raise CannotAsk(type(error).__name__) from None


def _client() -> Any:
    import boto3
    from botocore.config import Config

    # The client does not retry, because the user can see a repeated request.
    config = Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries={"mode": "standard", "total_max_attempts": 1},
    )
    return services.closing_idle(boto3.client("socialmessaging", config=config))
