"""The units that `infra/costs` states, counted: requests, runs, calls, capacity, queue requests, bytes.

Capacity is counted by DynamoDB's rules from the rows as they were and are: the local one is wrong for transactions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import io
import itertools
import json
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from infra import costs, topology
from infra.costs import Work
from infra.local import resources
from shared.admin import members
from shared.aws import client as aws_client
from shared.aws import services
from shared.core import clock, log, settings
from tests.support.admin_client import signed_in
from tests.support.clocks import Clock
from tests.support.http_gateway import delivering, serving
from tests.support.receivers import Receiver, answer
from tests.support.stage import Answer, Project, Stage, queue_name, sqs_record
from tests.support.wire import wire

# A row's size, and so its units, depends on the digits of its project's number: the projects are the first ones.
pytestmark = pytest.mark.usefixtures("empty_storage")

PERSON = {"phone": "+15005550006", "name": "Ada Lovelace", "email": "a@example.com", "external_id": "patient-1842"}
ACCEPTS = "+15005550020"
VISIT = {
    "appointment_at": "2030-05-06T07:08:09Z",
    "timezone": "Europe/Berlin",
    "duration_minutes": 30,
    "title": "Check-up",
    "location": "Main Street 5, second floor",
    "notes": "First visit; please bring the insurance card and the list of medicines that are taken.",
    "external_id": "visit-7781",
}
ORDER = {
    "instructions": "Ask whether the time still suits, and mention parking.",
    "metadata": {"campaign": "recall", "list": "2026-11"},
}
QUESTION = "When is my next appointment, please?"
READERS = {source.queue: function.name for function in topology.FUNCTIONS for source in function.queues}
FIFO = {queue.name for queue in topology.QUEUES if queue.fifo}
WRITES = ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")
KB = 1024
ON_ITS_WAY = 0.05
"""Seconds that a message takes through a queue."""
LINE = 26
"""Bytes that CloudWatch adds to each line of a log."""

Item = Mapping[str, Any]

# DynamoDB's rules (its Developer Guide: "DynamoDB read and write operations", "Item sizes and formats")


def size(item: Item | None) -> int:
    """Bytes of an item."""
    return sum(len(name.encode()) + _value_size(typed) for name, typed in (item or {}).items())


def _value_size(typed: Mapping[str, Any]) -> int:
    ((tag, value),) = typed.items()
    if tag == "S":
        return len(value.encode())
    if tag == "N":
        return (len(value) + 1) // 2 + 1
    if tag == "M":
        return 3 + sum(len(name.encode()) + _value_size(inner) + 1 for name, inner in value.items())
    return 1 if tag == "BOOL" else len(value)


def units(old: Item | None, new: Item | None) -> int:
    """Write units of a table for the larger of both states of a row."""
    return max(1, math.ceil(max(size(old), size(new)) / KB))


def index_units(old: Item | None, new: Item | None) -> int:
    """Write units of the keys-only indexes: a new entry and one that goes are a unit each, a moved one is both."""
    found = 0
    for index in topology.TABLE.indexes:
        was, is_now = _entry(index, old), _entry(index, new)
        if was != is_now:
            found += (was is not None) + (is_now is not None)
    return found


def _entry(index: topology.Index, item: Item | None) -> tuple[Any, ...] | None:
    keys = tuple((item or {}).get(name) for name in (index.hash_key, index.range_key))
    return None if None in keys else keys


class Meter(Stage):
    """The stage, with what it takes counted; wake-ups wait until `work_off`."""

    def __init__(self, stage: Stage, time: Clock) -> None:
        self.__dict__ = dict(stage.__dict__)
        self.time = time
        self.rows = boto3.Session().client("dynamodb", region_name="us-east-1")
        self.wake_ups: list[tuple[float, int, str, str | None]] = []
        self._one_call = threading.RLock()
        self._number = itertools.count()
        self._reset()

    def _reset(self) -> None:
        self.counts: Counter[str] = Counter()
        self.runs: Counter[str] = Counter()
        self.single = (0.0, 0.0)
        """Units of single writes by our rules and by the local database."""
        self.opened = 0

    @property
    def work(self) -> Work:
        """What was counted; `waits` are the functions' own."""
        assert self.opened == 0, "a container opens an endpoint's secret once"
        counts: Any = {name: count for name, count in self.counts.items() if count}
        return Work("", runs=dict(self.runs), **counts)

    def invoke(self, function: str, event: Any, *given: Any, **options: Any) -> Any:
        """Call a function as Lambda does, which takes its message from the queue and deletes it."""
        self.runs[function] += 1
        for record in event.get("Records", ()):
            if record.get("eventSource") == "aws:sqs":
                self._queue(queue_name(record["eventSourceARN"]), 2)
        return super().invoke(function, event, *given, **options)

    def call(self, *given: Any, **options: Any) -> Answer:
        """A request that succeeds."""
        response = super().call(*given, **options)
        assert response.status < 300, response.body
        self.counts["requests"] += 1
        self.counts["sent_out"] += len(response.body) + _headers(response.headers)
        return response

    def work_off(self) -> None:
        """Let the workers have the wake-ups that there are and come, each at its time."""
        while self.wake_ups:
            self.next_wake_up()

    def next_wake_up(self) -> None:
        """Let a worker have the next wake-up, at its time."""
        at, _, queue, body = heapq.heappop(self.wake_ups)
        self.time.now = max(self.time.now, at) + ON_ITS_WAY
        if body is None:
            client = boto3.Session().client("sqs", region_name="us-east-1")
            url = self.queues[queue].url
            [message] = client.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
            client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            body = message["Body"]
        sent = {"SentTimestamp": str(clock.now())}
        self.invoke(READERS[queue], {"Records": [sqs_record(body, self.queues[queue].arn, sent)]})

    def fan_out_singly(self) -> None:
        """What the stream has, one record a run, as on a stage without much traffic."""
        for record in self.stream_records():
            self.fan_out([record])

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count anew."""
        self._reset()
        printed = io.StringIO()
        lines = _Lines(self.counts)
        logger = log.logger()
        lines.setFormatter(log.JsonLines())
        level = logger.level
        objects = services.s3().meta.events
        objects.register_first("before-parameter-build.s3", self._put)
        logger.addHandler(lines)
        logger.setLevel("INFO")
        clock.use(lambda: self.time.now, self._sleep)
        try:
            with aws_client.hooked(_Meters(self)), wire() as line, contextlib.redirect_stdout(printed):
                yield
            self.counts["calls"] += len(line.calls) + self.counts["puts"]
            self.opened = len(line.operations("kms"))
            # Metrics are printed, not logged.
            metrics = [text for text in printed.getvalue().splitlines() if '"_aws"' in text]
            self.counts["logged"] += sum(len(text.encode()) + 1 + LINE for text in metrics)
        finally:
            clock.use(lambda: self.time.now, self.time.forward)
            logger.setLevel(level)
            logger.removeHandler(lines)
            objects.unregister("before-parameter-build.s3", self._put)

    def _sleep(self, seconds: float) -> None:
        self.time.forward(seconds)
        self.counts["waits"] += round(seconds * 1000)

    def _queue(self, queue: str, requests: int) -> None:
        self.counts["fifo" if queue in FIFO else "fair"] += requests

    def _wake_up(self, at: float, queue: str, body: str | None) -> None:
        heapq.heappush(self.wake_ups, (at, next(self._number), queue, body))

    def _sent(self, params: Any) -> None:
        queue = queue_name(params["QueueUrl"])
        self._queue(queue, 1)
        for entry in params["Entries"]:
            at = self.time.now + entry.get("DelaySeconds", 0)
            self._wake_up(at, queue, entry["MessageBody"])

    def _started(self, params: Any) -> None:
        arn = params["stateMachineArn"]
        [machine] = [each for each in topology.STATE_MACHINES if settings.state_machine_arn(each.name) == arn]
        [queue] = machine.sends
        states = visited_states(machine)
        self.counts["transitions"] += len(states) + 1
        self._queue(queue, sum(state["Type"] == "Task" for state in states))
        given = json.loads(params["input"])
        if "due_at" in given:
            self._wake_up(clock.parse(given["due_at"]) / clock.SECOND, queue, given["message"])
        else:
            # Its message has a token that only the machine knows.
            self._wake_up(self.time.now, queue, None)

    def _put(self, model: Any, **others: Any) -> None:
        assert model.name == "PutObject"
        self.counts["puts"] += 1

    def meet(self, call: aws_client.AwsCall, proceed: Callable[[aws_client.AwsCall], Any]) -> Any:
        """Make a call and count it."""
        if call.service == "dynamodb":
            # What a call writes is read before and after it, so there is one at a time.
            with self._one_call:
                return self._count(call, proceed)
        if call.service == "sqs":
            self._sent(call.parameters)
        elif call.operation == "StartExecution":
            self._started(call.parameters)
        return proceed(call)

    def _count(self, call: aws_client.AwsCall, proceed: Callable[[aws_client.AwsCall], Any]) -> Any:
        before = [(verb, key, self._row(key)) for verb, key in _written_keys(call.operation, call.parameters)]
        try:
            response = proceed(call)
        except services.AwsError as error:
            self._count_units(call, before, error.body, failed=True)
            raise
        self._count_units(call, before, response, failed=False)
        return response

    def _count_units(self, call: aws_client.AwsCall, before: Sequence[Any], parsed: Any, *, failed: bool) -> None:
        consumed = parsed.get("ConsumedCapacity") or []
        local = sum(part["CapacityUnits"] for part in ([consumed] if isinstance(consumed, Mapping) else consumed))
        if call.operation not in WRITES:
            least = 1 if call.parameters.get("ConsistentRead") else 0.5
            self.counts["reads"] += max(local + _missing(call.parameters, parsed), least)
            return
        twice = 2 if call.operation == "TransactWriteItems" else 1
        ours = 0
        for verb, key, old in before:
            new = old if failed else self._row(key)
            ours += twice * units(old, new) + (index_units(old, new) if verb != "ConditionCheck" else 0)
        self.counts["writes"] += ours
        if twice == 1 and not failed:
            self.single = (self.single[0] + ours, self.single[1] + local)

    def _row(self, key: Item) -> Item | None:
        return self.rows.get_item(TableName=resources.TABLE_NAME, Key=key, ConsistentRead=True).get("Item")


class _Meters(aws_client.Hook):
    """Shows the meter each call."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def call(self, call: aws_client.AwsCall, proceed: Callable[[aws_client.AwsCall], Any]) -> Any:
        return self._meter.meet(call, proceed)


