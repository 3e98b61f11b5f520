"""Clients of the API: what they ask for, how they retry, and what they were told. The checker reads their records.

Each client has a script that the seed draws. It retries as the documentation advises: under the same Idempotency-Key,
while the response says so or there is none.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from shared.core import clock
from tests.simulation.deployment import DEPLOYED
from tests.simulation.faults import Fault
from tests.simulation.hosts import Host
from tests.simulation.receivers import Receiver
from tests.simulation.world import Response, World

if TYPE_CHECKING:
    from tests.simulation.desk import Form, View

PHONES = [f"+150055500{number:02}" for number in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 22, 24)]
"""Numbers of test mode: the last digits decide how a call ends, and whether there is consent."""
WISH = "Please do not call me again."
"""A person's wish not to be called, which opts the phone out."""
AGREES = "Yes, please."
"""The only one of `WORDS` that agrees to a proposal."""
WORDS = (
    "Hello",
    "When is my appointment?",
    "Please confirm my appointment.",
    "Could you cancel my appointment, please?",
    AGREES,
    "Please move it to tomorrow at 10:00.",
    "I want to talk to a person.",
    WISH,
    "[[sim:error]]",
    "[[sim:handoff]]",
    "[[sim:timeout]]",
)
DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
HOURS: tuple[list[dict[str, Any]], ...] = (
    [],
    [{"days": DAYS, "from": "08:00", "to": "08:10"}],
    [{"days": DAYS, "from": "09:00", "to": "17:00"}],
    [{"days": DAYS[1:2], "from": "10:00", "to": "24:00"}, {"days": DAYS[5:], "from": "00:00", "to": "06:00"}],
)
"""Calling hours, in UTC. A history begins on a Friday at 8:00."""
MOST_TRIES = 8
MOST_ERASING = 100
"""How often an erasure is begun or continued at most."""


@dataclass(frozen=True)
class Scope:
    """A project and a mode, and their keys: one that may do everything, a read-only one, and one that ends."""

    project: int
    livemode: bool
    key: str
    reading: str
    ending: str
    ends_at: float
    """When the last one ends, in Unix seconds."""

    @property
    def name(self) -> str:
        """What tells it from others."""
        return f"{self.project}/{'live' if self.livemode else 'test'}"


@dataclass
class Try:
    """A request as it was sent once: when it began and ended, and its response."""

    began: float
    ended: float
    response: Response


@dataclass
class Operation:
    """What a client wanted to have done, and all its tries."""

    number: int
    scope: Scope
    method: str
    path: str
    body: Any
    key: str | None
    """Its Idempotency-Key."""
    api_key: str
    tries: list[Try] = field(default_factory=list)
    reuses: Operation | None = None
    """The operation whose key it uses, which it must not."""

    @property
    def name(self) -> str:
        """The mark by which its effect is recognized."""
        return f"op{self.number}"

    @property
    def began(self) -> float:
        """When it was first sent."""
        return self.tries[0].began

    @property
    def ended(self) -> float:
        """When its last response arrived."""
        return self.tries[-1].ended

    @property
    def succeeded(self) -> bool:
        """Whether a response says that it was done."""
        return any(200 <= each.response.status < 300 for each in self.tries)

    @property
    def result(self) -> Any:
        """The body of the success."""
        return next(each.response.json for each in self.tries if 200 <= each.response.status < 300)

    @property
    def refused(self) -> bool:
        """Whether every response says that nothing was done."""
        return all(400 <= each.response.status < 500 for each in self.tries)


@dataclass
class Erasure:
    """A customer who is to be erased. `ended` is when the erasure was complete."""

    scope: Scope
    customer: str
    ended: float | None = None


@dataclass(frozen=True)
class Taking:
    """A person of the business took or released a conversation. `done` is None if that is not known."""

    scope: Scope
    conversation: str
    who: str
    takes: bool
    began: float
    ended: float
    done: bool | None


