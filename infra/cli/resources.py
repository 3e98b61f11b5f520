"""A command for each operation of the API, from its description, such as `customers list`."""

from __future__ import annotations

import json
from typing import Any

import click

from .command import COMMAND, DATA, Command, Settings, assigned
from .description import Operation

Fields = list[dict[str, Any]]


class Resource(click.Group):
    """The commands of a resource: those of the description, and ours beside them."""

    def __init__(self, name: str, described: dict[str, Operation], own: dict[str, click.Command]) -> None:
        known = " ".join(f"{one}," for one in [*described, *own]).rstrip(",")
        super().__init__(name, help=f"Work with {name.replace('-', ' ')}.", short_help=known)
        self._described = described
        self.commands = own

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return [*self._described, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command; `show` is another name for `get`."""
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        operation = self._described.get("get" if cmd_name == "show" else cmd_name)
        return _command(str(self.name), cmd_name, operation) if operation else None

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Say where the examples are."""
        formatter.write_paragraph()
        formatter.write_text(f"`{COMMAND} {self.name} COMMAND --help` has examples.")


def _option_name(field: dict[str, Any]) -> str:
    return "--" + str(field["name"]).replace("[", "-").replace("]", "").replace("_", "-")


def _options(fields: Fields, prefix: str) -> list[click.Parameter]:
    """Options for fields; the server says what is wrong with a value, but those of a list complete."""
    return [
        click.Option(
            [_option_name(field), f"{prefix}{number}"],
            multiple=field["type"] == "array",
            type=click.Choice(field["values"]) if field["values"] else str,
            metavar=None if field["values"] else field["type"].upper(),
            help=field["help"],
        )
        for number, field in enumerate(fields)
    ]


def _typed(field: dict[str, Any], value: Any) -> Any:
    """A value as the body of a request needs it."""
    if field["type"] == "array":
        return [json.loads(one) if field["items"] == "object" else one for one in value]
    if field["type"] in ("integer", "number", "boolean", "object"):
        return json.loads(value)
    return value


def _values(fields: Fields, given: dict[str, Any], prefix: str) -> dict[str, Any]:
    found = {}
    for number, field in enumerate(fields):
        value = given.get(f"{prefix}{number}")
        if value not in (None, ()):
            try:
                found[field["name"]] = _typed(field, value)
            except ValueError:
                raise click.BadParameter(f"{value!r} is not of the type {field['type']}.") from None
    return found


def _command(resource: str, name: str, operation: Operation) -> click.Command:
    is_list = operation["method"] == "GET" and any(one["name"] == "starting_after" for one in operation["query"])
    writes = operation["method"] in ("POST", "PATCH")
    params: list[click.Parameter] = [
        click.Argument([f"a{n}"], metavar=one.upper()) for n, one in enumerate(operation["arguments"])
    ]
    params += _options(operation["query"], "q") + _options(operation["body"], "b")
    command = Command(
        name,
        params=params,
        help=f"{operation['summary']}.\n\n{operation['description']}",
        short_help=operation["summary"],
        examples=_examples(resource, name, operation, is_list=is_list),
    )

    @click.pass_obj
    def run(
        settings: Settings,
        /,
        data: tuple[str, ...] = (),
        idempotency_key: str | None = None,
        every: bool = False,
        **given: Any,
    ) -> None:
        from . import output

        path = operation["path"]
        for number, argument in enumerate(operation["arguments"]):
            path = path.replace(f"{{{argument}}}", given[f"a{number}"])
        query = [
            (field["name"], one)
            for number, field in enumerate(operation["query"])
            if (value := given.get(f"q{number}"))
            for one in ([value] if isinstance(value, str) else value)
        ]
        if every:
            output.show_lines(settings.client.items(path, query))
            return
        body = _values(operation["body"], given, "b") | assigned(data) if writes else None
        request = settings.client.request
        response = request(operation["method"], path, query=query, body=body, idempotency_key=idempotency_key)
        output.show(settings, response)

    command.callback = run
    if is_list:
        click.option("--all", "every", is_flag=True, help="Print all items of all pages as JSON lines.")(command)
    if writes:
        DATA(command)
        click.option("--idempotency-key", metavar="KEY", help="A key of your own instead of a random one.")(command)
    return command


def _examples(resource: str, name: str, operation: Operation, *, is_list: bool) -> list[str]:
    words = [resource, name, *(f"{one.upper()}" for one in operation["arguments"])]
    lines = [" ".join(words)] if not any(field["required"] for field in operation["body"]) else []
    for field in operation["body"]:
        value = (operation["example"] or {}).get(field["name"])
        if value is not None and not isinstance(value, (list, dict)):
            words += [_option_name(field), _quoted(value)]
    if is_list:
        lines += [" ".join([*words, "--all"]), " ".join([*words, "--json"])]
    return list(dict.fromkeys([*lines, " ".join(words)]))


def _quoted(value: object) -> str:
    import shlex

    return shlex.quote(value if isinstance(value, str) else json.dumps(value))
