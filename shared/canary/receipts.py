"""Receipts: a webhook on its way from the receiver to the run of the canary that waits for it.

The receiver runs in another execution than the run, and only the run knows the signing secret.
So the receiver stores what it received, and the run checks it and stores the verdict, which the receiver waits for. A
run expects one webhook, at a URL with a random token. Rows are found by the token's hash. They expire, and the next run
deletes them.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

from shared.core import clock
from shared.store import table

LIFETIME_MS = 5 * clock.MINUTE
"""How long a webhook is expected; a run takes at most a minute."""
MAX_BODY = 64 * 1024
"""The longest body that is stored, in bytes."""
VERDICT_WITHIN_MS = 8 * clock.SECOND
"""How long the receiver waits for the verdict. A delivery times out after 15 seconds."""
POLL_S = 0.1
"""Seconds between two reads of a row."""
_PK = "CANARY"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class Received:
    """A webhook that was received. `signature` is its `Service-Signature` header."""

    signature: str
    body: bytes


def expect() -> str:
    """Expect one webhook. Returns the token for its URL."""
    token = secrets.token_urlsafe(32)
    row = {"pk": _PK, "sk": _sk(token), "kind": "canary"}
    table.write([table.Put(row | {"expires_at": table.expiry(clock.now() + LIFETIME_MS)})])
    return token


def find(token: str) -> Received | None:
    """The webhook that was received under this token; None as long as there is none."""
    row = table.get(_PK, _sk(token))
    return Received(row["signature"], row["payload"]) if row is not None and "payload" in row else None


def save_verdict(token: str, *, genuine: bool) -> None:
    """Store whether the webhook that was received is genuine."""
    table.write([table.Update(_PK, _sk(token), set={"genuine": genuine})])


def clear() -> None:
    """Delete the rows of earlier runs. A run leaves its own, because the receiver may not have read the verdict yet."""
    for page in table.query(_PK, limit=100):
        for row in page:
            table.write([table.Delete(_PK, row["sk"], table.ALWAYS)])


def submit(token: str, webhook: Received) -> bool:
    """Hand a webhook to the run that expects it, and wait for its verdict. False if no run accepts it as genuine."""
    if not _TOKEN.fullmatch(token) or len(webhook.body) > MAX_BODY:
        return False
    row = table.get(_PK, _sk(token))
    if row is None:
        return False
    if "payload" not in row:
        update = table.Update(
            _PK,
            _sk(token),
            set={"signature": webhook.signature, "payload": webhook.body},
            condition=table.PRESENT & table.equals("payload", None),
        )
        try:
            table.write([update])
        except table.ConditionFailed:
            return False
    elif (row["signature"], row["payload"]) != (webhook.signature, webhook.body):
        return False
    return _verdict(token)


def _verdict(token: str) -> bool:
    """Wait for the verdict of the run; False if there is none in time."""
    give_up = clock.now() + VERDICT_WITHIN_MS
    while clock.now() < give_up:
        row = table.get(_PK, _sk(token))
        if row is None or "genuine" in row:
            return row is not None and bool(row["genuine"])
        clock.sleep(POLL_S)
    return False


def _sk(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
