"""/v1/conversations and /v1/messages: threads that the agent answers in."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any

from shared.api import http
from shared.api.http import Answer, Call, Decision
from shared.conversations import conversations
from shared.core import clock, table
from shared.core.aws import Unavailable
from shared.core.errors import ApiError
from shared.core.keys import Scope
from shared.resources import fields, lists, records
from shared.resources.records import Document
from shared.work import hints

LISTED = conversations.LISTED
POLLS = (0.15, 0.15, 0.2, 0.3, 0.4, 0.5, 0.8)
"""Seconds between looks for the reply; then the last one again and again."""


class CustomerRef(fields.Input):
    """Whom a conversation is with: an id, or what to match or create a customer by (contract 8)."""

    id: str = ""
    phone: fields.Phone | None = None
    name: fields.Name | None = None
    email: fields.Email | None = None
    external_id: fields.ExternalId | None = None
    metadata: fields.Metadata | None = None


class ConversationIn(fields.Input):
    """A conversation without messages."""

    external_id: fields.ExternalId | None = None
    customer: CustomerRef | None = None
    metadata: fields.Metadata | None = None


class MessageIn(fields.Input):
    """A message to a conversation named by the path; `customer` and `metadata` have no effect."""

    content: Annotated[str, fields.text(8000, least=1)]
    markdown: bool = True
    customer: CustomerRef | None = None
    metadata: fields.Metadata | None = None


class ThreadMessageIn(MessageIn):
    """A message to the caller's own thread; `customer` and `metadata` are for a conversation that it opens."""

    external_conversation_id: fields.ExternalId


def create(call: Call) -> Answer:
    given = call.body(ConversationIn).model_dump(exclude_unset=True)
    conversations.check_customer(given.get("customer"))

    def decide() -> Decision:
        customer_id, customer = conversations.customer_of(call.scope, given.get("customer"))
        conversation = conversations.new(call.scope, given.get("external_id"), customer_id, given.get("metadata"))
        answer = Answer(201, fields.compact(conversation), location=f"/v1/conversations/{conversation['id']}")
        taken = conversations.thread_taken
        return [*customer, *conversations.insertion(call.scope, conversation, refusal=taken)], answer

    return call.commit(decide)


def list_conversations(call: Call) -> Answer:
    query = lists.read(LISTED, call.query)
    page = lists.page(call.scope, LISTED, query, seconds_left=call.seconds_left)
    return Answer(200, page.envelope(call.path))


def retrieve(call: Call) -> Answer:
    return Answer(200, records.find(LISTED, call.scope, call.params["id"]).row["doc"])


def list_messages(call: Call) -> Answer:
    query = lists.read(conversations.MESSAGES, call.query)
    conversation = records.find(LISTED, call.scope, call.params["id"])
    base = conversations.messages_pk(call.scope, conversation.doc["id"])
    page = lists.page(call.scope, conversations.MESSAGES, query, base, call.seconds_left)
    return Answer(200, page.envelope(call.path))


def end(call: Call) -> Answer:
    call.body(fields.Nothing)

    def decide() -> Decision:
        found = records.find(LISTED, call.scope, call.params["id"])
        conversation = conversations.ended(found.doc)
        if conversation is found.doc:
            return [], Answer(200, found.row["doc"])
        write = records.change(LISTED, call.scope, found, conversation)
        writes = [write, *conversations.ending(call.scope, conversation)]
        return writes, Answer(200, fields.compact(conversation))

    return call.commit(decide)


def send(call: Call) -> Answer:
    given = call.body(MessageIn)
    conversations.check_customer(_customer(given))

    def decide() -> tuple[list[table.Operation], table.Row]:
        found = records.find(LISTED, call.scope, call.params["id"])
        return _asked(call.scope, found, given)

    return _answered(call, given, decide)


def send_to_thread(call: Call) -> Answer:
    given = call.body(ThreadMessageIn)
    customer = _customer(given)
    conversations.check_customer(customer)

    def decide() -> tuple[list[table.Operation], table.Row]:
        found = conversations.of_thread(call.scope, given.external_conversation_id)
        if found is not None:
            return _asked(call.scope, found, given)
        customer_id, writes = conversations.customer_of(call.scope, customer)
        conversation = conversations.new(call.scope, given.external_conversation_id, customer_id, given.metadata)
        message = conversations.asked(call.scope, conversation, given.content, given.markdown)
        conversation, lock = conversations.locked(conversation, message)
        writes += conversations.insertion(call.scope, conversation, lock)
        return [*writes, table.Put(message)], message

    return _answered(call, given, decide)


def _asked(scope: Scope, found: records.Found, given: MessageIn) -> tuple[list[table.Operation], table.Row]:
    conversations.must_take_message(found)
    message = conversations.asked(scope, found.doc, given.content, given.markdown)
    conversation, lock = conversations.locked(found.doc, message)
    return [records.change(LISTED, scope, found, conversation, internal=lock), table.Put(message)], message


def _answered(call: Call, given: MessageIn, decide: Any) -> Answer:
    """Store the message, tell the worker, and wait for the reply until the window ends."""
    message: table.Row = {}

    def decided() -> Decision:
        nonlocal message
        writes, message = decide()
        turn = f"{message['conversation_id']}/{message['sk']}"
        return writes, Answer(201, "", location=_messages(message["conversation_id"]), awaits=turn)

    answer = call.commit(decided)
    hints.send("turns", conversations.hints_of(call.scope, message))
    assert answer.awaits is not None
    window = conversations.window(call.scope, given.content)
    return Answer(201, _await_reply(call, answer.awaits, window, again=False), answer.location)


def _replayed(call: Call, turn: str) -> str:
    """The frozen answer of the turn that a retry's record names. Raises `agent_timeout` at the window's end."""
    # The first hint may have been lost with the request that stored the message.
    return _await_reply(call, turn, conversations.WINDOW, again=True)


def _await_reply(call: Call, turn: str, window: float, *, again: bool) -> str:
    """The frozen answer of a turn. `again` hints at it once more. Raises `agent_timeout` at the window's end."""
    conversation_id, message_id = turn.split("/")
    pk, looks = conversations.messages_pk(call.scope, conversation_id), 0
    while (left := call.seconds_left(window)) > 0:
        clock.sleep(min(POLLS[min(looks, len(POLLS) - 1)], left))
        looks += 1
        row = None
        # The message is stored: a look that fails is no reason to send the client away.
        with contextlib.suppress(Unavailable):
            row = table.get(pk, message_id)
        if row is not None and "answer" in row:
            return str(row["answer"])
        if row is not None and again:
            hints.send("turns", conversations.hints_of(call.scope, row)[:1])
            again = False
    raise ApiError(
        "agent_timeout",
        headers={"Location": _messages(conversation_id)},
        extra={"conversation_id": conversation_id, "message_id": message_id},
    )


def _messages(conversation_id: str) -> str:
    return f"/v1/conversations/{conversation_id}/messages"


def _customer(given: MessageIn) -> Document | None:
    return given.customer.model_dump(exclude_unset=True) if given.customer else None


app = http.service(
    http.Resource("/v1/conversations", get=list_conversations, post=create, query=LISTED.parameters),
    http.Resource("/v1/conversations/{id}", get=retrieve),
    http.Resource(
        "/v1/conversations/{id}/messages",
        get=list_messages,
        post=send,
        query=conversations.MESSAGES.parameters,
        replay=_replayed,
    ),
    http.Resource("/v1/conversations/{id}/end", post=end, action=True),
    http.Resource("/v1/messages", post=send_to_thread, replay=_replayed),
)
handler = http.lambda_handler(app)
