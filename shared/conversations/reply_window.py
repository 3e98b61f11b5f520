"""The time that the request of a message has for the reply: it runs the turn itself, or waits for whoever does.

If its time runs out or the function dies, the `turn` worker finishes the turn: wake-ups for the end of the lease and
for the time limit of the turn are sent before the agent starts. Nothing runs after the response, because Lambda freezes
the container.
"""

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
from shared.conversations.turns import ClaimedTurn
from shared.core import clock
from shared.core.errors import ApiError, Code
from shared.store import table
from shared.store.keys import Scope
from shared.tasks import wake_ups

POLLS_S = (0.15, 0.15, 0.2, 0.3, 0.4, 0.5, 0.8)
"""Seconds between polls for the reply of a turn that another request or worker runs. The last wait repeats."""


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
