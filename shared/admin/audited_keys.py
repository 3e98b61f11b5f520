"""Changes of API keys by people: each has an entry in the audit trail, in the same transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shared.admin import audit
from shared.admin.audit import Actor
from shared.core import clock
from shared.projects import api_keys
from shared.projects.api_keys import ApiKey, Creation
from shared.store import table, transactions
from shared.store.transactions import Change


def create(
    project_id: int,
    livemode: bool,
    label: str,
    actor: Actor,
    also: Sequence[table.Write] = (),
    *,
    read_only: bool = False,
    valid_until: clock.Instant | None = None,
) -> Creation:
    """Create a key, with the writes `also` in the same transaction. Nothing stores its plaintext.

    Raises LookupError for an unknown project, and Recorded if a record in `also` exists.
    """

    def new() -> Creation:
        return api_keys.creation(project_id, livemode, label, read_only=read_only, valid_until=valid_until)

    return _commit("api_key.created", new, actor, also)


def rotate(
    project_id: int,
    key_id: str,
    valid_ms: int,
    valid_until: clock.Instant | None,
    actor: Actor,
    also: Sequence[table.Write] = (),
) -> Creation:
    """Create a key in place of another one, which expires within `valid_ms` milliseconds, as `create` does.

    Raises LookupError for an unknown key, `invalid_status_transition` if it is not valid any more.
    """
    return _commit("api_key.rotated", lambda: api_keys.rotation(project_id, key_id, valid_ms, valid_until), actor, also)


def revoke(project_id: int, key_id: str, actor: Actor) -> ApiKey:
    """Revoke a key. Revoking it again changes nothing. Raises LookupError for an unknown key."""
    key = api_keys.find(project_id, key_id)
    entry = audit.entry(project_id, actor, "api_key.revoked", key.id, livemode=key.livemode, before=_facts(key))
    return api_keys.revoke(project_id, key_id, [entry])


def _commit(action: str, new: Callable[[], Creation], actor: Actor, also: Sequence[table.Write]) -> Creation:
    def command() -> Change[Creation]:
        creation = new()
        key = creation.key
        entry = audit.entry(key.project_id, actor, action, key.id, livemode=key.livemode, after=_facts(key))
        return Change(creation, [*creation.writes, entry, *also])

    return transactions.commit(command).doc


def _facts(key: ApiKey) -> dict[str, Any]:
    facts = {
        "label": key.label,
        "mode": "live" if key.livemode else "test",
        "read_only": key.read_only or None,
        "expires_at": key.expires_at,
        "replaces": key.replaces,
    }
    return {name: value for name, value in facts.items() if value is not None}
