"""The parts of the service, as plain data: both the stack and the local runner are built from these lists.

This module imports neither the AWS CDK nor `functions`, and of `shared` only constants. Each grant is listed once,
with the function that needs it. The stack creates the function's role from its grants. The environment variables with
the function's queues and state machines follow from the same lines (`Function.environment`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from shared.core.event_types import STREAM_KINDS
from shared.core.limits import TURNS_PER_PROJECT

ENTRY_POINT = "functions.entry.handler"
"""The handler that Lambda calls, in every function: it calls that of the function's module."""
DUE_SHARDS = 8
"""The partitions of the index `by_due`, unless a stage sets another number."""

MAXIMUM_CONCURRENCY = 1_000
"""The most batches of a queue that run at once, by a mapping's setting (Lambda developer guide, "Configuring maximum
concurrency for Amazon SQS event sources": docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html)."""

MODEL = ("bedrock:InvokeModel",)
USERS = ("cognito-idp:AdminCreateUser", "cognito-idp:AdminDeleteSoftwareToken")
NOTICES = ("sns:Publish",)
SECRET = ("secretsmanager:GetSecretValue",)
MESSENGER = ("social-messaging:SendWhatsAppMessage", "social-messaging:GetWhatsAppCallPermission")


@dataclass(frozen=True)
class Index:
    """A global secondary index of the table that contains keys only. Both keys are string attributes."""

    name: str
    hash_key: str
    range_key: str


@dataclass(frozen=True)
class Table:
    """The only table. `stream` is the stream view type. All keys are string attributes."""

    hash_key: str
    range_key: str
    indexes: tuple[Index, ...]
    ttl: str
    stream: str


@dataclass(frozen=True)
class Rule:
    """Events of other AWS services, by source and detail-type. `recordings` limits S3 events to that bucket."""

    source: str
    detail_types: tuple[str, ...]
    recordings: bool = False


@dataclass(frozen=True)
class Queue:
    """An SQS queue with a dead-letter queue of the same type beside it.

    `visibility_s` is at least six times the timeout of the function that reads the queue.
    `max_receives` is how often a message is received before it goes to the dead-letter queue. `retention_s` is how long
    it is kept at most; None stands for SQS's default of four days. If the queue has a
    `topic`, it receives what is published to that SNS topic. If it has `rules`, EventBridge sends it matching events.
    """

    name: str
    visibility_s: int
    fifo: bool = False
    max_receives: int = 10
    retention_s: int | None = None
    topic: str | None = None
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class StateMachine:
    """A Step Functions standard workflow; `definition` is a file in `infra/state_machines`.

    `stack.py` and the runner replace `${queue.NAME}` in the definition by the URL of queue NAME.
    """

    name: str
    definition: str
    sends: tuple[str, ...] = ()


@dataclass(frozen=True)
class QueueSource:
    """An event source mapping: `batch_size` messages of `queue` per invocation, at most `concurrency` invocations."""

    queue: str
    batch_size: int = 1
    concurrency: int = 10


@dataclass(frozen=True)
class StreamSource:
    """An event source mapping of the table's stream, for items whose `kind` is one of `kinds`, in order for each item.

    `parallel` batches of a shard are processed at once, each with different items. A failing batch is halved and
    retried until its records are `max_age_s` old, and then goes to the bucket of failed batches. The stream keeps
    records for 24 hours. `window_s` is the longest time for which records are collected into a batch.
    """

    kinds: tuple[str, ...]
    batch_size: int = 100
    parallel: int = 10
    window_s: float = 0
    max_age_s: int = 22 * 3_600


