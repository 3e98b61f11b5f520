"""Transcripts of calls: one row for each session (promises 7)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Literal, TypedDict

from shared.calls.sessions import SESSIONS
from shared.resources import fields
from shared.resources.schema import Count, Keywords
from shared.store import table
from shared.store.keys import Scope

Speaker = Annotated[Literal["agent", "customer"], Keywords(name="Speaker")]
RAW, REDACTED = "raw", "redacted"
"""The sources of a transcript that the carrier made. One that the agent wrote has no source."""


class Line(TypedDict):
    """One line of a transcript. Never changes."""

    role: Speaker
    """Who said it."""
    content: str
    """What was said, as plain text."""
    started_at_ms: Count
    """When it began, in milliseconds from the beginning of the call's sound."""
    ended_at_ms: Count
    """When it ended, in milliseconds from the beginning of the call's sound."""


def find(scope: Scope, session_id: str) -> table.Row | None:
    """The transcript's row, None if there is none."""
    return table.get(*_key(scope, session_id))


def lines(row: table.Row) -> list[Line]:
    """The lines of a transcript, in order of time."""
    parsed: list[Line] = json.loads(row["doc"])
    return parsed


def transcript_write(
    scope: Scope, session_id: str, lines: Sequence[Line], version: int = 0, *, source: str | None = None
) -> table.Put:
    """The write of a transcript, on condition that its version did not change since it was read; 0 for a new one."""
    pk, sk = _key(scope, session_id)
    row: table.Row = {"pk": pk, "sk": sk, "kind": "transcript", "doc": fields.to_json(lines)}
    return table.versioned_write(row if source is None else row | {"source": source}, version)


def delete_write(scope: Scope, session_id: str) -> table.Delete:
    """The write that deletes a transcript, if there is one."""
    return table.Delete(*_key(scope, session_id), table.ALWAYS)


def _key(scope: Scope, session_id: str) -> table.Key:
    return scope.pk(SESSIONS.kind, session_id), "transcript"
