"""Notices about webhook endpoints for the people who operate the stage: a line of the log, and a message of SNS.

The message goes to the topic that also gets the alarms. A stage without that topic, and the local runner, only log.
"""

from __future__ import annotations

import os
from typing import Literal

from shared.aws import services
from shared.core import threads
from shared.core.log import logger
from shared.store.keys import Scope

SECONDS = 2
"""How long an attempt waits for SNS at most. Other deliveries of the batch wait for it."""
State = Literal["failing", "recovered", "disabled"]
MEANING: dict[State, str] = {
    "failing": "Every attempt of the last ten minutes failed. Deliveries are retried; after five days of failures, the"
    " service disables the endpoint.",
    "recovered": "An attempt succeeded again. Deliveries that wait for a retry are sent when they are due.",
    "disabled": "Its receiver responded 410 Gone, or every attempt of five days failed. The endpoint gets no events"
    " until it is enabled again.",
}


def give(scope: Scope, endpoint_id: str, state: State, *, message: bool = True) -> None:
    """Give a notice that an endpoint is in this state, without `message` only in the log.

    Best effort: a message that cannot be sent is logged.
    """
    mode = "live" if scope.livemode else "test"
    about = {"project_id": scope.project_id, "mode": mode, "endpoint_id": endpoint_id}
    logger().warning(f"webhook endpoint {state}", extra=about)
    topic = os.environ.get("NOTICES_TOPIC_ARN")
    if topic is None or not message:
        return
    parameters = {
        "TopicArn": topic,
        "Subject": f"Webhook endpoint {state}: project {scope.project_id}, {mode} mode",
        "Message": f"The webhook endpoint {endpoint_id} of project {scope.project_id} ({mode} mode) is {state}.\n\n"
        f"{MEANING[state]}\n\nIts attempts and responses are in the admin pages, at\n"
        f"/admin/projects/{scope.project_id}/{mode}/webhook_endpoints/{endpoint_id}",
    }
    try:
        in_time = threads.run_within(SECONDS, lambda: services.call(services.sns().publish, **parameters))
    except (services.AwsError, services.Unavailable) as error:
        logger().warning("notice not sent", extra=about | {"error": str(error)})
        return
    if not in_time:
        logger().warning("notice not sent", extra=about | {"error": f"SNS did not respond within {SECONDS} seconds"})
