"""The responses of API Gateway to requests that it rejects or fails itself: the API's error envelope, as data.

A response template inserts variables without escaping them. Therefore the messages are fixed text
(`$context.error.message` may contain quotes), and the gateway itself generates every variable used here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class GatewayResponse:
    """The response to one kind of gateway error. If `status` is None, the gateway's status is unchanged.

    `kind` is the gateway's name of the error. `headers` have fixed values.
    """

    kind: str
    status: int | None
    type: str
    code: str
    message: str
    retry: bool = False
    headers: tuple[tuple[str, str], ...] = ()

    def body(self, *, at_root: bool = False) -> str:
        """The template of the JSON body. `at_root`: the API has its own host name, so URLs have no stage path."""
        base = "https://$context.domainName" if at_root else "https://$context.domainName/$context.stage"
        error = {
            "type": self.type,
            "code": self.code,
            "message": self.message,
            "request_id": "$context.requestId",
            "doc_url": f"{base}/docs/errors#{self.code}",
        }
        return json.dumps({"error": error}, separators=(",", ":"))

    def header_mappings(self) -> dict[str, str]:
        """Header names and the gateway's expressions for their values: a variable, or a constant in quotes."""
        fixed = (
            ("Cache-Control", "no-store"),
            ("Service-Should-Retry", "true" if self.retry else "false"),
            *self.headers,
        )
        return {"Service-Request-Id": "context.requestId"} | {name: f"'{value}'" for name, value in fixed}


_INVALID_REQUEST = "invalid_request_error"
_NO_ROUTE = (404, _INVALID_REQUEST, "route_not_found", "No operation has this path.")
_THROTTLED = (
    429,
    "rate_limit_error",
    "rate_limit_exceeded",
    "The service cannot accept more requests right now. Retry later.",
)
_WAIT = (("Retry-After", "1"), ("Service-Rate-Limited-Reason", "second"))
# A function was throttled, failed or timed out. Whether the work was done is unknown, so a retry is not advised.
_FAILED = (
    503,
    "api_error",
    "service_unavailable",
    "The service did not respond. The request may have been processed.",
)
_LATER = (("Retry-After", "5"),)

GATEWAY_RESPONSES = (
    GatewayResponse("DEFAULT_4XX", None, _INVALID_REQUEST, "parameter_invalid", "The request is invalid."),
    GatewayResponse("DEFAULT_5XX", *_FAILED, headers=_LATER),
    GatewayResponse("INTEGRATION_FAILURE", *_FAILED, headers=_LATER),
    GatewayResponse("INTEGRATION_TIMEOUT", *_FAILED, headers=_LATER),
    GatewayResponse("API_CONFIGURATION_ERROR", *_FAILED, headers=_LATER),
    # No method requires a signature, so these three mean that no method matches: the request has no Authorization
    # header, or the gateway tries to parse the header as an AWS signature.
    GatewayResponse("MISSING_AUTHENTICATION_TOKEN", *_NO_ROUTE),
    GatewayResponse("INVALID_SIGNATURE", *_NO_ROUTE),
    GatewayResponse("EXPIRED_TOKEN", *_NO_ROUTE),
    GatewayResponse("RESOURCE_NOT_FOUND", *_NO_ROUTE),
    GatewayResponse("ACCESS_DENIED", 403, "permission_error", "permission_denied", "The request is not allowed."),
    GatewayResponse("WAF_FILTERED", 403, "permission_error", "permission_denied", "The request is not allowed."),
    GatewayResponse(
        "REQUEST_TOO_LARGE", 413, _INVALID_REQUEST, "request_too_large", "The body is larger than 256 KiB."
    ),
    GatewayResponse(
        "UNSUPPORTED_MEDIA_TYPE",
        415,
        _INVALID_REQUEST,
        "unsupported_media_type",
        "The body is not `application/json`.",
    ),
    GatewayResponse("THROTTLED", *_THROTTLED, retry=True, headers=_WAIT),
    GatewayResponse("QUOTA_EXCEEDED", *_THROTTLED, retry=True, headers=_WAIT),
)
