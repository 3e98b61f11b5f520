"""What API Gateway answers when it refuses or fails a request itself: the API's error envelope, as data.

A response template of the gateway only fills in variables, unescaped. So the messages are fixed text
(`$context.error.message` may hold quotes), and every variable used here is one that the gateway writes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class GatewayResponse:
    """The answer to one kind of the gateway's own errors; without `status`, the gateway's own status stays.

    `kind` is the gateway's name of the error; `headers` are fixed values.
    """

    kind: str
    status: int | None
    type: str
    code: str
    message: str
    retry: bool = False
    headers: tuple[tuple[str, str], ...] = ()

    def body(self, *, at_root: bool = False) -> str:
        """The template of the response's JSON body; `at_root` where the API has a host name, without a stage path."""
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
        """Header name to the gateway's expression for its value: a variable, or a constant in quotes."""
        fixed = (
            ("Cache-Control", "no-store"),
            ("Service-Should-Retry", "true" if self.retry else "false"),
            *self.headers,
        )
        return {"Service-Request-Id": "context.requestId"} | {name: f"'{value}'" for name, value in fixed}


_INVALID_REQUEST = "invalid_request_error"
_NO_ROUTE = (404, _INVALID_REQUEST, "route_not_found", "No endpoint has this path.")
_THROTTLED = (429, "rate_limit_error", "rate_limit_exceeded", "The service takes no more requests right now.")
_WAIT = (("Retry-After", "1"), ("Service-Rate-Limited-Reason", "second"))
# A function that was throttled, failed or took too long. Whether the work was done is unknown: no advice to repeat it.
_FAILED = (
    503,
    "api_error",
    "service_unavailable",
    "The service did not answer; the request may have been carried out.",
)
_LATER = (("Retry-After", "5"),)

GATEWAY_RESPONSES = (
    GatewayResponse("DEFAULT_4XX", None, _INVALID_REQUEST, "parameter_invalid", "The request could not be understood."),
    GatewayResponse("DEFAULT_5XX", *_FAILED, headers=_LATER),
    GatewayResponse("INTEGRATION_FAILURE", *_FAILED, headers=_LATER),
    GatewayResponse("INTEGRATION_TIMEOUT", *_FAILED, headers=_LATER),
    GatewayResponse("API_CONFIGURATION_ERROR", *_FAILED, headers=_LATER),
    # No method asks for a signature, so these three mean that no method was found: without an
    # Authorization header, and with one that the gateway tries to read as a signature of AWS's.
    GatewayResponse("MISSING_AUTHENTICATION_TOKEN", *_NO_ROUTE),
    GatewayResponse("INVALID_SIGNATURE", *_NO_ROUTE),
    GatewayResponse("EXPIRED_TOKEN", *_NO_ROUTE),
    GatewayResponse("RESOURCE_NOT_FOUND", *_NO_ROUTE),
    GatewayResponse("ACCESS_DENIED", 403, "permission_error", "permission_denied", "The request is refused."),
    GatewayResponse("WAF_FILTERED", 403, "permission_error", "permission_denied", "The request is refused."),
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
