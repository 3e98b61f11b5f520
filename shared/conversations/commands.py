"""What can be done with a conversation: create it, end it, and give it back to the agent (promises 8).

A command returns the conversation afterwards and the writes of one transaction, which the caller commits.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from shared.conversations import participants
from shared.conversations.resource import (
    CONVERSATIONS,
    Conversation,
    ConversationCreate,
    ConversationRecord,
    ConversationStatus,
    handoff_attributes,
    thread_key,
)
from shared.core import clock
from shared.core.errors import ApiError, Code
from shared.resources import documents
from shared.store import commit, table
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
    changes = {"last_message_at": reply_at or record.doc["last_message_at"]}
    changes |= {"status": ConversationStatus.ENDED, "ended_at": clock.iso(clock.now())}
    conversation = documents.touched(record.doc, changes)
    conversation = {**conversation, "ended_at": conversation["updated_at"]}
    update = CONVERSATIONS.update(scope, record, conversation, {**(internal or {}), "f4": None})
    return Change(conversation, [update, *free_thread(scope, conversation)])


def free_thread(scope: Scope, conversation: Conversation) -> list[table.Write]:
    """The write that frees the `external_id` of a conversation; `[]` if it has none."""
    if conversation["external_id"] is None:
        return []
    pk, sk = thread_key(scope, conversation["external_id"])
    own_id = {":id": conversation["id"]}
    return [table.Delete(pk, sk, condition="attribute_not_exists(pk) OR conversation_id = :id", values=own_id)]


def give_back(scope: Scope, record: ConversationRecord) -> Change[Conversation]:
    """Give a conversation back to the agent, which replies to the next message.

    Nothing changes if no person has taken over.
    """
    if not record.row.get("handed_off"):
        return Change(record.doc)
    attributes = handoff_attributes(scope, record.doc, to_person=False)
    return Change(record.doc, [CONVERSATIONS.update(scope, record, record.doc, attributes)])


def resume(scope: Scope, id: str) -> bool:
    """Commit `give_back`. Returns whether a person had taken over. Raises LookupError for an unknown id."""

    def decide() -> Change[Conversation]:
        row = CONVERSATIONS.row(scope, id)
        if row is None:
            raise LookupError(f"there is no conversation {id}")
        return give_back(scope, CONVERSATIONS.record(row))

    return bool(commit.commit(decide, uuid.uuid4().hex).writes)
