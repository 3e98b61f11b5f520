"""What a stage can sustain: for a load, the need of each part, what the part has, what breaks first, and what to raise.

    python -m infra.capacity [STAGE]          prints the tables for a stage of cdk.json, by default `prod`

The needs follow from the counted units and the measured CPU times of `infra.costs`, for the mix of operations in its
example. What a part has is a setting of the stage, or a default quota of AWS in us-east-1. A need is an average over
seconds: a load with peaks needs the capacity of its peaks. `tests/unit/test_capacity.py` holds the stated goals.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from infra import costs, topology
from infra.costs import MILLION
from infra.topology import QueueSource
from shared.core import limits

SETTINGS = Path(__file__).parents[1] / "cdk.json"
LOADS = (100, 1_000, 10_000, 100_000)
"""Requests per second."""
CALL_S = 90
"""The length of a live call, an assumption."""
MESSAGE_TOKENS = 3_000
"""Tokens of the model for one message, input and output together, an assumption."""
PARTITION_WRITES = 1_000
"""Write units per second of one partition (DynamoDB developer guide, "Designing partition keys")."""
TABLE_UNITS = 40_000
"""Write and read units per second of an on-demand table (DynamoDB developer guide, "Quotas")."""
EXECUTIONS = 1_000
"""Concurrent executions of an account (Lambda developer guide, "Lambda quotas"). A new account may have only 10."""
LARGER_EXECUTIONS = 3_000
"""The quota from which every function can have a reservation."""
UNRESERVED = 100
"""Executions of an account that Lambda reserves for no function (Lambda developer guide, "Reserved concurrency")."""
ADDED_EXECUTIONS = 1_000
"""Executions that Lambda adds to a function in ten seconds (Lambda developer guide, "Lambda scaling behavior")."""
GATEWAY_REQUESTS = 10_000
"""Requests per second of an account (API Gateway developer guide, "Quotas"). Some regions have 2,500."""
OPEN_EXECUTIONS = 1_000_000
"""Open executions of an account in a region. A new one beyond them fails with ExecutionLimitExceeded (Step Functions
developer guide, "Step Functions service quotas":
docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html)."""
SHORTEST_TIMER_S = min(wait for wait in limits.RETRY_SCHEDULE_S if wait > limits.LONGEST_QUEUE_DELAY_S)
"""The shortest wait for an attempt that a state machine keeps (seconds)."""
RECEIVERS_MS = (50, 200, 500, 1_000, 2_000)
"""Times in which receivers respond."""
FIRST_ATTEMPTS = 1_500
"""First attempts per second, the goal of a stage."""
OUTAGE_S, OUTAGE_EVENTS = 3_600, limits.REQUESTS_PER_SECOND
"""An outage of a busy receiver: how long it takes, and the events per second."""
MACHINE_STARTS = 300
"""Executions of state machines started per second (Step Functions developer guide, "Quotas")."""
DUE_WRITES = 2
"""Writes to the index `by_due` for each scheduled step: one when it is scheduled, and one when it is done."""
NEW_TABLE_PARTITIONS = 4
"""Partitions of a new on-demand table, and so shards of its stream (DynamoDB developer guide, "On-demand capacity")."""
EVENT_CPU_MS = 3
"""CPU time of `fan_out` for one event of a full batch, on a whole core (functions/DECISIONS.md)."""
ROW_UNITS = 4
"""Write units of a resource's row of up to 2 KB in a transaction."""


RESERVED_OF_API = {
    "appointments": 350, "customers": 260, "conversations": 200, "sessions": 200, "events": 150,
    "webhook_endpoints": 60, "admin": 60, "ping": 40, "agent_settings": 20, "fallback": 30,
    "canary_receiver": 5, "canary": 1, "request_log": 7, "messages": 750, "voice_turn": 150,
}  # fmt: skip
"""Reservations at the larger quota, of functions that answer clients."""
RESERVED_OF_DELIVER = 320
"""The one of `deliver` at the larger quota, with which it makes `FIRST_ATTEMPTS` to receivers that take a second. The
others keep those of the stage."""


