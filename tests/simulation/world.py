"""The service in one process: its handlers unchanged, and around them AWS and the receivers, in memory.

Every call of AWS takes time, during which other tasks go on. Lambda's event source mappings, the stream, the schedule
of `sweep`, the timers of Step Functions and time to live are tasks, too.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import math
import os
import random
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from infra import topology
from infra.local import names, resources
from infra.local.queues import failed_items, sqs_record
from infra.local.routes import Routes
from shared.core import clock
from shared.core.event_types import STREAM_KINDS
from shared.core.limits import MAX_DUE_SHARDS
from tests.simulation import hosts as hosts_module
from tests.simulation.canary import Canary
from tests.simulation.carrier import Carrier
from tests.simulation.deployment import Deployment
from tests.simulation.faults import Fault, Faults, client_error
from tests.simulation.hosts import Host
from tests.simulation.messenger import Messenger
from tests.simulation.model import Model
from tests.simulation.receivers import Receivers
from tests.simulation.request_lines import RequestLines
from tests.simulation.scheduler import MICROSECONDS, Group, Scheduler, Task
from tests.simulation.table import Refused, Table, cancellation
from tests.support import gateway_events

START = 1_800_000_000 * MICROSECONDS
"""When each history begins."""
MOST_SWITCHES, MOST_SWITCHES_AT_REST = 150_000, 80_000
QUIET_WITHIN_S = 8 * 24 * 3600
"""Seconds of virtual time in which the service must come to rest after the last request."""
OPERATOR_TIMEOUT_S = 600
MOST_LATENCY_S = 2.5
"""Seconds that a request to AWS, or its response, is under way at most."""
SIGNED_S = 300
"""Seconds after which AWS refuses a signed request."""
LONGEST_BATCH = 20
"""Stream records in a batch."""
FUNCTIONS = {function.name: function for function in topology.FUNCTIONS}
ROUTES = Routes(topology.FUNCTIONS)
SHARDS = [f"due#{number}" for number in range(MAX_DUE_SHARDS)]
WRITES = ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")


@dataclass(frozen=True)
class Ended:
    """How an invocation ended: with a result, an error, or neither if it was killed or took too long."""

    result: Any = None
    error: str | None = None
    was_hit: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether the handler returned."""
        return self.error is None


@dataclass(frozen=True)
class Response:
    """An HTTP response; header names in lower case. The status is 502 if the function failed or was killed."""

    status: int
    headers: Mapping[str, str]
    body: str
    was_hit: bool = False
    """Whether a fault hit the function."""

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


@dataclass(eq=False)
class Invocation(Group):
    """The tasks of one call of a function."""

    host: Host | None = None
    ended: Ended | None = None
    caller: Task | None = None
    was_frozen: bool = False
    """Whether it may go on after its time limit."""
    hit_at: float = 0.0
    """When a fault hit one of its calls last, or it was killed, in Unix seconds."""


@dataclass(eq=False)
class Fleet:
    """The hosts of a release that are free, and the tasks that wait for one."""

    free: list[Host]
    waiting: list[Task] = field(default_factory=list)


class Context:
    """What Lambda tells a function about its invocation."""

    memory_limit_in_mb, function_version, log_group_name, log_stream_name = "512", "$LATEST", "", ""
    identity = client_context = None

    def __init__(self, name: str, deadline: float, now: Callable[[], float]) -> None:
        self.function_name, self._deadline, self._now = name, deadline, now
        self.aws_request_id = self.invoked_function_arn = name

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the function's timeout."""
        return max(0, int((self._deadline - self._now()) * 1000))


