"""Conversations and their messages (promises 8).

A user's message and its turn are one row, which is a task until the reply (`shared/tasks/tasks.py`). The conversation's
row holds the lock (`turn`, the message whose reply is pending) and the agent's proposal.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Collection as Values
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Literal, NotRequired, TypedDict, cast

from shared.agent.actions import Action, HandoffReason
from shared.conversations.participants import CustomerReference
from shared.core import clock, ids
from shared.resources import fields, filters, list_pages, queries
from shared.resources.collections import Collection, OldRows, Record, ResourceRow
from shared.resources.documents import Resource
from shared.resources.filters import ListParameters
from shared.resources.indexes import Indexes
from shared.resources.queries import Query
from shared.resources.schema import ConversationId, CustomerId, Keywords, MessageId, Metadata, Time, at_most
from shared.store import table
from shared.store.keys import Scope
from shared.tasks import tasks


class ConversationStatus(StrEnum):
    """The status of a conversation (promises 8)."""

    ACTIVE = "active"
    """It takes messages."""
    ENDED = "ended"
    """It takes no more messages. This is final."""


class ReplyStatus(StrEnum):
    """The status of the reply to a user's message (promises 8)."""

    PENDING = "pending"
    """There is no reply yet."""
    COMPLETE = "complete"
    """The agent has replied."""
    FAILED = "failed"
    """The agent failed, and the reply is an apology."""


class Role(StrEnum):
    """Who wrote a message: the customer, the agent, or a person of the business."""

    USER = "user"
    """The customer."""
    ASSISTANT = "assistant"
    """The agent."""
    STAFF = "staff"
    """A person of the business."""


class Handoff(TypedDict):
    """A handoff of a conversation to a person (promises 11)."""

    reason: HandoffReason
    """Why a person is needed, as the action `handoff` says."""
    at: Time
    """When the agent handed the conversation over."""


class Conversation(Resource):
    """Messages of a customer and the agent's replies, in order (promises 8). Id prefix `conv_`."""

    id: ConversationId
    """The conversation's id. Never changes."""
    object: Literal["conversation"]
    """The type of the object. Never changes."""
    status: ConversationStatus
    """`active` until the conversation has ended, which is final."""
    external_id: Annotated[str, at_most(255)] | None
    """The caller's own thread identifier, unique among active conversations. Null when unset."""
    customer_id: CustomerId | None
    """The id of the customer in the conversation. Null when unknown."""
    metadata: Metadata
    """The caller's own keys and values, from the request that created the conversation; `{}` when unset."""
    last_message_at: Time | None
    """The time of the latest message of the user or the agent. Null before the first."""
    ended_at: Time | None
    """When the conversation ended. Null while it is active."""
    waiting: bool
    """Whether the customer waits for a person. Until then, the agent only says that one will reply.

    After a handoff with the reason `agent_failed`, the agent answers the next message, which ends the waiting.
    """
    handoff: Handoff | None
    """The handoff for which the customer waits. Null if nobody waits."""


class MessageFields(TypedDict):
    """The fields of every message."""

    id: MessageId
    """The message's id. Ids sort by the time of the message."""
    object: Literal["message"]
    """The type of the object."""
    role: Role
    """Who wrote it: the `user`, the agent as `assistant`, or a person of the business as `staff`."""
    content: str
    """The text as sent. A reply is Markdown."""
    created_at: Time
    """When the message was sent."""


class Message(MessageFields):
    """One message of a conversation (promises 8). Id prefix `msg_`.

    A message never changes, except for `reply_status`.
    """

    reply_status: NotRequired[ReplyStatus]
    """Only on a user's message: `pending` until the reply, then `complete`, or `failed` if the reply is an apology."""
    actions: NotRequired[list[Action]]
    """Only on an assistant's message: the actions of the reply; `[]` if there are none."""
    holding: NotRequired[bool]
    """Only on an assistant's message: whether it only says again that a person will reply, so that it can be hidden."""


class UserMessage(MessageFields):
    """A message of the user."""

    reply_status: ReplyStatus
    """`pending` until the reply, then `complete`, or `failed` if the reply is an apology."""


class AssistantMessage(MessageFields):
    """A reply of the agent (promises 8)."""

    actions: list[Action]
    """What the agent did; `[]` if nothing."""
    holding: bool
    """Whether the reply only says again that a person will reply, so that it can be hidden."""


class AddedMessage(MessageFields):
    """A message of a person of the business, in the event `conversation.message_added` (promises 11)."""

    conversation_id: ConversationId
    """The conversation to which the message was added."""


