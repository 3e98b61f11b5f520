"""Projects, the owners of all resources. A project is never deleted or suspended: its keys are revoked instead."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass
from typing import NotRequired, TypedDict, cast

from shared.core import clock
from shared.store import table


@dataclass(frozen=True)
class Project:
    """The owner of resources. `id` is the integer that ping returns."""

    id: int
    name: str
    created_at: str


class CallLimits(TypedDict, total=False):
    """A project's limits of live calls, as far as an operator has set them (`shared/calls/project_limits.py`)."""

    call_prefixes: str
    calls_at_once: int
    calls_per_day: int


class ProjectRow(CallLimits):
    """The row of a project."""

    pk: str
    sk: str
    kind: str
    name: str
    created_at: str
    opt_out_key: NotRequired[str]
    """The key of its opt-outs (`shared/customers/opted_out_phones.py`). Never changes; an older project has none."""


def create(name: str) -> Project:
    """Create a project with the next free number. Raises ValueError for an empty name."""
    if not name.strip():
        raise ValueError("a project must have a name")
    while True:
        existing = list_all()
        project = Project(existing[-1].id + 1 if existing else 1, name, clock.iso(clock.now()))
        try:
            table.write([table.Put(_row(project))])
            return project
        except table.ConditionFailed:
            continue


def ensure(project_id: int, name: str) -> None:
    """Create the project with this number, unless it exists."""
    row = _row(Project(project_id, name, clock.iso(clock.now())))
    with contextlib.suppress(table.ConditionFailed):
        table.write([table.Put(row)])


def _row(project: Project) -> table.Row:
    """A new project's row."""
    pk, sk = row_key(project.id)
    row = {"pk": pk, "sk": sk, "kind": "project", "name": project.name, "created_at": project.created_at}
    return row | {"opt_out_key": secrets.token_hex(32)}


def list_all() -> list[Project]:
    """All projects, oldest first."""
    return [
        Project(int(row["sk"]), row["name"], row["created_at"])
        for page in table.query("PROJECTS", limit=1000, forward=True)
        for row in page
    ]


def row_key(project_id: int) -> tuple[str, str]:
    """The key of a project's row."""
    return "PROJECTS", f"{project_id:010d}"


def name_of(project_id: int) -> str:
    """The project's name. Raises LookupError for an unknown project."""
    return str(find(project_id)["name"])


def find(project_id: int) -> ProjectRow:
    """The project's row. Raises LookupError for an unknown project."""
    project = table.get(*row_key(project_id))
    if project is None:
        raise LookupError(f"there is no project {project_id}")
    return cast("ProjectRow", project)
