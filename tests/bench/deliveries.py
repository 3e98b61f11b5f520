"""Deliveries: the worker's CPU time for an attempt, beside that of bare aiohttp for the same POST.

    python -m tests.bench.deliveries ours|bare

is what is measured, in a process of its own. A line of its standard input is a list: of `deliver`'s queue messages
(ours), or of URLs and bodies (bare). A line of its output has the CPU time and the elapsed time in milliseconds and the
peak memory in MB. The database is DynamoDB Local and its KMS is moto, both in other processes and without TLS.
Each attempt opens a connection of its own.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench import subjects
from tests.bench.samples import Figure, Goal, Samples, Subject, median

ATTEMPTS = 20
BATCH = 10
"""The most messages that Lambda passes on at once from a FIFO queue."""
GOALS = {"HTTP": 4.0, "TLS": 2.0}
"""How many times the CPU time of bare aiohttp an attempt should take at most."""
HEADINGS = ("figure", "ours", "bare aiohttp", "ours ÷ bare")


def measure(rounds: int) -> Samples:
    """The samples of an attempt, by subject and scheme."""
    # Imported here, because this module is also part of what is measured.
    from tests.support import privileges
    from tests.support.receivers import Certificate, Receiver
    from tests.support.stage import running, running_database

    found: Samples = defaultdict(list)
    certificate = Certificate("127.0.0.1")
    with (
        tempfile.TemporaryDirectory() as made,
        running_database(Path(made)) as port,
        running(port, Path(made), privileges.Recorder()) as stage,
        Receiver() as plain,
        Receiver(tls=certificate) as secure,
    ):
        trusted = Path(made) / "ca.pem"
        trusted.write_bytes(certificate.public)
        environment = os.environ | {"SSL_CERT_FILE": str(trusted), "LOG_LEVEL": "INFO"}
        processes = {name: Subject("tests.bench.deliveries", environment, name) for name in ("ours", "bare")}
        for scheme, receiver in (("HTTP", plain), ("TLS", secure)):
            stage.project()
            endpoint = {"url": receiver.url, "event_filters": ["customer.created"]}
            assert stage.call("POST", "/v1/webhook_endpoints", endpoint).status == 201
            for number in range(rounds + 1):
                for _ in range(ATTEMPTS):
                    assert stage.call("POST", "/v1/customers", {"phone": "+15005550006"}).status == 201
                stage.fan_out()
                messages = stage.messages("deliveries")
                assert len(messages) == ATTEMPTS
                before = len(receiver.requests)
                samples = {"ours": processes["ours"].do(json.dumps(messages), ATTEMPTS)}
                sent = receiver.requests[before:]
                assert len(sent) == ATTEMPTS
                posts = [[receiver.url, request.body.decode()] for request in sent]
                samples["bare"] = processes["bare"].do(json.dumps(posts), ATTEMPTS)
                # The first round imports, and decrypts the signing secret.
                if number:
                    for name, sample in samples.items():
                        found[name, scheme].append(sample)
        for subject in processes.values():
            subject.end()
    return found


def report(found: Samples) -> list[Figure]:
    """The figures."""
    figures = []
    for scheme, bound in GOALS.items():
        (ours, spread), (bare, bare_spread) = (median(found[name, scheme], 0) for name in ("ours", "bare"))
        cells = [f"{ours:.2f} (±{spread:.0%})", f"{bare:.2f} (±{bare_spread:.0%})", f"{ours / bare:.1f}"]
        figures.append(
            Figure(f"CPU of a delivery attempt, {scheme}, ms", cells, ours / bare, Goal(bound, "times bare"))
        )
    return figures


def ours() -> Callable[[Any], None]:
    """The worker's Lambda handler."""
    os.environ["SERVICE_NAME"] = "deliver"
    from functions.entry import handler

    def deliver(messages: list[Any]) -> None:
        for start in range(0, len(messages), BATCH):
            response = handler({"Records": messages[start : start + BATCH]}, None)
            assert response == {"batchItemFailures": []}, response

    return deliver


def bare() -> Callable[[Any], None]:
    """A POST of aiohttp's client for each body, on a connection of its own, as many at once as the worker has."""
    import asyncio
    import ssl

    import aiohttp

    context = ssl.create_default_context()
    loop = asyncio.new_event_loop()

    async def post(session: aiohttp.ClientSession, url: str, body: str) -> None:
        async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as response:
            await response.read()
            assert response.status == 200

    async def post_all(posts: list[Any]) -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, force_close=True)) as session:
            for start in range(0, len(posts), BATCH):
                await asyncio.gather(*(post(session, *one) for one in posts[start : start + BATCH]))

    return lambda posts: loop.run_until_complete(post_all(posts))


def main(name: str) -> None:
    """Do what each line of the standard input says, and say what it took."""

    def prepare() -> Callable[[str, int], None]:
        do = {"ours": ours, "bare": bare}[name]()
        return lambda work, times: do(json.loads(work))

    subjects.run(prepare)


if __name__ == "__main__":
    main(sys.argv[1])
