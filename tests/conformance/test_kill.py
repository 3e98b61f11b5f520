"""The local runner is killed again and again while clients write; promises 4 ("a crash at any point"), 6 and 9
("Crash safety").

`pytest -m kill` runs it alone. The moments of the kills and what the clients do follow from a seed, which is
printed; `KILL_SEED` sets another one.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.client import Client, Promises, Response
from tests.support.runner import LocalRunner, command_line, processes_of
from tests.support.signed_receiver import Hook, Receiver, service_signature_is_valid, standard_signature_is_valid

SPEED = 60
SEED = int(os.environ.get("KILL_SEED") or 20260822)
BUDGET = 235
"""Seconds for everything but the last stop. Leases run for 60 s at any speed, so recovery alone may take 75."""
KILLS = ("runner", "everything", "starting", "runner")
"""These at the least, and as many more as begin within `KILLING` seconds."""
KILLING = 70
MOST_KILLS = 10
ANSWERED_WITHIN = 150
"""Seconds from the first try on."""
STOPS_WITHIN = 5 + 2  # what design.md promises, and a busy machine
MOST_SHARED_KEYS = 10  # for each client; metadata takes 50
MOST_NEW_ENDPOINTS = 3  # for each client
FIRST_TIME = datetime(2031, 1, 1, tzinfo=UTC)

pytestmark = [
    pytest.mark.kill,
    pytest.mark.runner("kills what it starts itself"),
]


@pytest.fixture(autouse=True)
def every_response_keeps_the_common_promises() -> None:
    """In place of the one for the shared runner, which these tests do without; `aftermath` has its own look."""


@dataclass
class Operation:
    """A request under an Idempotency-Key. `mark` is a value that only this request puts into the resource."""

    what: str
    method: str
    path: str
    body: Mapping[str, Any]
    key: str
    mark: str
    answers: list[Response] = field(default_factory=list)
    attempts: int = 0
    sent_at: float = 0
    answered_at: float = 0

    @property
    def answer(self) -> Response:
        return self.answers[0]

    @property
    def made(self) -> Any:
        """The resource as the first answer showed it."""
        return self.answer.json


class Writer:
    """A client that writes until told to stop, and asks again under the same key until it is answered."""

    def __init__(self, number: int, client: Client, shared: Client, receiver: Receiver) -> None:
        self.client = client
        self.shared_id = ""
        self.operations: list[Operation] = []
        self.hooks: dict[str, Hook] = {}
        self.refused: list[str] = []
        self._number = number
        self._shared = shared
        self._receiver = receiver
        self._random = random.Random(f"{SEED}-{number}")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._customers: list[str] = []
        self._appointments: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Let the writer get the answer that it waits for, and no more."""
        self._stop.set()
        self._thread.join()

    def send(self, operation: Operation) -> None:
        """Until it is answered, whatever becomes of the runner meanwhile."""
        client = self._shared if operation.what == "shared" else self.client
        operation.sent_at = operation.sent_at or time.time()
        give_up = time.monotonic() + ANSWERED_WITHIN
        while time.monotonic() < give_up:
            operation.attempts += 1
            try:
                answer = client.request(
                    operation.method, operation.path, json_body=operation.body, idempotency_key=operation.key
                )
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
                continue
            if answer.headers.get("Service-Should-Retry") == "true":
                time.sleep(0.2)
                continue
            if answer.status not in (200, 201):
                self.refused.append(f"{operation.method} {operation.path}: {answer}")
            operation.answered_at = operation.answered_at or time.time()
            operation.answers.append(answer)
            return

    def subscribe(self, *filters: str) -> Operation:
        """Create an endpoint of this client's project and mode."""
        hook = self._receiver.hook(*self._random.choice(((200,), (500, 200))))
        body = {"url": hook.url, "event_filters": list(filters)}
        operation = self._operation("endpoint", "POST", "/v1/webhook_endpoints", hook.url, body)
        self.hooks[hook.url] = hook
        self._do(operation)
        return operation

    def _run(self) -> None:
        while not self._stop.is_set():
            self._write_something()
            self._stop.wait(self._random.uniform(0, 0.05))

    def _write_something(self) -> None:
        mark = f"{self._number}-{len(self.operations)}"
        done = Counter(operation.what for operation in self.operations)
        chance = self._random.random()
        if not done["shared"] or (0.45 <= chance < 0.6 and done["shared"] < MOST_SHARED_KEYS):
            path = f"/v1/customers/{self.shared_id}"
            self._do(self._operation("shared", "PATCH", path, mark, {"metadata": {mark: len(self.operations)}}))
        elif not self._customers or chance < 0.2:
            operation = self._operation(
                "customer", "POST", "/v1/customers", mark, {"phone": "+15005550006", "external_id": mark}
            )
            self._do(operation)
            self._customers.append(operation.made["id"]) if operation.answers else None
        elif not self._appointments or chance < 0.4:
            given = {"appointment_at": self._time(), "external_id": mark}
            customer_id = self._random.choice(self._customers)
            operation = self._operation(
                "appointment", "POST", "/v1/appointments", mark, given | {"customer_id": customer_id}
            )
            self._do(operation)
            self._appointments.append(operation.made["id"]) if operation.answers else None
        elif chance < 0.45 and done["endpoint"] < 1 + MOST_NEW_ENDPOINTS:
            self.subscribe("appointment.rescheduled")
        elif chance < 0.8:
            path = f"/v1/customers/{self._random.choice(self._customers)}"
            self._do(self._operation("rename", "PATCH", path, mark, {"name": mark}))
        else:
            path, moment = f"/v1/appointments/{self._random.choice(self._appointments)}", self._time()
            self._do(self._operation("reschedule", "PATCH", path, moment, {"appointment_at": moment}))

    def _operation(self, what: str, method: str, path: str, mark: str, body: Mapping[str, Any]) -> Operation:
        return Operation(what, method, path, body, f"kill-{self._number}-{len(self.operations)}", mark)

    def _do(self, operation: Operation) -> None:
        self.operations.append(operation)
        self.send(operation)
        if self._random.random() < 0.15:
            self.send(operation)

    def _time(self) -> str:
        """A time that no other request names."""
        moment = FIRST_TIME + timedelta(minutes=len(self.operations), days=1000 * self._number)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.000Z"


