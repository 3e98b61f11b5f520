"""The steps of a call that are due: dial, track the call to its end, publish its transcript and recording."""

from __future__ import annotations

from shared.calls import sessions
from shared.calls.sessions import SESSIONS
from shared.core.log import logger
from shared.store import mode
from shared.store.keys import Scope, scope_of
from shared.tasks import tasks, wake_ups


def run_due_steps(pk: str, sk: str) -> None:
    """Run the steps of a session that are due, and send the wake-up for the next one."""
    scope = scope_of(pk)
    at = tasks.run_due_steps(pk, sk, sessions.LEASE, lambda claim: _step(scope, claim))
    if at is not None:
        wake_ups.send("dials", [sessions.wake_up(scope, sk, at)])


def _step(scope: Scope, claim: tasks.Claim) -> None:
    """Run one step. Raises ConditionFailed or Contended if the rows were modified concurrently."""
    # Imported here, because a step needs only one of the two modules.
    if mode.is_simulated(scope):
        from shared.calls import simulated

        simulated.step(scope, claim)
    else:
        from shared.calls.live import steps

        steps.step(scope, claim)
    session = SESSIONS.record(claim.row).doc
    logger().info("call", extra={"session_id": session["id"], "before": session["call_status"]})