@dataclass(frozen=True)
class Load:
    """Operations per second, by their names in `costs.WORK`."""

    requests: float
    rates: Mapping[str, float]

    def total(self, units: Callable[[costs.Work], float]) -> float:
        """The units per second of all operations."""
        return sum(rate * units(costs.WORK[name]) for name, rate in self.rates.items())

    @property
    def executions(self) -> float:
        """Concurrent executions of all functions."""
        return self.total(seconds)

    @property
    def changes(self) -> float:
        """Stream records per second that reach `fan_out`."""
        return self.total(lambda work: work.runs.get("fan_out", 0))

    @property
    def attempts(self) -> float:
        """Attempts of deliveries per second."""
        return self.total(lambda work: work.runs.get("deliver", 0))

    @property
    def scheduled(self) -> float:
        """Steps that are scheduled per second: attempts, turns, and about four steps of each call."""
        return self.attempts + self.rates.get("model_message", 0) + 4 * self.rates.get("call", 0)


@dataclass(frozen=True)
class Part:
    """One part of the stage: what it needs for a load, and what it has, both in `unit`.

    `has` is None if every account has its own quota. `remedy` names the setting or the quota to raise.
    """

    name: str
    unit: str
    need: Callable[[Load], float]
    has: float | None
    remedy: str


def load(requests: float) -> Load:
    """The load of `requests` per second with the mix of `costs.EXAMPLE`."""
    sent = sum(count * costs.WORK[name].requests for name, count in costs.EXAMPLE.items())
    return Load(requests, {name: requests * count / sent for name, count in costs.EXAMPLE.items()})


def seconds(work: costs.Work) -> float:
    """The duration of all invocations of an operation."""
    return costs.gb_seconds(work) * 1024 / costs.MEMORY_MB


def parts(stage: Mapping[str, Any]) -> Sequence[Part]:
    """The parts of a stage with these settings of cdk.json."""
    connect = stage.get("connect") or {}
    return [
        Part(
            "API Gateway: requests of the account", "per second", lambda on: on.requests, GATEWAY_REQUESTS,
            "quota L-8A5B8E43 of API Gateway",
        ),
        Part(
            "API Gateway: requests of the stage", "per second", lambda on: on.requests, stage["requests_per_second"],
            "setting `requests_per_second`",
        ),
        Part(
            "API Gateway: messages", "per second", lambda on: on.rates["model_message"], stage["messages_per_second"],
            "setting `messages_per_second`",
        ),
        Part(
            "Lambda: all functions", "executions", lambda on: on.executions, EXECUTIONS,
            "quota L-B99A9384 of Lambda",
        ),
        *_functions(stage.get("reserved_concurrency", {})),
        Part(
            "DynamoDB: writes", "units per second", lambda on: on.total(lambda work: work.writes), TABLE_UNITS,
            "quota for the write throughput of a table",
        ),
        Part(
            "DynamoDB: reads", "units per second", lambda on: on.total(lambda work: work.reads), TABLE_UNITS,
            "quota for the read throughput of a table",
        ),
        Part(
            "DynamoDB: index of scheduled steps", "writes per second", lambda on: on.scheduled * DUE_WRITES,
            stage.get("due_shards", topology.DUE_SHARDS) * PARTITION_WRITES, "setting `due_shards`, up to 64",
        ),
        Part(
            "Step Functions: timers of retries", "starts per second", lambda on: on.rates["machine_retry"],
            MACHINE_STARTS, "quota for StartExecution",
        ),
        Part(
            "Step Functions: open timers of retries", "executions",
            # Most are the first ones of their delivery.
            lambda on: on.rates["machine_retry"] * SHORTEST_TIMER_S,
            OPEN_EXECUTIONS, "quota for open executions; without a timer, `sweep` sends the wake-up within minutes",
        ),
        Part(
            "Amazon Connect: calls started", "per second", lambda on: on.rates["call"],
            connect.get("starts_per_second", limits.CONNECT_STARTS_PER_SECOND),
            "quota for StartOutboundVoiceContact, then setting `connect.starts_per_second`",
        ),
        Part(
            "Amazon Connect: active calls", "calls", lambda on: on.rates["call"] * CALL_S,
            connect.get("active_calls", limits.CONNECT_ACTIVE_CALLS),
            "quota for concurrent active calls, then setting `connect.active_calls`",
        ),
        Part(
            "Bedrock: tokens of the model", "per minute", lambda on: on.rates["model_message"] * MESSAGE_TOKENS * 60,
            None, "quota of the model for tokens per minute",
        ),
    ]  # fmt: skip


