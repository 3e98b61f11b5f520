"""Webhook endpoints: where events are sent (promises 9).

The `generation` in an endpoint's row counts how often it was disabled or deleted; deliveries of an earlier generation
are canceled. `slow_attempts`, `slow_until`, `timeouts` and `busy_until` mark slow, hanging and busy endpoints
(`queues.py`), `failing_since` one whose attempts have all failed since.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from shared.core import clock
from shared.core.errors import ApiError, Code
from shared.core.facts import EVENT_TYPES
from shared.resources import documents, fields
from shared.resources.collections import Collection, Record
from shared.resources.documents import Resource, ResourceRow
from shared.resources.schema import Keywords, Time, WebhookEndpointId, at_most, one_of
from shared.store import table
from shared.store.keys import Scope
from shared.webhooks import signing, urls
from shared.webhooks.events import FAMILIES

LIMIT = 16
"""The most endpoints of a project and mode."""
FILTERS_LIMIT = 50
FAILING_LIMIT = 5 * 24 * 3600
"""Seconds, scaled, for which every attempt must have failed before an endpoint is disabled."""
EventFilter = Annotated[str, Keywords(code="event_filter_invalid", name="EventFilter", enum=[*EVENT_TYPES, *FAMILIES])]
"""An event type, or a wildcard for the types of a kind of resource."""
HANGING_FROM = 3
"""The timeouts in a row after which an endpoint is hanging."""
HEALTH = ("failing_since", "noticed", "slow_attempts", "timeouts", "slow_until", "busy_until")
"""The attributes of a row that follow from attempts. A new URL and enabling remove them."""
_GENERATIONS = 100
_TOMBSTONE = 31 * clock.DAY  # Longer than deliveries are kept: it tells when those that wait were canceled.


class WebhookEndpoint(Resource):
    """A receiver of events (promises 9). Id prefix `whk_`."""

    id: WebhookEndpointId
    """The endpoint's id. Never changes."""
    object: Literal["webhook_endpoint"]
    """The type of the object. Never changes."""
    url: Annotated[str, Keywords(format="uri", maxLength=urls.MAX_URL_LENGTH)]
    """The https URL that receives POSTs, at most 2048 characters."""
    enabled: bool
    """Nothing is sent to a disabled endpoint."""
    event_filters: list[EventFilter]
    """Event types or wildcards such as `appointment.*`; `[]` means all events."""
    label: Annotated[str, at_most(200)] | None
    """At most 200 characters. Null when unset."""
    description: Annotated[str, at_most(500)] | None
    """At most 500 characters. Null when unset."""
    secret_prefix: Annotated[str, Keywords(pattern="^whsec_", minLength=13, maxLength=13)]
    """The first 13 characters of the signing secret. Changes when the secret is rotated."""
    disabled_at: Time | None
    """When the endpoint was disabled. Null while it is enabled."""
    disabled_reason: Annotated[str, one_of(("manual", "gone", "failing"))] | None
    """`manual` (by a request), `gone` (the receiver responded with 410) or `failing` (for 5 days).

    Null while it is enabled.
    """


class WebhookEndpointWithSecret(WebhookEndpoint):
    """A webhook endpoint with its signing secret, in the responses of create and rotate_secret (promises 9)."""

    secret: Annotated[str, Keywords(pattern="^whsec_[A-Za-z0-9+/]{43}=$")]
    """The signing secret. No other response contains it."""


Url = Annotated[str, Keywords(code="url_invalid", format="uri", pattern="^https://", maxLength=urls.MAX_URL_LENGTH)]
Filters = Annotated[list[EventFilter], Keywords(maxItems=FILTERS_LIMIT)]


class WebhookEndpointCreate(fields.Input):
    """A new webhook endpoint (promises 9)."""

    url: Url
    """The https URL that receives POSTs: public, without credentials and fragment, at most 2048 characters."""
    event_filters: Filters | None = None
    """Event types or wildcards such as `appointment.*`. Null or empty: all events."""
    label: Annotated[str, fields.text(200)] | None = None
    """A name for the endpoint."""
    description: Annotated[str, fields.text(500)] | None = None
    """What the endpoint is for."""
    enabled: bool = True
    """Whether events are sent to the endpoint."""


