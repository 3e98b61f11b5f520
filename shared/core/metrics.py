"""Metrics, written to the log in CloudWatch's embedded metric format, so that recording one makes no AWS call.

Each combination of dimensions is billed as a metric, so the project is not a dimension. Every metric has two: the name
of the table, which tells the stages of an account apart, and `service`, the function's name. A metric that several
functions record has a `service` of its own. Alarms and dashboard take their names from here.
"""

from __future__ import annotations

import json

from shared.core import clock, log, settings

NAMESPACE = "Appointments"
"""The CloudWatch namespace of the service's own metrics."""
DELIVERY_LATENESS = "DeliveryLateness"
"""Milliseconds from an attempt's due time to its start, by `queue_class`. For a hanging endpoint, from its wake-up."""
LOST_DELIVERY = "LostDelivery"
"""Deliveries that failed with `worker_lost`: too many workers died during one attempt."""
PUT_ASIDE = "PutAside"
"""Changes that failed for themselves, which `fan_out` wrote to the bucket of failed batches."""
FAILED_INVOCATIONS = "FailedInvocations"
"""Invocations that ended with a response of 500 or above, except 504, or with failed messages, by `version`."""
FAILED_TURNS = "FailedTurns"
"""1 for a live turn that ended with an apology because the agent failed, 0 for every other one."""
HANDOFFS = "Handoffs"
"""1 for a live turn that handed its conversation to a person for another reason, 0 for every other one."""
FAILED_CALLS = "FailedCalls"
"""1 for a live call that ended because of the carrier or the service, 0 for every other one."""
AGENT, CALLS = "agent", "calls"
"""The `service` of these metrics, which several functions record."""
CANARY_PASSED = "CanaryPassed"
"""1 for a run of the canary that found everything in order, 0 for one that failed."""
CANARY_WEBHOOK = "CanaryWebhook"
"""Milliseconds from the creation of the canary's customer to the arrival of the webhook."""
CANARY = "canary"
"""The `service` of the canary's metrics, and the name of its function."""
REQUEST_LINE = "request"
"""The message of the log line of a request, by which a subscription finds it."""
FIRST_ATTEMPTS, LATER_ATTEMPTS, SLOW_ENDPOINTS, HANGING_ENDPOINTS = QUEUE_CLASSES = (
    "first_attempts",
    "later_attempts",
    "slow_endpoints",
    "hanging_endpoints",
)
"""The values of the metric's `queue_class`, which are no queues. Slow and hanging endpoints have their own, because
they cause their lateness themselves. The first attempts of manual retries and test events are first attempts, too."""


def milliseconds(name: str, value: int, **dimensions: str) -> None:
    """Record a duration in milliseconds."""
    _put(name, "Milliseconds", value, dimensions)


def count(name: str, **dimensions: str) -> None:
    """Record a count of one."""
    _put(name, "Count", 1, dimensions)


def rate(name: str, occurred: bool, **dimensions: str) -> None:
    """Record whether something occurred, as 1 or 0: the metric's average is the rate, its sum the count."""
    _put(name, "Count", int(occurred), dimensions)


def _put(name: str, unit: str, value: int, dimensions: dict[str, str]) -> None:
    everywhere = {"table": settings.table_name(), **dimensions}
    everywhere.setdefault("service", settings.service_name())
    described = {
        "Namespace": NAMESPACE,
        "Dimensions": [list(everywhere)],
        "Metrics": [{"Name": name, "Unit": unit}],
    }
    line = {"_aws": {"Timestamp": clock.now(), "CloudWatchMetrics": [described]}, **everywhere, name: [float(value)]}
    log.write(json.dumps(line, separators=(",", ":")))
