"""POST /v1/messages and /v1/conversations/{id}/messages: send a message and return it with the agent's reply.

The request commits the message, claims its turn in the same write, and runs the agent itself. If its time runs out or
the function dies, the `turn` worker finishes the turn: wake-ups for the end of the lease and for the time limit of the
turn are sent before the agent starts. Nothing runs after the response, because Lambda freezes the container.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from shared.api.requests import Request
from shared.api.responses import PendingReply, Response
from shared.api.routes import Operation, Route, lambda_handler, service
from shared.conversations import commands, turns
from shared.conversations.commands import SentMessage
from shared.conversations.participants import CUSTOMER_ERRORS, REFERENCE_ERRORS
from shared.conversations.resource import (
    AnsweredMessage,
    MessageCreate,
    PostedMessage,
    ThreadMessageCreate,
    messages_path,
)
from shared.conversations.window import Window
from shared.core.errors import Code
from shared.resources import fields
from shared.store.commit import Change


def send(request: Request[MessageCreate]) -> Response:
    """Send a message to a conversation.

    Returns the message with the agent's reply. If there is no reply within 20 seconds, the response is a 504: the reply
    will be in the messages of the conversation, and a retry with the same Idempotency-Key waits for it again
    (promises 8). A message with the role `staff` has no reply: the agent reads it before its next one (promises 11).
    """
    if request.body.role == "staff":
        return request.commit(
            lambda: commands.add_staff_message(request.scope, request.id, request.body.content),
            lambda added: Response(201, fields.to_json(added), messages_path(request.id)),
        )
    return _send_and_reply(request, partial(commands.send, request.scope, request.id, request.body))


def send_to_thread(request: Request[ThreadMessageCreate]) -> Response:
    """Send a message to a thread.

    Sends the message to the active conversation with this `external_conversation_id`, and creates the conversation if
    none is active. Otherwise this is the same as a message to a conversation by its id (promises
    8).
    """
    return _send_and_reply(request, partial(commands.send_to_thread, request.scope, request.body))


def _send_and_reply(
    request: Request[MessageCreate] | Request[ThreadMessageCreate],
    command: Callable[[Callable[[], float]], Change[SentMessage]],
) -> Response:
    """Commit the message with its claimed turn, then reply in the request's window."""
    seconds_left = partial(request.seconds_left, turns.window_s(request.scope, request.body.content))

    def to_be_saved(sent: SentMessage) -> Response:
        """What a retry with the same Idempotency-Key finds, until `_resume` has its body."""
        message = PendingReply(sent.row["conversation_id"], sent.row["sk"])
        return Response(201, "", messages_path(message.conversation_id), pending=message)

    sent, saved = request.commit_and_get(lambda: command(seconds_left), to_be_saved)
    window = Window(request.scope, sent.row["conversation_id"], sent.row["sk"], seconds_left)
    return Response(201, window.first_reply(sent), saved.location)


def _resume(request: Request[Any], message: PendingReply) -> str:
    """The body of the response to a retry: waits for the reply in a new window.

    Raises `agent_timeout`, or `resource_not_found` if the message was erased.
    """
    seconds_left = partial(request.seconds_left, turns.WINDOW_S)
    return Window(request.scope, message.conversation_id, message.message_id, seconds_left).resumed_reply()


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
