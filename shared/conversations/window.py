"""The window of a request: the time in which it replies to a message, or waits for the reply (promises 8)."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from shared.aws.services import Unavailable
from shared.conversations import replies, turns
from shared.conversations.commands import SentMessage
from shared.conversations.resource import ConversationRecord, MessageRow, messages_path, messages_pk
from shared.conversations.turns import Turn
from shared.core import clock
from shared.core.errors import ApiError, Code
from shared.store import table
from shared.store.keys import Scope
from shared.tasks import wake_ups

POLLS = (0.15, 0.15, 0.2, 0.3, 0.4, 0.5, 0.8)
"""Seconds between polls for the reply of a turn that another request or worker runs. The last wait repeats."""


@dataclass(frozen=True)
class Window:
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
        return self._wait_for_reply(POLLS, may_claim=False, woken=True)

    def resumed_reply(self) -> str:
        """The body of the response to a retry. Raises `agent_timeout`, or `resource_not_found` once it is erased."""
        return self._wait_for_reply((0, *POLLS), may_claim=True, woken=False)

    def _wait_for_reply(self, polls: Sequence[float], *, may_claim: bool, woken: bool) -> str:
        """Poll for the reply. Returns the body. Raises `agent_timeout`, or `resource_not_found` once it is erased.

        `polls` are the waits (seconds). With `may_claim`, the request claims the turn once, if it is free. `woken` says
        whether the wake-ups for the turn were sent.
        """
        for row in self._polled(polls):
            if "response_body" in row:
                return row["response_body"]
            turn = self._claim(row) if may_claim else None
            if turn is not None:
                body = self._run_turn(turn)
                if body is not None:
                    return body
                may_claim = False
                woken = True
            elif not woken and not turns.fits(self.seconds_left() - turns.wait_ms(row) / clock.SECOND):
                # The first request may have died before it sent them, and this one cannot claim the turn itself.
                woken = True
                _send_wake_ups(turns.both_wake_ups(row))
        raise self._timeout()

    def _run_turn(self, turn: Turn, conversation: ConversationRecord | None = None) -> str | None:
        """Run the agent and commit its reply. Returns the body; None if the worker must retry the turn.

        Raises `agent_timeout` if the window leaves the worker no time for that.
        """
        _send_wake_ups(turns.both_wake_ups(turn.claim.row))
        try:
            return replies.reply_to(turn, conversation)
        except replies.RETRYABLE:
            # The message is stored, so the request does not fail.
            _send_wake_ups([turns.wake_up(turn.claim.row, delay_s=0)])
        if not turns.fits(self.seconds_left()):
            raise self._timeout()
        return None

    def _polled(self, waits: Sequence[float]) -> Iterator[MessageRow]:
        """The message's row after each wait, until the window ends. The last wait repeats.

        Raises `resource_not_found` once the message is erased.
        """
        for wait in itertools.chain(waits, itertools.repeat(waits[-1])):
            seconds = self.seconds_left()
            if seconds <= 0:
                return
            clock.sleep(min(wait, seconds))
            # The message is stored, so a failed poll is not fatal.
            with contextlib.suppress(Unavailable):
                row = table.get(messages_pk(self.scope, self.conversation_id), self.message_id)
                if row is None:
                    raise ApiError(Code.RESOURCE_NOT_FOUND, f"No such message: '{self.message_id}'.")
                yield cast("MessageRow", row)

    def _claim(self, row: MessageRow) -> Turn | None:
        # The message is stored, so a failed claim is not fatal.
        with contextlib.suppress(Unavailable, table.Contended):
            return turns.claim_in_window(row, self.seconds_left())
        return None

    def _timeout(self) -> ApiError:
        extra = {"conversation_id": self.conversation_id, "message_id": self.message_id}
        return ApiError(Code.AGENT_TIMEOUT, headers={"Location": messages_path(self.conversation_id)}, extra=extra)


def _send_wake_ups(of_turn: Sequence[wake_ups.WakeUp]) -> None:
    # SQS must not use up the time of the agent, or delay the response.
    wake_ups.send_within(wake_ups.REQUEST_SECONDS, "turns", of_turn)