@dataclass(frozen=True)
class Grant:
    """Actions that a function may call on one type of resource. `name` is that of the queue or state machine."""

    on: Literal[
        "table",
        "indexes",
        "queue",
        "state_machine",
        "signing_key",
        "recordings",
        "failed_batches",
        "opt_outs",
        "model",
        "contacts",
        "whatsapp",
        "client_secret",
        "user_pool",
        "notices_topic",
    ]
    actions: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """What a deployment has that its functions use: names of resources (None if it has no such one), and settings."""

    table: str
    queues: Mapping[str, str]
    """A queue's URL by its name."""
    machines: Mapping[str, str]
    """A state machine's ARN by its name."""
    signing_key: str
    """The id or ARN of the key."""
    recordings: str
    """The name of the bucket, as that of the next two."""
    failed_batches: str
    erasures: str
    due_shards: int = DUE_SHARDS
    """The partitions of the index `by_due`."""
    turns_per_project: int = TURNS_PER_PROJECT
    """How many live messages of one project may be under way at once."""
    search: bool = True
    """Whether there are search rows (`shared/resources/search.py`)."""
    model: str | None = None
    """The id of a Bedrock model or inference profile."""
    carrier: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of live calls: `Stage.carrier` in `infra/stage.py`, which has the next two, too."""
    messenger: Mapping[str, str] = field(default_factory=dict)
    sign_in: Mapping[str, str] = field(default_factory=dict)
    notices_topic: str | None = None
    """The ARN of the topic for notices."""
    base_url: str | None = None
    """The API's URL."""
    support_contact: str | None = None
    """Where clients reach the operator, an e-mail address or a URL."""
    terms_url: str | None = None
    requests_per_second: int | None = None
    """API Gateway's limits for all projects together: this one, and that of each route that receives messages."""
    messages_per_second: int | None = None
    firewall: Mapping[str, int] = field(default_factory=dict)
    """The settings of the firewall; empty if there is none."""


@dataclass(frozen=True)
class Function:
    """One Lambda function: its size, what starts it, and what it may use."""

    name: str
    """Also that of its module in `functions`, which has its `handler`."""
    memory: int = 512
    """In MB. The functions use up to 82 (`make test-deploy` prints it). More memory provides a larger share of a CPU,
    and so shortens cold starts."""
    timeout_s: int = 29
    """The longest run."""

    # What starts it
    routes: tuple[str, ...] = ()
    """API Gateway resource paths, each with any method."""
    posts: tuple[str, ...] = ()
    """Resource paths of which it serves the POST, which waits many seconds for an agent. The gateway has separate
    limits for these. The function with the same path in `routes` serves the other methods."""
    queues: tuple[QueueSource, ...] = ()
    stream: StreamSource | None = None
    bot: bool = False
    """Whether Lex may invoke it."""
    every_s: int | None = None
    """The time between its scheduled runs."""
    switch: str = ""
    """The stage's setting that turns its schedule on; empty if it always is."""
    reads_logs: bool = False
    """Whether it gets the lines that requests leave in the logs of the API's functions, on stages with the setting
    `request_log`."""

    # What it may use
    table: tuple[str, ...] = ()
    """The DynamoDB actions on the table itself."""
    indexes: tuple[str, ...] = ()
    """The DynamoDB actions on the table's indexes."""
    sends: tuple[str, ...] = ()
    """Queues to which it sends."""
    starts: tuple[str, ...] = ()
    """State machines that it starts."""
    completes: tuple[str, ...] = ()
    """State machines whose waiting tasks it may complete."""
    signing_key: tuple[str, ...] = ()
    """KMS actions."""
    recordings: tuple[str, ...] = ()
    """S3 actions on recordings."""
    carrier: tuple[str, ...] = ()
    """Amazon Connect actions."""
    model: bool = False
    """Whether it may invoke the stage's Bedrock model."""
    messenger: bool = False
    """Whether it may send WhatsApp messages."""
    sign_in: bool = False
    """Whether people sign in to it, at the stage's OpenID Connect provider or user pool."""
    notices: bool = False
    """Whether it sends notices, on stages with `webhook_notices`."""
    calls_api: bool = False
    """Whether it calls the API, whose base URL it gets."""
    documents: bool = False
    """Whether it serves the documentation."""

    def concurrency(self, source: QueueSource, reserved: int | None) -> int:
        """The batches of one of its queues that may run at once.

        The first queue gets what the function's reserved concurrency has beyond the needs of all.
        """
        if reserved is None or source != self.queues[0]:
            return source.concurrency
        others = sum(each.concurrency for each in self.queues[1:])
        return min(reserved - others, MAXIMUM_CONCURRENCY)

    @property
    def module(self) -> str:
        """The module that has its `handler`."""
        return f"functions.{self.name}"

    @property
    def grants(self) -> tuple[Grant, ...]:
        """The permissions of the function's own calls, without those for its event sources and its log."""
        found = (
            Grant("table", self.table),
            Grant("indexes", self.indexes),
            *(Grant("queue", ("sqs:SendMessage",), name) for name in self.sends),
            *(Grant("state_machine", ("states:StartExecution",), name) for name in self.starts),
            *(Grant("state_machine", ("states:SendTaskSuccess",), name) for name in self.completes),
            Grant("signing_key", self.signing_key),
            Grant("recordings", self.recordings),
            Grant("failed_batches", ("s3:PutObject",) if self.stream else ()),
            Grant("opt_outs", ("s3:PutObject",) if self.stream else ()),
            Grant("model", MODEL if self.model else ()),
            Grant("contacts", self.carrier),
            Grant("whatsapp", MESSENGER if self.messenger else ()),
            Grant("client_secret", SECRET if self.sign_in else ()),
            Grant("user_pool", USERS if self.sign_in else ()),
            Grant("notices_topic", NOTICES if self.notices else ()),
        )
        return tuple(grant for grant in found if grant.actions)

    def environment(self, deployment: Deployment) -> dict[str, str]:
        """The environment variables of this function. They name only the resources that it may use."""
        found = {
            "TABLE_NAME": deployment.table,
            "DUE_SHARDS": str(deployment.due_shards),
            "SEARCH": "1" if deployment.search else "0",
            "SERVICE_NAME": self.name,
            # pydantic would read the metadata of every package in search of plug-ins.
            "PYDANTIC_DISABLE_PLUGINS": "__all__",
        }
        read = tuple(source.queue for source in self.queues)
        found |= {f"QUEUE_{name.upper()}": deployment.queues[name] for name in (*self.sends, *read)}
        found |= {f"STATE_MACHINE_{name.upper()}": deployment.machines[name] for name in self.starts}
        if self.signing_key:
            found["SIGNING_KEY"] = deployment.signing_key
        if self.recordings:
            found["RECORDINGS_BUCKET"] = deployment.recordings
        if self.stream:
            found |= {"FAILED_BATCHES_BUCKET": deployment.failed_batches, "ERASURES_BUCKET": deployment.erasures}
        if self.posts or self.documents:
            found["TURNS_PER_PROJECT"] = str(deployment.turns_per_project)
        optional = {
            "MODEL_ID": self.model and deployment.model,
            "BASE_URL": self.calls_api and deployment.base_url,
            "SUPPORT_CONTACT": self.documents and deployment.support_contact,
            "TERMS_URL": self.documents and deployment.terms_url,
            "REQUESTS_PER_SECOND": self.documents and deployment.requests_per_second,
            "MESSAGES_PER_SECOND": self.documents and deployment.messages_per_second,
            "FIREWALL_REQUESTS_PER_MINUTE": self.documents and deployment.firewall.get("requests_per_minute"),
            "FIREWALL_MESSAGES_PER_MINUTE": self.documents and deployment.firewall.get("messages_per_minute"),
            "NOTICES_TOPIC_ARN": self.notices and deployment.notices_topic,
        }
        found |= {name: str(value) for name, value in optional.items() if value}
        if self.carrier:
            found |= deployment.carrier
        if self.messenger:
            found |= deployment.messenger
        if self.sign_in:
            found |= deployment.sign_in
        return found


