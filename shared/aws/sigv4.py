"""Signature Version 4, which authenticates requests to AWS (IAM user guide, "Create a signed AWS API request").

Requests of the AWS JSON protocol have no query, so none is signed.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
from collections.abc import Mapping

_ALGORITHM = "AWS4-HMAC-SHA256"


def authorization(
    access_key_id: str,
    secret_access_key: str,
    *,
    region: str,
    service: str,
    headers: Mapping[str, str],
    body: bytes,
    path: str = "/",
) -> str:
    """The `Authorization` header of a POST request.

    `headers` are those to sign, with lower-case names. They must include `host` and `x-amz-date`, the time of the
    signature.
    """
    at = headers["x-amz-date"]
    names = sorted(headers)
    lines = "".join([f"{name}:{' '.join(headers[name].split())}\n" for name in names])
    signed = ";".join(names)
    canonical = f"POST\n{path}\n\n{lines}\n{signed}\n{hashlib.sha256(body).hexdigest()}"
    day = at[:8]
    scope = f"{day}/{region}/{service}/aws4_request"
    text = f"{_ALGORITHM}\n{at}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = _day_key(secret_access_key, day, region, service)
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    return f"{_ALGORITHM} Credential={access_key_id}/{scope}, SignedHeaders={signed}, Signature={signature}"


@functools.lru_cache(maxsize=16)
def _day_key(secret_access_key: str, day: str, region: str, service: str) -> bytes:
    """The signing key of a day, which is the same for all requests to a service."""
    key = f"AWS4{secret_access_key}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
