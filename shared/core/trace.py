"""Tracing: which API request or event caused the work of a thread. Log lines and changes of resources name it.

| id                | meaning |
|-------------------|---------|
| `request_id`      | the API request. Rows store it (`cause`), and who works on a row takes it over (`follow`) |
| `event_id`        | the webhook event that is created or delivered |
| `sqs_message_id`  | the queue message, until the worker knows the request. A message from outside has no request |
| `stream_event_id` | the same for a change in the table's stream |

`_context` in `shared/api/routes.py` makes the id of a request; one that a client sends is not taken.

The ids belong to one context, so items that are processed in several threads do not mix them. They end with the block
of `naming`, which entry points open for each request and each item of a batch; outside of a block, nothing is named.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_ids: ContextVar[Mapping[str, str] | None] = ContextVar("ids", default=None)


@contextmanager
def naming(**ids: str) -> Iterator[None]:
    """Name these ids, and no others, until the block ends."""
    token = _ids.set(ids)
    try:
        yield
    finally:
        _ids.reset(token)


def name(**ids: str) -> None:
    """Name these ids too, until the enclosing block ends."""
    present = _ids.get()
    if present is not None:
        _ids.set({**present, **ids})


def follow(row: Mapping[str, Any]) -> None:
    """Name the request that caused the work on this row, if it is known, until the enclosing block ends."""
    if "cause" in row and _ids.get() is not None:
        _ids.set({"request_id": row["cause"]})


def request_id() -> str | None:
    """The API request that caused the present work; None if it is unknown."""
    return (_ids.get() or {}).get("request_id")


def add_ids(record: logging.LogRecord) -> bool:
    """A filter of the log: adds the ids to a line, except those that the line states itself."""
    for key, value in (_ids.get() or {}).items():
        if not hasattr(record, key):
            setattr(record, key, value)
    return True
