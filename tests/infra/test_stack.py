"""Properties of what would be deployed, read from the templates of one synth."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App

from infra import contact_center, stack_names, topology
from infra.app import context
from infra.capacity import UNRESERVED
from infra.stack import ServiceStack
from infra.topology import Function, Queue
from shared.core import clock, metrics
from shared.customers import resource as customers
from shared.erasure import erasing
from shared.telephony import contact_lens
from tests.support.synth import GUARDED, REPLICA, Resource, Synthesized, lint_findings
from tests.support.templates import allowed_pairs, arn, below, flatten, matches, may, text

MODEL = context()["stages"]["prod"]["model"]

each_function = pytest.mark.parametrize("function", topology.FUNCTIONS, ids=lambda function: function.name)
each_queue = pytest.mark.parametrize("queue", topology.QUEUES, ids=lambda queue: queue.name)
each_stage = pytest.mark.parametrize("stage", ["dev", "prod", "calls", "guarded", "named"])


LINTED = ("calls", "guarded")
"""The linter takes ten seconds for a stage. The others have no type of resource that these have not."""


@pytest.mark.parametrize("stage", LINTED)
def test_cfn_lint_finds_nothing(stages: dict[str, Synthesized], stacks: dict[str, ServiceStack], stage: str) -> None:
    assert lint_findings(stages[stage].template) == []
    app = stacks[stage].node.root
    assert isinstance(app, App)
    assert lint_findings(json.loads((Path(app.outdir) / stacks[stage].watch.template_file).read_text())) == []


def test_the_stages_that_are_linted_have_all_types_of_resources(stages: dict[str, Synthesized]) -> None:
    linted = {kind for name in LINTED for kind in stages[name].kinds}
    assert all(stage.kinds <= linted for stage in stages.values())


@each_stage
def test_outputs_tell_where_the_service_is_and_how_to_get_a_key(stages: dict[str, Synthesized], stage: str) -> None:
    outputs = stages[stage].template["Outputs"]
    assert outputs[stack_names.TABLE_OUTPUT]["Value"] == {"Ref": stages[stage].table}
    variables = stages[stage][stages[stage].functions["sweep"]]["Environment"]["Variables"]
    assert outputs[stack_names.DUE_SHARDS_OUTPUT]["Value"] == variables["DUE_SHARDS"]
    assert outputs[stack_names.FAILURES_OUTPUT]["Value"] == {"Ref": stages[stage].bucket}
    assert outputs[stack_names.RECORDINGS_OUTPUT]["Value"] == {"Ref": stages[stage].recordings}
    assert outputs[stack_names.ERASURES_OUTPUT]["Value"] == {"Ref": stages[stage].erasures}
    assert outputs[stack_names.FAN_OUT_OUTPUT]["Value"] == stages[stage].live("fan_out")
    if not stages[stage].all("AWS::ApiGateway::DomainName"):
        assert f'/", {{"Ref": "ApiDeploymentStage{stage}' in text(outputs[stack_names.API_OUTPUT]["Value"])
    assert f"infra.manage --stage {stage} projects create" in outputs[stack_names.FIRST_KEY_OUTPUT]["Value"]


@each_stage
def test_whatever_can_be_tagged_says_its_stage(stages: dict[str, Synthesized], stage: str) -> None:
    for kind in ("AWS::Lambda::Function", "AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::S3::Bucket"):
        for properties in stages[stage].all(kind).values():
            assert {"Key": "stage", "Value": stage} in properties["Tags"]
    for table in stages[stage].all("AWS::DynamoDB::GlobalTable").values():
        for replica in table["Replicas"]:
            assert {"Key": "stage", "Value": stage} in replica["Tags"]


# Functions and their roles


@each_function
def test_a_function_runs_the_topologys_handler_with_its_settings(prod: Synthesized, function: Function) -> None:
    made = prod[prod.functions[function.name]]
    assert made["Handler"] == topology.ENTRY_POINT
    assert made["Runtime"] == "python3.13"
    assert made["Architectures"] == ["arm64"]
    assert made["Timeout"] == function.timeout_s
    assert made["MemorySize"] == function.memory


@each_function
def test_a_function_gets_the_variables_of_the_topology_and_the_log_level(prod: Synthesized, function: Function) -> None:
    deployment = topology.Deployment(
        table=json.dumps({"Ref": prod.table}),
        queues={name: json.dumps({"Ref": queue}) for name, queue in prod.queues.items()},
        machines={name: json.dumps({"Ref": machine}) for name, machine in prod.machines.items()},
        signing_key=json.dumps({"Fn::GetAtt": [prod.key, "Arn"]}),
        recordings=json.dumps({"Ref": prod.recordings}),
        failed_batches=json.dumps({"Ref": prod.bucket}),
        erasures=json.dumps({"Ref": prod.erasures}),
        due_shards=16,
        model=MODEL,
        base_url="of the canary alone",
        requests_per_second=5_000,
        messages_per_second=300,
        firewall={"requests_per_minute": 30_000, "messages_per_minute": 6_000},
    )
    expected = function.environment(deployment)
    found = {**prod[prod.functions[function.name]]["Environment"]["Variables"]}
    if function.sign_in:
        # The stack's own user pool (test_people).
        assert found.pop("USER_POOL_ID") == {"Ref": next(iter(prod.all("AWS::Cognito::UserPool")))}
        assert found.pop("OIDC_ISSUER") == {"Fn::GetAtt": [*prod.all("AWS::Cognito::UserPool"), "ProviderURL"]}
        assert found.pop("OIDC_CLIENT_ID") == {"Ref": next(iter(prod.all("AWS::Cognito::UserPoolClient")))}
    as_text = {name: value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}
    if "BASE_URL" in as_text:
        as_text["BASE_URL"] = "of the canary alone"
    assert as_text == expected | {"LOG_LEVEL": "INFO"}


@each_stage
def test_support_contact_and_terms_reach_the_documentation_alone(stages: dict[str, Synthesized], stage: str) -> None:
    made = stages[stage]
    for setting in ("support_contact", "terms_url"):
        found = {
            name: variables[setting.upper()]
            for name, id in made.functions.items()
            if setting.upper() in (variables := made[id]["Environment"]["Variables"])
        }
        assert found == ({"fallback": GUARDED[setting]} if stage == "guarded" else {})


@each_stage
def test_limits_of_gateway_and_firewall_reach_the_documentation_alone(
    stages: dict[str, Synthesized], stage: str
) -> None:
    made = stages[stage]
    [deployed] = made.all("AWS::ApiGateway::Stage").values()
    limits = {(one["ResourcePath"], one["HttpMethod"]): one for one in deployed["MethodSettings"]}
    expected = {
        "REQUESTS_PER_SECOND": str(limits["/*", "*"]["ThrottlingRateLimit"]),
        "MESSAGES_PER_SECOND": str(limits["/~1v1~1messages", "POST"]["ThrottlingRateLimit"]),
    }
    for acl in made.all("AWS::WAFv2::WebACL").values():
        rates = [rule["Statement"]["RateBasedStatement"] for rule in acl["Rules"][:2]]
        names = ("FIREWALL_REQUESTS_PER_MINUTE", "FIREWALL_MESSAGES_PER_MINUTE")
        expected |= {name: str(rate["Limit"]) for name, rate in zip(names, rates, strict=True)}
    for name, id in made.functions.items():
        told = made[id]["Environment"]["Variables"]
        found = {key: value for key, value in told.items() if key.startswith(("REQUESTS_", "MESSAGES_", "FIREWALL_"))}
        assert found == (expected if name == "fallback" else {})


@each_stage
def test_the_canary_calls_the_stage_at_the_address_that_clients_have(
    stages: dict[str, Synthesized], stage: str
) -> None:
    made = stages[stage]
    clients = [function for function in topology.FUNCTIONS if function.calls_api]
    assert [function.name for function in clients] == [metrics.CANARY]
    for function in clients:
        called = flatten(made[made.functions[function.name]]["Environment"]["Variables"]["BASE_URL"])
        # The function cannot refer to the API's deployment, which depends on it.
        told = flatten(made.template["Outputs"][stack_names.API_OUTPUT]["Value"])
        assert called == re.sub(r"\$\{ApiDeploymentStage\w+\}", stage, told).removesuffix("/")


@each_function
def test_a_function_logs_to_a_group_that_forgets(prod: Synthesized, function: Function) -> None:
    group = prod[prod.functions[function.name]]["LoggingConfig"]["LogGroup"]["Ref"]
    assert prod[group]["RetentionInDays"] == 90


def test_no_log_is_kept_for_ever(prod: Synthesized) -> None:
    assert all("RetentionInDays" in group for group in prod.all("AWS::Logs::LogGroup").values())


@each_function
@each_stage
def test_a_role_allows_what_the_topology_says_and_nothing_else(
    stages: dict[str, Synthesized], stage: str, function: Function
) -> None:
    prod = stages[stage]
    table = arn(prod.table)
    group = prod[prod.functions[function.name]]["LoggingConfig"]["LogGroup"]["Ref"]
    expected = {("logs:CreateLogStream", arn(group)), ("logs:PutLogEvents", arn(group))}
    expected |= {(action, table) for action in function.table}
    expected |= {(action, below(prod.table, "/index/*")) for action in function.indexes}
    expected |= {("sqs:SendMessage", arn(prod.queues[name])) for name in function.sends}
    expected |= {("states:StartExecution", text({"Ref": prod.machines[name]})) for name in function.starts}
    expected |= {("states:SendTaskSuccess", text({"Ref": prod.machines[name]})) for name in function.completes}
    signing_key = text(REPLICA) if stage == "calls" else arn(prod.key)
    expected |= {(action, signing_key) for action in function.signing_key}
    expected |= {(action, below(prod.recordings, "/*")) for action in function.recordings}
    for source in function.queues:
        for action in ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes", "ChangeMessageVisibility"):
            expected.add((f"sqs:{action}", arn(prod.queues[source.queue])))
    if function.stream:
        stream = text({"Fn::GetAtt": [prod.table, "StreamArn"]})
        expected |= {(f"dynamodb:{action}", stream) for action in ("DescribeStream", "GetRecords", "GetShardIterator")}
        expected.add(("dynamodb:ListStreams", below(prod.table, "/stream/*")))
        expected |= {("s3:PutObject", below(prod.bucket, "/*")), ("s3:ListBucket", arn(prod.bucket))}
        expected.add(("s3:PutObject", below(prod.erasures, "/opt_outs/*")))
    # Traces know no resource.
    expected |= {(f"xray:{action}", text("*")) for action in ("PutTraceSegments", "PutTelemetryRecords")}
    if function.notices and stage == "guarded":
        expected.add(("sns:Publish", text(GUARDED["alarm_topic"])))
    # What is allowed on the stage's contacts and its WhatsApp number is tested in test_calls, on user pool and client
    # secret in test_people.
    granted = {
        (action, resource)
        for action, resource in allowed_pairs(prod.statements(prod.role_of(function.name)))
        if not action.startswith(("connect:", "social-messaging:", "cognito-idp:", "secretsmanager:"))
    }
    on_models = {(action, resource) for action, resource in granted if action.startswith("bedrock:")}
    assert {action for action, _ in on_models} == ({"bedrock:InvokeModel"} if function.model else set())
    assert all(MODEL in resource and "foundation-model/*" not in resource for _, resource in on_models)
    assert granted - on_models == expected


def test_only_a_function_that_converses_knows_the_model(prod: Synthesized) -> None:
    for function in topology.FUNCTIONS:
        variables = prod[prod.functions[function.name]]["Environment"]["Variables"]
        assert variables.get("MODEL_ID") == (MODEL if function.model else None)


def test_each_function_has_a_role_of_its_own(prod: Synthesized) -> None:
    roles = [prod.role_of(function.name) for function in topology.FUNCTIONS]
    assert len({*roles}) == len(roles)


def test_only_deliver_may_decrypt_signing_secrets(prod: Synthesized) -> None:
    assert may(prod, "kms:Decrypt") == {prod.role_of("deliver")}
    assert may(prod, "kms:ReEncryptFrom") == set()
    assert may(prod, "kms:Encrypt") == {prod.role_of("webhook_endpoints"), prod.role_of("admin")}


def test_the_keys_own_policy_admits_only_the_account_and_the_key_rotates(prod: Synthesized) -> None:
    key = prod[prod.key]
    (statement,) = key["KeyPolicy"]["Statement"]
    assert text(statement["Principal"]["AWS"]).endswith(':root"]]}')
    assert key["EnableKeyRotation"] is True


@each_function
def test_in_prod_a_worker_has_room_for_all_that_its_queues_start_and_dev_reserves_nothing(
    stages: dict[str, Synthesized], function: Function
) -> None:
    reserved = {
        stage: stages[stage][stages[stage].functions[function.name]].get("ReservedConcurrentExecutions")
        for stage in ("dev", "prod")
    }
    assert reserved["dev"] is None
    if function.queues or function.stream or function.posts:
        assert (reserved["prod"] or 0) >= max(1, sum(source.concurrency for source in function.queues))


def test_prods_reservations_fit_into_an_account_of_a_thousand(prod: Synthesized) -> None:
    reserved = [f.get("ReservedConcurrentExecutions", 0) for f in prod.all("AWS::Lambda::Function").values()]
    assert sum(reserved) + UNRESERVED <= 1000


@each_function
def test_a_function_that_feeds_its_own_queue_is_not_stopped_as_a_runaway(prod: Synthesized, function: Function) -> None:
    feeds_itself = bool({*function.sends} & {source.queue for source in function.queues})
    assert (prod[prod.functions[function.name]].get("RecursiveLoop") == "Allow") is feeds_itself


@each_function
def test_a_scheduled_function_has_its_schedule_and_no_repeats(prod: Synthesized, function: Function) -> None:
    target = prod.live(function.name)
    rules = prod.all("AWS::Events::Rule")
    mine = {name: rule for name, rule in rules.items() if rule["Targets"][0]["Arn"] == target}
    assert len(mine) == (1 if function.every_s else 0)
    if function.every_s:
        ((name, rule),) = mine.items()
        minutes = function.every_s // 60
        assert rule["ScheduleExpression"] == f"rate({minutes} minute{'s' if minutes > 1 else ''})"
        assert rule["State"] == "ENABLED"
        permissions = [p for p in prod.all("AWS::Lambda::Permission").values() if p["FunctionName"] == target]
        assert [p["SourceArn"] for p in permissions] == [{"Fn::GetAtt": [name, "Arn"]}]
        configs = prod.all("AWS::Lambda::EventInvokeConfig").values()
        mine_of = {"Ref": prod.functions[function.name]}
        ((qualifier, repeats),) = [
            (c["Qualifier"], c["MaximumRetryAttempts"]) for c in configs if c["FunctionName"] == mine_of
        ]
        assert text(target) in text(qualifier)
        assert repeats == 0


# Table


@each_stage
def test_the_table_streams_both_images_and_forgets(stages: dict[str, Synthesized], stage: str) -> None:
    table = stages[stage][stages[stage].table]
    assert table["StreamSpecification"]["StreamViewType"] == "NEW_AND_OLD_IMAGES"
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert table["BillingMode"] == "PAY_PER_REQUEST"


def test_the_table_has_the_topologys_keys_and_keys_only_indexes(prod: Synthesized) -> None:
    table = prod[prod.table]
    assert keys(table) == (topology.TABLE.hash_key, topology.TABLE.range_key)
    found = {index["IndexName"]: keys(index) for index in table["GlobalSecondaryIndexes"]}
    assert found == {index.name: (index.hash_key, index.range_key) for index in topology.TABLE.indexes}
    assert {index["Projection"]["ProjectionType"] for index in table["GlobalSecondaryIndexes"]} == {"KEYS_ONLY"}
    assert {attribute["AttributeType"] for attribute in table["AttributeDefinitions"]} == {"S"}


def test_table_and_indexes_are_as_warm_as_the_stage_says(stages: dict[str, Synthesized]) -> None:
    def warm(stage: Synthesized) -> dict[str, Any]:
        table = stage[stage.table]
        found = {index["IndexName"]: index.get("WarmThroughput") for index in table["GlobalSecondaryIndexes"]}
        return {name: said for name, said in (found | {"table": table.get("WarmThroughput")}).items() if said}

    assert warm(stages["prod"]) == warm(stages["dev"]) == {}
    assert warm(stages["guarded"]) == {
        "table": {"ReadUnitsPerSecond": 20_000, "WriteUnitsPerSecond": 10_000},
        "by_due": {"ReadUnitsPerSecond": 12_000, "WriteUnitsPerSecond": 8_000},
    }


def test_only_a_stage_that_keeps_its_data_is_protected_from_removal(stacks: dict[str, ServiceStack]) -> None:
    found = {name: bool(stack.termination_protection) for name, stack in stacks.items()}
    assert found == {name: stack.stage.keep_data for name, stack in stacks.items()}
    assert {*found.values()} == {True, False}


ROOM = 450
"""Of the 500 resources that CloudFormation allows in a template: what is left is for a change that cannot wait."""


@each_stage
def test_every_stack_has_room_for_more_resources(stages: dict[str, Synthesized], stage: str) -> None:
    for name, template in (("the stack", stages[stage].template), ("its nested stack", stages[stage].watch)):
        count = len(template["Resources"])
        assert count < ROOM, f"{name} of {stage} has {count} of 500 resources: move some to a nested stack of their own"


# Queues, streams and workflows


@each_queue
def test_a_queue_gives_up_into_a_dead_letter_queue_of_its_type(prod: Synthesized, queue: Queue) -> None:
    made = prod[prod.queues[queue.name]]
    dead_letters, _ = made["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"]
    assert made["RedrivePolicy"]["maxReceiveCount"] == queue.max_receives
    assert dead_letters not in prod.queues.values()
    assert bool(prod[dead_letters].get("FifoQueue")) is bool(made.get("FifoQueue")) is queue.fifo
    assert prod[dead_letters]["MessageRetentionPeriod"] == 14 * 24 * 3600


@each_queue
def test_a_message_stays_hidden_for_six_times_its_readers_timeout(prod: Synthesized, queue: Queue) -> None:
    source = arn(prod.queues[queue.name])
    mappings = prod.all("AWS::Lambda::EventSourceMapping").values()
    started = [m["FunctionName"] for m in mappings if text(m["EventSourceArn"]) == source]
    readers = [prod[prod.functions[name]] for name in prod.functions if prod.live(name) in started]
    assert len(readers) == 1
    assert prod[prod.queues[queue.name]]["VisibilityTimeout"] >= 6 * readers[0]["Timeout"]


@each_queue
def test_a_fifo_queue_has_no_limit_common_to_all_groups(prod: Synthesized, queue: Queue) -> None:
    made = prod[prod.queues[queue.name]]
    found = (made.get("DeduplicationScope"), made.get("FifoThroughputLimit"))
    assert found == (("messageGroup", "perMessageGroupId") if queue.fifo else (None, None))
    assert not made.get("ContentBasedDeduplication")


@each_function
def test_queue_sources_report_failures_by_message_and_are_bounded(prod: Synthesized, function: Function) -> None:
    found = {
        text(mapping["EventSourceArn"]): mapping
        for mapping in prod.sources(function.name)
        if "ScalingConfig" in mapping
    }
    assert found.keys() == {arn(prod.queues[source.queue]) for source in function.queues}
    for source in function.queues:
        mapping = found[arn(prod.queues[source.queue])]
        assert mapping["BatchSize"] == source.batch_size
        most = mapping["ScalingConfig"]["MaximumConcurrency"]
        assert source.concurrency <= most <= 1_000
    # No mapping can start more than its function may run, and the function has no executions that nothing can start.
    if function.queues and (reserved := prod[prod.functions[function.name]].get("ReservedConcurrentExecutions")):
        assert sum(mapping["ScalingConfig"]["MaximumConcurrency"] for mapping in found.values()) == reserved
    for source in function.queues:
        mapping = found[arn(prod.queues[source.queue])]
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        # Lambda refuses a window on a FIFO queue.
        assert "MaximumBatchingWindowInSeconds" not in mapping


@each_function
def test_a_stream_source_loses_nothing(prod: Synthesized, function: Function) -> None:
    stream = {"Fn::GetAtt": [prod.table, "StreamArn"]}
    found = [mapping for mapping in prod.sources(function.name) if mapping["EventSourceArn"] == stream]
    assert len(found) == (1 if function.stream else 0)
    if function.stream:
        (mapping,) = found
        assert mapping["BatchSize"] == function.stream.batch_size
        # Ten batches of a shard at once, the most that Lambda does; the changes of an item stay in order.
        assert mapping["ParallelizationFactor"] == function.stream.parallel == 10
        assert mapping["StartingPosition"] == "TRIM_HORIZON"
        assert mapping["BisectBatchOnFunctionError"] is True
        # Retried for hours, and put aside before the stream forgets it.
        assert mapping["MaximumRetryAttempts"] == -1
        assert 12 * 3_600 <= mapping["MaximumRecordAgeInSeconds"] == function.stream.max_age_s <= 23 * 3_600
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert text(mapping["DestinationConfig"]["OnFailure"]["Destination"]) == arn(prod.bucket)


@pytest.mark.parametrize(
    ("images", "passes"),
    [
        ({"NewImage": {"kind": {"S": "customer"}}}, True),
        ({"OldImage": {"kind": {"S": "customer"}}}, True),
        ({"OldImage": {"kind": {"S": "appointment"}}, "NewImage": {"kind": {"S": "appointment"}}}, True),
        ({"NewImage": {"kind": {"S": "idempotency"}}}, False),
        ({"NewImage": {"m": {"S": "2026-06-01T00:00"}}}, False),
    ],
)
def test_the_stream_filter_lets_through_what_makes_events(
    prod: Synthesized, images: dict[str, Any], passes: bool
) -> None:
    (mapping,) = [m for m in prod.all("AWS::Lambda::EventSourceMapping").values() if "FilterCriteria" in m]
    patterns = [json.loads(each["Pattern"]) for each in mapping["FilterCriteria"]["Filters"]]
    assert any(matches(pattern, {"dynamodb": images}) for pattern in patterns) is passes


def test_batches_and_what_they_say_of_customers_do_not_stay_for_ever(prod: Synthesized) -> None:
    for name, bucket in prod.all("AWS::S3::Bucket").items():
        if name != prod.erasures:
            assert any(rule.get("ExpirationInDays") for rule in bucket["LifecycleConfiguration"]["Rules"])


def test_the_ledger_of_erasures_outlives_every_backup(prod: Synthesized) -> None:
    bucket = prod[prod.erasures]
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert "LifecycleConfiguration" not in bucket
    # No function may change an erasure: an operator does, with credentials of his own. One may add opt-outs.
    named = [
        (action, resource)
        for function in prod.functions
        for action, resource in allowed_pairs(prod.statements(prod.role_of(function)))
        if prod.erasures in resource
    ]
    assert named == [("s3:PutObject", below(prod.erasures, "/opt_outs/*"))]


def test_an_erasure_waits_for_whatever_may_still_write(prod: Synthesized) -> None:
    assert max(function["Timeout"] for function in prod.all("AWS::Lambda::Function").values()) < erasing.SETTLES_S
    # A change waits in the stream for a day at most, and then in the bucket of failed batches.
    (rule,) = prod[prod.bucket]["LifecycleConfiguration"]["Rules"]
    assert (1 + rule["ExpirationInDays"]) * clock.DAY < customers.ERASURE_KEPT_MS


def test_the_files_of_a_call_are_looked_for_where_the_stack_stores_them() -> None:
    assert contact_center.RECORDINGS_PREFIX.removesuffix("CallRecordings") in contact_lens.BASES


def test_a_bucket_takes_no_outdated_tls(prod: Synthesized) -> None:
    for name in prod.all("AWS::S3::Bucket"):
        (policy,) = [p for p in prod.all("AWS::S3::BucketPolicy").values() if p["Bucket"] == {"Ref": name}]
        denied = [s["Condition"] for s in policy["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"]
        assert {"NumericLessThan": {"s3:TlsVersion": 1.2}} in denied, name


def test_a_workflow_knows_its_queues_and_may_send_to_these_alone(prod: Synthesized) -> None:
    for machine in topology.STATE_MACHINES:
        made = prod[prod.machines[machine.name]]
        definition = text(made["DefinitionString"])
        assert "${" not in definition
        for queue in machine.sends:
            assert text({"Ref": prod.queues[queue]}) in definition
        role, _ = made["RoleArn"]["Fn::GetAtt"]
        granted = {pair for pair in allowed_pairs(prod.statements(role)) if not pair[0].startswith(("logs:", "xray:"))}
        assert granted == {("sqs:SendMessage", arn(prod.queues[queue])) for queue in machine.sends}


def test_a_request_can_be_followed_through_functions_and_workflows(prod: Synthesized) -> None:
    for function in prod.all("AWS::Lambda::Function").values():
        assert function["TracingConfig"] == {"Mode": "Active"}
    for machine in prod.all("AWS::StepFunctions::StateMachine").values():
        assert machine["TracingConfiguration"] == {"Enabled": True}


def test_a_workflows_log_is_named_anew_by_each_stack(prod: Synthesized) -> None:
    """Where logs outlive the stack, one that is made again would fail on the former one's."""
    for name, group in prod.all("AWS::Logs::LogGroup").items():
        assert "LogGroupName" not in group or "AWS::StackId" in text(group["LogGroupName"]), name


