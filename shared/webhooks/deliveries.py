"""Deliveries: an event on its way to one endpoint (specification, "Retry behavior"; contract 9).

The row is the truth: what is owed, since when, and who works on it. A worker claims it with a lease and a
token, sends, and records the attempt on condition of the token; a worker that dies leaves a lease that
runs out. The next step is a pure function of the attempt's number and its outcome; what may become of a row
is a pure function of the row and its endpoint (`phase`), which reads, manual retries and workers all ask.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from shared import appointments
from shared.core import clock, ids, table
from shared.core.aws import Unavailable
from shared.core.errors import ApiError, not_found
from shared.core.keys import Scope, due, due_shard
from shared.resources import fields
from shared.resources.lists import Listed
from shared.resources.records import Document
from shared.webhooks import endpoints, events
from shared.work import hints, steps
from shared.work.hints import Hint

if TYPE_CHECKING:
    # Only the worker that sends pays for the import of the HTTP client.
    from shared.webhooks.http_client import Outcome

PREFIX = "whd_"
WAITS = (0, 5, 30, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 24 * 3600)
"""Seconds from the end of one attempt to the next, by the number of attempts made (specification)."""
LEASE = 60 * clock.SECOND
LOST_WORKERS = 3
TRIES = 5
"""How often a write is tried anew because the row, or its endpoint, was being changed."""
GRACE = 60
"""Seconds after which `sweep` takes a hint for lost."""
ATTEMPTING, SUCCEEDED, FAILED, CANCELED = "attempting", "succeeded", "failed", "canceled"
LISTED = Listed(kind="delivery", prefix=PREFIX, created=None)
_NOTHING_OWED = {"next_attempt": None, "due": None, "due_shard": None}


@dataclass(frozen=True)
class Retry:
    """Another attempt, `wait` seconds (unscaled) after the end of this one."""

    wait: int


@dataclass(frozen=True)
class Ended:
    """No further attempt; `gone` where the receiver said that it will never take one."""

    status: str
    gone: bool = False


def next_step(number: int, outcome: Outcome, *, closed: bool = False) -> Retry | Ended:
    """What follows attempt `number` (from 1); `closed` if its endpoint was disabled or deleted during it."""
    if outcome.error is None:
        return Ended(SUCCEEDED)
    if closed:
        return Ended(CANCELED)
    if outcome.status is not None and 400 <= outcome.status < 500 and outcome.status not in (408, 429):
        return Ended(FAILED, gone=outcome.status == 410)
    return Retry(WAITS[number]) if number < len(WAITS) else Ended(FAILED)


class Phase(Enum):
    """What may become of a delivery."""

    ENDED = "It never changes again."
    UNDER_WAY = "A worker has it, alive or dead; what is recorded of the attempt decides."
    WAITING = "Its next attempt is owed."
    CLOSED = "It waits for an endpoint that was disabled or deleted since, and is to be canceled."


def phase(found: table.Row, endpoint: endpoints.State | None, token: str | None = None) -> Phase:
    """The phase of a delivery's row for everybody, or for the worker whose lease has this token."""
    if "next_attempt" not in found:
        return Phase.ENDED
    # An expired lease counts too: its worker may have sent the event.
    if "lease" in found and found["lease"] != token:
        return Phase.UNDER_WAY
    # The row may be newer than what was read of its endpoint.
    if endpoint is None or endpoint.generation > found["generation"]:
        return Phase.CLOSED
    return Phase.WAITING


@dataclass(frozen=True)
class Claim:
    """A delivery that this worker, and for the time of its lease no other, may send."""

    scope: Scope
    row: table.Row
    doc: Document
    token: str

    @property
    def number(self) -> int:
        """The attempt's number, from 1."""
        return int(self.doc["attempt_count"]) + 1

    @property
    def lost_workers(self) -> int:
        """How many workers died over this attempt."""
        return int(self.row.get("lost", 0))

    def is_closed(self, endpoint: endpoints.State | None) -> bool:
        """Whether the endpoint was disabled or deleted since the delivery was made, so that nothing may be sent."""
        return phase(self.row, endpoint, self.token) is Phase.CLOSED


