"""Everything that the topology lists is watched, by alarms that stay quiet while nothing is reported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra import alarms, costs, topology
from infra.app import context
from infra.stack_names import copies_name
from shared.core import metrics
from tests.support.synth import CALLS, GUARDED, OWNED, Resource, Synthesized
from tests.support.templates import flatten, refuses_plain_http, text

MINUTE = 60
SHORT_QUEUE = ("Maximum", 5, 1, 600)
"""Of a queue that keeps its messages for a quarter of an hour."""
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
    "SlowDeliveryLateness": ("p99", 5, 3, 900_000),
    "HangingDeliveryLateness": ("p99", 5, 3, 300_000),
    "LostDelivery": ("Sum", 5, 1, 1),
    "CanaryFailed": ("Sum", 5, 2, 1),
    "FailedTurns": ("Average", 15, 1, 0.1),
    "FailedCalls": ("Average", 15, 1, 0.1),
    "Handoffs": ("Average, Sum", 60, 1, 50),
    "ServerErrors": ("Sum", 5, 1, 1),
    "SlowResponses": ("p99", 5, 3, 3_000),
    "AccountConcurrency": ("Maximum", 5, 1, 80),
    "TableThrottles": ("Sum", 5, 1, 10),
    "FailedEvents": ("Sum", 5, 1, 1),
    "FailedNotifications": ("Sum", 5, 1, 1),
    "FailedBackups": ("Sum", 60, 1, 1),
    "MissingBackups": ("Sum", 60, 26, 1),
    "FailedReplication": ("Sum", 5, 1, 1),
}
"""When an alarm of each kind rings: statistic, minutes, periods in a row, threshold. The runbook says the same."""


OF_BACKUPS = ("FailedBackups", "MissingBackups", "FailedReplication")


def alarms_of_metric(stage: Synthesized, metric: str, dimension: str | None = None) -> dict[str, Resource]:
    """The alarms of a metric, by the value of their dimension (the first one)."""
    found = [alarm for alarm in map(with_own_metric, stage.alarms.values()) if alarm.get("MetricName") == metric]
    return {flatten(dimensions_of(alarm)[dimension or alarm["Dimensions"][0]["Name"]]): alarm for alarm in found}


def with_own_metric(alarm: Resource) -> Resource:
    """The alarm as if it had its metric itself, if its expression only makes silence a 0."""
    parts = alarm.get("Metrics", [])
    if "FILL(m0, 0)" not in [part.get("Expression") for part in parts]:
        return alarm
    (stat,) = [part["MetricStat"] for part in parts if "MetricStat" in part]
    return {**alarm, **stat["Metric"]} | {"Statistic": stat["Stat"], "Period": stat["Period"], "SilenceIsZero": True}


def dimensions_of(alarm: Resource) -> dict[str, object]:
    return {each["Name"]: each["Value"] for each in alarm["Dimensions"]}


def alarm_expression(stage: Synthesized, name: str) -> tuple[str, dict[str, Resource]]:
    """The expression of an alarm, and its metrics by their names in it."""
    (alarm,) = [each for each in stage.alarms.values() if each["AlarmName"].endswith(name)]
    (expression,) = [part["Expression"] for part in alarm["Metrics"] if "Expression" in part]
    return expression, {part["Id"]: part["MetricStat"] for part in alarm["Metrics"] if "MetricStat" in part}


def metric_identity(stat: Resource) -> tuple[str, str, dict[str, str]]:
    """Namespace, name and dimensions of a metric in an expression."""
    metric = stat["Metric"]
    dimensions = {each["Name"]: flatten(each["Value"]) for each in metric.get("Dimensions", [])}
    return metric["Namespace"], metric["MetricName"], dimensions


def seconds_to_alarm(alarm: Resource) -> int:
    """Seconds for which the alarm has to hold before it is one."""
    seconds: int = alarm["Period"] * alarm["EvaluationPeriods"]
    return seconds


def absent(stage: Synthesized) -> set[str]:
    """The kinds of alarms for which a stage has nothing to watch."""
    backups = set() if stage.all("AWS::Backup::BackupVault") else {*OF_BACKUPS}
    return backups if stage.all("AWS::Events::Rule").keys() & canaries(stage) else {*backups, "CanaryFailed"}


def canaries(stage: Synthesized) -> set[str]:
    """The rules that run the canary."""
    rules = stage.all("AWS::Events::Rule").items()
    return {name for name, rule in rules if rule["Targets"][0]["Arn"] == stage.live(metrics.CANARY)}


def test_every_queue_has_an_alarm_for_messages_that_nobody_takes(prod: Synthesized) -> None:
    found = alarms_of_metric(prod, "ApproximateAgeOfOldestMessage")
    assert found.keys() == {f"${{{queue}.QueueName}}" for queue in prod.queues.values()}
    assert {alarm["Statistic"] for alarm in found.values()} == {"Maximum"}
    for queue in topology.QUEUES:
        alarm, made = found[f"${{{prod.queues[queue.name]}.QueueName}}"], prod[prod.queues[queue.name]]
        kept = made.get("MessageRetentionPeriod", 4 * 24 * 60 * MINUTE)
        # A message that is dropped before the end of the alarm's period would never set it off.
        assert alarm["Threshold"] + seconds_to_alarm(alarm) <= kept, queue.name
        delayed = 900 if not queue.fifo else 0
        assert alarm["Threshold"] > delayed, "a delay that is meant would be an alarm"


def test_the_first_dead_letter_of_any_queue_is_an_alarm_within_a_minute(prod: Synthesized) -> None:
    found = alarms_of_metric(prod, "ApproximateNumberOfMessagesVisible")
    dead = {prod[queue]["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0] for queue in prod.queues.values()}
    assert found.keys() == {f"${{{queue}.QueueName}}" for queue in dead}
    assert {(alarm["Threshold"], seconds_to_alarm(alarm)) for alarm in found.values()} == {(1, MINUTE)}


def test_every_workflow_has_an_alarm_for_failures(prod: Synthesized) -> None:
    found = alarms_of_metric(prod, "ExecutionsFailed")
    assert found.keys() == {f"${{{machine}}}" for machine in prod.machines.values()}


def test_every_function_has_an_alarm_for_throttles(prod: Synthesized) -> None:
    assert alarms_of_metric(prod, "Throttles").keys() == {f"${{{function}}}" for function in prod.functions.values()}


def test_every_function_has_an_alarm_for_crashes(prod: Synthesized) -> None:
    found = alarms_of_metric(prod, "Errors")
    others = {name: function for name, function in prod.functions.items() if name != metrics.CANARY}
    assert found.keys() == {f"${{{function}}}" for function in others.values()}
    # What runs on a schedule must be able to fail often enough.
    for function in topology.FUNCTIONS:
        if function.every_s and function.name in others:
            alarm = found[f"${{{prod.functions[function.name]}}}"]
            assert alarm["Threshold"] <= seconds_to_alarm(alarm) / function.every_s


def test_a_schedule_that_stops_is_an_alarm_by_its_silence(prod: Synthesized) -> None:
    found = alarms_of_metric(prod, "Invocations")
    scheduled = {
        prod.functions[function.name]: function.every_s
        for function in topology.FUNCTIONS
        if function.every_s and function.name != metrics.CANARY
    }
    assert found.keys() == {f"${{{function}}}" for function in scheduled}
    for function, every in scheduled.items():
        alarm = found[f"${{{function}}}"]
        assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 1)
        assert (alarm["TreatMissingData"], "SilenceIsZero" in alarm) == ("breaching", False)
        assert every is not None
        assert alarm["Period"] >= every
        assert seconds_to_alarm(alarm) <= 5 * MINUTE


def test_a_stream_that_falls_behind_is_noticed_within_minutes(prod: Synthesized) -> None:
    readers = {prod.functions[function.name] for function in topology.FUNCTIONS if function.stream}
    found = alarms_of_metric(prod, "IteratorAge")
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
    expression, parts = alarm_expression(prod, "fan_out-FailedBatches")
    assert expression == "FILL(m0, 0) + FILL(m1, 0)"
    by_function, by_lambda = (parts[name]["Metric"] for name in ("m0", "m1"))
    assert {metric["Stat"] for metric in parts.values()} == {"Sum"}
    assert (by_function["MetricName"], by_lambda["MetricName"]) == (
        metrics.PUT_ASIDE,
        "OnFailureDestinationDeliveredEventCount",
    )
    assert flatten(dimensions_of(by_function)["service"]) == "fan_out"
    assert {flatten(dimensions_of(by_lambda)["EventSourceMappingUUID"])} == streams
    readers = {prod.functions[function.name] for function in topology.FUNCTIONS if function.stream}
    lost = alarms_of_metric(prod, "DestinationDeliveryFailures")
    assert lost.keys() == {f"${{{reader}}}" for reader in readers}
    assert {(alarm["Statistic"], alarm["Threshold"]) for alarm in lost.values()} == {("Sum", 1)}


@pytest.mark.parametrize("name", [metrics.DELIVERY_LATENESS, metrics.LOST_DELIVERY])
def test_what_deliver_prints_is_what_its_alarms_go_by(
    prod: Synthesized, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setenv("TABLE_NAME", f"${{{prod.table}}}")
    monkeypatch.setenv("SERVICE_NAME", "deliver")
    queue_classes = (
        [{"queue_class": queue_class} for queue_class in metrics.QUEUE_CLASSES]
        if name == metrics.DELIVERY_LATENESS
        else [{}]
    )
    for queue_class in queue_classes:
        metrics.milliseconds(name, 1, **queue_class)
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = []
    for line in printed:
        [metric] = line["_aws"]["CloudWatchMetrics"]
        [dimensions] = metric["Dimensions"]
        told.append((metric["Namespace"], {each: line[each] for each in dimensions}))
    found = [alarm for alarm in prod.alarms.values() if alarm.get("MetricName") == name]
    expected = [
        (alarm["Namespace"], {key: flatten(value) for key, value in dimensions_of(alarm).items()}) for alarm in found
    ]
    assert told == expected


def test_a_canary_that_fails_twice_or_falls_silent_is_an_alarm_where_it_runs(stages: dict[str, Synthesized]) -> None:
    for name, stage in stages.items():
        found = alarms_of_metric(stage, metrics.CANARY_PASSED, "service")
        assert bool(found) is bool(canaries(stage)) is (name in ("prod", "calls"))
        for alarm in found.values():
            assert (alarm["Statistic"], alarm["Threshold"], alarm["EvaluationPeriods"]) == ("Sum", 1, 2)
            assert (alarm["ComparisonOperator"], alarm["TreatMissingData"]) == ("LessThanThreshold", "breaching")
            # A report that is only late would count as a second failure.
            assert "SilenceIsZero" not in alarm
            (every,) = [function.every_s for function in topology.FUNCTIONS if function.name == metrics.CANARY]
            assert alarm["Period"] == every


@pytest.mark.parametrize(
    ("name", "service"),
    [
        (metrics.CANARY_PASSED, metrics.CANARY),
        (metrics.FAILED_TURNS, metrics.AGENT),
        (metrics.HANDOFFS, metrics.AGENT),
        (metrics.FAILED_CALLS, metrics.CALLS),
    ],
)
def test_what_is_printed_of_turns_calls_and_the_canary_is_what_one_alarm_goes_by(
    prod: Synthesized,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    service: str,
) -> None:
    monkeypatch.setenv("TABLE_NAME", f"${{{prod.table}}}")
    monkeypatch.setenv("SERVICE_NAME", "turn")
    metrics.rate(name, True, service=service)
    line = json.loads(capsys.readouterr().out)
    [described] = line["_aws"]["CloudWatchMetrics"]
    [dimensions] = described["Dimensions"]
    (alarm,) = [alarm for alarm in prod.alarms.values() if name in str(alarm.get("Metrics", alarm.get("MetricName")))]
    stats = [part["MetricStat"]["Metric"] for part in alarm.get("Metrics", []) if "MetricStat" in part]
    for metric in stats or [alarm]:
        assert (metric["Namespace"], metric["MetricName"]) == (described["Namespace"], name)
        assert {key: flatten(value) for key, value in dimensions_of(metric).items()} == {
            each: line[each] for each in dimensions
        }


def test_handoffs_are_an_alarm_only_if_there_are_several(prod: Synthesized) -> None:
    expression, metrics = alarm_expression(prod, "agent-Handoffs")
    assert expression == "IF(handoffs >= 10, 100 * share, 0)"
    assert {name: stat["Stat"] for name, stat in metrics.items()} == {"handoffs": "Sum", "share": "Average"}


def test_webhooks_that_stay_late_are_an_alarm_and_a_late_one_is_not(prod: Synthesized) -> None:
    found = alarms_of_metric(prod, metrics.DELIVERY_LATENESS, "queue_class")
    minutes = {
        metrics.FIRST_ATTEMPTS: 1,
        metrics.LATER_ATTEMPTS: 1,
        metrics.SLOW_ENDPOINTS: 15,
        metrics.HANGING_ENDPOINTS: 5,
    }
    assert found.keys() == {*metrics.QUEUE_CLASSES}
    for queue_class, alarm in found.items():
        assert (alarm["ExtendedStatistic"], alarm["Threshold"]) == ("p99", minutes[queue_class] * MINUTE * 1000)
        assert alarm["EvaluationPeriods"] > 1


def test_the_apis_errors_raise_an_alarm_by_their_share_and_without_504s(prod: Synthesized) -> None:
    expression, metrics = alarm_expression(prod, "api-ServerErrors")
    assert expression == "IF(failed >= 5, 100 * failed / requests, 0)"
    assert {stat["Stat"] for stat in metrics.values()} == {"Sum"}
    assert metric_identity(metrics["requests"]) == ("AWS/ApiGateway", "Count", {"ApiName": "appointments-prod"})
    (counted,) = prod.all("AWS::Logs::MetricFilter").values()
    (transformation,) = counted["MetricTransformations"]
    namespace, name, dimensions = metric_identity(metrics["failed"])
    assert (namespace, name, dimensions) == (transformation["MetricNamespace"], transformation["MetricName"], {})
    assert namespace.endswith("/appointments-prod"), "stages of one account would be counted together"
    (stage,) = prod.all("AWS::ApiGateway::Stage").values()
    assert json.loads(stage["AccessLogSetting"]["Format"])["status"] == "$context.status"
    assert counted["FilterPattern"] == '{ ($.status = "5*") && ($.status != "504") }'
    assert counted["LogGroupName"]["Ref"] in text(stage["AccessLogSetting"]["DestinationArn"])


def test_every_function_that_should_answer_at_once_has_an_alarm_for_slowness(prod: Synthesized) -> None:
    found = alarms_of_metric(prod, "Duration")
    patient = {f.name for f in topology.FUNCTIONS if f.posts}
    assert patient
    quick = {prod.functions[f.name] for f in topology.FUNCTIONS if f.routes and f.name not in patient}
    assert found.keys() == {f"${{{function}}}" for function in quick}
    assert {alarm["ExtendedStatistic"] for alarm in found.values()} == {"p99"}


def test_an_account_that_runs_out_of_executions_is_noticed_before_it_has(prod: Synthesized) -> None:
    expression, metrics = alarm_expression(prod, "account-AccountConcurrency")
    # The share of what is not reserved: 60 running and 810 reserved in an account with 1,000 leave 130 of 190.
    assert expression == "100 * unreserved / (SERVICE_QUOTA(used) - claimed + unreserved)"
    assert metric_identity(metrics["unreserved"]) == ("AWS/Lambda", "UnreservedConcurrentExecutions", {})
    assert metric_identity(metrics["claimed"]) == ("AWS/Lambda", "ClaimedAccountConcurrency", {})
    namespace, name, dimensions = metric_identity(metrics["used"])
    assert (namespace, name) == ("AWS/Usage", "ResourceCount")
    assert (dimensions["Service"], dimensions["Resource"]) == ("Lambda", "ConcurrentExecutions")


@pytest.mark.parametrize("thing", ["table", *(index.name for index in topology.TABLE.indexes)])
def test_the_table_and_every_index_have_an_alarm_for_throttles(prod: Synthesized, thing: str) -> None:
    expression, metrics = alarm_expression(prod, f"{thing}-TableThrottles")
    found = [metric_identity(stat) for stat in metrics.values()]
    assert {name for _, name, _ in found} == {"ReadThrottleEvents", "WriteThrottleEvents"}
    index = {} if thing == "table" else {"GlobalSecondaryIndexName": thing}
    assert all(dimensions == {"TableName": f"${{{prod.table}}}"} | index for _, _, dimensions in found)
    assert all(f"FILL({id}, 0)" in expression for id in metrics), "one metric without a report would hide the other"


def test_what_eventbridge_and_sns_cannot_hand_over_is_an_alarm(prod: Synthesized) -> None:
    assert alarms_of_metric(prod, "FailedInvocations").keys() == {
        f"${{{rule}}}" for rule in prod.all("AWS::Events::Rule")
    }
    topics = {f"${{{topic}.TopicName}}" for topic in prod.all("AWS::SNS::Topic")}
    assert alarms_of_metric(prod, "NumberOfNotificationsFailed").keys() == topics


def test_a_backup_or_a_copy_that_fails_is_an_alarm(prod: Synthesized) -> None:
    _, metrics = alarm_expression(prod, "table-FailedBackups")
    (vault,) = prod.all("AWS::Backup::BackupVault")
    # The vault of a copy job is the one to which it copies.
    assert [metric_identity(stat) for stat in metrics.values()] == [
        ("AWS/Backup", "NumberOfBackupJobsFailed", {"BackupVaultName": f"${{{vault}.BackupVaultName}}"}),
        ("AWS/Backup", "NumberOfBackupJobsExpired", {"BackupVaultName": f"${{{vault}.BackupVaultName}}"}),
        ("AWS/Backup", "NumberOfCopyJobsFailed", {"BackupVaultName": copies_name("prod")}),
    ]


@pytest.mark.parametrize("job", ["Backup", "Copy"])
def test_a_night_without_a_backup_or_without_a_copy_is_an_alarm_although_nothing_failed(
    prod: Synthesized, job: str
) -> None:
    ((vault, alarm),) = alarms_of_metric(
        prod, f"Number{'OfBackup' if job == 'Backup' else 'OfCopy'}JobsCompleted"
    ).items()
    (own,) = prod.all("AWS::Backup::BackupVault")
    assert vault == (f"${{{own}.BackupVaultName}}" if job == "Backup" else copies_name("prod"))
    assert seconds_to_alarm(alarm) == 26 * 60 * MINUTE
    # CloudWatch allows more than a day only for periods of an hour or more, and a week at most.
    assert alarm["Period"] >= 60 * MINUTE
    assert (alarm["ComparisonOperator"], alarm["TreatMissingData"]) == ("LessThanThreshold", "breaching")
    # Missing data would set it off hours later, because CloudWatch first looks for older values.
    assert alarm["SilenceIsZero"]
    assert "DatapointsToAlarm" not in alarm


def test_an_entry_of_the_ledger_that_is_not_copied_is_an_alarm(prod: Synthesized) -> None:
    ((_, alarm),) = alarms_of_metric(prod, "OperationsFailedReplication").items()
    (rule,) = prod[prod.erasures]["ReplicationConfiguration"]["Rules"]
    assert {name: flatten(value) for name, value in dimensions_of(alarm).items()} == {
        "SourceBucket": f"${{{prod.erasures}}}",
        "DestinationBucket": flatten(rule["Destination"]["Bucket"]).rpartition(":")[2],
        "RuleId": rule["Id"],
    }
    assert rule["Destination"]["Metrics"] == {"Status": "Enabled"}


def test_a_month_that_costs_more_than_the_stages_budget_is_told(prod: Synthesized) -> None:
    (made,) = prod.all("AWS::Budgets::Budget").values()
    assert made["Budget"]["BudgetLimit"] == {"Amount": context()["stages"]["prod"]["monthly_budget"], "Unit": "USD"}
    assert (made["Budget"]["BudgetType"], made["Budget"]["TimeUnit"]) == ("COST", "MONTHLY")
    (topic,) = [name for name in prod.all("AWS::SNS::Topic") if name.startswith("LaterAlarms")]
    told = made["NotificationsWithSubscribers"]
    assert [each["Subscribers"] for each in told] == [[{"SubscriptionType": "SNS", "Address": {"Ref": topic}}]] * 3
    kinds = {(each["Notification"]["NotificationType"], each["Notification"]["Threshold"]) for each in told}
    assert kinds >= {("ACTUAL", 100), ("FORECASTED", 100)}


def test_no_report_is_no_alarm_and_each_says_what_is_wrong(stages: dict[str, Synthesized]) -> None:
    for stage in stages.values():
        for alarm in stage.alarms.values():
            silent = ("Invocations", metrics.CANARY_PASSED, "NumberOfBackupJobsCompleted", "NumberOfCopyJobsCompleted")
            if with_own_metric(alarm).get("MetricName") in silent:
                continue
            assert alarm["TreatMissingData"] == "notBreaching"
            assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
            assert len(alarm["AlarmDescription"].partition("Runbook")[0]) > 20


def test_an_alarms_name_says_stack_thing_and_kind(stages: dict[str, Synthesized]) -> None:
    for name, stage in stages.items():
        names = [alarm["AlarmName"] for alarm in stage.alarms.values()]
        assert len(set(names)) == len(names)
        things = {*stage.queues, *stage.machines, *stage.functions, *metrics.QUEUE_CLASSES, "api", "account", "table"}
        things |= {metrics.AGENT, metrics.CALLS, metrics.CANARY}
        things |= {index.name for index in topology.TABLE.indexes} | {
            "connect",
            "s3",
            "whatsapp",
            "alarms",
            "later_alarms",
            "backup",
            "copy",
            "ledger",
        }
        kinds = {kind.name for kind in vars(alarms).values() if isinstance(kind, alarms.Kind)} - absent(stage)
        assert {each.removeprefix(f"appointments-{name}-").split("-")[0] for each in names} <= things
        assert {each.rpartition("-")[2] for each in names} == kinds


def topics(stage: Synthesized, name: str) -> list[Any]:
    """The topic for alarms that wake a person, or for those that can wait, if the stack has it."""
    return [{"Ref": topic} for topic in stage.all("AWS::SNS::Topic") if topic.startswith(name)]


WAKE = {"CanaryFailed", "DeliveryLateness", "IteratorAge", "LostBatches", "NotRunning", "ServerErrors"}
"""What a person gets up for: clients are affected, or work is lost if nobody acts before the morning."""


def test_alarms_that_wake_a_person_have_a_topic_and_an_end_and_the_others_another_topic(
    stages: dict[str, Synthesized],
) -> None:
    for name in ("prod", "calls"):
        (wake,), (later,) = topics(stages[name], "Alarms"), topics(stages[name], "LaterAlarms")
        for alarm in stages[name].alarms.values():
            wakes = alarm["AlarmName"].rpartition("-")[2] in WAKE
            assert alarm["AlarmActions"] == [wake if wakes else later], alarm["AlarmName"]
            assert alarm.get("OKActions", []) == ([wake] if wakes else [])
    assert not [alarm for alarm in stages["dev"].alarms.values() if "AlarmActions" in alarm]


def test_a_stages_own_topic_hears_all_alarms_unless_it_names_another_one(stages: dict[str, Synthesized]) -> None:
    assert not topics(stages["guarded"], "Alarms") + topics(stages["guarded"], "LaterAlarms")
    for alarm in stages["guarded"].alarms.values():
        assert alarm["AlarmActions"] == [GUARDED["alarm_topic"]]


@pytest.mark.parametrize(
    ("stage", "name", "address"),
    [
        ("prod", "Alarms", OWNED["alarm_email"]),
        ("prod", "LaterAlarms", OWNED["alarm_email"]),
        ("calls", "Alarms", OWNED["alarm_email"]),
        ("calls", "LaterAlarms", CALLS["later_email"]),
    ],
)
def test_a_topic_of_the_stack_tells_an_address_what_cloudwatch_publishes(
    stages: dict[str, Synthesized], stage: str, name: str, address: str
) -> None:
    made = stages[stage]
    (topic,) = topics(made, name)
    subscriptions = [one for one in made.all("AWS::SNS::Subscription").values() if one["TopicArn"] == topic]
    assert [(one["Protocol"], one["Endpoint"]) for one in subscriptions] == [("email", address)]
    (policy,) = [one for one in made.all("AWS::SNS::TopicPolicy").values() if one["Topics"] == [topic]]
    admitted = [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Allow"]
    assert {one["Principal"]["Service"] for one in admitted} == {"cloudwatch.amazonaws.com", "budgets.amazonaws.com"}
    assert {one["Action"] for one in admitted} == {"sns:Publish"}
    assert refuses_plain_http(policy)
    assert made.template["Outputs"][f"{name}TopicArn"]["Value"] == topic


def test_notices_of_webhook_endpoints_go_to_nobody_unless_the_stage_asks_for_them(
    stages: dict[str, Synthesized],
) -> None:
    for name, stage in stages.items():
        variables = stage[stage.functions["deliver"]]["Environment"]["Variables"]
        asked = {"guarded": GUARDED["alarm_topic"]}
        assert variables.get("NOTICES_TOPIC_ARN") == asked.get(name)


def metrics_of(alarm: Resource) -> int:
    """What an alarm is paid for."""
    return sum("MetricStat" in part for part in alarm["Metrics"]) if "Metrics" in alarm else 1


def test_the_price_of_a_month_without_traffic_counts_every_alarm_and_rule(stages: dict[str, Synthesized]) -> None:
    paid = {
        name: sum(
            metrics_of(alarm) for alarm in (*stage.alarms.values(), *stage.all("AWS::CloudWatch::Alarm").values())
        )
        for name, stage in stages.items()
    }
    assert paid["calls"] == costs.ALARM_METRICS == max(paid.values())
    for stage in stages.values():
        for firewall in stage.all("AWS::WAFv2::WebACL").values():
            assert len(firewall["Rules"]) == costs.RULES


def test_an_alarm_of_each_kind_rings_when_it_should(stages: dict[str, Synthesized]) -> None:
    for stage in stages.values():
        found: dict[str, set[object]] = {}
        for alarm in stage.alarms.values():
            stats = [part["MetricStat"] for part in alarm.get("Metrics", []) if "MetricStat" in part]
            statistics = {stat["Stat"] for stat in stats} or {alarm.get("Statistic") or alarm["ExtendedStatistic"]}
            (period,) = {stat["Period"] for stat in stats} or {alarm["Period"]}
            periods = alarm["EvaluationPeriods"]
            assert alarm.get("DatapointsToAlarm", periods) == periods
            rings = (", ".join(sorted(statistics)), period // MINUTE, periods, alarm["Threshold"])
            found.setdefault(alarm["AlarmName"].rpartition("-")[2], set()).add(rings)
        expected = {kind: {rings} for kind, rings in RINGS.items() if kind not in absent(stage)}
        expected["OldestMessage"].add(SHORT_QUEUE)
        assert found == expected
