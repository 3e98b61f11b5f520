"""Events: changes of resources that receivers are notified of (promises 9).

An event is derived from the old and new image of a row in the table's stream. Every committed change that has an event
type therefore gets its event, and no code that writes a resource has to create it. Changes of erased customers have
none, and a test event has no change.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

from shared.core import api_description, clock, ids
from shared.core.errors import not_found
from shared.core.event_types import EVENT_TYPES, WILDCARDS
from shared.resources import fields, filters
from shared.resources.collections import Collection
from shared.resources.filters import ListParameters
from shared.resources.indexes import Indexes
from shared.resources.schema import EventId, UnixTime, one_of
from shared.store import table
from shared.store.keys import Scope, scope_of

RETENTION_MS = 30 * clock.DAY
"""How long events and deliveries can be retrieved."""
FAMILIES: Mapping[str, tuple[str, ...]] = {
    wildcard: tuple(type for type in EVENT_TYPES if type.startswith(wildcard.removesuffix("*")))
    for wildcard in WILDCARDS
}
"""By wildcard: the event types that it stands for."""


class EventData(TypedDict):
    """The resource of an event."""

    object: dict[str, Any]
    """The whole resource at the time of the event."""
    previous_attributes: NotRequired[dict[str, Any]]
    """The changed fields, except `updated_at`, with their previous values. Absent on
    `*.created` and `*.message_added` events."""


class Event(TypedDict):
    """A change that webhook endpoints are notified of (promises 9). Id prefix `evt_`.

    An event never changes. Deliveries send exactly its JSON text.
    """

    id: EventId
    """The event's id. Every delivery of the event has the same, so a receiver recognizes duplicates by it."""
    object: Literal["event"]
    """The type of the object."""
    type: Annotated[str, one_of(EVENT_TYPES, "EventType")]
    """What happened, such as `appointment.confirmed`."""
    created: UnixTime
    """When it happened, in Unix seconds."""
    livemode: bool
    """False for an event of test mode."""
    api_version: Annotated[str, one_of(api_description.REVISIONS, "ApiVersion")]
    """The newest API revision at the time of the event, `YYYY-MM-DD`."""
    data: EventData
    """The resource, and what changed."""


class EventRow(TypedDict):
    """An event's row."""

    pk: str
    sk: str
    kind: str
    doc: str
    """The event as the JSON text that every receiver gets."""
    expires_at: clock.UnixSeconds
    cause: NotRequired[str]
    """The API request that caused the change, as far as it is known."""
    retries: NotRequired[int]
    """The number of manual retries of its deliveries."""


def _values(envelope: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"object_id": envelope["data"]["object"]["id"], "type": envelope["type"]}


EVENTS: Collection[Event, EventRow] = Collection(
    Event,
    kind="event",
    prefix="evt_",
    indexes=Indexes(("object_id", "type"), values=_values),
    parameters=ListParameters(
        {
            "type": filters.Enumerated("type", EVENT_TYPES, wildcards=FAMILIES),
            "object_id": filters.Exact("object_id"),
        },
        created="created",
    ),
)


@dataclass(frozen=True)
class NewEvent:
    """An event to be written or delivered. `doc` is the JSON text that every receiver gets.

    `object_id` is the id of the resource that changed.
    """

    scope: Scope
    id: str
    type: str
    instant: clock.Instant
    object_id: str
    doc: str
    customer_id: str | None = None
    """The customer whom a change is about, as far as it is known."""

    def row(self) -> table.Row:
        """The event's row."""
        row = {"pk": self.scope.pk(EVENTS.kind), "sk": self.id, "kind": EVENTS.kind, "doc": self.doc}
        index = EVENTS.indexes.attributes(self.scope, EVENTS.kind, json.loads(self.doc))
        return row | index | {"expires_at": table.expiry(self.instant + RETENTION_MS)}


