"""The errors of the API as one table, and the exception that becomes an error response (promises 2).

ApiError(code)          an error response; the code determines its status and type
ERRORS                  code -> ErrorKind(status, type, meaning, remedy); also the page `/docs/errors`
NEVER_SAVED             codes of temporary conflicts; they are never saved for an Idempotency-Key
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from shared.core import limits
from shared.core.event_types import WILDCARDS

INVALID_REQUEST = "invalid_request_error"
IDEMPOTENCY = "idempotency_error"
AUTHENTICATION = "authentication_error"
CONFLICT = "conflict_error"


class Code(StrEnum):
    """The code of an error (promises 2)."""

    PARAMETER_MISSING = "parameter_missing"
    PARAMETER_UNKNOWN = "parameter_unknown"
    PARAMETER_INVALID = "parameter_invalid"
    PARAMETER_INVALID_INTEGER = "parameter_invalid_integer"
    PARAMETER_INVALID_EMPTY = "parameter_invalid_empty"
    PARAMETERS_EXCLUSIVE = "parameters_exclusive"
    PHONE_INVALID_FORMAT = "phone_invalid_format"
    EMAIL_INVALID = "email_invalid"
    URL_INVALID = "url_invalid"
    DATETIME_INVALID = "datetime_invalid"
    METADATA_INVALID = "metadata_invalid"
    CURSOR_INVALID = "cursor_invalid"
    EVENT_FILTER_INVALID = "event_filter_invalid"
    API_VERSION_INVALID = "api_version_invalid"
    INVALID_JSON = "invalid_json"
    IDEMPOTENCY_KEY_INVALID = "idempotency_key_invalid"
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused"
    API_KEY_MISSING = "api_key_missing"
    API_KEY_INVALID = "api_key_invalid"
    API_KEY_REVOKED = "api_key_revoked"
    API_KEY_EXPIRED = "api_key_expired"
    PERMISSION_DENIED = "permission_denied"
    RESOURCE_NOT_FOUND = "resource_not_found"
    ROUTE_NOT_FOUND = "route_not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    INVALID_STATUS_TRANSITION = "invalid_status_transition"
    CUSTOMER_DELETED = "customer_deleted"
    CUSTOMER_PHONE_MISSING = "customer_phone_missing"
    CUSTOMER_OPTED_OUT = "customer_opted_out"
    APPOINTMENT_DELETED = "appointment_deleted"
    CALL_IN_PROGRESS = "call_in_progress"
    CALL_LIMIT_REACHED = "call_limit_reached"
    APPOINTMENT_CANCELLED = "appointment_cancelled"
    CONSENT_REQUEST_LIMITED = "consent_request_limited"
    SESSION_NOT_CANCELABLE = "session_not_cancelable"
    CONVERSATION_ENDED = "conversation_ended"
    CONVERSATION_EXISTS = "conversation_exists"
    CONVERSATION_BUSY = "conversation_busy"
    DELIVERY_IN_PROGRESS = "delivery_in_progress"
    WEBHOOK_ENDPOINT_DISABLED = "webhook_endpoint_disabled"
    WEBHOOK_ENDPOINT_LIMIT = "webhook_endpoint_limit"
    CONFLICT = "conflict"
    IDEMPOTENCY_KEY_IN_USE = "idempotency_key_in_use"
    REQUEST_TOO_LARGE = "request_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    RATE_LIMIT_EXCEEDED = "rate_limit_exceeded"
    INTERNAL_ERROR = "internal_error"
    SERVICE_UNAVAILABLE = "service_unavailable"
    AGENT_TIMEOUT = "agent_timeout"


@dataclass(frozen=True)
class ErrorKind:
    """An error code's HTTP status and error type, and what it means and how to resolve it, in English."""

    status: int
    type: str
    meaning: str
    remedy: str


_WILDCARDS = " or ".join((", ".join(f"`{one}`" for one in WILDCARDS[:-1]), f"`{WILDCARDS[-1]}`"))