class World:
    """The whole of it. `history` has a line for each step, for those who read a failure.

    `hosts` are of both releases. Those of the previous one are used before `deployment`.
    """

    def __init__(
        self,
        seed: str,
        hosts: list[Host],
        sqs: Any,
        faults: Faults,
        deployment: Deployment | None = None,
        fewest_hosts: int = 1,
    ) -> None:
        self.scheduler = Scheduler(f"{seed}/schedule", START)
        self.faults = faults
        self.history: list[str] = []
        self.calls: Counter[str] = Counter()
        self.errors: list[str] = []
        """Failures of functions that no fault explains."""
        self._random = random.Random(f"{seed}/latency")
        self._slowness = self._random.choice((0.5, 1, 5))
        present, previous = ([host for host in hosts if host.previous is old] for old in (False, True))
        count = max(fewest_hosts, self._random.randint(1, len(present)))
        self.deployment = deployment
        self._fleets = {False: Fleet(present[:count]), True: Fleet(previous[:count] if deployment else [])}
        self.hosts = [host for fleet in self._fleets.values() for host in fleet.free]
        self._added = {name for name in FUNCTIONS if previous and _module(name) not in previous[0].modules}
        """The functions that the previous release does not have."""
        self.running = 0
        self.table = Table(resources.TABLE_NAME, lambda: self.scheduler.seconds, self._lag)
        self.receivers = Receivers(seed, self)
        self.carrier = Carrier(seed, self)
        self.messenger = Messenger(seed, self)
        self.canary = Canary(seed, self)
        self.model = Model(seed, self)
        self.lines = RequestLines(seed, self)
        self.answered: dict[str, tuple[str, str, int]] = {}
        """By id of a request: its key, its method, and the status of its response."""
        self._sqs = sqs
        self._engine = sqs.Engine(lambda: self.scheduler.seconds)
        addresses = resources.create_queues(_QueueCreator(self._engine))  # type: ignore[arg-type]
        self.queues = {name: self._engine.queue(address.name) for name, address in addresses.items()}
        self._failed_messages: set[str] = set()
        """The ids of messages with which a function failed that met no fault."""
        self._names = {address.url: name for name, address in addresses.items()}
        self._entered: list[Any] = []
        self._off: dict[str, float] = {}
        """The seconds by which the clock of each host is off."""
        self.timers: set[str] = set()
        self._started: set[str] = set()
        self._task_tokens: dict[str, Task] = {}
        self.objects: dict[tuple[str, str], bytes] = {}
        self._shards: list[deque[Any]] = [deque() for _ in range(self._random.randint(1, 3))]
        self._readers: dict[int, Task] = {}
        """The tasks that wait for a record of their shard."""
        self._sweeper: Task | None = None
        self.table.on_change = self._on_change
        hosts_module.REPLACED["boto3"] = SimpleNamespace(client=lambda service, **_: _S3(self))
        for host in self.hosts:
            self._connect(host)

    # Time

    @property
    def now(self) -> float:
        """Unix seconds."""
        return self.scheduler.seconds

    @property
    def _seconds(self) -> float:
        """Seconds since the history began."""
        return (self.scheduler.now - START) / MICROSECONDS

    def note(self, *columns: object) -> None:
        """Add a line to the history."""
        task = self.scheduler.current
        group = task.group.name if task and task.group else task.name if task else ""
        self.history.append(f"{self._seconds:12.6f}  {group:22}  " + "  ".join(map(str, columns)))

    def start(self) -> None:
        """Start what runs beside the clients."""
        spawn = self.scheduler.spawn
        for function in topology.FUNCTIONS:
            for source in function.queues:
                spawn(f"poll {source.queue}", partial(self._poll, function, source))
        for number, shard in enumerate(self._shards):
            spawn(f"stream {number}", partial(self._read_stream, number, shard))
        self._sweeper = spawn("sweeper", self._sweep)
        spawn("time to live", self._expire)
        if self.deployment is not None:
            self.timers.add("deployment")
            spawn("deployment", partial(self._deploy, self.deployment))

    def call_people(self, at_once: int) -> None:
        """Let live calls be placed by the carrier, so many at once. WhatsApp asks, and the model replies."""
        os.environ.update(SIMULATE_LIVE="0", CONNECT_ACTIVE_CALLS=str(at_once))
        if self.messenger.by_phone:
            os.environ["WHATSAPP_DIAL"] = "phone"
        self.carrier.at_once = at_once
        for host in self.hosts:
            adapters = host.module("shared.telephony.adapters")
            adapters.use(carrier=self.carrier.of(host), messenger=self.messenger.of(host))
            self.model.connect(host)

    def limit_requests(self, per_second: int, per_minute: int) -> None:
        """Set the rate limits of a key, which are lower in some histories."""
        for host in self.hosts:
            rate_limits = host.module("shared.projects.rate_limits")
            rate_limits.PER_SECOND, rate_limits.PER_MINUTE = per_second, per_minute

    def is_quiet(self) -> bool:
        """Whether nothing is under way and nothing is scheduled."""
        return not (
            self.running
            or self.timers
            or any(self._shards)
            or any(queue._messages for queue in self.queues.values())
            or self.table.next_due(SHARDS) is not None
        )

    def dead_letters(self) -> dict[str, int]:
        """The number of messages in each dead-letter queue that are there for another reason than faults alone.

        So many faults in a row may concern a message that it comes there by chance.
        """
        found = {}
        for queue in topology.QUEUES:
            messages = self._engine.queue(names.dead_letters(queue.name, queue.fifo))._messages
            if unexplained := messages.keys() & self._failed_messages:
                found[queue.name] = len(unexplained)
        return found

    # Lambda

    def request(
        self,
        method: str,
        path: str,
        key: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        raw: str | None = None,
    ) -> Response:
        """An API request through the gateway; `body` goes as JSON, `raw` as it is."""
        match = ROUTES.match(method, path.partition("?")[0])
        assert match is not None
        request_id = f"r-{self.calls.total()}"
        event = gateway_events.request(method, path, body, key=key, headers=headers, raw=raw, request_id=request_id)
        ended = self.invoke(match.function.name, event)
        if not ended.succeeded:
            return Response(502, {}, "{}", ended.was_hit)
        found = ended.result
        if (id := found["headers"].get("service-request-id")) is not None:
            self.answered[id] = key, method, found["statusCode"]
        return Response(found["statusCode"], found["headers"], found["body"], ended.was_hit)

    def invoke(self, function: str, event: Any) -> Ended:
        """Call a function as Lambda does, and wait for its end."""
        timeout, module = FUNCTIONS[function].timeout_s, _module(function)
        deadline = self.now + timeout
        return self._run(
            function,
            lambda host: host.module(module).handler(event, Context(function, deadline, lambda: self.now)),
            timeout,
        )

    def operate(self, name: str, work: Callable[[Host], Any]) -> Ended:
        """Let an operator run something with the service's modules, and wait for its end."""
        return self._run(name, work, OPERATOR_TIMEOUT_S)

    def _run(self, name: str, work: Callable[[Host], Any], timeout: float) -> Ended:
        host = self._take_host(name)
        self.running += 1
        host.invocations += 1
        invocation = Invocation(f"{name}@{host.name}.{host.invocations}", host=host)
        invocation.caller = self.scheduler.current
        for group in host.groups:
            # What earlier invocations left behind goes on with the next one.
            self.scheduler.thaw(group)
        host.groups.append(invocation)
        groups = host.groups
        self.calls[f"invoke {name}"] += 1

        def run() -> None:
            asyncio.set_event_loop(host.loop)
            try:
                ended = Ended(work(host))
            except Exception as error:
                ended = Ended(error=f"{type(error).__name__}: {error}")
            self._end(invocation, ended)
            for group in groups:
                self.scheduler.freeze(group)

        self.scheduler.spawn(name, run, group=invocation)
        self.scheduler.park(timeout)
        if invocation.ended is None:
            self.note("timed out")
            invocation.ended = Ended(error="timeout")
            if not invocation.frozen:
                self._restart(host)
                for group in groups:
                    self.scheduler.kill(group)
        self.running -= 1
        assert invocation.ended is not None
        ended = replace(invocation.ended, was_hit=invocation.hit_at > 0)
        if ended.error is not None and ended.error != "killed":
            self.note("failed", ended.error)
            if not ended.was_hit:
                self.errors.append(f"{name}: {ended.error}, although nothing went wrong")
        return ended

    def _end(self, invocation: Invocation, ended: Ended) -> None:
        """The handler returned, or the function is gone."""
        host, caller = invocation.host, invocation.caller
        assert host is not None
        assert caller is not None
        in_time = invocation.ended is None
        if in_time:
            invocation.ended = ended
            self.scheduler.wake(caller)
        if in_time and ended.error != "killed":
            self._free_host(host)
        else:
            self._restart(host)

    def _restart(self, host: Host) -> None:
        """Begin a new execution environment."""
        host.reset()
        self._set_clock(host)
        self._free_host(host)

    def _free_host(self, host: Host) -> None:
        fleet = self._fleets[host.previous]
        fleet.free.append(host)
        if fleet.waiting:
            self.scheduler.wake(fleet.waiting.pop(0))

    def _take_host(self, name: str) -> Host:
        """A host of the release to which this invocation goes."""
        is_new = self.deployment is None or self.deployment.is_new(name, self._seconds) or name in self._added
        fleet = self._fleets[not is_new]
        while not fleet.free:
            task = self.scheduler.current
            assert task is not None
            fleet.waiting.append(task)
            self.scheduler.park()
        return fleet.free.pop(self._random.randrange(len(fleet.free)))

    def _deploy(self, deployment: Deployment) -> None:
        """Tell of each move, and keep the history from its end until the last one."""
        for at, share in deployment.shifts:
            self.scheduler.sleep(at - self._seconds)
            self.note("deployment", f"a share of {share} goes to the present release")
        self.scheduler.sleep(deployment.ends - self._seconds)
        self.timers.discard("deployment")

    def kill(self) -> None:
        """The environment in which the present call is made is gone, with all its invocations."""
        present, groups = self.invocation(), self._invocations()
        latest = groups[-1]
        self.note("killed")
        latest.hit_at = self.now
        self._end(latest, Ended(error="killed"))
        for group in groups:
            if group is not present:
                self.scheduler.kill(group)
        self.scheduler.kill(present)

    def strikes(self, kind: Fault) -> bool:
        """Whether a fault of this kind hits the present invocation now."""
        if not self.faults.strikes(kind):
            return False
        self.mark_hit()
        return True

    def mark_hit(self) -> None:
        """A fault hits the present invocation, perhaps in a function that it has called."""
        # What an earlier invocation left behind may keep the latest one waiting.
        self.invocation().hit_at = self._invocations()[-1].hit_at = self.now

    def _invocations(self) -> list[Invocation]:
        """Those of the present environment. The latest one is the last."""
        host = self.invocation().host
        assert host is not None
        return host.groups

    def invocation(self) -> Invocation:
        """The invocation whose function runs now."""
        task = self.scheduler.current
        assert task is not None
        assert isinstance(task.group, Invocation)
        return task.group

    def _connect(self, host: Host) -> None:
        """Give a host its way to AWS, its HTTP client and its clock."""
        client = host.module("shared.aws.client")
        # Nobody reads the signed request: the hook sees the call.
        client.AwsClient._request = lambda self, call: b""
        hooked = client.hooked(_Hook(self, host))
        hooked.__enter__()
        self._entered.append(hooked)
        host.module("shared.webhooks.http_client").use(self.receivers.client(host))
        self.canary.connect(host)
        self._set_clock(host)

    def _set_clock(self, host: Host) -> None:
        # An event loop of its own: that of a killed function would seem to run.
        host.loop = asyncio.new_event_loop()
        self._off[host.name] = self._draw_off(Fault.CLOCK_OFF) if self.faults.strikes(Fault.CLOCK_OFF) else 0.0
        host.module("shared.core.clock").use(
            lambda: self.scheduler.seconds + self._off[host.name], self.scheduler.sleep
        )

    def _draw_off(self, kind: Fault) -> float:
        return self.faults.among(kind).uniform(-0.3, 0.3)

    # Calls of AWS

    def attempt(self, host: Host, call: Any) -> Any:
        """One attempt of a call."""
        connections = host.module("shared.aws.connections")
        self.calls[call.operation] += 1
        signed_at = self.now
        self._kill_if_over()
        strikes = self.strikes
        if self.faults.strikes(Fault.CLOCK_STEPPED):
            self._off[host.name] = self._draw_off(Fault.CLOCK_STEPPED)
            self.note("clock stepped")
        if strikes(Fault.KILLED):
            self._kill_around(partial(self._answer, call), call.operation)
        if strikes(Fault.FROZEN):
            self._freeze()
        if strikes(Fault.STALLED):
            self._note_call(call, "stalled")
            self.scheduler.sleep(self.faults.among(Fault.STALLED).choice((1, 5, 10, 20, 40)))
        self.scheduler.sleep(self._latency())
        if strikes(Fault.REFUSED):
            self._note_call(call, "refused")
            raise connections.ConnectionFailed("connect_failed")
        if strikes(Fault.LOST_BEFORE):
            self._note_call(call, "lost before")
            self.scheduler.sleep(6)
            raise connections.ConnectionFailed("response_timeout")
        if self.now - signed_at > SIGNED_S:
            status, body = 400, {"__type": "x#InvalidSignatureException", "message": "Signature expired"}
        else:
            status, body = self._disturbed(call) or self._answer(call)
        self._note_call(call, status if status == 200 else body.get("__type", "").rpartition("#")[2])
        if strikes(Fault.LOST_AFTER):
            self.note("lost after")
            self.scheduler.sleep(6)
            raise connections.ConnectionFailed("response_timeout")
        self.scheduler.sleep(self._latency())
        return connections.HttpResponse(status, {}, json.dumps(body).encode())

    def begin_call(self) -> None:
        """What every call of another system begins with: the invocation is killed if it is over, or by a fault."""
        self._kill_if_over()
        if self.strikes(Fault.KILLED):
            self.kill()

    def _kill_if_over(self) -> None:
        """Kill the invocation if its time was over while it stood still: Lambda has ended it, so it calls nobody."""
        invocation = self.invocation()
        if invocation.was_frozen and invocation.ended is not None and invocation.ended.error == "timeout":
            self.kill()

    def _freeze(self) -> None:
        """Let the present invocation stand still for minutes."""
        invocation = self.invocation()
        invocation.was_frozen = True
        self.note("frozen")
        self.scheduler.freeze(invocation)
        seconds = self.faults.among(Fault.FROZEN).choice((45, 75, 150, 600))
        self.timers.add(name := f"frozen {invocation.name}")
        self.scheduler.spawn("thaw", partial(self._thaw, invocation, name), _NOBODY, after=seconds)
        self.scheduler.pause()

    def _thaw(self, invocation: Invocation, name: str) -> None:
        # What an invocation left behind goes on only with the next one.
        if invocation.ended is None or invocation.ended.error == "timeout":
            self.scheduler.thaw(invocation)
        # All is not quiet until it has had the time to end.
        self.scheduler.sleep(120)
        self.timers.discard(name)

    def _kill_around(self, effect: Callable[[], Any], operation: str) -> None:
        """Kill the function before a call has its effect, or after."""
        if self.faults.among(Fault.KILLED).random() < 0.6:
            self.scheduler.sleep(self._latency())
            effect()
            self.note(operation, "its last call")
        self.kill()

    def _disturbed(self, call: Any) -> tuple[int, dict[str, Any]] | None:
        """An error in place of AWS's answer."""
        prefix = "com.amazonaws.dynamodb.v20120810#"
        if self.strikes(Fault.THROTTLED):
            if call.operation == "TransactWriteItems":
                return _error(self._cancelled_by(call, "ThrottlingError"))
            return 400, {"__type": f"{prefix}ThrottlingException", "message": "Rate exceeded"}
        if self.strikes(Fault.BROKEN):
            return 500, {"__type": f"{prefix}InternalServerError", "message": "Internal"}
        if call.operation in WRITES and self.strikes(Fault.CONFLICT):
            if call.operation == "TransactWriteItems":
                return _error(self._cancelled_by(call, "TransactionConflict"))
            return 400, {"__type": f"{prefix}TransactionConflictException", "message": "Transaction is ongoing"}
        return None

    def _cancelled_by(self, call: Any, reason: str) -> Refused:
        count = len(call.parameters["TransactItems"])
        chosen = self.faults.among(Fault.CONFLICT).randrange(count)
        return cancellation([{"Code": reason if number == chosen else "None"} for number in range(count)])

    def _answer(self, call: Any) -> tuple[int, dict[str, Any]]:
        services: dict[str, Callable[[str, Any], dict[str, Any]]] = {
            "dynamodb": self.table.call,
            "sqs": self._call_sqs,
            "stepfunctions": self._call_step_functions,
            "kms": _call_kms,
        }
        try:
            return 200, services[call.service](call.operation, call.parameters)
        except Refused as refused:
            return _error(refused)

    def _note_call(self, call: Any, result: object) -> None:
        self.note(call.operation, _subject(call.parameters), result)

    def _latency(self) -> float:
        draw = self._random.random()
        usual = 0.001 + 0.004 * draw if draw < 0.9 else 0.1 * draw if draw < 0.99 else 1.5 * draw
        # There and back take less than the six seconds after which the client of AWS gives up.
        return min(usual * self._slowness, MOST_LATENCY_S)

    def _lag(self) -> float:
        if self.faults.strikes(Fault.INDEX_LAG):
            return self.faults.among(Fault.INDEX_LAG).uniform(0, 2)
        return 0.01

    # SQS

    def _call_sqs(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        name = self._names[parameters["QueueUrl"]]
        done = []
        for entry in parameters["Entries"]:
            queue = self.queues[name]
            with suppress(self._sqs.SqsError):
                if operation == "SendMessageBatch":
                    self._send(name, entry)
                elif operation == "DeleteMessageBatch":
                    queue.delete(entry["ReceiptHandle"])
                elif operation == "ChangeMessageVisibilityBatch":
                    queue.change_visibility(entry["ReceiptHandle"], entry["VisibilityTimeout"])
                else:
                    raise AssertionError(operation)
            done.append({"Id": entry["Id"]})
        return {"Successful": done, "Failed": []}

    def send(self, queue: str, body: str) -> None:
        """Send a message as AWS does that is lost, doubled or late."""
        self._send(queue, {"MessageBody": body})

    def send_surely(self, queue: str, body: str) -> None:
        """Send a message as AWS does that is never lost."""
        self.queues[queue].send(self._sqs.Draft(body))

    def spawn_alone(self, name: str, work: Callable[[], Any]) -> None:
        """Start a task that belongs to no function."""
        self.scheduler.spawn(name, work, _NOBODY)

    def _send(self, name: str, entry: Mapping[str, Any]) -> None:
        queue = self.queues[name]
        refused = "DelaySeconds" if queue.fifo else "MessageDeduplicationId"
        assert refused not in entry, f"{refused} is invalid for this type of queue"
        draft = self._sqs.Draft(
            entry["MessageBody"],
            delay=entry.get("DelaySeconds"),
            group=entry.get("MessageGroupId"),
            deduplication_id=entry.get("MessageDeduplicationId"),
        )
        if self.faults.strikes(Fault.WAKE_UP_LOST):
            self.note("wake-up lost", name)
            return
        if self.faults.strikes(Fault.WAKE_UP_LATE):
            late = self.faults.among(Fault.WAKE_UP_LATE).choice((1, 10, 100, 1000))
            self.note("wake-up late", name, late)
            self.timers.add(token := f"late {len(self.history)}")
            self.scheduler.spawn("late wake-up", partial(self._send_late, queue, draft, token), _NOBODY, after=late)
            return
        queue.send(draft)
        if not queue.fifo and self.faults.strikes(Fault.WAKE_UP_DOUBLED):
            self.note("wake-up doubled", name)
            queue.send(draft)

    def _send_late(self, queue: Any, draft: Any, token: str) -> None:
        queue.send(draft)
        self.timers.discard(token)

    def _poll(self, function: topology.Function, source: topology.QueueSource) -> None:
        """Lambda's event source mapping of a queue."""
        queue, free = self.queues[source.queue], [None] * min(source.concurrency, 3)
        poller = self.scheduler.current
        assert poller is not None

        def work(messages: list[Any]) -> None:
            event = {"Records": [sqs_record(message, queue.arn) for message in messages]}
            ended = self.invoke(function.name, event)
            failed = failed_items(ended.result) if ended.succeeded else {each["MessageId"] for each in messages}
            for message in messages:
                if message["MessageId"] in failed:
                    if not ended.was_hit:
                        self._failed_messages.add(message["MessageId"])
                    continue
                if self.faults.strikes(Fault.NOT_DELETED):
                    self.note("not deleted", source.queue)
                    continue
                with suppress(self._sqs.SqsError):
                    queue.delete(message["ReceiptHandle"])
            free.append(None)
            self.running -= 1
            self.scheduler.wake(poller)

        while True:
            while not free:
                self.scheduler.park()
            messages = queue.receive(self._random.randint(1, source.batch_size), wait=math.inf)
            if messages:
                free.pop()
                self.running += 1
                self.scheduler.spawn(f"worker of {source.queue}", partial(work, messages))

    # The stream

    def _on_change(self) -> None:
        while self.table.stream:
            record = self.table.stream.popleft()
            images = record["dynamodb"]
            image = images.get("NewImage") or images["OldImage"]
            pk = images["Keys"]["pk"]["S"]
            if image.get("kind", {}).get("S") in STREAM_KINDS:
                number = hashlib.sha256(pk.encode()).digest()[0] % len(self._shards)
                self._shards[number].append(_stream_record(record))
                if number in self._readers:
                    self.scheduler.wake(self._readers.pop(number))
            if self._sweeper is not None and "due" in image:
                self.scheduler.wake(self._sweeper)

    def _read_stream(self, number: int, shard: deque[Any]) -> None:
        """Lambda's event source mapping of a shard: in order, and again from the first record that failed."""
        failures = 0
        task = self.scheduler.current
        assert task is not None
        while True:
            if not shard:
                self._readers[number] = task
                self.scheduler.park()
            self.scheduler.sleep(self._random.uniform(0.05, 1))
            count = min(len(shard), self._random.randint(1, LONGEST_BATCH))
            if failures:
                count = max(1, count // 2)
            batch = [shard[position] for position in range(count)]
            done = _processed(batch, self.invoke("fan_out", {"Records": batch}))
            if done == count and self.faults.strikes(Fault.STREAM_AGAIN):
                self.note("stream batch again")
                continue
            for _ in range(done):
                shard.popleft()
            failures = 0 if done == count else failures + 1
            if failures:
                self.scheduler.sleep(min(2**failures, 60))

    # Schedules and timers

    def _sweep(self) -> None:
        """Run `sweep` at each full minute at which it has something to find."""
        while True:
            due = self.table.next_due(SHARDS)
            if due is None:
                self.scheduler.park()
                continue
            minute = 60 * MICROSECONDS
            at = max(due * 1000, self.scheduler.now + 1)
            tick = -(-at // minute) * minute
            if self.scheduler.park((tick - self.scheduler.now) / MICROSECONDS):
                continue
            if self.faults.strikes(Fault.SWEEP_MISSED):
                self.note("sweep missed")
                self.scheduler.sleep(0.001)
                continue
            if self.faults.strikes(Fault.SWEEP_LATE):
                self.scheduler.sleep(self.faults.among(Fault.SWEEP_LATE).uniform(0, 59))
            for _ in range(2 if self.faults.strikes(Fault.SWEEP_DOUBLED) else 1):
                self.running += 1
                self.scheduler.spawn("sweep", self._run_sweep)
            self.scheduler.sleep(0.001)

    def _run_sweep(self) -> None:
        self.invoke("sweep", {})
        self.running -= 1

    def _expire(self) -> None:
        """Delete expired items, hours late."""
        while True:
            self.scheduler.sleep(self._random.uniform(600, 20_000))
            for key in self.table.expired():
                if self._random.random() < 0.5:
                    self.table.expire(key)

    def _call_step_functions(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        if operation == "SendTaskSuccess":
            task = self._task_tokens.pop(parameters["taskToken"], None)
            if task is None:
                raise Refused("TaskTimedOut", "no such task")
            self.scheduler.wake(task)
            return {}
        assert operation == "StartExecution", operation
        machine, name = parameters["stateMachineArn"], parameters["name"]
        if f"{machine}/{name}" in self._started:
            raise Refused("ExecutionAlreadyExists", name)
        self._started.add(f"{machine}/{name}")
        if self.faults.strikes(Fault.TIMER_LOST):
            self.note("timer lost", name)
            return {"executionArn": name}
        self.timers.add(name)
        given = json.loads(parameters["input"])
        run = self._delayed_delivery if machine == "delayed_delivery" else self._call_consent
        self.scheduler.spawn(machine, partial(run, name, given), _NOBODY)
        return {"executionArn": name}

    def _delayed_delivery(self, name: str, given: Mapping[str, str]) -> None:
        self.scheduler.sleep(clock.parse(given["due_at"]) / clock.SECOND - self.now)
        self.queues["retries"].send(self._sqs.Draft(given["message"], group=given["group"]))
        self.timers.discard(name)

    def _call_consent(self, name: str, given: Mapping[str, Any]) -> None:
        token = f"token-{name}"
        task = self.scheduler.current
        assert task is not None
        self._task_tokens[token] = task
        message = {"pk": given["pk"], "sk": given["sk"]}
        queue = self.queues["consents"]
        queue.send(self._sqs.Draft(json.dumps(message | {"task_token": token}), group=given["group"]))
        answered = self.scheduler.park(float(given["timeout_seconds"]))
        if not answered:
            self._task_tokens.pop(token, None)
            queue.send(self._sqs.Draft(json.dumps(message), group=given["group"]))
        self.timers.discard(name)

    # S3, by boto3

    def boto(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """A call of S3."""
        self.calls[operation] += 1
        self._kill_if_over()
        if self.strikes(Fault.KILLED):
            self._kill_around(partial(self._call_s3, operation, parameters), operation)
        self.scheduler.sleep(self._latency())
        if self.strikes(Fault.BROKEN):
            raise client_error("InternalError", 500, operation)
        found = self._call_s3(operation, parameters)
        self.note(operation, parameters.get("Key", ""))
        if self.strikes(Fault.LOST_AFTER):
            from botocore.exceptions import ReadTimeoutError

            self.note("lost after")
            raise ReadTimeoutError(endpoint_url="")
        self.scheduler.sleep(self._latency())
        return found

    def _call_s3(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        bucket = parameters["Bucket"]
        if operation == "put_object":
            self.objects[bucket, parameters["Key"]] = parameters["Body"]
            return {}
        if operation == "get_object":
            return {"Body": io.BytesIO(self.objects[bucket, parameters["Key"]])}
        if operation == "delete_object":
            self.objects.pop((bucket, parameters["Key"]), None)
            return {}
        if operation == "list_objects_v2":
            return {"IsTruncated": False}
        if operation == "list_object_versions":
            keys = sorted(
                key for place, key in self.objects if place == bucket and key.startswith(parameters["Prefix"])
            )
            return {"Versions": [{"Key": key, "VersionId": "null"} for key in keys]}
        raise AssertionError(operation)


class _Hook:
    """The hook of a host's AWS clients (`shared/aws/client.py`)."""

    one_at_a_time = True

    def __init__(self, world: World, host: Host) -> None:
        self._world, self._host = world, host

    def call(self, call: Any, proceed: Callable[[Any], Any]) -> Any:
        """Make the call."""
        return proceed(call)

    def attempt(self, call: Any, proceed: Callable[[], Any]) -> Any:
        """Make one attempt in the simulated AWS."""
        return self._world.attempt(self._host, call)

    def pause(self, call: Any, proceed: Callable[[], None]) -> None:
        """Wait between two attempts, in virtual time."""
        proceed()


class _S3:
    """In place of boto3's client of S3. It has no connections, so nothing happens at its events."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.meta = SimpleNamespace(events=SimpleNamespace(register=lambda *_, **__: None))

    def generate_presigned_url(self, operation: str, Params: Mapping[str, str], ExpiresIn: int) -> str:
        """A link, which nobody follows."""
        return f"https://s3.example.com/{Params['Bucket']}/{Params['Key']}"

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        return lambda **parameters: self._world.boto(operation, parameters)


class _QueueCreator:
    """The part of an SQS client that creates the topology's queues (`infra/local/resources.py`)."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def create_queue(self, QueueName: str, Attributes: Mapping[str, str]) -> dict[str, str]:
        """Create a queue."""
        return {"QueueUrl": self._engine.create(QueueName, Attributes).url}

    def get_queue_attributes(self, QueueUrl: str, AttributeNames: list[str]) -> dict[str, dict[str, str]]:
        """The ARN of a queue."""
        return {"Attributes": {"QueueArn": names.arn("sqs", QueueUrl.rpartition("/")[2])}}


_NOBODY = Group("aws")
"""The tasks that belong to no function."""


def _module(function: str) -> str:
    """The module of a function's handler."""
    return FUNCTIONS[function].module


def _error(refused: Refused) -> tuple[int, dict[str, Any]]:
    return 400, {"__type": f"x#{refused.code}", "message": refused.message, **refused.more}


def _call_kms(operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    context = json.dumps(parameters["EncryptionContext"], sort_keys=True)
    if operation == "Encrypt":
        sealed = json.dumps([context, parameters["Plaintext"]]).encode()
        return {"CiphertextBlob": base64.b64encode(sealed).decode()}
    assert operation == "Decrypt", operation
    found, plaintext = json.loads(base64.b64decode(parameters["CiphertextBlob"]))
    if found != context:
        raise Refused("InvalidCiphertextException", "another context")
    return {"Plaintext": plaintext}


def _processed(batch: list[Any], ended: Ended) -> int:
    """The number of records that need not be given again."""
    if not ended.succeeded:
        return 0
    failed = failed_items(ended.result)
    numbers = [record["dynamodb"]["SequenceNumber"] for record in batch]
    return min((numbers.index(number) for number in failed), default=len(batch))


def _stream_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """A change in the format of Lambda's events."""
    arn = names.arn("dynamodb", f"table/{resources.TABLE_NAME}/stream/1")
    more = {"eventVersion": "1.1", "eventSource": "aws:dynamodb", "awsRegion": names.REGION, "eventSourceARN": arn}
    return {**record, **more}


def _subject(parameters: Mapping[str, Any]) -> str:
    """What a call is about, in a line."""
    if "TransactItems" in parameters:
        parts = [(kind, details) for entry in parameters["TransactItems"] for kind, details in entry.items()]
        return ", ".join(f"{kind} {_subject(details)}" for kind, details in parts)
    key = parameters.get("Key") or parameters.get("Item")
    if key:
        return f"{key['pk']['S']}/{key['sk']['S']}"
    if "Entries" in parameters:
        bodies = [entry.get("MessageBody", "") for entry in parameters["Entries"]]
        return f"{parameters['QueueUrl'].rpartition('/')[2]} {' '.join(bodies)}"
    values = parameters.get("ExpressionAttributeValues")
    if values:
        return f"{parameters.get('IndexName', '')} {' '.join(value.get('S', '') for value in values.values())}"
    if "RequestItems" in parameters:
        ((_, request),) = parameters["RequestItems"].items()
        return ", ".join(f"{key['pk']['S']}/{key['sk']['S']}" for key in request["Keys"])
    return str(parameters.get("name", ""))


def prepare(seed: str, world_time: Callable[[], float]) -> None:
    """Make all that is random or reads the clock depend on the seed, in this process, for good."""
    import time
    import uuid

    bytes_of = random.Random(f"{seed}/bytes")
    os.urandom = bytes_of.randbytes
    random._urandom = bytes_of.randbytes  # type: ignore[attr-defined]
    random.seed(f"{seed}/random")
    uuid.uuid4 = lambda: uuid.UUID(bytes=bytes_of.randbytes(16), version=4)
    time.time = time.monotonic = time.perf_counter = world_time
    time.time_ns = time.monotonic_ns = time.perf_counter_ns = lambda: round(world_time() * 1e9)

    time.sleep = _no_sleep


def _no_sleep(seconds: Any) -> None:
    raise AssertionError("time.sleep is not simulated")
