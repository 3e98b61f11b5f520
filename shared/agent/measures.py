"""Metrics of the agent in live mode. Test keys choose failures themselves, so their turns are not counted."""

from __future__ import annotations

from collections.abc import Sequence

from shared.agent.tools import Action, HandoffReason
from shared.core import metrics
from shared.store.keys import Scope


def count_turn(scope: Scope, actions: Sequence[Action]) -> None:
    """Record a turn that ended with these actions: whether the agent failed, and whether it handed off."""
    if scope.livemode:
        reasons = {action["reason"] for action in actions if action["type"] == "handoff"}
        metrics.rate(metrics.FAILED_TURNS, HandoffReason.AGENT_FAILED in reasons, service=metrics.AGENT)
        metrics.rate(metrics.HANDOFFS, bool(reasons - {HandoffReason.AGENT_FAILED}), service=metrics.AGENT)