def _missing(parameters: Any, parsed: Any) -> int:
    """Rows that were asked for and are not there: AWS counts them, the local database does not."""
    asked = sum(len(part["Keys"]) for part in parameters.get("RequestItems", {}).values())
    return asked - sum(len(part) for part in parsed.get("Responses", {}).values())


class _Lines(logging.Handler):
    """Counts the bytes of what is logged."""

    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()
        self.counts = counts

    def emit(self, record: logging.LogRecord) -> None:
        self.counts["logged"] += len(self.format(record).encode()) + 1 + LINE


def _headers(headers: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) + 4 for name, value in headers.items())


def _written_keys(operation: str, params: Any) -> Iterator[tuple[str, Item]]:
    """The keys that a call writes or checks."""
    if operation in WRITES:
        parts = params.get("TransactItems", [{operation: params}])
        for verb, part in itertools.chain.from_iterable(each.items() for each in parts):
            item = part.get("Item") or part["Key"]
            yield verb, {name: item[name] for name in ("pk", "sk")}


def visited_states(machine: topology.StateMachine) -> list[Any]:
    """The states that an execution goes through if all goes well."""
    definition = json.loads((Path(topology.__file__).parent / "state_machines" / machine.definition).read_text())
    name, found = definition["StartAt"], []
    while name:
        found.append(definition["States"][name])
        name = found[-1].get("Next")
    return found


