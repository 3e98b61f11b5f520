"""The stage's alarms. Most follow from a line of the topology; `watch` lists those of the whole stage.

An alarm's kind is a heading of `runbook.md`, which says what it means, where to look and what to do. Missing data does
not set off an alarm, except for the kinds whose fault is the silence itself (`at_least`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aws_cdk import CfnOutput, Duration, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra import topology
from infra.backup import LEDGER_RULE, Copied
from infra.stack_names import construct_id
from infra.stage import Stage
from shared.core import metrics

DELIVER = "deliver"


@dataclass(frozen=True)
class Kind:
    """One kind of alarm: the metric's `statistic` is `threshold` or more in `periods` successive periods of `minutes`.

    `means` is a sentence with {} for the name of what is watched. With `at_least`, the alarm goes off if the statistic
    is below the threshold, or if there is no data. `wakes` says that it cannot wait for the morning.
    """

    name: str
    means: str
    threshold: float
    statistic: str = "Sum"
    minutes: int = 5
    periods: int = 1
    at_least: bool = False
    wakes: bool = False


DEAD_LETTERS = Kind(
    "DeadLetters", "Messages of {} failed repeatedly: a defect of the service.", 1, "Maximum", minutes=1
)
# Seconds. SQS delays messages by up to 900 s; a message that waits twice as long is stuck.
OLDEST_MESSAGE = Kind("OldestMessage", "The function that reads the queue {} does not keep up.", 1800, "Maximum")
FAILED_EXECUTIONS = Kind("FailedExecutions", "Executions of {} failed; sweep does their work later.", 1)
# Percent of the concurrent executions in the account and region that no function has reserved.
ACCOUNT_CONCURRENCY = Kind(
    "AccountConcurrency",
    "The {} has hardly any concurrent executions of Lambda left for functions without a reservation.",
    80,
    "Maximum",
)
THROTTLES = Kind("Throttles", "Lambda throttled invocations of {}.", 1)
# The queue, the stream, the schedule or the client retries a single failure.
FUNCTION_ERRORS = Kind("FunctionErrors", "{} crashed or timed out repeatedly.", 3)
NOT_RUNNING = Kind("NotRunning", "{} has not run for five minutes.", 1, minutes=1, periods=5, at_least=True, wakes=True)
# Milliseconds. An event is in the log within about a second of its change (promise 9.16).
ITERATOR_AGE = Kind("IteratorAge", "Changes wait for {}: events are late.", 60_000, "Maximum", wakes=True)
FAILED_BATCHES = Kind(
    "FailedBatches", "{} could not process changes, which are in the bucket of failed batches: events are missing.", 1
)
LOST_BATCHES = Kind(
    "LostBatches", "{} could not process changes, nor write them to the bucket of failed batches.", 1, wakes=True
)
# Milliseconds; a first attempt is promised within about a second. One lost wake-up costs two minutes, so that a
# minute's lateness means something only if it lasts.
DELIVERY_LATENESS = Kind(metrics.DELIVERY_LATENESS, "Webhooks are late: {}.", 60_000, "p99", periods=3, wakes=True)
# Milliseconds. Slow endpoints share a few attempts and cause most of their lateness themselves.
SLOW_DELIVERY_LATENESS = Kind(
    "SlowDeliveryLateness",
    "Webhooks to receivers that are slow to respond are very late: {}.",
    900_000,
    "p99",
    periods=3,
)
# Milliseconds from an attempt's wake-up to its start. Deliveries to hanging endpoints are put off, for hours if need
# be.
HANGING_DELIVERY_LATENESS = Kind(
    "HangingDeliveryLateness",
    "More receivers hang than their share of the attempts allows for: {}.",
    300_000,
    "p99",
    periods=3,
)
_LATENESS = {metrics.SLOW_ENDPOINTS: SLOW_DELIVERY_LATENESS, metrics.HANGING_ENDPOINTS: HANGING_DELIVERY_LATENESS}
LOST_DELIVERY = Kind(metrics.LOST_DELIVERY, "A delivery failed: three workers of {} died during one attempt.", 1)
# One failed or missing run may be a deploy or a lost schedule.
CANARY_FAILED = Kind(
    "CanaryFailed",
    "The {} found the service not working, or did not report, twice.",
    1,
    periods=2,
    at_least=True,
    wakes=True,
)
# The share of a quarter of an hour's turns or calls, so that with little traffic a single failure counts.
FAILED_TURNS = Kind(
    metrics.FAILED_TURNS, "The {} failed to answer one live message in ten or more.", 0.1, "Average", minutes=15
)
FAILED_CALLS = Kind(
    metrics.FAILED_CALLS,
    "One in ten or more of the live {} failed because of the carrier or the service.",
    0.1,
    "Average",
    minutes=15,
)
# Per cent of the turns of an hour, from ten on; customers who ask for a person are no fault by themselves.
HANDOFFS = Kind(
    metrics.HANDOFFS, "The {} hands the conversation to a person in half of the live turns or more.", 50, minutes=60
)
FEWEST_HANDOFFS = 10
# Per cent of the requests, from five on; an agent that took too long is a 504, and no fault by itself.
SERVER_ERRORS = Kind(
    "ServerErrors", "The {} answered one request in a hundred or more with 500 or above.", 1, wakes=True
)
FEWEST_ERRORS = 5
# Milliseconds. A read takes about 20 and a write 30. Functions that wait for an agent have no such alarm.
SLOW_RESPONSES = Kind("SlowResponses", "One request in a hundred or more to {} is slow.", 3_000, "p99", periods=3)
# Throttled attempts. A request makes up to four of them (`shared/aws/client.py`).
TABLE_THROTTLES = Kind("TableThrottles", "DynamoDB throttles requests to {}.", 10)
FAILED_EVENTS = Kind("FailedEvents", "EventBridge could not deliver events of {}.", 1)
FAILED_NOTIFICATIONS = Kind("FailedNotifications", "SNS could not deliver messages of the topic {}.", 1)
# More than a day, because a backup takes longer on some nights than on others.
MISSING_BACKUPS = Kind(
    "MissingBackups", "No {} of the table was completed within 26 hours.", 1, minutes=60, periods=26, at_least=True
)
FAILED_REPLICATION = Kind("FailedReplication", "S3 could not copy the {} to the region of the copies.", 1)
FAILED_BACKUPS = Kind("FailedBackups", "The nightly backup of the {} or its copy failed.", 1, minutes=60)

Watched = tuple[Kind, str, cloudwatch.IMetric]


@dataclass(frozen=True)
class Topics:
    """Whom alarms notify: `wake` is for those that wake a person, `later` for all others. They may be the same."""

    wake: sns.ITopic
    later: sns.ITopic

    @property
    def created(self) -> dict[str, sns.Topic]:
        """Those that the stack created."""
        named = {"alarms": self.wake, "later_alarms": self.later}
        return {name: topic for name, topic in named.items() if isinstance(topic, sns.Topic)}


@dataclass(frozen=True)
class Parts:
    """What alarms and dashboard watch. The mappings have the topology's names as keys.

    `copied` is None without backups. `notified` are the topics that are notified when an alarm goes off.
    """

    table: dynamodb.ITable
    queues: Mapping[str, sqs.Queue]
    machines: Mapping[str, sfn.StateMachine]
    functions: Mapping[str, lambda_.Function]
    rules: Mapping[str, events.Rule]
    topics: Mapping[str, sns.Topic]
    api: apigateway.RestApi
    access_log: logs.LogGroup
    copied: Copied | None
    notified: Topics | None


def watch(stack: Stack, scope: Construct, parts: Parts) -> list[cloudwatch.Alarm]:
    """Create the alarms of the stack, in the `scope`."""
    table = parts.table
    watched = [
        *_of_queues(parts.queues),
        *((FAILED_EXECUTIONS, name, machine.metric_failed()) for name, machine in parts.machines.items()),
        *_of_functions(stack, parts.functions, table, scheduled={*parts.rules}),
        *([(CANARY_FAILED, metrics.CANARY, canary_passed(table))] if metrics.CANARY in parts.rules else []),
        *(
            (_LATENESS.get(queue_class, DELIVERY_LATENESS), queue_class, lateness(table, queue_class))
            for queue_class in metrics.QUEUE_CLASSES
        ),
        (LOST_DELIVERY, DELIVER, lost(table)),
        (FAILED_TURNS, metrics.AGENT, failed_turns(table)),
        (HANDOFFS, metrics.AGENT, _handoff_rate(table)),
        (FAILED_CALLS, metrics.CALLS, failed_calls(table)),
        (SERVER_ERRORS, "api", _error_rate(stack, parts.api, parts.access_log)),
        (ACCOUNT_CONCURRENCY, "account", _unreserved_share()),
        (TABLE_THROTTLES, "table", _sum(throttles(table))),
        *((TABLE_THROTTLES, index.name, _sum(throttles(table, index.name))) for index in topology.TABLE.indexes),
        *((FAILED_EVENTS, name, failed_events(rule)) for name, rule in parts.rules.items()),
        *(
            (FAILED_NOTIFICATIONS, name, each.metric_number_of_notifications_failed())
            for name, each in all_topics(parts.topics, parts.notified).items()
        ),
        *(_of_copies(parts.copied) if parts.copied else []),
    ]
    return [_alarm(stack, scope, kind, name, metric, parts.notified) for kind, name, metric in watched]


def budget(stack: Stack, amount: int, topic: sns.ITopic) -> None:
    """Notify the topic if the account's month exceeds 80 % or 100 % of `amount` dollars, or is forecast to.

    It covers the whole account: a budget by tag counts nothing until the tags are activated for billing.
    """
    subscriber = budgets.CfnBudget.SubscriberProperty(subscription_type="SNS", address=topic.topic_arn)
    budgets.CfnBudget(
        stack,
        "Budget",
        budget=budgets.CfnBudget.BudgetDataProperty(
            # Budgets are not regional, and the stage may have to be deployed in another region.
            budget_name=f"{stack.stack_name}-{stack.region}",
            budget_type="COST",
            time_unit="MONTHLY",
            budget_limit=budgets.CfnBudget.SpendProperty(amount=amount, unit="USD"),
        ),
        notifications_with_subscribers=[
            budgets.CfnBudget.NotificationWithSubscribersProperty(
                notification=budgets.CfnBudget.NotificationProperty(
                    notification_type=which, comparison_operator="GREATER_THAN", threshold=share
                ),
                subscribers=[subscriber],
            )
            for which, share in (("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))
        ],
    )


def topics(stack: Stack, stage: Stage) -> Topics | None:
    """The topics that alarms, the budget and notices use: the stage's own, or new ones for its e-mail addresses."""
    if not stage.alarm_topic and not stage.alarm_email:
        return None
    wake = _topic(stack, "Alarms", stage.alarm_topic, stage.alarm_email)
    if stage.alarm_topic and not stage.later_topic and not stage.later_email:
        return Topics(wake, wake)
    return Topics(wake, _topic(stack, "LaterAlarms", stage.later_topic, stage.later_email or stage.alarm_email))


