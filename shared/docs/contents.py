"""The pages of the documentation, in the order of the menu, and the operations of the reference."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GuidePage:
    """A page of text. Its address is `/docs/{name}`, and its text is in `content/{name}.md`."""

    name: str
    title: str
    about: str
    """What the reader finds there, in a sentence without a period at the end."""

    @property
    def path(self) -> str:
        """The path of the page."""
        return f"/docs/{self.name}"


MENU: Mapping[str, tuple[GuidePage, ...]] = {
    "Start": (
        GuidePage("getting-started", "Getting started", "From an API key to a verified webhook in five minutes"),
        GuidePage("authentication", "Authentication and modes", "API keys, test mode and live mode"),
        GuidePage("test-mode", "Test mode", "Phone numbers and messages that select an outcome"),
        GuidePage("going-live", "Going live", "A checklist from test mode to live mode"),
        GuidePage("local", "Develop locally", "Test webhooks on your own machine, without a public tunnel"),
    ),
    "Requests": (
        GuidePage("generate", "Generate a client", "Commands for Python, TypeScript and other languages"),
        GuidePage("requests", "Requests and resources", "Fields, times, metadata, updates and deletion"),
        GuidePage("idempotency", "Idempotency", "How to retry a request without doing its work twice"),
        GuidePage("pagination", "Pagination and filters", "How to read long lists, and how to find things in them"),
        GuidePage("rate-limits", "Rate limits", "How many requests a key may send, and what to do at the limit"),
        GuidePage("limits", "Limits", "Sizes, lengths, rates and times, in tables"),
        GuidePage("errors", "Errors", "Every error code: what it means and what to do"),
        GuidePage("versioning", "Versioning", "What may change in v1, and what never does"),
        GuidePage("changelog", "Changelog", "What each revision of the API added"),
    ),
    "Resources": (
        GuidePage("appointments", "Customers and appointments", "Statuses, and the changes that each one allows"),
        GuidePage("calls", "Calls and consent", "Outbound calls, their outcomes, and consent on WhatsApp"),
        GuidePage("agent", "The agent", "What it knows, what it may change, and when it calls"),
        GuidePage("conversations", "Conversations and actions", "Messages to the agent, its replies, and what it does"),
        GuidePage("retention", "Retention and erasure", "How long data is kept, and how a person is removed"),
    ),
    "Webhooks": (
        GuidePage("webhooks", "Receive webhooks", "Register an endpoint, and verify what it receives"),
        GuidePage("receivers", "Receivers", "Programs for Flask, FastAPI and Express"),
        GuidePage("languages", "Other languages", "Verify signatures in Go, PHP, Ruby, Java and C#"),
        GuidePage("deliveries", "Retries and order", "When a delivery is retried, and in which order events arrive"),
        GuidePage("catch-up", "Catch up and reconcile", "How to find and process events that were missed"),
        GuidePage("events", "Event types", "Every event type with a complete payload"),
    ),
}
PAGES: Mapping[str, GuidePage] = {page.name: page for pages in MENU.values() for page in pages}


GUIDES: Mapping[str, tuple[str, ...]] = {
    "Account": ("authentication",),
    "Agent": ("agent",),
    "Customers": ("appointments",),
    "list_customers": ("pagination#filters", "appointments"),
    "update_customer": ("appointments", "requests#updates"),
    "delete_customer": ("appointments#delete-a-customer", "retention"),
    "opt_in_customer": ("calls#people-who-do-not-want-to-be-called",),
    "Appointments": ("appointments",),
    "list_appointments": ("pagination#filters", "appointments"),
    "create_appointment": ("appointments#create",),
    "update_appointment": ("appointments#statuses", "appointments#move-an-appointment"),
    "delete_appointment": ("appointments#cancel-or-delete",),
    "Calls": ("calls",),
    "call_customer": ("calls#call-a-customer", "calls#consent-on-whatsapp", "test-mode#phone-numbers-of-calls"),
    "list_sessions": ("calls#follow-the-call", "pagination#filters"),
    "retrieve_session": ("calls#follow-the-call",),
    "cancel_session": ("calls#when-calls-are-made",),
    "retrieve_transcript": ("calls#transcript-and-recording",),
    "retrieve_recording": ("calls#transcript-and-recording",),
    "Conversations": ("conversations",),
    "list_conversations": ("conversations#handoff", "pagination#filters"),
    "send_message": ("conversations#send-a-message", "conversations#if-the-agent-is-slow"),
    "send_message_to_thread": ("conversations#send-a-message", "conversations#who-the-customer-is"),
    "resume_conversation": ("conversations#handoff",),
    "end_conversation": ("conversations#end-a-conversation",),
    "Webhook endpoints": ("webhooks",),
    "create_webhook_endpoint": ("webhooks#register-an-endpoint", "receivers", "languages"),
    "update_webhook_endpoint": ("webhooks#change-disable-or-delete-an-endpoint",),
    "delete_webhook_endpoint": ("webhooks#change-disable-or-delete-an-endpoint",),
    "rotate_webhook_endpoint_secret": ("webhooks#rotate-the-secret",),
    "test_webhook_endpoint": ("webhooks#send-a-test-event", "local"),
    "Events": ("events",),
    "list_events": ("catch-up", "pagination#filters"),
    "list_deliveries": ("deliveries#look-at-deliveries",),
    "retrieve_delivery": ("deliveries#look-at-deliveries",),
    "retry_delivery": ("deliveries#retry-by-hand",),
}
"""The guides to the operations of a tag or, before them, to one operation: pages, or sections of pages."""


def guides(operation: Mapping[str, Any]) -> Sequence[str]:
    """The guides to an operation of the OpenAPI document, each a page's name or `name#section`."""
    return GUIDES.get(operation["operationId"]) or GUIDES[operation["tags"][0]]


def neighbors(name: str) -> tuple[GuidePage | None, GuidePage | None]:
    """The pages before and after this one."""
    order = [None, *PAGES.values(), None]
    position = order.index(PAGES[name])
    return order[position - 1], order[position + 1]


@functools.lru_cache(1)
def operations(description: str) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """The operations of the OpenAPI document `description`: `GET /v1/customers` and its object."""
    return [
        (f"{method.upper()} {path}", operation)
        for path, methods in json.loads(description)["paths"].items()
        for method, operation in methods.items()
        if isinstance(operation, dict) and "operationId" in operation
    ]


def guided(page: GuidePage, description: str) -> Sequence[Mapping[str, Any]]:
    """The operations to which a page is a guide."""
    return [
        operation
        for _, operation in operations(description)
        if any(guide.partition("#")[0] == page.name for guide in guides(operation))
    ]