class WebhookEndpointPatch(fields.Input):
    """A merge patch: an absent field keeps its value, null clears it."""

    url: Url = fields.ABSENT
    """The https URL that receives POSTs: public, without credentials and fragment, at most 2048 characters."""
    event_filters: Filters | None = None
    """Event types or wildcards such as `appointment.*`. Null or empty: all events."""
    label: Annotated[str, fields.text(200)] | None = None
    """A name for the endpoint."""
    description: Annotated[str, fields.text(500)] | None = None
    """What the endpoint is for."""
    enabled: bool = fields.ABSENT
    """Whether events are sent to the endpoint."""


class DeletedWebhookEndpoint(TypedDict):
    """The response of the deletion of an endpoint (promises 9)."""

    id: WebhookEndpointId
    """The id of the deleted endpoint."""
    object: Literal["webhook_endpoint"]
    """The type of the object."""
    deleted: Literal[True]
    """The endpoint no longer exists."""


class WebhookEndpointRow(ResourceRow):
    """An endpoint's row. A deleted endpoint's row moves to a partition of its own and expires after 31 days."""

    secret: bytes
    """The signing secret as KMS ciphertext."""
    generation: int
    """The number of times that the endpoint was disabled or deleted."""
    closed: NotRequired[dict[str, int]]
    """The end of each earlier generation (milliseconds), by its number."""
    slow_attempts: NotRequired[int]
    """Slow attempts in a row, counted up to the number that makes the endpoint slow."""
    timeouts: NotRequired[int]
    """Timeouts in a row, counted up to the number that makes the endpoint hanging."""
    slow_until: NotRequired[int]
    """Present while the endpoint counts as slow. A quick attempt after this instant (milliseconds) removes it."""
    busy_until: NotRequired[int]
    """Until when the endpoint counts as busy (milliseconds)."""
    failing_since: NotRequired[int]
    """The end of the first failed attempt since the last success (milliseconds). Absent after a success."""
    noticed: NotRequired[bool]
    """A notice has said that the endpoint is failing. Absent after a success."""


WEBHOOK_ENDPOINTS: Collection[WebhookEndpoint, WebhookEndpointRow] = Collection(
    kind="webhook_endpoint", prefix="whk_", created=None
)
WebhookEndpointRecord = Record[WebhookEndpoint, WebhookEndpointRow]


@dataclass(frozen=True)
class Snapshot:
    """An endpoint as it was when its row was read. It may have been deleted."""

    doc: WebhookEndpoint
    generation: int
    closed: Mapping[str, int]
    deleted: bool
    slow_attempts: int
    timeouts: int
    slow_until: int | None
    busy_until: int
    failing_since: int | None
    noticed: bool
    version: int
    secret: bytes

    @property
    def slow(self) -> bool:
        """Whether its last attempts took long. A quick attempt ends this after the mark's time (`queues.SLOW_FOR`)."""
        return self.slow_until is not None

    @property
    def hanging(self) -> bool:
        """Whether several attempts in a row timed out. An attempt with any other outcome ends this."""
        return self.timeouts >= HANGING_FROM

    @property
    def is_announced(self) -> bool:
        """Whether a notice has said that it is failing, or that it was disabled because of that."""
        return self.noticed if self.doc["enabled"] else self.doc["disabled_reason"] != "manual"

    @property
    def needs_attention(self) -> bool:
        """Whether its attempts fail, or it is disabled, so that events do not reach it."""
        return self.failing_since is not None or not self.doc["enabled"]

    def closed_at(self, generation: int) -> str | None:
        """When a generation ended. None if it has not ended, or if its end is no longer stored."""
        closed = self.closed.get(str(generation))
        return None if closed is None else clock.iso(closed)


def check_url(url: str) -> None:
    """Raises `url_invalid` for a URL that cannot receive events (promises 9)."""
    problem = urls.refuse_url(url, allow_loopback=loopback_allowed())
    if problem:
        raise ApiError(Code.URL_INVALID, problem, param="url")


