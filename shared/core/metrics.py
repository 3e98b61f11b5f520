"""Metrics, written to the log in CloudWatch's embedded metric format, so that recording one makes no AWS call.

Each combination of dimensions is billed as a metric, so the project is not a dimension. Every metric has two: the name
of the table, which tells the stages of an account apart, and `service`, the function's name, which Powertools adds. A
metric that several functions record has a `service` of its own.
"""

from __future__ import annotations

import os
import threading

from aws_lambda_powertools import single_metric
from aws_lambda_powertools.metrics import MetricUnit

from shared.core.facts import METRIC_NAMESPACE

_printing = threading.Lock()


def milliseconds(name: str, value: int, **dimensions: str) -> None:
    """Record a duration in milliseconds."""
    _put(name, MetricUnit.Milliseconds, value, dimensions)


def count(name: str, **dimensions: str) -> None:
    """Record a count of one."""
    _put(name, MetricUnit.Count, 1, dimensions)


def rate(name: str, occurred: bool, **dimensions: str) -> None:
    """Record whether something occurred, as 1 or 0: the metric's average is the rate, its sum the count."""
    _put(name, MetricUnit.Count, int(occurred), dimensions)


def _put(name: str, unit: MetricUnit, value: int, dimensions: dict[str, str]) -> None:
    everywhere = {"table": os.environ["TABLE_NAME"]}
    # Powertools prints the line in two parts, and other threads of the worker record metrics, too.
    with (
        _printing,
        single_metric(name, unit, value, namespace=METRIC_NAMESPACE, default_dimensions=everywhere | dimensions),
    ):
        pass