def _topic(stack: Stack, name: str, arn: str, email: str) -> sns.ITopic:
    if arn:
        return sns.Topic.from_topic_arn(stack, f"{name}Topic", arn)
    made = sns.Topic(stack, name, enforce_ssl=True)
    # A topic with a policy accepts messages only from the publishers that the policy names.
    for service, whose in (
        ("cloudwatch", stack.format_arn(service="cloudwatch", resource="alarm:*")),
        ("budgets", stack.format_arn(service="budgets", region="", resource="*")),
    ):
        made.add_to_resource_policy(
            iam.PolicyStatement(
                actions=["sns:Publish"],
                resources=[made.topic_arn],
                principals=[iam.ServicePrincipal(f"{service}.amazonaws.com")],
                conditions={
                    "StringEquals": {"aws:SourceAccount": stack.account},
                    "ArnLike": {"aws:SourceArn": whose},
                },
            )
        )
    made.add_subscription(subscriptions.EmailSubscription(email))
    CfnOutput(
        stack,
        f"{name}TopicArn",
        description=f"Notifies {email}, once it has confirmed the subscription",
        value=made.topic_arn,
    )
    return made


def all_topics(topics: Mapping[str, sns.Topic], notified: Topics | None) -> dict[str, sns.Topic]:
    """The topics of the topology, and those of alarms that the stack created."""
    return {**topics} | (notified.created if notified else {})


