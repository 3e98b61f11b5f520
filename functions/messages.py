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

from shared.api.requests import Request
from shared.api.responses import PendingReply, Response
from shared.api.routes import Operation, Route, Service, lambda_handler
from shared.aws.services import Unavailable
from shared.conversations import commands, replies, turns
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
from shared.resources import fields
from shared.store import table
from shared.store.keys import Scope
from shared.store.transactions import Change
from shared.tasks import wake_ups

POLLS_S = (0.15, 0.15, 0.2, 0.3, 0.4, 0.5, 0.8)
"""Seconds between polls for the reply of a turn that another request or worker runs. The last wait repeats."""


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
    return _commit_message(request, partial(commands.send, request.scope, request.id, request.body))


def send_to_thread(request: Request[ThreadMessageCreate]) -> Response:
    """Send a message to a thread.

    Sends the message to the active conversation with this `external_conversation_id`, and creates the conversation if
    none is active. Otherwise this is the same as a message to a conversation by its id (promises
    8).
    """
    return _commit_message(request, partial(commands.send_to_thread, request.scope, request.body))


def _commit_message(
    request: Request[MessageCreate] | Request[ThreadMessageCreate],
    command: Callable[[Callable[[], float]], Change[SentMessage]],
) -> Response:
    """Commit the message with its claimed turn. The response is without its body, which is left to `_reply`."""
    seconds_left = partial(request.seconds_left, turns.window_s(request.scope, request.body.content))

    def respond(sent: SentMessage) -> Response:
        message = PendingReply(sent.row["conversation_id"], sent.row["sk"], sent)
        return Response(201, "", messages_path(message.conversation_id), pending=message)

    return request.commit(lambda: command(seconds_left), respond)


def _reply(request: Request[Any], message: PendingReply) -> str:
    """The body of the response: the reply, in the request's window. A retry waits for it in a window of its own.

    Raises `agent_timeout`, or `resource_not_found` if the message was erased.
    """
    sent = message.sent
    window_s = turns.WINDOW_S if sent is None else turns.window_s(request.scope, request.body.content)
    seconds_left = partial(request.seconds_left, window_s)
    window = ReplyWindow(request.scope, message.conversation_id, message.message_id, seconds_left)
    return window.resumed_reply() if sent is None else window.first_reply(sent)


@dataclass(frozen=True)
class ReplyWindow:
    """The time that a request has for the reply to a message."""

    scope: Scope
    conversation_id: str
    message_id: str
    seconds_left: Callable[[], float]
    """Returns the seconds until its end."""

    def first_reply(self, sent: SentMessage) -> str:
        """The body of the response to the request that stored the message. Raises `agent_timeout`."""
        if sent.turn is None:
            _send_wake_ups(turns.both_wake_ups(sent.row))
        elif (body := self._run_turn(sent.turn, sent.conversation)) is not None:
            return body
        return self._wait_for_reply(POLLS_S, may_claim=False, woken=True)

    def resumed_reply(self) -> str:
        """The body of the response to a retry. Raises `agent_timeout`, or `resource_not_found` once it is erased."""
        return self._wait_for_reply((0, *POLLS_S), may_claim=True, woken=False)

    def _wait_for_reply(self, polls_s: Sequence[float], *, may_claim: bool, woken: bool) -> str:
        """Poll for the reply. Returns the body. Raises `agent_timeout`, or `resource_not_found` once it is erased.

        `polls_s` are the waits before the polls. With `may_claim`, the request claims the turn once, if it is free.
        `woken` says whether the wake-ups for the turn were sent.
        """
        for row in self._polled(polls_s):
            if "response_body" in row:
                return row["response_body"]
            turn = self._claim(row) if may_claim else None
            if turn is not None:
                body = self._run_turn(turn)
                if body is not None:
                    return body
                may_claim = False
                woken = True
            elif not woken and not turns.may_begin(self.seconds_left() - turns.wait_ms(row) / clock.SECOND):
                # The first request may have died before it sent them, and this one cannot claim the turn itself.
                woken = True
                _send_wake_ups(turns.both_wake_ups(row))
        raise self._timeout()

    def _run_turn(self, turn: ClaimedTurn, conversation: ConversationRecord | None = None) -> str | None:
        """Run the agent and commit its reply. Returns the body; None if the worker must retry the turn.

        Raises `agent_timeout` if the window leaves the worker no time for that.
        """
        _send_wake_ups(turns.both_wake_ups(turn.claim.row))
        try:
            return replies.reply_to(turn, conversation)
        except replies.RETRYABLE:
            # The message is stored, so the request does not fail.
            _send_wake_ups([turns.wake_up(turn.claim.row, delay_s=0)])
        if not turns.may_begin(self.seconds_left()):
            raise self._timeout()
        return None

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
    wake_ups.send_within(wake_ups.REQUEST_S, "turns", of_turn)


app = Service(
    Route(
        "/v1/conversations/{id}/messages",
        post=Operation(
            send,
            name="send_message",
            returns=PostedMessage,
            status=(201,),
            errors=(
                Code.RESOURCE_NOT_FOUND,
                *REFERENCE_ERRORS,
                Code.CONVERSATION_ENDED,
                Code.CONVERSATION_BUSY,
                Code.AGENT_TIMEOUT,
            ),
            reply=_reply,
        ),
    ),
    Route(
        "/v1/messages",
        post=Operation(
            send_to_thread,
            name="send_message_to_thread",
            returns=AnsweredMessage,
            status=(201,),
            errors=(*CUSTOMER_ERRORS, Code.CONVERSATION_BUSY, Code.AGENT_TIMEOUT),
            reply=_reply,
        ),
    ),
)
handler = lambda_handler(app)
