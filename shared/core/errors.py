"""The errors of the API as one table, and the exception that becomes an error response (contract 2).

ApiError(code)          an error response; the code determines its status and type
ERRORS                  code -> Kind(status, type, meaning, remedy); also the page `/docs/errors`
NEVER_SAVED             codes of temporary conflicts; they are never saved for an Idempotency-Key
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

INVALID_REQUEST = "invalid_request_error"
IDEMPOTENCY = "idempotency_error"
AUTHENTICATION = "authentication_error"
CONFLICT = "conflict_error"


@dataclass(frozen=True)
class Kind:
    """An error code's HTTP status and error type, and what it means and how to resolve it, in English."""

    status: int
    type: str
    meaning: str
    remedy: str


# fmt: off
ERRORS: Mapping[str, Kind] = {
    "parameter_missing": Kind(400, INVALID_REQUEST, "A required parameter is missing.", "Send the parameter that `param` names."),
    "parameter_unknown": Kind(400, INVALID_REQUEST, "The request has a parameter that this endpoint does not accept.", "Remove it or correct its name. Read-only fields cannot be sent."),
    "parameter_invalid": Kind(400, INVALID_REQUEST, "The value of a parameter is not allowed.", "Send an allowed value. `message` describes the allowed values."),
    "parameter_invalid_integer": Kind(400, INVALID_REQUEST, "A parameter that must be an integer has another value.", "Send an integer without quotes or a decimal point."),
    "parameter_invalid_empty": Kind(400, INVALID_REQUEST, "A parameter that must have a value is null or empty.", "Send a value, or omit the parameter."),
    "parameters_exclusive": Kind(400, INVALID_REQUEST, "The request has parameters that cannot be combined.", "Send only one of the parameters that `message` names."),
    "phone_invalid_format": Kind(400, INVALID_REQUEST, "A phone number is not in E.164 format.", "Send `+`, the country code and the number, for example `+15005550006`."),
    "email_invalid": Kind(400, INVALID_REQUEST, "An email address is not valid.", "Send an address such as `ada@example.com`."),
    "url_invalid": Kind(400, INVALID_REQUEST, "The URL cannot receive webhooks.", "Send a public `https` URL without credentials or a fragment."),
    "datetime_invalid": Kind(400, INVALID_REQUEST, "A date-time is not valid or has no UTC offset.", "Send an RFC 3339 date-time with an offset, for example `2027-03-04T15:00:00Z`."),
    "metadata_invalid": Kind(400, INVALID_REQUEST, "The metadata exceeds a limit.", "Send at most 50 keys of at most 40 characters, values of at most 500 characters, and 16 KB in total."),
    "cursor_invalid": Kind(400, INVALID_REQUEST, "`starting_after` is not a cursor of this list.", "Send the `next_cursor` of the previous page unchanged."),
    "event_filter_invalid": Kind(400, INVALID_REQUEST, "An event filter is not a known event type or wildcard.", "Send an event type, `appointment.*`, `customer.*` or `session.*`."),
    "api_version_invalid": Kind(400, INVALID_REQUEST, "The `Service-Version` header is not a known revision.", "Send the date of a known revision, or omit the header."),
    "invalid_json": Kind(400, INVALID_REQUEST, "The body is not a valid JSON object in UTF-8.", "Send one JSON object without duplicate keys, NaN or lone surrogates, nested at most 64 levels deep."),
    "idempotency_key_invalid": Kind(400, INVALID_REQUEST, "The `Idempotency-Key` header is not valid.", "Send one header with 1 to 255 printable ASCII characters."),
    "idempotency_key_reused": Kind(400, IDEMPOTENCY, "The Idempotency-Key was already used with another body, method, path or API key.", "Use a new key for a new request."),
    "api_key_missing": Kind(401, AUTHENTICATION, "The request has no API key.", "Send `Authorization: Bearer <API_KEY>`."),
    "api_key_invalid": Kind(401, AUTHENTICATION, "The API key does not exist.", "Check that the key is complete and belongs to this service."),
    "api_key_revoked": Kind(401, AUTHENTICATION, "The API key was revoked.", "Send another API key of the project."),
    "permission_denied": Kind(403, "permission_error", "The request is not allowed.", "Contact the operator: the firewall or the gateway has refused the request."),
    "resource_not_found": Kind(404, INVALID_REQUEST, "The resource does not exist in the project and mode of the API key. The status is 400 if the id is in the body.", "Check the id, and that the API key belongs to the same project and mode."),
    "route_not_found": Kind(404, INVALID_REQUEST, "No endpoint has this path.", "Check the path. Paths have no trailing slash."),
    "method_not_allowed": Kind(405, INVALID_REQUEST, "The path does not support this method.", "Use one of the methods in the `Allow` header."),
    "invalid_status_transition": Kind(409, CONFLICT, "The current status of the resource does not allow the change.", "Retrieve the resource to see its current status."),
    "customer_deleted": Kind(409, CONFLICT, "The customer is deleted.", "Use a customer that is not deleted."),
    "customer_phone_missing": Kind(409, CONFLICT, "The customer has no phone number.", "Add a phone number to the customer first."),
    "appointment_deleted": Kind(409, CONFLICT, "The appointment is deleted.", "Use an appointment that is not deleted."),
    "call_in_progress": Kind(409, CONFLICT, "The customer already has a call that is queued or in progress.", "Retry after that session has ended."),
    "call_limit_reached": Kind(409, CONFLICT, "The project has reached its limit of concurrent or daily live calls.", "Retry after calls have ended or on the next day (UTC), or ask the operator for a higher limit."),
    "appointment_cancelled": Kind(409, CONFLICT, "The appointment is cancelled.", "Use an appointment that is not cancelled."),
    "consent_request_limited": Kind(409, CONFLICT, "The customer has received the maximum number of consent requests.", "Retry when the limit's period, a day or a week, has passed."),
    "conversation_ended": Kind(409, CONFLICT, "The conversation has ended.", "Create a new conversation."),
    "conversation_exists": Kind(409, CONFLICT, "An active conversation already has this `external_id`.", "Use that conversation, or end it first."),
    "conversation_busy": Kind(409, CONFLICT, "The agent has not replied to the previous message yet.", "Retry after the reply."),
    "delivery_in_progress": Kind(409, CONFLICT, "A delivery of this event to this webhook endpoint is in progress.", "Retry after that delivery has ended."),
    "webhook_endpoint_disabled": Kind(409, CONFLICT, "The webhook endpoint is disabled.", "Enable the webhook endpoint first."),
    "webhook_endpoint_limit": Kind(409, CONFLICT, "The project already has 16 webhook endpoints in this mode.", "Delete a webhook endpoint first."),
    "conflict": Kind(409, CONFLICT, "The resource was modified concurrently.", "Retry the request."),
    "idempotency_key_in_use": Kind(409, IDEMPOTENCY, "Another request with this Idempotency-Key is in progress.", "Retry after a second."),
    "request_too_large": Kind(413, INVALID_REQUEST, "The body is larger than 256 KiB.", "Send a smaller body."),
    "unsupported_media_type": Kind(415, INVALID_REQUEST, "The body is not `application/json`.", "Send `Content-Type: application/json` without a content encoding."),
    "rate_limit_exceeded": Kind(429, "rate_limit_error", "The API key has exceeded 100 requests per second or 5000 requests per minute.", "Retry after the number of seconds in `Retry-After`."),
    "internal_error": Kind(500, "api_error", "An internal error occurred.", "Retry with the same Idempotency-Key. If the error persists, contact support with the `request_id`."),
    "service_unavailable": Kind(503, "api_error", "The service is temporarily unavailable.", "If `Service-Should-Retry` is `true`, retry after the number of seconds in `Retry-After`."),
    "agent_timeout": Kind(504, "api_error", "The agent did not reply in time.", "List the messages of the conversation to read the reply."),
}
# fmt: on

NEVER_SAVED = frozenset(
    {
        "idempotency_key_in_use",
        "conversation_busy",
        "call_in_progress",
        "call_limit_reached",
        "webhook_endpoint_limit",
        "delivery_in_progress",
        "consent_request_limited",
        "conflict",
    }
)
RETRYABLE = frozenset({"idempotency_key_in_use", "conversation_busy", "conflict", "rate_limit_exceeded"})
"""The codes below 500 with `Service-Should-Retry: true` (contract 1)."""


class ApiError(Exception):
    """An error response.

    `param` names the parameter at fault. `headers` are added to the response's headers, `extra` to its `error` object.
    """

    def __init__(
        self,
        code: str,
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


def not_found(what: str, id: str) -> ApiError:
    """The 404 for an id in a path that does not exist in the key's project and mode."""
    return ApiError("resource_not_found", f"No such {what}: '{id[:64]}'.", param="id")


def not_found_in_body(what: str, id: str, param: str) -> ApiError:
    """The 400 for an id in a body that does not exist in the key's project and mode."""
    return ApiError("resource_not_found", f"No such {what}: '{id[:64]}'.", param=param, status=400)
