"""The local runner: requests and deliveries a second, and the time from a commit to its receiver."""

from __future__ import annotations

import http.client
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from tests.bench.samples import Figure, Goal
from tests.support.concurrency import run_at_once
from tests.support.receivers import Exchange, Receiver
from tests.support.runner import Service, local_runner, memory_folder

CLIENTS, SECONDS = 8, 8
KEYS = 16
"""Each API key has a rate limit of 100 requests a second."""
EVENTS = 200
"""The events that are delivered for the number of deliveries a second."""
PACE, PACED_S = 20, 15
WAIT = 120
BODY = json.dumps({"phone": "+15005550006"})
GOALS = {
    "ping, 8 clients, a second": Goal(220, at_least=True),
    "GET, 8 clients, a second": Goal(140, at_least=True),
    "create, 8 clients, a second": Goal(90, at_least=True),
    "deliveries a second, ten endpoints": Goal(40, at_least=True),
    "deliveries a second, one endpoint": Goal(30, at_least=True),
    "commit to receiver at 20 a second to one endpoint, p50, s": Goal(0.1),
    "commit to receiver at 20 a second to one endpoint, p99, s": Goal(0.5),
}
HEADINGS = ("figure of the local runner", "ours")


def measure() -> dict[str, float]:
    """The figures, by name."""
    found: list[float] = []
    with memory_folder() as folder, local_runner(folder, speed=1) as service:
        keys = _keys(service, folder)
        customer = _Client(service, keys).create()
        found.append(_rate(service, keys, lambda client: client.get("/v1/ping")))
        found.append(_rate(service, keys, lambda client: client.get(f"/v1/customers/{customer}")))
        found.append(_rate(service, keys, lambda client: client.create()))
    for endpoints in (10, 1):
        with _client_with_endpoints(endpoints) as (client, arrivals):
            found.append(_deliveries_a_second(client, arrivals, EVENTS // endpoints, EVENTS))
    with _client_with_endpoints(1) as (client, arrivals):
        found += _delays(client, arrivals)
    return dict(zip(GOALS, found, strict=True))


def report(found: dict[str, float]) -> list[Figure]:
    """The figures."""
    return [Figure(name, [f"{value:.3g}"], value, GOALS[name]) for name, value in found.items()]


class _Client:
    """A client with a kept connection, which sends these API keys in turn."""

    def __init__(self, service: Service, keys: Sequence[str]) -> None:
        self._keys = itertools.cycle(keys)
        self._connection = http.client.HTTPConnection(urlsplit(service.base_url).netloc, timeout=60)

    def get(self, path: str) -> None:
        """GET the path."""
        self._send("GET", path, None, 200)

    def create(self) -> str:
        """Create a customer and return its id."""
        return str(json.loads(self._send("POST", "/v1/customers", BODY, 201))["id"])

    def subscribe(self, url: str) -> None:
        """Create a webhook endpoint for new customers."""
        body = json.dumps({"url": url, "event_filters": ["customer.created"]})
        self._send("POST", "/v1/webhook_endpoints", body, 201)

    def _send(self, method: str, path: str, body: str | None, status: int) -> bytes:
        headers = {"Authorization": f"Bearer {next(self._keys)}"} | (
            {"Content-Type": "application/json"} if body else {}
        )
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        content = response.read()
        assert response.status == status, content
        return content


def _keys(service: Service, folder: Path) -> list[str]:
    """New keys of the first project's test mode."""
    command = [sys.executable, "-m", "infra.manage", "--data-dir", str(folder / "data"), "--json"]
    command += ["keys", "create", str(service.projects[0].project_id)]
    made = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(KEYS)]
    return [json.loads(one)["plaintext"] for one in made]


def _rate(service: Service, keys: Sequence[str], request: Callable[[_Client], object]) -> float:
    """Requests a second of all clients together."""
    counts = [0] * CLIENTS
    began = time.monotonic()

    def work(number: int) -> None:
        client = _Client(service, [*keys[number:], *keys[:number]])
        while time.monotonic() - began < SECONDS:
            request(client)
            counts[number] += 1

    run_at_once([partial(work, number) for number in range(CLIENTS)])
    return sum(counts) / (time.monotonic() - began)


@dataclass
class _Arrivals:
    """When each event arrived: seconds of the clock, and seconds since its customer was created."""

    times: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)

    def note(self, exchange: Exchange) -> None:
        """Take a request, and respond."""
        event = json.loads(exchange.read_request().body)
        now = time.time()
        self.times.append(now)
        self.delays.append(now - datetime.fromisoformat(event["data"]["object"]["created_at"]).timestamp())
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    def wait_for(self, count: int) -> None:
        """Wait until so many have arrived."""
        deadline = time.monotonic() + WAIT
        while len(self.times) < count:
            assert time.monotonic() < deadline, f"{len(self.times)} of {count} events arrived"
            time.sleep(0.02)


@contextmanager
def _client_with_endpoints(endpoints: int) -> Iterator[tuple[_Client, _Arrivals]]:
    """A client of a new service whose first project has these webhook endpoints."""
    arrivals = _Arrivals()
    with memory_folder() as folder, local_runner(folder, speed=1) as service, Receiver(arrivals.note) as receiver:
        client = _Client(service, _keys(service, folder))
        for _ in range(endpoints):
            client.subscribe(receiver.url)
        # The first delivery imports and connects.
        client.create()
        arrivals.wait_for(endpoints)
        yield client, arrivals


def _deliveries_a_second(client: _Client, arrivals: _Arrivals, customers: int, deliveries: int) -> float:
    """From the first creation to the last arrival."""
    before = len(arrivals.times)
    began = time.time()
    for _ in range(customers):
        client.create()
    arrivals.wait_for(before + deliveries)
    return deliveries / (max(arrivals.times) - began)


def _delays(client: _Client, arrivals: _Arrivals) -> list[float]:
    """The median and the 99th percentile of the seconds from a commit to its receiver."""
    before = len(arrivals.times)
    events = PACE * PACED_S
    began = time.monotonic()
    for number in range(events):
        time.sleep(max(0, began + number / PACE - time.monotonic()))
        client.create()
    arrivals.wait_for(before + events)
    delays = statistics.quantiles(arrivals.delays[before:], n=100)
    return [delays[49], delays[98]]


def main() -> None:
    """Measure and print."""
    print(report(measure()))


if __name__ == "__main__":
    main()
