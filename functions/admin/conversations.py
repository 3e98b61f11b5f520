"""Conversations: as a thread with the agent's actions, ended by a person or given back to the agent."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from functions.admin import lists
from functions.admin.visits import PROJECT, InProject, Page, View
from shared.admin.members import MEMBER, VIEWER
from shared.conversations import commands
from shared.conversations import resource as conversations
from shared.conversations.resource import CONVERSATIONS, MESSAGES, ConversationRecord, ConversationStatus
from shared.resources import pages, queries
from shared.store import table

SECTION = "conversations"
MESSAGES_SHOWN = 100
WAITING = "waiting"
"""The status, and the value of its filter, that the pages give to conversations that wait for a person."""
NOTICES = {
    "ended": "The conversation has ended. A new message on its thread begins another one.",
    "given_back": "The agent replies to the next message.",
}


def show_all(visit: InProject) -> Response:
    """List the conversations, newest first, by the filters of the API, or those that wait for a person."""
    wanted = lists.wanted(visit, "status", "external_id", "customer_id")

    def page() -> tuple[list[Any], str | None]:
        if wanted["status"] != WAITING:
            return lists.read(visit, CONVERSATIONS, lists.parameters(visit, wanted), as_shown)
        found = conversations.waiting(visit.scope, lists.PAGE + 1, visit.query.get("starting_after"))
        cursor = found[lists.PAGE - 1]["id"] if len(found) > lists.PAGE else None
        return [{**one, "status": WAITING} for one in found[: lists.PAGE]], cursor

    return lists.show(visit, SECTION, wanted, page, statuses=(WAITING, *ConversationStatus))


def as_shown(row: table.Row) -> dict[str, Any]:
    """The conversation of a row, as lists show it."""
    return lists.document(row) | ({"status": WAITING} if conversations.waits(row) else {})


def show(visit: InProject) -> Response:
    """Show a conversation's messages, oldest first; the first page has the latest ones."""
    record = _find(visit)
    query = queries.parse(MESSAGES, visit.page_parameters(MESSAGES_SHOWN) | {"order": ["desc"]})
    partition = conversations.messages_pk(visit.scope, record.doc["id"])
    page = pages.read(visit.scope, MESSAGES, query, partition=partition)
    return visit.render(
        "conversation.html",
        section=SECTION,
        conversation=record.doc,
        waits=conversations.waits(record.row),
        messages=[json.loads(row["doc"]) for row in reversed(page.rows)],
        cursor=page.next_cursor,
        notice=NOTICES.get(visit.query.get("notice", "")),
    )


def end(visit: InProject) -> Response:
    """End a conversation."""
    visit.execute(
        lambda: commands.end(visit.scope, _find(visit)), lambda one: visit.entry("conversation.ended", one["id"])
    )
    return visit.redirect(visit.path(SECTION, f"{visit.params['id']}?notice=ended"))


def give_back(visit: InProject) -> Response:
    """Give a conversation that was handed off back to the agent."""
    visit.execute(
        lambda: commands.give_back(visit.scope, _find(visit)),
        lambda one: visit.entry("conversation.given_back", one["id"]),
    )
    return visit.redirect(visit.path(SECTION, f"{visit.params['id']}?notice=given_back"))


def _find(visit: InProject) -> ConversationRecord:
    return CONVERSATIONS.find(visit.scope, visit.params["id"])


PAGES = (
    Page(f"{PROJECT}/{SECTION}", get=View(show_all, VIEWER)),
    Page(f"{PROJECT}/{SECTION}/{{id}}", get=View(show, VIEWER)),
    Page(f"{PROJECT}/{SECTION}/{{id}}/end", post=View(end, MEMBER)),
    Page(f"{PROJECT}/{SECTION}/{{id}}/give_back", post=View(give_back, MEMBER)),
)
