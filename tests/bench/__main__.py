"""Prints the tables of README.md beside this file.

    python -m tests.bench [ROUNDS]

What is compared takes turns, so that a busy machine slows all of it. Each figure is the median of the rounds, and the
spread in brackets is half of the distance between the quartiles, as a part of the median.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from infra.costs import WORK
from tests.bench import deliveries, requests, runner

ROUNDS = 15


def units() -> str:
    """The table of the counted work of requests and deliveries, which `tests/integration/test_costs.py` asserts."""
    goals = {"create": 13, "delivery": 6}
    rows = [f"| {WORK[name].about} | {WORK[name].writes:g} | ≤ {goal} |" for name, goal in goals.items()]
    return "\n".join(["| write units | ours | goal |", "|---|---|---|", *rows])


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    parts: dict[str, Callable[[], str]] = {
        "requests": lambda: requests.report(requests.measure(rounds)),
        "deliveries": lambda: deliveries.report(deliveries.measure(rounds)),
        "write units": units,
        "the local runner": lambda: runner.report(runner.measure()),
    }
    for name, table in parts.items():
        print(f"Measuring {name} …", file=sys.stderr, flush=True)
        print(f"{table()}\n", flush=True)


if __name__ == "__main__":
    main()
