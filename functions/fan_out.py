"""Table stream -> events -> deliveries -> queues; opt-outs -> ledger. Processing a batch twice has no further effect.

Lambda retries a change for hours if AWS is in trouble. A change that fails for itself is put aside at once, in the
bucket of failed batches: `infra.manage redrive-stream` sends it again.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from typing import Any

from shared.aws import objects
from shared.core import metrics
from shared.customers import opt_outs
from shared.erasure import ledger
from shared.store import table
from shared.store.keys import scope_of
from shared.tasks import batches
from shared.tasks.wake_ups import WakeUp
from shared.webhooks import fan_out


def handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of stream records. The response names the record from which Lambda must retry."""
    batch = fan_out.FanOut()

    def process(record: batches.Record) -> Sequence[tuple[str, WakeUp]]:
        images = record["dynamodb"]
        old, new = (table.decode(images[name]) if name in images else None for name in ("OldImage", "NewImage"))
        row = new or old
        if row is None or row["kind"] != opt_outs.KIND:
            return batch.write(old, new)
        ledger.enter(ledger.OptOut(scope_of(row["pk"]), opt_outs.phone_hash(row), opted_out=new is not None), images)
        return ()

    # A change that is redriven is in the bucket already.
    processed = batches.each_record(event, process, None if event.get("redriven") else _put_aside)
    fan_out.send(list(itertools.chain.from_iterable(processed.in_order)))
    return processed.response


def _put_aside(record: batches.Record) -> None:
    """Store a change in the bucket of failed batches, as Lambda's on-failure destination does. Raises Unavailable."""
    batch = {"payload": json.dumps({"Records": [record]})}
    objects.write(os.environ["FAILED_BATCHES_BUCKET"], f"put_aside/{record['eventID']}.json", json.dumps(batch))
    metrics.count(metrics.PUT_ASIDE)
