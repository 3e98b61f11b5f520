"""The stage's dashboard. From top to bottom: the alarms, the effect on clients, and the possible causes.

The graphs of queues, functions and state machines have a line for each one in the topology. `runbook.md` says which
graph to check first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aws_cdk import Duration, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra import alarms, topology
from infra.backup import Copied
from shared.core import metrics

SHOWN = Duration.hours(3)
WIDTH = 24
"""The width of a dashboard, in its own units."""
HEIGHT = 6
OPERATIONS = ("GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem", "TransactWriteItems")
"""The operations that the functions call on the table."""
STREAM_READERS = tuple(described.name for described in topology.FUNCTIONS if described.stream)

Lines = Sequence[cloudwatch.Metric]


def draw(stack: Stack, scope: Construct, parts: alarms.Parts, watched: Sequence[cloudwatch.Alarm]) -> None:
    """Create the dashboard of the stack, in the `scope`: the alarms, and graphs of the parts."""
    # An account has one list of dashboards for all regions.
    name = f"{stack.stack_name}-{stack.region}"
    made = cloudwatch.Dashboard(scope, "Dashboard", dashboard_name=name, default_interval=SHOWN)
    made.add_widgets(
        cloudwatch.AlarmStatusWidget(
            title=f"{stack.stack_name}: alarms", alarms=[*watched], width=WIDTH, height=2 * HEIGHT
        )
    )
    for row in (
        _api(stack, parts.api),
        _functions(parts.functions),
        _load(parts.functions),
        _queues(parts.queues),
        _events(parts.table, parts.functions),
        _given_up(stack, parts.table, parts.functions),
        _live(parts.table),
        *([_canary(parts.table)] if metrics.CANARY in parts.rules else []),
        _machines(parts.machines),
        _handed_over(parts.rules, alarms.all_topics(parts.topics, parts.notified)),
        _table(parts.table),
        *([_backups(parts.copied)] if parts.copied else []),
    ):
        graphs = dict(row)
        made.add_widgets(
            *(
                cloudwatch.GraphWidget(title=title, left=[*lines], width=WIDTH // len(graphs), height=HEIGHT)
                for title, lines in graphs.items()
            )
        )


Row = Iterator[tuple[str, Lines]]
"""The title and lines of each graph, from left to right."""


def _api(stack: Stack, api: apigateway.RestApi) -> Row:
    yield (
        "API: requests, client errors (4xx) and server errors (5xx)",
        [
            api.metric_count(statistic="Sum", label="requests"),
            api.metric_client_error(statistic="Sum", label="4xx"),
            api.metric_server_error(statistic="Sum", label="5xx"),
            alarms.failed_requests(stack).with_(label="5xx without 504"),
        ],
    )
    yield (
        "API: latency (ms)",
        [api.metric_latency(statistic=statistic, label=statistic) for statistic in ("p50", "p99")],
    )


def _functions(functions: Mapping[str, lambda_.Function]) -> Row:
    named = functions.items()
    yield "Functions: started", [made.metric_invocations(statistic="Sum", label=name) for name, made in named]
    yield "Functions: errors", [made.metric_errors(statistic="Sum", label=name) for name, made in named]
    yield "Functions: throttles", [made.metric_throttles(statistic="Sum", label=name) for name, made in named]


def _load(functions: Mapping[str, lambda_.Function]) -> Row:
    named = functions.items()
    yield "Functions: duration, p99 (ms)", [made.metric_duration(statistic="p99", label=name) for name, made in named]
    yield (
        "Functions: concurrent executions",
        [made.metric("ConcurrentExecutions", statistic="Maximum", label=name) for name, made in named],
    )
    yield (
        "The whole account: concurrent executions, running, without a reservation, and claimed",
        [
            alarms.unreserved_concurrency().with_(label="without a reservation"),
            alarms.used_concurrency().with_(label="running"),
            alarms.claimed_concurrency().with_(label="claimed"),
        ],
    )


def _queues(queues: Mapping[str, sqs.Queue]) -> Row:
    named = queues.items()
    yield (
        "Queues: age of the oldest message (s)",
        [made.metric_approximate_age_of_oldest_message(statistic="Maximum", label=name) for name, made in named],
    )
    yield (
        "Queues: messages waiting",
        [made.metric_approximate_number_of_messages_visible(statistic="Maximum", label=name) for name, made in named],
    )
    yield (
        "Dead letters",
        [
            alarms.dead_letters(made).metric_approximate_number_of_messages_visible(statistic="Maximum", label=name)
            for name, made in named
        ],
    )


def _events(table: dynamodb.ITable, functions: Mapping[str, lambda_.Function]) -> Row:
    yield (
        "Stream: iterator age (ms)",
        [functions[name].metric("IteratorAge", statistic="Maximum", label=name) for name in STREAM_READERS],
    )
    for statistic in ("p50", "p99"):
        yield (
            f"Webhooks: lateness of attempts, {statistic} (ms)",
            [
                alarms.lateness(table, queue_class).with_(statistic=statistic, label=queue_class)
                for queue_class in metrics.QUEUE_CLASSES
            ],
        )


def _given_up(stack: Stack, table: dynamodb.ITable, functions: Mapping[str, lambda_.Function]) -> Row:
    yield (
        "Failed batches: put aside, and lost",
        [
            line
            for name in STREAM_READERS
            for line in (
                *alarms.put_aside(stack, name, table),
                functions[name].metric("DestinationDeliveryFailures", statistic="Sum", label="lost"),
            )
        ],
    )
    yield "Webhooks: deliveries lost because workers died", [alarms.lost(table).with_(statistic="Sum", label="lost")]


def _canary(table: dynamodb.ITable) -> Row:
    yield (
        "Canary: runs, and those that passed",
        [
            alarms.canary_passed(table).with_(statistic="SampleCount", label="runs"),
            alarms.canary_passed(table).with_(statistic="Sum", label="passed"),
        ],
    )
    yield (
        "Canary: time from a change to its webhook (ms)",
        [alarms.canary_webhook(table).with_(statistic="Maximum", label="webhook")],
    )


def _live(table: dynamodb.ITable) -> Row:
    yield (
        "Live turns: share in which the agent failed, and which it handed off",
        [
            alarms.failed_turns(table).with_(statistic="Average", label="failed"),
            alarms.handoffs(table).with_(statistic="Average", label="handed off"),
        ],
    )
    yield (
        "Live turns and calls",
        [
            alarms.failed_turns(table).with_(statistic="SampleCount", label="turns"),
            alarms.failed_calls(table).with_(statistic="SampleCount", label="calls"),
        ],
    )
    yield (
        "Live calls: share that the carrier or the service failed",
        [alarms.failed_calls(table).with_(statistic="Average", label="failed")],
    )


def _machines(machines: Mapping[str, sfn.StateMachine]) -> Row:
    named = machines.items()
    yield "Workflows: started", [made.metric_started(statistic="Sum", label=name) for name, made in named]
    yield "Workflows: failed", [made.metric_failed(statistic="Sum", label=name) for name, made in named]


def _table(table: dynamodb.ITable) -> Row:
    yield (
        "Table: capacity used (units)",
        [
            table.metric_consumed_read_capacity_units(statistic="Sum", label="read"),
            table.metric_consumed_write_capacity_units(statistic="Sum", label="written"),
        ],
    )
    yield (
        "Table and indexes: throttled",
        [
            metric.with_(label=f"{name} {verb}")
            for name, metrics in (
                ("table", alarms.throttles(table)),
                *((index.name, alarms.throttles(table, index.name)) for index in topology.TABLE.indexes),
            )
            for metric, verb in zip(metrics, ("read", "written"), strict=True)
        ],
    )
    yield (
        "Table: latency, p99 (ms)",
        [
            table.metric_successful_request_latency(
                dimensions_map={"TableName": table.table_name, "Operation": operation},
                statistic="p99",
                label=operation,
            )
            for operation in OPERATIONS
        ],
    )


def _handed_over(rules: Mapping[str, events.Rule], topics: Mapping[str, sns.Topic]) -> Row:
    yield (
        "EventBridge and SNS: failed deliveries",
        [
            *(alarms.failed_events(rule).with_(statistic="Sum", label=name) for name, rule in rules.items()),
            *(
                topic.metric_number_of_notifications_failed(statistic="Sum", label=f"topic {name}")
                for name, topic in topics.items()
            ),
        ],
    )


def _backups(copied: Copied) -> Row:
    labels = ("backups", "backups that did not start", "copies")
    metrics = zip(alarms.failed_backups(copied), labels, strict=True)
    completed = alarms.completed_backups(copied).items()
    yield "Backups: completed", [metric.with_(label=name) for name, metric in completed]
    ledger = alarms.failed_replication(copied).with_(label="replication of the ledger")
    yield "Backups: failed", [*(metric.with_(label=label) for metric, label in metrics), ledger]
