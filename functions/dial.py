"""Queue -> the steps of a call that are due: dial it, see what becomes of it, keep what was said."""

from __future__ import annotations

import json
import uuid
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from shared.calls import sessions
from shared.core import mode, table
from shared.core.keys import Scope
from shared.core.log import logger
from shared.resources import records
from shared.work import batches, hints, steps


def handler(event: dict[str, Any], context: Any) -> Any:
    """A batch of hints; each is independent of the others."""
    return batches.each_message(event, context, dial)


def dial(record: SQSRecord) -> None:
    """Take the steps of a session that are due, if there are any."""
    told = json.loads(record.body)
    scope = Scope(told["project_id"], told["livemode"])
    pk = scope.pk(sessions.SESSIONS.kind)
    taken = steps.take(pk, told["session_id"], lambda row: _step(scope, row))
    if taken is not None:
        hints.send("dials", [sessions.hint(scope, told["session_id"], taken)])


def _step(scope: Scope, row: table.Row) -> None:
    """One step. Raises Refused or Contended where another worker was quicker."""
    found = records.of_row(row)
    before = found.doc["call_status"]
    if mode.simulated(scope):
        from shared.calls import simulated

        table.write(simulated.step(scope, found), uuid.uuid4().hex)
    else:
        from shared.calls import live as live_calls

        live_calls.step(scope, found)
    logger().info("call", extra={"session_id": found.doc["id"], "before": before})
