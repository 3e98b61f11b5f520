"""Requests: this service beside the usual way to build such an API, and beside a GetItem of boto3's client."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.samples import Figure, Goal, Samples, Subject, median
from tests.bench.subjects import TASKS

NAMES = ("ours", "usual", "bare")
WARM, COLD_ROUNDS = 100, 7
GOALS = {"GET": 0.18, "create with key": 0.18, "PATCH": 0.20, "list of 20": 0.16}
"""The parts of the usual CPU time that warm requests should take at most."""
COLD_GOAL, MEMORY_GOAL_MB, WAITING_GOAL_MS = 0.45, 38, 6.0
HEADINGS = ("figure", "ours", "usual", "bare GetItem", "ours ÷ usual", "ours ÷ bare")
LATENCY = 4


@contextlib.contextmanager
def dynamodb(folder: Path, milliseconds: int = 0) -> Iterator[dict[str, str]]:
    """DynamoDB in a process of its own, and the environment of its clients."""
    folder.mkdir()
    command = [sys.executable, "-m", "tests.bench.canned_dynamodb", str(folder), str(milliseconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        port = int(process.stdout.readline())
        own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        yield own | {
            "AWS_ENDPOINT_URL": f"https://localhost:{port}",
            "AWS_CA_BUNDLE": str(folder / "ca.pem"),
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
            "AWS_EC2_METADATA_DISABLED": "true",
            "TABLE_NAME": "table",
            "DUE_SHARDS": "8",
            "SERVICE_NAME": "customers",
            # As each function has it. pydantic would look for plug-ins in the development tools, which no bundle has.
            "PYDANTIC_DISABLE_PLUGINS": "__all__",
        }
        process.terminate()


def measure(rounds: int) -> Samples:
    """All samples, by subject and task."""
    with tempfile.TemporaryDirectory() as made:
        with dynamodb(Path(made) / "fast") as fast:
            found = cold(fast, min(rounds, COLD_ROUNDS)) | warm(fast, tuple(TASKS), WARM, rounds)
        with dynamodb(Path(made) / "slow", LATENCY) as slow:
            waiting = warm(slow, ("GET",), WARM // 4, rounds)
    return found | {(name, "waiting"): samples for (name, _), samples in waiting.items()}


def cold(environment: dict[str, str], rounds: int) -> Samples:
    """Samples of new processes and their first GET."""
    found: Samples = defaultdict(list)
    # The first round reads the disk and writes bytecode.
    for number in range(rounds + 1):
        for name in NAMES:
            one = Subject("tests.bench.subjects", environment, name)
            sample = one.do("GET", 1)
            one.end()
            if number:
                found[name, "cold"].append(sample)
    return found


def warm(environment: dict[str, str], tasks: Sequence[str], times: int, rounds: int) -> Samples:
    """Samples of tasks in processes that have done them before."""
    found: Samples = defaultdict(list)
    running = {name: Subject("tests.bench.subjects", environment, name) for name in NAMES}
    for number in range(rounds + 1):
        for task in tasks:
            for name, one in running.items():
                sample = one.do(task, times)
                if number:
                    found[name, task].append(sample)
    for one in running.values():
        one.end()
    return found


def figure(name: str, found: Samples, task: str, index: int, bound: float, unit: str = "of usual") -> Figure:
    """A figure. The bare call is the same for every warm task."""
    tasks = {"ours": task, "usual": task, "bare": "GET" if task in TASKS else task}
    medians = {subject: median(found[subject, task], index) for subject, task in tasks.items()}
    ours, usual, bare = (value for value, _ in medians.values())
    cells = [f"{value:.2f} (±{spread:.0%})" for value, spread in medians.values()]
    goal = Goal(bound, unit)
    return Figure(
        name, [*cells, f"{ours / usual:.2f}", f"{ours / bare:.2f}"], ours / usual if unit == "of usual" else ours, goal
    )


def report(found: Samples) -> list[Figure]:
    """The figures."""
    return [
        *(figure(f"CPU of a warm {task}, ms", found, task, 0, bound) for task, bound in GOALS.items()),
        figure("CPU of a cold start: import and first GET, ms", found, "cold", 0, COLD_GOAL),
        figure("peak memory after the first GET, MB", found, "cold", 2, MEMORY_GOAL_MB, "MB"),
        figure(f"time of a GET if AWS takes {LATENCY} ms, ms", found, "waiting", 1, WAITING_GOAL_MS, "ms"),
    ]
