"""What wakes an operator beside dead letters: work that waits too long, fails or is turned away.

Each alarm follows from a line of the topology. Periods are whole minutes; a metric that is not reported is no alarm.
"""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn

from infra import topology

PERIOD = Duration.minutes(5)
OLDEST_MESSAGE = 1800
"""Seconds; SQS delays messages by up to 900, and whatever waits twice as long is stuck."""
STREAM_BEHIND = 60_000
"""Milliseconds; an event is promised within about a second of its change."""
SERVER_ERRORS = 10
"""Answers of 500 and above in a period; an agent that took too long is a 504, and no fault by itself."""


def watch(
    stack: Stack,
    *,
    queues: Mapping[str, sqs.Queue],
    machines: Mapping[str, sfn.StateMachine],
    functions: Mapping[str, lambda_.Function],
    api: apigateway.RestApi,
) -> None:
    """Make the alarms; the mappings are by name in the topology."""
    for name, queue in queues.items():
        oldest = queue.metric_approximate_age_of_oldest_message(period=PERIOD, statistic="Maximum")
        _alarm(stack, name, "OldestMessage", oldest, OLDEST_MESSAGE, f"Nobody keeps up with the queue {name}")
    for name, machine in machines.items():
        failed = machine.metric_failed(period=PERIOD, statistic="Sum")
        _alarm(stack, name, "Failed", failed, 1, f"Executions of {name} failed; sweep does their work later")
    for name, function in functions.items():
        throttles = function.metric_throttles(period=PERIOD, statistic="Sum")
        _alarm(stack, name, "Throttles", throttles, 1, f"Lambda turned invocations of {name} away")
    for described in topology.FUNCTIONS:
        if described.stream:
            age = functions[described.name].metric("IteratorAge", period=PERIOD, statistic="Maximum")
            text = f"Changes wait for {described.name}: events are late"
            _alarm(stack, described.name, "IteratorAge", age, STREAM_BEHIND, text)
    errors = api.metric_server_error(period=PERIOD, statistic="Sum")
    _alarm(stack, "api", "ServerErrors", errors, SERVER_ERRORS, "Requests were answered with 500 or above")


def _alarm(stack: Stack, name: str, kind: str, metric: cloudwatch.Metric, threshold: float, description: str) -> None:
    owner = "".join(word.capitalize() for word in name.split("_"))
    metric.create_alarm(
        stack,
        f"{owner}{kind}Alarm",
        alarm_description=description,
        threshold=threshold,
        evaluation_periods=1,
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
    )
