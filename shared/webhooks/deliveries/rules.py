"""The rules of deliveries: what follows an attempt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from shared.core.limits import RETRY_SCHEDULE_S


class DeliveryStatus(StrEnum):
    """The status of a delivery (promises 9)."""

    ATTEMPTING = "attempting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


class DeliveryError(StrEnum):
    """Why an attempt failed, or why a delivery ended without one (promises 9)."""

    TIMEOUT = "timeout"
    CONNECTION_REFUSED = "connection_refused"
    DNS_ERROR = "dns_error"
    TLS_ERROR = "tls_error"
    REDIRECT = "redirect"
    HTTP_ERROR = "http_error"
    URL_BLOCKED = "url_blocked"
    ENDPOINT_DISABLED = "endpoint_disabled"
    WORKER_LOST = "worker_lost"


@dataclass(frozen=True)
class Outcome:
    """The outcome of an attempt: of one POST to the endpoint."""

    status: int | None
    """The HTTP status. None without a complete response head."""
    error: DeliveryError | None
    """None for a success (`http_client.py` has the meaning of each error)."""
    body: str | None
    """The start of the response body: at most 1 KiB of UTF-8 without control characters. None without a head."""
    duration_ms: int
    """Milliseconds from the start of the exchange to its outcome."""


@dataclass(frozen=True)
class Retry:
    """There is another attempt, `wait_s` seconds (not scaled) after the end of this one."""

    wait_s: int


@dataclass(frozen=True)
class Ended:
    """There is no other attempt. `gone` if the receiver responded with 410."""

    status: DeliveryStatus
    gone: bool = False


def next_step(number: int, outcome: Outcome, *, closed: bool = False) -> Retry | Ended:
    """The step after attempt `number` (from 1). `closed` if the endpoint was disabled or deleted during the attempt."""
    if outcome.error is None:
        return Ended(DeliveryStatus.SUCCEEDED)
    if closed:
        return Ended(DeliveryStatus.CANCELED)
    if outcome.status is not None and 400 <= outcome.status < 500 and outcome.status not in (408, 429):
        return Ended(DeliveryStatus.FAILED, gone=outcome.status == 410)
    return Retry(RETRY_SCHEDULE_S[number]) if number < len(RETRY_SCHEDULE_S) else Ended(DeliveryStatus.FAILED)
