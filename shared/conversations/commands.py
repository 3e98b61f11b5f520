"""What can be done with a conversation: create it, write in it, give it back to the agent, end it (promises 8, 11).

A command returns the conversation afterwards and the writes of one transaction, which the caller commits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shared.conversations import participants
from shared.conversations.resource import (
    CONVERSATIONS,
    Conversation,
    ConversationCreate,
    ConversationRecord,
    ConversationStatus,
    Message,
    PostedMessage,
    staff_message,
    thread_key,
)
from shared.core import clock
from shared.core.errors import ApiError, Code
from shared.resources import documents
from shared.store import table
from shared.store.commit import Change
from shared.store.keys import Scope


def create(scope: Scope, body: ConversationCreate) -> Change[Conversation]:
    """Create a conversation, and its customer if none matches.

    Raises an error of the customer. The writes raise `conversation_exists`, `customer_deleted` or `resource_not_found`.
    """
    participants.check(body.customer)
    customer_id, writes = participants.resolve(scope, body.customer)
    conversation = new(scope, body.external_id, customer_id, body.metadata)

    def on_thread_taken(old: table.Row | None) -> ApiError:
        return ApiError(Code.CONVERSATION_EXISTS, param="external_id")

    return Change(conversation, [*writes, *insert(scope, conversation, on_thread_taken=on_thread_taken)])


def new(
    scope: Scope, external_id: str | None, customer_id: str | None, metadata: Mapping[str, Any] | None
) -> Conversation:
    """A new conversation without messages, which is not stored."""
    return {
        **CONVERSATIONS.common_fields(scope),
        "object": "conversation",
        "status": ConversationStatus.ACTIVE,
        "external_id": external_id,
        "customer_id": customer_id,
        "metadata": dict(metadata or {}),
        "last_message_at": None,
        "ended_at": None,
        "waiting": False,
        "handoff": None,
    }


def insert(
    scope: Scope,
    conversation: Conversation,
    internal: Mapping[str, table.Value] | None = None,
    on_thread_taken: table.OnConditionFailed = table.decide_again,
) -> list[table.Put]:
    """The writes that create a conversation, that of its own row first.

    `on_thread_taken` is called if its `external_id` already has an active conversation.
    """
    writes = [CONVERSATIONS.insert(scope, conversation, **(internal or {}))]
    if conversation["external_id"] is not None:
        pk, sk = thread_key(scope, conversation["external_id"])
        row = {"pk": pk, "sk": sk, "kind": "thread", "conversation_id": conversation["id"]}
        writes.append(table.Put(row, on_condition_failed=on_thread_taken))
    return writes


def end(
    scope: Scope,
    record: ConversationRecord,
    reply_at: str | None = None,
    internal: Mapping[str, table.Value | None] | None = None,
) -> Change[Conversation]:
    """End a conversation as it was read, which frees its `external_id`. Nothing changes if it has already ended.

    The agent's last reply ends it with the time of the reply, and with changes to its internal attributes.
    """
    if record.doc["status"] == ConversationStatus.ENDED:
        return Change(record.doc)
    changes: dict[str, object] = {"last_message_at": reply_at or record.doc["last_message_at"]}
    changes |= {
        "status": ConversationStatus.ENDED,
        "ended_at": clock.iso(clock.now()),
        "waiting": False,
        "handoff": None,
    }
    conversation = documents.touched(record.doc, changes)
    conversation = {**conversation, "ended_at": conversation["updated_at"]}
    update = CONVERSATIONS.update(scope, record, conversation, internal)
    return Change(conversation, [update, *free_thread(scope, conversation)])


def free_thread(scope: Scope, conversation: Conversation) -> list[table.Write]:
    """The write that frees the `external_id` of a conversation; `[]` if it has none."""
    if conversation["external_id"] is None:
        return []
    pk, sk = thread_key(scope, conversation["external_id"])
    own_id = {":id": conversation["id"]}
    return [table.Delete(pk, sk, condition="attribute_not_exists(pk) OR conversation_id = :id", values=own_id)]


def resume(scope: Scope, id: str) -> Change[Conversation]:
    """Give a conversation back to the agent, which replies to the next message. Nothing changes if nobody waits.

    Raises `resource_not_found` or `conversation_ended`.
    """
    record = CONVERSATIONS.find(scope, id)
    if record.doc["status"] == ConversationStatus.ENDED:
        raise ApiError(Code.CONVERSATION_ENDED)
    if not record.doc["waiting"] and "handed_off" not in record.row:
        return Change(record.doc)
    conversation = documents.touched(record.doc, {"waiting": False, "handoff": None})
    return Change(conversation, [CONVERSATIONS.update(scope, record, conversation, {"held": None, "handed_off": None})])


def add_staff_message(scope: Scope, id: str, content: str) -> Change[PostedMessage]:
    """Add the message of a person of the business. The agent does not reply, and who waits goes on waiting.

    Raises `resource_not_found` or `conversation_ended`. The writes do not lock the conversation, which may be changed
    meanwhile, but not end.
    """
    record = CONVERSATIONS.find(scope, id)
    if record.doc["status"] == ConversationStatus.ENDED:
        raise ApiError(Code.CONVERSATION_ENDED)
    row = staff_message(scope, record.doc, content)
    active = {":active": scope.index(CONVERSATIONS.kind, "status", ConversationStatus.ACTIVE)}
    is_active = table.Check(scope.pk(CONVERSATIONS.kind), id, condition="f3 = :active", values=active)
    message: Message = json.loads(row["doc"])
    return Change({**message, "reply": None, "conversation": record.doc}, [table.Put(row), is_active])
