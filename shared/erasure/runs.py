"""Runs: erasing several customers, and waiting for what must end first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shared.core import clock
from shared.erasure import erasing, ledger
from shared.erasure.erasing import NotYet, StoredBatches
from shared.erasure.ledger import ErasureEntry

PATIENCE_MS = 10 * clock.MINUTE
"""The longest time that a run waits."""


def run(entries: Sequence[ErasureEntry], stored: StoredBatches, say: Callable[[str], None]) -> list[str]:
    """Erase the customers of these entries. Returns, in words, which of them must be erased again later, and why.

    `say` is called with what has been done. Raises Unavailable: run it again.
    """
    give_up = clock.now() + PATIENCE_MS
    pending, told = list(entries), set[str]()
    while True:
        waits: list[tuple[ErasureEntry, NotYet]] = []
        for entry in pending:
            try:
                for line in erasing.erase(entry.scope, entry.customer_id, stored):
                    say(f"{entry.customer_id}: {line}")
            except NotYet as wait:
                waits.append((entry, wait))
            else:
                ledger.end(entry)
                say(f"{entry.customer_id}: complete")
        soon = [(entry, wait) for entry, wait in waits if wait.until <= give_up]
        if not soon:
            return [f"{entry.customer_id}: {wait}. Run this again after {_in_words(wait)}" for entry, wait in waits]
        pending = [entry for entry, _ in waits]
        until = max(wait.until for _, wait in soon)
        reasons = sorted({str(wait) for _, wait in soon} - told)
        told.update(reasons)
        for reason in reasons:
            say(f"waiting: {reason}")
        clock.sleep(max(0, until - clock.now()) / clock.SECOND)


def _in_words(wait: NotYet) -> str:
    return f"{clock.iso(wait.until)[:19]}Z"
