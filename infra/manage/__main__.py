"""`python -m infra.manage`: the operator's commands, on the local runner or a deployed stage.

    projects create NAME | projects list
    keys create PROJECT --mode test|live --label LABEL [--read-only] [--days N]
    keys list PROJECT | keys revoke PROJECT KEY
    calls show PROJECT     shows the limits of live calls, and the calls now and today
    calls limit PROJECT [--prefix +1 …] [--at-once 50] [--per-day 1000]     sets the limits of live calls
    agent show PROJECT --mode test|live     prints the settings of the agent as JSON
    agent set PROJECT --mode test|live [--file PATCH.json]     changes them by a JSON merge patch, from standard input
    consents revoke PROJECT PHONE --mode test|live     stops calls on WhatsApp to this number
    conversations resume PROJECT CONVERSATION --mode test|live     gives a handed-off conversation back to the agent
    customers erase PROJECT CUSTOMER --mode test|live     removes a person for good, with all its data
    customers export PROJECT CUSTOMER --mode test|live     prints all that is kept about a person, as JSON
    customers erase --from-ledger     after a restore, erases again everyone in the ledger
    search fill PROJECT --mode test|live     gives customers and appointments the search rows that they are to have
    search empty PROJECT --mode test|live    deletes all search rows, once the stage has them no more
    opt-outs apply          after a restore, opts out again every phone in the ledger, or lifts it again
    usage PROJECT MONTH     shows live messages, model tokens, calls and their seconds in a month (2026-11)
    members add PROJECT EMAIL [--role viewer|member|owner] | members list PROJECT
    members remove PROJECT EMAIL [--force]     the only owner only with --force
    members rebind PROJECT [EMAIL]     after a change of the sign-in provider or user pool, lets everybody sign in anew
    members invite PROJECT EMAIL     sends the invitation to a stage with a user pool again
    members reset-second-factor PROJECT EMAIL     removes a lost authenticator app, in such a stage
    members link EMAIL      prints a link that signs a member in once, on the local runner only
    redrive-stream          sends the failed batches of the table's stream to fan_out again

`--stage`, `--data-dir` and `--json` may also follow the command. For a stage other than `local`, the AWS credentials of
the environment are used, and the stage's region in cdk.json, or else that of the environment.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from infra.manage.command import COMMANDS, Run
from infra.manage.stages import CommandFailed, DeployedStage, LocalStage
from infra.stack_names import RUNNER
from shared.aws.services import AwsError, Unavailable
from shared.core.errors import ApiError
from shared.projects import projects

WORDS = {
    "projects": ("projects", "create and list projects"),
    "keys": ("projects", "create, list and revoke API keys"),
    "members": ("members", "the people who may use the admin pages"),
    "calls": ("calls", "show and set a project's limits of live calls"),
    "agent": ("agent", "show and change the settings of a project's agent"),
    "consents": ("calls", "revoke consent to calls on WhatsApp"),
    "conversations": ("agent", "give handed-off conversations back to the agent"),
    "customers": ("customers", "export what is kept about a person, or remove it for good"),
    "search": ("customers", "make or delete the rows by which people are found"),
    "opt-outs": ("customers", "apply the ledger's opt-outs of phones"),
    "usage": ("projects", "show a project's usage of a month in live mode"),
    "redrive-stream": ("redrive_stream", "send the failed batches of the stream to fan_out again"),
}
"""The first words of the commands: the module that has the commands, and the help."""


def main(arguments: Sequence[str]) -> int:
    """Run one command. Returns 0, or 1 with one line on standard error if it fails."""
    options = vars(_parser(arguments).parse_args(arguments))
    stage, folder, function, as_json = (options.pop(name) for name in ("stage", "data_dir", "function", "json"))
    try:
        run = Run(LocalStage(Path(folder)) if stage == RUNNER else DeployedStage(stage), as_json)
        if options.get("project") is not None:
            projects.name_of(options["project"])
        function(run, **options)
        return 0
    except (CommandFailed, LookupError, ValueError) as error:
        problem = error.args[0]
    except ApiError as error:
        problem = error.message
    except Unavailable as error:
        problem = f"stage {stage} does not respond ({error}): is it running?"
    except (AwsError, ClientError) as error:
        problem = f"AWS refused the command: {error}"
    print(f"error: {problem}", file=sys.stderr)
    return 1


def _parser(arguments: Sequence[str]) -> _Parser:
    """The parser for these arguments. Modules with other commands are not imported, which would take a while."""
    parser = _Parser(prog="python -m infra.manage", description=__doc__)
    parser.set_defaults(stage=RUNNER, data_dir=_data_dir(), json=False)
    words = parser.add_subparsers(required=True, metavar="COMMAND")
    for word, (module, helps) in WORDS.items():
        of_word = words.add_parser(word, help=helps)
        if word in arguments:
            importlib.import_module(f"infra.manage.{module}")
            _add_commands(of_word, word)
    return parser


def _add_commands(parser: _Parser, word: str) -> None:
    """Let the parser of a first word take the commands that begin with it."""
    seconds = None if word in COMMANDS else parser.add_subparsers(required=True)
    for words, command in COMMANDS.items():
        first, _, second = words.partition(" ")
        if first == word:
            of_command = seconds.add_parser(second, **command.helps) if seconds else parser
            for each in command.arguments:
                of_command.add_argument(each.name, **each.options)
            of_command.set_defaults(function=command.function)


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help with the defaults that say something, under a description whose lines stay as they are."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, "", []) or "(default: " in (action.help or ""):
            return action.help
        return super()._get_help_string(action)


class _Parser(argparse.ArgumentParser):
    """A parser whose help shows defaults, and which takes the common options, as do those of its commands.

    Only the outermost one has their defaults: a command's would replace what precedes the command.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _Help} | options)
        # argparse reads `%` in a help text as a reference.
        data_dir = _data_dir().replace("%", "%%")
        self.add_argument(
            "--stage",
            default=argparse.SUPPRESS,
            help=f"a deployed stage, such as dev or prod, or else {RUNNER} (default: {RUNNER})",
        )
        self.add_argument(
            "--data-dir",
            default=argparse.SUPPRESS,
            help=f"the local runner's data directory (default: {data_dir}, from DATA_DIR or .data)",
        )
        self.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON where there is data"
        )


def _data_dir() -> str:
    return os.environ.get("DATA_DIR", ".data")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
