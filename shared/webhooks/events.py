"""Events: what a change means to the outside (specification, "Events"; contract 9).

An event is derived from the two images of a row that the table's stream carries, so that it exists if
and only if its change committed, and no writer can forget or forge one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticCustomError

from shared.core import clock, ids, table, versions
from shared.core.errors import not_found
from shared.core.keys import Scope, scope_of
from shared.resources import fields, lists, records
from shared.resources.records import Document

PREFIX = "evt_"
KEPT = 30 * clock.DAY
TYPES = (
    "appointment.created",
    "appointment.confirmed",
    "appointment.rescheduled",
    "appointment.cancelled",
    "appointment.failed",
    "customer.created",
    "customer.updated",
    "customer.deleted",
    "session.created",
    "session.dialing",
    "session.completed",
    "session.no_answer",
    "session.failed",
    "session.invalid_number",
    "session.call_later",
    "session.transcript_ready",
    "session.recording_ready",
)
FAMILIES = tuple(dict.fromkeys(type.split(".")[0] + ".*" for type in TYPES))


@dataclass(frozen=True)
class Event:
    """An event and its frozen body, the very text that every receiver is sent."""

    scope: Scope
    id: str
    type: str
    instant: int
    body: str

    def row(self) -> table.Row:
        """The event's row."""
        row = {"pk": self.scope.pk("event"), "sk": self.id, "kind": "event", "doc": self.body}
        index = LISTED.index(self.scope, json.loads(self.body))
        return row | index | {"expires_at": (self.instant + KEPT) // clock.SECOND}


def derive(old: table.Row | None, new: table.Row | None) -> Event | None:
    """The event of a change from one image of a row to the next, None if it means nothing outside."""
    if new is None:
        return None
    # The row of a deleted resource is a new one, and says itself what the resource was before.
    text = new.get("before") if old is None else old["doc"]
    before = None if text is None else json.loads(text)
    after = json.loads(new["doc"])
    name = _NAMED[after["object"]](before, after)
    if name is None:
        return None
    instant = clock.parse(after["updated_at"])
    id = ids.derived(PREFIX, instant, new["pk"], new["sk"], new["v"], order=new["v"])
    return build(scope_of(new["pk"]), id, f"{after['object']}.{name}", instant, after, before)


def build(scope: Scope, id: str, type: str, instant: int, after: Document, before: Document | None) -> Event:
    """An event of this type, with the envelope's seven fields as its body (six where nothing came before)."""
    data: dict[str, Any] = {"object": after}
    if before is not None:
        data["previous_attributes"] = {
            name: before.get(name)
            for name, value in after.items()
            if name != "updated_at" and not records.same(before.get(name), value)
        }
    body = {
        "id": id,
        "object": "event",
        "type": type,
        "created": instant // clock.SECOND,
        "livemode": scope.livemode,
        "api_version": versions.NEWEST,
        "data": data,
    }
    return Event(scope, id, type, instant, fields.compact(body))


def checked(id: str) -> str:
    """The id, if it can be an event's. Raises `resource_not_found`."""
    if not ids.is_id(PREFIX, id):
        raise not_found("event", id)
    return id


def find(scope: Scope, id: str) -> table.Row:
    """The event's row. Raises `resource_not_found`."""
    row = table.get(scope.pk("event"), checked(id))
    if row is None:
        raise not_found("event", id)
    return row


def matches(filters: list[str], type: str) -> bool:
    """Whether an endpoint with these filters wants events of this type; no filters want all."""
    return not filters or type in filters or type.split(".")[0] + ".*" in filters


def _customer(before: Document | None, after: Document) -> str | None:
    if before is None:
        return "created"
    if before["deleted_at"] is None and after["deleted_at"] is not None:
        return "deleted"
    return None if records.same(before, after) else "updated"


def _appointment(before: Document | None, after: Document) -> str | None:
    if before is None:
        return "created"
    if after["appointment_at"] != before["appointment_at"]:
        return "rescheduled"
    return str(after["status"]) if after["status"] != before["status"] else None


def _session(before: Document | None, after: Document) -> str | None:
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
    if text in TYPES:
        return "type", text
    raise PydanticCustomError("parameter_invalid", "type must be a known event type, or one such as appointment.*")


def _values(envelope: Mapping[str, Any]) -> Mapping[str, Any]:
    type = envelope["type"]
    return {"object_id": envelope["data"]["object"]["id"], "type": type, "family": type.split(".")[0] + ".*"}


LISTED = lists.Listed(
    kind="event",
    prefix=PREFIX,
    slots=("object_id", "type", "family"),
    pairs=(("object_id", "type"), ("object_id", "family")),
    filters={"type": _type, "object_id": lambda text: ("object_id", text)},
    created="created",
    values=_values,
)
