"""The agent that answers people: a Protocol with two implementations, and the tools that both use.

    scripted    test mode and local runs: deterministic, no network
    bedrock     live mode: a model on Amazon Bedrock

An agent is given what was said and the tools, and returns what to say. It changes nothing by itself: tools
stage at most one change, which the turn commits together with the reply (contract 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from shared.agent.tools import Tools

Role = Literal["user", "assistant"]


@dataclass(frozen=True)
class Utterance:
    """One message of a conversation. What a user said is untrusted text."""

    role: Role
    content: str


@dataclass(frozen=True)
class Usage:
    """What a reply cost: the model and its tokens; zeros for an agent that costs nothing."""

    model: str = "scripted"
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True)
class Reply:
    """What the agent says, as Markdown."""

    content: str
    usage: Usage = field(default_factory=Usage)


class AgentFailed(Exception):
    """The agent could not produce a reply this time; the turn may try again."""


class Agent(Protocol):
    """Something that answers."""

    def reply(self, said: Sequence[Utterance], tools: Tools, seconds: float) -> Reply:
        """Answer the last message of `said`, a user's, within `seconds`. Raises AgentFailed."""
