"""The error codes of an operation, and the responses with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from infra.gateway_responses import GATEWAY_RESPONSES
from infra.openapi import headers
from infra.openapi.schemas import Schema, opened, ref
from shared.api.routes import Operation
from shared.core import api_description
from shared.core.errors import ERRORS, Code
from shared.resources import fields, schema

_ALWAYS = (
    "parameter_unknown",
    "api_version_invalid",
    "api_key_missing",
    "api_key_invalid",
    "api_key_revoked",
    "api_key_expired",
    "permission_denied",
    "rate_limit_exceeded",
    "internal_error",
    "service_unavailable",
)
_WITH_BODY = (
    "invalid_json",
    "request_too_large",
    "unsupported_media_type",
    "idempotency_key_invalid",
    "idempotency_key_reused",
    "idempotency_key_in_use",
    "conflict",
)
_LISTS = ("cursor_invalid", "parameter_invalid", "parameter_invalid_integer")
_PARAMS = {
    "parameter_missing": "customer_id",
    "parameter_unknown": "nmae",
    "parameter_invalid": "status",
    "parameter_invalid_integer": "duration_minutes",
    "parameter_invalid_empty": "phone",
    "parameters_exclusive": "customer",
    "phone_invalid_format": "phone",
    "email_invalid": "email",
    "url_invalid": "url",
    "datetime_invalid": "appointment_at",
    "metadata_invalid": "metadata[notes]",
    "cursor_invalid": "starting_after",
    "event_filter_invalid": "event_filters[0]",
    "api_version_invalid": "Service-Version",
    "idempotency_key_invalid": "Idempotency-Key",
    "idempotency_key_reused": "Idempotency-Key",
    "resource_not_found": "id",
    "invalid_status_transition": "status",
    "conversation_exists": "external_id",
}
"""The parameter in the example of a code. Examples of other codes have none."""
_SHARED = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    413: "ContentTooLarge",
    415: "UnsupportedMediaType",
    429: "TooManyRequests",
    500: "InternalServerError",
    503: "ServiceUnavailable",
    504: "GatewayTimeout",
}
"""Responses with the same codes in every operation that has them."""
_BY_GATEWAY = {response.status for response in GATEWAY_RESPONSES} - {404}
"""Statuses that the gateway responds with, too. Its 404 is for paths without operations."""
_DESCRIPTIONS = {
    400: "The request is not valid.",
    401: "The API key is missing or not valid.",
    403: "The request is not allowed.",
    404: "The resource does not exist.",
    409: "The state of a resource does not allow the request.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    429: "The rate limit is exceeded.",
    500: "An internal error occurred.",
    503: "The service is temporarily unavailable.",
    504: "The agent did not reply in time.",
}


def of(method: str, path: str, operation: Operation, in_body: Iterable[str]) -> Mapping[int, list[str]]:
    """The error codes of an operation by status. `in_body` are those of invalid values in its body."""
    statuses: dict[int, set[str]] = {}

    def add(code: str, status: int | None = None) -> None:
        statuses.setdefault(status or ERRORS[Code(code)].status, set()).add(code)

    for code in _ALWAYS:
        add(code)
    if method in ("POST", "PATCH"):
        for code in _WITH_BODY:
            add(code)
    if method == "DELETE":
        add("conflict")
    if operation.body is not fields.Nothing:
        for code in in_body:
            add(code, 400)
    if operation.lists is not None:
        for code in (*_LISTS, *_of_filters(operation)):
            add(code)
    for code in operation.errors:
        # Without an id in the path, its status is 400, except in a retry whose work was erased.
        if code != "resource_not_found" or "{" in path or operation.deferred_body is not None:
            add(code)
    order = [*ERRORS]
    return {status: sorted(statuses[status], key=lambda code: order.index(Code(code))) for status in sorted(statuses)}


def responses(codes: Mapping[int, list[str]], method: str) -> dict[str, Schema]:
    """The error responses of an operation."""
    return {
        str(status): {"$ref": f"#/components/responses/{_SHARED[status]}"}
        if status in _SHARED
        else _response(status, found, method)
        for status, found in codes.items()
    }


def shared_responses(all_codes: Iterable[Mapping[int, list[str]]]) -> dict[str, Schema]:
    """The responses that operations share, by name."""
    by_status: dict[int, list[str]] = {}
    for codes in all_codes:
        for status, found in codes.items():
            if status in _SHARED:
                assert by_status.setdefault(status, found) == found, f"{status} has other codes in other operations"
    return {_SHARED[status]: _response(status, found, "") for status, found in sorted(by_status.items())}


def schemas() -> dict[str, Schema]:
    """The schemas of error bodies."""
    types = list(dict.fromkeys(kind.type for kind in ERRORS.values()))
    properties = {
        "type": {
            **ref("ErrorTypeValue"),
            "description": "The kind of the error.",
        },
        "code": {
            **ref("ErrorCodeValue"),
            "description": "The error, for programs.",
        },
        "message": {"type": "string", "description": "The error, for people. The text may change."},
        "param": {
            "type": "string",
            "description": "The parameter at fault, if there is one; with brackets for nesting: `customer[phone]`.",
        },
        "request_id": {"type": "string", "description": "The value of the `Service-Request-Id` header."},
        "doc_url": {"type": "string", "format": "uri", "description": "A page that explains the code."},
        "conversation_id": {"type": "string", "description": "Only with `agent_timeout`: the conversation."},
        "message_id": {"type": "string", "description": "Only with `agent_timeout`: the message that is stored."},
    }
    return {
        "Error": {
            "type": "object",
            "description": "The body of every response with a status of 400 or above.",
            "required": ["error"],
            "properties": {"error": ref("ErrorDetails") | {"description": "What is wrong."}},
        },
        "ErrorType": {"type": "string", "enum": types},
        "ErrorTypeValue": opened(ref("ErrorType")),
        "ErrorCode": {"type": "string", "enum": [*ERRORS]},
        "ErrorCodeValue": opened(ref("ErrorCode")),
        "ErrorDetails": {
            "type": "object",
            "description": "What is wrong with a request.",
            "required": ["type", "code", "message", "request_id", "doc_url"],
            "properties": properties,
        },
    }


def examples(all_codes: Iterable[Mapping[int, list[str]]]) -> dict[str, Schema]:
    """An example of each error that an operation has, by its code."""
    used = {code for codes in all_codes for found in codes.values() for code in found}
    return {
        code: {"summary": kind.meaning, "value": {"error": _example(code)}}
        for code, kind in ERRORS.items()
        if code in used
    }


def _example(code: str) -> Schema:
    kind = ERRORS[Code(code)]
    found = {"type": kind.type, "code": code, "message": f"{kind.meaning} {kind.remedy}"}
    if code in _PARAMS:
        found["param"] = _PARAMS[code]
    if code == "agent_timeout":
        found |= {
            "conversation_id": "conv_01kacx5d6n8q2r4s6t8v0w1x2y",
            "message_id": "msg_01kacx5d6n8q2r4s6t8v0w1x2z",
        }
    return found | {
        "request_id": "req_01kacx5d6n8q2r4s6t8v0w1x2y",
        "doc_url": f"{api_description.DESCRIBED_SERVER}/docs/errors#{code}",
    }


def _of_filters(operation: Operation) -> set[str]:
    assert operation.lists is not None
    parameters = operation.lists.parameters
    codes = {one.keywords[schema.CODE] for one in parameters.filters.values() if schema.CODE in one.keywords}
    times = {parameters.created, operation.lists.indexes.time_field} - {None, "created"}
    return codes | ({"datetime_invalid"} if times else set())


def _response(status: int, codes: list[str], method: str) -> Schema:
    lines = [f"- `{code}`: {ERRORS[Code(code)].meaning}" for code in codes]
    return {
        "description": "\n".join([_DESCRIPTIONS[status], "", *lines]),
        "headers": headers.of_error(status, method, by_gateway=status in _BY_GATEWAY),
        "content": {
            "application/json": {
                "schema": ref("Error"),
                "examples": {code: {"$ref": f"#/components/examples/{code}"} for code in codes},
            }
        },
    }
