"""The simulation (`tests/simulation`): histories without a failure, one history for a seed, and planted faults.

`make simulate` runs more. Each run is in a process of its own, because it replaces clocks and random numbers.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation import checker, hosts, releases, runner
from tests.simulation.history import Outcome
from tests.simulation.releases import Release
from tests.simulation.scheduler import Group, Scheduler

HISTORIES = 80


def simulate(*options: str) -> str:
    """What the command prints. Fails the test if it ends with another status than 0."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--processes", "1", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_histories_with_faults_break_no_promise() -> None:
    simulate("--seeds", str(HISTORIES))


def test_the_same_seed_gives_the_same_history(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("first", "second")]
    for file in files:
        simulate("--seeds", "1", "--first", "4", "--history", str(file))
    first, second = (file.read_bytes() for file in files)
    assert first == second
    assert b"killed" in first


def test_a_deployment_replaces_hosts_of_the_previous_release_the_same_way_each_time(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("first", "second")]
    for file in files:
        simulate("--seeds", "1", "--first", "2", "--focus", "deployment", "--history", str(file))
    first, second = (file.read_text() for file in files)
    assert first == second
    before, _, after = first.partition("a share of 1.0 goes to the present release")
    assert "@old0." in before
    assert "@0." in after


def test_a_release_is_recorded_as_it_is_and_gives_the_same_file(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("first.zip", "second.zip")]
    for file in files:
        releases.record(file)
    assert files[0].read_bytes() == files[1].read_bytes()
    recorded, present = releases.previous(files[0]), releases.present()
    sources = {file: text for file, text in present.sources.items() if not file.startswith(releases.PAGES)}
    assert (recorded.sources, recorded.environment) == (sources, present.environment)


def test_each_version_is_recorded() -> None:
    assert releases.previous().version == releases.present().version, "run `make record-release`"


def test_the_previous_release_has_what_it_calls_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {
        "shared/__init__.py": "",
        "shared/former.py": "def begin(): return 'began'",
        "shared/aws/__init__.py": "",
        "shared/aws/kept.py": "",
    }
    renamed = {"shared.present": "shared.former", "shared.aws.kept.start": "shared.former.begin"}
    monkeypatch.setattr(hosts, "RENAMED", renamed)
    (host,) = hosts.load(1, Release(Path("recorded"), sources, {}, "1", previous=True))
    assert host.module("shared.present").begin() == "began"
    assert host.module("shared.aws.kept").start() == "began"


def test_each_planted_fault_is_found_by_its_seed() -> None:
    assert "NOT FOUND" not in simulate("--planted", "known", "--processes", "2")


def test_a_failure_is_a_table_with_a_short_name_for_each_id() -> None:
    customer, other, queue = f"cust_{'a' * 26}", f"cust_{'b' * 26}", "DialsQueue63D2C2C5-8BmMIxotRxBl"
    lines = [
        f'    0.100000  client 0                op1  POST  /v1/customers  {{}}  201  {{"id":"{customer}"}}',
        f'    0.200000  client 0                op2  POST  /v1/customers  {{}}  201  {{"id":"{other}"}}',
        f"    0.300000  sessions@0.1            SendMessageBatch  appointments-local-{queue} {customer} {other}  200",
        "    0.400000  sessions@0.1            killed",
    ]
    finding, head, *shown = runner.table(Outcome([f"7.3: {customer} had two calls"], lines=lines))
    assert finding == "  7.3: cust-1 had two calls"
    assert "seconds" in head
    assert shown == [
        "    0.100000  client 0                op1  POST  /v1/customers  {}  201",
        "    0.300000  sessions@0.1            SendMessageBatch  dials cust-1 cust-2  200",
        "    0.400000  sessions@0.1            killed",
    ]


def test_the_event_loop_of_a_killed_task_does_not_run_in_the_next_task() -> None:
    scheduler, killed = Scheduler("1", 0), Group("killed")
    loops: list[object] = []

    async def die() -> None:
        scheduler.kill(killed)

    def next_task() -> None:
        loops.append(asyncio.events._get_running_loop())

    scheduler.spawn("killed", lambda: asyncio.new_event_loop().run_until_complete(die()), killed)
    scheduler.spawn("next", next_task, after=1)
    scheduler.run(lambda: bool(loops), 10)
    assert loops == [None]


@pytest.mark.parametrize(
    ("told", "ended", "found"),
    [
        ((1, 2), (3, 9), [("sess_1", "sess_2")]),
        ((1, 2), (None, None), [("sess_1", "sess_2")]),
        # The first one had ended before anybody knew of the second.
        ((1, 8), (3, 9), []),
        # Nobody knew of the second one, whose response was lost.
        ((1, None), (3, 9), []),
    ],
)
def test_calls_are_at_once_if_a_client_knew_both_before_either_had_ended(
    told: tuple[int | None, ...], ended: tuple[int | None, ...], found: list[tuple[str, str]]
) -> None:
    ids, day = ("sess_1", "sess_2"), "2027-01-15T08:00:"
    start = datetime.fromisoformat(f"{day}00Z").timestamp()
    calls = [
        {"id": id, "ended_at": None if at is None else f"{day}{at:02}.000Z"} for id, at in zip(ids, ended, strict=True)
    ]
    operations: Any = [
        SimpleNamespace(
            path="/v1/customers/cust_1/call",
            succeeded=True,
            result={"session_id": id},
            tries=[SimpleNamespace(ended=start + at, response=SimpleNamespace(status=202))],
        )
        for id, at in zip(ids, told, strict=True)
        if at is not None
    ]
    assert list(checker._overlapping(calls, operations)) == found
