"""The simulation (`tests/simulation`): histories without a failure, one history for a seed, and planted faults.

`make simulate` runs more. Each run is in a process of its own, because it replaces clocks and random numbers.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation import checker, hosts, releases, runner
from tests.simulation.faults import Fault
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
    assert (recorded.sources, recorded.environment) == (present.sources, present.environment)


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
    assert "NOT FOUND" not in simulate("--planted", "known")


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
    ("injected", "found"),
    [(Counter(), [("sess_1", "sess_2")]), (Counter({Fault.CLOCK_OFF: 1}), [])],
)
def test_a_call_of_a_host_with_a_fast_clock_may_have_ended_before_the_other_began(
    injected: Counter[Fault], found: list[tuple[str, str]]
) -> None:
    world: Any = SimpleNamespace(faults=SimpleNamespace(injected=injected))
    times = {"sess_1": ("00.5", "03.0"), "sess_2": ("00.6", "00.7")}
    day = "2027-01-15T08:00:"
    calls = [
        {"id": id, "created_at": f"{day}{began}00Z", "ended_at": f"{day}{ended}00Z"}
        for id, (began, ended) in times.items()
    ]
    assert list(checker._overlapping(world, calls, [])) == found
