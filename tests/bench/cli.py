"""What the command line for clients costs before it does anything: `--help`, beside a bare Python."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

from tests.bench.samples import Figure, Goal

HEADINGS = ("figure of the command line", "ours", "bare Python", "ours ÷ bare")
GOAL = 8
"""`--help` costs at most so many times a bare Python."""
COMMANDS = {
    "--help": [sys.executable, "-m", "infra.cli", "--help"],
    "python -c pass": [sys.executable, "-c", "pass"],
}


def measure(rounds: int) -> dict[str, float]:
    """The median of the processor's milliseconds for each command."""
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range(rounds + 1):
        for name, command in COMMANDS.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            # The first round compiles.
            if number:
                used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                found[name].append(used_s * 1000)
    return {name: statistics.median(times) for name, times in found.items()}


def report(found: dict[str, float]) -> list[Figure]:
    """The figure."""
    ours, bare = found.values()
    cells = [f"{ours:.0f}", f"{bare:.0f}", f"{ours / bare:.1f}"]
    return [Figure("CPU of `appt --help`, ms", cells, ours / bare, Goal(GOAL, "times bare"))]