def _functions(reserved: Mapping[str, int]) -> list[Part]:
    """The functions with a limit of their own: reserved concurrency, or the concurrency of a queue."""
    queues = {source.queue: source for function in topology.FUNCTIONS for source in function.queues}
    raise_queue = "`concurrency` of the queue in `topology.py`, then setting `reserved_concurrency.deliver`"
    raise_first = "setting `reserved_concurrency.deliver`, which gives first attempts what the other queues leave"
    return [
        Part(
            "Lambda: `messages`", "executions",
            lambda on: on.rates["model_message"] * seconds(costs.WORK["model_message"]),
            reserved.get("messages", EXECUTIONS), "setting `reserved_concurrency.messages`",
        ),
        Part(
            "Lambda: `fan_out`", "executions", lambda on: on.changes / changes_of_execution(),
            reserved.get("fan_out", EXECUTIONS),
            "setting `reserved_concurrency.fan_out`; each stream shard has ten, and DynamoDB adds shards with the load",
        ),
        Part(
            "Lambda: first attempts", "executions",
            lambda on: on.rates["delivery"] / attempts_of_execution(queues["deliveries"]),
            first_executions(reserved), raise_first,
        ),
        Part(
            "Lambda: later attempts", "executions",
            lambda on: (on.attempts - on.rates["delivery"]) / attempts_of_execution(queues["retries"]),
            queues["retries"].concurrency, raise_queue,
        ),
    ]  # fmt: skip


def attempts_of_execution(source: QueueSource, receiver_ms: int = costs.RECEIVER_MS) -> float:
    """Attempts per second of one execution of `deliver`, to receivers that respond in `receiver_ms`.

    The attempts of its batch wait concurrently, for the slowest of them, and share one CPU.
    """
    work = costs.WORK["delivery"]
    waits, cpu = receiver_ms + work.calls * costs.CALL_MS, _cpu_ms(costs.CPU_MS["deliver"])
    return source.batch_size * 1_000 / (waits + source.batch_size * cpu)


def first_executions(reserved: Mapping[str, int]) -> int:
    """Executions of `deliver` for first attempts, with these reservations."""
    [deliver] = [function for function in topology.FUNCTIONS if function.name == "deliver"]
    return deliver.concurrency(_first_queue(), reserved.get("deliver"))


def _first_queue() -> QueueSource:
    [deliver] = [function for function in topology.FUNCTIONS if function.name == "deliver"]
    return deliver.queues[0]


@dataclass(frozen=True)
class Outage:
    """What an outage of a receiver causes. `dollars` are those of all later attempts, `timers` included.

    `failed`: deliveries whose first attempt fails. `attempts`: later attempts until each delivery succeeds. `timers`:
    executions of the state machine. `most_open`: the most of them at once.
    """

    failed: int
    attempts: int
    timers: int
    most_open: int
    dollars: float


def outage(seconds: int = OUTAGE_S, events: int = OUTAGE_EVENTS) -> Outage:
    """An outage of a receiver that refuses connections, with so many events per second."""
    waits = {False: 0, True: 0}
    changes: Counter[int] = Counter()
    for began in range(seconds):
        at = began
        for wait in limits.RETRY_SCHEDULE_S[1:]:
            if at >= seconds:
                break
            timed = wait > limits.LONGEST_QUEUE_DELAY_S
            waits[timed] += events
            if timed:
                changes.update({at: events, at + wait: -events})
            at += wait
    spent = {"queue_retry": waits[False], "machine_retry": waits[True]}
    return Outage(
        failed=seconds * events,
        attempts=sum(waits.values()),
        timers=waits[True],
        most_open=max(accumulate(changes[at] for at in sorted(changes))),
        dollars=sum(count * sum(costs.cost(costs.WORK[name]).values()) for name, count in spent.items()),
    )


def changes_of_execution() -> float:
    """Events per second of one execution of `fan_out`, which the CPU limits."""
    return 1_000 / _cpu_ms(EVENT_CPU_MS)


def _cpu_ms(on_whole_core: float) -> float:
    return on_whole_core * costs.WHOLE_CORE_MB / costs.MEMORY_MB


