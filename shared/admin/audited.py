"""Changes with their entry in the audit trail, which the admin pages and the operator's commands both make."""

from __future__ import annotations

from typing import Any

from shared.admin import audit
from shared.admin.audit import Actor
from shared.agent_settings import commands as agent_settings_commands
from shared.agent_settings.resource import AgentSettings, AgentSettingsPatch, StoredSettings
from shared.calls import project_limits
from shared.calls.project_limits import Limits
from shared.conversations import commands as conversation_commands
from shared.conversations.resource import Conversation
from shared.core import clock
from shared.projects import api_keys
from shared.projects.api_keys import ApiKey, NewKey
from shared.resources import fields
from shared.store import table
from shared.store.keys import Scope
from shared.store.transactions import Change


def create_key(
    project_id: int,
    livemode: bool,
    label: str,
    actor: Actor,
    *,
    read_only: bool = False,
    valid_until: clock.Instant | None = None,
) -> Change[NewKey]:
    """Create a key. Raises LookupError for an unknown project."""
    change = api_keys.create(project_id, livemode, label, read_only=read_only, valid_until=valid_until)
    return change.with_writes(_entry_of_key(actor, "api_key.created", change.doc.key))


def rotate_key(
    project_id: int, key_id: str, valid_ms: int, valid_until: clock.Instant | None, actor: Actor
) -> Change[NewKey]:
    """Create a key in place of another one, which expires within `valid_ms` milliseconds.

    Raises LookupError for an unknown key, `invalid_status_transition` if it is not valid any more.
    """
    change = api_keys.rotate(project_id, key_id, valid_ms, valid_until)
    return change.with_writes(_entry_of_key(actor, "api_key.rotated", change.doc.key))


def revoke_key(project_id: int, key_id: str, actor: Actor) -> Change[ApiKey]:
    """Revoke a key. Revoking it again changes nothing. Raises LookupError for an unknown key."""
    change = api_keys.revoke(project_id, key_id)
    key = change.doc
    entry = audit.entry(project_id, actor, "api_key.revoked", key.id, livemode=key.livemode, before=_facts(key))
    return change.with_writes(entry)


def change_call_limits(project_id: int, wanted: Limits, before: Limits, actor: Actor) -> Change[Limits]:
    """Change the limits of a project's live calls, on condition that they are still as `before`."""
    if wanted == before:
        return Change(before)
    facts = {"before": before.facts, "after": wanted.facts}
    entry = audit.entry(project_id, actor, "call_limits.changed", str(project_id), livemode=True, **facts)
    return Change(wanted, [project_limits.limits_write(project_id, wanted, before), entry])


def change_agent_settings(
    scope: Scope, stored: StoredSettings, patch: AgentSettingsPatch, actor: Actor
) -> Change[AgentSettings]:
    """Apply a merge patch to the agent's settings as they were read. The entry has the names of the changed fields."""
    change = agent_settings_commands.update(scope, stored, patch)
    names = ", ".join(fields.changed(stored.settings, change.doc))
    target = str(scope.project_id)
    return change.with_writes(_entry(scope, actor, "agent_settings.changed", target, after={"fields": names}))


def resume_conversation(scope: Scope, id: str, actor: Actor) -> Change[Conversation]:
    """Give a conversation back to the agent. Raises `resource_not_found` or `conversation_ended`."""
    change = conversation_commands.resume(scope, id)
    return change.with_writes(_entry(scope, actor, "conversation.given_back", id))


def _entry(scope: Scope, actor: Actor, action: str, target: str, **facts: Any) -> table.Put:
    return audit.entry(scope.project_id, actor, action, target, livemode=scope.livemode, **facts)


def _entry_of_key(actor: Actor, action: str, key: ApiKey) -> table.Put:
    return audit.entry(key.project_id, actor, action, key.id, livemode=key.livemode, after=_facts(key))


def _facts(key: ApiKey) -> dict[str, Any]:
    facts = {
        "label": key.label,
        "mode": "live" if key.livemode else "test",
        "read_only": key.read_only or None,
        "expires_at": key.expires_at,
        "replaces": key.replaces,
    }
    return {name: value for name, value in facts.items() if value is not None}
