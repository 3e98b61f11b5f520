"""Figures that CloudWatch reads out of the log, in its embedded metric format: to measure costs no call.

Every combination of dimensions is a metric that is paid for, so none is a project's. Two are always there: the
table's name, which tells the stages of an account apart, and the function's, `service`, by Powertools.
"""

from __future__ import annotations

import os

from aws_lambda_powertools import single_metric
from aws_lambda_powertools.metrics import MetricUnit

from shared.core.facts import METRIC_NAMESPACE


def milliseconds(name: str, value: int, **dimensions: str) -> None:
    """Measure a time."""
    _put(name, MetricUnit.Milliseconds, value, dimensions)


def count(name: str, **dimensions: str) -> None:
    """Count one more."""
    _put(name, MetricUnit.Count, 1, dimensions)


def _put(name: str, unit: MetricUnit, value: int, dimensions: dict[str, str]) -> None:
    everywhere = {"table": os.environ["TABLE_NAME"]}
    with single_metric(name, unit, value, namespace=METRIC_NAMESPACE, default_dimensions=everywhere | dimensions):
        pass
