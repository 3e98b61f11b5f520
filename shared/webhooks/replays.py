"""Replays: all failed deliveries to an endpoint since a time are retried, at a pace that the endpoint can handle.

A replay is a task (`shared/tasks/tasks.py`). A step retries a few deliveries, the oldest first.
Each retry is one transaction with the replay's counts and position, so that a replay whose worker dies resumes where it
stopped, and no delivery is retried twice. An endpoint has one replay at a time; the row of the latest one is kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import NotRequired, cast

from shared.core import clock, ids
from shared.core.errors import ApiError, Code
from shared.core.log import logger
from shared.store import table
from shared.store.keys import Scope, scope_of
from shared.store.transactions import Change
from shared.tasks import tasks, wake_ups
from shared.tasks.wake_ups import WakeUp
from shared.webhooks import failures
from shared.webhooks.deliveries import commands as delivery_commands
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.deliveries.resource import DELIVERIES, Delivery, DeliveryRow, DeliveryStatus
from shared.webhooks.endpoints import resource as endpoints

KIND = "replay"
QUEUE: wake_ups.Queue = "replays"
LEASE_MS = 50 * clock.SECOND
"""The lease of a worker. A step of `MOST_AT_ONCE` retries takes a few seconds."""
MOST_AT_ONCE = 25
"""The most deliveries that one step retries."""
LONGEST_WAIT_S = 60
"""The longest wait, in unscaled seconds, between two steps."""
AWAITED_EVERY_S = 2
"""Unscaled seconds after which a replay looks again whether the endpoint has got its last delivery."""
MAX_REFUSALS = 8
"""The consecutive refused attempts after which a replay ends."""
MOST_COUNTED = 10_000
"""Failed deliveries are counted up to this number when a replay starts."""
RETENTION_MS = 30 * clock.DAY


class ReplayEnd(StrEnum):
    """How a replay ended."""

    DONE = "done"
    """No failed delivery is left."""
    STOPPED = "stopped"
    """A person stopped it."""
    REFUSED = "refused"
    """The endpoint refused `MAX_REFUSALS` attempts in a row."""
    DISABLED = "disabled"
    """The endpoint was disabled."""
    DELETED = "deleted"
    """The endpoint was deleted."""


@dataclass(frozen=True)
class Replay:
    """The latest replay of an endpoint. `ended_as` is None while it runs.

    `total` is the number of failed deliveries at the start, at most `MOST_COUNTED`. Of the `replayed` ones, `accepted`
    were taken, and the first attempt of `failed_again` was refused; the others have no outcome yet, or were canceled.
    `skipped` deliveries could not be retried: the event is gone, or is being delivered, or somebody retried it
    meanwhile.
    """

    endpoint_id: str
    since: str
    total: int
    replayed: int
    accepted: int
    failed_again: int
    skipped: int
    started_at: str
    started_by: str
    ended_as: ReplayEnd | None
    ended_at: str | None


class ReplayRow(tasks.TaskRow):
    """The row of the latest replay of an endpoint, whose id is the sort key."""

    pk: str
    sk: str
    since_instant: clock.Instant
    last_id: str
    """The latest delivery id that is replayed: later failures are not."""
    total_count: int
    replayed_count: int
    skipped_count: int
    started_on: str
    started_by: str
    accepted_count: NotRequired[int]
    refused_count: NotRequired[int]
    batch_size: NotRequired[int]
    """The size of the latest batch. Absent before the first."""
    refusals: NotRequired[int]
    """The consecutive refused attempts before it."""
    replayed_up_to: NotRequired[str]
    """The latest delivery id that was retried or skipped."""
    sent: NotRequired[str]
    """The new deliveries of the latest step: event id and delivery id of each."""
    ended_as: NotRequired[str]
    ended_on: NotRequired[str]


class RetryStatus(Enum):
    """What became of a delivery of the previous step."""

    NONE = auto()
    """It was canceled or erased."""
    AWAITED = auto()
    """No attempt has been made yet."""
    ACCEPTED = auto()
    """The endpoint accepted it."""
    REFUSED = auto()
    """The latest attempt has failed."""


@dataclass(frozen=True)
class Batch:
    """A step retries `size` deliveries. `refusals` is the number of consecutive refused attempts before it."""

    size: int
    refusals: int

    @property
    def wait_s(self) -> int:
        """Unscaled seconds until the next step."""
        return min(1 << self.refusals, LONGEST_WAIT_S)


FIRST = Batch(1, 0)


def next_batch(previous: Batch, outcome: RetryStatus) -> Batch | None:
    """The batch after the previous one; None if the endpoint has refused too many attempts in a row.

    Its size doubles while the endpoint accepts them. An endpoint that refuses gets single ones, at growing intervals.
    """
    if outcome is not RetryStatus.REFUSED:
        return Batch(min(2 * previous.size, MOST_AT_ONCE), 0)
    refusals = previous.refusals + 1
    return None if refusals == MAX_REFUSALS else Batch(1, refusals)


def find(scope: Scope, endpoint_ids: Sequence[str]) -> dict[str, Replay]:
    """The latest replays of these endpoints, by the endpoint's id."""
    rows = table.get_many([_key(scope, id) for id in endpoint_ids])
    return {row["sk"]: _of_row(cast("ReplayRow", row)) for row in rows.values()}


