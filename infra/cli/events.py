"""Commands for events and their deliveries: `listen`, `events resend`, `deliveries`, `resend`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from .command import SINCE, Command, Failure, Settings, Since

if TYPE_CHECKING:
    from .api import Client

READERS = 8
"""Requests at a time: the deliveries of each event are a list of their own."""


class _Start(Since):
    name = "time|now|last"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value in ("now", "last") else super().convert(value, param, ctx)


@click.command(
    cls=Command,
    prints=False,
    examples=(
        "listen --forward-to localhost:3000/hooks",
        "listen --events appointment.*,session.completed",
        "listen --since 10m --forward-to localhost:3000/hooks",
        "listen --print-json | jq .type",
        "listen --print-secret",
    ),
)
@click.option(
    "--forward-to", metavar="URL", help="Send each event to this address, signed with a secret of this machine."
)
@click.option(
    "--events", metavar="TYPES", default="", help="Only these types, such as appointment.*, separated by commas."
)
@click.option(
    "--since",
    type=_Start(),
    default="last",
    metavar="TIME",
    help="Where to begin: now, 10m ago, or a time. The default, last, is where the last `listen` for this project,"
    " receiver and these events ended, or now.",
)
@click.option("--print-json", is_flag=True, help="Print each event as JSON on a line.")
@click.option("--print-secret", is_flag=True, help="Print the signing secret and end.")
@click.pass_obj
def listen(
    settings: Settings, forward_to: str | None, events: str, since: int | str, print_json: bool, print_secret: bool
) -> None:
    """Show events as they happen, and forward them to a receiver on this machine.

    The receiver needs no public address. It gets the requests that a webhook endpoint gets, signed with a secret of
    this machine instead. No event is lost or shown twice while this computer sleeps, the network is down, or the
    command is started again; a `kill -9` may repeat the event that was under way.
    """
    if print_secret:
        from . import signing

        click.echo(signing.own_secret())
        return
    from . import listener

    patterns = tuple(filter(None, (one.strip() for one in events.split(","))))
    listener.listen(settings, forward_to, patterns, since, as_json=print_json)


def _deliveries(client: Client, events: Iterable[Any]) -> Iterator[list[Any]]:
    """The deliveries of each event, newest first."""
    from concurrent.futures import ThreadPoolExecutor

    def read(event: Any) -> list[Any]:
        return list(client.items(f"/v1/events/{event['id']}/deliveries"))

    with ThreadPoolExecutor(READERS) as pool:
        yield from pool.map(read, events)


def _latest(deliveries: Iterable[Any]) -> list[Any]:
    """The newest delivery to each endpoint."""
    found: dict[str, Any] = {}
    for one in deliveries:
        found.setdefault(one["webhook_endpoint_id"], one)
    return list(found.values())


def _since(client: Client, since: int, status: str | None, endpoint: str | None) -> Iterator[Any]:
    """The newest delivery to each endpoint of the events since a time, as the bar shows."""
    from . import output

    events = list(client.items("/v1/events", [("created[gte]", str(since))]))
    with output.progress("Reading deliveries", len(events)) as bar:
        for deliveries in _deliveries(client, events):
            bar.update(1)
            for one in _latest(deliveries):
                if status in (None, one["status"]) and endpoint in (None, one["webhook_endpoint_id"]):
                    yield one


@click.group()
def deliveries() -> None:
    """Work with deliveries of events to webhook endpoints."""


@deliveries.command(
    "list",
    cls=Command,
    examples=("deliveries list --failed --since 2h", "deliveries list --since 2026-12-01T09:00:00Z --json"),
)
@click.option("--failed", "status", flag_value="failed", help="Only those that failed for good.")
@click.option("--status", help="Only those with this status.")
@click.option("--since", type=SINCE, default="1h", show_default=True, help="Of events since then: 2h, 7d, or a time.")
@click.option("--endpoint", metavar="ID", help="Only those to this endpoint.")
@click.pass_obj
def list_deliveries(settings: Settings, status: str | None, since: int, endpoint: str | None) -> None:
    """List the newest delivery of each event to each endpoint; with `--json` as JSON lines."""
    from . import output

    found = list(_since(settings.client, since, status, endpoint))
    if settings.as_json:
        output.show_lines(found)
    else:
        output.table(found)


@click.command(
    "resend", cls=Command, examples=("events resend evt_…", "events resend evt_… --endpoint whk_…"), prints=True
)
@click.argument("event_id")
@click.option("--endpoint", metavar="ID", help="Only to this endpoint.")
@click.pass_obj
def resend_event(settings: Settings, event_id: str, endpoint: str | None) -> None:
    """Send an event to its webhook endpoints again."""
    from . import output

    found = _latest(settings.client.items(f"/v1/events/{event_id}/deliveries"))
    chosen = [one for one in found if endpoint in (None, one["webhook_endpoint_id"])]
    if not chosen:
        raise Failure("The event was sent to no such endpoint.", "`listen --since` forwards events without endpoints.")
    new = [settings.client.post(_retry_path(one)) for one in chosen]
    output.show(settings, {"data": new})


def _retry_path(delivery: Any) -> str:
    return f"/v1/events/{delivery['event_id']}/deliveries/{delivery['id']}/retry"


@click.command(
    cls=Command, prints=False, examples=("resend --failed --since 2h", "resend --canceled --since 1d --endpoint whk_…")
)
@click.option("--failed", "status", flag_value="failed", help="Those that failed for good.")
@click.option(
    "--canceled", "status", flag_value="canceled", help="Those of the time in which their endpoint was disabled."
)
@click.option("--since", type=SINCE, required=True, help="Of events since then: 2h, 7d, or a time.")
@click.option("--endpoint", metavar="ID", help="Only those to this endpoint.")
@click.pass_obj
def resend(settings: Settings, status: str | None, since: int, endpoint: str | None) -> None:
    """Send all failed or canceled deliveries again, oldest first.

    A delivery that was sent again since then is left out. The exit code is 1 if some were refused.
    """
    from . import output
    from .api import ApiError

    if not status:
        raise click.UsageError("Say which deliveries: --failed or --canceled.")
    chosen = list(_since(settings.client, since, status, endpoint))[::-1]
    refused: list[str] = []
    with output.progress(f"Sending {len(chosen)} again", len(chosen)) as bar:
        for one in chosen:
            try:
                settings.client.post(_retry_path(one))
            except ApiError as error:
                refused.append(f"{one['event_id']} to {one['webhook_endpoint_id']}: {error.code}")
            bar.update(1)
    click.echo(f"Sent {len(chosen) - len(refused)} of {len(chosen)} {status} deliveries again.")
    if refused:
        raise Failure("The service refused to send some.", "; ".join(refused))


def wait_for(client: Client, query: Iterable[tuple[str, str]], timeout_s: float) -> Any:
    """The first event of a query, once it is in the log; None if it does not come."""
    deadline = time.monotonic() + timeout_s
    while True:
        if found := client.get("/v1/events", [*query, ("limit", "1")])["data"]:
            return found[0]
        if time.monotonic() > deadline:
            return None
        time.sleep(0.3)
