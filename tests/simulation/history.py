"""One history: a seed, its world, its clients, and what the checker found."""

from __future__ import annotations

import hashlib
import os
import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.simulation import canary, checker, deployment, desk, scheduler
from tests.simulation.clients import EVERYTHING, FOCUSES, Client, Load, Scope
from tests.simulation.faults import Fault, Faults
from tests.simulation.hosts import Host
from tests.simulation.scheduler import MICROSECONDS, Stuck
from tests.simulation.world import MOST_SWITCHES, MOST_SWITCHES_AT_REST, QUIET_WITHIN_S, START, World, prepare

USUAL_LIMITS, LOW_LIMITS = (100, 5000), (4, 20)
"""The rate limits of a key: requests in a second and in a minute."""
FOCUSED = 0.3
"""The share of histories that are about something."""
WITH_CANARY = 0.1
"""The share of histories in which the canary runs, besides those that are about it."""
WITH_LOG = 0.1
"""The share of histories with a log of requests, besides those that are about it."""
FEWEST_STEPS, MOST_STEPS = 2, 40
"""The steps of each client of a history."""


@dataclass(frozen=True)
class Plan:
    """What a history consists of. A failing one is shortened by fewer clients, steps and faults."""

    seed: str
    clients: int | None = None
    steps: int | None = None
    only: Collection[Fault] | None = None
    most_faults: int | None = None
    focus: str | None = None
    """The name of what it is about. By default, the seed draws that."""
    deployed: bool = True
    """Whether it may have a deployment."""


@dataclass
class Outcome:
    """What came of a history."""

    problems: list[str]
    digest: str = ""
    operations: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    faults: Counter[Fault] = field(default_factory=Counter)
    virtual_s: float = 0
    clients: int = 0
    steps: int = 0
    deployed: bool = False
    lines: list[str] = field(default_factory=list)


def run(plan: Plan, hosts: list[Host], sqs: Any) -> Outcome:
    """Run a history in this process, which can run no other afterwards."""
    world: World | None = None
    prepare(plan.seed, lambda: world.now if world else START / MICROSECONDS)
    draw = random.Random(f"{plan.seed}/load")
    drawn = draw.choice(list(FOCUSES)) if draw.random() < FOCUSED else None
    focus = FOCUSES.get(plan.focus or drawn or "", EVERYTHING)
    faults = Faults(plan.seed, plan.only, plan.most_faults, focus.rates)
    chance = random.Random(f"{plan.seed}/canary")
    runs = chance.randint(1, 3) if focus.canary or chance.random() < WITH_CANARY else 0
    replaced = deployment.drawn(plan.seed, focus.deployed if plan.deployed else 0)
    fewest = max(focus.hosts, canary.HOSTS if runs else 1)
    world = World(plan.seed, hosts, sqs, faults, replaced, fewest)
    scheduler.use(world.scheduler)
    world.lines.start(share=1 if focus.log else WITH_LOG)
    if focus.carrier:
        world.call_people(at_once=draw.randint(1, 3))
    limits, share = draw.choice((USUAL_LIMITS, USUAL_LIMITS, LOW_LIMITS)), draw.choice((1, 2, 50))
    load = Load(hot=draw.choice((1, 2, 6)), limits=limits, share=share)
    os.environ["TURNS_PER_PROJECT"] = str(share)
    count, steps = _size(draw)
    count, steps = focus.size or (count, steps)
    count, steps = min(count, plan.clients or count), min(steps, plan.steps or steps)
    linger = draw.choice((0, 60, 3600, 40_000))
    findings: list[str] = []
    state = {"phase": "load"}

    def rest() -> None:
        end, most = world.now + QUIET_WITHIN_S, world.scheduler.switches + MOST_SWITCHES_AT_REST
        while not world.is_quiet():
            if world.scheduler.switches > most or world.now > end:
                findings.append("9.1/7.5/8.6: the service does not come to rest")
                break
            world.scheduler.sleep(30)
        world.note("quiet")

    def direct() -> None:
        faults.on = False
        load.scopes = [
            _new_scope(world, project, live, draw.choice((5, 60, 600)))
            for project, live in ((1, False), (1, True), (2, False))
        ]
        together = draw.choice(load.scopes) if draw.random() < 0.6 else None
        if focus.live:
            together = load.scopes[1]
        people = desk.invite(plan.seed, [together] * 3 if together else load.scopes, world, load) if focus.pages else []
        world.limit_requests(*load.limits)
        faults.on = True
        world.canary.start(runs)
        load.left = count + len(people)
        for number in range(count):
            scope = together or draw.choice(load.scopes)
            client = Client(plan.seed, number, scope, world, load, focus)
            world.scheduler.spawn(f"client {number}", partial(client.run, steps))
        for number, person in enumerate(people):
            world.scheduler.spawn(f"person {number}", partial(person.run, steps))
        while load.left:
            world.scheduler.sleep(5)
        world.scheduler.sleep(linger)
        faults.on = False
        world.note("no more faults")
        world.limit_requests(*USUAL_LIMITS)
        # A host remembers until the end of the minute, or of the next one, that a key has reached its limit.
        world.scheduler.sleep(125)
        state["phase"] = "rest"
        rest()
        if runs:
            world.canary.run_until_passed()
            rest()
        findings.extend(checker.check(world, load))
        state["phase"] = "done"

    world.start()
    world.scheduler.spawn("director", direct)
    try:
        world.scheduler.run(lambda: state["phase"] == "done", MOST_SWITCHES)
    except Stuck as stuck:
        findings.append(f"stuck in the phase {state['phase']}: {stuck}")
    return Outcome(
        problems=findings + world.errors,
        digest=hashlib.sha256("\n".join(world.history).encode()).hexdigest()[:16],
        operations=len(load.operations),
        calls=world.calls,
        faults=faults.injected,
        virtual_s=world.now - START / MICROSECONDS,
        clients=count,
        steps=steps,
        deployed=replaced is not None,
        lines=world.history,
    )


def _size(draw: random.Random) -> tuple[int, int]:
    """How many clients a history has, and how many steps each of them takes.

    Most histories are small, because a fault needs few steps if they are the right ones; one in thirty is large.
    """
    count = draw.choices((2, 3, 4, 5), (4, 3, 2, 1))[0]
    return count, min(MOST_STEPS, round(FEWEST_STEPS * draw.paretovariate(1.3)))


def _new_scope(world: World, project: int, live: bool, ends_in_s: float) -> Scope:
    """A project with this number, and keys of one of its modes."""
    ends_at = world.now + ends_in_s

    def create(host: Host) -> list[str]:
        host.module("shared.projects.projects").ensure(project, f"Project {project}")
        api_keys = host.module("shared.projects.api_keys")
        create_key = api_keys.creation if host.previous else api_keys.create
        terms: list[dict[str, Any]] = [{}, {"read_only": True}, {"valid_until": round(ends_at * 1000)}]
        made = [create_key(project, live, "simulation", **each) for each in terms]
        change = host.module("shared.store.transactions").Change(
            None, [write for each in made for write in each.writes]
        )
        host.commit(lambda: change, "operator")
        return [(each if host.previous else each.doc).plaintext for each in made]

    key, reading, ending = world.operate("operator", create).result
    return Scope(project, live, key, reading, ending, ends_at)
