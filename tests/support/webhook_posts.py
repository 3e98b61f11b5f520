"""A request of the webhook client to a receiver."""

from shared.webhooks.http_client import AttemptOutcome, WebhookClient

BODY = b'{"id":"evt_1"}'
HEADERS = {"Content-Type": "application/json", "webhook-id": "evt_1"}
PLENTY = 60.0
"""A deadline for exchanges that are to end in another way; none waits for it."""


def send(client: WebhookClient, url: str, *, deadline: float = PLENTY, allow_loopback: bool = True) -> AttemptOutcome:
    return client.post(url, HEADERS, BODY, allow_loopback=allow_loopback, deadline_s=deadline)