class AnsweredMessage(UserMessage):
    """A user's message with the agent's reply (promises 8)."""

    reply: AssistantMessage
    """The assistant's message. Its content is plain text if the request has `markdown: false`."""
    conversation: Conversation
    """The conversation after the reply."""


class PostedMessage(Message):
    """A message that was added to a conversation, with the agent's reply to a user's (promises 8, 11)."""

    reply: AssistantMessage | None
    """The assistant's message. Its content is plain text if the request has `markdown: false`.

    Null after a message with the role `staff`, and never after a user's.
    """
    conversation: Conversation
    """The conversation after the reply."""


class ConversationCreate(fields.Input):
    """A new conversation (promises 8)."""

    external_id: fields.ExternalId | None = None
    """Your own identifier of the thread, unique among active conversations."""
    customer: CustomerReference | None = None
    """The customer in the conversation, who is created if none matches."""
    metadata: fields.MetadataCreate | None = None
    """Your own keys and values. A key with the value null is omitted."""


Content = Annotated[str, fields.text(8000, least=1)]


class UserMessageCreate(fields.Input):
    """A message of the user."""

    content: Content
    """The text of the message."""
    markdown: bool = True
    """Whether the reply may contain Markdown. If false, it is plain text; the transcript keeps the original."""
    customer: CustomerReference | None = None
    """The customer in the conversation. It has an effect only if a message to a thread creates the conversation."""
    metadata: fields.MetadataCreate | None = None
    """Your own keys and values for the conversation. They have an effect only if a message to a thread creates it."""


class MessageCreate(UserMessageCreate):
    """A message to the conversation in the path. `customer` and `metadata` have no effect (promises 8)."""

    role: Annotated[Literal["user", "staff"], Keywords(name="MessageCreateRole")] = "user"
    """Who writes: the user, or a person of the business. The agent does not reply to `staff`."""


class ThreadMessageCreate(UserMessageCreate):
    """A message to a thread. `customer` and `metadata` apply only if it creates a conversation (promises 8)."""

    external_conversation_id: fields.ExternalId
    """Your own identifier of the thread: the `external_id` of the conversation."""


class StaffMessageCreate(fields.Input):
    """A message of a person of the business, as the admin page sends it."""

    content: Content
    """The text of the message."""


class ConversationRow(ResourceRow):
    """A conversation's row."""

    turn: NotRequired[str]
    """The id of the message whose reply is pending. It locks the conversation."""
    proposal: NotRequired[str]
    """The agent's proposal from the previous turn, as JSON text. Absent if there is none."""
    introduced: NotRequired[bool]
    """A reply has said that an automated assistant replies."""
    held: NotRequired[bool]
    """Whether the agent has sent a holding reply since the handoff."""
    handed_off: NotRequired[bool]
    """An earlier release has handed the conversation over, which it did not show. It is not resumed yet."""
    taken_by: NotRequired[str]
    """The person of the business who took the handoff of the time `taken_at`, so that others need not."""
    taken_at: NotRequired[str]
    """The time `at` of the handoff that was taken: another one is taken by nobody yet."""
    latest_message: NotRequired[str]
    """The id of the latest message of the customer or a person of the business. Earlier releases stored none."""


class MessageRow(tasks.TaskRow):
    """The row of a user's message. It schedules the reply, too (`shared/tasks/tasks.py`)."""

    pk: str
    sk: str
    """The message's id."""
    kind: str
    doc: str
    conversation_id: str
    markdown: bool
    """Whether the response shows the reply's Markdown."""
    asked_at: clock.Instant
    """When the message was sent (milliseconds)."""
    slot: NotRequired[str]
    """The slot of a live message (`turns.py`)."""
    response_body: NotRequired[str]
    """The body of the response to the message's request, once there is a reply."""


CONVERSATIONS: Collection[Conversation, ConversationRow] = Collection(
    Conversation,
    kind="conversation",
    prefix="conv_",
    indexes=Indexes(
        ("external_id", "customer_id", "status", "waiting"),
        values=lambda doc: {**doc, "waiting": "true" if doc["waiting"] else "false"},
        waiting_since=lambda doc: doc["handoff"] and doc["handoff"]["at"],
    ),
    parameters=ListParameters(
        {
            "external_id": filters.Exact("external_id"),
            "customer_id": filters.Exact("customer_id"),
            "status": filters.Enumerated("status", [*ConversationStatus]),
            "waiting": filters.Enumerated("waiting", ("true", "false")),
        }
    ),
    old_rows=OldRows(added={"waiting": False, "handoff": None}),
)
MESSAGES: Collection[Message, MessageRow] = Collection(
    Message,
    kind="message",
    prefix="msg_",
    parameters=ListParameters(created=None, takes_order=True),
)
ConversationRecord = Record[Conversation, ConversationRow]


