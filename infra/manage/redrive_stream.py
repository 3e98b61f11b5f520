"""The failed batches of the table's stream."""

from __future__ import annotations

import json

from infra.manage.command import Run, command
from infra.manage.stages import CommandFailed


@command("redrive-stream")
def _redrive(run: Run) -> None:
    done = 0
    for batch in run.stage.failures():
        payload = json.loads(batch.content)["payload"]
        event = json.loads(payload) if isinstance(payload, str) else payload
        failed = run.stage.fan_out({**event, "redriven": True}).get("batchItemFailures")
        if failed:
            raise CommandFailed(f"fan_out failed again on {batch.name}, at {failed[0]['itemIdentifier']}: see its log")
        batch.replace(None)
        done += 1
        print(f"{batch.name}: {len(event['Records'])} records")
    print(f"{done} batches processed again")
