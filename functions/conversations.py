"""/v1/conversations and /v1/messages: threads that the agent answers in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from shared.api import responses
from shared.api.collections import list_endpoint, retrieve_endpoint
from shared.api.requests import Decision, Request
from shared.api.responses import Response
from shared.api.routes import Endpoint, Route, lambda_handler, service
from shared.conversations import conversations, participants
from shared.conversations.conversations import (
    CONVERSATIONS,
    MESSAGES,
    AnsweredMessage,
    Conversation,
    ConversationRecord,
    Message,
)
from shared.core import clock, table
from shared.core.aws import Unavailable
from shared.core.errors import ApiError
from shared.core.keys import Scope
from shared.customers import CustomerFields
from shared.resources import fields
from shared.resources.lists import Page
from shared.work import hints

POLLS = (0.15, 0.15, 0.2, 0.3, 0.4, 0.5, 0.8)
"""Seconds between polls for the reply; the last one repeats."""


class CustomerReference(CustomerFields):
    """Whom a conversation is with: an id, or what to match or create a customer by (contract 8)."""

    id: str = ""
    phone: fields.Phone | None = None
    metadata: fields.Metadata | None = None


class ConversationCreate(fields.Input):
    """A conversation without messages."""

    external_id: fields.ExternalId | None = None
    customer: CustomerReference | None = None
    metadata: fields.Metadata | None = None


class MessageCreate(fields.Input):
    """A message to a conversation that the path names; `customer` and `metadata` have no effect."""

    content: Annotated[str, fields.text(8000, least=1)]
    markdown: bool = True
    customer: CustomerReference | None = None
    metadata: fields.Metadata | None = None


class ThreadMessageCreate(MessageCreate):
    """A message to the caller's own thread; `customer` and `metadata` are for a conversation that it opens."""

    external_conversation_id: fields.ExternalId


def create(request: Request[ConversationCreate]) -> Response:
    """Open a conversation without messages (contract 8)."""
    values = request.body.model_dump(exclude_unset=True)
    participants.check(values.get("customer"))

    def decide() -> Decision:
        customer_id, writes = participants.resolve(request.scope, values.get("customer"))
        conversation = conversations.new(request.scope, values.get("external_id"), customer_id, values.get("metadata"))
        opening = conversations.insertion(request.scope, conversation, on_thread_taken=conversations.thread_taken)
        location = f"/v1/conversations/{conversation['id']}"
        return Decision([*writes, *opening], responses.created(conversation, location))

    return request.commit(decide)


def list_messages(request: Request[None]) -> Response:
    """Return a page of a conversation's messages, oldest first unless `order=desc` (contract 8)."""
    query = MESSAGES.query(request.query)
    conversation = CONVERSATIONS.find(request.scope, request.id)
    partition = conversations.messages_pk(request.scope, conversation.doc["id"])
    page = MESSAGES.page(request.scope, query, partition=partition, seconds_left=request.seconds_left)
    return responses.ok(page.envelope(request.path))


def end(request: Request[fields.Nothing]) -> Response:
    """End a conversation, which frees its `external_id`. Ending an ended one returns it unchanged (contract 8)."""

    def decide() -> Decision:
        record = CONVERSATIONS.find(request.scope, request.id)
        conversation = conversations.ended(record.doc)
        if conversation is None:
            return Decision([], responses.ok(record.json))
        write = CONVERSATIONS.update(request.scope, record, conversation)
        return Decision([write, *conversations.ending(request.scope, conversation)], responses.ok(conversation))

    return request.commit(decide)


def send(request: Request[MessageCreate]) -> Response:
    """Send a message to a conversation; the response has the agent's reply (specification; contract 8).

    The request waits 20 seconds for the reply. After that it is 504 `agent_timeout`, and the reply appears in the
    transcript; the same Idempotency-Key waits for the same reply again.
    """
    participants.check(_customer(request.body))

    def decide() -> tuple[list[table.Operation], table.Row]:
        record = CONVERSATIONS.find(request.scope, request.id)
        return _message(request.scope, record, request.body)

    return _commit_message(request, decide)


