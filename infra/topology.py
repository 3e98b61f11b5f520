"""What the service consists of, as plain data: the one list that the stack and the local runner loop over.

Nothing here imports the AWS CDK or `functions`, and of `shared` only the facts. A grant is written once, beside the
function that needs it; the stack turns it into that function's role, and the environment variables that a function
finds its queues and machines by follow from the same lines (`Function.environment`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.core.facts import STREAM_KINDS

MESSAGE_ROUTES = frozenset({"/v1/messages", "/v1/conversations/{id}/messages"})
"""Routes whose POST waits for an agent and so holds a function for many seconds; the gateway bounds them apart."""

MODEL = ("bedrock:InvokeModel",)
MESSENGER = ("social-messaging:SendWhatsAppMessage", "social-messaging:GetWhatsAppCallPermission")


@dataclass(frozen=True)
class Index:
    """A keys-only secondary index of the table; both keys are string attributes."""

    name: str
    hash_key: str
    range_key: str


@dataclass(frozen=True)
class Table:
    """The single table. `stream` is the stream view type; keys and indexes are strings."""

    hash_key: str
    range_key: str
    indexes: tuple[Index, ...]
    ttl: str
    stream: str


@dataclass(frozen=True)
class Rule:
    """Events of other AWS services, by source and detail-type; `recordings` narrows S3's to that bucket."""

    source: str
    detail_types: tuple[str, ...]
    recordings: bool = False


@dataclass(frozen=True)
class Queue:
    """An SQS queue with a dead-letter queue of the same type beside it.

    `visibility` in seconds, at least six times the timeout of the function that reads it;
    `max_receives` before a message goes to the dead-letter queue. Where it has a `topic`, what is published
    to that SNS topic arrives in it; where it has `rules`, EventBridge sends it the events that match.
    """

    name: str
    visibility: int
    fifo: bool = False
    max_receives: int = 10
    topic: str | None = None
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class StateMachine:
    """A Step Functions standard workflow; `definition` is a file in `infra/state_machines`.

    In the definition `${queue.NAME}` stands for the URL of queue NAME (filled in by `stack.py` and the runner).
    """

    name: str
    definition: str
    sends: tuple[str, ...] = ()


@dataclass(frozen=True)
class QueueSource:
    """Messages of `queue` start the function, `batch_size` at a time, at most `concurrency` at once."""

    queue: str
    batch_size: int = 1
    concurrency: int = 10


@dataclass(frozen=True)
class StreamSource:
    """Stream records of items whose `kind` is one of `kinds` start the function, in order for each item.

    `parallel` batches of a shard are under way at once, each with items of its own. A failing batch is retried
    `retries` times, halved each time, and then goes whole to the on-failure bucket. `window` is the longest time in
    seconds that a batch is gathered.
    """

    kinds: tuple[str, ...]
    batch_size: int = 100
    parallel: int = 10
    window: float = 0
    retries: int = 10


@dataclass(frozen=True)
class Grant:
    """Actions that a function may take on one kind of thing; `name` is that of a queue or state machine.

    `on` is one of: table, indexes, queue, state_machine, signing_key, recordings, model, contacts, whatsapp.
    """

    on: str
    actions: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True)
