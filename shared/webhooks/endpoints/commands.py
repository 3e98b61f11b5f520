"""What can be done with a webhook endpoint: create, update, disable, delete it, and rotate its secret (promises 9).

A command returns the endpoint afterwards and the writes of one transaction, which the caller commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from shared.core import clock
from shared.core.errors import ApiError, Code
from shared.resources.documents import apply_changes, changes_of, revise
from shared.store import table
from shared.store.keys import Scope
from shared.store.transactions import Change
from shared.webhooks import signing
from shared.webhooks.endpoints.resource import (
    HEALTH,
    LIMIT,
    WEBHOOK_ENDPOINTS,
    DeletedWebhookEndpoint,
    DisabledReason,
    SecretRotation,
    WebhookEndpoint,
    WebhookEndpointCreate,
    WebhookEndpointPatch,
    WebhookEndpointRecord,
    WebhookEndpointRow,
    WebhookEndpointWithSecret,
)

_GENERATIONS = 100
_TOMBSTONE_MS = 31 * clock.DAY  # Longer than deliveries are kept: it tells when those that wait were canceled.


def create(scope: Scope, body: WebhookEndpointCreate) -> Change[WebhookEndpointWithSecret]:
    """Create an endpoint. The writes raise `webhook_endpoint_limit` if there are `LIMIT` already."""
    secret = signing.new_secret()
    endpoint = new(scope, body, secret)
    ciphertext, generation = signing.encrypt(endpoint["id"], secret), 0 if body.enabled else 1
    count = table.Update(
        scope.pk("count"),
        WEBHOOK_ENDPOINTS.kind,
        add={"n": 1},
        condition=table.equals("n", None) | table.below("n", LIMIT),
        refusal=table.Refusal(lambda _: ApiError(Code.WEBHOOK_ENDPOINT_LIMIT)),
    )
    inserts = WEBHOOK_ENDPOINTS.insert_writes(scope, endpoint, {"secret": ciphertext, "generation": generation})
    return Change({**endpoint, "secret": secret}, [*inserts, count])


def new(scope: Scope, body: WebhookEndpointCreate, secret: str) -> WebhookEndpoint:
    """A new endpoint, which is not stored."""
    return {
        **WEBHOOK_ENDPOINTS.common_fields(scope),
        "object": "webhook_endpoint",
        "url": body.url,
        **_state(None if body.enabled else DisabledReason.MANUAL),
        "event_filters": body.event_filters or [],
        "label": body.label,
        "description": body.description,
        "secret_prefix": secret[: signing.PREFIX_CHARACTERS],
        "previous_secret_expires_at": None,
    }


def update(scope: Scope, record: WebhookEndpointRecord, patch: WebhookEndpointPatch) -> Change[WebhookEndpoint]:
    """Apply a merge patch to an endpoint as it was read."""
    before, changes = record.doc, changes_of(patch, record.doc)
    if "event_filters" in changes:
        changes["event_filters"] = changes["event_filters"] or []
    if changes.get("enabled", before["enabled"]) != before["enabled"]:
        changes |= _state(None if changes["enabled"] else DisabledReason.MANUAL)
    endpoint = apply_changes(before, changes)
    return Change(endpoint, [] if endpoint is before else _replace_writes(scope, record, endpoint))


def disable(scope: Scope, record: WebhookEndpointRecord, reason: DisabledReason) -> Change[WebhookEndpoint]:
    """Disable an endpoint. Nothing changes if it is disabled already."""
    if not record.doc["enabled"]:
        return Change(record.doc)
    disabled: WebhookEndpoint = {**record.doc, **_state(reason)}
    endpoint = revise(record.doc, disabled)
    return Change(endpoint, _replace_writes(scope, record, endpoint))


def rotate_secret(scope: Scope, id: str, options: SecretRotation) -> Change[WebhookEndpointWithSecret]:
    """Replace the signing secret of an endpoint. Raises `resource_not_found`.

    The replaced secret stays valid as long as the options say. One that was replaced earlier is invalid at once.
    """
    record, secret = WEBHOOK_ENDPOINTS.find(scope, id), signing.new_secret()
    valid_s = options.previous_secret_valid_seconds or 0
    rotated: WebhookEndpoint = {
        **record.doc,
        "secret_prefix": secret[: signing.PREFIX_CHARACTERS],
        "previous_secret_expires_at": clock.iso(clock.now() + valid_s * clock.SECOND) if valid_s else None,
    }
    endpoint = revise(record.doc, rotated)
    ciphertexts: dict[str, table.Value | None] = {
        "secret": signing.encrypt(endpoint["id"], secret),
        "previous_secret": record.row["secret"] if valid_s else None,
    }
    return Change({**endpoint, "secret": secret}, _replace_writes(scope, record, endpoint, ciphertexts))


def delete(scope: Scope, record: WebhookEndpointRecord) -> Change[DeletedWebhookEndpoint]:
    """Delete an endpoint as it was read. Its row keeps the time of the deletion for its waiting deliveries."""
    now = clock.now()
    # The row loses both secrets.
    doc: WebhookEndpoint = {**record.doc, "previous_secret_expires_at": None}
    doc["disabled_at"] = doc["disabled_at"] or clock.iso(now)
    kept = {"secret": b"-", "expires_at": table.expiry(now + _TOMBSTONE_MS), **_next_generation(record.row, now)}
    count = table.Update(scope.pk("count"), WEBHOOK_ENDPOINTS.kind, add={"n": -1})
    deleted: DeletedWebhookEndpoint = {"id": doc["id"], "object": "webhook_endpoint", "deleted": True}
    return Change(deleted, [*WEBHOOK_ENDPOINTS.deletion_writes(scope, record, doc, kept), count])


class _State(TypedDict):
    enabled: bool
    disabled_at: str | None
    disabled_reason: DisabledReason | None


def _state(reason: DisabledReason | None) -> _State:
    """The fields of an endpoint that is disabled now for this reason; None enables it."""
    disabled_at = None if reason is None else clock.iso(clock.now())
    return {"enabled": reason is None, "disabled_at": disabled_at, "disabled_reason": reason}


def _replace_writes(
    scope: Scope,
    record: WebhookEndpointRecord,
    endpoint: WebhookEndpoint,
    ciphertexts: table.Attributes | None = None,
) -> Sequence[table.Write]:
    """The writes of a changed endpoint. Disabling starts a new generation; enabling or a new URL resets the health."""
    before = record.doc
    internal = dict(ciphertexts or {})
    if before["enabled"] and endpoint["disabled_at"] is not None:
        internal |= _next_generation(record.row, clock.parse(endpoint["disabled_at"]))
    if (endpoint["enabled"] and not before["enabled"]) or endpoint["url"] != before["url"]:
        internal |= dict.fromkeys(HEALTH)
    return WEBHOOK_ENDPOINTS.replace_writes(scope, record, endpoint, internal)


def _next_generation(row: WebhookEndpointRow, now: clock.Instant) -> dict[str, table.Value]:
    """The attributes that end the current generation now. The ends of the last `_GENERATIONS` are stored."""
    generation = row["generation"]
    closed = {**row.get("closed", {}), str(generation): now}
    latest = sorted(closed.items(), key=lambda item: int(item[0]))[-_GENERATIONS:]
    return {"generation": generation + 1, "closed": dict(latest)}
