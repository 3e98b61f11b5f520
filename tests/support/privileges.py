"""Least privilege: which AWS actions each function truly takes on which resource, held against its grants.

`Stage.invoke` says which function is running; every API call that is made meanwhile in its thread, and every link
that is signed, needs actions. What the function's role does not hold is kept in `Recorder.lacking`, as our code may
catch whatever is raised at it; what was used is what `unused` compares the topology with.

The hook of our own client sees its calls, and the event `before-parameter-build` those of boto3: Stubber's and faulty
calls pass it too, and so does `generate_presigned_url`, which calls nobody: whoever opens the link has the rights of
the role that signed it.
A thread belongs to the function whose context it has, as those that our code starts do. Those of moto have none.

Which action a call needs, by AWS's Service Authorization Reference (pages DynamoDB, SQS, Step Functions, KMS, S3,
Bedrock, Connect, End User Messaging Social) where nothing else is named:

- A transaction needs what its operations need by themselves, and `dynamodb:ConditionCheckItem`; nothing of its own
  (DynamoDB Developer Guide, "Using IAM with DynamoDB transactions"). A query of an index needs the index alone.
- The batch forms of SQS are covered by the single ones (SQS API reference, AddPermission).
- A task token names no state machine, and the reference no resource of SendTaskSuccess; what IAM asks for is the
  machine that waits (aws-cdk pull request 8486 tried it, its `grant_task_response` grants that): it counts as used
  on the machine whose tasks the function answers. A KMS ciphertext names no key either: it is the one key.
- An encryption context is a condition, no action; reading and writing objects needs no right on their bucket.
- Converse needs `bedrock:InvokeModel`, ConverseStream `bedrock:InvokeModelWithResponseStream` (their API
  references), and a guardrail named in the request `bedrock:ApplyGuardrail`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra import topology
from infra.topology import Function
from shared.aws import client as aws_client

UNKNOWN = "unknown"
"""What an action is on that no rule here is about; no role holds it."""

ARGUMENTS = {
    "table": "table",
    "indexes": "indexes",
    "queue": "sends",
    "signing_key": "signing_key",
    "recordings": "recordings",
    "failed_batches": "stream",
    "opt_outs": "stream",
    "model": "model",
    "contacts": "carrier",
    "whatsapp": "messenger",
    "client_secret": "sign_in",
    "user_pool": "sign_in",
    "notices_topic": "notices",
}
"""The argument of a `Function` that grants on each kind of resource; of state machines it is the action's."""


@dataclass(frozen=True, order=True)
class Need:
    """An action on a resource, as in `Grant`; `name` is that of a queue or machine, or of what the stage has not."""

    action: str
    on: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.action} on {self.on}{f' {self.name}' if self.name else ''}"


@dataclass(frozen=True, order=True)
class Use:
    """What a function does or may do."""

    function: str
    need: Need

    def __str__(self) -> str:
        return f"{self.function}: {self.need}"

    @property
    def line(self) -> str:
        """Where the topology grants it."""
        action, on = self.need.action, self.need.on
        if on == "state_machine":
            argument = "completes" if action == "states:SendTaskSuccess" else "starts"
        elif on in ARGUMENTS:
            argument = ARGUMENTS[on]
        else:
            return f"tests/support/privileges.py has no rule for it, and infra/topology.py no grant on {on}"
        return f'infra/topology.py, Function("{self.function}", …, {argument}=…)'


@dataclass(frozen=True)
class Places:
    """What the resources of a stage are called: queues by URL, machines by ARN."""

    table: str
    queues: Mapping[str, str]
    machines: Mapping[str, str]
    signing_key: str
    recordings: str
    failed_batches: str
    erasures: str


def grants_of(functions: Iterable[Function] = topology.FUNCTIONS) -> frozenset[Use]:
    """What the functions' roles hold for their own calls."""
    return frozenset(
        Use(function.name, Need(action, grant.on, grant.name))
        for function in functions
        for grant in function.grants
        for action in grant.actions
    )


@functools.cache
def _held(function: Function) -> frozenset[Use]:
    read = {
        Use(function.name, Need(action, "queue", source.queue))
        for source in function.queues
        for action in ("sqs:DeleteMessage", "sqs:ChangeMessageVisibility")
    }
    return grants_of((function,)) | read


def unused_grants(used: Iterable[Use], functions: Iterable[Function] = topology.FUNCTIONS) -> list[Use]:
    """Grants that nobody used."""
    return sorted(grants_of(functions) - set(used))


def needs(
    service: str, operation: str, params: Mapping[str, Any], places: Places, answers: tuple[str, ...] = ()
) -> list[Need]:
    """What an API call needs; `service` as boto3 calls it, `answers` the machines whose tasks the caller completes."""
    rule = _RULES.get(service, {}).get(operation)
    if rule is None:
        return [Need(f"{service}:{operation}", UNKNOWN)]
    if operation == "SendTaskSuccess":
        return [Need("states:SendTaskSuccess", "state_machine", name) for name in answers or ("of the task",)]
    return rule(operation, params, places)