def ceilings(stage: Mapping[str, Any]) -> Mapping[str, float]:
    """What a stage sustains at the default quotas of DynamoDB, by the part that limits it first.

    The quota of concurrent executions must allow the stage's reservations. A project with more has several keys.
    """
    [stream] = [function.stream for function in topology.FUNCTIONS if function.stream]
    shards = stage.get("due_shards", topology.DUE_SHARDS)
    event_writes, delivery_writes = costs.WORK["create"].writes, costs.WORK["delivery"].writes
    return {
        "events per second, `fan_out` in a new table's shards": (
            changes_of_execution() * stream.parallel * NEW_TABLE_PARTITIONS
        ),
        "events per second, `fan_out` with its reserved concurrency": (
            changes_of_execution() * stage.get("reserved_concurrency", {}).get("fan_out", EXECUTIONS)
        ),
        f"first attempts per second to receivers that respond within {costs.RECEIVER_MS} ms, executions": (
            attempts_of_execution(_first_queue()) * first_executions(stage.get("reserved_concurrency", {}))
        ),
        "deliveries per second, index of scheduled steps": shards * PARTITION_WRITES / DUE_WRITES,
        "events per second with 1.5 deliveries each, writes of the table": (
            TABLE_UNITS / (event_writes + 1.5 * delivery_writes)
        ),
        "executions that Lambda adds to one function in ten seconds": ADDED_EXECUTIONS,
        "live messages per second from a standing start, executions added in ten seconds": (
            ADDED_EXECUTIONS / seconds(costs.WORK["model_message"])
        ),
        "requests per second of one API key": limits.REQUESTS_PER_SECOND,
        "changes per second of one kind in one project": PARTITION_WRITES / ROW_UNITS,
    }


def breaking(stage: Mapping[str, Any], on: Load) -> list[Part]:
    """The parts that lack something at this load. The first is the one that breaks first as the load grows."""
    known = [(part.need(on) / part.has, part) for part in parts(stage) if part.has is not None]
    return [part for share, part in sorted(known, key=lambda pair: -pair[0]) if share > 1]


def reservations(stage: Mapping[str, Any]) -> Mapping[int, Mapping[str, int]]:
    """The reserved concurrency of functions by the account's quota: that of the stage, and one for the larger quota."""
    reserved = stage.get("reserved_concurrency", {})
    return {EXECUTIONS: reserved, LARGER_EXECUTIONS: {**reserved, **RESERVED_OF_API, "deliver": RESERVED_OF_DELIVER}}


def _receivers(stage: Mapping[str, Any]) -> str:
    """The table of first attempts by the time in which receivers respond."""
    queue = _first_queue()
    each = [attempts_of_execution(queue, receiver_ms) for receiver_ms in RECEIVERS_MS]
    needed = [math.ceil(FIRST_ATTEMPTS / rate) for rate in each]
    seconds = [queue.batch_size / rate * costs.MEMORY_MB / 1024 / queue.batch_size for rate in each]
    rows = [["first attempts per second of one execution, with full batches", *(f"{rate:.1f}" for rate in each)]]
    for quota, reserved in reservations(stage).items():
        executions = first_executions(reserved)
        rows.append(
            [f"with the reservations for a quota of {quota:,} ({executions} executions), per second"]
            + [f"{executions * rate:,.0f}" for rate in each]
        )
    own = first_executions(stage["reserved_concurrency"])
    others = stage["reserved_concurrency"]["deliver"] - own
    rows += [
        [f"executions for {FIRST_ATTEMPTS:,} per second", *map(str, needed)],
        ["`reserved_concurrency.deliver` for that", *(str(others + n) for n in needed)],
        ["quota of executions for that, all else as it is", *(f"{EXECUTIONS - own + n:,}" for n in needed)],
        ["Lambda, dollars for a million", *(f"{MILLION * costs.priced(gb_second=s, run=0.1):.2f}" for s in seconds)],
    ]
    heads = ("receivers respond within", *(f"{receiver_ms:,} ms" for receiver_ms in RECEIVERS_MS))
    return costs.table(heads, rows)


