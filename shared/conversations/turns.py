"""Turns: who may reply to a message, and until when, and how many messages of a project at once (promises 8).

The message's row is a task until the reply (`shared/tasks/tasks.py`). Whoever claims the row gets the reply from the
agent and commits it (`shared/conversations/replies.py`): the request itself, within its window, or the `turn` worker.

A live message acquires a slot of its project in the transaction that stores it, and the transaction that ends its turn
frees the slot. If the turn never ends, the slot is free again when its lease expires (promise 8.16).
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

from shared.agent import simulated_messages
from shared.conversations.resource import MESSAGES, MessageRow, UserMessage
from shared.core import clock, ids, settings
from shared.core.errors import ApiError, Code
from shared.store import table
from shared.store.keys import Scope, scope_of
from shared.tasks import tasks, wake_ups

WINDOW_S = 20
"""Seconds that a request has for the reply, from its start. Never scaled."""
GIVE_UP_MS = 108 * clock.SECOND
"""The age of a message (milliseconds) from which its turn ends with an apology. A turn then ends within 120 s."""
LEASE_MS = 50 * clock.SECOND
"""The longest lease of a worker (milliseconds)."""
COMMIT_S = 5
"""Seconds of a worker's lease that are reserved for the commit."""
AFTER_WINDOW_S = 5
"""Seconds from the end of a request's window to the end of its lease."""
RESERVED_S = 2
"""Seconds of a request's window that are reserved for the commit and the response. The agent is cut off then."""
AGENT_LEAST_S = 3
"""Seconds that the agent must have for a request to begin a turn."""
APOLOGY_LEASE_MS = 5 * clock.SECOND
"""The lease of an apology (milliseconds). It is short, because an apology only needs one commit."""
SLOT_LEASE_MS = 120 * clock.SECOND
"""How long a message keeps its slot at most (milliseconds). A turn ends within 120 s of its message."""
SLOT_RETRY_S = 2
"""The `Retry-After` of a project without a free slot (seconds)."""


@dataclass(frozen=True)
class ClaimedTurn:
    """The turn of a message, which only this worker or request may answer until its lease expires."""

    claim: tasks.Claim[MessageRow]
    reserved_s: int = COMMIT_S
    """Seconds of the lease that the agent may not use."""

    @property
    def scope(self) -> Scope:
        """The project and mode of the conversation."""
        return scope_of(self.claim.row["pk"])

    @property
    def id(self) -> str:
        """The message's id."""
        return self.claim.row["sk"]

    @property
    def conversation_id(self) -> str:
        """The id of the message's conversation."""
        return self.claim.row["conversation_id"]

    @property
    def message(self) -> UserMessage:
        """The user's message."""
        message: UserMessage = json.loads(self.claim.row["doc"])
        return message

    @property
    def sent_at(self) -> clock.Instant:
        """When the message was sent."""
        return self.claim.row["asked_at"]

    @property
    def is_too_old(self) -> bool:
        """Whether the turn must end with an apology because of its age."""
        return clock.now() >= self.sent_at + GIVE_UP_MS

    @property
    def must_apologize(self) -> bool:
        """Whether the turn must end with an apology: it is too old, or too many workers were lost."""
        return self.is_too_old or self.claim.lost_workers >= tasks.MAX_LOST_WORKERS

    @property
    def seconds(self) -> float:
        """Seconds that the agent has left."""
        return self.claim.seconds_left - self.reserved_s


def begin(message: MessageRow, seconds_left: float) -> ClaimedTurn | None:
    """The turn of a new message, claimed by the request that stores it. The caller inserts `claim.row`.

    None if the `seconds_left` of the request are too few, or the reply is due later.
    """
    if not may_begin(seconds_left) or message["due_at"] > clock.now():
        return None
    return _in_window(tasks.new_claim(message, _lease_ms(message["sk"], seconds_left + AFTER_WINDOW_S)))


def claim(pk: str, sk: str) -> ClaimedTurn | None:
    """Claim the turn for a worker, if it is due and nobody else has claimed it. None otherwise."""
    work: tasks.Claim[MessageRow] | None = tasks.claim_soon(pk, sk, lambda: _lease_ms(sk, LEASE_MS / clock.SECOND))
    return None if work is None else ClaimedTurn(work)


