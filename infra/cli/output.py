"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from .command import Settings

COLUMNS = (
    "id",
    "number",
    "at",
    "type",
    "event_id",
    "event_type",
    "role",
    "status",
    "call_status",
    "outcome",
    "response_status_code",
    "error_code",
    "enabled",
    "waiting",
    "name",
    "title",
    "phone",
    "email",
    "to",
    "content",
    "appointment_at",
    "url",
    "webhook_endpoint_id",
    "customer_id",
    "created",
    "created_at",
)
"""The columns of tables, of those that some row has."""
_WIDEST = 48
_COLORS = {
    **dict.fromkeys(("confirmed", "completed", "succeeded", "active"), "green"),
    **dict.fromkeys(("failed", "cancelled", "canceled", "no_answer", "invalid_number"), "red"),
    **dict.fromkeys(("pending", "attempting", "queued", "dialing", "consent_pending", "rescheduled"), "yellow"),
}


def wants_json() -> bool:
    """Whether the current command has `--json`."""
    context = click.get_current_context(silent=True)
    settings = context.find_object(Settings) if context else None
    return settings is not None and settings.as_json


def compact(value: object) -> str:
    """JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def show(settings: Settings, value: Any) -> None:
    """Print a response: a list as a table, an object as its fields."""
    if settings.as_json:
        show_json(value)
    elif "data" in value and isinstance(value["data"], list):
        table(value["data"])
        if value.get("has_more"):
            note("There are more: `--all` prints all of them as JSON lines.")
    else:
        width = max(map(len, value))
        for name, field in value.items():
            click.echo(f"{click.style(f'{name:<{width}}', dim=True)}  {_colored(_cell(name, field))}")


def show_json(value: object) -> None:
    """Print JSON, indented."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def show_lines(values: Iterable[object]) -> None:
    """Print JSON lines, each as soon as it is there."""
    for value in values:
        click.echo(compact(value))


def table(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows with those of `COLUMNS` that they fill."""
    rows = list(rows)
    names = [name for name in COLUMNS if any(row.get(name) is not None for row in rows)]
    if not names:
        note("There are none.")
        return
    cells = [[_short(_cell(name, row.get(name))) for name in names] for row in rows]
    widths = [max(len(line[index]) for line in [names, *cells]) for index in range(len(names))]
    head = "  ".join(f"{name:<{width}}" for name, width in zip(names, widths, strict=True))
    click.echo(click.style(head.rstrip(), bold=True))
    for line in cells:
        padded = (_colored(cell) + " " * (width - len(cell)) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


def note(text: str) -> None:
    """Print to stderr what is no data."""
    click.echo(click.style(text, dim=True), err=True)


def local_time(moment_s: float) -> str:
    """The time of day, with the date if it is another day's."""
    found = datetime.fromtimestamp(moment_s).astimezone()
    return f"{found:%H:%M:%S}" if found.date() == datetime.now().astimezone().date() else f"{found:%Y-%m-%d %H:%M:%S}"


def progress(label: str, length: int) -> Any:
    """A progress bar on stderr."""
    return click.progressbar(length=length, label=label, file=sys.stderr)


def _cell(name: str, value: object) -> str:
    if name == "created" and isinstance(value, int):
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%dT%H:%M:%SZ}"
    if value is None:
        return "-"
    return value if isinstance(value, str) else compact(value)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…"


def _colored(cell: str) -> str:
    return click.style(cell, fg=_COLORS[cell]) if cell in _COLORS else cell