@dataclass
class Aftermath:
    """What clients, receiver and service know when all is over, and how the runner ended."""

    writers: list[Writer]
    customers: list[list[Any]]
    appointments: list[list[Any]]
    endpoints: list[list[Any]]
    events: list[list[Any]]
    deliveries: dict[str, list[Any]]
    shared_id: str
    ready: list[Any]
    breaches: list[str]
    seconds: float
    stopped_in: float = 0
    exit_code: int | None = None
    left: list[str] = field(default_factory=list)
    group_left: bool = False
    ready_file_left: bool = False

    def operations(self, *what: str) -> list[Operation]:
        return [one for writer in self.writers for one in writer.operations if one.what in what]

    def events_about(self, object_id: str) -> list[Any]:
        """Oldest first."""
        return [event for log in self.events for event in reversed(log) if event["data"]["object"]["id"] == object_id]


def pages(client: Client, path: str) -> list[Any]:
    """All items of a list, newest first."""
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = client.get(path, {"limit": 100} | ({"starting_after": cursor} if cursor else {})).ok()
        found += page["data"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def expected_events(writer: Writer, writers: list[Writer]) -> int:
    """How many events the writer's project and mode must have for what was answered."""
    own = sum(len(one.answers) > 0 for one in writer.operations if one.what not in ("endpoint", "shared"))
    if writer is not writers[0]:
        return own
    # The shared customer lives there: its creation, and what everybody did to it.
    return own + 1 + sum(len(one.answers) > 0 for each in writers for one in each.operations if one.what == "shared")


def is_settled(writers: list[Writer]) -> bool:
    """Whether each project's log is complete and no delivery waits any more."""
    for writer in writers:
        events = pages(writer.client, "/v1/events")
        if len(events) < expected_events(writer, writers):
            return False
        ids = {event["id"] for event in events}
        first = writer.hooks[writer.operations[0].mark]
        if ids - {received.headers["webhook-id"] for received in first.received}:
            return False
        for event in events:
            for delivery in writer.client.get(f"/v1/events/{event['id']}/deliveries").ok()["data"]:
                if delivery["status"] == "attempting":
                    return False
    return True


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    runner = LocalRunner(tmp_path_factory.mktemp("killed"), SPEED)
    try:
        with Receiver() as receiver:
            found = _kill_and_look(runner, receiver)
        pids = runner.children()
        group = os.getpgid(runner.process.pid)
        found.stopped_in = runner.terminate()
        found.exit_code = runner.process.returncode
        found.left = processes_of(runner.folder) + [line for pid in pids if (line := command_line(pid))]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, 0)
            found.group_left = True
        found.ready_file_left = runner.ready_file.exists() or (runner.data_dir / "runner.json").exists()
        yield found
    finally:
        runner.close()


