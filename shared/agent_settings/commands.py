"""Change the agent's settings (promises 11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.agent_settings.resource import DEFAULTS, KIND, AgentSettings, AgentSettingsPatch, StoredSettings
from shared.resources import fields
from shared.resources.documents import apply_changes, changes_of
from shared.store import table
from shared.store.keys import Scope
from shared.store.transactions import Change


def update(scope: Scope, stored: StoredSettings, patch: AgentSettingsPatch) -> Change[AgentSettings]:
    """Apply a merge patch to the stored settings. Null brings a default back, and lists are replaced whole."""
    sent = changes_of(patch, stored.settings)
    defaults: Mapping[str, Any] = DEFAULTS
    values = {name: defaults[name] if value is None else value for name, value in sent.items()}
    settings = apply_changes(stored.settings, values)
    if settings is stored.settings:
        return Change(settings)
    # An update, also for a new row, because it keeps the writers of earlier versions.
    write = table.Update(
        scope.pk(KIND),
        KIND,
        set={"kind": KIND, "doc": fields.to_json(settings), "v": stored.version + 1},
        condition=table.unchanged(stored.version),
    )
    return Change(settings, [write])
