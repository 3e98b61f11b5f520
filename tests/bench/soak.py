"""A soak: mixed load on the local runner at half of the rate that it sustains, and whether anything grows or gets lost.

    python -m tests.bench.soak [--minutes 60] [--write]

Clients create customers and appointments, confirm, read, write to the agent and have it call. A receiver takes events,
fails the first attempt of some and refuses others. It ends by itself, with exit code 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import http.client
import http.server
import itertools
import json
import signal
import statistics
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from infra.local.database import HEAP_MB
from tests.bench.samples import Figure, Goal, machine, table, write
from tests.support.concurrency import run_at_once
from tests.support.runner import LocalRunner, memory_folder

CLIENTS = 8
CALIBRATION_S = 20
"""Seconds of as much load as the clients can make, of which half is the load of the soak."""
WARM_UP = 1 / 3
"""The part of the soak in which memory may grow."""
SAMPLE_S, PROGRESS_S = 2, 30
BESIDE_HEAP_MB = 256
"""What Java and SQLite use beside the heap, at most."""
NOTICEABLE_S = 0.1
"""A delay below this counts as so much: ratios of a few milliseconds say nothing."""
SETTLING_S = 180
"""The longest wait for the last events, calls and retries."""
PHONE = "+15005550006"
"""A test number that answers and confirms."""
WHEN = "2032-03-04T15:00:00Z"
MESSAGE_EVERY, CALL_EVERY = 5, 20
"""How many customers there are for one who writes, and for one who is called."""
HEADINGS = ("figure of the soak", "mean or count", "growth, or how many")
PROCESSES = ("the runner", "the emulators", "DynamoDB Local")


REFUSED, FAILS = 0, (1, 2)
"""Of twenty events, the receiver refuses one for good, and fails the first attempt of two."""
CHECKED = 1_000
"""The events whose delivery is read over the API at the end."""


class Receiver(http.server.ThreadingHTTPServer):
    """Takes events."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Post)
        self.lock = threading.Lock()
        self.attempts: Counter[str] = Counter()
        """Attempts by event id."""
        self.retried: set[str] = set()
        """The events whose first attempt has failed and whose second one is still to come."""
        self.changes: set[tuple[str, str]] = set()
        """Object ids and types of the events that arrived."""
        self.delays: list[tuple[float, float]] = []
        """When each first attempt arrived, by the monotonic clock, and how many seconds after the change."""

    def status(self, event: Mapping[str, Any]) -> int:
        """Note the attempt. Returns the status of the response."""
        subject, id = event["data"]["object"], event["id"]
        changed = datetime.fromisoformat(subject.get("updated_at") or subject["created_at"]).timestamp()
        with self.lock:
            self.attempts[id] += 1
            self.changes.add((subject["id"], event["type"]))
            if self.attempts[id] == 1:
                self.delays.append((time.monotonic(), time.time() - changed))
            if self.attempts[id] == 1 and _kind(id) in FAILS:
                self.retried.add(id)
                return 503
            self.retried.discard(id)
            return 400 if _kind(id) == REFUSED else 200


def _kind(event: str) -> int:
    """A number below twenty, which says what becomes of the event."""
    return zlib.crc32(event.encode()) % 20


