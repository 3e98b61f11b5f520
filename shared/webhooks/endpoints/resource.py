"""Webhook endpoints: where events are sent (promises 9).

The `generation` in an endpoint's row counts how often it was disabled or deleted; deliveries of an earlier generation
are canceled. `shared/webhooks/health.py` sets the attributes of its health.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, NotRequired, Self, TypedDict

from pydantic import Field, model_validator

from shared.core import clock, limits, settings
from shared.core.errors import ApiError, Code
from shared.core.event_types import EVENT_TYPES
from shared.resources import fields
from shared.resources.collections import Collection, OldRows, Record, ResourceRow
from shared.resources.documents import Resource
from shared.resources.filters import ListParameters
from shared.resources.schema import Keywords, Time, WebhookEndpointId, at_most
from shared.store import table
from shared.store.keys import Scope
from shared.webhooks import urls
from shared.webhooks.events import FAMILIES

LIMIT = limits.WEBHOOK_ENDPOINTS
"""The most endpoints of a project and mode."""
FILTERS_LIMIT = 50
MAX_PREVIOUS_SECRET_S = 24 * 60 * 60
"""The longest time that a previous signing secret stays valid (seconds)."""
EventFilter = Annotated[str, Keywords(code="event_filter_invalid", name="EventFilter", enum=[*EVENT_TYPES, *FAMILIES])]
"""An event type, or a wildcard for the types of a kind of resource."""
HANGING_FROM = 3
"""The timeouts in a row after which an endpoint is hanging."""
HEALTH = ("failing_since", "noticed", "slow_attempts", "timeouts", "slow_until", "busy_until")
"""The attributes of a row that follow from attempts. A new URL and enabling remove them."""


class DisabledReason(StrEnum):
    """Why an endpoint was disabled (promises 9)."""

    MANUAL = "manual"
    """A request or a person disabled it."""
    GONE = "gone"
    """The receiver responded with 410."""
    FAILING = "failing"
    """Every attempt had failed for several days."""


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
    previous_secret_expires_at: Time | None
    """Until when deliveries are also signed with the secret before the last rotation. Null when they are not."""
    disabled_at: Time | None
    """When the endpoint was disabled. Null while it is enabled."""
    disabled_reason: DisabledReason | None
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

    @model_validator(mode="after")
    def check(self) -> Self:
        """Check what needs more than the type of a field."""
        if "url" in self.model_fields_set:
            _check_url(self.url)
        _check_filters(self.event_filters or [])
        return self


class WebhookEndpointPatch(WebhookEndpointCreate):
    """A merge patch: an absent field keeps its value, null clears it."""

    url: Url = fields.OMITTED
    """The https URL that receives POSTs: public, without credentials and fragment, at most 2048 characters."""
    enabled: bool = fields.OMITTED
    """Whether events are sent to the endpoint."""


class SecretRotation(fields.Input):
    """The options of the rotation of a signing secret (promises 11)."""

    previous_secret_valid_seconds: Annotated[int, Field(ge=0, le=MAX_PREVIOUS_SECRET_S)] | None = None
    """How long deliveries are also signed with the previous secret, at most a day. Null or 0: not at all."""


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
    previous_secret: NotRequired[bytes]
    """The secret before the last rotation, if it stayed valid then. `previous_secret_expires_at` ends it."""
    generation: int
    """The number of times that the endpoint was disabled or deleted."""
    closed: NotRequired[dict[str, clock.Instant]]
    """The end of each earlier generation, by its number."""
    slow_attempts: NotRequired[int]
    """Slow attempts in a row, counted up to the number that makes the endpoint slow."""
    timeouts: NotRequired[int]
    """Timeouts in a row, counted up to the number that makes the endpoint hanging."""
    slow_until: NotRequired[clock.Instant]
    """Present while the endpoint counts as slow. A quick attempt after this instant removes it."""
    busy_until: NotRequired[clock.Instant]
    """Until when the endpoint counts as busy."""
    failing_since: NotRequired[clock.Instant]
    """The end of the first failed attempt since the last success. Absent after a success."""
    noticed: NotRequired[bool]
    """A notice has said that the endpoint is failing. Absent after a success."""


WEBHOOK_ENDPOINTS: Collection[WebhookEndpoint, WebhookEndpointRow] = Collection(
    WebhookEndpoint,
    kind="webhook_endpoint",
    prefix="whk_",
    parameters=ListParameters(created=None),
    old_rows=OldRows(added={"previous_secret_expires_at": None}, expires="previous_secret_expires_at"),
)
WebhookEndpointRecord = Record[WebhookEndpoint, WebhookEndpointRow]


@dataclass(frozen=True)
class EndpointSnapshot:
    """An endpoint as it was when its row was read. It may have been deleted."""

    doc: WebhookEndpoint
    generation: int
    closed: Mapping[str, clock.Instant]
    deleted: bool
    slow_attempts: int
    timeouts: int
    slow_until: clock.Instant | None
    busy_until: clock.Instant
    failing_since: clock.Instant | None
    noticed: bool
    version: int
    secrets: tuple[bytes, ...]
    """The valid signing secrets as KMS ciphertexts, the newest first."""

    @property
    def slow(self) -> bool:
        """Whether its last attempts took long. A quick attempt ends this (`health.py`)."""
        return self.slow_until is not None

    @property
    def hanging(self) -> bool:
        """Whether several attempts in a row timed out. An attempt with any other outcome ends this."""
        return self.timeouts >= HANGING_FROM

    @property
    def is_announced(self) -> bool:
        """Whether a notice has said that it is failing, or that it was disabled because of that."""
        return self.noticed if self.doc["enabled"] else self.doc["disabled_reason"] != DisabledReason.MANUAL

    @property
    def needs_attention(self) -> bool:
        """Whether its attempts fail, or it is disabled, so that events do not reach it."""
        return self.failing_since is not None or not self.doc["enabled"]

    def closed_at(self, generation: int) -> str | None:
        """When a generation ended. None if it has not ended, or if its end is no longer stored."""
        closed = self.closed.get(str(generation))
        return None if closed is None else clock.iso(closed)


def _check_url(url: str) -> None:
    """Raises `url_invalid` for a URL that cannot receive events (promises 9)."""
    problem = urls.refuse_url(url, allow_loopback=settings.allows_loopback_receivers())
    if problem:
        raise ApiError(Code.URL_INVALID, problem, param="url")


def _check_filters(filters: list[str]) -> None:
    """Raises `event_filter_invalid` for an unknown event type or wildcard, `parameter_invalid` for too many filters.

    `matches` in `shared/webhooks/events.py` applies the filters.
    """
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


def of_project(scope: Scope) -> list[EndpointSnapshot]:
    """All endpoints of a project and mode, including disabled ones."""
    return [snapshot(row) for page in table.query(scope.pk(WEBHOOK_ENDPOINTS.kind), limit=100) for row in page]


def read(scope: Scope, endpoint_ids: Iterable[str]) -> dict[str, EndpointSnapshot]:
    """The endpoints with these ids, by id. Those that were deleted more than 31 days ago are missing."""
    keys = [key for id in dict.fromkeys(endpoint_ids) for key in WEBHOOK_ENDPOINTS.row_keys(scope, id)]
    return {row["sk"]: snapshot(row) for row in table.get_many(keys).values()}


def snapshot(row: Mapping[str, Any]) -> EndpointSnapshot:
    """The endpoint of this row."""
    doc = WEBHOOK_ENDPOINTS.record(dict(row)).doc
    previous = [] if doc["previous_secret_expires_at"] is None else [row["previous_secret"]]
    return EndpointSnapshot(
        doc=doc,
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
        secrets=(row["secret"], *previous),
    )


def unchanged_check(scope: Scope, endpoint: EndpointSnapshot) -> table.Check:
    """The check that the endpoint has not changed since it was read."""
    pk = scope.pk(WEBHOOK_ENDPOINTS.kind)
    return table.Check(pk, endpoint.doc["id"], table.unchanged(endpoint.version))
