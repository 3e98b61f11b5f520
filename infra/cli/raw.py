"""Requests to any path: `get`, `post`, `patch`, `delete`."""

from __future__ import annotations

import sys

import click

from .command import DATA, Command, Settings, assigned


def _path(text: str) -> str:
    """`customers`, `/customers` and `/v1/customers` are the same."""
    path = "/" + text.lstrip("/")
    return path if path.startswith("/v1/") else f"/v1{path}"


def _show(value: object) -> None:
    from . import output

    if sys.stdout.isatty():
        output.show_json(value)
    else:
        output.show_lines([value])


@click.command(
    cls=Command,
    prints=False,
    examples=("get /v1/ping", "get customers -d limit=5", "get events -d type=appointment.confirmed --all"),
)
@click.argument("path")
@DATA
@click.option("--all", "every", is_flag=True, help="Print all items of all pages as JSON lines.")
@click.pass_obj
def get(settings: Settings, path: str, data: tuple[str, ...], every: bool) -> None:
    """Send a GET. Each `-d` is a parameter of the query."""
    from . import output

    pairs = [(name, value) for name, _, value in (pair.partition("=") for pair in data)]
    if every:
        output.show_lines(settings.client.items(_path(path), pairs))
    else:
        _show(settings.client.get(_path(path), pairs))


def _writer(method: str, article: str, *examples: str) -> click.Command:
    @click.command(
        method.lower(),
        cls=Command,
        prints=False,
        help=f"Send {article} {method}. It has an Idempotency-Key, so that its retries have one effect.",
        examples=examples,
    )
    @click.argument("path")
    @DATA
    @click.option("--idempotency-key", metavar="KEY", help="A key of your own instead of a random one.")
    @click.pass_obj
    def command(settings: Settings, path: str, data: tuple[str, ...], idempotency_key: str | None) -> None:
        request = settings.client.request
        _show(request(method, _path(path), body=assigned(data) or None, idempotency_key=idempotency_key))

    return command


post = _writer(
    "POST",
    "a",
    "post customers -d phone=+15005550006 -d name=Ada -d metadata[plan]=gold",
    "post customers/cust_…/call",
    "post appointments -d @appointment.json",
)
patch = _writer(
    "PATCH", "a", "patch appointments/appt_… -d status=confirmed", "patch appointments/appt_… -d notes:=null"
)


@click.command(cls=Command, prints=False, examples=("delete customers/cust_…",))
@click.argument("path")
@click.pass_obj
def delete(settings: Settings, path: str) -> None:
    """Send a DELETE."""
    _show(settings.client.request("DELETE", _path(path)))