def messages_pk(scope: Scope, conversation_id: str) -> str:
    """The partition key of a conversation's messages."""
    return scope.pk(CONVERSATIONS.kind, conversation_id)


def messages_path(conversation_id: str) -> str:
    """The path of a conversation's messages in the API."""
    return f"/v1/conversations/{conversation_id}/messages"


def thread_key(scope: Scope, external_id: str) -> tuple[str, str]:
    """The key of the row that makes an `external_id` unique among active conversations."""
    return scope.pk("thread", hashlib.sha256(external_id.encode()).hexdigest()), "thread"


def of_thread(scope: Scope, external_id: str) -> ConversationRecord | None:
    """The active conversation with this `external_id`; None if there is none."""
    thread = table.get(*thread_key(scope, external_id))
    if thread is None:
        return None
    conversation = CONVERSATIONS.find(scope, thread["conversation_id"])
    # It may have ended, which frees the thread, between the two reads.
    return None if conversation.doc["status"] == ConversationStatus.ENDED else conversation


def longest_waiting(
    scope: Scope, limit: int, starting_after: str | None = None
) -> tuple[list[ConversationRecord], str | None]:
    """The conversations that wait for a person, those that wait longest first, and the cursor of the next ones.

    Like every list by an index, it may lag by about a second. Raises `cursor_invalid`.
    """
    least = "0"
    if starting_after is not None:
        time, id = queries.time_of_cursor(CONVERSATIONS, starting_after)
        least = f"{time}#{ids.after(CONVERSATIONS.prefix, id)}"
    query = Query(limit=limit + 1, starting_after=None, filters={}, min_time=least)
    records = [*itertools.islice(list_pages.earliest_first(scope, CONVERSATIONS, query), limit + 1)]
    return records[:limit], queries.time_cursor(dict(records[limit - 1].row)) if len(records) > limit else None


def agent_holds(record: ConversationRecord) -> bool:
    """Whether the agent only sends holding replies: a person must reply, and not because the agent failed."""
    return "handed_off" in record.row or _needs_person(record.doc)


def _needs_person(conversation: Conversation) -> bool:
    """Whether the handoff that clients see is one that only a person ends."""
    handoff = conversation["handoff"]
    return handoff is not None and handoff["reason"] != HandoffReason.AGENT_FAILED


def handoff_after(conversation: Conversation, reasons: Values[HandoffReason], at: str) -> Handoff | None:
    """The handoff after a reply at the time `at` that hands over for these reasons, or for none (promises 11).

    While a person must reply, nothing changes it. After a failure of the agent, a reply ends it or has another reason.
    """
    before = conversation["handoff"]
    if before is not None and (_needs_person(conversation) or HandoffReason.AGENT_FAILED in reasons):
        return before
    return {"reason": next(iter(reasons)), "at": at} if reasons else None


def conversation_of(scope: Scope, message_id: str) -> str | None:
    """The conversation of a message, among the last 1,000 that began before it; None if it is in none of them."""
    began_by = ids.first_of(CONVERSATIONS.prefix, ids.created_at(MESSAGES.prefix, message_id) + 1)
    blocks = table.query(scope.pk(CONVERSATIONS.kind), at_most=ids.before(CONVERSATIONS.prefix, began_by), limit=100)
    for page in itertools.islice(blocks, 10):
        messages = table.get_many([(messages_pk(scope, row["sk"]), message_id) for row in page])
        for row in messages.values():
            return str(row["conversation_id"])
    return None


def latest_messages(scope: Scope, records: Sequence[ConversationRecord]) -> dict[str, Message]:
    """The latest message of each conversation, by its id, that the customer or a person of the business wrote."""
    keys = {one.row.get("latest_message", ""): messages_pk(scope, one.doc["id"]) for one in records}
    rows = table.get_many([(pk, id) for id, pk in keys.items() if id])
    return {str(row["conversation_id"]): json.loads(row["doc"]) for row in rows.values()}


def message_history(scope: Scope, conversation_id: str, limit: int) -> Sequence[Message]:
    """The last `limit` messages of a conversation, oldest first."""
    page = next(table.query(messages_pk(scope, conversation_id), limit=limit), [])
    return [cast("Message", json.loads(row["doc"])) for row in reversed(page)]
