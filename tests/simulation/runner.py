"""Runs histories in child processes, each of which begins with the same memory, and shortens those that fail."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gc
import os
import pickle
import re
import select
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.simulation import history, hosts, releases
from tests.simulation.clients import FOCUSES
from tests.simulation.faults import Fault
from tests.simulation.history import Outcome, Plan
from tests.simulation.hosts import Host
from tests.simulation.planted import PLANTED, Planted

HOSTS = 3
"""Copies of the service. A history uses some of them."""
MOST_LINES, MOST_CHARACTERS = 60, 220
_ID = re.compile(r"\b([a-z]{3,4})_[0-9a-z]{26}\b")
_QUEUE = re.compile(r"appointments-local-(\w+?)Queue[0-9A-F]{8}-\w+(?:\.fifo)?")
USUAL_SEEDS, PLANTED_WITHIN = 1_000, 2_000
"""The seeds of a run, and those in which each planted fault must be found."""
KNOWN_WITHIN = 200
"""The seeds from the known one on. A change of the service changes the histories, and the next seed finds the fault."""
YEAR_S = 365.25 * 86_400


class Runner:
    """The service, loaded once; `planted` is a fault in its present release."""

    def __init__(self, planted: Planted | None = None) -> None:
        previous = _previous_hosts()
        self._hosts = hosts.load(HOSTS, releases.present([planted.change, *planted.more] if planted else [])) + previous
        self._sqs = hosts.load_module("infra.local.sqs")
        # What exists now is shared with each history's process. The garbage collector would copy it, and take time.
        gc.collect()
        gc.freeze()
        gc.disable()

    def run_all(self, plans: Iterable[Plan], processes: int) -> Iterator[tuple[Plan, Outcome]]:
        """Run these, so many at once. The outcomes come as they end. After a failure, no more are begun."""
        waiting = iter(plans)
        running: dict[int, tuple[Plan, int]] = {}
        """By the pipe: the plan and the process that runs it."""
        try:
            while True:
                while len(running) < processes and (plan := next(waiting, None)) is not None:
                    pid, pipe = self._start(plan)
                    running[pipe] = plan, pid
                if not running:
                    return
                pipe = select.select(list(running), [], [])[0][0]
                plan, pid = running.pop(pipe)
                with os.fdopen(pipe, "rb") as stream:
                    content = stream.read()
                os.waitpid(pid, 0)
                outcome: Outcome = pickle.loads(content)
                if outcome.problems:
                    waiting = iter(())
                yield plan, outcome
        finally:
            for pipe, (_, pid) in running.items():
                os.kill(pid, 9)
                os.waitpid(pid, 0)
                os.close(pipe)

    def run(self, plan: Plan) -> Outcome:
        """Run one."""
        ((_, outcome),) = self.run_all([plan], 1)
        return outcome

    def first_failure(self, plans: Iterable[Plan], processes: int) -> tuple[Plan, Outcome] | None:
        """Of these, the one with the smallest seed that fails; None if none does."""
        return _first([ended for ended in self.run_all(plans, processes) if ended[1].problems])

    def shorten(self, plan: Plan, outcome: Outcome) -> tuple[Plan, Outcome]:
        """The plan with fewer clients, steps, kinds of faults and faults, as long as the same promise is broken."""
        promise = _promise(outcome)

        def attempt(**changes: object) -> bool:
            nonlocal plan, outcome
            shorter = dataclasses.replace(plan, **changes)  # type: ignore[arg-type]
            found = self.run(shorter)
            if not found.problems or _promise(found) != promise:
                return False
            plan, outcome = shorter, found
            return True

        if outcome.deployed:
            attempt(deployed=False)
        if not attempt(only=()):
            for kind in sorted(outcome.faults):
                attempt(only=tuple(each for each in sorted(outcome.faults) if each != kind))
            _fewer(outcome.faults.total(), lambda most: attempt(most_faults=most))
        _fewer(outcome.steps, lambda steps: attempt(steps=steps))
        _fewer(outcome.clients, lambda clients: attempt(clients=clients))
        return plan, outcome

    def _start(self, plan: Plan) -> tuple[int, int]:
        read, write = os.pipe()
        pid = os.fork()
        if pid:
            os.close(write)
            return pid, read
        os.close(read)
        # The service writes its log and metrics to standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            outcome = history.run(plan, self._hosts, self._sqs)
        except BaseException:
            outcome = Outcome([f"the simulation failed: {traceback.format_exc()}"])
        try:
            with os.fdopen(write, "wb") as stream:
                pickle.dump(outcome, stream)
        finally:
            # If the parent is gone, this process must not go on in its place.
            os._exit(0)


@functools.cache
def _previous_hosts() -> list[Host]:
    """The hosts of the previous release. A planted fault does not concern them."""
    previous = releases.previous()
    os.environ.update({**previous.environment, **releases.present().environment})
    os.environ["VENDORED"] = str(releases.ROOT / "node_modules")
    return hosts.load(HOSTS, previous)


def main(arguments: Sequence[str]) -> int:
    """The command. Returns its exit status."""
    options = _options(arguments)
    if options.planted:
        return _find_planted(options)
    return _simulate(options)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Runs histories from seeds.")
    parser.add_argument(
        "--seeds", type=_positive, help="how many: 1000 by default, or 2000 in which planted faults are found"
    )
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--faults", help="the only kinds of faults, with commas; `none` for none")
    parser.add_argument("--planted", help="the name of a planted fault, `all`, or `known` for all, each from its seed")
    parser.add_argument("--clients", type=_positive)
    parser.add_argument("--steps", type=_positive)
    parser.add_argument("--most-faults", type=int)
    parser.add_argument("--focus", choices=FOCUSES, help="what the histories are about")
    parser.add_argument("--no-deployment", action="store_true", help="only the present release")
    parser.add_argument("--history", type=Path, help="a file for the whole history of a failure, or of one seed")
    parser.add_argument("--processes", type=_positive, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    unknown = {*(options.faults or "").split(",")} - {*Fault, "none", ""}
    if unknown:
        parser.error(f"there is no kind of fault named {', '.join(sorted(unknown))}; there are {', '.join(Fault)}")
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it must be at least 1")
    return number


def _plans(options: argparse.Namespace, first: int, count: int, focus: str | None = None) -> Iterator[Plan]:
    kinds = None
    if options.faults is not None:
        kinds = tuple(Fault(kind) for kind in options.faults.split(",") if kind not in ("", "none"))
    for seed in range(first, first + count):
        yield Plan(
            *(str(seed), options.clients, options.steps, kinds, options.most_faults),
            *(focus or options.focus, not options.no_deployment),
        )


def _simulate(options: argparse.Namespace) -> int:
    runner, began = Runner(), time.monotonic()
    seeds = options.seeds or USUAL_SEEDS
    failed: list[tuple[Plan, Outcome]] = []
    calls: Counter[str] = Counter()
    faults: Counter[Fault] = Counter()
    virtual, operations, deployments, shown = 0.0, 0, 0, began
    for count, (plan, outcome) in enumerate(
        runner.run_all(_plans(options, options.first, seeds), options.processes), start=1
    ):
        calls.update(outcome.calls)
        faults.update(outcome.faults)
        virtual, operations = virtual + outcome.virtual_s, operations + outcome.operations
        deployments += outcome.deployed
        now = time.monotonic()
        if now - shown >= 5:
            shown = now
            print(f"{count} histories, {count / (now - began):.1f} a second", file=sys.stderr, flush=True)
        if seeds == 1:
            print(f"digest of the history: {outcome.digest}")
        if options.history and seeds == 1:
            options.history.write_text("\n".join(outcome.lines))
        if outcome.problems:
            failed.append((plan, outcome))
    if found := _first(failed):
        return _report(runner, *found, options)
    seconds = time.monotonic() - began
    print(f"{seeds} histories without a failure in {seconds:.0f} s, {seeds / seconds:.1f} a second")
    print(f"{operations} requests of clients, {calls.total()} calls of AWS and functions, {virtual / YEAR_S:.2f} years")
    print(f"{deployments} histories had a deployment")
    print("faults: " + (", ".join(f"{kind} {count}" for kind, count in sorted(faults.items())) or "none"))
    return 0


def _report(runner: Runner, plan: Plan, outcome: Outcome, options: argparse.Namespace) -> int:
    print(f"seed {plan.seed} fails:")
    print("\n".join(f"  {problem}" for problem in outcome.problems))
    plan, outcome = runner.shorten(plan, outcome)
    print("shortened:")
    print("\n".join(table(outcome)))
    print(f"to repeat it: {_command(plan)}")
    if options.history:
        options.history.write_text("\n".join(outcome.lines))
    return 1


def _find_planted(options: argparse.Namespace) -> int:
    """Look for planted faults, as many at once as there are processors. Returns 0 if each is found."""
    is_known = options.planted == "known"
    chosen = [each for each in PLANTED if is_known or options.planted in ("all", each.name)]
    if not chosen:
        print(f"there is no planted fault named {options.planted}", file=sys.stderr)
        return 2
    at_once = min(options.processes, len(chosen))
    # Once for all of them: each fault has a process of its own.
    _previous_hosts()
    running, are_found = set[int](), True
    while chosen or running:
        if chosen and len(running) < at_once:
            each = chosen.pop(0)
            first, within = (each.seed, KNOWN_WITHIN) if is_known else (options.first, PLANTED_WITHIN)
            plans = _plans(options, first, options.seeds or within, each.focus)
            running.add(_start_to_find(each, plans, options.processes // at_once))
        else:
            pid, status = os.wait()
            running.remove(pid)
            are_found = are_found and status == 0
    return 0 if are_found else 1


def _start_to_find(planted: Planted, plans: Iterable[Plan], processes: int) -> int:
    """Look for a planted fault in another process. It must break the promise that it is planted to break."""
    began = time.monotonic()
    pid = os.fork()
    if pid:
        return pid
    found = Runner(planted).first_failure(plans, processes)
    promises = planted.promise.split(" or ")
    told = [problem for problem in found[1].problems if problem.partition(":")[0] in promises] if found else []
    result = (
        f"seed {found[0].seed}: {told[0][:150]}" if found and told else f"NOT FOUND {found and found[1].problems[:2]}"
    )
    print(f"{planted.name}\n    {result} ({time.monotonic() - began:.0f} s)", flush=True)
    os._exit(0 if told else 1)


def _first(failed: Iterable[tuple[Plan, Outcome]]) -> tuple[Plan, Outcome] | None:
    """The one with the smallest seed."""
    return min(failed, key=lambda each: int(each[0].seed), default=None)


def _promise(outcome: Outcome) -> str:
    return outcome.problems[0].partition(":")[0]


def _fewer(present: int, attempt: object) -> None:
    """Look for the least number that still fails, by halving."""
    assert callable(attempt)
    least, most = 1, present
    while least < most:
        middle = (least + most) // 2
        if attempt(middle):
            most = middle
        else:
            least = middle + 1


def table(outcome: Outcome) -> list[str]:
    """The findings, and the lines of the history about what the first one names and about what went wrong.

    Each id has a short name, such as `cust-1`. Responses to clients are only their status.
    """
    names = [match[0] for match in re.finditer(rf"{_ID.pattern}|\bop\d+\b", outcome.problems[0])]
    kept = re.compile(r"  (killed|frozen|timed out|deployment|no more faults)")
    about = [line for line in outcome.lines if any(name in line for name in names) or kept.search(line)]
    left_out = about[MOST_LINES:]
    short: dict[str, str] = {}

    def readable(line: str) -> str:
        for found in _ID.finditer(line):
            number = 1 + sum(name.startswith(found[1]) for name in short.values())
            short.setdefault(found[0], f"{found[1]}-{number}")
        line = _ID.sub(lambda found: short[found[0]], line)
        line = _QUEUE.sub(lambda found: found[1].lower(), line)
        return re.sub(r"  (\d{3})  \{.*", r"  \1", line)[:MOST_CHARACTERS]

    findings = [f"  {readable(problem)}" for problem in outcome.problems]
    head = f"{'seconds':>12}  {'task':22}  call or request, what it is about, and the result"
    more = [f"… {len(left_out)} more"] if left_out else []
    return [*findings, head, *map(readable, about[:MOST_LINES]), *more]


def _command(plan: Plan) -> str:
    only = None if plan.only is None else ",".join(plan.only) or "none"
    options = {
        "focus": plan.focus,
        "clients": plan.clients,
        "steps": plan.steps,
        "faults": only,
        "most-faults": plan.most_faults,
    }
    given = "".join(f" --{name} {value}" for name, value in options.items() if value is not None)
    given += "" if plan.deployed else " --no-deployment"
    return f"python -m tests.simulation --seeds 1 --first {plan.seed}{given}"
