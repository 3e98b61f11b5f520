"""Lines of the log and metrics, compared with those of Powertools, whose fields they have."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

import pytest
from aws_lambda_powertools import Logger, single_metric
from aws_lambda_powertools.metrics import MetricUnit

from shared.core import clock, log, metrics, trace
from shared.core.metrics import NAMESPACE

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SERVICE_NAME", "deliver")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "deliver")
    monkeypatch.setenv("TABLE_NAME", "appointments")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", TRACE)
    monkeypatch.setenv("LOG_LEVEL", "INFO")
    log.logger.cache_clear()
    yield
    log.logger.cache_clear()


def format_by_powertools(record: logging.LogRecord) -> dict[str, Any]:
    formatted: dict[str, Any] = json.loads(Logger(service="deliver").registered_formatter.format(record))
    return formatted


def failure() -> BaseException:
    try:
        raise ValueError("a: é")
    except ValueError as error:
        return error


@pytest.mark.parametrize(
    ("extra", "error"),
    [
        ({}, None),
        ({"number": 1, "share": 1.5, "none": None, "text": "é\n", "rows": ["a", "b"], "flag": False}, None),
        ({"request_id": "req_1"}, failure()),
        ({"anything": {"of": object}}, ValueError("never raised")),
    ],
)
def test_a_line_has_the_fields_of_powertools(extra: dict[str, Any], error: BaseException | None) -> None:
    about = (type(error), error, error.__traceback__) if error else None
    record = logging.getLogger("x").makeRecord("x", logging.WARNING, "f.py", 7, "%s rows", (3,), about, "work", extra)
    expected = format_by_powertools(record)
    # The frames of a trace, which `exception` shows already.
    expected.pop("stack_trace", None)
    line = log.JsonLines().format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert found == expected
    assert found["xray_trace_id"] == "1-5759e988-bd862e3fe1be46a994272793"


def printed_lines(write: Any) -> list[str]:
    with redirect_stdout(io.StringIO()) as out:
        write()
    return out.getvalue().splitlines()


def test_a_line_is_printed_once_with_its_ids_from_its_level_on() -> None:
    def write() -> None:
        with trace.naming(request_id="req_1"):
            log.logger().debug("too much")
            log.logger().info("request", extra={"status": 200})
            log.logger().info("other", extra={"request_id": "req_2"})

    first, second = map(json.loads, printed_lines(write))
    assert (first["message"], first["status"], first["request_id"]) == ("request", 200, "req_1")
    assert second["request_id"] == "req_2"


def test_the_level_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_LEVEL", "ERROR")
    assert printed_lines(lambda: log.logger().warning("not now")) == []
    assert len(printed_lines(lambda: log.logger().error("now"))) == 1


@pytest.mark.parametrize(
    ("write", "name", "unit", "value", "dimensions"),
    [
        (lambda: metrics.milliseconds("Late", 5, lane="a"), "Late", MetricUnit.Milliseconds, 5, {"lane": "a"}),
        (lambda: metrics.count("Lost"), "Lost", MetricUnit.Count, 1, {}),
        (lambda: metrics.rate("Failed", False, service="agent"), "Failed", MetricUnit.Count, 0, {"service": "agent"}),
        (lambda: metrics.rate("Failed", True), "Failed", MetricUnit.Count, 1, {}),
    ],
)
def test_a_metric_is_the_line_that_powertools_writes(
    write: Any, name: str, unit: MetricUnit, value: int, dimensions: dict[str, str]
) -> None:
    def by_powertools() -> None:
        everywhere = {"table": "appointments"} | dimensions
        with single_metric(name, unit, value, namespace=NAMESPACE, default_dimensions=everywhere):
            pass

    clock.use(lambda: 1_790_000_000.0, lambda seconds: None)
    try:
        [ours] = map(json.loads, printed_lines(write))
    finally:
        import time

        clock.use(time.time, time.sleep)
    [theirs] = map(json.loads, printed_lines(by_powertools))
    assert ours["_aws"].pop("Timestamp") == 1_790_000_000_000
    assert theirs["_aws"].pop("Timestamp")
    assert ours == theirs
