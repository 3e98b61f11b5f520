"""POST /v1/messages and /v1/conversations/{id}/messages: send a message and return it with the agent's reply.

The request commits the message, claims its turn in the same write, and runs the agent itself. If its time runs out or
the function dies, the `turn` worker finishes the turn: wake-ups for the end of the lease and for the time limit of the
turn are sent before the agent starts. Nothing runs after the response, because Lambda freezes the container.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, lambda_handler, service
from shared.aws.services import Unavailable
from shared.conversations import commands, participants, replies, slots, turns
from shared.conversations import resource as conversations
from shared.conversations.participants import CUSTOMER_ERRORS, REFERENCE_ERRORS, CustomerReference
from shared.conversations.resource import CONVERSATIONS, AnsweredMessage, Content, ConversationRecord, PostedMessage
from shared.conversations.turns import Turn
from shared.core import clock
from shared.core.errors import ApiError, Code
from shared.resources import fields
from shared.store import table
from shared.store.commit import Change
from shared.tasks import wake_ups

POLLS = (0.15, 0.15, 0.2, 0.3, 0.4, 0.5, 0.8)
"""Seconds between polls for the reply of a turn that another request or worker runs. The last wait repeats."""


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


def send(request: Request[MessageCreate]) -> Response:
    """Send a message to a conversation.

    Returns the message with the agent's reply. If there is no reply within 20 seconds, the response is a 504: the reply
    will be in the messages of the conversation, and a retry with the same Idempotency-Key waits for it again
    (promises 8). A message with the role `staff` has no reply: the agent reads it before its next one (promises 11).
    """
    if request.body.role == "staff":
        return _send_as_staff(request)
    participants.check(request.body.customer)
    return _commit(request, lambda: _next_message(request, CONVERSATIONS.find(request.scope, request.id)))


def _send_as_staff(request: Request[MessageCreate]) -> Response:
    path = _messages_path(request.id)
    return request.commit(
        lambda: commands.add_staff_message(request.scope, request.id, request.body.content),
        lambda added: Response(201, fields.to_json(added), path),
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

    return _commit(request, decide)


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


def _commit(request: Request[Any], decide: Callable[[], NewMessage]) -> Response:
    """Store the message and take its turn. The turn commits the body of the response; `_resume` waits for it."""
    replies: list[Response] = []

    def store_message() -> Change[Mapping[str, Any]]:
        message = decide()
        window = Window(request, message.row, conversations.window_s(request.scope, request.body.content))
        row, slot = slots.take(request.scope, message.row)
        turn = turns.begin(row, window.seconds_left)
        row = row if turn is None else turn.claim.row
        path = _messages_path(row["conversation_id"])
        saved = Response(201, "", path, deferred=f"{row['conversation_id']}/{row['sk']}")

        def reply() -> None:
            replies.append(Response(201, window.first_reply(turn, message.conversation), path))

        return Change({"saved": saved}, [*message.writes, table.Put(row), *slot], after=reply)

    saved = request.commit(store_message, lambda doc: doc["saved"])
    return replies[0] if replies else saved


def _resume(request: Request[Any], response: Response) -> str:
    """The body of the response to a retry: waits for the reply in a new window.

    Raises `agent_timeout`, or `resource_not_found` if the message was erased.
    """
    assert response.deferred is not None
    conversation_id, message_id = response.deferred.split("/")
    key = {"pk": conversations.messages_pk(request.scope, conversation_id), "sk": message_id}
    window = Window(request, {**key, "conversation_id": conversation_id}, conversations.WINDOW_S)
    return window.wait_for_reply((0, *POLLS), may_take=True, woken=False)


@dataclass(frozen=True)
class Window:
    """The time that a request has for the reply to a message: `length_s` seconds from its start."""

    request: Request[Any]
    message: table.Row
    length_s: int

    @property
    def seconds_left(self) -> float:
        """Seconds until its end."""
        return self.request.seconds_left(self.length_s)

    def first_reply(self, turn: Turn | None, conversation: ConversationRecord) -> str:
        """The body of the response to the request that stored the message. Raises `agent_timeout`."""
        if turn is None:
            _send(conversations.turn_wake_ups(self.message))
        elif (body := self._take(turn, conversation)) is not None:
            return body
        return self.wait_for_reply(POLLS, may_take=False, woken=True)

    def wait_for_reply(self, polls: Sequence[float], *, may_take: bool, woken: bool) -> str:
        """Poll for the reply. Returns the body. Raises `agent_timeout`, or `resource_not_found` once it is erased.

        `polls` are the waits (seconds). With `may_take`, the request takes the turn once, if it is free. `woken` says
        whether the wake-ups for the turn were sent.
        """
        for row in self._polled(polls):
            if "response_body" in row:
                return str(row["response_body"])
            turn = self._claim(row) if may_take else None
            if turn is not None:
                body = self._take(turn)
                if body is not None:
                    return body
                may_take = False
                woken = True
            elif not woken and not turns.fits(self.seconds_left - conversations.turn_wait_ms(row) / clock.SECOND):
                # The first request may have died before it sent them, and this one cannot take the turn itself.
                woken = True
                _send(conversations.turn_wake_ups(row))
        raise self._timeout()

    def _take(self, turn: Turn, conversation: ConversationRecord | None = None) -> str | None:
        """Run the agent and commit its reply. Returns the body; None if the worker must retry the turn.

        Raises `agent_timeout` if the window leaves the worker no time for that.
        """
        _send(conversations.turn_wake_ups(turn.claim.row))
        try:
            return replies.reply_to(turn, conversation)
        except replies.RETRYABLE:
            # The message is stored, so the request does not fail.
            _send([conversations.turn_wake_up(turn.claim.row, delay_s=0)])
        if not turns.fits(self.seconds_left):
            raise self._timeout()
        return None

    def _polled(self, waits: Sequence[float]) -> Iterator[table.Row]:
        """The message's row after each wait, until the window ends. The last wait repeats.

        Raises `resource_not_found` once the message is erased.
        """
        for wait in itertools.chain(waits, itertools.repeat(waits[-1])):
            seconds = self.seconds_left
            if seconds <= 0:
                return
            clock.sleep(min(wait, seconds))
            # The message is stored, so a failed poll is not fatal.
            with contextlib.suppress(Unavailable):
                row = table.get(self.message["pk"], self.message["sk"])
                if row is None:
                    raise ApiError(Code.RESOURCE_NOT_FOUND, f"No such message: '{self.message['sk']}'.")
                yield row

    def _claim(self, row: table.Row) -> Turn | None:
        # The message is stored, so a failed claim is not fatal.
        with contextlib.suppress(Unavailable, table.Contended):
            return turns.claim_in_window(row, self.seconds_left)
        return None

    def _timeout(self) -> ApiError:
        conversation_id = self.message["conversation_id"]
        extra = {"conversation_id": conversation_id, "message_id": self.message["sk"]}
        return ApiError(Code.AGENT_TIMEOUT, headers={"Location": _messages_path(conversation_id)}, extra=extra)


def _send(turn_wake_ups: Sequence[wake_ups.WakeUp]) -> None:
    # SQS must not use up the time of the agent, or delay the response.
    wake_ups.send_within(wake_ups.REQUEST_SECONDS, "turns", turn_wake_ups)


def _messages_path(conversation_id: str) -> str:
    return f"/v1/conversations/{conversation_id}/messages"


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