TABLE = Table(
    hash_key="pk",
    range_key="sk",
    indexes=(
        # The rows of a filter by id, newest last. The partition is scope, kind, field and hashed value.
        *(Index(name=f"by_f{n}", hash_key=f"f{n}", range_key="sk") for n in range(1, 5)),
        # The same by time: t0 has all rows of a kind in a scope, and t1-t4 have the partitions of f1-f4.
        *(Index(name=f"by_t{n}", hash_key=f"t{n}", range_key="sort_time") for n in range(5)),
        # Scheduled steps, by the time from which `sweep` may send another wake-up.
        Index(name="by_due", hash_key="due_shard", range_key="due"),
    ),
    ttl="expires_at",
    stream="NEW_AND_OLD_IMAGES",
)

QUEUES = (
    # First attempts, in order for each message group. `shared/webhooks/queues.py` says which delivery uses which queue.
    Queue("deliveries", visibility_s=240, fifo=True),
    # Attempts to slow endpoints: unordered, fair between endpoints.
    Queue("slow_deliveries", visibility_s=240),
    # Attempts to hanging endpoints. A message group is an endpoint, so that each has one attempt at a time. The
    # queue stays short, because SQS looks for other groups only among the first 120,000 messages of a FIFO queue.
    Queue("hanging_deliveries", visibility_s=240, fifo=True, retention_s=900),
    # First attempts of manual retries and test events to hanging endpoints: unordered, fair between endpoints.
    Queue("manual_deliveries", visibility_s=240),
    # Later attempts, manual retries, test events, and overdue attempts found by `sweep`.
    Queue("retries", visibility_s=240),
    # Replays of an endpoint's failed deliveries.
    Queue("replays", visibility_s=360),
    # Turns of messages: those that their requests do not finish, and those that must be given up.
    Queue("turns", visibility_s=420),
    # Calls whose next step is due.
    Queue("dials", visibility_s=360),
    # Requests for consent that are due or expired, and customers' answers on WhatsApp.
    Queue("consents", visibility_s=240, topic="whatsapp"),
    # Call events of Amazon Connect, and the recordings and transcripts that it stores in the bucket.
    Queue(
        "call_events",
        visibility_s=240,
        rules=(
            Rule("aws.connect", ("Amazon Connect Contact Event", "Contact Event")),
            Rule("aws.s3", ("Object Created",), recordings=True),
        ),
    ),
)