def lateness(table: dynamodb.ITable, queue_class: str) -> cloudwatch.Metric:
    """Milliseconds from when an attempt was due to its start; of hanging endpoints, from its wake-up."""
    return _printed(table, metrics.DELIVERY_LATENESS, queue_class=queue_class)


def lost(table: dynamodb.ITable) -> cloudwatch.Metric:
    """Deliveries that failed because too many workers died during one attempt."""
    return _printed(table, metrics.LOST_DELIVERY)


def canary_passed(table: dynamodb.ITable) -> cloudwatch.Metric:
    """1 for each run of the canary that passed, 0 for each one that failed."""
    return _printed(table, metrics.CANARY_PASSED, metrics.CANARY)


def canary_webhook(table: dynamodb.ITable) -> cloudwatch.Metric:
    """Milliseconds in which the canary's change arrived as a webhook."""
    return _printed(table, metrics.CANARY_WEBHOOK, metrics.CANARY)


def failed_turns(table: dynamodb.ITable) -> cloudwatch.Metric:
    """1 for each live turn in which the agent failed, 0 for each other one."""
    return _printed(table, metrics.FAILED_TURNS, metrics.AGENT)


def handoffs(table: dynamodb.ITable) -> cloudwatch.Metric:
    """1 for each live turn that handed the conversation to a person, 0 for each other one."""
    return _printed(table, metrics.HANDOFFS, metrics.AGENT)