@dataclass
class Load:
    """What all clients of a history did. `limits` are the requests of a key in a second and in a minute.

    `share` is the number of live messages of a project that may be under way.
    """

    limits: tuple[int, int]
    share: int
    operations: list[Operation] = field(default_factory=list)
    endpoints: dict[str, Receiver] = field(default_factory=dict)
    """The receiver of each endpoint's URL."""
    scopes: list[Scope] = field(default_factory=list)
    erasures: list[Erasure] = field(default_factory=list)
    replays: list[tuple[Scope, str]] = field(default_factory=list)
    """The endpoints to which failed deliveries were replayed."""
    takings: list[Taking] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    forms: list[Form] = field(default_factory=list)
    """The pages that people opened, and the forms that they sent."""
    hot: int = 4
    """Of how many of the latest resources clients think most."""
    left: int = 0
    """The clients that have not ended."""
    known: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """By scope's name and kind: the ids that clients of the scope know."""


class Client:
    """One client of a scope."""

    def __init__(self, seed: str, number: int, scope: Scope, world: World, load: Load, focus: Focus) -> None:
        self._focus = focus
        self._random = random.Random(f"{seed}/client/{number}")
        self._number, self._scope, self._world, self._load = number, scope, world, load
        self._hurry = self._random.choice((0.05, 1.0, 30.0, 600.0))

    def run(self, steps: int) -> None:
        """Take so many steps. The first client mostly begins with those of `FIRST`."""
        first = FIRST if self._number == 0 and self._random.random() < 0.7 else ()
        for number in range(steps):
            drawn = self._random.choices(list(self._focus.steps), list(self._focus.steps.values()))[0]
            self._do_step(first[number] if number < len(first) else drawn)
            self._world.scheduler.sleep(self._random.expovariate(1 / self._hurry))
        self._load.left -= 1

    def _do_step(self, step: str) -> None:
        getattr(self, f"_{step}")()

    # Steps

    def _create_customer(self) -> None:
        body = {"phone": self._random.choice(PHONES), "name": self._random.choice(("Ada", "Bo", None))}
        self._create("customers", "/v1/customers", body)

    def _create_appointment(self) -> None:
        if customer := self._any("customers"):
            at = f"2027-01-{self._random.randint(20, 28)}T{self._random.randint(9, 16):02}:00:00Z"
            body = {"customer_id": customer, "appointment_at": at, "title": "Visit"}
            self._create("appointments", "/v1/appointments", body)

    def _change_customer(self) -> None:
        if customer := self._any("customers"):
            body: dict[str, Any] = {"metadata": {"mark": "?"}}
            if self._random.random() < 0.2:
                body["do_not_call"] = self._random.random() < 0.5
            if self._random.random() < 0.2:
                body["phone"] = self._random.choice(PHONES)
            self._do("PATCH", f"/v1/customers/{customer}", body)

    def _change_appointment(self) -> None:
        if appointment := self._any("appointments"):
            body: dict[str, Any] = {"metadata": {"mark": "?"}}
            chosen = self._random.random()
            if chosen < 0.3:
                body["status"] = self._random.choice(("confirmed", "cancelled", "failed"))
            elif chosen < 0.5:
                body["appointment_at"] = f"2027-02-{self._random.randint(1, 28):02}T10:00:00Z"
            self._do("PATCH", f"/v1/appointments/{appointment}", body)

    def _delete(self) -> None:
        kind = self._random.choice(("customers", "appointments", "webhook_endpoints"))
        if id := self._any(kind):
            self._do("DELETE", f"/v1/{kind}/{id}")

    def _read(self) -> None:
        kind = self._random.choice(("customers", "appointments", "sessions", "conversations"))
        if id := self._any(kind):
            self._do("GET", f"/v1/{kind}/{id}")

    def _list(self) -> None:
        self._do("GET", f"/v1/{self._random.choice(('customers', 'appointments', 'sessions', 'events'))}")

    def _read_of_others(self) -> None:
        others = [ids for (scope, _), ids in sorted(self._load.known.items()) if scope != self._scope.name and ids]
        if others:
            id = self._random.choice(self._random.choice(others))
            kinds = {"cust": "customers", "appt": "appointments", "sess": "sessions", "conv": "conversations"}
            if kind := kinds.get(id.partition("_")[0]):
                self._do("GET", f"/v1/{kind}/{id}")

    def _create_endpoint(self) -> None:
        receiver = self._world.receivers.new()
        filters = self._random.choice(([], [], ["customer.*"], ["appointment.created", "session.*"]))
        body = {"url": receiver.url, "event_filters": filters}
        self._load.endpoints[receiver.url] = receiver
        self._create("webhook_endpoints", "/v1/webhook_endpoints", body, marked=False)

    def _change_endpoint(self) -> None:
        if endpoint := self._any("webhook_endpoints"):
            if self._random.random() < 0.3:
                self._do("POST", f"/v1/webhook_endpoints/{endpoint}/rotate_secret", {})
            elif self._random.random() < 0.3:
                self._do("POST", f"/v1/webhook_endpoints/{endpoint}/test", {})
            else:
                body = {"enabled": self._random.random() < 0.6}
                self._do("PATCH", f"/v1/webhook_endpoints/{endpoint}", body)

    def _call(self, **more: Any) -> None:
        if customer := self._any("customers"):
            body: dict[str, Any] = {**more}
            if self._random.random() < 0.3 and (appointment := self._any("appointments")):
                body["appointment_id"] = appointment
            if self._random.random() < 0.3:
                seconds = self._random.choice((1, 10, 60, 3600, 20_000))
                body["not_before"] = clock.iso(clock.Instant(round((self._world.now + seconds) * 1000)))
            operation = self._do("POST", f"/v1/customers/{customer}/call", body)
            if operation.succeeded:
                self._know("sessions", operation.result["session_id"])

    def _call_on_whatsapp(self) -> None:
        self._call(channel="whatsapp")

    def _cancel(self) -> None:
        if session := self._any("sessions"):
            self._do("POST", f"/v1/sessions/{session}/cancel", {})

    def _opt_in(self) -> None:
        if customer := self._any("customers"):
            self._do("POST", f"/v1/customers/{customer}/opt_in", {})

    def _message(self) -> None:
        body: dict[str, Any] = {"content": self._random.choice(WORDS)}
        body["external_conversation_id"] = f"thread{self._random.randint(1, 4)}"
        if self._random.random() < 0.7 and (customer := self._any("customers")):
            body["customer"] = {"id": customer}
        operation = self._do("POST", "/v1/messages", body)
        if operation.succeeded:
            self._know("conversations", operation.result["conversation"]["id"])

    def _message_in_conversation(self) -> None:
        if conversation := self._any("conversations"):
            body: dict[str, Any] = {"content": self._random.choice(WORDS)}
            if self._random.random() < 0.2:
                body["role"] = "staff"
            self._do("POST", f"/v1/conversations/{conversation}/messages", body)

    def _agree(self) -> None:
        """A customer agrees to what the agent has proposed, if it has proposed anything."""
        if conversation := self._any("conversations"):
            self._do("POST", f"/v1/conversations/{conversation}/messages", {"content": AGREES})

    def _slow_message(self) -> None:
        """A message to a thread of its own, whose reply takes seconds."""
        body = {"content": "[[sim:timeout]]", "external_conversation_id": f"slow{self._number}"}
        operation = self._do("POST", "/v1/messages", body)
        if operation.succeeded:
            self._know("conversations", operation.result["conversation"]["id"])

    def _end_conversation(self) -> None:
        if conversation := self._any("conversations"):
            action = self._random.choice(("end", "resume"))
            self._do("POST", f"/v1/conversations/{conversation}/{action}", {})

    def _take(self) -> None:
        """Somebody of the business takes a conversation on the desk, or releases it."""
        if conversation := self._any("conversations"):
            who, takes, began = f"person{self._number}", self._random.random() < 0.7, self._world.now
            work = partial(_take_now, self._scope, conversation, who, takes)
            ended = self._world.operate("desk", work)
            done = ended.result if ended.succeeded else None
            self._load.takings.append(Taking(self._scope, conversation, who, takes, began, self._world.now, done))

    def _hand_off(self) -> None:
        """A customer asks for a person, whom somebody takes."""
        if conversation := self._any("conversations"):
            self._do("POST", f"/v1/conversations/{conversation}/messages", {"content": "[[sim:handoff]]"})
            self._take()

    def _change_settings(self) -> None:
        self._do("PATCH", "/v1/agent_settings", {"calling_hours": self._random.choice(HOURS)})

    def _retry_delivery(self) -> None:
        found = self._do("GET", "/v1/events")
        events = found.result["data"] if found.succeeded else []
        if not events:
            return
        path = f"/v1/events/{self._random.choice(events)['id']}/deliveries"
        found = self._do("GET", path)
        deliveries = found.result["data"] if found.succeeded else []
        if deliveries:
            self._do("POST", f"{path}/{self._random.choice(deliveries)['id']}/retry", {})

    def _reuse_key(self) -> None:
        """Another request under the key of an earlier one."""
        mine = [each for each in self._load.operations if each.scope is self._scope and each.key and each.succeeded]
        if mine:
            other = self._random.choice(mine)
            number = len(self._load.operations)
            body = {"phone": PHONES[0], "metadata": {"mark": f"op{number}"}}
            path, api_key = "/v1/customers", self._scope.key
            operation = Operation(number, self._scope, "POST", path, body, other.key, api_key, reuses=other)
            self._load.operations.append(operation)
            self._send(operation, 1)

    def _replay(self) -> None:
        """An operator has all failed deliveries to an endpoint retried."""
        if endpoint := self._any("webhook_endpoints"):
            since = self._world.now - self._random.choice((60, 3600, 86_400))
            self._load.replays.append((self._scope, endpoint))
            self._world.operate("start", partial(_start_replay, self._scope, endpoint, round(since * 1000)))

    def _erase(self) -> None:
        """An operator erases a customer, which takes minutes. It was often changed just before."""
        if customer := self._any("customers"):
            if self._random.random() < 0.5:
                self._do("PATCH", f"/v1/customers/{customer}", {"metadata": {"mark": "?"}})
            erasure = Erasure(self._scope, customer)
            self._load.erasures.append(erasure)
            for _ in range(MOST_ERASING):
                ended = self._world.operate("erase", partial(_erase_now, self._scope, customer))
                if ended.succeeded and ended.result is None:
                    erasure.ended = self._world.now
                    return
                again_at = ended.result if ended.succeeded else self._world.now + 60
                self._world.scheduler.sleep(max(1, again_at - self._world.now))

    def _wait(self) -> None:
        self._world.scheduler.sleep(self._random.choice((1, 60, 3600, 20_000)))

    def _wait_for_days(self) -> None:
        self._world.scheduler.sleep(self._random.choice((0.5, 1, 2)) * 86_400)

    # Requests

    def _create(self, kind: str, path: str, body: Any, *, marked: bool = True) -> None:
        operation = self._do("POST", path, body | ({"metadata": {"mark": "?"}} if marked else {}))
        if operation.succeeded:
            self._know(kind, operation.result["id"])

    def _know(self, kind: str, id: str) -> None:
        ids = self._load.known.setdefault((self._scope.name, kind), [])
        if id not in ids:
            ids.append(id)

    def _any(self, kind: str) -> str | None:
        """One of the ids that clients of the scope know, more often a late one. If they know none, one is created."""
        if not self._load.known.get((self._scope.name, kind)):
            self._do_step(CREATED_BY[kind])
        ids = self._load.known.get((self._scope.name, kind), [])
        late = ids[-self._load.hot :]
        return self._random.choice(late if self._random.random() < 0.8 else ids) if ids else None

    def _do(self, method: str, path: str, body: Any = None) -> Operation:
        """Send a request, and again while that is advised. Sometimes it is sent twice at once."""
        number = len(self._load.operations)
        if isinstance(body, dict) and "metadata" in body:
            body = body | {"metadata": {"mark": f"op{number}", f"key{number % 3}": f"op{number}"}}
        key = f"key-{number}" if method in ("POST", "PATCH") and self._random.random() < self._focus.keyed else None
        scope = self._scope
        api_key = self._random.choices((scope.key, scope.reading, scope.ending), (30, 1, 1))[0]
        operation = Operation(number, scope, method, path, body, key, api_key)
        self._load.operations.append(operation)
        twice = key is not None and self._random.random() < 0.1
        patience = self._random.choice((1, 3, MOST_TRIES))
        if twice:
            self._load.left += 1
            self._world.scheduler.spawn(f"twice {number}", lambda: self._send_second(operation))
        self._send(operation, patience)
        return operation

    def _send_second(self, operation: Operation) -> None:
        self._send(operation, 1)
        self._load.left -= 1

    def _send(self, operation: Operation, patience: int) -> None:
        for number in itertools.count(1):
            began = self._world.now
            headers = {"Idempotency-Key": operation.key} if operation.key else {}
            response = self._world.request(operation.method, operation.path, operation.api_key, operation.body, headers)
            operation.tries.append(Try(began, self._world.now, response))
            self._world.note(
                *(operation.name, operation.method, operation.path, json.dumps(operation.body)),
                *(response.status, response.body[:300]),
            )
            if not _may_repeat(operation, response) or number >= patience:
                return
            self._world.scheduler.sleep(self._random.uniform(0.2, 1.0) * 2**number)