_Rule = Callable[[str, Mapping[str, Any], Places], list[Need]]

_TRANSACTED = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}


def _on_table(action: str, params: Mapping[str, Any], places: Places) -> Need:
    name = params["TableName"]
    kind = "indexes" if "IndexName" in params else "table"
    return Need(f"dynamodb:{action}", kind, "" if name == places.table else name)


def _one(operation: str, params: Mapping[str, Any], places: Places) -> list[Need]:
    return [_on_table(operation, params, places)]


def _batch(operation: str, params: Mapping[str, Any], places: Places) -> list[Need]:
    return [_on_table(operation, {"TableName": name}, places) for name in params["RequestItems"]]


def _transaction(operation: str, params: Mapping[str, Any], places: Places) -> list[Need]:
    ops = [op for item in params["TransactItems"] for op in item.items()]
    return [_on_table(_TRANSACTED[kind], given, places) for kind, given in ops]


def _message(operation: str, params: Mapping[str, Any], places: Places) -> list[Need]:
    return [Need("sqs:SendMessage", "queue", places.queues.get(params["QueueUrl"], params["QueueUrl"]))]


def _read_message(operation: str, params: Mapping[str, Any], places: Places) -> list[Need]:
    action = f"sqs:{operation.removesuffix('Batch')}"
    return [Need(action, "queue", places.queues.get(params["QueueUrl"], params["QueueUrl"]))]


def _machine(operation: str, params: Mapping[str, Any], places: Places) -> list[Need]:
    arn = params.get("stateMachineArn", "")
    return [Need(f"states:{operation}", "state_machine", places.machines.get(arn, arn))]


def _key(operation: str, params: Mapping[str, Any], places: Places) -> list[Need]:
    key = params.get("KeyId", places.signing_key)
    return [Need(f"kms:{operation}", "signing_key", "" if key == places.signing_key else key)]


def _object(operation: str, params: Mapping[str, Any], places: Places) -> list[Need]:
    buckets = {places.recordings: "recordings", places.failed_batches: "failed_batches"}
    if params.get("Key", "").startswith("opt_outs/"):
        # What else the ledger has is an operator's.
        buckets[places.erasures] = "opt_outs"
    bucket = params["Bucket"]
    return [Need(f"s3:{operation}", buckets.get(bucket, "recordings"), "" if bucket in buckets else bucket)]


def _model(operation: str, params: Mapping[str, Any], places: Places) -> list[Need]:
    streamed = "WithResponseStream" if operation == "ConverseStream" else ""
    found = [Need(f"bedrock:InvokeModel{streamed}", "model")]
    if "guardrailConfig" in params:
        found.append(Need("bedrock:ApplyGuardrail", "guardrail"))
    return found


def _contact(operation: str, params: Mapping[str, Any], places: Places) -> list[Need]:
    return [Need(f"connect:{operation}", "contacts")]


def _whatsapp(operation: str, params: Mapping[str, Any], places: Places) -> list[Need]:
    return [Need(f"social-messaging:{operation}", "whatsapp")]


def _secret(operation: str, params: Mapping[str, Any], places: Places) -> list[Need]:
    return [Need(f"secretsmanager:{operation}", "client_secret")]


def _user(operation: str, params: Mapping[str, Any], places: Places) -> list[Need]:
    return [Need(f"cognito-idp:{operation}", "user_pool")]


def _notice(operation: str, params: Mapping[str, Any], places: Places) -> list[Need]:
    return [Need(f"sns:{operation}", "notices_topic")]


_RULES: Mapping[str, Mapping[str, _Rule]] = {
    "dynamodb": dict.fromkeys(("GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan"), _one)
    | dict.fromkeys(("BatchGetItem", "BatchWriteItem"), _batch)
    | dict.fromkeys(("TransactGetItems", "TransactWriteItems"), _transaction),
    "sqs": dict.fromkeys(("SendMessage", "SendMessageBatch"), _message)
    | dict.fromkeys(("DeleteMessageBatch", "ChangeMessageVisibilityBatch"), _read_message),
    "stepfunctions": dict.fromkeys(("StartExecution", "SendTaskSuccess"), _machine),
    "kms": dict.fromkeys(("Encrypt", "Decrypt", "GenerateDataKey"), _key),
    "s3": dict.fromkeys(("GetObject", "PutObject", "DeleteObject"), _object),
    "bedrock-runtime": dict.fromkeys(("Converse", "ConverseStream"), _model),
    "connect": dict.fromkeys(
        ("StartOutboundVoiceContact", "DescribeContact", "GetContactAttributes", "StopContact"), _contact
    ),
    "cognito-idp": dict.fromkeys(("AdminCreateUser", "AdminDeleteSoftwareToken"), _user),
    "secretsmanager": {"GetSecretValue": _secret},
    "sns": {"Publish": _notice},
    "socialmessaging": dict.fromkeys(("SendWhatsAppMessage", "GetWhatsAppCallPermission"), _whatsapp),
}

