"""What happened with a customer, newest first: appointments, calls, messages, and changes of the customer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from functions.admin import lists
from functions.admin.visits import InProject
from shared.appointments.resource import APPOINTMENTS
from shared.calls.sessions import SESSIONS
from shared.conversations.resource import CONVERSATIONS, MESSAGES, messages_pk
from shared.core import clock, ids, threads
from shared.resources import list_pages, queries
from shared.resources.collections import Collection
from shared.webhooks.events import EVENTS

SHOWN = 20
"""The most entries of a kind that a page reads."""
_CONVERSATIONS = 5
"""The latest conversations whose messages a page reads."""
_AT_ONCE = 4
"""The reads that are made concurrently."""


@dataclass(frozen=True)
class TimelineEntry:
    """Something that happened at an instant. `kind` is that of the resource `doc`."""

    instant: clock.Instant
    kind: str
    doc: Any
    conversation: Any = None


def read(visit: InProject, customer_id: str, before: str) -> tuple[list[TimelineEntry], str | None]:
    """A page of the entries from before a time, newest first, and the time that the next page is from before.

    The page ends where one kind has more entries than were read. Messages are those of the latest conversations. Raises
    `datetime_invalid`.
    """
    instant = clock.LAST if not before else lists.instant_of(before, "before")
    entries, ends = list[TimelineEntry](), [clock.EPOCH]
    sources = _of_customer(visit, customer_id, instant)
    conversations = [one.doc for one in sources[2][0]]
    messages = threads.run_all(lambda one: _messages(visit, one, instant), conversations, _AT_ONCE)
    for found, has_more in sources + messages:
        entries += found
        if has_more:
            ends.append(found[-1].instant)
    end = max(ends)
    # A message may begin its conversation at the same instant.
    shown = sorted(
        (one for one in entries if one.instant >= end),
        key=lambda one: (one.instant, one.kind != CONVERSATIONS.kind),
        reverse=True,
    )
    return shown, clock.iso(end) if end else None


def _of_customer(visit: InProject, id: str, before: clock.Instant) -> list[tuple[list[TimelineEntry], bool]]:
    mine = {"customer_id": [id]}
    reads: list[Callable[[], tuple[list[TimelineEntry], bool]]] = [
        lambda: _read(visit, APPOINTMENTS, mine, before),
        lambda: _read(visit, SESSIONS, mine, before),
        lambda: _read(visit, CONVERSATIONS, mine, before, limit=_CONVERSATIONS),
        lambda: _read(visit, EVENTS, {"object_id": [id]}, before),
    ]
    return threads.run_all(lambda read: read(), reads, _AT_ONCE)


def _messages(visit: InProject, conversation: Any, before: clock.Instant) -> tuple[list[TimelineEntry], bool]:
    partition = messages_pk(visit.scope, conversation["id"])
    found, has_more = _read(visit, MESSAGES, {"order": ["desc"]}, before, partition=partition)
    return [dataclasses.replace(one, conversation=conversation) for one in found], has_more


def _read(
    visit: InProject,
    collection: Collection[Any, Any],
    parameters: dict[str, list[str]],
    before: clock.Instant,
    limit: int = SHOWN,
    partition: str | None = None,
) -> tuple[list[TimelineEntry], bool]:
    last = ids.before(collection.prefix, ids.first_of(collection.prefix, before))
    query = dataclasses.replace(queries.parse(collection, parameters), limit=limit, max_id=last)
    page = list_pages.read(visit.scope, collection, query, partition=partition)
    entries = [
        TimelineEntry(ids.created_at(collection.prefix, row["sk"]), collection.kind, lists.document(row))
        for row in page.rows
    ]
    return entries, page.next_cursor is not None
