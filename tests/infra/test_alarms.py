"""Everything that the topology lists is watched, by alarms that stay quiet while nothing is reported."""

from __future__ import annotations

import json

import pytest

from infra import alarms, costs, topology
from infra.stack_names import ALARM_TOPIC_OUTPUT
from shared import metrics
from tests.infra.conftest import GUARDED, OWNED, Resource, Synthesized
from tests.infra.templates import flat, refuses_plain_http

MINUTE = 60
RINGS = {
    "DeadLetters": ("Maximum", 1, 1, 1),
    "OldestMessage": ("Maximum", 5, 1, 1800),
    "FailedExecutions": ("Sum", 5, 1, 1),
    "Throttles": ("Sum", 5, 1, 1),
    "FunctionErrors": ("Sum", 5, 1, 3),
    "NotRunning": ("Sum", 1, 5, 1),
    "IteratorAge": ("Maximum", 5, 1, 60_000),
    "FailedBatches": ("Sum", 5, 1, 1),
    "LostBatches": ("Sum", 5, 1, 1),
    "DeliveryLateness": ("p99", 5, 3, 60_000),
    "LostDelivery": ("Sum", 5, 1, 1),
    "ServerErrors": ("Sum", 5, 1, 10),
}
"""When an alarm of each kind rings: statistic, minutes, periods in a row, threshold. The runbook says the same."""


def watched(stage: Synthesized, metric: str, dimension: str | None = None) -> dict[str, Resource]:
    """The alarms of a metric, by the value of their dimension (the first one)."""
    found = [alarm for alarm in stage.all("AWS::CloudWatch::Alarm").values() if alarm["MetricName"] == metric]
    return {flat(dimensions_of(alarm)[dimension or alarm["Dimensions"][0]["Name"]]): alarm for alarm in found}


def dimensions_of(alarm: Resource) -> dict[str, object]:
    return {each["Name"]: each["Value"] for each in alarm["Dimensions"]}


def within(alarm: Resource) -> int:
    """Seconds for which the alarm has to hold before it is one."""
    seconds: int = alarm["Period"] * alarm["EvaluationPeriods"]
    return seconds


def test_every_queue_has_an_alarm_for_messages_that_nobody_takes(prod: Synthesized) -> None:
    found = watched(prod, "ApproximateAgeOfOldestMessage")
    assert found.keys() == {f"${{{queue}.QueueName}}" for queue in prod.queues.values()}
    assert {alarm["Statistic"] for alarm in found.values()} == {"Maximum"}
    assert all(alarm["Threshold"] > 900 for alarm in found.values()), "a delay that is meant would be an alarm"