def failed_calls(table: dynamodb.ITable) -> cloudwatch.Metric:
    """1 for each live call that the carrier or the service failed, 0 for each other one."""
    return _printed(table, metrics.FAILED_CALLS, metrics.CALLS)


def _handoff_rate(table: dynamodb.ITable) -> cloudwatch.MathExpression:
    """The percentage of turns that handed off; 0 if fewer than `FEWEST_HANDOFFS` did."""
    metric = handoffs(table)
    return cloudwatch.MathExpression(
        expression=f"IF(handoffs >= {FEWEST_HANDOFFS}, 100 * share, 0)",
        using_metrics={"handoffs": metric.with_(statistic="Sum"), "share": metric.with_(statistic="Average")},
        label="handoffs (percent)",
    )


def _printed(table: dynamodb.ITable, name: str, service: str = DELIVER, **dimensions: str) -> cloudwatch.Metric:
    """A metric that the functions print. CloudWatch finds a metric only by all of its dimensions."""
    everywhere = {"service": service, "table": table.table_name}
    return cloudwatch.Metric(namespace=metrics.NAMESPACE, metric_name=name, dimensions_map=everywhere | dimensions)


def failed_requests(stack: Stack) -> cloudwatch.Metric:
    """Requests that were answered with 500 or above, but for those whose agent took too long; by the access log."""
    return cloudwatch.Metric(
        namespace=f"{metrics.NAMESPACE}/{stack.stack_name}", metric_name="FailedRequests", statistic="Sum"
    )


def _error_rate(stack: Stack, api: apigateway.RestApi, access_log: logs.LogGroup) -> cloudwatch.MathExpression:
    """The percentage of failed requests; 0 if fewer than `FEWEST_ERRORS` failed."""
    failed = failed_requests(stack)
    logs.CfnMetricFilter(
        stack,
        "FailedRequests",
        log_group_name=access_log.log_group_name,
        filter_pattern='{ ($.status = "5*") && ($.status != "504") }',
        metric_transformations=[
            logs.CfnMetricFilter.MetricTransformationProperty(
                metric_namespace=failed.namespace, metric_name=failed.metric_name, metric_value="1", default_value=0
            )
        ],
    )
    return cloudwatch.MathExpression(
        expression=f"IF(failed >= {FEWEST_ERRORS}, 100 * failed / requests, 0)",
        using_metrics={"failed": failed, "requests": api.metric_count(statistic="Sum")},
        label="failed requests (percent)",
    )


def unreserved_concurrency() -> cloudwatch.Metric:
    """Concurrent executions in the account and region of the functions without reserved concurrency."""
    return cloudwatch.Metric(namespace="AWS/Lambda", metric_name="UnreservedConcurrentExecutions", statistic="Maximum")


def claimed_concurrency() -> cloudwatch.Metric:
    """Concurrent executions of Lambda in the account and region, running or reserved."""
    return cloudwatch.Metric(namespace="AWS/Lambda", metric_name="ClaimedAccountConcurrency", statistic="Maximum")