_running: ContextVar[Function | None] = ContextVar("running", default=None)


@contextmanager
def running(function: str | None) -> Iterator[None]:
    """This thread's calls are those of a function from here on; None: of a test."""
    found = next((each for each in topology.FUNCTIONS if each.name == function), None)
    assert function is None or found is not None, function
    token = _running.set(found)
    try:
        yield
    finally:
        _running.reset(token)


@dataclass
class Recorder:
    """What functions used since the start, and what they used without the right to since the last `take_lacking`."""

    used: set[Use] = field(default_factory=set)
    lacking: set[Use] = field(default_factory=set)

    @contextmanager
    def watching(self, events: Any, places: Places) -> Iterator[None]:
        """Record the calls of our own client, and those of boto3's session with these events, from here on."""

        def asked(params: Mapping[str, Any], model: Any, **others: Any) -> None:
            function = _running.get()
            if function is not None:
                service = model.service_model.service_name
                self._note(function, needs(service, model.name, params, places, function.completes))

        recorder = self

        class Watch(aws_client.Hook):
            def call(self, call: aws_client.AwsCall, proceed: Callable[[aws_client.AwsCall], Any]) -> Any:
                function = _running.get()
                if function is not None:
                    found = needs(call.service, call.operation, call.parameters, places, function.completes)
                    recorder._note(function, found)
                return proceed(call)

        events.register("before-parameter-build", asked)
        try:
            with aws_client.hooked(Watch()):
                yield
        finally:
            events.unregister("before-parameter-build", asked)

    def take_lacking(self) -> list[Use]:
        """What was lacking, and is forgotten now."""
        found, self.lacking = sorted(self.lacking), set()
        return found

    def _note(self, function: Function, found: Iterable[Need]) -> None:
        uses = {Use(function.name, need) for need in found}
        self.used |= uses
        self.lacking |= uses - _held(function)


class Audit:
    """What the tests below a folder used, and whether these were all of its tests: only then is a grant unused.

    `unused` and `summary` are for the end of a run. With xdist each worker collects all tests and runs some: `told`
    is what it tells the process that started it, which adds it up.
    """

    def __init__(self, folder: Path) -> None:
        self.recorder = Recorder()
        self._folder = folder
        self._whole = False
        self._deselected = False
        self._collected: set[str] = set()
        self._passed: set[str] = set()

    def deselected(self, path: Path) -> None:
        """A test of this file will not run."""
        self._deselected |= path.is_relative_to(self._folder)

    def collected(self, tests: Iterable[tuple[Path, str]], arguments: Iterable[str]) -> None:
        """These tests will run, by file and node id, as these arguments asked for; `::` names less than a file."""
        mine = {(path, id) for path, id in tests if path.is_relative_to(self._folder)}
        self._collected = {id for _, id in mine}
        whole_files = not any("::" in argument for argument in arguments)
        self._whole = whole_files and {path for path, _ in mine} == {*self._folder.rglob("test_*.py")}

    def passed(self, id: str) -> None:
        """A test passed."""
        self._passed.add(id)

    def told(self) -> dict[str, Any]:
        """What a worker saw, of types that xdist can send."""
        uses = [[use.function, use.need.action, use.need.on, use.need.name] for use in self.recorder.used]
        return {
            "used": uses,
            "whole": self._whole and not self._deselected,
            "collected": [*self._collected],
            "passed": [*self._passed],
        }

    def add(self, told: Mapping[str, Any] | None) -> None:
        """What a worker saw; None where it died."""
        if told is None:
            return
        self.recorder.used |= {Use(function, Need(*need)) for function, *need in told["used"]}
        self._whole |= told["whole"]
        self._deselected |= not told["whole"]
        self._collected |= {*told["collected"]}
        self._passed |= {*told["passed"]}

    @property
    def complete(self) -> bool:
        """Whether all tests of the folder ran and passed."""
        return self._whole and not self._deselected and self._collected <= self._passed

    def unused(self) -> list[Use]:
        """Grants that the whole of the tests did not use; none where these were not all."""
        return unused_grants(self.recorder.used) if self.complete else []

    def summary(self) -> str:
        """Lines for the terminal."""
        count = f"Rights used by the tests: {len(grants_of() & self.recorder.used)} of {len(grants_of())}."
        if not self.complete:
            return f"{count} Whether one is useless is told when all integration tests run and pass."
        return "\n".join([*(f"{use}\n    granted in {use.line}" for use in self.unused()), count])
