"""Projects, their API keys, and their usage."""

from __future__ import annotations

import argparse
import dataclasses
import re

from tabulate import tabulate

from infra.manage.command import PROJECT, Argument, Run, command
from shared.admin import audit, audited
from shared.core import clock
from shared.projects import api_keys, projects, usage
from shared.store import transactions
from shared.store.keys import Scope


@command("projects create", Argument("name"))
def _create_project(run: Run, name: str) -> None:
    project = projects.create(name)
    run.show(dataclasses.asdict(project), f"project {project.id}  {project.name}")


@command("projects list")
def _list_projects(run: Run) -> None:
    run.show_all(projects.list_all(), lambda one: {"id": one.id, "created": one.created_at, "name": one.name})


def _days(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text):
        raise argparse.ArgumentTypeError("must be a number of days from 1 to 99999")
    return int(text)


@command(
    "keys create",
    PROJECT,
    Argument("--mode", choices=("test", "live"), default="test", help="the mode of the key"),
    Argument("--label", default="", help="what the key is for"),
    Argument("--read-only", action="store_true", help="the key may only send GET requests"),
    Argument("--days", type=_days, help="the key expires after this number of days"),
)
def _create_key(run: Run, project: int, mode: str, label: str, read_only: bool, days: int | None) -> None:
    until = clock.now() + days * clock.DAY if days else None
    made = transactions.commit(
        lambda: audited.create_key(
            project, mode == "live", label, audit.operator(), read_only=read_only, valid_until=until
        )
    ).doc
    run.show(
        {**dataclasses.asdict(made.key), "plaintext": made.plaintext},
        f"key {made.key.id}  {made.key.label}\n"
        f"{made.plaintext}    <- shown only once: the service stores only its SHA-256",
    )


@command("keys list", PROJECT)
def _list_keys(run: Run, project: int) -> None:
    run.show_all(
        api_keys.of_project(project),
        lambda key: {
            "id": key.id,
            "key": f"sk_{'live' if key.livemode else 'test'}_…{key.last_four}",
            "created": key.created_at,
            "last used": key.last_used_at or "never",
            "revoked": key.revoked_at or "no",
            "read-only": "yes" if key.read_only else "no",
            "label": key.label,
        },
    )


@command("keys revoke", PROJECT, Argument("key"))
def _revoke_key(run: Run, project: int, key: str) -> None:
    revoked = transactions.commit(lambda: audited.revoke_key(project, key, audit.operator())).doc
    print(f"key {revoked.id} was revoked at {revoked.revoked_at}")


def _month(text: str) -> str:
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", text):
        raise argparse.ArgumentTypeError("a month has the form 2026-11")
    return text


@command("usage", PROJECT, Argument("month", type=_month))
def _usage(run: Run, project: int, month: str) -> None:
    found = dict(usage.of_month(Scope(project, livemode=True), month))
    run.show(found, tabulate(found.items(), tablefmt="plain"))
