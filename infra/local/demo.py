"""Two demo projects with an owner, whose API keys are the same after a restart."""

from __future__ import annotations

import contextlib
from typing import TypedDict

from infra.local.console import StartError
from infra.local.data_dir import DataDir
from shared.admin import audit, members, sign_in
from shared.projects import api_keys, projects
from shared.store import table

NAMES = ("Demo", "Second demo")
OWNER = "owner@demo.example"


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
        kept = {
            name: {"test_key": api_keys.new_plaintext("test"), "live_key": api_keys.new_plaintext("live")}
            for name in NAMES
        }
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
                table.write(api_keys.create(project_id, livemode, "demo", plaintext).writes)
            except table.ConditionFailed:
                continue
        # It is a member after a restart.
        with contextlib.suppress(table.ConditionFailed):
            table.write(members.add(project_id, OWNER, members.OWNER, audit.operator()).writes)
        demo.append({"project_id": project_id, "name": name, "test_key": test_key, "live_key": live_key})
    return demo


def sign_in_url(base_url: str, email: str = OWNER) -> str:
    """A link that signs this person in once."""
    return f"{base_url}/admin/sign-in/link?token={sign_in.new_link(email)}"
