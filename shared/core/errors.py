"""Every error the API can answer with, as one table, and the exception that carries one.

ApiError(code)          an error response; its status and type follow from the code
ERRORS                  code -> Kind(status, type, meaning, remedy); also the page `/docs/errors`
PASSING                 codes of conflicts that pass by themselves: retried by clients, never saved
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
    """What a code stands for: HTTP status, error type, meaning and remedy for a person."""

    status: int
    type: str
    meaning: str
    remedy: str


# fmt: off
ERRORS: Mapping[str, Kind] = {
    "parameter_missing": Kind(400, INVALID_REQUEST, "A required parameter is missing.", "Send the parameter named in `param`."),
    "parameter_unknown": Kind(400, INVALID_REQUEST, "The request has a parameter that this endpoint does not take.", "Remove it, or correct its spelling; read-only fields cannot be sent."),
    "parameter_invalid": Kind(400, INVALID_REQUEST, "A parameter's value is not allowed.", "See `message` for what is allowed."),
    "parameter_invalid_integer": Kind(400, INVALID_REQUEST, "A parameter must be an integer and is not.", "Send a whole number without quotes or fraction."),
    "parameter_invalid_empty": Kind(400, INVALID_REQUEST, "A parameter is null or empty where a value is required.", "Send a value, or leave the parameter out."),
    "parameters_exclusive": Kind(400, INVALID_REQUEST, "Parameters were sent together that exclude each other.", "Send only one of them; `message` names both."),
    "phone_invalid_format": Kind(400, INVALID_REQUEST, "A phone number is not in E.164 format.", "Send `+`, the country code and the number, such as `+15005550006`."),
    "email_invalid": Kind(400, INVALID_REQUEST, "An email address is malformed.", "Send an address such as `ada@example.com`."),
    "url_invalid": Kind(400, INVALID_REQUEST, "A webhook URL cannot be used.", "Send a public https URL without credentials or fragment."),
    "datetime_invalid": Kind(400, INVALID_REQUEST, "A date-time is malformed or has no UTC offset.", "Send RFC 3339 with an offset, such as `2027-03-04T15:00:00Z`."),
    "metadata_invalid": Kind(400, INVALID_REQUEST, "Metadata breaks a limit.", "At most 50 keys of 40 characters, 500 characters a value, 16 KB in all."),
    "cursor_invalid": Kind(400, INVALID_REQUEST, "`starting_after` is not a cursor of this list.", "Pass `next_cursor` of the previous page unchanged."),
    "event_filter_invalid": Kind(400, INVALID_REQUEST, "An event filter is not a known event type or wildcard.", "Use a known type, `appointment.*`, `customer.*` or `session.*`."),
    "api_version_invalid": Kind(400, INVALID_REQUEST, "The `Service-Version` header names no known revision.", "Send a known revision date, or leave the header out."),
    "invalid_json": Kind(400, INVALID_REQUEST, "The body is not one valid JSON object in UTF-8.", "Send one JSON object without duplicate keys, NaN or lone surrogates, nested at most 64 levels deep."),
    "idempotency_key_invalid": Kind(400, INVALID_REQUEST, "The `Idempotency-Key` header is malformed.", "Send one header of 1 to 255 printable ASCII characters."),
    "idempotency_key_reused": Kind(400, IDEMPOTENCY, "The Idempotency-Key was used before with another body, method, path or API key.", "Use a new key for a new request."),
    "api_key_missing": Kind(401, AUTHENTICATION, "No API key was sent.", "Send `Authorization: Bearer <API_KEY>`."),
    "api_key_invalid": Kind(401, AUTHENTICATION, "The API key is not known.", "Check that the key is complete and belongs to this service."),
    "api_key_revoked": Kind(401, AUTHENTICATION, "The API key was revoked.", "Use another key of the project."),
    "permission_denied": Kind(403, "permission_error", "The key may not do this.", "Use a key with the permission."),
    "resource_not_found": Kind(404, INVALID_REQUEST, "No such object for this key's project and mode (400 where the id was named in the body).", "Check the id, and that the key is of the same project and mode."),
    "route_not_found": Kind(404, INVALID_REQUEST, "No endpoint has this path.", "Check the path; paths have no trailing slash."),
    "method_not_allowed": Kind(405, INVALID_REQUEST, "The path does not take this method.", "Use one of the methods in the `Allow` header."),
    "invalid_status_transition": Kind(409, CONFLICT, "The object's present status does not allow the change.", "Retrieve the object and decide anew."),
    "customer_deleted": Kind(409, CONFLICT, "The customer is deleted.", "Use a live customer."),
    "customer_phone_missing": Kind(409, CONFLICT, "The customer has no phone number to call.", "Give the customer a phone first."),
    "appointment_deleted": Kind(409, CONFLICT, "The appointment is deleted.", "Use a live appointment."),
    "call_in_progress": Kind(409, CONFLICT, "The customer already has a call queued or under way.", "Wait until that session has ended."),
    "call_limit_reached": Kind(409, CONFLICT, "The project has as many live calls as its operator allows, at once or today.", "Try again when calls have ended or the day (UTC) has, or ask the operator for more."),
    "appointment_cancelled": Kind(409, CONFLICT, "The appointment is cancelled.", "Use an appointment that still stands."),
    "consent_request_limited": Kind(409, CONFLICT, "The customer was asked for call consent too often.", "Try again after the limit's window, a day or a week."),
    "conversation_ended": Kind(409, CONFLICT, "The conversation has ended.", "Open a new one."),
    "conversation_exists": Kind(409, CONFLICT, "An active conversation has this external_id.", "Use it, or end it first."),
    "conversation_busy": Kind(409, CONFLICT, "The agent is still answering the previous message.", "Retry after the reply."),
    "delivery_in_progress": Kind(409, CONFLICT, "A delivery of this event to this endpoint is still being attempted.", "Wait until it has ended."),
    "webhook_endpoint_disabled": Kind(409, CONFLICT, "The webhook endpoint is disabled.", "Enable it first."),
    "webhook_endpoint_limit": Kind(409, CONFLICT, "The project has 16 webhook endpoints in this mode already.", "Delete one first."),
    "conflict": Kind(409, CONFLICT, "The object was being changed by others all the while.", "Retry the request."),
    "idempotency_key_in_use": Kind(409, IDEMPOTENCY, "A request with this Idempotency-Key is being carried out right now.", "Retry after a second."),
    "request_too_large": Kind(413, INVALID_REQUEST, "The body is larger than 256 KiB.", "Send less."),
    "unsupported_media_type": Kind(415, INVALID_REQUEST, "The body is not `application/json`.", "Send `Content-Type: application/json`, unencoded."),
    "rate_limit_exceeded": Kind(429, "rate_limit_error", "The key made more than 100 requests in a second or 5000 in a minute.", "Wait for `Retry-After` seconds."),
    "internal_error": Kind(500, "api_error", "Something went wrong on our side.", "Retry with the same Idempotency-Key; quote `request_id` to support."),
    "service_unavailable": Kind(503, "api_error", "The service is overloaded for the moment.", "Retry after `Retry-After` seconds."),
    "agent_timeout": Kind(504, "api_error", "The agent did not reply within the window.", "Read the reply from the conversation's messages."),
}
# fmt: on

PASSING = frozenset(
    {
        "idempotency_key_in_use",
        "conversation_busy",
        "call_in_progress",
        "call_limit_reached",
        "delivery_in_progress",
        "consent_request_limited",
        "conflict",
    }
)
RETRYABLE = frozenset(
    {"idempotency_key_in_use", "conversation_busy", "conflict", "rate_limit_exceeded", "service_unavailable"}
)
"""Codes whose responses say `Service-Should-Retry: true`, whatever the request was (contract 1)."""


class ApiError(Exception):
    """An error response. `param` names the offending parameter, `headers` and fields `extra` go with the answer."""

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
    """404 for an id in a path that names nothing for this key."""
    return ApiError("resource_not_found", f"No such {what}: '{id[:64]}'.", param="id")


def not_found_in_body(what: str, id: str, param: str) -> ApiError:
    """400 for an id in a body that names nothing for this key."""
    return ApiError("resource_not_found", f"No such {what}: '{id[:64]}'.", param=param, status=400)