def derive(old: table.Row | None, new: table.Row | None) -> NewEvent | None:
    """The event of the change from the old to the new image of a row; None if the change has no event.

    The rows are of one of `event_types.STREAM_KINDS`, but no opt-out: the stream's filter passes no others, and
    `fan_out` processes opt-outs.
    """
    if new is None:
        return None
    # A deleted resource has a new row, which stores the previous document.
    before_text = new.get("before") if old is None else old["doc"]
    before = None if before_text is None else json.loads(before_text)
    after = json.loads(new["doc"])
    if after["object"] == "message":
        type, after = "conversation.message_added", {**after, "conversation_id": new["conversation_id"]}
    else:
        name = _EVENT_NAMES[after["object"]](before, after)
        if name is None:
            return None
        type = f"{after['object']}.{name}"
    instant = clock.parse(after.get("updated_at", after["created_at"]))
    id = ids.deterministic(EVENTS.prefix, instant, new["pk"], new["sk"], new["v"], order=new["v"])
    customer_id = after["id"] if after["object"] == "customer" else after.get("customer_id", new.get("customer_id"))
    event = build(scope_of(new["pk"]), id, type, instant, after, before)
    return dataclasses.replace(event, customer_id=customer_id)


def build(
    scope: Scope, id: str, type: str, instant: clock.Instant, after: Mapping[str, Any], before: Mapping[str, Any] | None
) -> NewEvent:
    """An event of this type for a resource that changed from `before` to `after` at `instant`."""
    data: EventData = {"object": dict(after)}
    if before is not None:
        data["previous_attributes"] = {
            name: previous
            for name, value in after.items()
            if name != "updated_at" and not fields.same(previous := _previous(before, name, value), value)
        }
    event: Event = {
        "id": id,
        "object": "event",
        "type": type,
        "created": clock.to_unix(instant),
        "livemode": scope.livemode,
        "api_version": api_description.NEWEST_REVISION,
        "data": data,
    }
    return NewEvent(scope, id, type, instant, after["id"], fields.to_json(event))


def _previous(before: Mapping[str, Any], name: str, value: Any) -> Any:
    """The previous value of a field; the default of one that an earlier release did not store: false, or null."""
    return before.get(name, False if isinstance(value, bool) else None)


def of_row(scope: Scope, row: EventRow) -> NewEvent:
    """The event of a row, for another delivery."""
    event: Event = json.loads(row["doc"])
    object_id = event["data"]["object"]["id"]
    return NewEvent(
        scope, event["id"], event["type"], clock.of_unix(clock.UnixSeconds(event["created"])), object_id, row["doc"]
    )


def validate_id(id: str) -> str:
    """The id, if it is a well-formed event id. Raises `resource_not_found`."""
    if not ids.is_id(EVENTS.prefix, id):
        raise not_found("event", id)
    return id


def find(scope: Scope, id: str) -> EventRow:
    """The event's row. Raises `resource_not_found`."""
    row = table.get(scope.pk(EVENTS.kind), validate_id(id))
    if row is None:
        raise not_found("event", id)
    return cast("EventRow", row)


def matches(filters: list[str], type: str) -> bool:
    """Whether an endpoint with these filters receives events of this type. Without filters it receives all."""
    return not filters or type in filters or type.split(".")[0] + ".*" in filters


def _customer_event(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> str | None:
    if before is None:
        return "created"
    if before["deleted_at"] is None and after["deleted_at"] is not None:
        return "deleted"
    return None if fields.same(before, after) else "updated"


def _appointment_event(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> str | None:
    if before is None:
        return "created"
    if after["appointment_at"] != before["appointment_at"]:
        return "rescheduled"
    if after["status"] != before["status"]:
        return str(after["status"])
    # A call sets `session_id`, and has events of its own.
    unimportant = {name: after[name] for name in ("session_id", "updated_at")}
    return None if fields.same({**before, **unimportant}, after) else "updated"


def _session_event(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> str | None:
    if before is None:
        return "created"
    if after["call_status"] != before["call_status"]:
        return str(after["call_status"])
    for part in ("transcript", "recording"):
        name = f"{part}_status"
        if after[name] == "available" != before[name]:
            return f"{part}_ready"
    return None


def _conversation_event(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> str | None:
    if before is None:
        return "created"
    if after["status"] != before["status"]:
        return str(after["status"])
    handoff = after.get("handoff")
    if handoff == before.get("handoff"):
        return None
    return "resumed" if handoff is None else "handed_off"


_EVENT_NAMES = {
    "customer": _customer_event,
    "appointment": _appointment_event,
    "session": _session_event,
    "conversation": _conversation_event,
}
"""By the type of a resource: the function that names the event of a change, such as `created`; None if it has none."""
