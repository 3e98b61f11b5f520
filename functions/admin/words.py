"""What the admin pages say: statuses, errors, actions and spans of time in words."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping

from shared.core import clock

DELIVERY_STATUS = {
    "attempting": "In progress",
    "succeeded": "Delivered",
    "failed": "Failed",
    "canceled": "Canceled",
}
DELIVERY_TRIGGER = {"automatic": "Sent automatically", "manual": "Replay", "test": "Test event"}
DELIVERY_ERROR = {
    "timeout": "No complete response within 15 seconds",
    "connection_refused": "The connection failed",
    "dns_error": "The host name could not be resolved",
    "tls_error": "The TLS certificate or connection is not valid",
    "redirect": "The receiver redirected; redirects are not followed",
    "http_error": "The receiver did not respond with a 2xx status",
    "url_blocked": "The host name resolves to an address that is not public",
    "endpoint_disabled": "The endpoint was disabled or deleted",
    "worker_lost": "The service failed to finish this attempt",
}
ACTION = {
    "api_key.created": "Created an API key",
    "api_key.revoked": "Revoked an API key",
    "delivery.replayed": "Replayed a delivery",
    "member.added": "Added a member",
    "member.joined": "Signed in for the first time",
    "member.removed": "Removed a member",
    "member.role_changed": "Gave a member another role",
}
ROLE = {
    "viewer": "can see everything and change nothing",
    "member": "can see everything and retry deliveries",
    "owner": "can also manage API keys and members",
}
_UNITS = ((clock.DAY, "d"), (clock.HOUR, "h"), (clock.MINUTE, "min"), (clock.SECOND, "s"))


def from_now(iso: str) -> str:
    """A time as the span from or until now: `in 4 min`, `4 min ago`, `now`."""
    span = clock.parse(iso) - clock.now()
    size, unit = next(((size, unit) for size, unit in _UNITS if abs(span) >= size), (0, ""))
    if not size:
        return "now"
    amount = f"{round(abs(span) / size)} {unit}"
    return f"in {amount}" if span > 0 else f"{amount} ago"


def milliseconds(amount: int) -> str:
    """A duration: `320 ms`, `15.0 s`."""
    return f"{amount} ms" if amount < clock.SECOND else f"{amount / clock.SECOND:.1f} s"


def of_seconds(unix: int) -> str:
    """Unix seconds as the API's text of a time."""
    return clock.iso(unix * clock.SECOND)


def query(parameters: Mapping[str, str], **more: str) -> str:
    """A URL's query with the parameters that have a value."""
    return urllib.parse.urlencode({name: value for name, value in {**parameters, **more}.items() if value})
