"""/v1/conversations and /v1/messages: create, list, retrieve and end conversations; send and list messages."""

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
"""Seconds between polls for the reply. The last wait repeats."""


class CustomerReference(CustomerFields):
    """The customer of a conversation: an id, or the fields to match or create a customer (contract 8)."""

    id: str = ""
    phone: fields.Phone | None = None
    metadata: fields.Metadata | None = None


class ConversationCreate(fields.Input):
    """A new conversation; every field is optional (contract 8)."""

    external_id: fields.ExternalId | None = None
    customer: CustomerReference | None = None
    metadata: fields.Metadata | None = None


class MessageCreate(fields.Input):
    """A message to the conversation in the path. `customer` and `metadata` have no effect (contract 8)."""

    content: Annotated[str, fields.text(8000, least=1)]
    markdown: bool = True
    customer: CustomerReference | None = None
    metadata: fields.Metadata | None = None


class ThreadMessageCreate(MessageCreate):
    """A message to a thread. `customer` and `metadata` apply only if it creates a conversation (contract 8)."""

    external_conversation_id: fields.ExternalId


def create(request: Request[ConversationCreate]) -> Response:
    """Create a conversation without messages and return it (contract 8).

    The customer is matched, or created without a match. An active conversation with the same `external_id` is 409
    `conversation_exists`; a deleted customer is 409 `customer_deleted`; an unknown customer id is 400
    `resource_not_found`.
    """
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
    """Return a page of a conversation's messages, oldest first unless `order=desc` (contract 8).

    An unknown id is 404 `resource_not_found`.
    """
    query = MESSAGES.query(request.query)
    conversation = CONVERSATIONS.find(request.scope, request.id)
    partition = conversations.messages_pk(request.scope, conversation.doc["id"])
    page = MESSAGES.page(request.scope, query, partition=partition, seconds_left=request.seconds_left)
    return responses.ok(page.envelope(request.path))


def end(request: Request[fields.Nothing]) -> Response:
    """End a conversation and return it (contract 8).

    Its `external_id` can then be used by another conversation. A conversation that has already ended is returned
    unchanged. An unknown id is 404 `resource_not_found`.
    """

    def decide() -> Decision:
        record = CONVERSATIONS.find(request.scope, request.id)
        conversation = conversations.ended(record.doc)
        if conversation is None:
            return Decision([], responses.ok(record.json))
        write = CONVERSATIONS.update(request.scope, record, conversation)
        return Decision([write, *conversations.ending(request.scope, conversation)], responses.ok(conversation))

    return request.commit(decide)


def send(request: Request[MessageCreate]) -> Response:
    """Send a message to a conversation and return it with the agent's reply (specification, "Message"; contract 8).

    The request waits up to 20 seconds for the reply. Then it is 504 `agent_timeout`: the reply will be in the messages
    of the conversation, and a retry with the same Idempotency-Key waits for it again. An ended conversation is 409
    `conversation_ended`; a pending reply to another message is 409 `conversation_busy`; an unknown id is 404
    `resource_not_found`.
    """
    participants.check(_customer(request.body))

    def decide() -> tuple[list[table.Operation], table.Row]:
        record = CONVERSATIONS.find(request.scope, request.id)
        return _message(request.scope, record, request.body)

    return _commit_message(request, decide)


def send_to_thread(request: Request[ThreadMessageCreate]) -> Response:
    """Send a message to the active conversation with this `external_conversation_id`, and return it with the reply.

    Creates the conversation if none is active. Otherwise this is the same as a message to a conversation by its id
    (specification, "POST /v1/messages"; contract 8). A deleted customer is 409 `customer_deleted`; a pending reply to
    another message is 409 `conversation_busy`.
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
    conversations.check_open(record)
    message = conversations.new_message(scope, record.doc, body.content, body.markdown)
    conversation, lock = conversations.locked(record.doc, message)
    return [CONVERSATIONS.update(scope, record, conversation, lock), table.Put(message)], message


def _commit_message(request: Request[Any], decide: Callable[[], tuple[list[table.Operation], table.Row]]) -> Response:
    """Store the message and send the hints for its turn, which writes the response's body. `_resume` waits for it."""

    def decide_message() -> Decision:
        writes, message = decide()
        turn = f"{message['conversation_id']}/{message['sk']}"
        response = Response(201, "", _messages_path(message["conversation_id"]), deferred=turn)
        give_up = conversations.turn_hint(message, delay=conversations.GIVE_UP // clock.SECOND + 1)
        turn_hints = [conversations.turn_hint(message), give_up]
        return Decision(writes, response, after=lambda: hints.send("turns", turn_hints))

    return request.commit(decide_message)


def _resume(request: Request[Any], response: Response) -> str:
    """Wait for the response body that the turn commits. Raises `agent_timeout` at the end of the request's window."""
    assert response.deferred is not None
    conversation_id, message_id = response.deferred.split("/")
    # The first request may have died before it sent the hints, so a replay sends one again.
    hint_again = response.original_request is not None
    window = conversations.WINDOW if hint_again else conversations.window(request.scope, request.body.content)
    pk, polls = conversations.messages_pk(request.scope, conversation_id), 0
    while (seconds := request.seconds_left(window)) > 0:
        clock.sleep(min(POLLS[min(polls, len(POLLS) - 1)], seconds))
        polls += 1
        row = None
        # The message is stored, so a failed poll is not fatal.
        with contextlib.suppress(Unavailable):
            row = table.get(pk, message_id)
        if row is not None and "answer" in row:
            return str(row["answer"])
        if row is not None and hint_again:
            hints.send("turns", [conversations.turn_hint(row)])
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