def test_a_workflow_logs_its_steps_without_their_data(prod: Synthesized) -> None:
    for machine in prod.all("AWS::StepFunctions::StateMachine").values():
        assert machine["LoggingConfiguration"]["Level"] == "ALL"
        assert machine["LoggingConfiguration"]["IncludeExecutionData"] is False


# Reading templates


def keys(schema: Resource) -> tuple[str, str]:
    by_type = {key["KeyType"]: key["AttributeName"] for key in schema["KeySchema"]}
    return by_type["HASH"], by_type["RANGE"]


@each_stage
def test_lines_of_requests_reach_the_request_log_where_the_stage_wants_it(
    stages: dict[str, Synthesized], stage: str
) -> None:
    made = stages[stage]
    found = made.all("AWS::Logs::SubscriptionFilter").values()
    if stage != "guarded":
        assert not found, "it is off by default"
        return
    logs = {made[made.functions[one.name]]["LoggingConfig"]["LogGroup"]["Ref"] for one in topology.LOGGED}
    assert {one["LogGroupName"]["Ref"] for one in found} == logs
    assert len(found) == len(logs) == 9
    own = made[made.functions["request_log"]]["LoggingConfig"]["LogGroup"]["Ref"]
    assert own not in logs, "the function would call itself"
    for one in found:
        assert one["FilterPattern"] == '{ $.message = "request" }'
        assert one["DestinationArn"] == made.live("request_log")
    permissions = [
        one for one in made.all("AWS::Lambda::Permission").values() if one["FunctionName"] == made.live("request_log")
    ]
    assert {one["Principal"] for one in permissions} == {"logs.amazonaws.com"}
    assert {one["SourceArn"]["Fn::GetAtt"][0] for one in permissions} == logs
    assert all(one["Action"] == "lambda:InvokeFunction" for one in permissions)