def _kill_and_look(runner: LocalRunner, receiver: Receiver) -> Aftermath:
    began = time.monotonic()
    deadline = began + BUDGET
    choices = random.Random(SEED)
    print(f"KILL_SEED={SEED}")
    runner.start()
    ready = [runner.ready()]
    base_url = ready[0]["base_url"]
    promises = Promises(base_url)
    keys = [key for project in ready[0]["projects"] for key in (project["test_key"], project["live_key"])]
    clients = [Client(base_url, key, promises) for key in keys]
    writers = [Writer(number, client, clients[0], receiver) for number, client in enumerate(clients)]
    for writer in writers:
        # Before anything else, so that it sees every event.
        writer.subscribe()
    shared = clients[0].post("/v1/customers", {"phone": "+15005550006"}, idempotency_key="shared").ok(201)
    for writer in writers:
        writer.shared_id = shared["id"]
        writer.start()

    for kill in _kills(began):
        time.sleep(choices.uniform(0.5, 5))
        if kill == "everything":
            runner.kill_everything(choices)
        else:
            runner.kill()
        runner.start()
        if kill == "starting":
            time.sleep(choices.uniform(0.2, 3))
            runner.kill()
            runner.start()
        ready.append(runner.ready())
    time.sleep(2)
    for writer in writers:
        writer.finish()
    written = [operation for writer in writers for operation in writer.operations]
    lost = sum("Original-Request" in one.answer.headers for one in written if one.answers)
    print(
        f"{len(written)} requests after {time.monotonic() - began:.0f} s, {lost} of them done but unanswered at first"
    )
    for writer in writers:
        for operation in writer.operations:
            writer.send(operation)
    while not is_settled(writers) and time.monotonic() < deadline:
        time.sleep(1)
    print(f"settled after {time.monotonic() - began:.0f} s")
    events = [pages(client, "/v1/events") for client in clients]
    deliveries = {
        event["id"]: pages(client, f"/v1/events/{event['id']}/deliveries")
        for client, log in zip(clients, events, strict=True)
        for event in log
    }
    return Aftermath(
        writers=writers,
        customers=[pages(client, "/v1/customers") for client in clients],
        appointments=[pages(client, "/v1/appointments") for client in clients],
        endpoints=[pages(client, "/v1/webhook_endpoints") for client in clients],
        events=events,
        deliveries=deliveries,
        shared_id=shared["id"],
        ready=ready,
        breaches=promises.new,
        seconds=time.monotonic() - began,
    )


def _kills(began: float) -> Iterator[str]:
    for number in range(MOST_KILLS):
        if number < len(KILLS) or time.monotonic() - began < KILLING:
            yield KILLS[number % len(KILLS)]


def test_every_request_was_answered_in_the_end(aftermath: Aftermath) -> None:
    assert len(aftermath.operations("customer", "appointment", "rename", "reschedule", "shared")) >= 10
    assert [one.key for writer in aftermath.writers for one in writer.operations if not one.answers] == []
    assert [refusal for writer in aftermath.writers for refusal in writer.refused] == []
    assert any(one.attempts > len(one.answers) for writer in aftermath.writers for one in writer.operations)


def test_what_is_answered_keeps_the_promises_of_every_response(aftermath: Aftermath) -> None:
    assert aftermath.breaches == []


def test_all_answers_to_one_key_are_the_same(aftermath: Aftermath) -> None:
    for writer in aftermath.writers:
        for operation in writer.operations:
            assert len(operation.answers) >= 2
            first, *others = operation.answers
            original = first.headers.get("Original-Request", first.request_id)
            for other in others:
                assert (other.status, other.body) == (first.status, first.body)
                assert other.headers.get("Location") == first.headers.get("Location")
                assert other.headers.get("Idempotent-Replayed") == "true"
                assert other.headers.get("Original-Request") == original


@pytest.mark.parametrize("kind", ["customer", "appointment"])
def test_each_key_made_one_resource_and_nothing_else_was_made(aftermath: Aftermath, kind: str) -> None:
    rows = aftermath.customers if kind == "customer" else aftermath.appointments
    for writer, found in zip(aftermath.writers, rows, strict=True):
        wanted = {one.mark: one.made["id"] for one in writer.operations if one.what == kind}
        assert {item["external_id"]: item["id"] for item in found if item["id"] != aftermath.shared_id} == wanted
        assert len(found) == len(wanted) + (aftermath.shared_id in {item["id"] for item in found})


def test_each_key_made_one_endpoint(aftermath: Aftermath) -> None:
    for writer, found in zip(aftermath.writers, aftermath.endpoints, strict=True):
        made = {one.mark: one.made["id"] for one in writer.operations if one.what == "endpoint"}
        assert {item["url"]: item["id"] for item in found} == made
        assert len(found) == len(made)


