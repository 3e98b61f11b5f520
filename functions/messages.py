"""POST /v1/messages and /v1/conversations/{id}/messages: send a message and return it with the agent's reply.

The request commits the message, claims its turn in the same write, and runs the agent itself. If its time runs out or
the function dies, the `turn` worker finishes the turn: wake-ups for the end of the lease and for the time limit of the
turn are sent before the agent starts. Nothing runs after the response, because Lambda freezes the container.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from shared.api import responses
from shared.api.requests import Request
from shared.api.responses import Deferred, Response
from shared.api.routes import Operation, Route, Service, lambda_handler
from shared.aws.services import Unavailable
from shared.conversations import commands as conversation_commands
from shared.conversations import replies, turns
from shared.conversations.commands import SentMessage
from shared.conversations.participants import CUSTOMER_ERRORS, REFERENCE_ERRORS
from shared.conversations.resource import (
    AnsweredMessage,
    ConversationRecord,
    MessageCreate,
    MessageRow,
    PostedMessage,
    ThreadMessageCreate,
    messages_path,
    messages_pk,
)
from shared.conversations.turns import ClaimedTurn
from shared.core import clock
from shared.core.errors import ApiError, Code
from shared.store import table
from shared.store.keys import Scope
from shared.store.transactions import Change
from shared.tasks import wake_ups

POLLS_S = (0.15, 0.15, 0.2, 0.3, 0.4, 0.5, 0.8)
"""Seconds between polls for the reply of a turn that another request or worker runs. The last wait repeats."""


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
    return _commit_message(
        request, partial(conversation_commands.add_user_message, request.scope, request.id, request.body)
    )


def send_to_thread(request: Request[ThreadMessageCreate]) -> Response[AnsweredMessage]:
    """Send a message to a thread.

    Sends the message to the active conversation with this `external_conversation_id`, and creates the conversation if
    none is active. Otherwise this is the same as a message to a conversation by its id (promises
    8).
    """
    return _commit_message(
        request, partial(conversation_commands.add_user_message_to_thread, request.scope, request.body)
    )


def _commit_message(
    request: Request[MessageCreate] | Request[ThreadMessageCreate],
    command: Callable[[Callable[[], float]], Change[SentMessage]],
) -> Response[Any]:
    """Commit the message with its claimed turn. The body of the response is deferred: the reply is not there yet."""
    seconds_left = partial(request.seconds_left, turns.window_s(request.scope, request.body.content))

    def respond(sent: SentMessage) -> Response[Any]:
        conversation_id, message_id = sent.row["conversation_id"], sent.row["sk"]
        window = ReplyWindow(request.scope, conversation_id, message_id, seconds_left)
        deferred = Deferred(f"{conversation_id}/{message_id}", partial(window.first_body, sent))
        return Response(201, "", messages_path(conversation_id), deferred=deferred)

    return request.commit(lambda: command(seconds_left), respond)


def _body_for_retry(request: Request[Any], reference: str) -> str:
    """The body of the response to a retry, which has a window of its own.

    Raises `agent_timeout`, or `resource_not_found` if the message was erased.
    """
    conversation_id, message_id = reference.split("/")
    seconds_left = partial(request.seconds_left, turns.WINDOW_S)
    return ReplyWindow(request.scope, conversation_id, message_id, seconds_left).body_for_retry()


@dataclass(frozen=True)
class ReplyWindow:
    """The time that a request has for the reply to a message.

    Its methods return the body of the response. They raise `agent_timeout` at the end of the window, and
    `resource_not_found` once the message is erased.
    """

    scope: Scope
    conversation_id: str
    message_id: str
    seconds_left: Callable[[], float]
    """Returns the seconds until its end."""

    def first_body(self, sent: SentMessage) -> str:
        """For the request that stored the message."""
        if sent.turn is not None:
            return self._run_turn(sent.turn, sent.conversation)
        _send_wake_ups(turns.both_wake_ups(sent.row))
        return self._wait()

    def body_for_retry(self) -> str:
        """For a retry, which claims the turn as soon as it is free."""
        woken = False
        for row in self._polled((0, *POLLS_S)):
            if "response_body" in row:
                return row["response_body"]
            turn = self._claim(row)
            if turn is not None:
                return self._run_turn(turn)
            if not woken and not turns.may_begin(self.seconds_left() - turns.wait_ms(row) / clock.SECOND):
                # The first request may have died before it sent them, and this one cannot claim the turn itself.
                woken = True
                _send_wake_ups(turns.both_wake_ups(row))
        raise self._timeout()

    def _run_turn(self, turn: ClaimedTurn, conversation: ConversationRecord | None = None) -> str:
        """Run the agent and commit its reply. If that fails for now, wait for the worker that does it again."""
        _send_wake_ups(turns.both_wake_ups(turn.claim.row))
        try:
            return replies.run_turn(turn, conversation)
        except replies.RETRYABLE:
            # The message is stored, so the request does not fail.
            _send_wake_ups([wake_ups.new("turns", turn.claim.row["pk"], turn.claim.row["sk"])])
        if not turns.may_begin(self.seconds_left()):
            raise self._timeout()
        return self._wait()

    def _wait(self) -> str:
        """Wait for the reply of another request or a worker."""
        for row in self._polled(POLLS_S):
            if "response_body" in row:
                return row["response_body"]
        raise self._timeout()

    def _polled(self, waits_s: Sequence[float]) -> Iterator[MessageRow]:
        """The message's row after each wait, until the window ends. The last wait repeats.

        Raises `resource_not_found` once the message is erased.
        """
        for wait_s in itertools.chain(waits_s, itertools.repeat(waits_s[-1])):
            seconds = self.seconds_left()
            if seconds <= 0:
                return
            clock.sleep(min(wait_s, seconds))
            # The message is stored, so a failed poll is not fatal.
            with contextlib.suppress(Unavailable):
                row = table.get(messages_pk(self.scope, self.conversation_id), self.message_id)
                if row is None:
                    raise ApiError(Code.RESOURCE_NOT_FOUND, f"No such message: '{self.message_id}'.")
                yield cast("MessageRow", row)

    def _claim(self, row: MessageRow) -> ClaimedTurn | None:
        # The message is stored, so a failed claim is not fatal.
        with contextlib.suppress(Unavailable, table.Contended):
            return turns.claim_in_window(row, self.seconds_left())
        return None

    def _timeout(self) -> ApiError:
        extra = {"conversation_id": self.conversation_id, "message_id": self.message_id}
        return ApiError(Code.AGENT_TIMEOUT, headers={"Location": messages_path(self.conversation_id)}, extra=extra)


def _send_wake_ups(of_turn: Sequence[wake_ups.WakeUp]) -> None:
    # SQS must not use up the time of the agent, or delay the response.
    wake_ups.send_within(wake_ups.REQUEST_S, of_turn)


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