def row(
    event: events.Event,
    endpoint: endpoints.State,
    *,
    trigger: str = "automatic",
    retry_of: str | None = None,
) -> table.Row:
    """A new delivery, due now; `canceled` from the start where the endpoint is disabled.

    The automatic delivery of an event to an endpoint always has the same id.
    """
    now, endpoint_id = clock.now(), endpoint.doc["id"]
    automatic = trigger == "automatic"
    id = ids.derived(PREFIX, event.instant, event.id, endpoint_id) if automatic else ids.new(PREFIX, now)
    doc = {
        "id": id,
        "object": "webhook_delivery",
        "event_id": event.id,
        "event_type": event.type,
        "webhook_endpoint_id": endpoint_id,
        "url": endpoint.doc["url"],
        "status": ATTEMPTING,
        "trigger": trigger,
        "retry_of": retry_of,
        "attempt_count": 0,
        "max_attempts": len(WAITS),
        "next_attempt_at": clock.iso(now),
        "last_attempt_at": None,
        "response_status_code": None,
        "response_body": None,
        "error_code": None,
        "duration_ms": None,
        "attempts": [],
        "livemode": event.scope.livemode,
        "created_at": clock.iso(now),
        "completed_at": None,
    }
    found: table.Row = {
        "pk": event.scope.pk("event", event.id),
        "sk": id,
        "kind": LISTED.kind,
        "endpoint": endpoint_id,
        "generation": endpoint.generation,
        "expires_at": (now + events.KEPT) // clock.SECOND,
    }
    if not endpoint.doc["enabled"]:
        return found | {"doc": fields.compact(doc | _canceled(clock.iso(now)))}
    return found | {"doc": fields.compact(doc)} | _owed(id, now)


def hint(scope: Scope, event_id: str, delivery_id: str, endpoint_id: str, delay: int = 0) -> Hint:
    """The message that tells a worker of a delivery."""
    message = {
        "project_id": scope.project_id,
        "livemode": scope.livemode,
        "event_id": event_id,
        "delivery_id": delivery_id,
    }
    return Hint(message, group=endpoint_id, once=delivery_id, delay=delay)


def hint_of(scope: Scope, delivery: Document) -> Hint:
    """The message that tells a worker of this delivery."""
    return hint(scope, delivery["event_id"], delivery["id"], delivery["webhook_endpoint_id"])


def claim(scope: Scope, event_id: str, delivery_id: str) -> Claim | int | None:
    """Take the delivery, if it is due and nobody else has it.

    The milliseconds until it is due where that is later; None where there is nothing to do.
    """
    pk, now, token = scope.pk("event", event_id), clock.now(), uuid.uuid4().hex
    lease: dict[str, table.Value | None] = {"lease": token, "lease_until": now + LEASE, "due": due(now + LEASE)}
    free = "next_attempt <= :now AND attribute_not_exists(lease)"
    try:
        found = table.update(table.Update(pk, delivery_id, set=lease, condition=free, values={":now": now}))
    except table.Refused as refused:
        old = refused.old
        if old is None or "next_attempt" not in old:
            return None
        if old.get("lease") == token:
            found = old
        elif old["next_attempt"] > now:
            return int(old["next_attempt"]) - now
        elif old["lease_until"] > now:
            return None
        else:
            taken = _take_over(pk, delivery_id, lease, old)
            if taken is None:
                return None
            found = taken
    return Claim(scope, found, json.loads(found["doc"]), token)


def record(
    claimed: Claim, url: str, outcome: Outcome, step: Retry | Ended, also: Sequence[table.Operation] = ()
) -> bool:
    """Write down the attempt, what follows and what it says of the endpoint, then set the next one's timer.

    False where a write in `also` was refused: nothing was written, and the endpoint must be looked at anew.
    """
    now = clock.now()
    attempt = {
        "number": claimed.number,
        "at": clock.iso(now - outcome.duration_ms),
        "response_status_code": outcome.status,
        "error_code": outcome.error,
        "duration_ms": outcome.duration_ms,
    }
    doc = claimed.doc | {
        "url": url,
        "attempt_count": claimed.number,
        "last_attempt_at": attempt["at"],
        "response_status_code": outcome.status,
        "response_body": outcome.body,
        "error_code": outcome.error,
        "duration_ms": outcome.duration_ms,
        "attempts": [*claimed.doc["attempts"], attempt],
    }
    if isinstance(step, Ended):
        ended = {"status": step.status, "next_attempt_at": None, "completed_at": clock.iso(now)}
        ended |= _canceled(clock.iso(now)) if step.status == CANCELED else {}
        return _save(claimed, doc | ended, _NOTHING_OWED, also)
    at = now + clock.scaled(step.wait)
    if not _save(claimed, doc | {"next_attempt_at": clock.iso(at)}, _owed(doc["id"], at), also):
        return False
    _set_timer(claimed, step.wait, now, at)
    return True