class Function:
    """One Lambda function.

    `routes` are API Gateway resource paths, each with any method; `table` the DynamoDB actions it may use on the
    table itself, `indexes` those on its indexes; `sends` queues, `starts` state machines, `answers` those whose
    waiting tasks it may complete, `signing_key` the KMS actions, `recordings` the S3 actions on recordings; `model`
    lets it converse with the stage's Bedrock model, `carrier` are the Amazon Connect actions, `messenger`
    lets it write on WhatsApp; `bot` lets Lex call it; `every` runs it on a schedule of that many seconds.
    `memory` in MB, of which the functions use up to 82 (`make test-deploy` prints it): it buys their share of a
    CPU, and with it the time of a cold start. `timeout` in seconds.
    """

    name: str
    handler: str
    memory: int = 512
    timeout: int = 29
    routes: tuple[str, ...] = ()
    table: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    sends: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    signing_key: tuple[str, ...] = ()
    recordings: tuple[str, ...] = ()
    model: bool = False
    carrier: tuple[str, ...] = ()
    messenger: bool = False
    bot: bool = False
    queues: tuple[QueueSource, ...] = ()
    stream: StreamSource | None = None
    every: int | None = None

    @property
    def grants(self) -> tuple[Grant, ...]:
        """What the function's own calls need. What Lambda needs to start it and to keep its log is not among it."""
        found = (
            Grant("table", self.table),
            Grant("indexes", self.indexes),
            *(Grant("queue", ("sqs:SendMessage",), name) for name in self.sends),
            *(Grant("state_machine", ("states:StartExecution",), name) for name in self.starts),
            *(Grant("state_machine", ("states:SendTaskSuccess",), name) for name in self.answers),
            Grant("signing_key", self.signing_key),
            Grant("recordings", self.recordings),
            Grant("model", MODEL if self.model else ()),
            Grant("contacts", self.carrier),
            Grant("whatsapp", MESSENGER if self.messenger else ()),
        )
        return tuple(grant for grant in found if grant.actions)

    def environment(
        self,
        *,
        table: str,
        queues: dict[str, str],
        machines: dict[str, str],
        signing_key: str,
        recordings: str,
        model: str | None = None,
        carrier: Mapping[str, str] | None = None,
        messenger: Mapping[str, str] | None = None,
    ) -> dict[str, str]:
        """The variables this function reads: names of what it may use, and of nothing else.

        `queues` maps a queue's name to its URL, `machines` a state machine's to its ARN; `model` is a Bedrock
        model's or inference profile's id; `carrier` and `messenger` are a stage's settings of Amazon Connect and
        WhatsApp. None where there is no such thing.
        """
        found = {"TABLE_NAME": table, "POWERTOOLS_SERVICE_NAME": self.name}
        read = tuple(source.queue for source in self.queues)
        found |= {f"QUEUE_{name.upper()}": queues[name] for name in (*self.sends, *read)}
        found |= {f"STATE_MACHINE_{name.upper()}": machines[name] for name in self.starts}
        if self.signing_key:
            found["SIGNING_KEY"] = signing_key
        if self.recordings:
            found["RECORDINGS_BUCKET"] = recordings
        if self.model and model:
            found["MODEL_ID"] = model
        if self.carrier:
            found |= {f"CONNECT_{name.upper()}": value for name, value in (carrier or {}).items()}
        if self.messenger:
            found |= {f"WHATSAPP_{name.upper()}": value for name, value in (messenger or {}).items()}
        return found


TABLE = Table(
    hash_key="pk",
    range_key="sk",
    indexes=(
        # A filter's rows by id, newest last: the partition is scope, field and hashed value.
        *(Index(name=f"by_f{n}", hash_key=f"f{n}", range_key="sk") for n in range(1, 5)),
        # The same partitions by time: t0 holds all rows of a scope, t1-t4 those of the filter with that number.
        *(Index(name=f"by_t{n}", hash_key=f"t{n}", range_key="sort_time") for n in range(5)),
        # Work owed, by the time from which `sweep` may hint at it again.
        Index(name="by_due", hash_key="due_shard", range_key="due"),
    ),
    ttl="expires_at",
    stream="NEW_AND_OLD_IMAGES",
)

QUEUES = (
    # First attempts, in order for each endpoint (message group = endpoint).
    Queue("deliveries", visibility=240, fifo=True),
    # First attempts to an endpoint that hangs or has fallen behind: unordered, fair between endpoints.
    Queue("slow_deliveries", visibility=240),
    # Later attempts whose wait is at most 900 s, manual retries, `/test`, and what `sweep` found overdue.
    Queue("retries", visibility=240),
    # Messages that an agent is to answer, and the reminders of when one would have to be given up.
    Queue("turns", visibility=420),
    # Calls whose next step is due.
    Queue("dials", visibility=360),
    # Requests for consent: to be asked, to be over, and what customers answer on WhatsApp.
    Queue("consents", visibility=240, topic="whatsapp"),
    # What Amazon Connect tells of calls, and recordings and transcripts that it has put into the bucket.
    Queue(
        "call_events",
        visibility=240,
        rules=(
            Rule("aws.connect", ("Amazon Connect Contact Event", "Contact Event")),
            Rule("aws.s3", ("Object Created",), recordings=True),
        ),
    ),
)

STATE_MACHINES = (
    # Waits of more than 900 s, then a message to `retries`.
    StateMachine("delayed_delivery", definition="delayed_delivery.asl.json", sends=("retries",)),
    # Asks a customer for consent, and waits seven days for the answer.
    StateMachine("call_consent", definition="call_consent.asl.json", sends=("consents",)),
)

KEY_CHECK = ("dynamodb:UpdateItem",)
QUERY = ("dynamodb:Query",)
READ = ("dynamodb:GetItem", "dynamodb:BatchGetItem", *QUERY)
WRITE = ("dynamodb:PutItem",)
DELETE = ("dynamodb:DeleteItem",)
CHECK = ("dynamodb:ConditionCheckItem",)

