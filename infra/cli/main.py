"""The command `appt`: its name is not that of a resource."""

from __future__ import annotations

import contextlib
import os
import sys

import click

from . import agent, description, events, profiles, raw, signing, trigger
from .command import COMMAND, INTERRUPTED, REFUSED, Command, Settings, colors_off, write_examples

_COMMANDS: dict[str, click.Command] = {
    command.name or "": command
    for command in (
        *(profiles.login, profiles.logout, profiles.whoami, profiles.open_page),
        *(events.listen, trigger.trigger, events.resend, signing.verify),
        *(agent.call, agent.chat),
        *(raw.get, raw.post, raw.patch, raw.delete),
    )
}
_OWN: dict[str, dict[str, click.Command]] = {
    "deliveries": dict(events.deliveries.commands),
    "events": {"resend": events.resend_event},
}
_EXAMPLES = (
    "login",
    "listen --forward-to localhost:3000/hooks",
    "trigger appointment.confirmed",
    "customers create --phone +15005550006 --name Ada",
    "appointments list --status confirmed --json",
    "-p live deliveries list --failed --since 2h",
)


class Root(click.Group):
    """Our commands, and one for each resource of the service in use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Ours first. Help and completion send no requests, so they know the resources that were fetched before."""
        return [*_COMMANDS, *sorted({*_OWN, *_described(ctx, cached=True)})]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command. `resolve_command` has fetched the description if it is needed."""
        if cmd_name in _COMMANDS:
            return _COMMANDS[cmd_name]
        from .resources import Resource

        described = _described(ctx, cached=True)
        if cmd_name in described or cmd_name in _OWN:
            return Resource(cmd_name, described.get(cmd_name, {}), _OWN.get(cmd_name, {}))
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command to run."""
        if args[0] not in _COMMANDS and not ctx.resilient_parsing:
            known = _described(ctx)
            if args[0] not in known and args[0] not in _OWN:
                _described(ctx, refresh=True)
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        write_examples(_EXAMPLES, formatter)
        if not _described(ctx, cached=True):
            formatter.write_paragraph()
            formatter.write_text("Each resource of the service is a command, too: they are listed here after `login`.")


def _described(ctx: click.Context, *, cached: bool = False, refresh: bool = False) -> description.Operations:
    name = ctx.params.get("profile") or os.environ.get("APPOINTMENTS_PROFILE")
    if not cached:
        return description.operations(profiles.url_of(name), refresh=refresh)
    with contextlib.suppress(click.ClickException):
        return description.cached_operations(profiles.url_of(name))
    return {}


@click.group(cls=Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "-p", "--profile", metavar="NAME", envvar="APPOINTMENTS_PROFILE", help="The profile: test, live or local."
)
@click.version_option(package_name="appointments-cli", message="%(version)s")
@click.pass_context
def cli(context: click.Context, profile: str | None) -> None:
    """Work with the appointment and conversation service from the terminal.

    The environment's APPOINTMENTS_API_KEY and APPOINTMENTS_URL win over a profile.
    """
    context.obj = Settings(profile)


@click.command(
    cls=Command,
    prints=False,
    examples=(
        "completion bash >> ~/.bashrc",
        "completion zsh >> ~/.zshrc",
        "completion fish > ~/.config/fish/completions/appointments.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands in a shell."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, COMMAND, _COMPLETION).source())


_COMMANDS["completion"] = completion
_COMPLETION = f"_{COMMAND.upper()}_COMPLETE"


def main() -> None:
    """Run a command, and end with its exit code."""
    try:
        color = False if colors_off() else None
        code = cli.main(prog_name=COMMAND, complete_var=_COMPLETION, standalone_mode=False, color=color)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except BrokenPipeError:
        # What reads the output has ended; Python would complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = REFUSED
    sys.exit(code if isinstance(code, int) else 0)