def check_filters(filters: list[str]) -> None:
    """Raises `event_filter_invalid` for an unknown event type or wildcard, `parameter_invalid` for too many filters."""
    if len(filters) > FILTERS_LIMIT:
        message = f"At most {FILTERS_LIMIT} event filters are allowed."
        raise ApiError(Code.PARAMETER_INVALID, message, param="event_filters")
    for number, text in enumerate(filters):
        if text not in EVENT_TYPES and text not in FAMILIES:
            raise ApiError(
                Code.EVENT_FILTER_INVALID,
                f"Unknown event filter: {text[:60]}. Send an event type or one of {', '.join(FAMILIES)}.",
                param=f"event_filters[{number}]",
            )


def loopback_allowed() -> bool:
    """Whether loopback receivers are allowed. They are only on the local runner."""
    return os.environ.get("ALLOW_LOOPBACK_RECEIVERS") == "1"


def new(scope: Scope, values: Mapping[str, Any], secret: str) -> WebhookEndpoint:
    """A new endpoint with these fields."""
    endpoint: WebhookEndpoint = {
        **WEBHOOK_ENDPOINTS.common_fields(scope),
        "object": "webhook_endpoint",
        "url": values["url"],
        "enabled": True,
        "event_filters": values["event_filters"] or [],
        "label": values["label"],
        "description": values["description"],
        "secret_prefix": secret[: signing.PREFIX_CHARACTERS],
        "disabled_at": None,
        "disabled_reason": None,
    }
    return endpoint if values["enabled"] else disabled(endpoint, "manual")


def patched(endpoint: WebhookEndpoint, patch: Mapping[str, Any]) -> WebhookEndpoint | None:
    """The endpoint after a merge patch; None if nothing changes."""
    changes = dict(patch)
    if changes.get("enabled") is True and not endpoint["enabled"]:
        changes |= {"disabled_at": None, "disabled_reason": None}
    if changes.get("enabled") is False and endpoint["enabled"]:
        changes |= {"disabled_at": clock.iso(clock.now()), "disabled_reason": "manual"}
    return documents.changed(endpoint, changes)


def disabled(endpoint: WebhookEndpoint, reason: str) -> WebhookEndpoint:
    """The endpoint after it is disabled for this reason."""
    now = clock.iso(clock.now())
    return documents.touched(endpoint, {"enabled": False, "disabled_at": now, "disabled_reason": reason})


def with_secret(endpoint: WebhookEndpoint, secret: str) -> WebhookEndpoint:
    """The endpoint with the prefix of another signing secret."""
    return documents.touched(endpoint, {"secret_prefix": secret[: signing.PREFIX_CHARACTERS]})


def insertion(scope: Scope, endpoint: WebhookEndpoint, ciphertext: bytes) -> list[table.Write]:
    """The writes that create an endpoint. They raise `webhook_endpoint_limit` if there are `LIMIT` already."""
    generation = 0 if endpoint["enabled"] else 1
    return [
        WEBHOOK_ENDPOINTS.insert(scope, endpoint, secret=ciphertext, generation=generation),
        table.Update(
            scope.pk("count"),
            WEBHOOK_ENDPOINTS.kind,
            expressions=("n = if_not_exists(n, :zero) + :one",),
            condition="attribute_not_exists(n) OR n < :limit",
            values={":zero": 0, ":one": 1, ":limit": LIMIT},
            on_condition_failed=lambda old: ApiError(Code.WEBHOOK_ENDPOINT_LIMIT),
        ),
    ]


def update(
    scope: Scope, record: WebhookEndpointRecord, endpoint: WebhookEndpoint, *, secret: bytes | None = None
) -> table.Update:
    """The write of a changed endpoint. Disabling starts a new generation; enabling or a new URL resets the health."""
    before = record.doc
    internal: dict[str, table.Value | None] = {} if secret is None else {"secret": secret}
    if before["enabled"] and endpoint["disabled_at"] is not None:
        internal |= _next_generation(record.row, clock.parse(endpoint["disabled_at"]))
    if (endpoint["enabled"] and not before["enabled"]) or endpoint["url"] != before["url"]:
        internal |= dict.fromkeys(HEALTH)
    return WEBHOOK_ENDPOINTS.update(scope, record, endpoint, internal)