# fmt: off
ERRORS: Mapping[Code, ErrorKind] = {
    Code.PARAMETER_MISSING: ErrorKind(400, INVALID_REQUEST, "A required parameter is missing.", "Send the parameter that `param` names."),
    Code.PARAMETER_UNKNOWN: ErrorKind(400, INVALID_REQUEST, "The request has a parameter that this operation does not accept.", "Remove it or correct its name. Read-only fields cannot be sent."),
    Code.PARAMETER_INVALID: ErrorKind(400, INVALID_REQUEST, "The value of a parameter is not allowed.", "Send an allowed value. `message` describes the allowed values."),
    Code.PARAMETER_INVALID_INTEGER: ErrorKind(400, INVALID_REQUEST, "A parameter that must be an integer has another value.", "Send an integer without quotes or a decimal point."),
    Code.PARAMETER_INVALID_EMPTY: ErrorKind(400, INVALID_REQUEST, "A parameter that must have a value is null or empty.", "Send a value, or omit the parameter."),
    Code.PARAMETERS_EXCLUSIVE: ErrorKind(400, INVALID_REQUEST, "The request has parameters that cannot be combined.", "Send only one of the parameters that `message` names."),
    Code.PHONE_INVALID_FORMAT: ErrorKind(400, INVALID_REQUEST, "A phone number is not in E.164 format.", "Send `+`, the country code and the number, for example `+15005550006`."),
    Code.EMAIL_INVALID: ErrorKind(400, INVALID_REQUEST, "An email address is not valid.", "Send an address such as `ada@example.com`."),
    Code.URL_INVALID: ErrorKind(400, INVALID_REQUEST, "The URL cannot receive webhooks.", "Send a public `https` URL without credentials or a fragment."),
    Code.DATETIME_INVALID: ErrorKind(400, INVALID_REQUEST, "A date-time is not valid or has no UTC offset.", "Send an RFC 3339 date-time with an offset, for example `2027-03-04T15:00:00Z`."),
    Code.METADATA_INVALID: ErrorKind(400, INVALID_REQUEST, "The metadata exceeds a limit.", f"Send at most {limits.METADATA_KEYS} keys of at most {limits.METADATA_KEY_CHARACTERS} characters, values of at most {limits.METADATA_VALUE_CHARACTERS} characters, and {limits.METADATA_BYTES // 1024} KB in total."),
    Code.CURSOR_INVALID: ErrorKind(400, INVALID_REQUEST, "`starting_after` is not a cursor of this list.", "Send the `next_cursor` of the previous page unchanged."),
    Code.EVENT_FILTER_INVALID: ErrorKind(400, INVALID_REQUEST, "An event filter is not a known event type or wildcard.", f"Send an event type, {_WILDCARDS}."),
    Code.API_VERSION_INVALID: ErrorKind(400, INVALID_REQUEST, "The `Service-Version` header is not a known revision.", "Send the date of a known revision, or omit the header."),
    Code.INVALID_JSON: ErrorKind(400, INVALID_REQUEST, "The body is not a valid JSON object in UTF-8.", f"Send one JSON object without duplicate keys, NaN or lone surrogates, nested at most {limits.JSON_LEVELS} levels deep."),
    Code.IDEMPOTENCY_KEY_INVALID: ErrorKind(400, INVALID_REQUEST, "The `Idempotency-Key` header is not valid.", f"Send one header with 1 to {limits.IDEMPOTENCY_KEY_CHARACTERS} printable ASCII characters."),
    Code.IDEMPOTENCY_KEY_REUSED: ErrorKind(400, IDEMPOTENCY, "The Idempotency-Key was already used with another body, method or path, or with another API key if the response has a secret.", "Use a new key for a new request."),
    Code.API_KEY_MISSING: ErrorKind(401, AUTHENTICATION, "The request has no API key.", "Send `Authorization: Bearer <API_KEY>`."),
    Code.API_KEY_INVALID: ErrorKind(401, AUTHENTICATION, "The API key does not exist.", "Check that the key is complete and belongs to this service."),
    Code.API_KEY_REVOKED: ErrorKind(401, AUTHENTICATION, "The API key was revoked.", "Send another API key of the project."),
    Code.API_KEY_EXPIRED: ErrorKind(401, AUTHENTICATION, "The API key has expired.", "Send another API key of the project."),
    Code.PERMISSION_DENIED: ErrorKind(403, "permission_error", "The request is not allowed.", "If the API key is read-only, send a key that may write. Otherwise contact the operator: the firewall or the gateway has refused the request."),
    Code.RESOURCE_NOT_FOUND: ErrorKind(404, INVALID_REQUEST, "The resource does not exist in the project and mode of the API key. The status is 400 if the id is in the body.", "Check the id, and that the API key belongs to the same project and mode."),
    Code.ROUTE_NOT_FOUND: ErrorKind(404, INVALID_REQUEST, "No operation has this path.", "Check the path. Paths have no trailing slash."),
    Code.METHOD_NOT_ALLOWED: ErrorKind(405, INVALID_REQUEST, "The path does not support this method.", "Use one of the methods in the `Allow` header."),
    Code.INVALID_STATUS_TRANSITION: ErrorKind(409, CONFLICT, "The current status of the resource does not allow the change.", "Retrieve the resource to see its current status."),
    Code.CUSTOMER_DELETED: ErrorKind(409, CONFLICT, "The customer is deleted.", "Use a customer that is not deleted."),
    Code.CUSTOMER_PHONE_MISSING: ErrorKind(409, CONFLICT, "The customer has no phone number.", "Add a phone number to the customer first."),
    Code.CUSTOMER_OPTED_OUT: ErrorKind(409, CONFLICT, "The customer is not to be called: `do_not_call` is set, or the phone has opted out.", "Do not call this customer. If the person agrees to be called again, use `POST /v1/customers/{id}/opt_in`."),
    Code.APPOINTMENT_DELETED: ErrorKind(409, CONFLICT, "The appointment is deleted.", "Use an appointment that is not deleted."),
    Code.CALL_IN_PROGRESS: ErrorKind(409, CONFLICT, "The customer already has a call that is queued or in progress.", "Retry after that session has ended."),
    Code.CALL_LIMIT_REACHED: ErrorKind(409, CONFLICT, "The project has reached its limit of concurrent or daily live calls.", "Retry after calls have ended or on the next day (UTC), or ask the operator for a higher limit."),
    Code.APPOINTMENT_CANCELLED: ErrorKind(409, CONFLICT, "The appointment is cancelled.", "Use an appointment that is not cancelled."),
    Code.CONSENT_REQUEST_LIMITED: ErrorKind(409, CONFLICT, "The customer has received the maximum number of consent requests.", "Retry when the limit's period, a day or a week, has passed."),
    Code.SESSION_NOT_CANCELABLE: ErrorKind(409, CONFLICT, "The call is not queued any more.", "A call that is under way or has ended cannot be canceled."),
    Code.CONVERSATION_ENDED: ErrorKind(409, CONFLICT, "The conversation has ended.", "Create a new conversation."),
    Code.CONVERSATION_EXISTS: ErrorKind(409, CONFLICT, "An active conversation already has this `external_id`.", "Use that conversation, or end it first."),
    Code.CONVERSATION_BUSY: ErrorKind(409, CONFLICT, "The agent has not replied to the previous message yet.", "Retry after the reply."),
    Code.DELIVERY_IN_PROGRESS: ErrorKind(409, CONFLICT, "A delivery of this event to this webhook endpoint is in progress.", "Retry after that delivery has ended."),
    Code.WEBHOOK_ENDPOINT_DISABLED: ErrorKind(409, CONFLICT, "The webhook endpoint is disabled.", "Enable the webhook endpoint first."),
    Code.WEBHOOK_ENDPOINT_LIMIT: ErrorKind(409, CONFLICT, f"The project already has {limits.WEBHOOK_ENDPOINTS} webhook endpoints in this mode.", "Delete a webhook endpoint first."),
    Code.CONFLICT: ErrorKind(409, CONFLICT, "The resource was modified concurrently.", "Retry the request."),
    Code.IDEMPOTENCY_KEY_IN_USE: ErrorKind(409, IDEMPOTENCY, "Another request with this Idempotency-Key is in progress.", "Retry after a second."),
    Code.REQUEST_TOO_LARGE: ErrorKind(413, INVALID_REQUEST, f"The body is larger than {limits.BODY_BYTES // 1024} KiB.", "Send a smaller body."),
    Code.UNSUPPORTED_MEDIA_TYPE: ErrorKind(415, INVALID_REQUEST, "The body is not `application/json`.", "Send `Content-Type: application/json` without a content encoding."),
    Code.RATE_LIMIT_EXCEEDED: ErrorKind(429, "rate_limit_error", f"The API key has exceeded {limits.REQUESTS_PER_SECOND} requests per second or {limits.REQUESTS_PER_MINUTE} requests per minute, or the project has too many live messages under way.", "Retry after the number of seconds in `Retry-After`."),
    Code.INTERNAL_ERROR: ErrorKind(500, "api_error", "An internal error occurred.", "Retry with the same Idempotency-Key. If the error persists, contact support with the `request_id`."),
    Code.SERVICE_UNAVAILABLE: ErrorKind(503, "api_error", "The service is temporarily unavailable.", "If `Service-Should-Retry` is `true`, retry after the number of seconds in `Retry-After`."),
    Code.AGENT_TIMEOUT: ErrorKind(504, "api_error", "The agent did not reply in time.", "List the messages of the conversation to read the reply."),
}
# fmt: on