def less(work: Work, other: Work) -> Work:
    """What work takes beyond other work."""
    found = dataclasses.asdict(work)
    for name, value in dataclasses.asdict(other).items():
        if name == "runs":
            runs = Counter(found["runs"])
            runs.subtract(value)
            found["runs"] = {function: count for function, count in runs.items() if count}
        elif name != "about":
            found[name] -= value
    return Work(**found)


def assert_states(stated: Work, counted: Work, assumed: int = 0) -> None:
    """The counts are exactly those stated; bytes within 5 in 100, as ids and times have no fixed length."""
    close: Any = {name: pytest.approx(getattr(counted, name), rel=0.05) for name in ("logged", "sent_out")}
    expected = dataclasses.replace(counted, about=stated.about, waits=counted.waits + assumed, **close)
    assert stated == expected, f"counted: {counted}"


@pytest.fixture
def meter(stage: Stage, stopped_clock: Clock) -> Iterator[Meter]:
    yield Meter(stage, stopped_clock)
    machines = boto3.client("stepfunctions")
    for machine in machines.list_state_machines()["stateMachines"]:
        running = machines.list_executions(stateMachineArn=machine["stateMachineArn"], statusFilter="RUNNING")
        for execution in running["executions"]:
            machines.stop_execution(executionArn=execution["executionArn"])


