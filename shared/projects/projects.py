"""Projects, the owners of all resources."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from shared.core import clock, ids
from shared.store import table


@dataclass(frozen=True)
class Project:
    """The owner of resources. `id` is the integer that ping returns."""

    id: int
    name: str
    created_at: str


def create(name: str) -> Project:
    """Create a project with the next free number. Raises ValueError for an empty name."""
    if not name.strip():
        raise ValueError("a project must have a name")
    while True:
        existing = list_all()
        project = Project(existing[-1].id + 1 if existing else 1, name, clock.iso(clock.now()))
        row = {"pk": "PROJECTS", "sk": f"{project.id:010d}", "kind": "project"}
        row |= {"name": project.name, "created_at": project.created_at}
        try:
            table.write([table.Put(row)], ids.new("req_"))
            return project
        except table.ConditionFailed:
            continue


def ensure(project_id: int, name: str) -> None:
    """Create the project with this number, unless it exists."""
    pk, sk = row_key(project_id)
    row = {"pk": pk, "sk": sk, "kind": "project", "name": name, "created_at": clock.iso(clock.now())}
    with contextlib.suppress(table.ConditionFailed):
        table.write([table.Put(row)], ids.new("req_"))


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


def find(project_id: int) -> table.Row:
    """The project's row. Raises LookupError for an unknown project."""
    project = table.get(*row_key(project_id))
    if project is None:
        raise LookupError(f"there is no project {project_id}")
    return project
