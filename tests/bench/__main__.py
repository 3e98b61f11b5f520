"""Prints the tables of README.md beside this file.

    python -m tests.bench [--rounds N] [--write]

What is compared takes turns, so that a busy machine slows all of it. Each figure is the median of the rounds, and the
spread in brackets is half of the distance between the quartiles, as a part of the median. `--write` puts the tables
into README.md, with the kind of machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from infra.costs import WORK
from tests.bench import cli, deliveries, lists, pages, requests, runner
from tests.bench.samples import Figure, Goal, machine, table, write

ROUNDS = 15
UNIT_GOALS = {"create": 13, "delivery": 6}


def units() -> list[Figure]:
    """The counted work of requests and deliveries, which `tests/integration/test_counted_units.py` asserts."""
    work = {name: WORK[name] for name in UNIT_GOALS}
    return [
        Figure(one.about, [f"{one.writes:g}"], one.writes, Goal(UNIT_GOALS[name], "units"))
        for name, one in work.items()
    ]


def main() -> None:
    """Measure, print, and write if it is wanted."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="how often each figure is measured (default: %(default)s)"
    )
    parser.add_argument("--write", action="store_true", help="write the tables into README.md")
    options = parser.parse_args()
    parts: dict[str, tuple[Sequence[str], Callable[[], list[Figure]]]] = {
        "requests": (requests.HEADINGS, lambda: requests.report(requests.measure(options.rounds))),
        "deliveries": (deliveries.HEADINGS, lambda: deliveries.report(deliveries.measure(options.rounds))),
        "big lists": (lists.HEADINGS, lambda: lists.report(lists.measure())),
        "pages": (pages.HEADINGS, lambda: pages.report(pages.measure(options.rounds))),
        "write units": (("write units", "ours"), units),
        "the command line": (cli.HEADINGS, lambda: cli.report(cli.measure(options.rounds))),
        "the local runner": (runner.HEADINGS, lambda: runner.report(runner.measure())),
    }
    tables = {"machine": f"Measured in {options.rounds} rounds with {machine()}."}
    missed = []
    print(f"{tables['machine']}\n", flush=True)
    for name, (headings, measure) in parts.items():
        print(f"Measuring {name} …", file=sys.stderr, flush=True)
        figures = measure()
        missed += [figure.name for figure in figures if not figure.goal.is_met(figure.value)]
        tables[name] = table(headings, figures)
        print(f"{tables[name]}\n", flush=True)
    if missed:
        print(f'Goals missed: {len(missed)}. What stands in the way: tests/bench/README.md, "Goals that are missed".')
    if options.write:
        for name, text in tables.items():
            write(name, text)


if __name__ == "__main__":
    main()