def used_concurrency() -> cloudwatch.Metric:
    """Concurrent executions as Service Quotas counts them: the metric that `SERVICE_QUOTA` can be applied to."""
    dimensions = {"Service": "Lambda", "Type": "Resource", "Resource": "ConcurrentExecutions", "Class": "None"}
    return cloudwatch.Metric(
        namespace="AWS/Usage", metric_name="ResourceCount", dimensions_map=dimensions, statistic="Maximum"
    )


def _unreserved_share() -> cloudwatch.MathExpression:
    # What is claimed but not unreserved is reserved, by whatever stack of the account.
    return cloudwatch.MathExpression(
        expression="100 * unreserved / (SERVICE_QUOTA(used) - claimed + unreserved)",
        using_metrics={
            "unreserved": unreserved_concurrency(),
            "claimed": claimed_concurrency(),
            "used": used_concurrency(),
        },
        label="unreserved (percent)",
    )


def throttles(table: dynamodb.ITable, index: str | None = None) -> tuple[cloudwatch.Metric, ...]:
    """Throttled reads and throttled writes of the table, or of an index."""
    dimensions = {"TableName": table.table_name} | ({"GlobalSecondaryIndexName": index} if index else {})
    return tuple(
        cloudwatch.Metric(namespace="AWS/DynamoDB", metric_name=name, dimensions_map=dimensions, statistic="Sum")
        for name in ("ReadThrottleEvents", "WriteThrottleEvents")
    )


def failed_events(rule: events.Rule) -> cloudwatch.Metric:
    """Events that matched a rule but did not reach its target."""
    return cloudwatch.Metric(
        namespace="AWS/Events", metric_name="FailedInvocations", dimensions_map={"RuleName": rule.rule_name}
    )


def _of_copies(copied: Copied) -> Iterator[Watched]:
    yield FAILED_BACKUPS, "table", _sum(failed_backups(copied))
    # An hour without a report is 0. As missing data it would delay the alarm by hours: CloudWatch looks further back
    # than the alarm's periods, and prefers an older value to a missing one (CloudWatch user guide, "Configuring how
    # CloudWatch alarms treat missing data":
    # docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html).
    # In the short periods of other alarms, a report that is only late would be 0 too.
    for name, metric in completed_backups(copied).items():
        yield MISSING_BACKUPS, name, _sum((metric,))
    yield FAILED_REPLICATION, "ledger", failed_replication(copied)


def completed_backups(copied: Copied) -> dict[str, cloudwatch.Metric]:
    """Completed backups, and completed copies of backups, by the names of their alarms."""
    return {
        "backup": _jobs("NumberOfBackupJobsCompleted", copied.vault),
        "copy": _jobs("NumberOfCopyJobsCompleted", copied.copies),
    }


def failed_backups(copied: Copied) -> tuple[cloudwatch.Metric, ...]:
    """Failed backups, those that did not start in time, and failed copies of backups."""
    return (
        _jobs("NumberOfBackupJobsFailed", copied.vault),
        _jobs("NumberOfBackupJobsExpired", copied.vault),
        _jobs("NumberOfCopyJobsFailed", copied.copies),
    )


def _jobs(name: str, vault: str) -> cloudwatch.Metric:
    """A count of jobs. The vault of a copy job is its destination.

    AWS Backup developer guide, "AWS Backup metrics with Amazon CloudWatch":
    docs.aws.amazon.com/aws-backup/latest/devguide/cloudwatch.html.
    """
    return cloudwatch.Metric(
        namespace="AWS/Backup", metric_name=name, dimensions_map={"BackupVaultName": vault}, statistic="Sum"
    )


def failed_replication(copied: Copied) -> cloudwatch.Metric:
    """Objects of the ledger that S3 could not replicate."""
    of_rule = {"SourceBucket": copied.ledger, "DestinationBucket": copied.ledger_copy, "RuleId": LEDGER_RULE}
    return cloudwatch.Metric(
        namespace="AWS/S3", metric_name="OperationsFailedReplication", dimensions_map=of_rule, statistic="Sum"
    )


def _sum(metrics: Sequence[cloudwatch.Metric]) -> cloudwatch.MathExpression:
    """The sum of the metrics; a metric without data counts as 0."""
    named = {f"m{number}": metric for number, metric in enumerate(metrics)}
    return cloudwatch.MathExpression(
        expression=" + ".join(f"FILL({name}, 0)" for name in named), using_metrics=named, label="total"
    )


