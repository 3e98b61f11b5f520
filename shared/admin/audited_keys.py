"""Changes of API keys by people: each has an entry in the audit trail, in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence

from shared.admin import audit
from shared.admin.audit import Actor
from shared.projects import api_keys
from shared.projects.api_keys import Creation, Key
from shared.store import table


def create(project_id: int, livemode: bool, label: str, actor: Actor, also: Sequence[table.Write] = ()) -> Creation:
    """Create a key, with the writes `also` in the same transaction. Nothing stores its plaintext.

    Raises LookupError for an unknown project, and ConditionFailed if a condition of `also` fails.
    """
    made = api_keys.creation(project_id, livemode, label)
    entry = audit.entry(project_id, actor, "api_key.created", made.key.id, livemode=livemode, after=_facts(made.key))
    table.write([*made.writes, entry, *also], actor.request_id)
    return made


def revoke(project_id: int, key_id: str, actor: Actor) -> Key:
    """Revoke a key. Revoking it again changes nothing. Raises LookupError for an unknown key."""
    key = api_keys.find(project_id, key_id)
    entry = audit.entry(project_id, actor, "api_key.revoked", key.id, livemode=key.livemode, before=_facts(key))
    return api_keys.revoke(project_id, key_id, [entry])


def _facts(key: Key) -> dict[str, str]:
    return {"label": key.label, "mode": "live" if key.livemode else "test"}