def _may_repeat(operation: Operation, response: Response) -> bool:
    """Whether the documentation advises to send the request again."""
    if response.status in (502, 504):
        return operation.key is not None or operation.method in ("GET", "DELETE")
    return response.headers.get("service-should-retry", response.headers.get("Service-Should-Retry")) == "true"


def scope_at(host: Host, scope: Scope) -> Any:
    """The scope as the service's modules know it."""
    return host.module("shared.store.keys").Scope(scope.project, scope.livemode)


def _start_replay(scope: Scope, endpoint: str, since: int, host: Host) -> None:
    """Start a replay, as its page does. Nothing happens if the endpoint is closed, or a replay is running."""
    start = host.module("shared.webhooks.replays").start
    with suppress(host.module("shared.core.errors").ApiError):
        host.commit(lambda: start(scope_at(host, scope), endpoint, since, "operator"), "operator")


def _erase_now(scope: Scope, customer: str, host: Host) -> float | None:
    """Go on with an erasure. Returns when to do so again; None if it is complete."""
    erasing = host.module("shared.erasure.erasing")
    try:
        for _ in erasing.erase(scope_at(host, scope), customer, list):
            pass
    except erasing.NotYet as wait:
        return float(wait.until / 1000)
    return None


def _take_now(scope: Scope, conversation: str, who: str, takes: bool, host: Host) -> bool:
    """Take or release a conversation, as the desk does. Returns whether that changed anything."""
    commands = host.module("shared.conversations.commands")
    of = scope_at(host, scope), conversation
    command = partial(commands.take, *of, who) if takes else partial(commands.release, *of)
    with suppress(host.module("shared.core.errors").ApiError):
        return bool(host.commit(command, who).writes)
    return False


