"""One dashboard, that shows every thing of the topology, every alarm, and whatever an alarm goes by."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from infra import topology
from tests.support.synth import REGION, Resource, Synthesized
from tests.support.templates import flatten

STAGES = ["dev", "prod", "calls"]


def dashboard(stage: Synthesized) -> Resource:
    (found,) = stage.dashboards
    return found


def widgets(stage: Synthesized) -> list[dict[str, Any]]:
    """The widgets, references spelled `${LogicalId}`."""
    found: list[dict[str, Any]] = json.loads(flatten(dashboard(stage)["DashboardBody"]))["widgets"]
    return found


def lines(stage: Synthesized) -> list[tuple[str, str, frozenset[tuple[str, str]]]]:
    """Namespace, name and dimensions of every metric that is drawn."""
    drawn = [line for widget in widgets(stage) for line in widget["properties"].get("metrics", [])]
    found = []
    for namespace, name, *rest in drawn:
        words = [word for word in rest if isinstance(word, str)]
        found.append((namespace, name, frozenset(zip(words[::2], words[1::2], strict=True))))
    return found


def drawn_values(stage: Synthesized, name: str, dimension: str) -> set[str]:
    """Of whom a metric is drawn."""
    return {
        value for _, drawn, dimensions in lines(stage) if drawn == name for key, value in dimensions if key == dimension
    }


@pytest.mark.parametrize("stage", STAGES)
def test_the_dashboard_is_called_as_stack_and_region_are(stages: dict[str, Synthesized], stage: str) -> None:
    """An account has one list of dashboards for all regions, and a stage may be in several."""
    region = "${AWS::Region}" if stage == "dev" else REGION
    assert flatten(dashboard(stages[stage])["DashboardName"]) == f"appointments-{stage}-{region}"


@pytest.mark.parametrize("stage", STAGES)
def test_on_top_stands_the_state_of_every_alarm(stages: dict[str, Synthesized], stage: str) -> None:
    first = widgets(stages[stage])[0]
    assert (first["type"], first["y"]) == ("alarm", 0)
    alarms = stages[stage].alarms
    assert sorted(first["properties"]["alarms"]) == sorted(f"${{{alarm}.Arn}}" for alarm in alarms)


@pytest.mark.parametrize("stage", STAGES)
def test_what_an_alarm_goes_by_can_be_looked_at(stages: dict[str, Synthesized], stage: str) -> None:
    drawn = set(lines(stages[stage]))
    for alarm in stages[stage].alarms.values():
        metrics = [part["MetricStat"]["Metric"] for part in alarm.get("Metrics", []) if "MetricStat" in part]
        for metric in metrics or [alarm]:
            dimensions = frozenset((each["Name"], flatten(each["Value"])) for each in metric.get("Dimensions", []))
            assert (metric["Namespace"], metric["MetricName"], dimensions) in drawn, alarm["AlarmName"]


@pytest.mark.parametrize("stage", STAGES)
def test_everything_it_refers_to_is_in_the_stack(stages: dict[str, Synthesized], stage: str) -> None:
    references = set(re.findall(r"\$\{([A-Za-z0-9]+)[.}]", flatten(dashboard(stages[stage])["DashboardBody"])))
    resources = stages[stage].template["Resources"].keys() | stages[stage].alarms.keys()
    assert references - {"AWS"} <= resources


@pytest.mark.parametrize("name", ["Invocations", "Errors", "Throttles", "Duration", "ConcurrentExecutions"])
def test_every_function_is_shown(prod: Synthesized, name: str) -> None:
    assert drawn_values(prod, name, "FunctionName") == {f"${{{function}}}" for function in prod.functions.values()}


def test_every_queue_is_shown_with_its_dead_letters(prod: Synthesized) -> None:
    queues = {f"${{{queue}.QueueName}}" for queue in prod.queues.values()}
    assert drawn_values(prod, "ApproximateAgeOfOldestMessage", "QueueName") == queues
    everything = {f"${{{queue}.QueueName}}" for queue in prod.all("AWS::SQS::Queue")}
    assert drawn_values(prod, "ApproximateNumberOfMessagesVisible", "QueueName") == everything


@pytest.mark.parametrize("name", ["ExecutionsStarted", "ExecutionsFailed"])
def test_every_workflow_is_shown(prod: Synthesized, name: str) -> None:
    assert drawn_values(prod, name, "StateMachineArn") == {f"${{{machine}}}" for machine in prod.machines.values()}


def test_the_table_and_every_index_are_shown(prod: Synthesized) -> None:
    for name in (
        "ConsumedReadCapacityUnits",
        "ConsumedWriteCapacityUnits",
        "ReadThrottleEvents",
        "WriteThrottleEvents",
    ):
        assert drawn_values(prod, name, "TableName") == {f"${{{prod.table}}}"}
    indexes = {index.name for index in topology.TABLE.indexes}
    assert drawn_values(prod, "ReadThrottleEvents", "GlobalSecondaryIndexName") == indexes
    assert drawn_values(prod, "WriteThrottleEvents", "GlobalSecondaryIndexName") == indexes
    assert drawn_values(prod, "SuccessfulRequestLatency", "Operation")


def test_graphs_have_titles_of_their_own_and_fit_beside_each_other(prod: Synthesized) -> None:
    titles = [widget["properties"]["title"] for widget in widgets(prod)]
    assert len(set(titles)) == len(titles)
    assert all(titles)
    taken = set[tuple[int, int]]()
    for widget in widgets(prod):
        assert widget["x"] + widget["width"] <= 24
        place = {
            (x, y)
            for x in range(widget["x"], widget["x"] + widget["width"])
            for y in range(widget["y"], widget["y"] + widget["height"])
        }
        assert not taken & place
        taken |= place


def test_lines_are_named_in_words(prod: Synthesized) -> None:
    for widget in widgets(prod):
        for line in widget["properties"].get("metrics", []):
            assert re.fullmatch(r"[a-z0-9_ ]+|4xx|5xx|[A-Za-z]+", line[-1]["label"]), line
