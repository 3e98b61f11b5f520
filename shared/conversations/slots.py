"""Slots: how many live messages of one project may be under way at once (promise 8.16).

A live message takes a slot in the transaction that stores it, and the transaction that ends its turn frees the slot. If
the turn never ends, the slot is free again when its lease expires.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

from shared.conversations.resource import MessageRow
from shared.core import clock
from shared.core.errors import ApiError, Code
from shared.store import table
from shared.store.keys import Scope, scope_of

LEASE_MS = 120 * clock.SECOND
"""How long a message keeps its slot at most (milliseconds). A turn ends within 120 s of its message."""
RETRY_SECONDS = 2
"""The `Retry-After` of a project without a free slot."""


def take(scope: Scope, message: MessageRow) -> tuple[MessageRow, Sequence[table.Put]]:
    """The row of a new message with its slot, and the write that takes the slot; in test mode no slot is needed.

    Raises `rate_limit_exceeded` if the project has no free slot.
    """
    if not scope.livemode:
        return message, ()
    share = int(os.environ["TURNS_PER_PROJECT"])
    rows = next(table.query(scope.pk("slot"), limit=share, forward=True), [])
    taken = {row["sk"] for row in rows if not table.is_expired(row)}
    free = [slot for number in range(share) if (slot := f"{number:04d}") not in taken]
    if not free:
        headers = {"Retry-After": str(RETRY_SECONDS), "Service-Rate-Limited-Reason": "messages"}
        raise ApiError(
            Code.RATE_LIMIT_EXCEEDED, f"{share} live messages of the project are being answered.", headers=headers
        )
    # Chosen at random, so that concurrent messages rarely choose the same one. One that is too late chooses again.
    slot = random.choice(free)
    row = {"pk": scope.pk("slot"), "sk": slot, "kind": "slot", "expires_at": _expires_at(message)}
    condition, values = f"{table.ABSENT} OR expires_at <= :now", {":now": clock.now() // clock.SECOND}
    return {**message, "slot": slot}, [table.Put(row, condition=condition, values=values)]


def free(message: MessageRow) -> Sequence[table.Delete]:
    """The write that frees the slot of a message whose turn ends."""
    # Another message may have taken a slot whose lease has expired. A condition could fail the turn.
    if "slot" not in message or _expires_at(message) <= clock.now() // clock.SECOND:
        return ()
    return [table.Delete(scope_of(message["pk"]).pk("slot"), message["slot"], condition="")]


def _expires_at(message: MessageRow) -> int:
    """When the lease of a message's slot expires (Unix seconds)."""
    return (message["asked_at"] + LEASE_MS) // clock.SECOND