class _Post(http.server.BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        """Respond to an attempt."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response_only(self.server.status(json.loads(body)))
        self.send_header("Content-Length", "0")
        self.end_headers()


class RequestFailed(Exception):
    """The status and body of a response that is no success."""


class Client:
    """A client with a kept connection, and the changes that it has made."""

    def __init__(self, base_url: str, key: str) -> None:
        self.key = key
        self.changes: list[tuple[str, str]] = []
        """Object ids and types of the events that have to follow."""
        self.sessions: list[str] = []
        self.requests = 0
        self.failures: list[str] = []
        self.late_s: list[float] = []
        self._connection = http.client.HTTPConnection(urlsplit(base_url).netloc, timeout=60)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """The response to a request. Waits if the key's limit is reached. Raises RequestFailed."""
        headers = {"Authorization": f"Bearer {self.key}"} | ({"Content-Type": "application/json"} if body else {})
        self._connection.request(method, path, json.dumps(body) if body else None, headers)
        response = self._connection.getresponse()
        content = response.read()
        if response.status == 429:
            time.sleep(int(response.headers["Retry-After"]))
            return self.send(method, path, body)
        self.requests += 1
        if response.status not in (200, 201, 202):
            raise RequestFailed(f"{method} {path}: {response.status} {content!r}")
        return json.loads(content)

    def serve(self, number: int) -> None:
        """Serve a customer, and note a failure."""
        try:
            self._serve(number)
        except RequestFailed as error:
            self.failures.append(str(error))
            say(f"failed: {error}")

    def _serve(self, number: int) -> None:
        """What a customer takes: two creates, a change, two reads, and for some of them messages or a call."""
        customer = self.send("POST", "/v1/customers", {"phone": PHONE, "external_id": f"{number}"})["id"]
        body = {"customer_id": customer, "appointment_at": WHEN, "title": "Check-up"}
        appointment = self.send("POST", "/v1/appointments", body)["id"]
        self.changes += [(customer, "customer.created"), (appointment, "appointment.created")]
        if number % MESSAGE_EVERY == 0:
            self._write_as(customer, appointment)
        self.send("PATCH", f"/v1/appointments/{appointment}", {"status": "confirmed"})
        self.changes.append((appointment, "appointment.confirmed"))
        self.send("GET", f"/v1/customers/{customer}")
        self.send("GET", f"/v1/appointments?customer_id={customer}")
        if number % CALL_EVERY == 0:
            session = self.send("POST", f"/v1/customers/{customer}/call", {"appointment_id": appointment})["session_id"]
            self.sessions.append(session)
            self.changes.append((session, "session.created"))

    def _write_as(self, customer: str, appointment: str) -> None:
        message = {"external_conversation_id": customer, "customer": {"id": customer}}
        self.send("POST", "/v1/messages", {**message, "content": "can we move it to next Tuesday at 3pm?"})
        message = self.send("POST", "/v1/messages", {**message, "content": "yes"})
        self.changes.append((message["conversation"]["id"], "conversation.created"))
        if any(action["type"] == "appointment_rescheduled" for action in message["reply"]["actions"]):
            self.changes.append((appointment, "appointment.rescheduled"))


@dataclass
class Usage:
    """What a process uses over time: seconds, MB of memory and open files of each sample."""

    samples: list[tuple[float, float, int]] = field(default_factory=list)

    def take(self, pid: int) -> None:
        """Take a sample."""
        status = Path(f"/proc/{pid}/status").read_text()
        memory = int(status.partition("VmRSS:")[2].split()[0]) / 1024
        self.samples.append((time.monotonic(), memory, len([*Path(f"/proc/{pid}/fd").iterdir()])))

    def growth(self, index: int, since: float) -> tuple[float, float]:
        """The mean since then, and the growth of the straight line through the samples."""
        kept = [sample for sample in self.samples if sample[0] >= since]
        times, values = [sample[0] for sample in kept], [sample[index] for sample in kept]
        slope, _ = statistics.linear_regression(times, values)
        return statistics.fmean(values), slope * (times[-1] - times[0])


class Soak:
    """A running soak of so many seconds."""

    def __init__(self, base_url: str, keys: Sequence[str], pids: Sequence[int], seconds: float) -> None:
        self._seconds = seconds
        self._usage = {name: (pid, Usage()) for name, pid in zip(PROCESSES, pids, strict=True)}
        self._numbers = itertools.count(1)
        self._stop = threading.Event()
        self.receiver = Receiver()
        self.clients = [Client(base_url, keys[number % len(keys)]) for number in range(CLIENTS)]
        self.owners = self.clients[: len(keys)]
        """A client of each project and mode."""
        for owner in self.owners:
            owner.send("POST", "/v1/webhook_endpoints", {"url": f"http://127.0.0.1:{self.receiver.server_port}/"})

    def run(self) -> list[Figure]:
        """Load the runner, and judge."""
        threading.Thread(target=self.receiver.serve_forever, daemon=True).start()
        customers, seconds = self._calibrate()
        rate = customers / seconds / 2
        say(f"The runner serves {2 * rate:.1f} customers a second, with their events. The soak has {rate:.1f}.")
        threading.Thread(target=self._watch, daemon=True).start()
        began = time.monotonic()
        requests = sum(client.requests for client in self.clients)
        run_at_once([partial(self._pace, client, CLIENTS / rate, began) for client in self.clients])
        ended, requests = time.monotonic(), sum(client.requests for client in self.clients) - requests
        self._wait(lambda: self._missing() or self._unfinished())
        self._stop.set()
        return [*self._resources(began, ended), *self._lateness(began, ended), *self._account(requests)]

    def _calibrate(self) -> tuple[int, float]:
        """The customers that are served at full load, and the seconds until the last of their events has arrived."""
        began = time.monotonic()

        def work(client: Client) -> None:
            while time.monotonic() - began < CALIBRATION_S:
                client.serve(next(self._numbers))

        run_at_once([partial(work, client) for client in self.clients])
        self._wait(self._missing)
        seconds = time.monotonic() - began
        # Retries and calls take longer.
        self._wait(self._unfinished)
        return next(self._numbers) - 1, seconds

    def _pace(self, client: Client, interval: float, began: float) -> None:
        """Serve a customer in each interval."""
        planned = began + interval * self.clients.index(client) / CLIENTS
        while planned < began + self._seconds:
            time.sleep(max(0, planned - time.monotonic()))
            client.late_s.append(time.monotonic() - planned)
            client.serve(next(self._numbers))
            planned += interval

    def _missing(self) -> set[tuple[str, str]]:
        return {change for client in self.clients for change in client.changes} - self.receiver.changes

    def _wait(self, left: Callable[[], object]) -> None:
        """Wait until nothing is left, but not longer than `SETTLING_S`."""
        deadline = time.monotonic() + SETTLING_S
        while left() and time.monotonic() < deadline:
            time.sleep(0.5)

    def _unfinished(self) -> int:
        """The retries that have not arrived, and the projects and modes with calls that have not ended."""
        calls = [
            owner.send("GET", f"/v1/sessions?limit=1&call_status={status}")["data"]
            for owner in self.owners
            for status in ("queued", "dialing")
        ]
        return len(self.receiver.retried) + sum(map(len, calls))

    def _watch(self) -> None:
        """Sample the processes, and say how it goes."""
        began = said = time.monotonic()
        while not self._stop.wait(SAMPLE_S):
            for pid, usage in self._usage.values():
                usage.take(pid)
            if time.monotonic() - said >= PROGRESS_S:
                said = time.monotonic()
                used = ", ".join(
                    f"{name} {usage.samples[-1][1]:.0f} MB and {usage.samples[-1][2]} files"
                    for name, (_, usage) in self._usage.items()
                )
                events, due = len(self.receiver.attempts), len(self._missing())
                say(f"{(said - began) / 60:.1f} min: {events} events, {due} due; {used}")

    def _resources(self, began: float, ended: float) -> Iterator[Figure]:
        since = began + WARM_UP * (ended - began)
        for name, (_, usage) in self._usage.items():
            usage.samples = [sample for sample in usage.samples if sample[0] <= ended]
            mean, growth = usage.growth(1, since)
            part, peak = growth / mean, max(sample[1] for sample in usage.samples)
            cells = [f"{mean:.0f}", f"{part:+.1%}, at most {peak:.0f}"]
            # Java uses what it may before it collects garbage.
            bounded = name == PROCESSES[-1]
            value, goal = (peak, Goal(HEAP_MB + BESIDE_HEAP_MB, "MB")) if bounded else (part * 100, Goal(10, "%"))
            yield Figure(f"memory of {name} after the first third, MB", cells, value, goal)
            mean, growth = usage.growth(2, since)
            yield Figure(f"open files of {name}", [f"{mean:.0f}", f"{growth:+.1f}"], growth, Goal(20))

    def _lateness(self, began: float, ended: float) -> Iterator[Figure]:
        """The first third beside the last one."""
        third = (ended - began) / 3
        thirds = [
            [delay for at, delay in self.receiver.delays if start <= at < start + third]
            for start in (began, ended - third)
        ]
        for name, number in (("median", 49), ("99th percentile", 98)):
            first, last = (statistics.quantiles(delays, n=100)[number] for delays in thirds)
            ratio = last / max(first, NOTICEABLE_S)
            label = f"commit to receiver in the last third, {name}, s"
            yield Figure(label, [f"{last:.3f}", f"{first:.3f} in the first"], ratio, Goal(2, "times the first"))
        late = max(lateness for client in self.clients for lateness in client.late_s[-len(client.late_s) // 3 :])
        yield Figure("latest request of the last third, s", [f"{late:.2f}", ""], late, Goal(5))

    def _account(self, requests: int) -> Iterator[Figure]:
        """What is missing at the end."""
        logged = {id: owner for owner in self.owners for id in _events(owner)}
        checked = [*logged.items()][:: max(1, len(logged) // CHECKED)]
        wrong = [id for id, owner in checked if not _has_expected_end(owner, id)]
        calls = [client.send("GET", f"/v1/sessions/{id}") for client in self.clients for id in client.sessions]
        completed = {(call["id"], "session.completed") for call in calls if call["call_status"] == "completed"}
        changes = {change for client in self.clients for change in client.changes} | completed
        counts = {
            "requests, those that failed": (requests, sum(len(client.failures) for client in self.clients)),
            "changes, those without an event": (len(changes), len(changes - self.receiver.changes)),
            "events, those that did not arrive": (len(logged), len(logged.keys() - self.receiver.attempts.keys())),
            "deliveries read, those that did not end as they should": (len(checked), len(wrong)),
            "calls, those that were not completed": (len(calls), len(calls) - len(completed)),
        }
        for name, (count, missing) in counts.items():
            yield Figure(name, [f"{count:,}", f"{missing}"], missing, Goal(0))


def _has_expected_end(owner: Client, event: str) -> bool:
    """Whether the event's delivery has ended as the receiver responded."""
    [delivery] = owner.send("GET", f"/v1/events/{event}/deliveries")["data"]
    return bool(delivery["status"] == ("failed" if _kind(event) == REFUSED else "succeeded"))


def _events(owner: Client) -> Iterator[str]:
    """The ids of all events of a project and mode."""
    path, cursor = "/v1/events?limit=100", ""
    while True:
        page = owner.send("GET", path + cursor)
        yield from (event["id"] for event in page["data"])
        if not page["has_more"]:
            return
        cursor = f"&starting_after={page['next_cursor']}"


@contextmanager
def new_soak(seconds: float) -> Iterator[Soak]:
    """A soak of a new runner, which ends with the context."""
    with memory_folder() as folder:
        runner = LocalRunner(folder, 1)

        def end(*_: object) -> NoReturn:
            # The clients, for which the main thread waits, then fail.
            runner.close()
            raise KeyboardInterrupt

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        try:
            runner.start()
            ready = runner.ready()
            keys = [project[key] for project in ready["projects"] for key in ("test_key", "live_key")]
            yield Soak(ready["base_url"], keys, [runner.process.pid, *runner.children()], seconds)
        finally:
            runner.close()


def say(text: str) -> None:
    """Print progress."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Soak, and print the figures. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.soak")
    parser.add_argument("--minutes", type=float, default=60, help="how long (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    options = parser.parse_args()
    with new_soak(options.minutes * 60) as soak:
        figures = soak.run()
    conditions = f"{options.minutes:g} minutes with {machine()}; DynamoDB Local with at most {HEAP_MB} MB of heap."
    text = f"{table(HEADINGS, figures)}\n\n{conditions}"
    print(text)
    if options.write:
        write("soak", text)
    return 0 if all(figure.goal.is_met(figure.value) for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
