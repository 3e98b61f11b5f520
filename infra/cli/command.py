"""What all commands share: settings, `--json`, help with examples, and the kinds of values that people type."""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from .api import Client
    from .profiles import Profile

COMMAND = "appt"
OK, REFUSED, USAGE, KEY, NOT_FOUND, UNAVAILABLE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
"""Exit codes, for scripts."""

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Failure(click.ClickException):
    """An error with a second line that says what to do."""

    def __init__(self, message: str, remedy: str = "", exit_code: int = REFUSED) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.exit_code = exit_code  # type: ignore[misc]  # Click has it in the class

    def show(self, file: Any = None) -> None:
        """Print both lines to stderr."""
        click.echo(f"{click.style('Error:', fg='red', bold=True)} {self.message}", err=True)
        if self.remedy:
            click.echo(f"  {self.remedy}", err=True)


class Settings:
    """What the options and the environment say. Everything is read when it is first used."""

    def __init__(self, profile_name: str | None) -> None:
        self.profile_name = profile_name
        self.as_json = False

    @functools.cached_property
    def profile(self) -> Profile:
        """The service and the key to use."""
        from . import profiles

        return profiles.resolve(self.profile_name)

    @functools.cached_property
    def client(self) -> Client:
        """A client of that service."""
        from .api import Client

        return Client(self.profile.url, self.profile.key)


class Command(click.Command):
    """A command whose help ends with examples, and which takes `--json` if it prints resources."""

    def __init__(self, *args: Any, examples: Iterable[str] = (), prints: bool = True, **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = tuple(examples)
        if prints:
            self.params.append(
                click.Option(
                    ["--json"],
                    is_flag=True,
                    expose_value=False,
                    help="Print JSON instead of tables.",
                    callback=lambda context, _, value: setattr(context.find_object(Settings), "as_json", value),
                )
            )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        write_examples(self.examples, formatter)


def write_examples(examples: Iterable[str], formatter: click.HelpFormatter) -> None:
    """Write a section of examples, a command a line."""
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"{'':>{formatter.current_indent}}{COMMAND} {example}\n")


class Since(click.ParamType[Any]):
    """A time in Unix seconds: `10m` ago, a date with time, or Unix seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse what was typed."""
        if isinstance(value, int):
            return value
        if found := re.fullmatch(r"(\d+)([smhd])", value):
            return int(time.time()) - int(found[1]) * _UNITS_S[found[2]]
        if value.isdigit():
            return int(value)
        try:
            return int(datetime.fromisoformat(value).timestamp())
        except ValueError:
            self.fail(f"{value!r} is neither 10m, 2h or 7d, nor a time such as 2026-12-01T09:00:00Z.", param, ctx)


SINCE = Since()


def assigned(pairs: Iterable[str]) -> dict[str, Any]:
    """The object that `-d` options describe: `a=text`, `a:=json`, `a[b]=text`, `a[]=item`, `@file`."""
    import json

    result: dict[str, Any] = {}
    for pair in pairs:
        if pair.startswith("@"):
            with click.open_file(pair[1:], encoding="utf-8") as file:
                content = _parsed(json.load, file, pair)
            if not isinstance(content, dict):
                raise click.UsageError(f"{pair} does not contain a JSON object.")
            result |= content
            continue
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"{pair!r} is not of the form key=value.")
        if name.endswith(":"):
            name, value = name[:-1], _parsed(json.loads, value, pair)
        _put(result, re.findall(r"^[^\[\]]+|\[([^\[\]]*)\]", name) and re.split(r"\[", name.replace("]", "")), value)
    return result


def _parsed(load: Any, source: Any, pair: str) -> Any:
    try:
        return load(source)
    except ValueError as error:
        raise click.UsageError(f"{pair!r} is not valid JSON: {error}") from None


def _put(target: dict[str, Any], keys: list[str], value: Any) -> None:
    """Set the value at a path of keys; an empty last key appends to a list."""
    *parents, last = keys
    if parents and not last:
        *parents, name = parents
        _inner(target, parents).setdefault(name, []).append(value)
    else:
        _inner(target, parents)[last] = value


def _inner(target: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    for key in keys:
        target = target.setdefault(key, {})
    return target


DATA = click.option(
    "-d",
    "--data",
    multiple=True,
    metavar="KEY=VALUE",
    help="A field: key=text, key:=json, key[inner]=text, key[]=item, or @file with a JSON object.",
)


def colors_off() -> bool:
    """Whether the environment asks for no colors (no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))