def visit(meter: Meter, key: str | None = None, **person: Any) -> tuple[str, str]:
    """A new customer and an appointment; their ids."""
    customer = meter.call("POST", "/v1/customers", PERSON | person, key=key).json["id"]
    appointment = meter.call("POST", "/v1/appointments", VISIT | {"customer_id": customer}, key=key).json["id"]
    meter.fan_out()
    return customer, appointment


def update_appointment(meter: Meter, appointment: str, **changes: str) -> None:
    """An appointment is changed, and what follows."""
    meter.call("PATCH", f"/v1/appointments/{appointment}", changes)
    meter.fan_out_singly()
    meter.work_off()


@pytest.mark.parametrize(("name", "query"), [("list", ""), ("filtered_list", "&customer_id={}")])
def test_a_list_takes_what_is_stated(meter: Meter, name: str, query: str) -> None:
    customer, _ = visit(meter)
    for _ in range(24):
        meter.call("POST", "/v1/appointments", VISIT | {"customer_id": customer})
    with meter.counting():
        meter.call("GET", f"/v1/appointments?limit=20{query.format(customer)}")
    assert_states(costs.WORK[name], meter.work)


def test_a_retrieve_a_create_and_an_update_take_what_is_stated(meter: Meter) -> None:
    customer, appointment = visit(meter)
    with meter.counting():
        meter.call("GET", f"/v1/appointments/{appointment}")
    assert_states(costs.WORK["retrieve"], meter.work)
    with meter.counting():
        headers = {"Idempotency-Key": "6f6f2f3e-8a3b-4c2e-9e55-0d6a2f6f0f55"}
        meter.call("POST", "/v1/appointments", VISIT | {"customer_id": customer}, headers=headers)
        meter.fan_out_singly()
    assert_states(costs.WORK["create"], meter.work)
    with meter.counting():
        update_appointment(meter, appointment, status="confirmed")
    assert_states(costs.WORK["update"], meter.work)
    assert meter.single[0] == meter.single[1] > 0, "our rules are the local database's where that one is right"


