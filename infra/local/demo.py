"""Two demo projects, whose API keys are the same after a restart."""

from __future__ import annotations

import secrets
import string
from typing import TypedDict

from infra.local.console import StartError
from infra.local.data_dir import DataDir
from shared.core import table
from shared.projects import api_keys, projects

NAMES = ("Demo", "Second demo")
_ALPHABET = string.ascii_letters + string.digits


class DemoProject(TypedDict):
    """A project, as in the ready file."""

    project_id: int
    name: str
    test_key: str
    live_key: str


def ensure(data_dir: DataDir) -> list[DemoProject]:
    """The demo projects, which are created or completed if necessary. Raises StartError if their file is damaged."""
    kept = data_dir.load("demo.json")
    if kept is None:
        # Saved before they are used, so that no key is lost if the start is interrupted.
        kept = {name: {"test_key": _new_key("test"), "live_key": _new_key("live")} for name in NAMES}
        data_dir.save("demo.json", kept)
    found = {project.name: project.id for project in reversed(projects.list_all())}
    demo: list[DemoProject] = []
    for name in NAMES:
        try:
            test_key, live_key = kept[name]["test_key"], kept[name]["live_key"]
        except (KeyError, TypeError):
            path = data_dir.path / "demo.json"
            raise StartError(f"{path} is damaged: restore it, or use another DATA_DIR") from None
        project_id = found[name] if name in found else projects.create(name).id
        for livemode, plaintext in ((False, test_key), (True, live_key)):
            # The condition fails if the key exists.
            try:
                api_keys.create(project_id, livemode, "demo", plaintext)
            except table.ConditionFailed:
                continue
        demo.append({"project_id": project_id, "name": name, "test_key": test_key, "live_key": live_key})
    return demo


def _new_key(mode: str) -> str:
    return f"sk_{mode}_" + "".join(secrets.choice(_ALPHABET) for _ in range(32))