NEVER_SAVED = frozenset(
    {
        Code.IDEMPOTENCY_KEY_IN_USE,
        Code.CONVERSATION_BUSY,
        Code.CALL_IN_PROGRESS,
        Code.CALL_LIMIT_REACHED,
        Code.WEBHOOK_ENDPOINT_LIMIT,
        Code.DELIVERY_IN_PROGRESS,
        Code.CONSENT_REQUEST_LIMITED,
        Code.CONFLICT,
    }
)
RETRYABLE = frozenset({Code.IDEMPOTENCY_KEY_IN_USE, Code.CONVERSATION_BUSY, Code.CONFLICT, Code.RATE_LIMIT_EXCEEDED})
"""The codes below 500 with `Service-Should-Retry: true` (promises 1)."""


class ApiError(Exception):
    """An error response.

    `param` names the parameter at fault. `headers` are added to the response's headers, `extra` to its `error` object.
    """

    def __init__(
        self,
        code: Code,
        message: str | None = None,
        *,
        param: str | None = None,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        kind = ERRORS[code]
        self.code = code
        self.type = kind.type
        self.status = status or kind.status
        self.message = message or f"{kind.meaning} {kind.remedy}"
        self.param = param
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})
        super().__init__(code)

    @property
    def field(self) -> str | None:
        """The part of `param` that is a name of the API's. What clients name themselves may be personal data."""
        if self.param is None or self.code is Code.PARAMETER_UNKNOWN:
            return None
        return "metadata" if self.param.startswith("metadata[") else self.param


def not_found(what: str, id: str) -> ApiError:
    """The 404 for an id in a path that does not exist in the key's project and mode."""
    return ApiError(Code.RESOURCE_NOT_FOUND, f"No such {what}: '{id[:64]}'.", param="id")


def not_found_in_body(what: str, id: str, param: str) -> ApiError:
    """The 400 for an id in a body that does not exist in the key's project and mode."""
    return ApiError(Code.RESOURCE_NOT_FOUND, f"No such {what}: '{id[:64]}'.", param=param, status=400)
