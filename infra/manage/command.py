"""What all commands share: how they are declared, and the form of their output."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tabulate import tabulate

from infra.manage.stages import Stage

Function = Callable[..., None]


@dataclass(frozen=True)
class Run:
    """One run of a command: the stage that it runs on, and whether it prints JSON."""

    stage: Stage
    as_json: bool

    def show(self, found: Any, text: str) -> None:
        """Print what the command found, as this text or as JSON."""
        print(json.dumps(found, indent=2, ensure_ascii=False, default=str) if self.as_json else text)

    def show_all(self, found: Sequence[Any], row: Callable[[Any], Mapping[str, object]]) -> None:
        """Print the objects that the command found, as a table or as JSON."""
        if self.as_json or found:
            text = tabulate(map(row, found), headers="keys", tablefmt="plain", disable_numparse=True)
            self.show([dataclasses.asdict(one) for one in found], text)


class Argument:
    """An argument of a command, with the parameters of argparse's `add_argument`."""

    def __init__(self, name: str, **options: Any) -> None:
        self.name, self.options = name, options


PROJECT = Argument("project", type=int)
MODE = Argument("--mode", choices=("test", "live"), required=True, help="the mode of the data")


class Command(NamedTuple):
    """What is declared of a command. The function is called with a `Run` and the command's arguments."""

    function: Function
    arguments: Sequence[Argument]
    helps: Mapping[str, Any]


COMMANDS: dict[str, Command] = {}
"""The commands of the modules that are imported, by their one or two words."""


def command(words: str, *arguments: Argument, **helps: str) -> Callable[[Function], Function]:
    """Declare a function as a command, with a `help` if there is something to explain."""

    def declare(function: Function) -> Function:
        COMMANDS[words] = Command(function, arguments, helps)
        return function

    return declare
