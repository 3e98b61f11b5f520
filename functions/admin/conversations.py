"""Conversations: as a thread with the agent's actions, ended by a person or given back to the agent."""

from __future__ import annotations

import json

from starlette.responses import Response

from functions.admin.visits import PROJECT, InProject, Page, View
from shared.admin.members import MEMBER, VIEWER
from shared.conversations import conversations
from shared.conversations.conversations import CONVERSATIONS, MESSAGES, STATUSES, ConversationRecord
from shared.core import table
from shared.core.errors import ApiError

SECTION = "conversations"
PAGE = 50
MESSAGES_SHOWN = 100
WAITING = "waiting"
"""The value of the status filter for conversations that wait for a person."""
NOTICES = {
    "ended": "The conversation has ended. A new message on its thread begins another one.",
    "given_back": "The agent replies to the next message.",
}


def show_all(visit: InProject) -> Response:
    """List the conversations, newest first, by the filters of the API, or those that wait for a person."""
    wanted = {name: visit.query.get(name, "").strip() for name in ("status", "external_id", "customer_id")}
    error, rows, cursor = None, [], None
    try:
        if wanted["status"] == WAITING:
            found = conversations.waiting(visit.scope, PAGE + 1, visit.query.get("starting_after"))
            rows, cursor = found[:PAGE], found[PAGE - 1]["id"] if len(found) > PAGE else None
        else:
            parameters = {name: [value] for name, value in wanted.items() if value}
            page = CONVERSATIONS.page(visit.scope, CONVERSATIONS.query(parameters | visit.page_parameters(PAGE)))
            rows, cursor = [json.loads(row["doc"]) for row in page.rows], page.next_cursor
    except ApiError as refused:
        error = refused
    return visit.render(
        "conversations.html",
        400 if error else 200,
        section=SECTION,
        conversations=rows,
        cursor=cursor,
        wanted=wanted,
        error=error,
        statuses=(WAITING, *STATUSES),
    )


def show(visit: InProject) -> Response:
    """Show a conversation's messages, oldest first; the first page has the latest ones."""
    record = _find(visit)
    query = MESSAGES.query(visit.page_parameters(MESSAGES_SHOWN) | {"order": ["desc"]})
    partition = conversations.messages_pk(visit.scope, record.doc["id"])
    page = MESSAGES.page(visit.scope, query, partition=partition)
    return visit.render(
        "conversation.html",
        section=SECTION,
        conversation=record.doc,
        waits=bool(record.row.get("handed_off")) and record.doc["status"] == conversations.ACTIVE,
        messages=[json.loads(row["doc"]) for row in reversed(page.rows)],
        cursor=page.next_cursor,
        notice=NOTICES.get(visit.query.get("notice", "")),
    )


def end(visit: InProject) -> Response:
    """End a conversation."""

    def decide() -> list[table.Operation]:
        record = _find(visit)
        conversation = conversations.ended(record.doc)
        if conversation is None:
            return []
        entry = visit.entry("conversation.ended", record.doc["id"])
        return [*conversations.end(visit.scope, record, conversation), entry]

    visit.commit(decide)
    return visit.redirect(visit.path(SECTION, f"{visit.params['id']}?notice=ended"))


def give_back(visit: InProject) -> Response:
    """Give a conversation that was handed off back to the agent."""

    def decide() -> list[table.Operation]:
        record = _find(visit)
        writes = conversations.giving_back(visit.scope, record)
        return [*writes, visit.entry("conversation.given_back", record.doc["id"])] if writes else []

    visit.commit(decide)
    return visit.redirect(visit.path(SECTION, f"{visit.params['id']}?notice=given_back"))


def _find(visit: InProject) -> ConversationRecord:
    return CONVERSATIONS.find(visit.scope, visit.params["id"])


PAGES = (
    Page(f"{PROJECT}/{SECTION}", get=View(show_all, VIEWER)),
    Page(f"{PROJECT}/{SECTION}/{{id}}", get=View(show, VIEWER)),
    Page(f"{PROJECT}/{SECTION}/{{id}}/end", post=View(end, MEMBER)),
    Page(f"{PROJECT}/{SECTION}/{{id}}/give_back", post=View(give_back, MEMBER)),
)
