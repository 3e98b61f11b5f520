"""Conversations: those that wait for a person, and each as a thread with the agent's actions and a reply box."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from starlette.responses import Response

from functions.admin import lists, names, today
from functions.admin.visits import PROJECT, AdminPage, InProject, SentBefore, View
from shared.admin import audited
from shared.admin.members import MEMBER, VIEWER
from shared.conversations import commands as conversation_commands
from shared.conversations import resource as conversations
from shared.conversations.resource import (
    CONVERSATIONS,
    MESSAGES,
    ConversationRecord,
    ConversationStatus,
    StaffMessageCreate,
)
from shared.core import clock
from shared.core.errors import ApiError
from shared.pages import SECURITY
from shared.resources import fields, list_pages, queries
from shared.store import table

SECTION = "conversations"
MESSAGES_SHOWN = 100
WAITING = "waiting"
"""The status, and the value of its filter, that the pages give to conversations that wait for a person. Also the
section of the queue."""
LOOK_AGAIN_S = 10
"""Seconds after which the queue looks again."""
NOTICES = {
    "ended": "The conversation has ended. A new message on its thread begins another one.",
    "taken": "You have taken this conversation.",
    "nobody_waits": "Nobody waits in this conversation any more, so you have not taken it.",
    "released": "Others can take the conversation.",
    "given_back": "The agent replies to the next message.",
    "sent": "Your message was sent to the system in which the customer writes.",
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
    conversation = lists.document(CONVERSATIONS.old_rows.complete(row))
    return conversation | ({"status": WAITING} if conversation["waiting"] else {})


def show_waiting(visit: InProject) -> Response:
    """Show a page of the queue: the conversations that wait for a person, those that wait longest first."""
    records, cursor = _waiting(visit)
    return visit.render("waiting.html", section=WAITING, **_queue(visit, records, cursor))


def look_for_waiting(visit: InProject) -> Response:
    """The queue again, which its page asks for; status 204 if it is what the page has."""
    if not visit.is_fragment:
        return visit.redirect(visit.path(WAITING))
    records, cursor = _waiting(visit)
    if visit.query.get("seen") == _digest(records):
        return Response(status_code=204, headers=SECURITY)
    return visit.render("_waiting_again.html", **_queue(visit, records, cursor))


def _waiting(visit: InProject) -> tuple[list[ConversationRecord], str | None]:
    return conversations.longest_waiting(visit.scope, lists.PAGE, visit.query.get("starting_after"))


def _digest(records: list[ConversationRecord]) -> str:
    """A digest of what the queue shows. It changes each minute, as the waiting times do."""
    shown = [
        (one.doc["id"], one.doc["handoff"], conversation_commands.taken_by(one), one.row.get("latest_message"))
        for one in records
    ]
    return hashlib.sha256(repr((clock.now() // clock.MINUTE, shown)).encode()).hexdigest()[:16]


def _queue(visit: InProject, records: list[ConversationRecord], cursor: str | None) -> dict[str, Any]:
    return {
        "waiting": [(one.doc, conversation_commands.taken_by(one)) for one in records],
        "starting_after": visit.query.get("starting_after", ""),
        "cursor": cursor,
        "latest": conversations.latest_messages(visit.scope, records),
        "named": names.of(visit, (one.doc["customer_id"] for one in records)),
        "seen": _digest(records),
        "look_again": LOOK_AGAIN_S,
    }


def show(visit: InProject) -> Response:
    """Show a conversation's messages, oldest first; the first page has the latest ones."""
    return _thread(visit)


