"""The steps of a call that are due: dial, track the call to its end, publish its transcript and recording."""

from __future__ import annotations

from shared.calls import sessions
from shared.calls.sessions import SESSIONS
from shared.core import mode
from shared.core.keys import Scope, scope_of
from shared.core.log import logger
from shared.work import hints, owed


def run_due_steps(pk: str, sk: str) -> None:
    """Run the steps of a session that are due, and send the hint for the next one."""
    scope = scope_of(pk)
    at = owed.run_due_steps(pk, sk, sessions.LEASE, lambda claim: _step(scope, claim))
    if at is not None:
        hints.send("dials", [sessions.hint(scope, sk, at)])


def _step(scope: Scope, claim: owed.Claim) -> None:
    """Run one step. Raises ConditionFailed or Contended if the rows were modified concurrently."""
    # Imported here, because a step needs only one of the two modules.
    if mode.is_simulated(scope):
        from shared.calls import simulated

        simulated.step(scope, claim)
    else:
        from shared.calls import live

        live.step(scope, claim)
    session = SESSIONS.record(claim.row).doc
    logger().info("call", extra={"session_id": session["id"], "before": session["call_status"]})