def test_each_change_has_exactly_one_event_and_there_are_no_others(aftermath: Aftermath) -> None:
    types = {
        "customer": "customer.created",
        "appointment": "appointment.created",
        "rename": "customer.updated",
        "reschedule": "appointment.rescheduled",
    }
    wanted: Counter[tuple[str, str, str]] = Counter([("customer.created", aftermath.shared_id, "")])
    for one in aftermath.operations(*types):
        wanted[types[one.what], one.made["id"], one.mark] += 1
    for one in aftermath.operations("shared"):
        wanted["customer.updated", aftermath.shared_id, one.mark] += 1
    assert Counter(_describe(event) for log in aftermath.events for event in log) == wanted


def _describe(event: Any) -> tuple[str, str, str]:
    """Type, object and the mark of the request that caused it."""
    document, before = event["data"]["object"], event["data"].get("previous_attributes", {})
    if event["type"].endswith(".created"):
        mark = document["external_id"] or ""
    elif event["type"] == "appointment.rescheduled":
        mark = document["appointment_at"]
    elif "name" in before:
        mark = document["name"]
    else:
        (mark,) = set(document["metadata"]) - set(before["metadata"])
    return event["type"], document["id"], mark


def test_the_events_of_a_resource_follow_on_from_one_another(aftermath: Aftermath) -> None:
    resources = [item for kind in (aftermath.customers, aftermath.appointments) for rows in kind for item in rows]
    for resource in resources:
        first, *others = aftermath.events_about(resource["id"])
        state = first["data"]["object"]
        for event in others:
            after, before = event["data"]["object"], event["data"]["previous_attributes"]
            assert after | before | {"updated_at": ""} == state | {"updated_at": ""}
            state = after
        assert state == resource


def test_no_update_of_a_resource_that_all_clients_write_was_lost(aftermath: Aftermath) -> None:
    marks = [one.mark for one in aftermath.operations("shared")]
    shared = next(item for item in aftermath.customers[0] if item["id"] == aftermath.shared_id)
    assert len(marks) >= len(aftermath.writers)
    assert set(shared["metadata"]) == set(marks)


def test_every_event_reached_every_endpoint_that_was_there_before_it(aftermath: Aftermath) -> None:
    missing = []
    for writer, log in zip(aftermath.writers, aftermath.events, strict=True):
        for endpoint in (one for one in writer.operations if one.what == "endpoint"):
            heard = {received.headers["webhook-id"] for received in writer.hooks[endpoint.mark].received}
            known = datetime.fromtimestamp(endpoint.answered_at, UTC)
            filters = endpoint.made["event_filters"]
            for event in log:
                later = datetime.fromisoformat(event["data"]["object"]["updated_at"]) > known
                if later and (not filters or event["type"] in filters) and event["id"] not in heard:
                    missing.append((endpoint.made["id"], event["id"], event["type"]))
    assert missing == []


def test_what_arrives_is_the_event_signed_with_the_secret_that_was_given_at_first(aftermath: Aftermath) -> None:
    for writer, log in zip(aftermath.writers, aftermath.events, strict=True):
        events = {event["id"]: event for event in log}
        for endpoint in (one for one in writer.operations if one.what == "endpoint"):
            bodies: dict[str, set[bytes]] = {}
            for received in writer.hooks[endpoint.mark].received:
                assert service_signature_is_valid(received, endpoint.made["secret"])
                assert standard_signature_is_valid(received, endpoint.made["secret"])
                assert received.event == events[received.event["id"]]
                bodies.setdefault(received.event["id"], set()).add(received.body)
            assert all(len(same) == 1 for same in bodies.values())


def test_every_delivery_has_ended_well_and_there_is_one_for_each_event_and_endpoint(aftermath: Aftermath) -> None:
    for event_id, deliveries in aftermath.deliveries.items():
        assert [(one["status"], one["trigger"]) for one in deliveries] == [("succeeded", "automatic")] * len(deliveries)
        assert len({one["webhook_endpoint_id"] for one in deliveries}) == len(deliveries) >= 1, event_id
        for one in deliveries:
            assert [attempt["number"] for attempt in one["attempts"]] == list(range(1, one["attempt_count"] + 1))


def test_the_demo_projects_and_their_keys_stay_the_same(aftermath: Aftermath) -> None:
    assert len(aftermath.ready) > len(KILLS)
    for ready in aftermath.ready:
        assert ready["projects"] == aftermath.ready[0]["projects"]
        assert ready["base_url"] == aftermath.ready[0]["base_url"]


def test_recovery_is_bounded(aftermath: Aftermath) -> None:
    assert aftermath.seconds < BUDGET


def test_a_sigterm_stops_all_of_it_and_leaves_nothing_running(aftermath: Aftermath) -> None:
    assert aftermath.exit_code == 0
    assert aftermath.left == []
    assert not aftermath.group_left
    assert not aftermath.ready_file_left
    assert aftermath.stopped_in < STOPS_WITHIN
