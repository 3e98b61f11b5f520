"""Queue -> the steps of calls that are due: dial, track the call to its end, publish its transcript and recording."""

from __future__ import annotations

import json
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from shared.calls import sessions
from shared.calls.sessions import SESSIONS
from shared.core import mode
from shared.core.keys import Scope, scope_of
from shared.core.log import logger
from shared.work import batches, hints, owed


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of hints. The items are independent."""
    return batches.each_message(event, dial)


def dial(record: SQSRecord) -> None:
    """Run the steps of a session that are due, and send the hint for the next one."""
    hint = json.loads(record.body)
    scope = scope_of(hint["pk"])
    at = owed.run_due_steps(hint["pk"], hint["sk"], sessions.LEASE, lambda claim: _step(scope, claim))
    if at is not None:
        hints.send("dials", [sessions.hint(scope, hint["sk"], at)])


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
