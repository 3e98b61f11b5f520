"""Webhook endpoints: where events are sent (specification, "Webhook endpoint"; contract 9).

`generation` counts the times that an endpoint was disabled or deleted: a delivery of an earlier
generation is canceled. `slow_until` marks one that hangs or has fallen behind, `failing_since` one that
has not succeeded since.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.core import clock, table
from shared.core.errors import ApiError
from shared.core.keys import Scope
from shared.resources import fields, records
from shared.resources.lists import Listed
from shared.resources.records import Document, Found
from shared.webhooks import signing, urls
from shared.webhooks.events import FAMILIES, TYPES

MOST = 16
MOST_FILTERS = 50
GIVES_UP_AFTER = 5 * 24 * 3600
"""Seconds for which everything must have failed before an endpoint is disabled."""
STAYS_SLOW = 60 * clock.SECOND
_GENERATIONS = 100
_TOMBSTONE = 31 * clock.DAY
LISTED = Listed(kind="webhook_endpoint", prefix="whk_", created=None)


@dataclass(frozen=True)
class State:
    """What a delivery needs to know of its endpoint, deleted ones included."""

    doc: Document
    generation: int
    closed: Mapping[str, int]
    deleted: bool
    slow_until: int
    failing_since: int | None
    version: int
    secret: bytes

    def closed_at(self, generation: int) -> str | None:
        """When a generation ended by disabling or deletion; None where that is not, or no longer, known."""
        closed = self.closed.get(str(generation))
        return None if closed is None else clock.iso(closed)


def check_url(url: str) -> None:
    """Raises `url_invalid` for a URL that events may not be sent to."""
    problem = urls.refuse_url(url, allow_loopback=loopback_allowed())
    if problem:
        raise ApiError("url_invalid", problem, param="url")


def check_filters(filters: list[str]) -> None:
    """Raises `event_filter_invalid` for what is neither a known event type nor a wildcard."""
    if len(filters) > MOST_FILTERS:
        raise ApiError("parameter_invalid", f"At most {MOST_FILTERS} event filters are allowed.", param="event_filters")
    for number, text in enumerate(filters):
        if text not in TYPES and text not in FAMILIES:
            raise ApiError(
                "event_filter_invalid",
                f"Unknown event filter '{text[:60]}'. Use a known type or one of {', '.join(FAMILIES)}.",
                param=f"event_filters[{number}]",
            )


def loopback_allowed() -> bool:
    """Whether receivers on this very machine are allowed: on the local runner only."""
    return os.environ.get("ALLOW_LOOPBACK_RECEIVERS") == "1"


def new(scope: Scope, given: Mapping[str, Any], secret: str) -> Document:
    """An endpoint with the given fields."""
    endpoint = records.new(
        LISTED,
        scope,
        url=given["url"],
        enabled=True,
        event_filters=given["event_filters"] or [],
        label=given["label"],
        description=given["description"],
        secret_prefix=secret[: signing.SHOWN_CHARACTERS],
        disabled_at=None,
        disabled_reason=None,
    )
    return endpoint | enabled(endpoint, given["enabled"])


def insertion(scope: Scope, endpoint: Document, sealed: bytes) -> list[table.Operation]:
    """The writes that create an endpoint, unless the project has its most."""
    generation = 0 if endpoint["enabled"] else 1
    return [
        records.insertion(LISTED, scope, endpoint, secret=sealed, generation=generation),
        table.Update(
            scope.pk("count"),
            LISTED.kind,
            expressions=("n = if_not_exists(n, :zero) + :one",),
            condition="attribute_not_exists(n) OR n < :most",
            values={":zero": 0, ":one": 1, ":most": MOST},
            refusal=lambda old: ApiError("webhook_endpoint_limit"),
        ),
    ]


def deletion(scope: Scope, found: Found) -> list[table.Operation]:
    """The writes that delete an endpoint and remember when."""
    now = clock.now()
    doc = found.doc if found.doc["disabled_at"] else found.doc | {"disabled_at": clock.iso(now)}
    return [
        table.Delete(scope.pk(LISTED.kind), doc["id"], condition="v = :v", values={":v": found.version}),
        table.Put(
            {
                "pk": scope.pk(f"deleted_{LISTED.kind}"),
                "sk": doc["id"],
                "kind": f"deleted_{LISTED.kind}",
                "v": found.version + 1,
                "doc": fields.compact(doc),
                **_next_generation(found, now),
                "secret": b"-",
                "expires_at": (now + _TOMBSTONE) // clock.SECOND,
            }
        ),
        table.Update(scope.pk("count"), LISTED.kind, expressions=("n = n - :one",), values={":one": 1}),
    ]


def enabled(endpoint: Document, yes: bool, reason: str = "manual") -> Document:
    """The fields that enabling or disabling changes."""
    if endpoint["enabled"] == yes:
        return {}
    if yes:
        return {"enabled": True, "disabled_at": None, "disabled_reason": None}
    return {"enabled": False, "disabled_at": clock.iso(clock.now()), "disabled_reason": reason}


def change(scope: Scope, found: Found, endpoint: Document, *, secret: bytes | None = None) -> table.Update:
    """The write of a changed endpoint; disabling raises the generation, enabling forgets failures."""
    internal: dict[str, table.Value | None] = {} if secret is None else {"secret": secret}
    if found.doc["enabled"] and not endpoint["enabled"]:
        internal |= _next_generation(found, clock.parse(endpoint["disabled_at"]))
    if (endpoint["enabled"] and not found.doc["enabled"]) or endpoint["url"] != found.doc["url"]:
        internal |= {"failing_since": None, "slow_until": None}
    return records.change(LISTED, scope, found, endpoint, internal=internal)


def _next_generation(found: Found, now: int) -> dict[str, table.Value]:
    """The attributes that end the present generation, with when it ended; a bounded memory of earlier ones."""
    generation: int = found.row["generation"]
    closed = {**found.row.get("closed", {}), str(generation): now}
    kept = sorted(closed.items(), key=lambda item: int(item[0]))[-_GENERATIONS:]
    return {"generation": generation + 1, "closed": dict(kept)}


def of_project(scope: Scope) -> list[State]:
    """All endpoints of a project and mode, disabled ones included."""
    return [state_of(row) for page in table.query(scope.pk(LISTED.kind), limit=100) for row in page]


def row_keys(scope: Scope, id: str) -> list[tuple[str, str]]:
    """Where an endpoint's row is, or its remains are."""
    return [(scope.pk(LISTED.kind), id), (scope.pk(f"deleted_{LISTED.kind}"), id)]


