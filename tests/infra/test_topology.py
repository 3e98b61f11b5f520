"""The topology as plain data: what it names exists, and AWS can express it."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from infra import topology
from infra.stack import STATE_MACHINES
from infra.topology import Function, StateMachine

ROOT = Path(__file__).parents[2]
ASL_VALIDATOR = ROOT / "node_modules" / ".bin" / "asl-validator"
QUEUE_NAMES = {queue.name for queue in topology.QUEUES}
MACHINE_NAMES = {machine.name for machine in topology.STATE_MACHINES}
PLACEHOLDER = re.compile(r"\$\{queue\.(\w+)}")

each_function = pytest.mark.parametrize("function", topology.FUNCTIONS, ids=lambda function: function.name)
each_machine = pytest.mark.parametrize("machine", topology.STATE_MACHINES, ids=lambda machine: machine.name)


def test_names_are_unique() -> None:
    for things in (topology.FUNCTIONS, topology.QUEUES, topology.STATE_MACHINES, topology.TABLE.indexes):
        assert len({thing.name for thing in things}) == len(things)


@each_function
def test_a_function_names_only_queues_and_machines_that_exist(function: Function) -> None:
    assert {*function.sends} <= QUEUE_NAMES
    assert {source.queue for source in function.queues} <= QUEUE_NAMES
    assert {*function.starts, *function.completes} <= MACHINE_NAMES


@each_function
def test_a_functions_handler_is_in_the_source_tree(function: Function) -> None:
    path = ROOT.joinpath(*function.module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    assert re.search(r"^(def handler\(|handler\s*[:=]|from .* import .*\bhandler\b)", source.read_text(), re.MULTILINE)


@each_function
def test_a_function_has_a_way_to_be_started(function: Function) -> None:
    starts = (function.routes, function.queues, function.stream, function.every_s, function.bot, function.reads_logs)
    assert any(starts)


@each_function
def test_grants_name_single_actions_of_the_right_service(function: Function) -> None:
    assert all(re.fullmatch(r"dynamodb:[A-Z][A-Za-z]+", action) for action in function.table)
    assert all(re.fullmatch(r"kms:[A-Z][A-Za-z]+", action) for action in function.signing_key)
    assert all(re.fullmatch(r"s3:[A-Z][A-Za-z]+", action) for action in function.recordings)
    assert all(re.fullmatch(r"connect:[A-Z][A-Za-z]+", action) for action in function.carrier)


@each_function
def test_a_function_behind_the_gateway_ends_before_the_gateway_gives_up(function: Function) -> None:
    assert not function.routes or function.timeout_s <= 29


@each_function
def test_a_schedule_is_whole_minutes(function: Function) -> None:
    assert not function.every_s or function.every_s % 60 == 0


def test_every_queue_has_one_reader_and_time_for_it() -> None:
    for queue in topology.QUEUES:
        readers = [f for f in topology.FUNCTIONS if queue.name in {source.queue for source in f.queues}]
        assert len(readers) == 1, queue.name
        assert queue.visibility_s >= 6 * readers[0].timeout_s, queue.name


def test_every_queue_and_machine_is_used() -> None:
    senders = (*topology.FUNCTIONS, *topology.STATE_MACHINES)
    fed_by_aws = {queue.name for queue in topology.QUEUES if queue.topic or queue.rules}
    assert {name for sender in senders for name in sender.sends} | fed_by_aws == QUEUE_NAMES
    assert {name for function in topology.FUNCTIONS for name in function.starts} == MACHINE_NAMES


def test_what_waits_for_an_answer_has_one_who_gives_it() -> None:
    waiting = {
        machine.name
        for machine in topology.STATE_MACHINES
        if ".waitForTaskToken" in (STATE_MACHINES / machine.definition).read_text()
    }
    assert waiting == {name for function in topology.FUNCTIONS for name in function.completes}


def test_what_is_reserved_beyond_the_needs_of_all_queues_is_the_first_ones() -> None:
    (deliver,) = (function for function in topology.FUNCTIONS if function.name == "deliver")
    first, *others = deliver.queues
    needed = sum(source.concurrency for source in deliver.queues)
    assert [deliver.concurrency(source, None) for source in deliver.queues] == [
        source.concurrency for source in deliver.queues
    ]
    assert deliver.concurrency(first, needed + 90) == first.concurrency + 90
    assert [deliver.concurrency(source, needed + 90) for source in others] == [each.concurrency for each in others]
    assert deliver.concurrency(first, 100_000) == 1_000, "Lambda accepts no more"


def test_concurrency_of_queue_sources_is_what_lambda_takes() -> None:
    for function in topology.FUNCTIONS:
        for source in function.queues:
            assert 2 <= source.concurrency <= 1000, (function.name, source.queue)


def test_no_batch_is_larger_than_what_one_receive_gives() -> None:
    # The limit of a FIFO queue. A larger batch of a standard queue would need a window, which delays its messages.
    assert all(1 <= source.batch_size <= 10 for function in topology.FUNCTIONS for source in function.queues)


def test_only_one_function_reads_the_stream() -> None:
    # More than two readers of a shard are throttled; the order of events needs exactly one.
    assert sum(function.stream is not None for function in topology.FUNCTIONS) == 1


def test_a_route_belongs_to_one_function() -> None:
    for routes in ([f.routes for f in topology.FUNCTIONS], [f.posts for f in topology.FUNCTIONS]):
        assert Counter(route for each in routes for route in each).most_common(1)[0][1] == 1


def test_the_other_methods_of_a_post_have_a_function() -> None:
    """The gateway answers a method that a resource lacks by itself, with a 403 instead of our 405."""
    routes = {route for function in topology.FUNCTIONS for route in function.routes}
    assert {route for function in topology.FUNCTIONS for route in function.posts} <= routes


def test_a_path_that_leads_to_a_route_is_one_and_so_is_all_below_it() -> None:
    """The gateway has a resource for `/v1` as soon as `/v1/ping` is there; without a method, it fails."""
    routes = {route for function in topology.FUNCTIONS for route in function.routes}
    for route in routes:
        parents = [str(parent) for parent in Path(route).parents]
        for parent in parents:
            assert parent in routes, f"{parent}, above {route}, has no method"
            # Of the two kinds of variable a resource takes one; below `{id}` there is `{id}/{proxy+}` in turn.
            below = {f"{parent.rstrip('/')}/{variable}" for variable in ("{proxy+}", "{id}")}
            assert len(below & routes) == 1, f"unknown paths under {parent} have no method, or two"


def test_an_index_is_keyed_by_attributes_of_its_own_but_for_the_sort_key() -> None:
    hashes = [index.hash_key for index in topology.TABLE.indexes]
    assert len({*hashes}) == len(hashes)
    assert topology.TABLE.hash_key not in hashes
    assert len(topology.TABLE.indexes) <= 20  # the most that a table takes


@each_machine
def test_a_machine_sends_to_the_queues_of_its_line_and_no_others(machine: StateMachine) -> None:
    definition = (STATE_MACHINES / machine.definition).read_text()
    assert {*PLACEHOLDER.findall(definition)} == {*machine.sends}
    assert "${" not in PLACEHOLDER.sub("", definition)


@each_machine
def test_a_machines_definition_is_valid(machine: StateMachine, tmp_path: Path) -> None:
    definition = (STATE_MACHINES / machine.definition).read_text()
    filled = PLACEHOLDER.sub("https://sqs.eu-west-1.amazonaws.com/123456789012/queue", definition)
    assert problems(filled, tmp_path) == ""


WAIT = {"Type": "Wait", "TimestampPath": "$.due_at", "Next": "Done"}


@pytest.mark.parametrize(
    ("states", "problem"),
    [
        ({"Wait": WAIT}, "MISSING_TRANSITION_TARGET"),
        ({"Wait": WAIT, "Done": {"Type": "Succeed"}, "Other": {"Type": "Succeed"}}, "Other is not reachable"),
        ({"Wait": WAIT | {"Type": "Pause"}, "Done": {"Type": "Succeed"}}, "/States/Wait/Type"),
        ({"Wait": WAIT | {"TimestampPath": "due_at"}, "Done": {"Type": "Succeed"}}, "/States/Wait/TimestampPath"),
        ({"Wait": WAIT, "Done": {"Type": "Task", "Resource": "sqs:sendMessage", "End": True}}, "/States/Done/Resource"),
    ],
    ids=["no such state", "unreachable", "no such type", "no path", "no resource"],
)
def test_a_broken_definition_would_be_noticed(states: dict[str, Any], problem: str, tmp_path: Path) -> None:
    assert problem in problems(json.dumps({"StartAt": "Wait", "States": states}), tmp_path)


def problems(definition: str, folder: Path) -> str:
    """What npm's asl-validator has against a state machine: schema, paths, transitions and states never reached."""
    path = folder / "machine.asl.json"
    path.write_text(definition)
    ended = subprocess.run([ASL_VALIDATOR, "--json-path", path], capture_output=True, text=True, check=False)
    return "" if ended.returncode == 0 else ended.stderr
