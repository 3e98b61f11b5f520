"""The choice of the agent: scripted in test mode and on the local runner, the stage's model in live mode."""

from __future__ import annotations

import functools

from shared.agent import Agent
from shared.store.keys import Scope

_live_agent: Agent | None = None


def use(agent: Agent | None) -> None:
    """Use this agent in live mode, for tests. None restores the stage's model."""
    global _live_agent
    _live_agent = agent


def agent_for(scope: Scope) -> Agent:
    """The agent for the customers of this project and mode."""
    if scope.is_simulated:
        return _scripted()
    return _live_agent or _bedrock()


@functools.cache
def _scripted() -> Agent:
    from shared.agent.scripted import Scripted

    return Scripted()


@functools.cache
def _bedrock() -> Agent:
    # Imported here, because only functions that reply to live customers need it.
    from shared.agent.bedrock import Bedrock

    return Bedrock.from_environment()
