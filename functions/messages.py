"""POST /v1/messages and /v1/conversations/{id}/messages: send a message and return it with the agent's reply.

A request commits the message and claims its turn in the same write. Then it gets the reply
(`shared/conversations/reply_window.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from shared.api import responses
from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, Service, lambda_handler
from shared.conversations import commands as conversation_commands
from shared.conversations import turns
from shared.conversations.commands import SentMessage
from shared.conversations.participants import CUSTOMER_ERRORS, REFERENCE_ERRORS
from shared.conversations.reply_window import ReplyWindow
from shared.conversations.resource import (
    AnsweredMessage,
    MessageCreate,
    PostedMessage,
    ThreadMessageCreate,
    messages_path,
)
from shared.core.errors import Code


def send(request: Request[MessageCreate]) -> Response[PostedMessage]:
    """Send a message to a conversation.

    Returns the message with the agent's reply. If there is no reply within 20 seconds, the response is a 504: the reply
    will be in the messages of the conversation, and a retry with the same Idempotency-Key waits for it again
    (promises 8). A message with the role `staff` has no reply: the agent reads it before its next one (promises 11).
    """
    if request.body.role == "staff":
        return request.commit(
            lambda: conversation_commands.add_staff_message(request.scope, request.id, request.body.content),
            lambda added: responses.created(added, messages_path(request.id)),
        )
    seconds_left = _seconds_left(request)
    sent = request.commit_before_body(
        lambda: conversation_commands.add_user_message(request.scope, request.id, request.body, seconds_left),
        _without_body,
    )
    window = ReplyWindow(request.scope, request.id, sent.row["sk"], seconds_left)
    return Response(201, window.first_body(sent), messages_path(request.id))


def send_to_thread(request: Request[ThreadMessageCreate]) -> Response[AnsweredMessage]:
    """Send a message to a thread.

    Sends the message to the active conversation with this `external_conversation_id`, and creates the conversation if
    none is active. Otherwise this is the same as a message to a conversation by its id (promises 8).
    """
    seconds_left = _seconds_left(request)
    sent = request.commit_before_body(
        lambda: conversation_commands.add_user_message_to_thread(request.scope, request.body, seconds_left),
        _without_body,
    )
    conversation_id = sent.row["conversation_id"]
    window = ReplyWindow(request.scope, conversation_id, sent.row["sk"], seconds_left)
    return Response(201, window.first_body(sent), messages_path(conversation_id))


def _seconds_left(request: Request[MessageCreate] | Request[ThreadMessageCreate]) -> Callable[[], float]:
    """Returns, whenever it is called, the seconds that the first request with a message has left for the reply."""
    return partial(request.seconds_left, turns.window_s(request.scope, request.body.content))


def _without_body(sent: SentMessage) -> Response[None]:
    """The response to be saved with the message, before there is a reply."""
    conversation_id = sent.row["conversation_id"]
    return Response(201, "", messages_path(conversation_id), deferred=f"{conversation_id}/{sent.row['sk']}")


def _body_for_retry(request: Request[Any], deferred: str) -> str:
    """The body of the response to a retry, which has a window of its own."""
    conversation_id, message_id = deferred.split("/")
    window = ReplyWindow(request.scope, conversation_id, message_id, partial(request.seconds_left, turns.WINDOW_S))
    return window.body_for_retry()


app = Service(
    Route(
        "/v1/conversations/{id}/messages",
        post=Operation(
            send,
            name="send_message",
            status=(201,),
            errors=(
                Code.RESOURCE_NOT_FOUND,
                *REFERENCE_ERRORS,
                Code.CONVERSATION_ENDED,
                Code.CONVERSATION_BUSY,
                Code.AGENT_TIMEOUT,
            ),
            deferred_body=_body_for_retry,
        ),
    ),
    Route(
        "/v1/messages",
        post=Operation(
            send_to_thread,
            name="send_message_to_thread",
            status=(201,),
            errors=(*CUSTOMER_ERRORS, Code.CONVERSATION_BUSY, Code.AGENT_TIMEOUT),
            deferred_body=_body_for_retry,
        ),
    ),
)
handler = lambda_handler(app)