def test_the_first_dead_letter_of_any_queue_is_an_alarm_within_a_minute(prod: Synthesized) -> None:
    found = watched(prod, "ApproximateNumberOfMessagesVisible")
    dead = {prod[queue]["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0] for queue in prod.queues.values()}
    assert found.keys() == {f"${{{queue}.QueueName}}" for queue in dead}
    assert {(alarm["Threshold"], within(alarm)) for alarm in found.values()} == {(1, MINUTE)}


def test_every_workflow_has_an_alarm_for_failures(prod: Synthesized) -> None:
    found = watched(prod, "ExecutionsFailed")
    assert found.keys() == {f"${{{machine}}}" for machine in prod.machines.values()}


def test_every_function_has_an_alarm_for_throttles(prod: Synthesized) -> None:
    assert watched(prod, "Throttles").keys() == {f"${{{function}}}" for function in prod.functions.values()}


def test_every_function_has_an_alarm_for_crashes(prod: Synthesized) -> None:
    found = watched(prod, "Errors")
    assert found.keys() == {f"${{{function}}}" for function in prod.functions.values()}
    # What runs on a schedule must be able to fail often enough.
    for function in topology.FUNCTIONS:
        if function.every:
            alarm = found[f"${{{prod.functions[function.name]}}}"]
            assert alarm["Threshold"] <= within(alarm) / function.every


def test_a_schedule_that_stops_is_an_alarm_by_its_silence(prod: Synthesized) -> None:
    found = watched(prod, "Invocations")
    scheduled = {prod.functions[function.name]: function.every for function in topology.FUNCTIONS if function.every}
    assert found.keys() == {f"${{{function}}}" for function in scheduled}
    for function, every in scheduled.items():
        alarm = found[f"${{{function}}}"]
        assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 1)
        assert alarm["TreatMissingData"] == "breaching"
        assert every is not None
        assert alarm["Period"] >= every
        assert within(alarm) <= 5 * MINUTE


def test_a_stream_that_falls_behind_is_noticed_within_minutes(prod: Synthesized) -> None:
    readers = {prod.functions[function.name] for function in topology.FUNCTIONS if function.stream}
    found = watched(prod, "IteratorAge")
    assert found.keys() == {f"${{{reader}}}" for reader in readers}
    assert all(alarm["Threshold"] * alarm["EvaluationPeriods"] <= 300_000 for alarm in found.values())


def test_a_batch_that_is_put_aside_or_lost_is_an_alarm(prod: Synthesized) -> None:
    for function in topology.FUNCTIONS:
        if function.stream:
            [source] = prod.sources(function.name)
            # Without this the metric does not exist.
            assert source["MetricsConfig"] == {"Metrics": ["EventCount"]}
    mappings = prod.all("AWS::Lambda::EventSourceMapping").items()
    streams = {f"${{{name}}}" for name, mapping in mappings if "DestinationConfig" in mapping}
    aside = watched(prod, "OnFailureDestinationDeliveredEventCount", "EventSourceMappingUUID")
    assert aside.keys() == streams
    readers = {prod.functions[function.name] for function in topology.FUNCTIONS if function.stream}
    lost = watched(prod, "DestinationDeliveryFailures")
    assert lost.keys() == {f"${{{reader}}}" for reader in readers}
    assert {(alarm["Statistic"], alarm["Threshold"]) for alarm in [*aside.values(), *lost.values()]} == {("Sum", 1)}


@pytest.mark.parametrize("name", [metrics.LATENESS, metrics.LOST])
def test_what_deliver_prints_is_what_its_alarms_go_by(
    prod: Synthesized, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setenv("TABLE_NAME", f"${{{prod.table}}}")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "deliver")
    lanes = [{"lane": lane} for lane in alarms.WATCHED_LANES] if name == metrics.LATENESS else [{}]
    for lane in lanes:
        metrics.milliseconds(name, 1, **lane)
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = []
    for line in printed:
        [metric] = line["_aws"]["CloudWatchMetrics"]
        [dimensions] = metric["Dimensions"]
        told.append((metric["Namespace"], {each: line[each] for each in dimensions}))
    found = [alarm for alarm in prod.all("AWS::CloudWatch::Alarm").values() if alarm["MetricName"] == name]
    expected = [
        (alarm["Namespace"], {key: flat(value) for key, value in dimensions_of(alarm).items()}) for alarm in found
    ]
    assert told == expected


def test_webhooks_that_stay_late_are_an_alarm_and_a_late_one_is_not(prod: Synthesized) -> None:
    found = watched(prod, alarms.LATENESS, "lane")
    assert found.keys() == {*alarms.WATCHED_LANES}
    for alarm in found.values():
        assert (alarm["ExtendedStatistic"], alarm["Threshold"]) == ("p99", MINUTE * 1000)
        assert alarm["EvaluationPeriods"] > 1


def test_the_apis_errors_raise_an_alarm(prod: Synthesized) -> None:
    (alarm,) = watched(prod, "5XXError").values()
    assert (alarm["Namespace"], alarm["Statistic"]) == ("AWS/ApiGateway", "Sum")


def test_no_report_is_no_alarm_and_each_says_what_is_wrong(stages: dict[str, Synthesized]) -> None:
    for stage in stages.values():
        for alarm in stage.all("AWS::CloudWatch::Alarm").values():
            if alarm["MetricName"] == "Invocations":
                continue
            assert alarm["TreatMissingData"] == "notBreaching"
            assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
            assert len(alarm["AlarmDescription"].partition("Runbook")[0]) > 20


def test_an_alarms_name_says_stack_thing_and_kind(stages: dict[str, Synthesized]) -> None:
    for name, stage in stages.items():
        names = [alarm["AlarmName"] for alarm in stage.all("AWS::CloudWatch::Alarm").values()]
        assert len(set(names)) == len(names)
        things = {*stage.queues, *stage.machines, *stage.functions, *alarms.WATCHED_LANES, "api"}
        kinds = {kind.name for kind in vars(alarms).values() if isinstance(kind, alarms.Kind)}
        assert {each.removeprefix(f"appointments-{name}-").split("-")[0] for each in names} <= things
        assert {each.rpartition("-")[2] for each in names} == kinds


def test_every_alarm_and_its_end_are_told_to_the_stages_topic(stages: dict[str, Synthesized]) -> None:
    for name, stage in stages.items():
        made = [{"Ref": topic} for topic in stage.all("AWS::SNS::Topic") if topic.startswith("Alarms")]
        told = [GUARDED["alarm_topic"]] if name == "guarded" else made
        assert bool(told) is (name in ("prod", "calls", "guarded"))
        for alarm in stage.all("AWS::CloudWatch::Alarm").values():
            assert alarm.get("AlarmActions", []) == alarm.get("OKActions", []) == told


def test_a_topic_of_the_stack_tells_the_stages_address_what_cloudwatch_publishes(prod: Synthesized) -> None:
    (topic,) = [name for name in prod.all("AWS::SNS::Topic") if name.startswith("Alarms")]
    subscriptions = [one for one in prod.all("AWS::SNS::Subscription").values() if one["TopicArn"] == {"Ref": topic}]
    assert [(one["Protocol"], one["Endpoint"]) for one in subscriptions] == [("email", OWNED["alarm_email"])]
    (policy,) = [one for one in prod.all("AWS::SNS::TopicPolicy").values() if one["Topics"] == [{"Ref": topic}]]
    admitted = [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Allow"]
    assert {one["Principal"]["Service"] for one in admitted} == {"cloudwatch.amazonaws.com"}
    assert {one["Action"] for one in admitted} == {"sns:Publish"}
    assert refuses_plain_http(policy)
    assert prod.template["Outputs"][ALARM_TOPIC_OUTPUT]["Value"] == {"Ref": topic}


def test_the_price_of_a_month_without_traffic_counts_every_alarm_and_rule(stages: dict[str, Synthesized]) -> None:
    for stage in stages.values():
        assert len(stage.all("AWS::CloudWatch::Alarm")) == costs.ALARMS
        for firewall in stage.all("AWS::WAFv2::WebACL").values():
            assert len(firewall["Rules"]) == costs.RULES


def test_an_alarm_of_each_kind_rings_when_it_should(stages: dict[str, Synthesized]) -> None:
    for stage in stages.values():
        found: dict[str, set[object]] = {}
        for alarm in stage.all("AWS::CloudWatch::Alarm").values():
            statistic = alarm.get("Statistic") or alarm["ExtendedStatistic"]
            periods = alarm["EvaluationPeriods"]
            assert alarm.get("DatapointsToAlarm", periods) == periods
            rings = (statistic, alarm["Period"] // MINUTE, periods, alarm["Threshold"])
            found.setdefault(alarm["AlarmName"].rpartition("-")[2], set()).add(rings)
        assert found == {kind: {rings} for kind, rings in RINGS.items()}