def start(scope: Scope, endpoint_id: str, since: clock.Instant, who: str) -> Change[None]:
    """Start a replay of the deliveries that have failed since an instant.

    `who` is the person who starts it. Raises `resource_not_found` or `webhook_endpoint_disabled`. The writes raise
    `delivery_in_progress` if a replay to this endpoint is running.
    """
    endpoint = endpoints.WEBHOOK_ENDPOINTS.find(scope, endpoint_id).doc
    if not endpoint["enabled"]:
        raise ApiError(Code.WEBHOOK_ENDPOINT_DISABLED)
    now = clock.now()
    pk, sk = _key(scope, endpoint_id)
    row: table.Row = {
        "pk": pk,
        "sk": sk,
        "kind": KIND,
        "since_instant": since,
        # Later failures, such as those of the replay itself, are not replayed again.
        "last_id": ids.before(DELIVERIES.prefix, ids.first_of(DELIVERIES.prefix, now + 1)),
        "total_count": failures.count(scope, endpoint_id, MOST_COUNTED, since),
        "replayed_count": 0,
        "skipped_count": 0,
        "started_on": clock.iso(now),
        "started_by": who,
        "expires_at": table.expiry(now + RETENTION_MS),
        **tasks.due_attributes(sk, now),
    }
    put = table.Put(
        row,
        table.equals("due_at", None),
        refusal=table.Refusal(lambda _: ApiError(Code.DELIVERY_IN_PROGRESS, "A replay to this endpoint is running.")),
    )
    first = wake_ups.new(QUEUE, pk, sk)
    return Change(None, [put], after_commit=lambda: wake_ups.send_within(wake_ups.REQUEST_S, [first]))


def stop(scope: Scope, endpoint_id: str) -> Change[None]:
    """Stop a running replay. Nothing changes if none is running. Retries that it has sent go on.

    Raises `resource_not_found`.
    """
    endpoints.WEBHOOK_ENDPOINTS.find(scope, endpoint_id)
    row = table.get(*_key(scope, endpoint_id))
    if row is None or "due_at" not in row:
        return Change(None)
    # Without its lease, the worker of a step that is under way writes nothing any more.
    changes = {**_ended(ReplayEnd.STOPPED), "lease": None, "lease_until": None}
    is_running = table.has("due_at")
    return Change(None, [table.Update(row["pk"], row["sk"], set=changes, condition=is_running)])


def step(claim: tasks.Claim[ReplayRow]) -> None:
    """Retry the next deliveries, or end the replay. Raises ConditionFailed or Contended if a row was modified."""
    row, scope = claim.row, scope_of(claim.row["pk"])
    outcomes = _retry_statuses(scope, row)
    counted: dict[str, table.Value | None] = {
        "accepted_count": row.get("accepted_count", 0) + outcomes.count(RetryStatus.ACCEPTED),
        "refused_count": row.get("refused_count", 0) + outcomes.count(RetryStatus.REFUSED),
    }
    endpoint = endpoints.read(scope, [row["sk"]]).get(row["sk"])
    if endpoint is None or endpoint.deleted:
        return _end(claim, ReplayEnd.DELETED, counted)
    if not endpoint.doc["enabled"]:
        return _end(claim, ReplayEnd.DISABLED, counted)
    if RetryStatus.AWAITED in outcomes:
        return _continue(claim, AWAITED_EVERY_S)
    latest = outcomes[-1] if outcomes else RetryStatus.NONE
    batch = next_batch(Batch(row["batch_size"], row["refusals"]), latest) if "batch_size" in row else FIRST
    if batch is None:
        return _end(claim, ReplayEnd.REFUSED, counted)
    entries = _entries(scope, row, batch.size)
    if not entries:
        return _end(claim, ReplayEnd.DONE, counted)
    sent, how = _retry(scope, claim, failures.read(entries), counted)
    if how is not None:
        return _end(claim, how, counted)
    pace = {"batch_size": batch.size, "refusals": batch.refusals, "replayed_up_to": entries[-1]["sk"]}
    return _continue(claim, batch.wait_s, **counted, **pace, sent=sent)


def _continue(claim: tasks.Claim[ReplayRow], wait_s: int, **changes: table.Value | None) -> None:
    """End the step. The next one is due in `wait_s` unscaled seconds."""
    due = tasks.due_attributes(claim.row["sk"], clock.now() + clock.scaled_ms(wait_s))
    tasks.save_step(claim, [table.Update(claim.row["pk"], claim.row["sk"], set={**changes, **due})])


