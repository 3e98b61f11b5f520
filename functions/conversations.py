"""/v1/conversations: create, list, retrieve and end conversations, and list their messages."""

from __future__ import annotations

from shared.api import responses
from shared.api.collections import list_operation, retrieve_operation
from shared.api.requests import Decision, Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, lambda_handler, service
from shared.conversations import conversations, participants
from shared.conversations.conversations import CONVERSATIONS, MESSAGES, Conversation, Message
from shared.conversations.participants import CUSTOMER_ERRORS, CustomerReference
from shared.resources import fields
from shared.resources.lists import Page


class ConversationCreate(fields.Input):
    """A new conversation; every field is optional (contract 8)."""

    external_id: fields.ExternalId | None = None
    customer: CustomerReference | None = None
    metadata: fields.Metadata | None = None


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


app = service(
    Route(
        "/v1/conversations",
        get=list_operation(CONVERSATIONS, Conversation),
        post=Operation(
            create,
            returns=Conversation,
            status=(201,),
            body=ConversationCreate,
            errors=(*CUSTOMER_ERRORS, "conversation_exists"),
        ),
    ),
    Route("/v1/conversations/{id}", get=retrieve_operation(CONVERSATIONS, Conversation)),
    Route(
        "/v1/conversations/{id}/messages",
        get=Operation(list_messages, returns=Page[Message], query=MESSAGES.parameters, errors=("resource_not_found",)),
        elsewhere=("POST",),
    ),
    Route(
        "/v1/conversations/{id}/end",
        post=Operation(end, returns=Conversation, optional_body=True, errors=("resource_not_found",)),
    ),
)
handler = lambda_handler(app)