FUNCTIONS = (
    Function("ping", "functions.ping.handler", routes=("/v1/ping",), table=KEY_CHECK),
    Function(
        "customers",
        "functions.customers.handler",
        routes=("/v1/customers", "/v1/customers/{id}", "/v1/customers/{id}/{proxy+}"),
        table=KEY_CHECK + READ + WRITE + DELETE,
        indexes=QUERY,
    ),
    Function(
        "appointments",
        "functions.appointments.handler",
        routes=("/v1/appointments", "/v1/appointments/{proxy+}"),
        table=KEY_CHECK + READ + WRITE + CHECK + DELETE,
        indexes=QUERY,
    ),
    Function(
        "conversations",
        "functions.conversations.handler",
        routes=(
            "/v1/conversations",
            "/v1/conversations/{id}",
            "/v1/conversations/{id}/{proxy+}",
            "/v1/conversations/{id}/messages",
            "/v1/messages",
        ),
        table=KEY_CHECK + READ + WRITE + CHECK + DELETE,
        indexes=QUERY,
        sends=("turns",),
    ),
    Function(
        "sessions",
        "functions.sessions.handler",
        routes=("/v1/sessions", "/v1/sessions/{proxy+}", "/v1/customers/{id}/call"),
        table=KEY_CHECK + READ + WRITE,
        indexes=QUERY,
        sends=("dials",),
        starts=("call_consent",),
        recordings=("s3:GetObject",),
    ),
    Function(
        "webhook_endpoints",
        "functions.webhook_endpoints.handler",
        routes=("/v1/webhook_endpoints", "/v1/webhook_endpoints/{proxy+}"),
        table=(*KEY_CHECK, "dynamodb:GetItem", *QUERY, *WRITE, *CHECK, *DELETE),
        sends=("retries",),
        signing_key=("kms:Encrypt",),
    ),
    Function(
        "events",
        "functions.events.handler",
        routes=("/v1/events", "/v1/events/{proxy+}"),
        table=KEY_CHECK + READ + WRITE + CHECK,
        indexes=QUERY,
        sends=("retries",),
    ),
    # `/v1` is a resource as soon as a route lies below it, and would answer by itself for what nobody else takes.
    Function("fallback", "functions.fallback.handler", routes=("/", "/{proxy+}", "/v1", "/v1/{proxy+}")),
    Function(
        "fan_out",
        "functions.fan_out.handler",
        timeout=60,
        table=(*QUERY, *WRITE),
        sends=("deliveries", "slow_deliveries"),
        stream=StreamSource(kinds=STREAM_KINDS),
    ),
    Function(
        "deliver",
        "functions.deliver.handler",
        timeout=40,
        table=("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:UpdateItem", *CHECK),
        sends=("retries", "slow_deliveries"),
        starts=("delayed_delivery",),
        signing_key=("kms:Decrypt",),
        queues=(
            QueueSource("deliveries", concurrency=100),
            QueueSource("slow_deliveries", concurrency=20),
            QueueSource("retries", concurrency=50),
        ),
    ),
    Function(
        "turn",
        "functions.turn.handler",
        timeout=70,
        table=(*READ, *WRITE, *CHECK, *DELETE, "dynamodb:UpdateItem"),
        indexes=QUERY,
        sends=("dials",),
        model=True,
        queues=(QueueSource("turns", concurrency=100),),
    ),
    Function(
        "dial",
        "functions.dial.handler",
        timeout=60,
        table=("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:UpdateItem", *WRITE, *CHECK),
        sends=("dials",),
        recordings=("s3:PutObject",),
        carrier=("connect:StartOutboundVoiceContact", "connect:DescribeContact", "connect:StopContact"),
        queues=(QueueSource("dials", concurrency=50),),
    ),
    Function(
        "consent",
        "functions.consent.handler",
        timeout=40,
        table=("dynamodb:GetItem", *QUERY, "dynamodb:UpdateItem", *WRITE),
        sends=("consents", "dials"),
        answers=("call_consent",),
        messenger=True,
        queues=(QueueSource("consents", concurrency=20),),
    ),
    Function(
        "call_events",
        "functions.call_events.handler",
        timeout=40,
        table=("dynamodb:GetItem", "dynamodb:UpdateItem", *WRITE),
        sends=("dials",),
        recordings=("s3:GetObject",),
        queues=(QueueSource("call_events", concurrency=20),),
    ),
    Function(
        "voice_turn",
        "functions.voice_turn.handler",
        table=("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:UpdateItem", *WRITE, *CHECK),
        model=True,
        bot=True,
    ),
    Function(
        "sweep",
        "functions.sweep.handler",
        timeout=60,
        table=("dynamodb:GetItem", "dynamodb:UpdateItem"),
        indexes=QUERY,
        sends=("retries", "turns", "dials", "consents"),
        every=60,
    ),
)