STATE_MACHINES = (
    # Waits for more than 900 s, then sends a message to `retries`.
    StateMachine("delayed_delivery", definition="delayed_delivery.asl.json", sends=("retries",)),
    # Sends the wake-up to ask a customer for consent, and another one if there is no answer within seven days.
    StateMachine("call_consent", definition="call_consent.asl.json", sends=("consents",)),
)

UPDATE = ("dynamodb:UpdateItem",)
QUERY = ("dynamodb:Query",)
READ = ("dynamodb:GetItem", "dynamodb:BatchGetItem", *QUERY)
WRITE = ("dynamodb:PutItem",)
DELETE = ("dynamodb:DeleteItem",)
CHECK = ("dynamodb:ConditionCheckItem",)

FUNCTIONS = (
    Function("ping", routes=("/v1/ping",), table=UPDATE),
    Function(
        "agent_settings",
        routes=("/v1/agent_settings",),
        table=("dynamodb:GetItem", "dynamodb:BatchGetItem", *UPDATE, *WRITE),
    ),
    Function(
        "customers",
        routes=("/v1/customers", "/v1/customers/{id}", "/v1/customers/{id}/{proxy+}"),
        table=UPDATE + READ + WRITE + CHECK + DELETE,
        indexes=QUERY,
        sends=("dials",),
    ),
    Function(
        "appointments",
        routes=("/v1/appointments", "/v1/appointments/{proxy+}"),
        table=UPDATE + READ + WRITE + CHECK + DELETE,
        indexes=QUERY,
    ),
    Function(
        "conversations",
        routes=(
            "/v1/conversations",
            "/v1/conversations/{id}",
            "/v1/conversations/{id}/{proxy+}",
            "/v1/conversations/{id}/messages",
        ),
        table=UPDATE + READ + WRITE + CHECK + DELETE,
        indexes=QUERY,
    ),
    Function(
        "messages",
        routes=("/v1/messages",),
        posts=("/v1/messages", "/v1/conversations/{id}/messages"),
        table=UPDATE + READ + WRITE + CHECK + DELETE,
        indexes=QUERY,
        sends=("turns", "dials"),
        model=True,
    ),
    # It also serves the route that calls a customer, so that `customers` needs no permission to read limits and to ask
    # for consent.
    Function(
        "sessions",
        routes=("/v1/sessions", "/v1/sessions/{proxy+}", "/v1/customers/{id}/call"),
        table=UPDATE + READ + WRITE,
        indexes=QUERY,
        sends=("dials",),
        starts=("call_consent",),
        recordings=("s3:GetObject",),
    ),
    Function(
        "webhook_endpoints",
        routes=("/v1/webhook_endpoints", "/v1/webhook_endpoints/{proxy+}"),
        table=(*UPDATE, "dynamodb:GetItem", *QUERY, *WRITE, *CHECK, *DELETE),
        sends=("retries",),
        signing_key=("kms:Encrypt",),
    ),
    Function(
        "events",
        routes=("/v1/events", "/v1/events/{proxy+}"),
        table=UPDATE + READ + WRITE + CHECK,
        indexes=QUERY,
        sends=("retries",),
    ),
    Function(
        "admin",
        routes=("/admin", "/admin/{proxy+}"),
        table=(*READ, *WRITE, *CHECK, *DELETE, "dynamodb:UpdateItem"),
        indexes=QUERY,
        sends=("retries", "replays", "dials"),
        starts=("call_consent",),
        signing_key=("kms:Encrypt",),
        recordings=("s3:GetObject",),
        sign_in=True,
    ),
    # `/v1` must be listed: API Gateway creates it as a parent resource, so `/{proxy+}` does not match it.
    Function("fallback", routes=("/", "/{proxy+}", "/v1", "/v1/{proxy+}"), documents=True),
    Function(
        "fan_out",
        timeout_s=60,
        table=("dynamodb:GetItem", *QUERY, *WRITE),
        sends=("deliveries", "slow_deliveries", "hanging_deliveries"),
        stream=StreamSource(kinds=STREAM_KINDS),
    ),
    Function(
        "deliver",
        timeout_s=40,
        table=("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:UpdateItem", *CHECK),
        sends=("retries", "slow_deliveries", "hanging_deliveries", "manual_deliveries"),
        starts=("delayed_delivery",),
        signing_key=("kms:Decrypt",),
        notices=True,
        queues=(
            QueueSource("deliveries", batch_size=10, concurrency=120),
            # These are the shares of all slow endpoints together, and of all hanging ones.
            QueueSource("slow_deliveries", batch_size=10, concurrency=40),
            QueueSource("hanging_deliveries", batch_size=10, concurrency=10),
            QueueSource("manual_deliveries", batch_size=10, concurrency=10),
            QueueSource("retries", batch_size=10, concurrency=50),
        ),
    ),
    Function(
        "replay",
        timeout_s=60,
        table=(*READ, "dynamodb:UpdateItem", *WRITE, *CHECK),
        indexes=QUERY,
        sends=("retries", "replays"),
        queues=(QueueSource("replays", concurrency=5),),
    ),
    Function(
        "turn",
        timeout_s=70,
        table=(*READ, *WRITE, *CHECK, *DELETE, "dynamodb:UpdateItem"),
        indexes=QUERY,
        sends=("turns", "dials"),
        model=True,
        queues=(QueueSource("turns", concurrency=100),),
    ),
    Function(
        "dial",
        timeout_s=60,
        table=(*READ, "dynamodb:UpdateItem", *WRITE, *CHECK, *DELETE),
        indexes=QUERY,
        sends=("dials",),
        recordings=("s3:PutObject",),
        carrier=("connect:StartOutboundVoiceContact", "connect:DescribeContact", "connect:StopContact"),
        queues=(QueueSource("dials", concurrency=50),),
    ),
    Function(
        "consent",
        timeout_s=40,
        table=("dynamodb:GetItem", "dynamodb:BatchGetItem", *QUERY, "dynamodb:UpdateItem", *WRITE),
        sends=("consents", "dials"),
        completes=("call_consent",),
        messenger=True,
        queues=(QueueSource("consents", concurrency=20),),
    ),
    Function(
        "call_events",
        timeout_s=40,
        table=("dynamodb:GetItem", "dynamodb:UpdateItem", *WRITE),
        sends=("dials",),
        recordings=("s3:GetObject", "s3:DeleteObject"),
        carrier=("connect:GetContactAttributes", "connect:DescribeContact", "connect:StopContact"),
        queues=(QueueSource("call_events", concurrency=20),),
    ),
    Function(
        "voice_turn",
        table=("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:UpdateItem", *WRITE, *CHECK),
        indexes=QUERY,
        sends=("dials",),
        model=True,
        bot=True,
    ),
    Function(
        "sweep",
        # A whole core, because CPU time limits the rows per second.
        memory=1769,
        # It works for 50 s. Each call has up to 40 s to end.
        timeout_s=90,
        table=("dynamodb:BatchGetItem", "dynamodb:UpdateItem"),
        indexes=QUERY,
        sends=("retries", "replays", "turns", "dials", "consents"),
        every_s=60,
    ),
    # Stores the API requests of the last day, from their log lines.
    Function("request_log", table=WRITE, reads_logs=True),
    # Tests the stage as a client: calls its API with a key of its own, and has a webhook sent to `canary_receiver`.
    Function(
        "canary",
        timeout_s=60,
        table=(
            "dynamodb:BatchGetItem",
            "dynamodb:GetItem",
            "dynamodb:UpdateItem",
            *QUERY,
            *WRITE,
            *DELETE,
        ),
        every_s=300,
        switch="canary",
        calls_api=True,
    ),
    Function(
        "canary_receiver",
        routes=("/canary", "/canary/{proxy+}"),
        table=("dynamodb:GetItem", "dynamodb:UpdateItem"),
    ),
)

LOGGED = tuple(one for one in FUNCTIONS if one.table and any(route.startswith("/v1/") for route in one.routes))
"""The functions of the API's operations: `fallback` has none, and reads no API keys."""