def _retry(
    scope: Scope, claim: tasks.Claim[ReplayRow], rows: Sequence[DeliveryRow], counted: table.Attributes
) -> tuple[str | None, ReplayEnd | None]:
    """Retry these deliveries, each in one transaction with its count, and with what the step has `counted` before.

    Returns the new deliveries as text (None without any) and, if the endpoint was disabled or deleted meanwhile, how
    the replay ends.
    """
    new_wake_ups: list[WakeUp] = []
    sent: str | None = None
    counts = {name: int(claim.row[name]) for name in ("replayed_count", "skipped_count")}
    try:
        for row in rows:
            event_id = json.loads(row["doc"])["event_id"]
            changes: dict[str, table.Value | None] = {"replayed_up_to": row["sk"]}
            writes: Sequence[table.Write] = []
            name = "skipped_count"
            try:
                new, writes = delivery_commands.plan_retry(scope, event_id, row["sk"], unless_retried=True)
            except ApiError as error:
                if error.code not in (Code.RESOURCE_NOT_FOUND, Code.DELIVERY_IN_PROGRESS):
                    return sent, ReplayEnd.DISABLED
                if error.code == Code.RESOURCE_NOT_FOUND and _is_deleted(scope, claim.row["sk"]):
                    return sent, ReplayEnd.DELETED
            else:
                name = "replayed_count"
                sent = f"{sent or ''} {event_id}/{new['sk']}".lstrip()
                new_wake_ups.append(deliveries.wake_up(new))
            changes[name] = counts[name] = counts[name] + 1
            update = table.Update(claim.row["pk"], claim.row["sk"], set={**counted, **changes, "sent": sent})
            tasks.save_step(claim, [*writes, update], keep=True)
        return sent, None
    finally:
        # A wake-up whose transaction failed names a row that does not exist, and is ignored.
        wake_ups.send(new_wake_ups)


def _is_deleted(scope: Scope, endpoint_id: str) -> bool:
    endpoint = endpoints.read(scope, [endpoint_id]).get(endpoint_id)
    return endpoint is None or endpoint.deleted


def _entries(scope: Scope, row: ReplayRow, limit: int) -> list[table.Row]:
    """The index entries that are next, oldest first."""
    least = ids.first_of(DELIVERIES.prefix, row["since_instant"])
    if "replayed_up_to" in row:
        least = max(least, ids.after(DELIVERIES.prefix, row["replayed_up_to"]))
    return failures.entries_of(
        deliveries.failed_partition(scope, row["sk"]), limit, least, row["last_id"], forward=True
    )


def _retry_statuses(scope: Scope, row: ReplayRow) -> list[RetryStatus]:
    """The outcomes of the deliveries of the previous step."""
    sent = [one.split("/") for one in row.get("sent", "").split()]
    keys = [(deliveries.partition(scope, event_id), delivery_id) for event_id, delivery_id in sent]
    rows = table.get_many(keys)
    return [_retry_status(json.loads(rows[key]["doc"])) if key in rows else RetryStatus.NONE for key in keys]


def _retry_status(delivery: Delivery) -> RetryStatus:
    if delivery["status"] == DeliveryStatus.CANCELED:
        return RetryStatus.NONE
    if delivery["status"] == DeliveryStatus.ATTEMPTING and delivery["attempt_count"] == 0:
        return RetryStatus.AWAITED
    return RetryStatus.ACCEPTED if delivery["status"] == DeliveryStatus.SUCCEEDED else RetryStatus.REFUSED


def _end(claim: tasks.Claim[ReplayRow], how: ReplayEnd, counted: table.Attributes) -> None:
    tasks.save_step(claim, [table.Update(claim.row["pk"], claim.row["sk"], set={**counted, **_ended(how)})])
    logger().info("replay ended", extra={"endpoint_id": claim.row["sk"], "how": how})


def _ended(how: ReplayEnd) -> dict[str, table.Value | None]:
    return {**tasks.NO_WORK, "ended_as": how, "ended_on": clock.iso(clock.now())}


def _of_row(row: ReplayRow) -> Replay:
    return Replay(
        endpoint_id=row["sk"],
        since=clock.iso(row["since_instant"]),
        total=row["total_count"],
        replayed=row["replayed_count"],
        accepted=row.get("accepted_count", 0),
        failed_again=row.get("refused_count", 0),
        skipped=row["skipped_count"],
        started_at=row["started_on"],
        started_by=row["started_by"],
        ended_as=ReplayEnd(row["ended_as"]) if "ended_as" in row else None,
        ended_at=row.get("ended_on"),
    )


def _key(scope: Scope, endpoint_id: str) -> tuple[str, str]:
    return scope.pk(KIND), endpoint_id
