"""Events: what a change means to receivers (specification, "Events"; contract 9).

An event is derived from the two images of a row that the table's stream carries, so that it exists if
and only if its change committed, and no writer can forget or forge one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict, cast

from pydantic_core import PydanticCustomError

from shared.core import clock, facts, ids, table
from shared.core.errors import not_found
from shared.core.facts import EVENT_TYPES
from shared.core.keys import Scope, scope_of
from shared.resources import documents, fields
from shared.resources.collections import Collection

RETENTION = 30 * clock.DAY
"""How long events and deliveries can be queried."""
FAMILIES = tuple(dict.fromkeys(type.split(".")[0] + ".*" for type in EVENT_TYPES))
"""A wildcard for each kind of resource, such as `appointment.*`."""


class EventData(TypedDict):
    """What an event is about."""

    object: dict[str, Any]
    """The whole resource when the event fired."""
    previous_attributes: NotRequired[dict[str, Any]]
    """The changed fields with their prior values. Absent on `*.created` events."""


class Event(TypedDict):
    """A change that webhook endpoints are told of (specification, "Events"; contract 9). Id prefix `evt_`.

    An event never changes; deliveries carry exactly this JSON text.
    """

    id: str
    object: str
    """`event`."""
    type: str
    """One of the event types, such as `appointment.confirmed`."""
    created: int
    """Unix seconds."""
    livemode: bool
    api_version: str
    """The newest API revision when the event fired, `YYYY-MM-DD`."""
    data: EventData


class EventRow(TypedDict):
    """An event's row."""

    pk: str
    sk: str
    kind: str
    doc: str
    """The event as JSON text, as every receiver is sent it."""
    expires_at: int
    retries: NotRequired[int]
    """Counts the manual retries of its deliveries."""


@dataclass(frozen=True)
class NewEvent:
    """An event that is to be written. `doc` is its JSON text, which every receiver is sent."""

    scope: Scope
    id: str
    type: str
    instant: int
    doc: str

    def row(self) -> table.Row:
        """The event's row."""
        row = {"pk": self.scope.pk(EVENTS.kind), "sk": self.id, "kind": EVENTS.kind, "doc": self.doc}
        index = EVENTS.index(self.scope, json.loads(self.doc))
        return row | index | {"expires_at": (self.instant + RETENTION) // clock.SECOND}


def derive(old: table.Row | None, new: table.Row | None) -> NewEvent | None:
    """The event of a change from one image of a row to the next, None if it means nothing to receivers."""
    if new is None:
        return None
    # The row of a deleted resource is a new one, and holds the document as it was before.
    before_text = new.get("before") if old is None else old["doc"]
    before = None if before_text is None else json.loads(before_text)
    after = json.loads(new["doc"])
    name = _NAMED[after["object"]](before, after)
    if name is None:
        return None
    instant = clock.parse(after["updated_at"])
    id = ids.derived(EVENTS.prefix, instant, new["pk"], new["sk"], new["v"], order=new["v"])
    return build(scope_of(new["pk"]), id, f"{after['object']}.{name}", instant, after, before)


def build(
    scope: Scope, id: str, type: str, instant: int, after: Mapping[str, Any], before: Mapping[str, Any] | None
) -> NewEvent:
    """An event of this type about a resource, which changed from `before` to `after` at `instant`."""
    data: EventData = {"object": dict(after)}
    if before is not None:
        data["previous_attributes"] = {
            name: before.get(name)
            for name, value in after.items()
            if name != "updated_at" and not documents.same(before.get(name), value)
        }
    event: Event = {
        "id": id,
        "object": "event",
        "type": type,
        "created": instant // clock.SECOND,
        "livemode": scope.livemode,
        "api_version": facts.NEWEST_REVISION,
        "data": data,
    }
    return NewEvent(scope, id, type, instant, fields.to_json(event))


def of_row(scope: Scope, row: EventRow) -> NewEvent:
    """The event in a row, to be delivered again."""
    event: Event = json.loads(row["doc"])
    return NewEvent(scope, event["id"], event["type"], event["created"] * clock.SECOND, row["doc"])


def checked(id: str) -> str:
    """The id, if it can be an event's. Raises `resource_not_found`."""
    if not ids.is_id(EVENTS.prefix, id):
        raise not_found("event", id)
    return id


def find(scope: Scope, id: str) -> EventRow:
    """The event's row. Raises `resource_not_found`."""
    row = table.get(scope.pk(EVENTS.kind), checked(id))
    if row is None:
        raise not_found("event", id)
    return cast("EventRow", row)


def matches(filters: list[str], type: str) -> bool:
    """Whether an endpoint with these filters wants events of this type; no filters want all."""
    return not filters or type in filters or type.split(".")[0] + ".*" in filters


def _customer(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> str | None:
    if before is None:
        return "created"
    if before["deleted_at"] is None and after["deleted_at"] is not None:
        return "deleted"
    return None if documents.same(before, after) else "updated"


def _appointment(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> str | None:
    if before is None:
        return "created"
    if after["appointment_at"] != before["appointment_at"]:
        return "rescheduled"
    return str(after["status"]) if after["status"] != before["status"] else None


def _session(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> str | None:
    if before is None:
        return "created"
    if after["call_status"] != before["call_status"]:
        return str(after["call_status"])
    for ready in ("transcript", "recording"):
        name = f"{ready}_status"
        if after[name] == "available" != before[name]:
            return f"{ready}_ready"
    return None


_NAMED = {"customer": _customer, "appointment": _appointment, "session": _session}


def _type(text: str) -> tuple[str, str]:
    if text in FAMILIES:
        return "family", text
    if text in EVENT_TYPES:
        return "type", text
    raise PydanticCustomError("parameter_invalid", "type must be a known event type, or one such as appointment.*")


def _values(envelope: Mapping[str, Any]) -> Mapping[str, Any]:
    type = envelope["type"]
    return {"object_id": envelope["data"]["object"]["id"], "type": type, "family": type.split(".")[0] + ".*"}


EVENTS: Collection[Event, EventRow] = Collection(
    kind="event",
    prefix="evt_",
    slots=("object_id", "type", "family"),
    filters={"type": _type, "object_id": lambda text: ("object_id", text)},
    created="created",
    values=_values,
)