def claim_in_window(message: MessageRow, seconds_left: float) -> ClaimedTurn | None:
    """Claim the turn for a request with `seconds_left`, if the turn is free and fits into that time."""
    if not may_begin(seconds_left) or not tasks.is_free(message):
        return None
    work: tasks.Claim[MessageRow] | None = tasks.claim_soon(
        message["pk"], message["sk"], lambda: _lease_ms(message["sk"], seconds_left + AFTER_WINDOW_S)
    )
    return None if work is None else _in_window(work)


def may_begin(seconds_left: float) -> bool:
    """Whether a request with `seconds_left` may begin a turn."""
    return seconds_left >= AGENT_LEAST_S + RESERVED_S


def _in_window(work: tasks.Claim[MessageRow]) -> ClaimedTurn:
    return ClaimedTurn(work, reserved_s=AFTER_WINDOW_S + RESERVED_S)


def _lease_ms(sk: str, seconds: float) -> int:
    """The milliseconds of a lease of `seconds`; fewer if the turn must end with an apology by then."""
    # The id of a message holds the time at which it was sent.
    until_apology_ms = ids.created_at(MESSAGES.prefix, sk) + GIVE_UP_MS - clock.now()
    return APOLOGY_LEASE_MS if until_apology_ms <= 0 else min(int(seconds * clock.SECOND), until_apology_ms)


def window_s(scope: Scope, content: str) -> int:
    """Seconds from its start that the first request with this message has for the reply.

    A retry with the same Idempotency-Key always has `WINDOW_S` (promises 10).
    """
    return simulated_messages.TIMEOUT_WINDOW_S if simulated_messages.is_timeout(scope, content) else WINDOW_S


def reply_delay_ms(scope: Scope, content: str) -> int:
    """Milliseconds until the reply to a new message is due: at once, unless it simulates a timeout."""
    return simulated_messages.TIMEOUT_REPLY_MS if simulated_messages.is_timeout(scope, content) else 0


def wait_ms(message: MessageRow) -> int:
    """Milliseconds until the turn of a message can be claimed: it is due, and its lease has expired a second ago."""
    free_at = message.get("lease_until", -clock.SECOND) + clock.SECOND
    return max(0, message["due_at"] - clock.now(), free_at - clock.now())


def both_wake_ups(message: MessageRow) -> list[wake_ups.WakeUp]:
    """The wake-ups for the turn of a message: for when it can be claimed, and for when it must end with an apology."""
    instants = (clock.now() + wait_ms(message), message["asked_at"] + GIVE_UP_MS + clock.SECOND)
    return [wake_ups.new("turns", message["pk"], message["sk"], at) for at in instants]


def acquire_slot(scope: Scope, message: MessageRow) -> tuple[MessageRow, Sequence[table.Put]]:
    """The row of a new message with its slot, and the write that takes it; in test mode no slot is needed.

    Raises `rate_limit_exceeded` if the project has no free slot.
    """
    if not scope.livemode:
        return message, ()
    share = settings.turns_per_project()
    rows = next(table.query(scope.pk("slot"), limit=share, forward=True), [])
    used = {row["sk"] for row in rows if not table.is_expired(row)}
    free = [slot for number in range(share) if (slot := f"{number:04d}") not in used]
    if not free:
        headers = {"Retry-After": str(SLOT_RETRY_S), "Service-Rate-Limited-Reason": "messages"}
        raise ApiError(
            Code.RATE_LIMIT_EXCEEDED, f"{share} live messages of the project are being answered.", headers=headers
        )
    # Chosen at random, so that concurrent messages rarely choose the same one. One that is too late chooses again.
    slot = random.choice(free)
    row = {"pk": scope.pk("slot"), "sk": slot, "kind": "slot", "expires_at": _slot_expires_at(message)}
    return {**message, "slot": slot}, [table.Put(row, table.absent_or_expired())]


def free_slot_writes(message: MessageRow) -> Sequence[table.Delete]:
    """The write that frees the slot of a message whose turn ends."""
    # Another message may have taken a slot whose lease has expired. A condition could fail the turn.
    if "slot" not in message or _slot_expires_at(message) <= clock.to_unix(clock.now()):
        return ()
    return [table.Delete(scope_of(message["pk"]).pk("slot"), message["slot"], table.ALWAYS)]


def _slot_expires_at(message: MessageRow) -> clock.UnixSeconds:
    """When the lease of a message's slot expires."""
    return clock.to_unix(message["asked_at"] + SLOT_LEASE_MS)
