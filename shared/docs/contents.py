"""The pages of the documentation, in the order of the menu, and the operations of the reference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Page:
    """A page of text. Its address is `/docs/{name}`, and its text is in `content/{name}.md`."""

    name: str
    title: str
    about: str
    """What the reader finds there, in a sentence without a period at the end."""

    @property
    def path(self) -> str:
        """The path of the page."""
        return f"/docs/{self.name}"


MENU: Mapping[str, tuple[Page, ...]] = {
    "Start": (
        Page("getting-started", "Getting started", "From an API key to a verified webhook in five minutes"),
        Page("authentication", "Authentication and modes", "API keys, test mode and live mode"),
        Page("test-mode", "Test mode", "Phone numbers and messages that select an outcome"),
        Page("going-live", "Going live", "A checklist from test mode to live mode"),
        Page("local", "Develop locally", "Test webhooks on your own machine, without a public tunnel"),
    ),
    "Requests": (
        Page("generate", "Generate a client", "Commands for Python, TypeScript and other languages"),
        Page("requests", "Requests and resources", "Fields, times, metadata, updates and deletion"),
        Page("idempotency", "Idempotency", "How to retry a request without doing its work twice"),
        Page("pagination", "Pagination and filters", "How to read long lists, and how to find things in them"),
        Page("rate-limits", "Rate limits", "How many requests a key may send, and what to do at the limit"),
        Page("limits", "Limits", "Sizes, lengths, rates and times, in tables"),
        Page("errors", "Errors", "Every error code: what it means and what to do"),
        Page("versioning", "Versioning", "What may change in v1, and what never does"),
        Page("changelog", "Changelog", "What each revision of the API added"),
    ),
    "Resources": (
        Page("appointments", "Customers and appointments", "Statuses, and the changes that each one allows"),
        Page("calls", "Calls and consent", "Outbound calls, their outcomes, and consent on WhatsApp"),
        Page("agent", "The agent", "What it knows, what it may change, and when it calls"),
        Page("conversations", "Conversations and actions", "Messages to the agent, its replies, and what it does"),
        Page("retention", "Retention and erasure", "How long data is kept, and how a person is removed"),
    ),
    "Webhooks": (
        Page("webhooks", "Receive webhooks", "Register an endpoint, and verify what it receives"),
        Page("receivers", "Receivers", "Programs for Flask, FastAPI and Express"),
        Page("languages", "Other languages", "Verify signatures in Go, PHP, Ruby, Java and C#"),
        Page("deliveries", "Retries and order", "When a delivery is retried, and in which order events arrive"),
        Page("catch-up", "Catch up and reconcile", "How to find and process events that were missed"),
        Page("events", "Event types", "Every event type with a complete payload"),
    ),
}
PAGES: Mapping[str, Page] = {page.name: page for pages in MENU.values() for page in pages}


def neighbors(name: str) -> tuple[Page | None, Page | None]:
    """The pages before and after this one."""
    order = [None, *PAGES.values(), None]
    position = order.index(PAGES[name])
    return order[position - 1], order[position + 1]


def operations(description: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each operation of the OpenAPI document `description`: `GET /v1/customers` and its object."""
    for path, methods in json.loads(description)["paths"].items():
        for method, operation in methods.items():
            if isinstance(operation, dict) and "operationId" in operation:
                yield f"{method.upper()} {path}", operation
