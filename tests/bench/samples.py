"""What is measured: subjects, which are processes of their own, their samples, and the figures made of them."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).with_name("README.md")
Samples = dict[tuple[str, str], list[list[float]]]
"""The samples of each subject and task: CPU time, elapsed time and peak memory, as `Subject.do` returns them."""


class Subject:
    """A process that does tasks: `python -m MODULE ARGUMENTS`."""

    def __init__(self, module: str, environment: Mapping[str, str], *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, task: str, times: int) -> list[float]:
        """CPU time and elapsed time of one repetition in milliseconds, and the process's peak memory in MB."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{task} {times}\n")
        self._process.stdin.flush()
        cpu, elapsed, memory = json.loads(self._process.stdout.readline())
        return [cpu / times, elapsed / times, memory]

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


def median(samples: list[list[float]], index: int) -> tuple[float, float]:
    """The median, and the spread as a part of it: half of the distance between the quartiles."""
    values = [sample[index] for sample in samples]
    low, middle, high = statistics.quantiles(values, n=4)
    return middle, (high - low) / 2 / middle


@dataclass(frozen=True)
class Goal:
    """What a figure should be at most, or at least, in this unit."""

    bound: float
    unit: str = ""
    at_least: bool = False

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g} {self.unit}".rstrip()

    def is_met(self, value: float) -> bool:
        """Whether a figure of this value meets the goal."""
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass(frozen=True)
class Figure:
    """A line of a table: a name, what was measured, and the value that is compared with the goal."""

    name: str
    cells: Sequence[str]
    value: float
    goal: Goal

    @property
    def line(self) -> str:
        """The line in Markdown."""
        return f"| {' | '.join([self.name, *self.cells, str(self.goal), self.verdict])} |"

    @property
    def verdict(self) -> str:
        """Whether the goal is met, in a word."""
        return "met" if self.goal.is_met(self.value) else "missed"


def table(headings: Sequence[str], figures: Sequence[Figure]) -> str:
    """Figures as a table in Markdown."""
    columns = [*headings, "goal", ""]
    rule = "|---" * len(columns) + "|"
    return "\n".join([f"| {' | '.join(columns)} |", rule, *(figure.line for figure in figures)])


def machine() -> str:
    """On what figures are measured."""
    processor = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = processor[1] if processor else platform.machine()
    return f"Python {platform.python_version()} on {os.cpu_count()} cores ({name})"


def write(name: str, text: str) -> None:
    """Replace the part of README.md between the comments with this name. Raises ValueError if they are not there."""
    begin = re.search(rf"<!-- {name}: .*-->\n", page := README.read_text())
    if begin is None:
        raise ValueError(name)
    end = page.index(f"<!-- end of {name} -->", begin.end())
    README.write_text(f"{page[: begin.end()]}{text}\n{page[end:]}")
