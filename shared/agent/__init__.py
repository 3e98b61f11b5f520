"""The agent that replies to customers: a Protocol with two implementations, and the tools that both use.

    scripted          test mode and the local runner: deterministic, no network
    bedrock           live mode: a model on Amazon Bedrock
    turn              what an agent gets for a turn, and what it did
    tools             what an agent can do
    actions           what clients see of it
    opt_out_messages  messages that opt out, which the service itself replies to
    identity_answers  what somebody says who answers a call; voicemail: whether it is a machine
    assent            whether a message agrees to a proposal
    phrases, dates    what the scripted agent understands
    simulated_messages    test mode's messages that force a reply
    wording, plain_text   the words of replies, with Markdown or without

An agent gets the messages of a conversation and the input of a turn, and returns a reply with what it did. It does not
write: the tools stage at most one change, which the turn commits together with the reply. An opt-out is committed
before the reply (promises 8 and 11).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from shared.agent.actions import Action, HandoffReason
from shared.agent.turn import TurnInput, TurnResult
from shared.core import metrics
from shared.store.keys import Scope


@dataclass(frozen=True)
class Utterance:
    """One message of a conversation or call. The content of a user's message is untrusted."""

    role: Literal["user", "assistant"]
    content: str


@dataclass(frozen=True)
class Usage:
    """The model and tokens of a reply; no tokens for an agent that costs nothing."""

    model: str = "scripted"
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True)
class Reply:
    """The agent's reply, and what it did. The content is Markdown."""

    content: str
    result: TurnResult = field(default_factory=TurnResult)
    usage: Usage = field(default_factory=Usage)


class AgentFailed(Exception):
    """The agent could not produce a reply. The turn may retry."""


class AgentUnavailable(AgentFailed):
    """The agent was throttled, or did not reply in time. The same turn may succeed later."""


class Agent(Protocol):
    """An agent that replies to customers."""

    def reply(self, utterances: Sequence[Utterance], turn_input: TurnInput, seconds: float) -> Reply:
        """Reply to the last utterance, which is a user's, within `seconds`.

        Raises AgentFailed; AgentUnavailable if the agent has no reply by then.
        """


_live_agent: Agent | None = None


def use_agent(agent: Agent | None) -> None:
    """Use this agent in live mode, for tests. None restores the stage's model."""
    global _live_agent
    _live_agent = agent


def agent_for(scope: Scope) -> Agent:
    """The agent for the customers of this project and mode."""
    if not scope.is_simulated:
        return _live_agent or _bedrock()
    from shared.agent.scripted import Scripted

    return Scripted()


@functools.cache
def _bedrock() -> Agent:
    # Imported here, because only functions that reply to live customers need it.
    from shared.agent.bedrock import Bedrock

    return Bedrock.from_environment()


def count_turn(scope: Scope, actions: Sequence[Action]) -> None:
    """Record a turn that ended with these actions: whether the agent failed, and whether it handed off.

    Only live ones count: test keys choose failures themselves.
    """
    if scope.livemode:
        reasons = {action["reason"] for action in actions if action["type"] == "handoff"}
        metrics.rate(metrics.FAILED_TURNS, HandoffReason.AGENT_FAILED in reasons, service=metrics.AGENT)
        metrics.rate(metrics.HANDOFFS, bool(reasons - {HandoffReason.AGENT_FAILED}), service=metrics.AGENT)
