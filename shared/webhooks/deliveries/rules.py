"""The rules of deliveries: what follows an attempt, and who may change a delivery. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from shared.core.limits import RETRY_SCHEDULE_S
from shared.store import table
from shared.webhooks.endpoints.resource import Snapshot


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


class Phase(Enum):
    """The state of a delivery that decides who may change it."""

    ENDED = "The delivery has ended and never changes."
    UNDER_WAY = "A worker, which may be dead, has claimed it. The outcome of its attempt decides."
    WAITING = "Its next attempt is scheduled."
    CLOSED = "Its endpoint was disabled or deleted since, so it must be canceled."


def phase(row: table.Row, endpoint: Snapshot | None, token: str | None = None) -> Phase:
    """The phase of a delivery's row, or its phase for the worker whose claim has this token."""
    if "due_at" not in row:
        return Phase.ENDED
    # A claim with an expired lease counts too: its worker may have sent the event.
    if "lease" in row and row["lease"] != token:
        return Phase.UNDER_WAY
    # The row may be newer than the snapshot of the endpoint, so the generations need not be equal.
    if endpoint is None or endpoint.generation > row["generation"]:
        return Phase.CLOSED
    return Phase.WAITING
