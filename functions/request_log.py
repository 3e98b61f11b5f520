"""The log of the API's functions -> a row for each request, by a subscription of CloudWatch Logs.

The event has gzip-compressed lines in base64 (Lambda developer guide, "Using Lambda with CloudWatch Logs":
docs.aws.amazon.com/lambda/latest/dg/services-cloudwatchlogs.html). Lines may arrive twice. Lambda repeats a failed run
twice; rows that are lost then are only missing on a page. This function's own log has no subscription, so it does not
call itself.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

from shared.core import trace
from shared.projects import request_log


def handler(event: dict[str, Any], context: Any) -> None:
    """Store the requests of a batch of lines."""
    batch = json.loads(gzip.decompress(base64.b64decode(event["awslogs"]["data"])))
    # CloudWatch Logs also sends messages without lines, to see whether the function can be called.
    if batch["messageType"] != "DATA_MESSAGE":
        return
    with trace.naming():
        for line in batch["logEvents"]:
            request_log.save(line["message"])