def states(scope: Scope, endpoint_ids: Iterable[str]) -> dict[str, State]:
    """The endpoints with these ids, deleted ones included, by id."""
    keys = [key for id in dict.fromkeys(endpoint_ids) for key in row_keys(scope, id)]
    found: dict[str, State] = {}
    for start in range(0, len(keys), 100):
        found |= {row["sk"]: state_of(row) for row in table.get_many(keys[start : start + 100]).values()}
    return found


def state(scope: Scope, id: str, rows: Mapping[tuple[str, str], table.Row]) -> State | None:
    """The endpoint's state among rows read by `row_keys`."""
    found = next((rows[key] for key in row_keys(scope, id) if key in rows), None)
    return None if found is None else state_of(found)


def state_of(row: table.Row) -> State:
    """The state that a row tells."""
    return State(
        doc=json.loads(row["doc"]),
        generation=row["generation"],
        closed=row.get("closed", {}),
        deleted=row["kind"] != LISTED.kind,
        slow_until=row.get("slow_until", 0),
        failing_since=row.get("failing_since"),
        version=row["v"],
        secret=row["secret"],
    )


def noted(scope: Scope, seen: State, **internal: table.Value | None) -> table.Update:
    """The write of something internal on an endpoint's row, unless the endpoint was changed since it was `seen`."""
    return table.Update(
        scope.pk(LISTED.kind), seen.doc["id"], set=internal, condition="v = :v", values={":v": seen.version}
    )


def disabling(scope: Scope, seen: State, reason: str) -> list[table.Operation]:
    """The write that disables an endpoint for what its receiver did.

    None where it was disabled, deleted or given another receiver since it was `seen`; nor, where it is `failing`
    for too long, if it has succeeded meanwhile.
    """
    row = table.get(scope.pk(LISTED.kind), seen.doc["id"])
    if row is None or row["generation"] != seen.generation or json.loads(row["doc"])["url"] != seen.doc["url"]:
        return []
    if reason == "failing" and row.get("failing_since") != seen.failing_since:
        return []
    found = records.of_row(row)
    endpoint = records.touched(found.doc, enabled(found.doc, False, reason))
    return [] if endpoint is found.doc else [change(scope, found, endpoint)]
