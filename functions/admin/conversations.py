"""Conversations: as a thread with the agent's actions, ended by a person or given back to the agent."""

from __future__ import annotations

import json
import secrets
from typing import Any

from starlette.responses import Response

from functions.admin import lists, names
from functions.admin.visits import PROJECT, InProject, Page, SentBefore, View
from shared.admin.members import MEMBER, VIEWER
from shared.conversations import commands
from shared.conversations import resource as conversations
from shared.conversations.resource import (
    CONVERSATIONS,
    MESSAGES,
    ConversationRecord,
    ConversationStatus,
    StaffMessageCreate,
)
from shared.core.errors import ApiError
from shared.resources import fields, pages, queries
from shared.store import table

SECTION = "conversations"
MESSAGES_SHOWN = 100
WAITING = "waiting"
"""The status, and the value of its filter, that the pages give to conversations that wait for a person."""
NOTICES = {
    "ended": "The conversation has ended. A new message on its thread begins another one.",
    "given_back": "The agent replies to the next message.",
    "sent": "Your message is in the conversation. Your server receives it as the event conversation.message_added.",
}


def show_all(visit: InProject) -> Response:
    """List the conversations, newest first, by the filters of the API, or those that wait for a person."""
    wanted = lists.wanted(visit, "status", "external_id", "customer_id")

    def page() -> tuple[list[Any], str | None]:
        filters = {**wanted, "status": "", "waiting": "true"} if wanted["status"] == WAITING else wanted
        return lists.read(visit, CONVERSATIONS, lists.parameters(visit, filters), as_shown)

    return lists.show(visit, SECTION, wanted, page, statuses=(WAITING, *ConversationStatus))


def as_shown(row: table.Row) -> dict[str, Any]:
    """The conversation of a row, as lists show it."""
    conversation = lists.document(CONVERSATIONS.complete(row))
    return conversation | ({"status": WAITING} if conversation["waiting"] else {})


def show(visit: InProject) -> Response:
    """Show a conversation's messages, oldest first; the first page has the latest ones."""
    return _thread(visit)


def _thread(visit: InProject, error: ApiError | None = None) -> Response:
    record = _find(visit)
    query = queries.parse(MESSAGES, visit.page_parameters(MESSAGES_SHOWN) | {"order": ["desc"]})
    partition = conversations.messages_pk(visit.scope, record.doc["id"])
    page = pages.read(visit.scope, MESSAGES, query, partition=partition)
    messages = [json.loads(row["doc"]) for row in reversed(page.rows)]
    actions = [action for one in messages for action in one.get("actions", ())]
    ids = [action.get(name) for action in actions for name in ("appointment_id", "session_id")]
    return visit.render(
        "conversation.html",
        section=SECTION,
        conversation=record.doc,
        form={"once": secrets.token_urlsafe(16), "content": visit.form.get("content", "")},
        error=error,
        messages=messages,
        named=names.of(visit, [record.doc["customer_id"], *ids]),
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
        lambda: commands.resume(visit.scope, visit.params["id"]),
        lambda one: visit.entry("conversation.given_back", one["id"]),
    )
    return visit.redirect(visit.path(SECTION, f"{visit.params['id']}?notice=given_back"))


def reply(visit: InProject) -> Response:
    """Add the message of a member. The agent does not reply to it."""
    try:
        body = fields.validate(StaffMessageCreate, {"content": visit.form.get("content", "")})
        visit.execute(
            lambda: commands.add_staff_message(visit.scope, visit.params["id"], body.content),
            lambda added: visit.entry(
                "conversation.message_added", added["conversation"]["id"], after={"message": added["id"]}
            ),
            lambda _: visit.once(),
        )
    except SentBefore:
        pass
    except ApiError as error:
        return _thread(visit, error)
    return visit.redirect(visit.path(SECTION, f"{visit.params['id']}?notice=sent"))


def _find(visit: InProject) -> ConversationRecord:
    return CONVERSATIONS.find(visit.scope, visit.params["id"])


PAGES = (
    Page(f"{PROJECT}/{SECTION}", get=View(show_all, VIEWER)),
    Page(f"{PROJECT}/{SECTION}/{{id}}", get=View(show, VIEWER)),
    Page(f"{PROJECT}/{SECTION}/{{id}}/end", post=View(end, MEMBER)),
    Page(f"{PROJECT}/{SECTION}/{{id}}/give_back", post=View(give_back, MEMBER)),
    Page(f"{PROJECT}/{SECTION}/{{id}}/reply", post=View(reply, MEMBER)),
)