def _outage() -> str:
    """The table of an outage."""
    found = outage()
    of_timers = found.timers * costs.cost(costs.WORK["machine_retry"])["Step Functions"]
    rows = [
        ["deliveries that fail at first", f"{found.failed:,}"],
        ["later attempts until all have succeeded", f"{found.attempts:,}"],
        ["timers of the state machine", f"{found.timers:,}"],
        [f"timers open at once, of {OPEN_EXECUTIONS:,}", f"{found.most_open:,}"],
        ["such receivers at once before timers are refused", f"{OPEN_EXECUTIONS // found.most_open}"],
        ["dollars for all of it", f"{found.dollars:,.2f}"],
        [
            "of that, for Step Functions",
            f"{of_timers:,.2f}",
        ],
    ]
    return costs.table((f"an hour's outage of a receiver of {OUTAGE_EVENTS} events per second", "count"), rows)


def _reserved(stage: Mapping[str, Any]) -> str:
    """The table of reservations, and what they trade."""
    small, large = found = list(reservations(stage).values())
    names = [function.name for function in topology.FUNCTIONS]
    rows = [[f"`{name}`", *(str(reserved.get(name, "shared")) for reserved in found)] for name in names]
    left, _ = unreserved = [EXECUTIONS - sum(small.values()), LARGER_EXECUTIONS - sum(large.values())]
    rows.append([f"unreserved, of which Lambda requires {UNRESERVED}", *map(str, unreserved)])
    heads = ("reserved executions, by quota", f"{EXECUTIONS:,}", f"{LARGER_EXECUTIONS:,}")
    of_key = limits.REQUESTS_PER_SECOND * seconds(costs.WORK["retrieve"])
    traded = (
        f"A reservation is also a ceiling, and no other function may use it. With a quota of {EXECUTIONS:,}, the"
        f" functions without one share {left} executions, so a busy one can throttle the others. Divided among them,"
        f" they would leave some with too few for a single key: one that sends {limits.REQUESTS_PER_SECOND} quick"
        f" requests a second uses {of_key:.1f}, and one that asks for slow lists uses many more. With"
        f" {LARGER_EXECUTIONS:,}, each function has its own."
    )
    return f"{costs.table(heads, rows)}\n\n{textwrap.fill(traded, 130)}"


def markdown(stage: Mapping[str, Any]) -> str:
    """The tables: the mix, the need of each part for each load, what breaks first, and the reservations."""
    loads = [load(requests) for requests in LOADS]
    mix = [[costs.WORK[name].about, f"{rate * 100:.3g} %"] for name, rate in load(1).rates.items()]
    needs = []
    for part in parts(stage):
        has = "by account" if part.has is None else f"{part.has:,.0f}"
        needs.append([f"{part.name}, {part.unit}", has, *(_share(part, on) for on in loads), part.remedy])
    breaks = [
        [f"{on.requests:,.0f}", "; ".join(part.name for part in breaking(stage, on)) or "nothing"] for on in loads
    ]
    most = [[what, f"{limit:,.0f}"] for what, limit in ceilings(stage).items()]
    heads = ("part", "has", *(f"{on.requests:,.0f} requests/s" for on in loads), "to raise")
    return "\n\n".join(
        (
            costs.table(("operation", "share of the requests"), mix),
            costs.table(heads, needs),
            costs.table(("requests per second", "breaks, in this order"), breaks),
            costs.table(("what a stage sustains", "at most"), most),
            *([_receivers(stage), _reserved(stage)] if "reserved_concurrency" in stage else []),
            _outage(),
        )
    )


def _share(part: Part, on: Load) -> str:
    need = part.need(on)
    text = f"{need:,.0f}" if need >= 10 else f"{need:.2g}"
    return f"**{text}**" if part.has is not None and need > part.has else text


def main(arguments: Sequence[str]) -> int:
    """Print the tables of a stage. Returns the exit status."""
    stages = json.loads(SETTINGS.read_text(encoding="utf-8"))["context"]["stages"]
    parser = argparse.ArgumentParser(
        prog="python -m infra.capacity",
        description="Print what a stage can sustain: for several loads, the need of each part, what the part has, what "
        "breaks first, and what to raise.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("stage", nargs="?", default="prod", help=f"a stage of cdk.json: {', '.join(stages)}")
    name = parser.parse_args(arguments).stage
    if name not in stages:
        print(f"infra.capacity: cdk.json has no stage {name!r}; its stages are {', '.join(stages)}", file=sys.stderr)
        return 1
    print(markdown(stages[name]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
