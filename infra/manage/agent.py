"""A project's agent: its settings and its conversations."""

from __future__ import annotations

import argparse
import json
from typing import BinaryIO

from infra.manage.command import MODE, PROJECT, Argument, Run, command
from shared.admin import audit, audited
from shared.agent_settings import resource as agent_settings
from shared.agent_settings.resource import AgentSettingsPatch
from shared.api.requests import parse_json
from shared.core.errors import ApiError
from shared.resources import fields
from shared.store import transactions
from shared.store.keys import Scope

ANY_HOUR = (
    "without calling_hours, people are called at any hour; the hours are those of timezone, which must be the one of "
    "the people who are called"
)


@command("agent show", PROJECT, MODE, help="print the settings as JSON")
def _show_settings(run: Run, project: int, mode: str) -> None:
    print(json.dumps(agent_settings.read(Scope(project, mode == "live")).settings, indent=2, ensure_ascii=False))


@command(
    "agent set",
    Argument("--file", type=argparse.FileType("rb"), default="-", help="the patch; - is standard input"),
    PROJECT,
    MODE,
    help=f"apply a JSON merge patch; null brings a default back; {ANY_HOUR}",
)
def _change_settings(run: Run, project: int, mode: str, file: BinaryIO) -> None:
    try:
        patch = fields.validate(AgentSettingsPatch, parse_json(file.read()))
    except ApiError as error:
        raise ValueError(f"{error.param}: {error.message}" if error.param else error.message) from None
    scope = Scope(project, mode == "live")

    change = transactions.commit(
        lambda: audited.change_agent_settings(scope, agent_settings.read(scope), patch, audit.operator())
    )
    print("changed" if change.writes else "nothing to change")
    if mode == "live" and not change.doc["calling_hours"]:
        print(ANY_HOUR)


@command("conversations resume", PROJECT, Argument("conversation"), MODE)
def _resume_conversation(run: Run, project: int, conversation: str, mode: str) -> None:
    scope = Scope(project, mode == "live")
    change = transactions.commit(lambda: audited.resume_conversation(scope, conversation, audit.operator()))
    if change.writes:
        print("resumed: the agent replies to the next message")
    else:
        print("nothing to do: this conversation is not handed to a person")
