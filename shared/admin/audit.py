"""The audit trail of a project: who changed what, when and from where. It contains no secrets.

An entry is a write of the transaction that makes the change, so neither exists without the other. What changes nothing
in the table, such as an export or an invitation, has an entry that is written alone.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.core import clock, ids
from shared.resources import fields
from shared.store import table

PREFIX = "aud_"
RETENTION_MS = 2 * 365 * clock.DAY
"""How long entries are kept."""
OPERATOR = "operator"
"""`who` of a change made by `infra.manage`."""
PAGE = 50


@dataclass(frozen=True)
class Actor:
    """Who makes a change, and from where. `who` is an e-mail address or `operator`; `ip` may be unknown."""

    who: str
    ip: str | None
    request_id: str


@dataclass(frozen=True)
class AuditEntry:
    """One change. `before` and `after` are the changed facts; `livemode` is None for a change of both modes."""

    id: str
    at: str
    who: str
    ip: str | None
    request_id: str
    action: str
    target: str
    livemode: bool | None
    before: Mapping[str, Any]
    after: Mapping[str, Any]


@dataclass(frozen=True)
class AuditFilter:
    """The entries of one person or of one kind, or both, between two instants (`until` is exclusive)."""

    who: str = ""
    kind: str = ""
    since: clock.Instant = clock.EPOCH
    until: clock.Instant = clock.LAST + 1


ANY = AuditFilter()


def entry(
    project_id: int,
    actor: Actor,
    action: str,
    target: str,
    *,
    livemode: bool | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> table.Put:
    """The write of an entry, for the transaction of its change. `action` is such as `api_key.created`."""
    now = clock.now()
    facts = {"who": actor.who, "ip": actor.ip, "request_id": actor.request_id, "action": action, "target": target}
    kind = action.partition(".")[0]
    row: table.Row = {
        "pk": _pk(project_id),
        "sk": ids.new(PREFIX, now),
        "kind": "audit_entry",
        "f1": _partition(project_id, actor.who, ""),
        "f2": _partition(project_id, "", kind),
        "f3": _partition(project_id, actor.who, kind),
        "at": clock.iso(now),
        **{name: value for name, value in facts.items() if value is not None},
        "before": fields.to_json(before or {}),
        "after": fields.to_json(after or {}),
        "expires_at": table.expiry(now + RETENTION_MS),
    }
    return table.Put(row if livemode is None else row | {"livemode": livemode})


def operator() -> Actor:
    """The actor of a command of `infra.manage`."""
    return Actor(OPERATOR, None, ids.new("req_"))


def page(
    project_id: int, starting_after: str | None = None, wanted: AuditFilter = ANY, limit: int = PAGE
) -> tuple[list[AuditEntry], str | None]:
    """The latest entries of a project that a filter lets through, newest first, and the cursor of the next page.

    A `starting_after` that is not the id of an entry counts as absent.
    """
    most = ids.before(PREFIX, ids.first_of(PREFIX, wanted.until))
    if starting_after and ids.is_id(PREFIX, starting_after):
        most = min(most, ids.before(PREFIX, starting_after))
    index = {(True, False): "f1", (False, True): "f2", (True, True): "f3"}.get((bool(wanted.who), bool(wanted.kind)))
    partition = _partition(project_id, wanted.who, wanted.kind) if index else _pk(project_id)
    least = ids.first_of(PREFIX, wanted.since)
    pages = table.query(partition, index=index, at_least=least, at_most=most, limit=limit + 1)
    entries = list(itertools.islice(itertools.chain.from_iterable(pages), limit + 1))
    rows = table.rows_of(entries[:limit]) if index else entries[:limit]
    shown = [_of_row(row) for row in rows if not table.is_expired(row)]
    return shown, entries[limit - 1]["sk"] if len(entries) > limit else None


def _pk(project_id: int) -> str:
    return f"P#{project_id}#audit"


def _partition(project_id: int, who: str, kind: str) -> str:
    """The index partition of the entries of a person, of a kind, or of both."""
    return f"{_pk(project_id)}#{hashlib.sha256(f'{who} {kind}'.encode()).hexdigest()[:32]}"


def _of_row(row: table.Row) -> AuditEntry:
    return AuditEntry(
        row["sk"],
        row["at"],
        row["who"],
        row.get("ip"),
        row["request_id"],
        row["action"],
        row["target"],
        row.get("livemode"),
        json.loads(row["before"]),
        json.loads(row["after"]),
    )