def cancel(claimed: Claim, endpoint: endpoints.State | None) -> None:
    """End the delivery because its endpoint was disabled or deleted."""
    _save(claimed, _canceled_doc(claimed.row, endpoint), _NOTHING_OWED)


def fail_lost(claimed: Claim, endpoint: endpoints.State) -> bool:
    """End the delivery because worker after worker died over the same attempt.

    False if the endpoint was changed meanwhile: nothing was written, and the next worker decides.
    """
    now = clock.iso(clock.now())
    ended = {"status": FAILED, "error_code": "worker_lost", "next_attempt_at": None, "completed_at": now}
    return _save(claimed, claimed.doc | ended, _NOTHING_OWED, [unchanged(claimed.scope, endpoint)])


def release(claimed: Claim) -> None:
    """Give the delivery back, still due, for another worker."""
    _save(claimed, claimed.doc, _owed(claimed.doc["id"], claimed.row["next_attempt"]))


def shown(scope: Scope, rows: list[table.Row]) -> list[Document]:
    """Deliveries as they are to be seen; one that waits for a closed endpoint is canceled for good first."""
    endpoint_ids = [found["endpoint"] for found in rows if "next_attempt" in found]
    states = endpoints.states(scope, endpoint_ids) if endpoint_ids else {}
    return [_shown(found, states.get(found["endpoint"])) for found in rows]


def find(scope: Scope, event_id: str, delivery_id: str) -> table.Row:
    """The delivery's row. Raises `resource_not_found`."""
    known = ids.is_id(events.PREFIX, event_id) and ids.is_id(PREFIX, delivery_id)
    found = table.get(scope.pk("event", event_id), delivery_id) if known else None
    if found is None:
        raise not_found("webhook delivery", delivery_id)
    return found


def of_event(scope: Scope, event_id: str) -> list[table.Row]:
    """All deliveries of an event, newest first."""
    return [found for page in table.query(scope.pk("event", event_id), limit=100) for found in page]


def retried(scope: Scope, event_id: str, delivery_id: str) -> tuple[list[table.Operation], Document]:
    """The writes of a manual retry, and the new delivery. Raises ApiError."""
    old = find(scope, event_id, delivery_id)
    event_row = events.find(scope, event_id)
    endpoint = endpoints.states(scope, [old["endpoint"]]).get(old["endpoint"])
    if endpoint is None or endpoint.deleted:
        raise not_found("webhook endpoint", old["endpoint"])
    same = [found for found in of_event(scope, event_id) if found["endpoint"] == old["endpoint"]]
    if any(_shown(found, endpoint)["status"] == ATTEMPTING for found in same):
        raise ApiError("delivery_in_progress")
    if not endpoint.doc["enabled"]:
        raise ApiError("webhook_endpoint_disabled")
    envelope = json.loads(event_row["doc"])
    event = events.Event(scope, event_id, envelope["type"], envelope["created"] * clock.SECOND, event_row["doc"])
    new = row(event, endpoint, trigger="manual", retry_of=delivery_id)
    retries = event_row.get("retries", 0)
    # Two retries at once meet on the event's row: the later one is decided again and finds the first.
    met = table.Update(
        event_row["pk"],
        event_row["sk"],
        set={"retries": retries + 1, "expires_at": new["expires_at"]},
        condition="retries = :seen" if retries else "attribute_exists(pk) AND attribute_not_exists(retries)",
        values={":seen": retries} if retries else {},
    )
    return [met, table.Put(new), unchanged(scope, endpoint)], json.loads(new["doc"])


def tested(scope: Scope, endpoint: endpoints.State) -> tuple[list[table.Operation], Document]:
    """The writes of a synthetic `appointment.created` for this endpoint alone, and its delivery. Raises ApiError."""
    if not endpoint.doc["enabled"]:
        raise ApiError("webhook_endpoint_disabled")
    appointment = appointments.sample(scope)
    instant = clock.parse(appointment["created_at"])
    event = events.build(scope, ids.new(events.PREFIX, instant), "appointment.created", instant, appointment, None)
    new = row(event, endpoint, trigger="test")
    return [table.Put(event.row()), table.Put(new), unchanged(scope, endpoint)], json.loads(new["doc"])