STEPS = {
    "create_customer": 6,
    "create_appointment": 6,
    "change_customer": 6,
    "change_appointment": 8,
    "delete": 2,
    "read": 6,
    "list": 1,
    "read_of_others": 2,
    "create_endpoint": 2,
    "change_endpoint": 3,
    "call": 5,
    "cancel": 2,
    "opt_in": 1,
    "message": 6,
    "message_in_conversation": 4,
    "slow_message": 1,
    "end_conversation": 1,
    "take": 1,
    "hand_off": 1,
    "change_settings": 1,
    "retry_delivery": 2,
    "reuse_key": 1,
    "replay": 1,
    "erase": 1,
    "wait": 2,
}
"""The steps of a client, and how often each is taken."""


@dataclass(frozen=True)
class Focus:
    """What a history is about: the clients' steps, how many clients there are and how many steps each takes.

    With `rates`, faults of these kinds happen so often, and no others. `keyed` is the share of writes that have an
    Idempotency-Key.
    """

    steps: Mapping[str, int] = field(default_factory=lambda: STEPS)
    rates: Mapping[Fault, float] = field(default_factory=dict)
    size: tuple[int, int] | None = None
    keyed: float = 0.85
    live: bool = False
    """Whether all clients have live keys."""
    carrier: bool = False
    """Whether live calls are placed by the carrier."""
    deployed: float = DEPLOYED
    """The share of histories with a deployment."""
    canary: bool = False
    """Whether the canary runs."""
    log: bool = False
    """Whether there is a log of requests."""
    hosts: int = 1
    """How many hosts there are at least."""
    pages: bool = False
    """Whether people use the admin pages."""


