"""API keys for tests."""

from __future__ import annotations

from typing import Any

from shared.projects import api_keys
from shared.store import transactions


def new_key(project_id: int, *, livemode: bool = False, **terms: Any) -> str:
    """The plaintext of a new key. The terms are those of `api_keys.create`."""
    return transactions.commit(lambda: api_keys.create(project_id, livemode, "test", **terms)).doc.plaintext
