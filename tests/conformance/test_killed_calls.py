"""Calls that are under way when everything is killed: each still comes to its one end (promises 7, 9, 10)."""

from __future__ import annotations

import contextlib
import http.client
import io
import random
import time
import urllib.request
import wave
from collections import Counter
from typing import Any

import pytest

from tests.support import client_actions
from tests.support.client import Client, Promises
from tests.support.runner import LocalRunner, memory_folder

SPEED = 20
KILLS = 3
WITHIN = 90
"""Seconds until the last call has ended: the sweep comes every three, and takes a wake-up for lost after two."""
OUTCOMES = ("00", "00", "05", "08", "02", "20", "20", "21")

pytestmark = [
    pytest.mark.kill,
    pytest.mark.runner("kills what it starts itself"),
]


@pytest.fixture(autouse=True)
def every_response_keeps_the_common_promises() -> None:
    """In place of the one for the shared runner, which these tests do without."""


def test_every_call_comes_to_its_one_end_whatever_is_killed_meanwhile() -> None:
    order = random.Random(20260803)
    placed: list[tuple[str, str, str]] = []
    with memory_folder() as folder:
        runner = LocalRunner(folder, SPEED)
        runner.start()
        try:
            for _ in range(KILLS):
                client = _client(runner)
                placed += [_place_call(client, outcome) for outcome in OUTCOMES]
                time.sleep(order.uniform(0, 0.8))
                runner.kill_everything(order)
                runner.start()
            _look(_client(runner), placed)
        finally:
            runner.close()


def _client(runner: LocalRunner) -> Client:
    ready = runner.ready()
    return Client(ready["base_url"], ready["projects"][0]["test_key"], Promises(ready["base_url"]))


def _place_call(client: Client, outcome: str) -> tuple[str, str, str]:
    phone = client_actions.simulated_phone(outcome)
    customer = client.post("/v1/customers", {"phone": phone}).ok(201)
    body = {"customer_id": customer["id"], "appointment_at": "2031-05-06T10:00:00Z"}
    appointment = client.post("/v1/appointments", body).ok(201)
    answer = client_actions.call(client, customer["id"], {"appointment_id": appointment["id"]})
    return outcome, answer.json["session_id"], appointment["id"]


def _look(client: Client, placed: list[tuple[str, str, str]]) -> None:
    deadline = time.monotonic() + WITHIN
    ends = {"02": "no_answer", "05": "call_later", "21": "failed"}
    about = {"08": "rescheduled", "00": "confirmed", "20": "confirmed"}
    for outcome, session_id, appointment_id in placed:
        session = _wait_for_end(client, session_id, outcome in ("02", "21"), deadline)
        assert session["call_status"] == ends.get(outcome, "completed"), outcome
        appointment = client.get(f"/v1/appointments/{appointment_id}").ok()
        assert appointment["status"] == about.get(outcome, "pending"), outcome
        talked = session["transcript_status"] == "available"
        if talked:
            assert client.get(f"/v1/sessions/{session_id}/transcript").ok()["data"]
            _assert_plays(client.get(f"/v1/sessions/{session_id}/recording").ok())
        wanted = Counter(f"session.{name}" for name in ("created", session["call_status"]))
        wanted += Counter({"session.dialing": 1} if session["dialed_at"] else {})
        wanted += Counter(["session.transcript_ready", "session.recording_ready"] if talked else [])
        while (seen := _events(client, session_id)) != wanted and time.monotonic() < deadline:
            time.sleep(0.2)
        assert seen == wanted, outcome


def _wait_for_end(client: Client, session_id: str, silent: bool, deadline: float) -> Any:
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            session = client_actions.retrieve_session(client, session_id)
            if client_actions.call_ended(session) and (silent or session["recording_status"] == "available"):
                return session
            assert time.monotonic() < deadline, session
        time.sleep(0.1)


def _events(client: Client, session_id: str) -> Counter[str]:
    found = client.get("/v1/events", {"object_id": session_id, "limit": 100}).ok()["data"]
    return Counter(event["type"] for event in found)


def _assert_plays(recording: Any) -> None:
    with urllib.request.urlopen(recording["url"]) as answer:
        content = io.BytesIO(answer.read())
    with wave.open(content) as sound:
        assert sound.getnframes() == recording["duration_seconds"] * sound.getframerate()
