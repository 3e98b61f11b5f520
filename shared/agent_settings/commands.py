"""Read and change the agent's settings (promises 11)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from shared.agent_settings.resource import DEFAULTS, AgentSettings, AgentSettingsPatch
from shared.projects import projects
from shared.resources import fields
from shared.resources.collections import apply_changes, changes_of
from shared.store import table
from shared.store.keys import Scope
from shared.store.transactions import Change

KIND = "agent_settings"


@dataclass(frozen=True)
class StoredSettings:
    """The settings as read, and the name of the project. `version` is 0 until the first change."""

    settings: AgentSettings
    version: int
    project_name: str

    @property
    def business(self) -> str:
        """What the agent calls the business: a name that can be said."""
        name = self.settings["business_name"] or ""
        return name if any(map(str.isalnum, name)) else self.project_name

    @property
    def for_agent(self) -> AgentSettings:
        """The settings as the agent of messages and live calls gets them: always with a name of the business."""
        return {**self.settings, "business_name": self.business}


def keys(scope: Scope) -> list[table.Key]:
    """The keys of the rows from which `of_rows` reads the settings."""
    return [(scope.pk(KIND), KIND), projects.row_key(scope.project_id)]


def read(scope: Scope) -> StoredSettings:
    """The settings of a project and mode, in one read with the project. Raises LookupError for an unknown project."""
    return of_rows(scope, table.get_many(keys(scope)))


def of_rows(scope: Scope, rows: table.Rows) -> StoredSettings:
    """The settings in these rows. Raises LookupError if the project is not among them."""
    own, of_project = keys(scope)
    if of_project not in rows:
        raise LookupError(f"there is no project {scope.project_id}")
    project, row = rows[of_project], rows.get(own, {})
    defaults: AgentSettings = {
        "object": "agent_settings",
        "livemode": scope.livemode,
        "created_at": project["created_at"],
        "updated_at": project["created_at"],
        **DEFAULTS,
    }
    settings = cast("AgentSettings", defaults | json.loads(row.get("doc", "{}")))
    return StoredSettings(settings, row.get("v", 0), project["name"])


def update(scope: Scope, patch: AgentSettingsPatch) -> Change[AgentSettings]:
    """Apply a merge patch. Null brings a default back, and lists are replaced whole."""
    stored = read(scope)
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
