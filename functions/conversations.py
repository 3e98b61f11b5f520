"""/v1/conversations: create, list, retrieve, resume and end conversations, and list their messages."""

from __future__ import annotations

from shared.api import responses
from shared.api.collection_operations import list_operation, retrieve_operation
from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, Service, lambda_handler
from shared.conversations import commands as conversation_commands
from shared.conversations.participants import CUSTOMER_ERRORS
from shared.conversations.resource import (
    CONVERSATIONS,
    MESSAGES,
    Conversation,
    ConversationCreate,
    Message,
    messages_pk,
)
from shared.core.errors import Code
from shared.resources import fields, list_pages, queries
from shared.resources.queries import Page


def create(request: Request[ConversationCreate]) -> Response[Conversation]:
    """Create a conversation.

    The conversation has no messages yet. A message to a new thread creates one, too. The customer is matched, and
    created if none matches (promises 8).
    """
    return request.create(lambda: conversation_commands.create(request.scope, request.body))


def list_messages(request: Request[None]) -> Response[Page[Message]]:
    """List the messages of a conversation.

    Oldest first, unless `order` is `desc` (promises 8).
    """
    query = queries.parse(MESSAGES, request.query)
    conversation = CONVERSATIONS.find(request.scope, request.id)
    partition = messages_pk(request.scope, conversation.doc["id"])
    page = list_pages.read(request.scope, MESSAGES, query, partition=partition, seconds_left=request.seconds_left)
    return responses.page(page, request.path)


def end(request: Request[fields.Nothing]) -> Response[Conversation]:
    """End a conversation.

    Another conversation can then use its `external_id`. A conversation that has already ended is returned unchanged
    (promises 8).
    """
    return request.commit(
        lambda: conversation_commands.end(request.scope, CONVERSATIONS.find(request.scope, request.id))
    )


def resume(request: Request[fields.Nothing]) -> Response[Conversation]:
    """Give a conversation back to the agent.

    The agent replies to the next message. A conversation in which nobody waits for a person is returned unchanged
    (promises 11).
    """
    return request.commit(lambda: conversation_commands.resume(request.scope, request.id))


app = Service(
    Route(
        "/v1/conversations",
        get=list_operation(CONVERSATIONS),
        post=Operation(
            create,
            name="create_conversation",
            status=(201,),
            errors=(*CUSTOMER_ERRORS, Code.CONVERSATION_EXISTS),
        ),
    ),
    Route("/v1/conversations/{id}", get=retrieve_operation(CONVERSATIONS)),
    Route(
        "/v1/conversations/{id}/messages",
        get=Operation(
            list_messages,
            name="list_messages",
            lists=MESSAGES,
            errors=(Code.RESOURCE_NOT_FOUND,),
        ),
        elsewhere=("POST",),
    ),
    Route(
        "/v1/conversations/{id}/resume",
        post=Operation(
            resume,
            name="resume_conversation",
            optional_body=True,
            errors=(Code.RESOURCE_NOT_FOUND, Code.CONVERSATION_ENDED),
        ),
    ),
    Route(
        "/v1/conversations/{id}/end",
        post=Operation(end, name="end_conversation", optional_body=True, errors=(Code.RESOURCE_NOT_FOUND,)),
    ),
)
handler = lambda_handler(app)