def _thread(visit: InProject, error: ApiError | None = None) -> Response:
    record = _find(visit)
    query = queries.parse(MESSAGES, visit.page_parameters(MESSAGES_SHOWN) | {"order": ["desc"]})
    partition = conversations.messages_pk(visit.scope, record.doc["id"])
    page = list_pages.read(visit.scope, MESSAGES, query, partition=partition)
    messages = [*map(lists.document, reversed(page.rows))]
    actions = [action for one in messages for action in one.get("actions", ())]
    ids = [action.get(name) for action in actions for name in ("appointment_id", "session_id")]
    return visit.render(
        "conversation.html",
        error.status if error else 200,
        section=SECTION,
        conversation=record.doc,
        form={"once": secrets.token_urlsafe(16), "content": visit.form.get("content", "")},
        error=error,
        messages=messages,
        named=names.of(visit, [record.doc["customer_id"], *ids]),
        taken_by=conversation_commands.taken_by(record),
        next_appointment=today.next_of(visit, record.doc["customer_id"]),
        cursor=page.next_cursor,
        notice=NOTICES.get(visit.query.get("notice", "")),
    )


def take(visit: InProject) -> Response:
    """Take a conversation that waits, and go to it."""
    id, who = visit.params["id"], visit.actor.who
    try:
        conversation = visit.commit(
            lambda: conversation_commands.take(visit.scope, id, who),
            lambda one: visit.entry("conversation.taken", one["id"]),
        )
    except ApiError as error:
        return _thread(visit, error)
    notice = "taken" if conversation["handoff"] else "nobody_waits"
    return visit.redirect(visit.path(SECTION, f"{id}?notice={notice}"))


def release(visit: InProject) -> Response:
    """Let others take a conversation."""
    id = visit.params["id"]
    visit.commit(
        lambda: conversation_commands.release(visit.scope, id),
        lambda one: visit.entry("conversation.released", one["id"]),
    )
    return visit.redirect(visit.path(SECTION, f"{id}?notice=released"))


def end(visit: InProject) -> Response:
    """End a conversation."""
    visit.commit(
        lambda: conversation_commands.end(visit.scope, _find(visit)),
        lambda one: visit.entry("conversation.ended", one["id"]),
    )
    return visit.redirect(visit.path(SECTION, f"{visit.params['id']}?notice=ended"))


def give_back(visit: InProject) -> Response:
    """Give a conversation that was handed off back to the agent."""
    visit.commit(lambda: audited.resume_conversation(visit.scope, visit.params["id"], visit.actor))
    return visit.redirect(visit.path(SECTION, f"{visit.params['id']}?notice=given_back"))


def reply(visit: InProject) -> Response:
    """Add the message of a member. The agent does not reply to it."""
    try:
        body = fields.validate(StaffMessageCreate, {"content": visit.form.get("content", "")})
        added = visit.commit(
            lambda: conversation_commands.add_staff_message(visit.scope, visit.params["id"], body.content),
            lambda message: visit.entry(
                "conversation.message_added", message["conversation"]["id"], after={"message": message["id"]}
            ),
            lambda _: visit.once(),
        )
    except SentBefore:
        return visit.redirect(visit.path(SECTION, f"{visit.params['id']}?notice=sent"))
    except ApiError as error:
        return _thread(visit, error)
    return visit.redirect(visit.path(SECTION, f"{visit.params['id']}?notice=sent#{added['id']}"))


def _find(visit: InProject) -> ConversationRecord:
    return CONVERSATIONS.find(visit.scope, visit.params["id"])


PAGES = (
    AdminPage(f"{PROJECT}/{WAITING}", get=View(show_waiting, VIEWER)),
    AdminPage(f"{PROJECT}/{WAITING}/again", get=View(look_for_waiting, VIEWER)),
    AdminPage(f"{PROJECT}/{SECTION}/{{id}}/take", post=View(take, MEMBER)),
    AdminPage(f"{PROJECT}/{SECTION}/{{id}}/release", post=View(release, MEMBER)),
    AdminPage(f"{PROJECT}/{SECTION}", get=View(show_all, VIEWER)),
    AdminPage(f"{PROJECT}/{SECTION}/{{id}}", get=View(show, VIEWER)),
    AdminPage(f"{PROJECT}/{SECTION}/{{id}}/end", post=View(end, MEMBER)),
    AdminPage(f"{PROJECT}/{SECTION}/{{id}}/give_back", post=View(give_back, MEMBER)),
    AdminPage(f"{PROJECT}/{SECTION}/{{id}}/reply", post=View(reply, MEMBER)),
)