def unchanged(scope: Scope, endpoint: endpoints.State) -> table.Check:
    """The condition that the endpoint was not changed since it was read."""
    return table.Check(
        scope.pk(endpoints.LISTED.kind),
        endpoint.doc["id"],
        condition="v = :v",
        values={":v": endpoint.version},
    )


def _take_over(pk: str, id: str, lease: Mapping[str, table.Value | None], old: table.Row) -> table.Row | None:
    update = table.Update(
        pk,
        id,
        set={**lease, "lost": old.get("lost", 0) + 1},
        condition="lease = :dead",
        values={":dead": old["lease"]},
    )
    try:
        return table.update(update)
    except table.Refused as refused:
        return refused.old if refused.old and refused.old.get("lease") == lease["lease"] else None


def _owed(id: str, at: int) -> dict[str, table.Value]:
    return {"next_attempt": at, "due": steps.overdue(at, GRACE), "due_shard": due_shard(id)}


def _canceled(at: str) -> Document:
    return {"status": CANCELED, "error_code": "endpoint_disabled", "next_attempt_at": None, "completed_at": at}


def _canceled_doc(found: table.Row, endpoint: endpoints.State | None) -> Document:
    """The delivery, canceled as of when its endpoint was closed, but not before what is known to have come later."""
    doc: Document = json.loads(found["doc"])
    closed_at = endpoint.closed_at(found["generation"]) if endpoint else None
    # While workers died over it, it was shown as under way.
    known = [doc["created_at"], clock.iso(clock.now()) if closed_at is None or "lost" in found else closed_at]
    if doc["last_attempt_at"] is not None:
        known.append(clock.iso(clock.parse(doc["last_attempt_at"]) + doc["duration_ms"]))
    return doc | _canceled(max(known))


def _shown(found: table.Row, endpoint: endpoints.State | None) -> Document:
    """The delivery as it is to be seen. Raises Unavailable.

    Canceled is shown only what is canceled in its row: otherwise a worker's lease could follow, and the
    delivery would be under way again.
    """
    for _ in range(TRIES):
        if phase(found, endpoint) is not Phase.CLOSED:
            doc: Document = json.loads(found["doc"])
            return doc
        doc = _canceled_doc(found, endpoint)
        cancellation = table.Update(
            found["pk"],
            found["sk"],
            set={"doc": fields.compact(doc), **_NOTHING_OWED, "hints": None},
            condition="doc = :seen AND attribute_not_exists(lease)",
            values={":seen": found["doc"]},
        )
        try:
            table.write([cancellation], uuid.uuid4().hex)
        except (table.Refused, table.Contended):
            latest = table.get(found["pk"], found["sk"])
            if latest is None:
                return doc
            found = latest
        else:
            return doc
    raise Unavailable("the delivery kept changing")


def _save(
    claimed: Claim, doc: Document, owed: Mapping[str, table.Value | None], also: Sequence[table.Operation] = ()
) -> bool:
    idle: dict[str, table.Value | None] = {"lease": None, "lease_until": None, "lost": None, "hints": None}
    update = table.Update(
        claimed.row["pk"],
        claimed.row["sk"],
        set={"doc": fields.compact(doc), **owed, **idle},
        condition="lease = :token",
        values={":token": claimed.token},
    )
    try:
        table.write([update, *also], claimed.token)
    except table.Refused as refused:
        # A lease that ran out leaves nothing to do: the next worker has the delivery.
        return refused.op is update
    except table.Contended:
        return False
    return True


def _set_timer(claimed: Claim, wait: int, now: int, at: int) -> None:
    doc = claimed.doc
    # The way of a wait is chosen by its unscaled length, so that a quick local run takes both.
    if wait <= hints.LONGEST_DELAY:
        delay = (at - now) // clock.SECOND
        again = hint(claimed.scope, doc["event_id"], doc["id"], doc["webhook_endpoint_id"], delay)
        hints.send("retries", [again])
    else:
        again = hint(claimed.scope, doc["event_id"], doc["id"], doc["webhook_endpoint_id"])
        hints.wait("delayed_delivery", f"{doc['id']}-{claimed.number + 1}", at, again)
