"""A response is sent only once its write survives a kill of everything (promises 4, "a crash at any point")."""

from __future__ import annotations

import contextlib
import http.client
import random
import tempfile
import threading
from pathlib import Path

import pytest

from tests.support import client_actions
from tests.support.client import Client, Promises
from tests.support.runner import LocalRunner

KILLS = 4
CLIENTS = 6
WRITES = 4
"""The writes of the client that kills everything. The others are writing at that moment."""

pytestmark = [
    pytest.mark.kill,
    pytest.mark.runner("kills what it starts itself"),
]


@pytest.fixture(autouse=True)
def every_response_keeps_the_common_promises() -> None:
    """In place of the one for the shared runner, which these tests do without."""


def test_what_was_responded_is_there_after_everything_was_killed_at_that_moment() -> None:
    order = random.Random(20260822)
    # Not in memory, where a commit takes no time.
    with tempfile.TemporaryDirectory() as folder:
        runner = LocalRunner(Path(folder), speed=1)
        runner.start()
        try:
            for _ in range(KILLS):
                made = _write_until_killed(runner, order)
                runner.start()
                client = _client(runner)
                lost = [id for id in made if client.get(f"/v1/appointments/{id}").status != 200]
                assert made
                assert lost == []
        finally:
            runner.close()


def _write_until_killed(runner: LocalRunner, order: random.Random) -> list[str]:
    """The ids of the appointments in the responses until the kill, right after one of them."""
    customer_id = client_actions.create_customer(_client(runner))["id"]
    killing = threading.Lock()
    made: list[str] = []

    def write() -> None:
        client = _client(runner)
        body = {"customer_id": customer_id, "appointment_at": "2031-05-06T10:00:00Z"}
        with contextlib.suppress(OSError, http.client.HTTPException):
            for written in range(1, WRITES + 1):
                # With a key, the write is a transaction: appointment, record, check of the customer.
                made.append(
                    client.post("/v1/appointments", body, idempotency_key=client_actions.unique()).ok(201)["id"]
                )
                if written == WRITES and killing.acquire(blocking=False):
                    runner.kill_everything(order)

    threads = [threading.Thread(target=write) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return made


def _client(runner: LocalRunner) -> Client:
    ready = runner.ready()
    return Client(ready["base_url"], ready["projects"][0]["test_key"], Promises(ready["base_url"]))
