"""What `listen` does: events reach a receiver on this machine, without a public address.

It reads the log of events again and again, each time over a window that overlaps the one before, because an event
becomes visible up to a few seconds after the time in its `created`. A journal on disk has the ids of what was shown and
the time up to which the log was read. So no event is lost or shown twice, whatever interrupts the program. Times are
the service's, because this machine's clock may be wrong.
"""

from __future__ import annotations

import contextlib
import hashlib
import signal
import sqlite3
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click
import httpx

from . import output, signing
from .api import ApiError, Client, Unreachable
from .command import COMMAND, INTERRUPTED, UNAVAILABLE, Failure, Settings

OVERLAP_S = 120
IDLE_S, BUSY_S = 0.75, 0.25
"""The time between two reads: idle, 80 requests a minute, which is 1.6 % of a key's rate limit."""
BUSY_FOR_S = 10.0
WHOLE_EVERY_S = 30.0
"""In between, a read ends at the first page that has nothing new."""
BEHIND_S = 10
MANY = 100
RECEIVER_TIMEOUT_S = 15
LONGEST_WAIT_S = 10


class Journal:
    """What was shown, in a file that one process at a time can use."""

    def __init__(self, name: str) -> None:
        import platformdirs

        folder: Path = platformdirs.user_state_path(COMMAND)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._db = sqlite3.connect(folder / f"listen-{name}.db", timeout=0, isolation_level=None)
        try:
            self._db.executescript(
                "PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = OFF; BEGIN EXCLUSIVE;"
                "CREATE TABLE IF NOT EXISTS shown (id TEXT PRIMARY KEY, created INTEGER);"
                "CREATE TABLE IF NOT EXISTS state (read_until INTEGER); COMMIT"
            )
        except sqlite3.OperationalError:
            raise Failure(
                "Another `listen` is running for this project, receiver and these events.",
                "End it, or give this one another receiver.",
            ) from None

    @property
    def read_until(self) -> int | None:
        """The time up to which everything was shown."""
        row = self._db.execute("SELECT read_until FROM state").fetchone()
        return int(row[0]) if row else None

    def advance(self, moment: int) -> None:
        """Everything up to this time was shown. Ids that no later window contains are forgotten."""
        self._db.execute("BEGIN")
        self._db.execute("DELETE FROM state")
        self._db.execute("INSERT INTO state VALUES (?)", [moment])
        self._db.execute("DELETE FROM shown WHERE created < ?", [moment - OVERLAP_S])
        self._db.execute("COMMIT")

    def has(self, event: Any) -> bool:
        """Whether the event was shown."""
        return self._db.execute("SELECT 1 FROM shown WHERE id = ?", [event["id"]]).fetchone() is not None

    def add(self, event: Any) -> None:
        """The event was shown."""
        self._db.execute("INSERT OR IGNORE INTO shown VALUES (?, ?)", [event["id"], event["created"]])

    def begin_at(self, moment: int) -> None:
        """Forget everything, and show what happened since this time."""
        self._db.executescript("DELETE FROM shown; DELETE FROM state")
        self.advance(moment + OVERLAP_S)


class Interrupts:
    """Ctrl-C and SIGTERM end the program, but not between an event and its entry in the journal."""

    def __init__(self) -> None:
        self._busy = self._pending = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._interrupt)

    def _interrupt(self, number: int, frame: object) -> None:
        # The second time ends it at once: a receiver may hang.
        if not self._busy or self._pending:
            raise click.exceptions.Exit(INTERRUPTED)
        self._pending = True

    @contextlib.contextmanager
    def later(self) -> Iterator[None]:
        """Finish what is within first."""
        self._busy = True
        yield
        self._busy = False
        if self._pending:
            raise click.exceptions.Exit(INTERRUPTED)


