"""The agent that replies to customers: a Protocol with two implementations, and the tools that both use.

    scripted    test mode and the local runner: deterministic, no network
    bedrock     live mode: a model on Amazon Bedrock

An agent gets the messages of a conversation and the tools, and returns a reply. It does not write: the tools stage at
most one change, which the turn commits together with the reply, and a wish to be contacted no more, which is kept
before it (promises 8 and 11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from shared.agent.tools import Tools

Role = Literal["user", "assistant"]


@dataclass(frozen=True)
class Utterance:
    """One message of a conversation or call. The content of a user's message is untrusted."""

    role: Role
    content: str


@dataclass(frozen=True)
class Usage:
    """The model and tokens of a reply; no tokens for an agent that costs nothing."""

    model: str = "scripted"
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True)
class Reply:
    """The agent's reply. The content is Markdown."""

    content: str
    usage: Usage = field(default_factory=Usage)


class AgentFailed(Exception):
    """The agent could not produce a reply. The turn may retry."""


class AgentUnavailable(AgentFailed):
    """The agent was throttled, or did not reply in time. The same turn may succeed later."""


class Agent(Protocol):
    """An agent that replies to customers."""

    def reply(self, utterances: Sequence[Utterance], tools: Tools, seconds: float) -> Reply:
        """Reply to the last utterance, which is a user's, within `seconds`.

        Raises AgentFailed; AgentUnavailable if the agent has no reply by then.
        """
