"""Everything that the topology lists is watched, by alarms that stay quiet while nothing is reported."""

from __future__ import annotations

import pytest

from infra import topology
from tests.infra.conftest import Resource, Synthesized
from tests.infra.templates import flat


def watched(stage: Synthesized, metric: str) -> dict[str, Resource]:
    """The alarms of a metric, by the value of their dimension."""
    alarms = stage.all("AWS::CloudWatch::Alarm").values()
    return {flat(a["Dimensions"][0]["Value"]): a for a in alarms if a["MetricName"] == metric}


def test_every_queue_has_an_alarm_for_messages_that_nobody_takes(prod: Synthesized) -> None:
    alarms = watched(prod, "ApproximateAgeOfOldestMessage")
    assert alarms.keys() == {f"${{{queue}.QueueName}}" for queue in prod.queues.values()}
    assert all(alarm["Threshold"] > 900 for alarm in alarms.values()), "a delay that is meant would be an alarm"


def test_every_workflow_has_an_alarm_for_failures(prod: Synthesized) -> None:
    alarms = watched(prod, "ExecutionsFailed")
    assert alarms.keys() == {f"${{{machine}}}" for machine in prod.machines.values()}


def test_every_function_has_an_alarm_for_throttles(prod: Synthesized) -> None:
    assert watched(prod, "Throttles").keys() == {f"${{{function}}}" for function in prod.functions.values()}


def test_a_stream_that_falls_behind_is_noticed_within_minutes(prod: Synthesized) -> None:
    readers = {prod.functions[function.name] for function in topology.FUNCTIONS if function.stream}
    alarms = watched(prod, "IteratorAge")
    assert alarms.keys() == {f"${{{reader}}}" for reader in readers}
    assert all(alarm["Threshold"] * alarm["EvaluationPeriods"] <= 300_000 for alarm in alarms.values())


def test_the_apis_errors_raise_an_alarm(prod: Synthesized) -> None:
    (alarm,) = watched(prod, "5XXError").values()
    assert (alarm["Namespace"], alarm["Statistic"]) == ("AWS/ApiGateway", "Sum")


@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_no_report_is_no_alarm_and_each_says_what_is_wrong(stages: dict[str, Synthesized], stage: str) -> None:
    for alarm in stages[stage].all("AWS::CloudWatch::Alarm").values():
        assert alarm["TreatMissingData"] == "notBreaching"
        assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
        assert len(alarm["AlarmDescription"]) > 20