def send_to_thread(request: Request[ThreadMessageCreate]) -> Response:
    """Send a message to the conversation with the caller's own thread id, which opens one if none is active.

    Otherwise as a message to a conversation by its id (specification, "POST /v1/messages"; contract 8).
    """
    body, customer = request.body, _customer(request.body)
    participants.check(customer)

    def decide() -> tuple[list[table.Operation], table.Row]:
        record = conversations.of_thread(request.scope, body.external_conversation_id)
        if record is not None:
            return _message(request.scope, record, body)
        customer_id, writes = participants.resolve(request.scope, customer)
        conversation = conversations.new(request.scope, body.external_conversation_id, customer_id, body.metadata)
        message = conversations.new_message(request.scope, conversation, body.content, body.markdown)
        conversation, lock = conversations.locked(conversation, message)
        opening = conversations.insertion(request.scope, conversation, lock)
        return [*writes, *opening, table.Put(message)], message

    return _commit_message(request, decide)


def _message(scope: Scope, record: ConversationRecord, body: MessageCreate) -> tuple[list[table.Operation], table.Row]:
    """The writes that add a message to a conversation, and the message's row. Raises ApiError."""
    conversations.must_take_message(record)
    message = conversations.new_message(scope, record.doc, body.content, body.markdown)
    conversation, lock = conversations.locked(record.doc, message)
    return [CONVERSATIONS.update(scope, record, conversation, lock), table.Put(message)], message


def _commit_message(request: Request[Any], decide: Callable[[], tuple[list[table.Operation], table.Row]]) -> Response:
    """Store the message and hint at its turn. The response's body is the turn's outcome, which `_resume` waits for."""

    def decide_message() -> Decision:
        writes, message = decide()
        turn = f"{message['conversation_id']}/{message['sk']}"
        response = Response(201, "", _messages_path(message["conversation_id"]), deferred=turn)
        turn_hints = conversations.hints_of(request.scope, message)
        return Decision(writes, response, after=lambda: hints.send("turns", turn_hints))

    return request.commit(decide_message)


def _resume(request: Request[Any], response: Response) -> str:
    """The body that the turn's commit froze. Raises `agent_timeout` at the end of the request's window."""
    assert response.deferred is not None
    conversation_id, message_id = response.deferred.split("/")
    # The first hint of a replayed request's turn may have been lost together with the first request.
    hint_again = response.original_request is not None
    window = conversations.WINDOW if hint_again else conversations.window(request.scope, request.body.content)
    pk, polls = conversations.messages_pk(request.scope, conversation_id), 0
    while (left := request.seconds_left(window)) > 0:
        clock.sleep(min(POLLS[min(polls, len(POLLS) - 1)], left))
        polls += 1
        row = None
        # The message is stored, so a failed poll is not fatal.
        with contextlib.suppress(Unavailable):
            row = table.get(pk, message_id)
        if row is not None and "answer" in row:
            return str(row["answer"])
        if row is not None and hint_again:
            hints.send("turns", conversations.hints_of(request.scope, row)[:1])
            hint_again = False
    raise ApiError(
        "agent_timeout",
        headers={"Location": _messages_path(conversation_id)},
        extra={"conversation_id": conversation_id, "message_id": message_id},
    )


def _messages_path(conversation_id: str) -> str:
    return f"/v1/conversations/{conversation_id}/messages"


def _customer(body: MessageCreate) -> Mapping[str, Any] | None:
    return body.customer.model_dump(exclude_unset=True) if body.customer else None


_CUSTOMER_ERRORS = ("resource_not_found", "customer_deleted", "parameters_exclusive")

app = service(
    Route(
        "/v1/conversations",
        get=list_endpoint(CONVERSATIONS, Conversation),
        post=Endpoint(
            create,
            returns=Conversation,
            status=(201,),
            body=ConversationCreate,
            errors=(*_CUSTOMER_ERRORS, "conversation_exists"),
        ),
    ),
    Route("/v1/conversations/{id}", get=retrieve_endpoint(CONVERSATIONS, Conversation)),
    Route(
        "/v1/conversations/{id}/messages",
        get=Endpoint(list_messages, returns=Page[Message], query=MESSAGES.parameters, errors=("resource_not_found",)),
        post=Endpoint(
            send,
            returns=AnsweredMessage,
            status=(201,),
            body=MessageCreate,
            errors=("resource_not_found", "conversation_ended", "conversation_busy", "agent_timeout"),
            resume=_resume,
        ),
    ),
    Route(
        "/v1/conversations/{id}/end",
        post=Endpoint(end, returns=Conversation, optional_body=True, errors=("resource_not_found",)),
    ),
    Route(
        "/v1/messages",
        post=Endpoint(
            send_to_thread,
            returns=AnsweredMessage,
            status=(201,),
            body=ThreadMessageCreate,
            errors=(*_CUSTOMER_ERRORS, "conversation_busy", "agent_timeout"),
            resume=_resume,
        ),
    ),
)
handler = lambda_handler(app)
