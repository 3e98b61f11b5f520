"""Transcripts: what was said in a call, one row for each session (contract 7)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from shared.calls import sessions
from shared.core import table
from shared.core.keys import Scope
from shared.resources import fields

Lines = list[dict[str, Any]]
"""Each with role, content, started_at_ms and ended_at_ms, in order of time."""


def find(scope: Scope, session_id: str) -> table.Row | None:
    """The transcript's row, None while there is none."""
    return table.get(*_key(scope, session_id))


def lines(row: table.Row) -> Lines:
    """What was said."""
    found: Lines = json.loads(row["doc"])
    return found


def write(scope: Scope, session_id: str, said: Sequence[Mapping[str, Any]], seen: int = 0) -> table.Put:
    """The write of a new transcript, or of one whose version `seen` it replaces, unless another came between."""
    pk, sk = _key(scope, session_id)
    return table.versioned({"pk": pk, "sk": sk, "kind": "transcript", "doc": fields.to_json(said)}, seen)


def _key(scope: Scope, session_id: str) -> tuple[str, str]:
    return scope.pk(sessions.SESSIONS.kind, session_id), "transcript"
