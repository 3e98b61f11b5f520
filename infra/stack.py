"""The service on AWS: one stack, created from `topology.py` without special cases for single functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from aws_cdk import CfnOutput, Duration, Environment, Fn, NestedStack, RemovalPolicy, Stack, Tags
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_logs_destinations as destinations
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra import alarms, backup, buckets, contact_center, dashboard, gateway, people, releases, topology
from infra.stack_names import (
    ADMIN_OUTPUT,
    API_OUTPUT,
    DUE_SHARDS_OUTPUT,
    ERASURES_OUTPUT,
    FAILURES_OUTPUT,
    FAN_OUT_OUTPUT,
    FIRST_KEY_OUTPUT,
    LIVE,
    RECORDINGS_OUTPUT,
    SERVICE,
    SIGNING_KEY_OUTPUT,
    TABLE_OUTPUT,
    USER_POOL_OUTPUT,
    construct_id,
    stack_name,
)
from infra.stage import INFERENCE_GEOGRAPHIES, Stage
from infra.topology import Function, Grant, QueueSource, StreamSource
from shared.core import limits
from shared.core.metrics import REQUEST_LINE

STATE_MACHINES = Path(__file__).parent / "state_machines"

DEAD_LETTERS_KEPT = Duration.days(14)
FAILED_BATCHES_KEPT = Duration.days(90)

QUEUE_READER = (
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
    # Lambda does not need this. The functions make a failed message visible again before its timeout.
    "sqs:ChangeMessageVisibility",
)
STREAM_READER = ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator")
STREAM_FINDER = ("dynamodb:ListStreams",)
LOG_WRITER = ("logs:CreateLogStream", "logs:PutLogEvents")


class ServiceStack(Stack):
    """All resources of one stage, except its copies of backups."""

    def __init__(self, scope: Construct, *, stage: Stage, code: lambda_.Code) -> None:
        super().__init__(
            scope,
            stack_name(stage.name),
            description="Appointments, calls and conversations as an HTTP API",
            env=Environment(account=stage.account, region=stage.region),
            termination_protection=stage.keep_data,
        )
        self.stage = stage
        Tags.of(self).add("service", SERVICE)
        Tags.of(self).add("stage", stage.name)

        self._stores()
        self.notified = alarms.topics(self, stage)
        self.people = None if stage.oidc else people.user_pool(self, stage)
        self.functions = {function.name: self._function(function, code) for function in topology.FUNCTIONS}
        self.aliases = {function.name: self._alias(function) for function in topology.FUNCTIONS}
        self._contact_center()
        access_log = self._log_group("AccessLog", retention=stage.access_log_retention)
        self.api = gateway.rest_api(self, stage, self.aliases, access_log)
        for function in topology.FUNCTIONS:
            if function.calls_api:
                self.functions[function.name].add_environment("BASE_URL", gateway.address(stage, self.api))
        self._sign_in()
        copied = backup.back_up(self, stage, stage.backup, self.table, self.erasures) if stage.backup else None
        self._watch(access_log, copied)
        if stage.traffic_shift:
            releases.shift_gradually(
                self, stage.traffic_shift, functions=self.functions, aliases=self.aliases, table=self.table
            )
        if stage.monthly_budget and self.notified:
            alarms.budget(self, stage.monthly_budget, self.notified.later)
        self._outputs()

    def _stores(self) -> None:
        """Create what keeps data or messages, and what the functions call."""
        self.table = self._table()
        self.signing_key = self._signing_key()
        self.recordings = self._recordings()
        self.rules: dict[str, events.Rule] = {}
        self.topics: dict[str, sns.Topic] = {}
        self.queues = {queue.name: self._queue(queue) for queue in topology.QUEUES}
        self.machines = {machine.name: self._machine(machine) for machine in topology.STATE_MACHINES}
        self.failed_batches = self._failed_batches()
        self.erasures = self._erasures()

    def _watch(self, access_log: logs.LogGroup, copied: backup.Copied | None) -> None:
        """Create the alarms and the dashboard, in a nested stack.

        A stack may have 500 resources (CloudFormation user guide, "Understand CloudFormation quotas":
        docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html). A nested stack has its own
        500, and is deployed and rolled back with its parent.
        """
        self.watch = NestedStack(self, "Watch", description="Alarms and dashboard")
        parts = alarms.Parts(
            table=self.table,
            queues=self.queues,
            machines=self.machines,
            functions=self.functions,
            rules=self.rules,
            topics=self.topics,
            api=self.api,
            access_log=access_log,
            copied=copied,
            notified=self.notified,
        )
        watched = alarms.watch(self, self.watch, parts)
        dashboard.draw(self, self.watch, parts, watched)

    def _outputs(self) -> None:
        """Create the outputs by which people and the operator's commands find the stage's resources."""
        CfnOutput(self, API_OUTPUT, value=gateway.url(self.stage, self.api))
        CfnOutput(self, TABLE_OUTPUT, value=self.table.table_name)
        CfnOutput(self, DUE_SHARDS_OUTPUT, value=str(self.stage.due_shards))
        CfnOutput(self, FAILURES_OUTPUT, value=self.failed_batches.bucket_name)
        CfnOutput(self, RECORDINGS_OUTPUT, value=self.recordings.bucket_name)
        CfnOutput(self, ERASURES_OUTPUT, value=self.erasures.bucket_name)
        CfnOutput(self, SIGNING_KEY_OUTPUT, value=self.signing_key.key_arn)
        for function in topology.FUNCTIONS:
            if function.stream:
                CfnOutput(self, FAN_OUT_OUTPUT, value=self.aliases[function.name].function_arn)
        CfnOutput(
            self,
            FIRST_KEY_OUTPUT,
            description="Creates the first project. Then run: keys create PROJECT --mode test",
            value=f".venv/bin/python -m infra.manage --stage {self.stage.name} projects create NAME",
        )

    def _signing_key(self) -> kms.IKey:
        """The key of the webhook endpoints' secrets, or its replica if the region of the stage was lost.

        A key becomes a multi-Region key only when it is created (KMS developer guide, "How multi-Region keys work":
        docs.aws.amazon.com/kms/latest/developerguide/mrk-how-it-works.html).
        """
        if self.stage.signing_key:
            return kms.Key.from_key_arn(self, "ReplicatedSigningKey", self.stage.signing_key)
        return kms.Key(
            self,
            "MultiRegionSigningKey",
            description="Encrypts the webhook endpoints' signing secrets",
            multi_region=True,
            enable_key_rotation=True,
            removal_policy=self.stage.removal,
        )

    def _table(self) -> dynamodb.Table | dynamodb.TableV2:
        """The table: a global table if the stage has a replica.

        CloudFormation cannot turn one type into the other, so each has a logical id of its own (CloudFormation template
        reference, "AWS::DynamoDB::GlobalTable":
        docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-dynamodb-globaltable.html).
        """

        def string(name: str) -> dynamodb.Attribute:
            return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)

        recovery = dynamodb.PointInTimeRecoverySpecification(point_in_time_recovery_enabled=True)
        common: dict[str, Any] = {
            "partition_key": string(topology.TABLE.hash_key),
            "sort_key": string(topology.TABLE.range_key),
            "time_to_live_attribute": topology.TABLE.ttl,
            "point_in_time_recovery_specification": recovery,
            "warm_throughput": self._warm("table"),
            "deletion_protection": self.stage.keep_data,
            "removal_policy": self.stage.removal,
        }
        stream = dynamodb.StreamViewType[topology.TABLE.stream]
        table: dynamodb.Table | dynamodb.TableV2
        if self.stage.replica_region:
            replica = dynamodb.ReplicaTableProps(
                region=self.stage.replica_region,
                deletion_protection=self.stage.keep_data,
                point_in_time_recovery_specification=recovery,
            )
            table = dynamodb.TableV2(
                self,
                "GlobalTable",
                billing=dynamodb.Billing.on_demand(),
                dynamo_stream=stream,
                replicas=[replica],
                **common,
            )
        else:
            table = dynamodb.Table(
                self, "Table", billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST, stream=stream, **common
            )
        for index in topology.TABLE.indexes:
            table.add_global_secondary_index(
                index_name=index.name,
                partition_key=string(index.hash_key),
                sort_key=string(index.range_key),
                projection_type=dynamodb.ProjectionType.KEYS_ONLY,
                warm_throughput=self._warm(index.name),
            )
        return table

    def _warm(self, name: str) -> dynamodb.WarmThroughput | None:
        """The warm throughput of the table or an index, if the stage sets it."""
        wanted = self.stage.warm_throughput.get(name)
        if wanted is None:
            return None
        return dynamodb.WarmThroughput(read_units_per_second=wanted.reads, write_units_per_second=wanted.writes)

    def _queue(self, queue: topology.Queue) -> sqs.Queue:
        """Create the queue and its dead-letter queue."""
        ordered: dict[str, Any] = {}
        if queue.fifo:
            # The throughput limit applies to each message group, so the queue has no common limit.
            ordered = {
                "fifo": True,
                "deduplication_scope": sqs.DeduplicationScope.MESSAGE_GROUP,
                "fifo_throughput_limit": sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
            }
        dead_letters = sqs.Queue(
            self,
            f"{construct_id(queue.name)}DeadLetters",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=DEAD_LETTERS_KEPT,
            **ordered,
        )
        made = sqs.Queue(
            self,
            f"{construct_id(queue.name)}Queue",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            visibility_timeout=Duration.seconds(queue.visibility_s),
            retention_period=Duration.seconds(queue.retention_s) if queue.retention_s else None,
            dead_letter_queue=sqs.DeadLetterQueue(queue=dead_letters, max_receive_count=queue.max_receives),
            **ordered,
        )
        if queue.topic:
            self._subscribe(queue.topic, made)
        for rule in queue.rules:
            self._route(rule, made, dead_letters)
        return made

    def _subscribe(self, name: str, queue: sqs.Queue) -> None:
        """Create an SNS topic for End User Messaging Social, whose messages arrive in the queue unchanged."""
        publisher = iam.ServicePrincipal("social-messaging.amazonaws.com")
        ours = {"StringEquals": {"aws:SourceAccount": self.account}}
        # AWS's own key for SNS does not let another service publish.
        key = kms.Key(
            self,
            f"{construct_id(name)}Key",
            description=f"Encrypts messages in the topic {name}",
            enable_key_rotation=True,
            removal_policy=self.stage.removal,
        )
        key.add_to_resource_policy(
            iam.PolicyStatement(
                actions=["kms:GenerateDataKey", "kms:Decrypt"],
                resources=["*"],
                principals=[publisher],
                conditions=ours,
            )
        )
        topic = self.topics[name] = sns.Topic(self, f"{construct_id(name)}Topic", enforce_ssl=True, master_key=key)
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                actions=["sns:Publish"], resources=[topic.topic_arn], principals=[publisher], conditions=ours
            )
        )
        topic.add_subscription(subscriptions.SqsSubscription(queue, raw_message_delivery=True))
        CfnOutput(self, f"{construct_id(name)}TopicArn", value=topic.topic_arn)

    def _route(self, rule: topology.Rule, queue: sqs.Queue, dead_letters: sqs.Queue) -> None:
        """Create an EventBridge rule that sends matching events to the queue, and failed ones to its dead-letter queue.

        Amazon Connect publishes events of all instances in the account. A stage without an instance has no such rule.
        """
        if rule.recordings:
            detail: dict[str, Any] = {"bucket": {"name": [self.recordings.bucket_name]}}
        elif self.stage.connect:
            detail = {"instanceArn": [self._instance_arn()]}
        else:
            return
        _, _, service = rule.source.partition(".")
        self.rules[service] = events.Rule(
            self,
            f"{construct_id(service)}Events",
            event_pattern=events.EventPattern(source=[rule.source], detail_type=[*rule.detail_types], detail=detail),
            targets=[targets.SqsQueue(queue, dead_letter_queue=dead_letters)],
        )

    def _machine(self, machine: topology.StateMachine) -> sfn.StateMachine:
        definition = (STATE_MACHINES / machine.definition).read_text(encoding="utf-8")
        for name in machine.sends:
            definition = definition.replace(f"${{queue.{name}}}", self.queues[name].queue_url)
        made = sfn.StateMachine(
            self,
            construct_id(machine.name),
            definition_body=sfn.DefinitionBody.from_string(definition),
            logs=sfn.LogOptions(
                # The prefix saves an entry in the account's log resource policy, whose size is limited.
                # The name contains the stack's unique id, so it does not conflict with kept logs of an earlier stack.
                destination=self._log_group(
                    f"{construct_id(machine.name)}Log",
                    name=f"/aws/vendedlogs/states/{self.stack_name}/{machine.name}/{self._instance}",
                ),
                level=sfn.LogLevel.ALL,
                include_execution_data=False,
            ),
            tracing_enabled=True,
        )
        if machine.sends:
            made.add_to_role_policy(
                _allow(("sqs:SendMessage",), (self.queues[name].queue_arn for name in machine.sends))
            )
        return made

    def _recordings(self) -> s3.Bucket:
        """The bucket of call recordings. It remains when the stage is deleted, because it may not be empty."""
        bucket = buckets.private(
            self, "Recordings", Duration.days(limits.RECORDINGS_KEPT_DAYS), RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
        )
        # Set on the resource, because the construct's property would add a function that sets it.
        made = bucket.node.default_child
        assert isinstance(made, s3.CfnBucket)
        made.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
        )
        return bucket

    def _failed_batches(self) -> s3.Bucket:
        """The bucket of batches that a function could not process; `infra.manage redrive-stream` retries them."""
        return buckets.private(self, "FailedBatches", FAILED_BATCHES_KEPT, self.stage.removal)

    def _erasures(self) -> s3.Bucket:
        """The bucket of the ledger of erased customers and opt-outs, which contains only ids and hashes.

        It must outlive every backup. Nothing in it expires, what is overwritten is kept, and it remains when the stage
        is deleted.
        """
        bucket = buckets.private(self, "Erasures", None, RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE, versioned=True)
        if self.stage.backup:
            backup.replicate_ledger(self, self.stage, self.stage.backup, bucket)
        return bucket

    def _function(self, function: Function, code: lambda_.Code) -> lambda_.Function:
        log = self._log_group(f"{construct_id(function.name)}Log")
        role = iam.Role(
            self,
            f"{construct_id(function.name)}Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Permissions of {function.name}",
        )
        for statement in self._grants(function, log):
            role.add_to_policy(statement)
        reads = {source.queue for source in function.queues}
        return lambda_.Function(
            self,
            construct_id(function.name),
            handler=topology.ENTRY_POINT,
            code=code,
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            memory_size=function.memory,
            timeout=Duration.seconds(function.timeout_s),
            environment=function.environment(self._deployment()) | {"LOG_LEVEL": self.stage.log_level},
            role=role,
            log_group=log,
            # Lambda traces one request per second and 5 % of the rest, without any code or import in the function.
            tracing=lambda_.Tracing.ACTIVE,
            reserved_concurrent_executions=self.stage.reserved_concurrency.get(function.name),
            # By default, Lambda drops a message that was passed on about sixteen times, as a recursive loop.
            # A function that sends to a queue that it reads limits its attempts itself.
            recursive_loop=lambda_.RecursiveLoop.ALLOW if reads & {*function.sends} else None,
            # `infra.rollback` goes back to previous versions, and `infra.deploy` deletes those that are not needed.
            current_version_options=lambda_.VersionOptions(removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE),
        )

    def _deployment(self) -> topology.Deployment:
        """What the functions are told. The API's address follows, because the API refers to the functions."""
        return topology.Deployment(
            table=self.table.table_name,
            queues={name: queue.queue_url for name, queue in self.queues.items()},
            machines={name: machine.state_machine_arn for name, machine in self.machines.items()},
            signing_key=self.signing_key.key_arn,
            recordings=self.recordings.bucket_name,
            failed_batches=self.failed_batches.bucket_name,
            erasures=self.erasures.bucket_name,
            due_shards=self.stage.due_shards,
            turns_per_project=self.stage.turns_per_project,
            search=self.stage.search,
            model=self.stage.model,
            carrier=self.stage.carrier,
            messenger=self.stage.messenger,
            sign_in=self.stage.sign_in,
            notices_topic=self._notices_topic(),
            support_contact=self.stage.support_contact,
            terms_url=self.stage.terms_url,
            requests_per_second=self.stage.requests_per_second,
            messages_per_second=self.stage.messages_per_second,
            firewall=self.stage.wall.model_dump() if self.stage.wall else {},
        )

    def _alias(self, function: Function) -> lambda_.Alias:
        """Create the function's alias, and everything that starts it except the API's methods and the bot."""
        live = lambda_.Alias(
            self,
            f"{construct_id(function.name)}Live",
            alias_name=LIVE,
            version=self.functions[function.name].current_version,
            # A scheduled function runs again soon, so Lambda does not need to retry a failed run.
            retry_attempts=0 if function.every_s else None,
        )
        for source in function.queues:
            self._read_queue(function, live, source)
        if function.bot:
            live.add_permission(
                "Bot",
                principal=iam.ServicePrincipal("lexv2.amazonaws.com"),
                source_account=self.account,
                source_arn=self.format_arn(service="lex", resource="bot-alias/*"),
            )
        if function.stream:
            self._read_stream(function, live, function.stream)
        if function.reads_logs and self.stage.request_log:
            self._read_logs(live)
        if function.every_s and self.stage.runs(function):
            self.rules[function.name] = events.Rule(
                self,
                f"{construct_id(function.name)}Schedule",
                schedule=events.Schedule.rate(Duration.seconds(function.every_s)),
                targets=[targets.LambdaFunction(live)],
            )
        return live

    def _grants(self, function: Function, log: logs.LogGroup) -> Iterable[iam.PolicyStatement]:
        """All permissions of the function: those for its log and its event sources, and its grants in the topology."""
        yield _allow(LOG_WRITER, [log.log_group_arn])
        for grant in function.grants:
            if resources := self._resources(grant):
                yield _allow(grant.actions, resources)
        if function.queues:
            yield _allow(QUEUE_READER, (self.queues[source.queue].queue_arn for source in function.queues))
        if function.stream:
            yield _allow(STREAM_READER, [self._stream_arn])
            yield _allow(STREAM_FINDER, [f"{self.table.table_arn}/stream/*"])
            # Lambda writes to the on-failure destination with the function's role, and needs this, too.
            yield _allow(("s3:ListBucket",), [self.failed_batches.bucket_arn])

    def _resources(self, grant: Grant) -> list[str]:
        """The ARNs of the resources of a grant; none if the stage has no such resource."""
        resources: dict[str, Callable[[], list[str]]] = {
            "table": lambda: [self.table.table_arn],
            "indexes": lambda: [f"{self.table.table_arn}/index/*"],
            "queue": lambda: [self.queues[grant.name].queue_arn],
            "state_machine": lambda: [self.machines[grant.name].state_machine_arn],
            "signing_key": lambda: [self.signing_key.key_arn],
            "recordings": lambda: [self.recordings.arn_for_objects("*")],
            "failed_batches": lambda: [self.failed_batches.arn_for_objects("*")],
            "opt_outs": lambda: [self.erasures.arn_for_objects("opt_outs/*")],
            "model": self._model_arns,
            "contacts": lambda: [f"{self._instance_arn()}/contact/*"] if self.stage.connect else [],
            "whatsapp": lambda: [self._phone_number_arn()] if self.stage.whatsapp else [],
            "client_secret": self._client_secret_arns,
            "user_pool": lambda: [people.arn(self.people)] if self.people else [],
            "notices_topic": lambda: [topic] if (topic := self._notices_topic()) else [],
        }
        return resources[grant.on]()

    def _notices_topic(self) -> str | None:
        return self.notified.later.topic_arn if self.notified and self.stage.webhook_notices else None

    def _client_secret_arns(self) -> list[str]:
        secret = self.stage.oidc and self.stage.oidc.client_secret_arn
        return [secret] if secret else []

    def _model_arns(self) -> list[str]:
        """The ARN of the stage's model; for an inference profile (`eu.…`), the profile and the model in all regions."""
        geography, _, rest = self.stage.model.partition(".")
        if geography not in INFERENCE_GEOGRAPHIES:
            return [self.format_arn(service="bedrock", account="", resource=f"foundation-model/{self.stage.model}")]
        profile = self.format_arn(service="bedrock", resource=f"inference-profile/{self.stage.model}")
        return [profile, f"arn:{self.partition}:bedrock:*::foundation-model/{rest}"]

    def _instance_arn(self) -> str:
        return contact_center.instance_arn(self, self.stage.carrier["CONNECT_INSTANCE_ID"])

    def _contact_center(self) -> None:
        """Create the resources in the Amazon Connect instance that the stage's settings request."""
        if self.stage.creates_flow:
            (hook,) = (self.aliases[function.name] for function in topology.FUNCTIONS if function.bot)
            records = self.stage.connect is not None and self.stage.connect.record_calls
            flow_id = contact_center.contact_flow(self, self._instance_arn(), hook, records=records)
            for function in topology.FUNCTIONS:
                if function.carrier:
                    self.functions[function.name].add_environment("CONNECT_CONTACT_FLOW_ID", flow_id)
        if self.stage.connect and self.stage.connect.store_recordings:
            contact_center.keep_recordings(self, self._instance_arn(), self.recordings)

    def _sign_in(self) -> None:
        """Make the admin pages a client of the stack's user pool, unless the stage has another provider."""
        address = gateway.address(self.stage, self.api)
        CfnOutput(self, ADMIN_OUTPUT, value=f"{address}/admin")
        if self.people is None:
            return
        sign_in = f"{address}/admin/sign-in"
        client_id = people.client(self.people, redirect_uri=f"{sign_in}/callback", signed_out_uri=sign_in)
        CfnOutput(self, USER_POOL_OUTPUT, value=self.people.user_pool_id)
        for function in topology.FUNCTIONS:
            if function.sign_in:
                made = self.functions[function.name]
                made.add_environment("USER_POOL_ID", self.people.user_pool_id)
                made.add_environment("OIDC_ISSUER", self.people.user_pool_provider_url)
                made.add_environment("OIDC_CLIENT_ID", client_id)

    def _phone_number_arn(self) -> str:
        """The ARN of the stage's WhatsApp number. The setting is its id or its ARN."""
        given = self.stage.messenger["WHATSAPP_PHONE_NUMBER_ID"]
        if given.startswith("arn:"):
            return given
        resource = f"phone-number-id/{given.removeprefix('phone-number-id-')}"
        return self.format_arn(service="social-messaging", resource=resource)

    def _read_queue(self, function: Function, live: lambda_.Alias, source: QueueSource) -> None:
        lambda_.CfnEventSourceMapping(
            self,
            f"{construct_id(function.name)}From{construct_id(source.queue)}",
            function_name=live.function_arn,
            event_source_arn=self.queues[source.queue].queue_arn,
            batch_size=source.batch_size,
            scaling_config={
                "maximumConcurrency": function.concurrency(source, self.stage.reserved_concurrency.get(function.name))
            },
            function_response_types=["ReportBatchItemFailures"],
        )

    def _read_logs(self, live: lambda_.Alias) -> None:
        """Subscribe the function to the lines of requests in the logs of the API's functions.

        A log group can have two subscriptions, of which this is one (CloudWatch Logs user guide, "CloudWatch Logs
        quotas"). The destination lets only these log groups call the function.
        """
        pattern = logs.FilterPattern.string_value("$.message", "=", REQUEST_LINE)
        for function in topology.LOGGED:
            logs.SubscriptionFilter(
                self,
                f"{construct_id(function.name)}Requests",
                log_group=self.functions[function.name].log_group,
                destination=destinations.LambdaDestination(live),
                filter_pattern=pattern,
            )

    def _read_stream(self, function: Function, live: lambda_.Alias, source: StreamSource) -> None:
        # An inserted item has only a new image, and a deleted item only an old one.
        patterns = [{"dynamodb": {image: {"kind": {"S": [*source.kinds]}}}} for image in ("NewImage", "OldImage")]
        lambda_.CfnEventSourceMapping(
            self,
            f"{construct_id(function.name)}FromTable",
            function_name=live.function_arn,
            event_source_arn=self._stream_arn,
            starting_position="TRIM_HORIZON",
            batch_size=source.batch_size,
            parallelization_factor=source.parallel,
            maximum_batching_window_in_seconds=source.window_s,
            bisect_batch_on_function_error=True,
            # Hours of trouble need no human: -1 retries a record until it is too old (Lambda developer guide, "Lambda
            # parameters for Amazon DynamoDB event source mappings").
            maximum_retry_attempts=-1,
            maximum_record_age_in_seconds=source.max_age_s,
            function_response_types=["ReportBatchItemFailures"],
            filter_criteria={"filters": [{"pattern": json.dumps(pattern)} for pattern in patterns]},
            destination_config={"onFailure": {"destination": self.failed_batches.bucket_arn}},
            # Without this, CloudWatch has no metric of the batches that go to the destination.
            metrics_config={"metrics": ["EventCount"]},
        )

    @property
    def _instance(self) -> str:
        """The unique id of this stack, which no other stack of this name has: arn:…:stack/NAME/INSTANCE."""
        return Fn.select(2, Fn.split("/", self.stack_id))

    @property
    def _stream_arn(self) -> str:
        arn = self.table.table_stream_arn
        assert arn, "the table has a stream"
        return arn

    def _log_group(self, name_here: str, *, name: str | None = None, retention: str | None = None) -> logs.LogGroup:
        return logs.LogGroup(
            self,
            name_here,
            log_group_name=name,
            retention=logs.RetentionDays[retention or self.stage.log_retention],
            removal_policy=self.stage.removal,
        )


def _allow(actions: Iterable[str], resources: Iterable[str]) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=[*actions], resources=[*resources])
