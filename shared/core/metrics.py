"""Metrics, written to the log in CloudWatch's embedded metric format, so that recording one makes no AWS call.

Each combination of dimensions is billed as a metric, so the project is not a dimension. Every metric has two: the name
of the table, which tells the stages of an account apart, and `service`, the function's name. A metric that several
functions record has a `service` of its own.
"""

from __future__ import annotations

import json
import os

from shared.core import clock, log
from shared.core.facts import METRIC_NAMESPACE


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
    everywhere = {"table": os.environ["TABLE_NAME"], **dimensions}
    everywhere.setdefault("service", os.environ["SERVICE_NAME"])
    described = {
        "Namespace": METRIC_NAMESPACE,
        "Dimensions": [list(everywhere)],
        "Metrics": [{"Name": name, "Unit": unit}],
    }
    line = {"_aws": {"Timestamp": clock.now(), "CloudWatchMetrics": [described]}, **everywhere, name: [float(value)]}
    log.write(json.dumps(line, separators=(",", ":")))
