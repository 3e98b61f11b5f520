"""POST /v1/messages and /v1/conversations/{id}/messages: send a message and return it with the agent's reply.

The request commits the message, claims its turn in the same write, and runs the agent itself. If its time runs out or
the function dies, the `turn` worker finishes the turn: wake-ups for the end of the lease and for the time limit of the
turn are sent before the agent starts. Nothing runs after the response, because Lambda freezes the container.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, lambda_handler, service
from shared.conversations import commands, participants, slots, turns
from shared.conversations import resource as conversations
from shared.conversations.participants import CUSTOMER_ERRORS, REFERENCE_ERRORS, CustomerReference
from shared.conversations.resource import (
    CONVERSATIONS,
    AnsweredMessage,
    Content,
    ConversationRecord,
    PostedMessage,
    messages_path,
)
from shared.conversations.turns import Turn
from shared.conversations.window import POLLS, Window
from shared.core.errors import Code
from shared.resources import fields
from shared.store import table
from shared.store.commit import Change


class UserMessageCreate(fields.Input):
    """A message of the user."""

    content: Content
    """The text of the message."""
    markdown: bool = True
    """Whether the reply may contain Markdown. If false, it is plain text; the transcript keeps the original."""
    customer: CustomerReference | None = None
    """The customer in the conversation. It has an effect only if a message to a thread creates the conversation."""
    metadata: fields.Metadata | None = None
    """Your own keys and values for the conversation. They have an effect only if a message to a thread creates it."""


class MessageCreate(UserMessageCreate):
    """A message to the conversation in the path. `customer` and `metadata` have no effect (promises 8)."""

    role: Literal["user", "staff"] = "user"
    """Who writes: the user, or a person of the business. The agent does not reply to `staff`."""


class ThreadMessageCreate(UserMessageCreate):
    """A message to a thread. `customer` and `metadata` apply only if it creates a conversation (promises 8)."""

    external_conversation_id: fields.ExternalId
    """Your own identifier of the thread: the `external_id` of the conversation."""


@dataclass(frozen=True)
class NewMessage:
    """A message to be stored, with the writes of its conversation, and the conversation after them."""

    row: table.Row
    conversation: ConversationRecord
    writes: Sequence[table.Write]


@dataclass(frozen=True)
class _Stored:
    """A message that was stored, its turn if the request has claimed it, and the conversation after it."""

    window: Window
    row: table.Row
    turn: Turn | None
    conversation: ConversationRecord


def send(request: Request[MessageCreate]) -> Response:
    """Send a message to a conversation.

    Returns the message with the agent's reply. If there is no reply within 20 seconds, the response is a 504: the reply
    will be in the messages of the conversation, and a retry with the same Idempotency-Key waits for it again
    (promises 8). A message with the role `staff` has no reply: the agent reads it before its next one (promises 11).
    """
    if request.body.role == "staff":
        return _send_as_staff(request)
    participants.check(request.body.customer)
    return _store_and_answer(request, lambda: _next_message(request, CONVERSATIONS.find(request.scope, request.id)))


def _send_as_staff(request: Request[MessageCreate]) -> Response:
    return request.commit(
        lambda: commands.add_staff_message(request.scope, request.id, request.body.content),
        lambda added: Response(201, fields.to_json(added), messages_path(request.id)),
    )


def send_to_thread(request: Request[ThreadMessageCreate]) -> Response:
    """Send a message to a thread.

    Sends the message to the active conversation with this `external_conversation_id`, and creates the conversation if
    none is active. Otherwise this is the same as a message to a conversation by its id (promises
    8).
    """
    participants.check(request.body.customer)

    def decide() -> NewMessage:
        record = conversations.of_thread(request.scope, request.body.external_conversation_id)
        return _first_message(request) if record is None else _next_message(request, record)

    return _store_and_answer(request, decide)


def _next_message(request: Request[Any], record: ConversationRecord) -> NewMessage:
    """A message to an existing conversation. Raises ApiError."""
    conversations.check_open(record)
    message = conversations.new_message(request.scope, record.doc, request.body.content, request.body.markdown)
    conversation, lock = conversations.lock(record.doc, message)
    update = CONVERSATIONS.update(request.scope, record, conversation, lock)
    return NewMessage(message, CONVERSATIONS.after(record, update), [update])


def _first_message(request: Request[ThreadMessageCreate]) -> NewMessage:
    """The first message of a new conversation."""
    scope, body = request.scope, request.body
    customer_id, writes = participants.resolve(scope, body.customer)
    conversation = commands.new(scope, body.external_conversation_id, customer_id, body.metadata)
    message = conversations.new_message(scope, conversation, body.content, body.markdown)
    conversation, lock = conversations.lock(conversation, message)
    insert, *thread = commands.insert(scope, conversation, lock)
    return NewMessage(message, CONVERSATIONS.after(None, insert), [*writes, insert, *thread])


def _store_and_answer(request: Request[Any], decide: Callable[[], NewMessage]) -> Response:
    """Store the message with its claimed turn, then reply in the request's window. `_resume` replies to a retry."""

    def store_message() -> Change[_Stored]:
        message = decide()
        window = _window(request, message.row["conversation_id"], message.row["sk"], request.body.content)
        row, slot = slots.take(request.scope, message.row)
        turn = turns.begin(row, window.seconds_left())
        row = row if turn is None else turn.claim.row
        return Change(_Stored(window, row, turn, message.conversation), [*message.writes, table.Put(row), *slot])

    def deferred(stored: _Stored) -> Response:
        window = stored.window
        path = messages_path(window.conversation_id)
        return Response(201, "", path, deferred=f"{window.conversation_id}/{window.message_id}")

    committed = request.commit_or_replay(store_message, deferred)
    if isinstance(committed, Response):
        return committed
    stored = committed.change.doc
    body = stored.window.first_reply(stored.row, stored.turn, stored.conversation)
    return Response(201, body, committed.response.location)


def _resume(request: Request[Any], response: Response) -> str:
    """The body of the response to a retry: waits for the reply in a new window.

    Raises `agent_timeout`, or `resource_not_found` if the message was erased.
    """
    assert response.deferred is not None
    return _window(request, *response.deferred.split("/")).wait_for_reply((0, *POLLS), may_take=True, woken=False)


def _window(request: Request[Any], conversation_id: str, message_id: str, content: str | None = None) -> Window:
    """The window of a request that sends `content`, or of a retry."""
    length_s = conversations.WINDOW_S if content is None else conversations.window_s(request.scope, content)
    return Window(request.scope, conversation_id, message_id, partial(request.seconds_left, length_s))


app = service(
    Route(
        "/v1/conversations/{id}/messages",
        post=Operation(
            send,
            name="send_message",
            returns=PostedMessage,
            status=(201,),
            body=MessageCreate,
            errors=(
                Code.RESOURCE_NOT_FOUND,
                *REFERENCE_ERRORS,
                Code.CONVERSATION_ENDED,
                Code.CONVERSATION_BUSY,
                Code.AGENT_TIMEOUT,
            ),
            resume=_resume,
        ),
    ),
    Route(
        "/v1/messages",
        post=Operation(
            send_to_thread,
            name="send_message_to_thread",
            returns=AnsweredMessage,
            status=(201,),
            body=ThreadMessageCreate,
            errors=(*CUSTOMER_ERRORS, Code.CONVERSATION_BUSY, Code.AGENT_TIMEOUT),
            resume=_resume,
        ),
    ),
)
handler = lambda_handler(app)