def dead_letters(queue: sqs.Queue) -> sqs.IQueue:
    """The dead-letter queue of a queue."""
    given_up = queue.dead_letter_queue
    assert given_up, "every queue has one"
    return given_up.queue


def _of_queues(queues: Mapping[str, sqs.Queue]) -> Iterator[Watched]:
    for name, queue in queues.items():
        yield DEAD_LETTERS, name, dead_letters(queue).metric_approximate_number_of_messages_visible()
        yield _oldest_message(name), name, queue.metric_approximate_age_of_oldest_message()


def _oldest_message(queue: str) -> Kind:
    """The alarm of a queue, earlier for one that drops its messages before they could set off the usual one."""
    (described,) = (each for each in topology.QUEUES if each.name == queue)
    if described.retention_s is None:
        return OLDEST_MESSAGE
    return replace(OLDEST_MESSAGE, threshold=min(OLDEST_MESSAGE.threshold, described.retention_s * 2 // 3))


def _of_functions(
    stack: Stack, functions: Mapping[str, lambda_.Function], table: dynamodb.ITable, *, scheduled: Collection[str]
) -> Iterator[Watched]:
    for described in topology.FUNCTIONS:
        name, function = described.name, functions[described.name]
        yield THROTTLES, name, function.metric_throttles()
        if name != metrics.CANARY:
            # The alarm of the canary's results also covers its crashes and its schedule.
            yield FUNCTION_ERRORS, name, function.metric_errors()
        if described.routes and not described.posts:
            yield SLOW_RESPONSES, name, function.metric_duration()
        if name in scheduled and name != metrics.CANARY:
            yield NOT_RUNNING, name, function.metric_invocations()
        if described.stream:
            yield ITERATOR_AGE, name, function.metric("IteratorAge")
            yield FAILED_BATCHES, name, _sum(put_aside(stack, name, table))
            yield LOST_BATCHES, name, function.metric("DestinationDeliveryFailures")


def put_aside(stack: Stack, function: str, table: dynamodb.ITable) -> tuple[cloudwatch.Metric, ...]:
    """Stream records in the bucket of failed batches: the function or, once they are too old, Lambda wrote them."""
    mapping = stack.node.find_child(f"{construct_id(function)}FromTable")
    assert isinstance(mapping, lambda_.CfnEventSourceMapping)
    by_lambda = cloudwatch.Metric(
        namespace="AWS/Lambda",
        metric_name="OnFailureDestinationDeliveredEventCount",
        dimensions_map={"EventSourceMappingUUID": mapping.ref},
        statistic="Sum",
        label="too old",
    )
    return _printed(table, metrics.PUT_ASIDE, function).with_(statistic="Sum", label="put aside at once"), by_lambda


def _in_periods(kind: Kind, metric: cloudwatch.IMetric) -> cloudwatch.IMetric:
    """The metric with the kind's period and statistic. The metrics in an expression have their own statistics."""
    period = Duration.minutes(kind.minutes)
    if isinstance(metric, cloudwatch.MathExpression):
        return metric.with_(period=period)
    assert isinstance(metric, cloudwatch.Metric)
    return metric.with_(period=period, statistic=kind.statistic)


def _alarm(
    stack: Stack, scope: Construct, kind: Kind, name: str, metric: cloudwatch.IMetric, notified: Topics | None
) -> cloudwatch.Alarm:
    comparison = cloudwatch.ComparisonOperator
    missing = cloudwatch.TreatMissingData
    alarm = cloudwatch.Alarm(
        scope,
        f"{construct_id(name)}{kind.name}Alarm",
        metric=_in_periods(kind, metric),
        alarm_name=f"{stack.stack_name}-{name}-{kind.name}",
        alarm_description=f"{kind.means.format(name)} Runbook: infra/runbook.md, {kind.name}",
        threshold=kind.threshold,
        evaluation_periods=kind.periods,
        comparison_operator=(
            comparison.LESS_THAN_THRESHOLD if kind.at_least else comparison.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
        ),
        treat_missing_data=missing.BREACHING if kind.at_least else missing.NOT_BREACHING,
    )
    if notified:
        alarm.add_alarm_action(actions.SnsAction(notified.wake if kind.wakes else notified.later))
        if kind.wakes:
            alarm.add_ok_action(actions.SnsAction(notified.wake))
    return alarm