EVERYTHING = Focus()
FOCUSES = {
    "changes": Focus(
        {"change_customer": 1, "change_appointment": 1, "read": 1}, {Fault.LOST_AFTER: 0.1}, size=(4, 6), keyed=0.5
    ),
    "events": Focus(
        {"create_endpoint": 1, "create_customer": 2, "change_customer": 3, "create_appointment": 2},
        {Fault.KILLED: 0.04, Fault.REFUSED: 0.45, Fault.STREAM_AGAIN: 0.2},
        size=(3, 6),
    ),
    "calls": Focus({"call": 4, "cancel": 1, "delete": 1, "read": 1}, {Fault.CONFLICT: 0.1}, size=(4, 4)),
    "uncertain": Focus(
        {"create_customer": 2, "create_endpoint": 2, "create_appointment": 1, "call": 1},
        {Fault.LOST_AFTER: 0.2, Fault.REFUSED: 0.3},
        size=(2, 5),
        keyed=0.3,
    ),
    "wake_ups": Focus(
        {"call": 2, "message": 2, "create_endpoint": 1, "change_customer": 1},
        {Fault.WAKE_UP_LOST: 0.8, Fault.TIMER_LOST: 0.5, Fault.SWEEP_MISSED: 0.3},
        size=(2, 4),
    ),
    "messages": Focus({"message": 2, "message_in_conversation": 4, "end_conversation": 1}, size=(4, 4)),
    "deadly": Focus(
        {"create_endpoint": 1, "create_customer": 2, "retry_delivery": 1}, {Fault.DEADLY: 0.5}, size=(2, 4)
    ),
    "erasures": Focus(
        {"create_customer": 2, "create_appointment": 1, "message": 1, "call": 1, "erase": 5},
        {Fault.STALLED: 0.02, Fault.FROZEN: 0.02, Fault.STREAM_AGAIN: 0.2},
        size=(4, 5),
    ),
    "requests": Focus({"read": 1}, size=(5, 20)),
    "claims": Focus(
        {"create_endpoint": 1, "create_customer": 2, "call": 2, "message": 2},
        {Fault.STALLED: 0.05, Fault.FROZEN: 0.02, Fault.NOT_DELETED: 0.3, Fault.WAKE_UP_DOUBLED: 0.5},
        size=(3, 4),
    ),
    "hours": Focus({"call": 3, "change_settings": 3, "wait": 1, "delete": 1}, size=(3, 6)),
    "desk": Focus({"message": 1, "hand_off": 3, "take": 4, "end_conversation": 1}, size=(4, 5)),
    "live_calls": Focus(
        {
            "call": 5,
            "message": 1,
            "cancel": 1,
            "change_customer": 1,
            "opt_in": 1,
            "delete": 1,
            "create_appointment": 1,
            "erase": 1,
        },
        size=(3, 4),
        live=True,
        carrier=True,
    ),
    "consents": Focus(
        {"call_on_whatsapp": 10, "call": 1, "cancel": 1, "change_customer": 1, "opt_in": 1, "delete": 1, "erase": 1}
        | {"wait": 2, "wait_for_days": 6, "message": 1},
        size=(3, 7),
        live=True,
        carrier=True,
    ),
    "pages": Focus(
        {"create_customer": 2, "change_customer": 4, "message": 3, "hand_off": 2, "create_endpoint": 1, "delete": 1}
        | {"create_appointment": 1, "call": 1, "end_conversation": 1, "erase": 1, "wait": 1},
        size=(2, 4),
        pages=True,
    ),
    "slots": Focus({"message": 2, "slow_message": 3}, size=(4, 5), live=True),
    "canary": Focus(
        {"create_customer": 1, "create_endpoint": 1, "wait": 2}, {Fault.KILLED: 0.02}, size=(2, 3), canary=True
    ),
    "model": Focus(
        {"message": 2, "message_in_conversation": 4, "hand_off": 1, "end_conversation": 1},
        {Fault.MODEL_SLOW: 0.8, Fault.MODEL_FAILED: 0.3},
        size=(2, 5),
        live=True,
        carrier=True,
        hosts=3,
    ),
    "agent": Focus(
        {"create_appointment": 2, "message": 2, "message_in_conversation": 3, "agree": 4},
        {Fault.MODEL_ODD: 0.1, Fault.CONFLICT: 0.1},
        size=(3, 6),
        live=True,
        carrier=True,
    ),
    "log": Focus({"create_customer": 2, "change_customer": 1, "read": 2, "read_of_others": 1}, size=(3, 4), log=True),
    "opt_outs": Focus({"call": 4, "change_customer": 3, "message": 3, "opt_in": 1}, size=(3, 6)),
    "endpoints": Focus(
        {"create_endpoint": 1, "change_endpoint": 4, "change_customer": 3, "retry_delivery": 2}, size=(3, 6)
    ),
    "deployment": Focus(size=(3, 6), deployed=1),
}
"""What a history may be about, by name."""
FIRST = ("create_endpoint", "create_customer", "create_appointment")
CREATED_BY = {
    "customers": "create_customer",
    "appointments": "create_appointment",
    "webhook_endpoints": "create_endpoint",
    "sessions": "call",
    "conversations": "message",
}
"""The step that creates a resource of each kind."""