class Listener:
    """Reads the log and shows what is new."""

    def __init__(self, client: Client, journal: Journal, patterns: tuple[str, ...], forward_to: str | None) -> None:
        self._client, self._journal, self._patterns, self._url = client, journal, patterns, forward_to
        self._secret = signing.own_secret()
        self._receiver = httpx.Client(timeout=RECEIVER_TIMEOUT_S, trust_env=False)
        self._whole_at = -WHOLE_EVERY_S
        self._interrupts = Interrupts()
        self.as_json = False

    def start_at(self, moment: int) -> None:
        """Show what happened since this time. What later reads see before it, because they overlap, counts as shown."""
        before = [("created[gte]", str(moment - OVERLAP_S)), ("created[lt]", str(moment))]
        self._journal.begin_at(moment)
        for event in self._client.items("/v1/events", before):
            self._journal.add(event)

    def start_now(self) -> None:
        """Show only what happens from now on: what is visible now counts as shown."""
        now = self._now()
        for event in self._client.items("/v1/events", [("created[gte]", str(now - OVERLAP_S))]):
            self._journal.add(event)
        self._journal.advance(now)
        self._whole_at = time.monotonic()

    def read(self) -> int:
        """Show what is new, oldest first, and return how many events that were."""
        since = (self._journal.read_until or 0) - OVERLAP_S
        query = [("created[gte]", str(since)), ("limit", "100")]
        whole = time.monotonic() - self._whole_at >= WHOLE_EVERY_S
        events: list[Any] = []
        now, cursor = 0, None
        while True:
            response = self._client.send(
                "GET", "/v1/events", query=[*query, *([("starting_after", cursor)] if cursor else [])]
            )
            now = now or server_time(response)
            page = response.json()
            unseen = [event for event in page["data"] if not self._journal.has(event)]
            events += unseen
            cursor = page["next_cursor"]
            if not cursor or not (unseen or whole):
                break
        self._show(events[::-1], now)
        if not cursor:
            self._whole_at = time.monotonic()
            self._journal.advance(now)
        return len(events)

    def _now(self) -> int:
        return server_time(self._client.send("GET", "/v1/events", query=[("limit", "1")]))

    def _show(self, events: list[Any], now: int) -> None:
        wanted = [event for event in events if any(fnmatchcase(event["type"], one) for one in self._patterns)]
        behind = bool(wanted) and (len(wanted) > MANY or now - wanted[0]["created"] > BEHIND_S)
        if behind:
            first = output.local_time(wanted[0]["created"])
            events_behind = "one event" if len(wanted) == 1 else f"{len(wanted)} events"
            output.note(f"Behind by {events_behind}, the first one of {first} …")
        for event in wanted:
            with self._interrupts.later():
                body = output.compact(event).encode()
                answer = self._forward(event, body) if self._url else ""
                click.echo(body.decode() if self.as_json else _line(event, answer))
                self._journal.add(event)
        for event in events:
            self._journal.add(event)
        if behind:
            output.note("Caught up.")

    def _forward(self, event: Any, body: bytes) -> str:
        """What the receiver answers, in words."""
        began = time.monotonic()
        headers = signing.headers(self._secret, event["id"], body, int(time.time()))
        try:
            with self._receiver.stream("POST", str(self._url), content=body, headers=headers) as response:
                status = response.status_code
        except httpx.HTTPError as error:
            return click.style(f"→ {str(error) or type(error).__name__}", fg="red")
        text = f"→ {status} ({(time.monotonic() - began) * 1000:.0f} ms)"
        return click.style(text, fg="green" if 200 <= status < 300 else "red")


def server_time(response: httpx.Response) -> int:
    """The service's time, in Unix seconds."""
    return int(parsedate_to_datetime(response.headers["Date"]).timestamp())


def _line(event: Any, answer: str) -> str:
    moment = click.style(output.local_time(event["created"]), dim=True)
    return f"{moment}  {event['type']:<26} {event['id']}  {event['data']['object']['id']}  {answer}".rstrip()


def listen(
    settings: Settings, forward_to: str | None, patterns: tuple[str, ...], since: int | str, *, as_json: bool
) -> None:
    """Show events until interrupted."""
    client = settings.client
    ping = client.get("/v1/ping")
    for pattern in patterns:
        # The service knows the types, and says what is wrong with one.
        client.get("/v1/events", [("type", pattern), ("limit", "1")])
    url = forward_to if forward_to is None or "://" in forward_to else f"http://{forward_to}"
    name = [client.url, ping["project_id"], ping["livemode"], url, sorted(patterns)]
    journal = Journal(hashlib.sha256(output.compact(name).encode()).hexdigest()[:16])
    listener = Listener(client, journal, patterns or ("*",), url)
    listener.as_json = as_json
    if isinstance(since, int):
        listener.start_at(since)
    elif since == "now" or journal.read_until is None:
        listener.start_now()
    else:
        output.note(
            f"Continuing after {output.local_time(journal.read_until)}; `--since now` skips what happened since."
        )
    output.note(f"Listening to {ping['project_name']} ({'live' if ping['livemode'] else 'test'} mode) at {client.url}.")
    if url:
        output.note(f"Forwarding to {url}, signed with {signing.own_secret()}")
    _read_for_ever(listener)


def _read_for_ever(listener: Listener) -> None:
    failures, last_event = 0, -BUSY_FOR_S
    while True:
        try:
            if listener.read():
                last_event = time.monotonic()
            if failures:
                output.note("Connected again.")
            failures = 0
            wait_s = BUSY_S if time.monotonic() - last_event < BUSY_FOR_S else IDLE_S
        except (ApiError, Unreachable) as error:
            if error.exit_code != UNAVAILABLE:
                raise
            if not failures:
                output.note(f"{error.message} Trying again; no event is lost.")
            failures += 1
            wait_s = float(error.retry_after or min(LONGEST_WAIT_S, BUSY_S * 2**failures))
        time.sleep(wait_s)
