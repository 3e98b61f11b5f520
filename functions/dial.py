"""Queue -> the steps of calls that are due: dial, track the call to its end, publish its transcript and recording."""

from __future__ import annotations

from functools import partial
from typing import Any

from shared.calls.sessions import SESSIONS, SessionRow
from shared.core import clock
from shared.core.log import logger
from shared.store.keys import Scope, scope_of
from shared.tasks import batches, tasks, wake_ups
from shared.tasks.batches import QueueMessage

LEASE_MS = 18 * clock.SECOND
"""How long a worker may take for a step. One that takes longer writes nothing; a call that it started is started again
with the same token, which yields the same call."""


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of wake-ups. The items are independent."""
    return batches.each_message(event, dial)


def dial(message: QueueMessage) -> None:
    """Run the steps of a session that are due, and send the wake-up for the next one."""
    pk, sk = message.task
    scope = scope_of(pk)

    at = tasks.run_due_steps(pk, sk, LEASE_MS, partial(_step, scope))
    if at is not None:
        wake_ups.send([wake_ups.new("dials", pk, sk, at)])


def _step(scope: Scope, claim: tasks.Claim[SessionRow]) -> None:
    """Run one step. Raises ConditionFailed or Contended if the rows were modified concurrently."""
    # Imported here, because a step needs only one of the two modules.
    if scope.is_simulated:
        from shared.calls import simulated

        simulated.run_step(scope, claim)
    else:
        from shared.calls.live import steps

        steps.run_step(scope, claim)
    session = SESSIONS.record(claim.row).doc
    logger().info("call", extra={"session_id": session["id"], "before": session["call_status"]})
