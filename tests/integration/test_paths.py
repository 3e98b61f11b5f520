"""The paths that `shared/README.md` tells are the ones that the code takes.

Each path is made to happen, and every function that runs is recorded. A function that the path names must have run, and
those of one file in the order in which they are named. Any other name must occur in a file of the path.
"""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from shared.core import clock
from shared.core.limits import RETRY_SCHEDULE_S
from shared.telephony import ContactState, adapters
from tests.support.clocks import Clock
from tests.support.conversations import CONFIRM, new_thread, send, send_and_get
from tests.support.deliveries import new_event, only_delivery_at, wake_up
from tests.support.lex_events import event as lex_event
from tests.support.live_calls import HUNG_UP, Line, answer_live_call, forward_and_work
from tests.support.receivers import Receiver, answer
from tests.support.resources import create_and_get_path, idempotency_header
from tests.support.simulated_calls import ACCEPTS, CONFIRMS, callee, place, sweep
from tests.support.stage import Stage

ROOT = Path(__file__).parents[2]
README = ROOT / "shared/README.md"
LINK = re.compile(r"\]\(([^)#\s]+)\)")
NAME = re.compile(r"`(?!\w+\.py`)(\w+(?:\.\w+)?)`")
STEP = re.compile(r"(?m)^\d+\. ")

Function = tuple[str, str]
"""A function's file, from the root of the repository, and its name, with that of its class."""


@dataclass(frozen=True)
class Step:
    """A step of a path: its file, the other files that it names, and the functions in the order of the text."""

    file: str
    others: frozenset[str]
    names: tuple[str, ...]


def steps(beginning: str) -> list[Step]:
    """The steps of the path whose text begins so."""
    _, _, text = README.read_text(encoding="utf-8").partition(f"\n{beginning}")
    text = re.split(r"(?m)^(?:\*\*|## |A call on WhatsApp|A live call)", text)[0]
    found = []
    for step in STEP.split(text)[1:]:
        files = [str((README.parent / link).resolve().relative_to(ROOT)) for link in LINK.findall(step)]
        found.append(Step(files[0], frozenset(files[1:]), tuple(NAME.findall(step))))
    return found


@cache
def functions_in(file: str) -> frozenset[str]:
    """The functions and methods that a file defines."""
    if not file.endswith(".py"):
        return frozenset()
    names: set[str] = set()
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return frozenset(names)


@contextmanager
def recorded(into: dict[Function, int]) -> Iterator[None]:
    """Record each function of the service that is called, in all threads, with the number of its first call."""
    files: dict[CodeType, str | None] = {}

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in files:
            path = Path(code.co_filename)
            files[code] = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else None
        file = files[code]
        if file is not None:
            into.setdefault((file, code.co_qualname), len(into))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def request(stage: Stage, time: Clock, called: dict[Function, int]) -> None:
    thread, moved, impossible = new_thread(stage), {"appointment_at": "2030-05-07T07:08:09Z"}, {"status": "pending"}
    with recorded(called):
        for key, change, status in (("k", moved, 200), ("refused", impossible, 409)):
            answers = [stage.call("PATCH", thread.appointment, change, headers=idempotency_header(key)) for _ in "12"]
            assert [one.status for one in answers] == [status, status]
            assert [one.headers.get("idempotent-replayed") for one in answers] == [None, "true"]


def delivery(stage: Stage, time: Clock, called: dict[Function, int]) -> None:
    with Receiver(answer(500), answer(200)) as receiver:
        create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        with recorded(called):
            path = new_event(stage)
            assert stage.deliver() == 1
            time.forward(RETRY_SCHEDULE_S[1])
            wake_up(stage, only_delivery_at(stage, path), "retries")
        assert len(receiver.requests) == 2
        assert only_delivery_at(stage, path)["status"] == "succeeded"


def message(stage: Stage, time: Clock, called: dict[Function, int]) -> None:
    thread = new_thread(stage)
    with recorded(called):
        first = send_and_get(stage, time, thread, CONFIRM, "k")
        assert first["reply"]["actions"]
        assert send(stage, thread, CONFIRM, "k").json == first


def call(stage: Stage, time: Clock, called: dict[Function, int], phone: str = CONFIRMS) -> None:
    whom = callee(stage, phone)
    with recorded(called):
        assert place(stage, whom).status in (201, 202)
        sweep(stage, time, whom.scope)


def live_call(stage: Stage, time: Clock, called: dict[Function, int]) -> None:
    line = Line()
    adapters.use(carrier=line)
    utterance = lex_event("hello")
    with pytest.MonkeyPatch.context() as patched, recorded(called):
        patched.setenv("SIMULATE_LIVE", "0")
        live = answer_live_call(stage, line)
        names = {"session_id": live.id, "project_id": str(live.scope.project_id), "livemode": "true"}
        utterance["sessionState"]["sessionAttributes"] = names
        patched.setenv("SIMULATE_LIVE", "1")  # so that the agent is the scripted one
        stage.invoke("voice_turn", utterance)
        patched.setenv("SIMULATE_LIVE", "0")
        line.state = ContactState(clock.now(), clock.now(), HUNG_UP)
        forward_and_work(stage, time, live, 60 * clock.SECOND)
    adapters.use()
    assert live.doc["call_status"] == "completed"


PATHS: dict[str, Callable[[Stage, Clock, dict[Function, int]], None]] = {
    "**A request**": request,
    "**An event's delivery**": delivery,
    "**A message**": message,
    "**A call**": call,
    "A call on WhatsApp": partial(call, phone=ACCEPTS),
    "A live call": live_call,
}


@pytest.mark.parametrize("name", PATHS)
def test_each_function_that_a_path_names_runs_in_the_order_of_the_path(
    stage: Stage, stopped_clock: Clock, name: str
) -> None:
    called: dict[Function, int] = {}
    PATHS[name](stage, stopped_clock, called)
    path = steps(name)
    assert len(path) >= 3
    first_calls = []
    for step in path:
        own, numbers = functions_in(step.file), []
        elsewhere = {each for other in path for each in {other.file, *other.others}}
        for named in step.names:
            if named in own:
                assert (step.file, named) in called, f"{named} of {step.file} does not run"
                numbers.append(called[step.file, named])
            elif defining := {file for file in elsewhere if named in functions_in(file)}:
                assert any((file, named) in called for file in defining), f"{named} of {defining} does not run"
            else:
                word = re.compile(rf"\b{named.rpartition('.')[2]}\b")
                assert any(word.search((ROOT / file).read_text(encoding="utf-8")) for file in elsewhere), named
        assert numbers == sorted(numbers), f"{step.names} of {step.file} run in another order"
        first_calls += numbers[:1]
    assert first_calls == sorted(first_calls), "the steps happen in another order"