def deletion(scope: Scope, record: WebhookEndpointRecord) -> list[table.Write]:
    """The writes that delete an endpoint. They store the time of the deletion for its waiting deliveries."""
    now = clock.now()
    doc = record.doc if record.doc["disabled_at"] else {**record.doc, "disabled_at": clock.iso(now)}
    kept = {"secret": b"-", "expires_at": (now + _TOMBSTONE) // clock.SECOND, **_next_generation(record.row, now)}
    return [
        *WEBHOOK_ENDPOINTS.delete(scope, record, doc, kept),
        table.Update(scope.pk("count"), WEBHOOK_ENDPOINTS.kind, expressions=("n = n - :one",), values={":one": 1}),
    ]


def of_project(scope: Scope) -> list[Snapshot]:
    """All endpoints of a project and mode, including disabled ones."""
    return [snapshot(row) for page in table.query(scope.pk(WEBHOOK_ENDPOINTS.kind), limit=100) for row in page]


def read(scope: Scope, endpoint_ids: Iterable[str]) -> dict[str, Snapshot]:
    """The endpoints with these ids, by id. Those that were deleted more than 31 days ago are missing."""
    keys = [key for id in dict.fromkeys(endpoint_ids) for key in WEBHOOK_ENDPOINTS.row_keys(scope, id)]
    return {row["sk"]: snapshot(row) for row in table.get_many(keys).values()}


def snapshot(row: Mapping[str, Any]) -> Snapshot:
    """The endpoint of this row."""
    return Snapshot(
        doc=json.loads(row["doc"]),
        generation=row["generation"],
        closed=row.get("closed", {}),
        deleted=row["kind"] != WEBHOOK_ENDPOINTS.kind,
        slow_attempts=row.get("slow_attempts", 0),
        timeouts=row.get("timeouts", 0),
        slow_until=row.get("slow_until"),
        busy_until=row.get("busy_until", 0),
        failing_since=row.get("failing_since"),
        noticed=row.get("noticed", False),
        version=row["v"],
        secret=row["secret"],
    )


def set_health(scope: Scope, endpoint: Snapshot, **internal: table.Value | None) -> table.Update:
    """The write of an endpoint's health attributes, on condition that the endpoint has not changed since."""
    condition, version = "v = :v", {":v": endpoint.version}
    return table.Update(
        scope.pk(WEBHOOK_ENDPOINTS.kind), endpoint.doc["id"], set=internal, condition=condition, values=version
    )


def unchanged(scope: Scope, endpoint: Snapshot) -> table.Check:
    """The check that the endpoint has not changed since it was read."""
    pk = scope.pk(WEBHOOK_ENDPOINTS.kind)
    return table.Check(pk, endpoint.doc["id"], condition="v = :v", values={":v": endpoint.version})


def disabling(scope: Scope, endpoint: Snapshot, reason: str) -> list[table.Write]:
    """The write that disables an endpoint because of its receiver's responses.

    `[]` if the endpoint was disabled, deleted or changed to another URL since `endpoint` was read, or if the reason is
    `failing` and an attempt has succeeded since.
    """
    row = table.get(scope.pk(WEBHOOK_ENDPOINTS.kind), endpoint.doc["id"])
    if row is None or row["generation"] != endpoint.generation or json.loads(row["doc"])["url"] != endpoint.doc["url"]:
        return []
    if reason == "failing" and row.get("failing_since") != endpoint.failing_since:
        return []
    record = WEBHOOK_ENDPOINTS.record(row)
    return [update(scope, record, disabled(record.doc, reason))] if record.doc["enabled"] else []


def _next_generation(row: WebhookEndpointRow, now: int) -> dict[str, table.Value]:
    """The attributes that end the current generation at `now`. The ends of the last `_GENERATIONS` are stored."""
    generation = row["generation"]
    closed = {**row.get("closed", {}), str(generation): now}
    latest = sorted(closed.items(), key=lambda item: int(item[0]))[-_GENERATIONS:]
    return {"generation": generation + 1, "closed": dict(latest)}