@pytest.mark.parametrize("name", ["message", "model_message"])
def test_a_message_takes_what_is_stated(
    meter: Meter, name: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "model_message":
        monkeypatch.setenv("SIMULATE_LIVE", "1")
    key = project.live_key if name == "model_message" else project.test_key
    customer, _ = visit(meter, key=key)
    conversation = meter.call("POST", "/v1/conversations", {"customer": {"id": customer}}, key=key).json["id"]
    for number in range(4):
        with meter.counting():
            headers = {"Idempotency-Key": f"6f6f2f3e-8a3b-4c2e-9e55-0d6a2f6f0f5{number}"}
            path = f"/v1/conversations/{conversation}/messages"
            meter.call("POST", path, {"content": QUESTION}, headers=headers, key=key)
            meter.work_off()
            meter.fan_out_singly()
    assert_states(costs.WORK[name], meter.work, costs.MODEL_MS if name == "model_message" else 0)


@pytest.mark.parametrize(("name", "phone"), [("call", PERSON["phone"]), ("asked_call", ACCEPTS)])
def test_a_call_takes_what_is_stated(meter: Meter, name: str, phone: str) -> None:
    customer, appointment = visit(meter, phone=phone)
    with meter.counting():
        order = ORDER | {"appointment_id": appointment}
        headers = {"Idempotency-Key": "6f6f2f3e-8a3b-4c2e-9e55-0d6a2f6f0f55"}
        placed = meter.call("POST", f"/v1/customers/{customer}/call", order, headers=headers)
        meter.work_off()
        meter.fan_out_singly()
    assert_states(costs.WORK[name], meter.work)
    session = meter.call("GET", f"/v1/sessions/{placed.json['session_id']}").json
    assert (session["call_status"], session["recording_status"]) == ("completed", "available")


def test_a_delivery_takes_what_is_stated_beyond_its_event(meter: Meter) -> None:
    _, appointment = visit(meter)
    with meter.counting():
        update_appointment(meter, appointment, status="confirmed")
    alone = meter.work
    with Receiver(answer(200)) as receiver:
        meter.call("POST", "/v1/webhook_endpoints", {"url": receiver.url})
        for status in ("failed", "confirmed"):
            # The worker opens the endpoint's secret the first time.
            with meter.counting():
                update_appointment(meter, appointment, status=status)
        request = receiver.wait_for(2)[-1]
        meter.counts["sent_out"] += len(request.body) + _headers(request.headers)
    assert_states(costs.WORK["delivery"], less(meter.work, alone), costs.RECEIVER_MS)


def test_retries_take_what_is_stated(meter: Meter) -> None:
    _, appointment = visit(meter)
    counted = {}
    with Receiver(answer(500)) as receiver:
        meter.call("POST", "/v1/webhook_endpoints", {"url": receiver.url})
        meter.call("PATCH", f"/v1/appointments/{appointment}", {"status": "confirmed"})
        for number in range(1, 7):
            with meter.counting():
                meter.fan_out_singly()
                meter.next_wake_up()
                request = receiver.wait_for(number)[-1]
                meter.counts["sent_out"] += len(request.body) + _headers(request.headers)
            if number > 1:
                counted[number] = meter.work
    # The third sets a queue's timer, the sixth a state machine's. The fifth also writes that the endpoint is failing.
    assert_states(costs.WORK["queue_retry"], counted[3], costs.RECEIVER_MS)
    assert_states(costs.WORK["machine_retry"], counted[6], costs.RECEIVER_MS)


@pytest.mark.parametrize(("name", "page"), [("admin_page", "customers"), ("find", "find?q=lovelace+ad")])
def test_an_admin_page_takes_what_is_stated(meter: Meter, name: str, page: str) -> None:
    project = meter.project("Blue Clinic")
    for _ in range(20):
        meter.call("POST", "/v1/customers", PERSON)
    browser = signed_in(meter, "costs@example.com", {project.id: members.MEMBER})
    # Another test's person could have more projects, whose rows would be read, too.
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    with meter.counting():
        path = f"/admin/projects/{project.id}/test/{page}"
        meter.call("GET", path, key="", headers={"Cookie": cookie})
    assert_states(costs.WORK[name], meter.work)


def test_a_sweep_that_finds_nothing_takes_what_is_stated(meter: Meter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUE_SHARDS", str(costs.SHARDS))
    meter.time.now = 1.0
    with meter.counting():
        meter.invoke("sweep", {})
    assert_states(costs.SWEEP, meter.work)


def test_a_run_of_the_canary_takes_at_most_what_is_stated(meter: Meter, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(meter) as served:
        monkeypatch.setenv("BASE_URL", served.base_url)
        for _ in range(2):
            # The first run creates the canary's project.
            requests, sent_out = len(served.sent), sum(map(len, served.answered))
            with meter.counting():
                clock.use(time.time, time.sleep)
                with delivering(meter):
                    assert meter.invoke("canary", {}) == {"passed": True}
                meter.fan_out_singly()
        counts = {name: meter.counts[name] for name in ("calls", "writes", "reads", "fifo", "logged")}
        counts |= {"requests": len(served.sent) - requests, "sent_out": sum(map(len, served.answered)) - sent_out}
    stated = costs.CANARY
    shared = {"fan_out", "deliver"}
    assert {name: count for name, count in meter.runs.items() if name not in shared} == {
        name: count for name, count in stated.runs.items() if name not in shared
    }, meter.runs
    # Changes share runs of fan_out, a delivery may be woken again, and how often a waiting function reads varies.
    assert meter.runs["fan_out"] <= stated.runs["fan_out"]
    assert meter.runs["deliver"] >= stated.runs["deliver"]
    assert {name: getattr(stated, name) for name in ("requests", "writes", "fifo")} == {
        name: counts[name] for name in ("requests", "writes", "fifo")
    }, counts
    for name in ("calls", "reads", "logged", "sent_out"):
        assert counts[name] <= getattr(stated, name), counts
